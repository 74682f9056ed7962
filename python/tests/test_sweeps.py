"""Sweeps: the same bytes whatever computes, in whatever order, and whatever is lost on the way."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import ebb

from .conftest import same_files

SCENARIO = 'mesh = "3x3"\ntraffic = "uniform"\nload = 0.1\nruns = 1\n\n[router]\nkind = "vc"\nvcs = 2\n\n[run]\nwarmup = 200\nsample = 500\nsamples_max = 3\n'
OVER = {"load": "0.05..0.3:0.05", "router.vcs": "1,2"}
WORDS = ["--set", "load=0.05..0.3:0.05", "--set", "router.vcs=1,2"]
ORDER = ("points.jsonl", "stdout")  # Its lines are in the order in which runs were finished.


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def expected(run_command: Callable[..., Path], scenario: Path) -> Path:
    return run_command("sim", "noc", str(scenario), *WORDS)


def lines(place: Path) -> list[str]:
    return sorted((place / "points.jsonl").read_text().splitlines())


def figures(place: Path) -> list[Any]:
    runs = [(run["point"], run["seed"], run["figures"]) for run in map(json.loads, lines(place))]
    return sorted(runs, key=lambda run: run[:2])


def check(result: ebb.SweepResult, place: Path, expected: Path) -> None:
    assert not result.failed
    same_files(expected, place, but=ORDER)
    assert figures(place) == figures(expected)


class Shuffled(Executor):
    """Answers in an order of its own."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.waiting: list[tuple[Future[Any], Any]] = []
        threading.Thread(target=self.work, daemon=True).start()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def work(self) -> None:
        time.sleep(0.1)
        while self.waiting or time.sleep(0.1) is None:
            if self.waiting:
                future, call = self.waiting.pop(self.random.randrange(len(self.waiting)))
                future.set_result(call())


@pytest.mark.parametrize("executor", ["threads here", "processes", "pool", "threads", "shuffled"])
def test_every_executor_gives_the_commands_bytes(
    executor: str, scenario: Path, expected: Path, tmp_path: Path
) -> None:
    place = tmp_path / "python"
    spawn = multiprocessing.get_context("spawn")
    with (
        ThreadPoolExecutor(2) as threads,
        ProcessPoolExecutor(2, mp_context=spawn) as pool,
    ):
        executors = {"processes": 2, "pool": pool, "threads": threads, "shuffled": Shuffled(7)}
        result = ebb.sweep("noc", scenario, over=OVER, executor=executors.get(executor), out=place)
        check(result, place, expected)


def test_seeds_and_until_are_the_commands(
    run_command: Callable[..., Path], scenario: Path, tmp_path: Path
) -> None:
    theirs = run_command(
        "sim", "noc", str(scenario), "--set", "load=0.1,0.2", "--until", "latency_cycles.mean=0.02"
    )
    result = ebb.sweep("noc", scenario, over={"load": [0.1, 0.2]}, until="latency_cycles.mean=0.02",
                       executor=2, out=tmp_path / "python")  # fmt: skip
    check(result, tmp_path / "python", theirs)


def test_a_lost_worker_loses_one_task(scenario: Path, expected: Path, tmp_path: Path) -> None:
    place = tmp_path / "python"
    with ebb.Processes(2) as processes:
        victims = iter([processes.pids[0]])
        submit = processes.submit

        def submit_and_kill(*args: Any) -> Any:
            future = submit(*args)
            for victim in victims:
                os.kill(victim, signal.SIGKILL)
            return future

        processes.submit = submit_and_kill  # type: ignore[assignment]
        result = ebb.sweep("noc", scenario, over=OVER, executor=processes, out=place)
    check(result, place, expected)


def dies(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_pool_that_breaks_is_replaced(scenario: Path, expected: Path, tmp_path: Path) -> None:
    place = tmp_path / "python"
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(dies)
        result = ebb.sweep("noc", scenario, over=OVER, executor=pool, out=place)
    check(result, place, expected)


def test_processes_tell_what_they_lost() -> None:
    with ebb.Processes(1) as processes:
        lost, fine = processes.submit(dies), processes.submit(abs, -3)
        with pytest.raises(ebb.WorkerLost, match="status -9"):
            lost.result(30)
        assert fine.result(30) == 3
        with pytest.raises(ZeroDivisionError):
            processes.submit(divmod, 1, 0).result(30)


class Killing(Executor):
    """Loses every task whose point has this text."""

    def __init__(self, text: str) -> None:
        self.text, self.inner = text, ebb.Processes(2)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        if any(self.text in settings for settings, _ in args[2]):
            return self.inner.submit(dies)
        return self.inner.submit(fn, *args, **kwargs)


PROGRAM = """
import sys
sys.modules["cloudpickle"] = None  # Classes are sent by name.
import ebb

class Fast:
    def begin(self, plant):
        self.point = {"cores": plant.cores, "frequency": plant.frequencies - 1, "depth": "deep"}
    def decide(self, now, seen):
        return {"point": self.point, "idle": "poll"}

def swept(**policy):
    made = ebb.sweep("router", over={"load": [0.1, 0.2]}, duration_s=0.01, executor=2, **policy)
    print(len(made.frame))
"""


def test_a_program_needs_no_guard_but_to_send_what_it_defines(tmp_path: Path) -> None:
    endings = {
        "plain": ("swept()", "2"),
        "guarded": ('if __name__ == "__main__":\n    swept(policy=Fast)', "2"),
        "unguarded": ("swept(policy=Fast)", "freeze_support"),
    }
    for name, (ending, expected) in endings.items():
        program = tmp_path / f"{name}.py"
        program.write_text(PROGRAM + ending + "\n")
        outcome = subprocess.run(
            [sys.executable, program], capture_output=True, text=True, timeout=100, check=False
        )
        assert expected in outcome.stdout + outcome.stderr, (name, outcome.stderr)
        assert (outcome.returncode == 0) == (name != "unguarded"), outcome.stderr


def test_a_poisoned_point_is_reported_and_the_rest_ends(
    scenario: Path, expected: Path, tmp_path: Path
) -> None:
    place = tmp_path / "python"
    killing = Killing('["load",0.15],["router.vcs",1]')
    with pytest.warns(RuntimeWarning, match="1 points failed"):
        result = ebb.sweep("noc", scenario, over=OVER, executor=killing, out=place)
    killing.inner.close()
    (failure,) = result.failed
    assert failure.point == "load=0.15 router.vcs=1" and isinstance(failure.error, ebb.WorkerLost)
    assert len(result.frame) == 11
    whole = ebb.sweep("noc", scenario, over=OVER, executor=2, out=place)
    check(whole, place, expected)


def test_a_point_that_makes_no_sense_names_itself(scenario: Path) -> None:
    with pytest.warns(RuntimeWarning, match="at load=-1"):
        result = ebb.sweep("noc", scenario, over={"load": [0.1, -1.0]}, executor=1)
    (failure,) = result.failed
    assert isinstance(failure.error, ebb.ScenarioError) and failure.error.field == "load"
    with pytest.raises(ebb.ScenarioError, match="load=-1"):
        ebb.sweep("noc", scenario, over={"load": [-1.0, -2.0]}, executor=1)
    with pytest.raises(ebb.ScenarioError, match="load=-1"):
        ebb.sweep("noc", scenario, over={"load": [0.1, -1.0]})


INTERRUPTED = """
import sys, time, ebb
begun = time.monotonic()
def told(done, note):
    if done > 0.25:
        print("go", flush=True)
        time.sleep(60)
ebb.sweep("noc", sys.argv[1], over={"load": "0.05..0.3:0.05", "router.vcs": "1,2"}, executor=2,
          out=sys.argv[2], progress=told)
"""


def test_an_interrupted_sweep_goes_on_elsewhere(scenario: Path, expected: Path, tmp_path: Path) -> None:
    place = tmp_path / "python"
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(scenario), str(place)],
                             stdout=subprocess.PIPE, text=True, start_new_session=True)  # fmt: skip
    assert child.stdout is not None and child.stdout.readline() == "go\n"
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    kept = lines(place)
    assert 0 < len(kept) < 12
    computed = []

    class Counting(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            computed.append(args)
            return super().submit(fn, *args, **kwargs)

    with Counting(2) as pool:
        result = ebb.sweep("noc", scenario, over=OVER, executor=pool, out=place)
    assert len(computed) == 12 - len(kept)
    assert set(kept) <= set(lines(place))
    check(result, place, expected)


def test_a_full_disk_at_the_collector_is_told_and_nothing_is_lost(
    scenario: Path, expected: Path, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24k", "none", str(place)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with pytest.raises(ebb.StudyError, match="No space left"):
            ebb.sweep("noc", scenario, over=OVER, executor=2, out=place)
        kept = set(lines(place))
        subprocess.run(["mount", "-o", "remount,size=8m", str(place)], check=True)
        result = ebb.sweep("noc", scenario, over=OVER, executor=2, out=place)
        check(result, place, expected)
        whole = {line for line in kept if line.endswith("}")}
        assert whole <= set(lines(place))
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_results_stream_to_parquet(scenario: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    place = tmp_path / "python"
    result = ebb.sweep("noc", scenario, over=OVER, executor=2, out=place)
    parts = [pandas.read_parquet(part) for part in sorted((place / "parts").glob("*.parquet"))]
    frame = pandas.concat(parts)
    assert len(frame) == 12 and set(frame["load"]) == {0.05, 0.1, 0.15, 0.2, 0.25, 0.3}
    assert len(pandas.read_parquet(place / "points.parquet")) == len(result.frame) == 12


def test_a_sweep_is_a_grid(scenario: Path) -> None:
    pytest.importorskip("xarray")
    grid = ebb.sweep("noc", scenario, over=OVER).to_xarray()
    assert dict(grid.sizes) == {"load": 6, "router.vcs": 2}
    latency = next(name for name in grid.data_vars if str(name).startswith("latency"))
    assert grid[latency].attrs["units"]


def test_another_build_is_told(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ebb import _sweep

    description = json.dumps({"program": "another"})
    ((kind, text),) = _sweep.compute_points(description, {}, [("[]", 1)])
    assert kind == "failed" and "another build" in text


def test_shards_by_the_command_are_one_sweep(
    command: str, scenario: Path, expected: Path, tmp_path: Path
) -> None:
    parts = [tmp_path / f"part-{number}" for number in (1, 2, 3)]
    for number, part in enumerate(parts, 1):
        words = [command, "sim", "noc", str(scenario), *WORDS, "--shard", f"{number}/3", "--out", str(part)]
        subprocess.run(words, check=True, capture_output=True)
    merged = tmp_path / "merged"
    words = [command, "sweep", "merge", *map(str, parts), "--out", str(merged)]
    subprocess.run(words, check=True, capture_output=True)
    same_files(expected, merged, but=ORDER)
    assert lines(merged) == lines(expected)


def test_short_points_travel_together() -> None:
    scenario = {"configuration": "CS", "kernel": "V5", "workload": "web", "cycles": 1}
    over = {"wakeup_cycles": list(range(300))}
    sent: list[int] = []

    class Counting(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            sent.append(len(args[2]))
            return super().submit(fn, *args, **kwargs)

    alone = ebb.sweep("coreswitch", scenario, over=over)
    with Counting(2) as pool:
        together = ebb.sweep("coreswitch", scenario, over=over, executor=pool)
    assert together.to_csv("points") == alone.to_csv("points")
    assert sum(sent) == 300 and max(sent) > 1 and len(sent) < 200
    with Counting(2) as pool:
        ebb.sweep("coreswitch", scenario, over=over, executor=pool, chunk=100)
    assert sent[-3:] == [100, 100, 100]
