"""Random scenarios, made from the schemas: what the command writes or how it refuses, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ebb

from .conftest import EXAMPLES, ROOT

FEW = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def value(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """A value that the schema allows, and now and then one that it does not."""
    if "enum" in schema:
        return st.sampled_from([*schema["enum"], "no such word"])
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    high = min(schema.get("maximum", schema.get("exclusiveMaximum", low + 8)), low + 8)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "integer": st.integers(int(low), int(high)),
        "number": st.floats(low, high, allow_nan=False).map(lambda number: round(number, 3)),
        "boolean": st.booleans(),
    }
    return kinds.get(schema.get("type", ""), st.nothing())


def scalars(study: str) -> dict[str, dict[str, Any]]:
    schema = ebb.schema(study)
    assert schema is not None
    plain = {"integer", "number", "boolean"}
    properties: dict[str, dict[str, Any]] = schema["properties"]
    return {
        name: entry for name, entry in properties.items() if "enum" in entry or entry.get("type") in plain
    }


#: What is simulated, on top of which settings are chosen; short, whatever is chosen.
BASES = {
    "coreswitch": (EXAMPLES / "coreswitch-web.toml").read_text(),
    "noc": 'mesh = "2x2"\ntraffic = "uniform"\nload = 0.1\nruns = 1\n[run]\nwarmup = 20\nsample = 50\nsamples_max = 2\n',
}


def chosen(system: str) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    """Values for some of the scalar settings of a system."""
    declared = {name: entry for name, entry in scalars(system).items() if name != "seed"}
    tables = st.fixed_dictionaries({}, optional={name: value(entry) for name, entry in declared.items()})
    return st.tuples(st.just(system), tables)


@FEW
@given(st.one_of([chosen(system) for system in BASES]))
def test_random_scenarios_give_the_commands_bytes(command: str, drawn: tuple[str, dict[str, Any]]) -> None:
    system, settings = drawn
    if "cycles" in settings:
        settings["cycles"] = min(settings["cycles"], 200)
    words = [word for path, setting in settings.items() for word in ("--set", f"{path}={written(setting)}")]
    with TemporaryDirectory() as place:
        scenario = Path(place, "scenario.toml")
        scenario.write_text(BASES[system])
        theirs = subprocess.run(
            [command, "sim", system, str(scenario), *words, "--out", f"{place}/theirs"],
            capture_output=True, text=True, cwd=ROOT, check=False,
        )  # fmt: skip
        try:
            ebb.sim(system, scenario, out=f"{place}/ours", **settings)
        except ebb.ScenarioError as error:
            assert theirs.returncode == 2, theirs.stderr
            assert f"ebb: {error}" == theirs.stderr.strip()
            return
        assert theirs.returncode == 0, theirs.stderr
        for path in Path(place, "theirs").iterdir():
            assert path.read_bytes() == Path(place, "ours", path.name).read_bytes(), path.name


def written(setting: Any) -> str:
    return str(setting).lower() if isinstance(setting, bool) else str(setting)


@FEW
@given(
    st.dictionaries(st.sampled_from(sorted(scalars("noc"))), st.integers() | st.text(max_size=5) | st.none())
)
def test_whatever_is_handed_in_is_a_result_or_an_error_that_says_where(table: dict[str, Any]) -> None:
    try:
        ebb.sim("noc", {"mesh": "2x2", "traffic": "nowhere", **table})
    except ebb.ScenarioError as error:
        assert error.message and str(error)
    else:
        raise AssertionError("there is no such traffic")
