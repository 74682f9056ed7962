"""One run: what goes in, what comes out, byte for byte as the command writes it."""

from __future__ import annotations

import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import ebb

from .conftest import EXAMPLES, ROOT, same_files

NOC = {"mesh": "4x4", "traffic": "uniform", "load": 0.1, "runs": 1,
       "run": {"warmup": 200, "sample": 500, "samples_max": 3}}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "system", "example"),
    [("plan", "noc", "noc-hotspot.toml"), ("sim", "router", "router-second.toml"),
     ("plan", "router", "router-my-traffic.toml"), ("plan", "cluster", "cluster-plan.toml"),
     ("sim", "coreswitch", "coreswitch-web.toml")],
)  # fmt: skip
def test_a_run_writes_what_the_command_writes(
    kind: str, system: str, example: str, run_command: Callable[..., Path], tmp_path: Path
) -> None:
    (study,) = (study for study in ebb.studies() if study.name == f"{kind} {system}")
    short = [text.partition("=")[::2] for text in study.quick]
    words = [word for path, value in short for word in ("--set", f"{path}={value}")]
    settings = {path: tomllib.loads(f"value = {value}")["value"] for path, value in short}
    theirs = run_command(kind, system, f"examples/{example}", *words)
    place = tmp_path / "python"
    run = ebb.sim if kind == "sim" else ebb.plan
    result = run(system, EXAMPLES / example, out=place, **settings)
    same_files(theirs, place, but=("stdout",))
    assert result.html == (theirs / "report.html").read_text()
    assert result.json == (theirs / "report.json").read_text()
    assert (theirs / "stdout").read_text().startswith(result.report)
    for table in result.tables:
        assert result.to_csv(table) == (theirs / f"{table}.csv").read_text()
    saved = result.save(tmp_path / "saved")
    for path in saved.iterdir():
        assert path.read_bytes() == (theirs / path.name).read_bytes(), path.name


def test_a_scenario_is_a_table_a_text_a_path_or_an_object(tmp_path: Path) -> None:
    text = 'mesh = "4x4"\ntraffic = "uniform"\nload = 0.1\nruns = 1\n\n[run]\nwarmup = 200\nsample = 500\nsamples_max = 3\n'
    path = tmp_path / "scenario.toml"
    path.write_text(text)
    results = [ebb.sim("noc", one) for one in (NOC, text, path, str(path), ebb.scenarios.NocSim(**NOC))]
    results.append(ebb.sim("noc", **NOC))
    results.append(ebb.sim("sim noc", {**NOC, "load": 0.9}, load=0.1))
    assert len({str(dict(result.figures)) for result in results}) == 1


def test_settings_are_flags_or_paths(command: str, run_command: Callable[..., Path], tmp_path: Path) -> None:
    example = "noc-sim-uniform.toml"
    words = ["--set", "router.vcs=2", "--set", "runs=1", "--set", "load=0.05", "--seed", "7"]
    theirs = run_command("sim", "noc", f"examples/{example}", *words)
    place = tmp_path / "python"
    ebb.sim("noc", EXAMPLES / example, router__vcs=2, runs=1, load=0.05, seed=7, out=place)
    same_files(theirs, place, but=("stdout",))
    words = ["--mesh", "4x4", "--traffic", "transpose"]
    outcome = subprocess.run(
        [command, "plan", "noc", *words, "--json"], capture_output=True, text=True, check=True
    )
    assert ebb.plan("noc", mesh="4x4", traffic="transpose").json == outcome.stdout


def test_seeds_and_saturation_are_the_commands(run_command: Callable[..., Path], tmp_path: Path) -> None:
    example = "coreswitch-web.toml"
    theirs = run_command("sim", "coreswitch", f"examples/{example}", "--seeds", "3")
    ebb.sim("coreswitch", EXAMPLES / example, seeds=3, out=tmp_path / "python")
    same_files(theirs, tmp_path / "python", but=("stdout", "points.jsonl"))
    found = ebb.sim("noc", NOC, saturation="load=0.1..0.9:0.2")
    assert found.figures["most_stable"] > 0.1


def test_errors_name_file_line_field_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('mesh = "4x4"\ntraffic = "uniform"\n\nlaod = 0.1\n')
    with pytest.raises(ebb.ScenarioError) as caught:
        ebb.sim("noc", path)
    error = caught.value
    assert (error.file, error.line, error.field) == (str(path), 4, "laod")
    assert "load" in error.remedy and str(path) in str(error)
    with pytest.raises(ebb.ScenarioError, match="cannot read the file"):
        ebb.sim("noc", tmp_path / "none.toml")
    with pytest.raises(ebb.ScenarioError) as caught:
        ebb.sim("noc", {**NOC, "load": float("nan")})
    assert caught.value.field == "load"
    with pytest.raises(ebb.UnknownError, match="there is no study"):
        ebb.sim("nock", NOC)
    with pytest.raises(ebb.ScenarioError):
        ebb.sim("noc", 7)
    with pytest.raises(ebb.UnknownError):
        ebb.reproduce("nobody1999")


def test_figures_have_units_and_tables_are_frames() -> None:
    result = ebb.sim("coreswitch", EXAMPLES / "coreswitch-web.toml")
    power = next(name for name in result.figures if name.endswith("_w"))
    assert result.figures.unit(power) == "W"
    with pytest.raises(KeyError, match="no figure"):
        result.figures["no such figure"]
    assert result.tables
    for name, frame in result.tables.items():
        lines = result.to_csv(name).splitlines()
        heads = [f"{c} ({u})" if u else c for c, u in frame.attrs["units"].items()]
        assert ",".join(heads) == lines[0].replace('"', ""), name
        assert len(frame) <= len(lines) - 1
    assert "<table>" in result.figures._repr_html_()
    assert "<iframe" in result._repr_html_() and power in repr(result.figures)


def test_tables_are_grids_over_the_columns_that_name_their_rows() -> None:
    pytest.importorskip("xarray")
    result = ebb.sim("noc", NOC)
    with pytest.raises(ValueError, match="which table"):
        result.to_xarray()
    for name, frame in result.tables.items():
        keys = frame.attrs["keys"]
        if frame.duplicated(keys).any():
            with pytest.raises(ValueError, match="no grid"):
                result.to_xarray(name)
            keys = list(frame.columns[:2])
        grid = result.to_xarray(name, over=keys)
        assert list(grid.sizes) == keys and grid.attrs["title"] == frame.attrs["title"]
        for column, unit in frame.attrs["units"].items():
            assert grid[column].attrs.get("units", "") == unit


def test_plots_are_drawn(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    result = ebb.sim("coreswitch", EXAMPLES / "coreswitch-web.toml")
    for index, plot in enumerate(result.plots):
        figure = result.plot(index)
        assert len(figure.axes) == len(plot["panels"])
        figure.savefig(tmp_path / f"{index}.pdf")
        assert result.plot(plot["title"]).axes
    assert all(svg.startswith("<svg") or "<svg" in svg for svg in result.svg)
    with pytest.raises(KeyError):
        result.plot("no such plot")


def test_data_frames_stand_for_files(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    with (EXAMPLES / "router-my-traffic.toml").open("rb") as file:
        scenario = tomllib.load(file)
    text = (EXAMPLES / "my-traffic.csv").read_text()
    (name,) = (path for path in ("my-traffic.csv",) if path in str(scenario))
    expected = ebb.plan("router", EXAMPLES / "router-my-traffic.toml")
    in_memory = ebb.plan("router", scenario, files={name: text}, directory=tmp_path)
    assert in_memory.figures == expected.figures
    frame = pandas.read_csv(EXAMPLES / "my-traffic.csv", dtype=str, comment="#")

    def replaced(value: object) -> object:
        if isinstance(value, dict):
            return {key: replaced(entry) for key, entry in value.items()}
        return frame if value == name else value

    by_frame = ebb.plan("router", replaced(scenario), directory=tmp_path)
    assert by_frame.figures == expected.figures


def test_progress_is_told_and_the_interpreter_is_free() -> None:
    told: list[tuple[float, str]] = []
    beats = 0
    ended = threading.Event()

    def beat() -> None:
        nonlocal beats
        while not ended.wait(0.005):
            beats += 1

    thread = threading.Thread(target=beat)
    thread.start()
    ebb.sim("noc", {**NOC, "mesh": "8x8", "runs": 20}, progress=lambda done, note: told.append((done, note)))
    ended.set()
    thread.join()
    assert beats > 0 and told
    assert all(0.0 <= done <= 1.0 for done, _ in told)


LONG_RUNS = """
import os, signal, statistics, threading, time
import ebb
from tests.policies import PowerSave
# What a shell starts in the background ignores Ctrl-C, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)

def busy():
    used = os.times()
    return used.user + used.system

def interrupted(run):
    at = []
    def press():
        at.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Timer(0.2, press).start()
    try:
        run()
    except KeyboardInterrupt:
        return time.monotonic() - at[0]
    raise AssertionError("it was not interrupted")

noc = {"mesh": "8x8", "traffic": "uniform", "load": 0.2, "runs": 1000}
runs = [
    lambda: ebb.sim("noc", noc),
    lambda: ebb.sim("router", load=0.4, duration_s=100_000),
    lambda: ebb.sim("router", load=0.4, duration_s=100_000, policy=PowerSave),
    lambda: ebb.sweep("noc", noc, over={"load": [0.1, 0.2]}),
    lambda: ebb.plan("router", load=0.4, duration_s=100_000, simulated_s=10_000),
    lambda: ebb.plan("noc", mesh="8x8", traffic="hotspot", load=0.5, planes=3, bound=True),
]
print(statistics.median(interrupted(run) for run in runs))
# What computed has ended as well: nothing is busy any more.
for _ in range(100):
    begun = busy()
    time.sleep(0.1)
    if busy() - begun < 0.02:
        print("idle")
        break
"""


def test_ctrl_c_ends_a_run_within_a_tenth_of_a_second() -> None:
    outcome = subprocess.run([sys.executable, "-c", LONG_RUNS], capture_output=True, text=True, timeout=100,
                             check=False)  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    seconds, idle = outcome.stdout.split()
    assert float(seconds) < 0.1 and idle == "idle", outcome.stdout


def test_progress_is_a_bar_of_tqdm(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    ebb.sim("noc", {**NOC, "mesh": "8x8", "runs": 20}, progress=True)
    drawn = capsys.readouterr().err
    assert "%|" in drawn and "run " in drawn, drawn


def test_experiments_and_reproduction(command: str, tmp_path: Path) -> None:
    name = ebb.experiments()[0]["id"]
    result = ebb.reproduce(name, quick=True)
    theirs = tmp_path / "theirs"
    words = [command, "reproduce", name, "--quick", "--out", str(theirs)]
    subprocess.run(words, check=True, capture_output=True, cwd=ROOT)
    result.save(tmp_path / "ours")
    assert (tmp_path / "ours/claims.json").read_bytes() == (theirs / "claims.json").read_bytes()
    assert (tmp_path / "ours/report.json").read_bytes() == (theirs / "report.json").read_bytes()
    assert result.claims and result.claims[0]["id"]


def test_a_question_is_answered_as_by_the_command(command: str, tmp_path: Path) -> None:
    words = [command, "fabric", "route", "torus:4x4", "--lanes", "2", "--off", "S5:1"]
    for form in ([], ["--json"]):
        theirs = subprocess.run([*words, *form], check=True, capture_output=True, text=True).stdout
        answer = ebb.ask("fabric route", topology="torus:4x4", lanes=2, off=["S5:1"])
        assert theirs == (answer.json if form else answer.report)
    assert answer.figures["safe"] is True and answer.figures["hops_max"] > 2
    subprocess.run([*words, "--out", str(tmp_path / "tables")], check=True, capture_output=True)
    asked = ebb.scenarios.CheckFabric(tables="tables")
    assert ebb.ask("fabric check", asked, directory=tmp_path).figures["unreachable"] == 0
    with pytest.raises(ebb.ScenarioError, match="no such directory"):
        ebb.ask("fabric check", tables="nowhere", directory=tmp_path)


def test_the_catalogue_is_told() -> None:
    kinds = {study.kind for study in ebb.studies()}
    assert {"sim", "plan", "reproduce"} <= kinds
    schema = ebb.schema("noc")
    assert schema is not None and "load" in schema["properties"]
    study = next(study for study in ebb.studies() if study.name == "plan noc")
    page = study.reference()
    assert page is not None and page == (ROOT / "docs/reference/plan-noc.md").read_text()
    assert set(ebb.__all__) <= set(dir(ebb))
