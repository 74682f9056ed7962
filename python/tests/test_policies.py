"""Policies in Python: they decide in simulations, see live records, and fail as they fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ebb

from .policies import Faulty, Napi, PowerSave, Recording

SHORT = {"load": 0.4, "duration_s": 0.01, "sample_s": 0.001}
BURSTS = {
    **SHORT,
    "duration_s": 0.02,
    "traffic": {"arrivals": "onoff", "burst_packets": 512, "profile": None},
}
SLOTS = {"load": 0.3, "engine": "slot", "traffic": {"profile": "uk", "compress": 400_000}}
NAMES = {"napi": Napi, "powersave": PowerSave}


def tables(result: ebb.Result) -> dict[str, str]:
    return {name: result.to_csv(name) for name in result.tables}


def figures(result: ebb.Result) -> dict[str, Any]:
    return {name: value for name, value in result.figures.items() if name != "policy"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scenario", [SHORT, BURSTS, SLOTS])
def test_the_same_decisions_give_the_same_bytes(name: str, scenario: dict[str, Any]) -> None:
    ours = ebb.sim("router", scenario, policy={"name": name})
    theirs = ebb.sim("router", scenario, policy=NAMES[name])
    assert tables(theirs) == tables(ours)
    assert figures(theirs) == figures(ours)
    assert theirs.plots == ours.plots
    assert theirs.figures["policy"] == NAMES[name].__name__
    if name == "powersave":
        assert ours.figures["changes"] > 3, "something is decided at all"


def test_what_a_decision_costs_is_told() -> None:
    result = ebb.sim("router", SHORT, policy=PowerSave())
    cost = result.decisions
    assert cost is not None and cost.decisions == result.figures["decisions"] > 100
    assert 0 < cost.per_decision_us == 1e6 * cost.seconds / cost.decisions
    assert f"{cost.decisions} decisions in Python" in repr(result)
    assert "decisions in Python" in result._repr_html_()
    assert ebb.sim("router", SHORT).decisions is None


def test_patience_and_further_seeds_are_as_for_other_policies() -> None:
    settings = {"settings": {"latency_budget_us": 200}}
    ours = ebb.sim("router", SHORT, policy={"name": "powersave", **settings}, seeds=2)
    scenario = {**SHORT, "policy": settings}
    theirs = ebb.sim("router", scenario, policy=PowerSave, seeds=2)
    assert tables(theirs) == tables(ours)


def test_what_it_raises_ends_the_run() -> None:
    with pytest.raises(ZeroDivisionError, match="the third") as caught:
        ebb.sim("router", {**SHORT, "duration_s": 1000}, policy=Faulty)
    assert "decide" in [entry.name for entry in caught.traceback]
    with pytest.raises(ZeroDivisionError):
        ebb.sweep("router", SHORT, over={"load": [0.1, 0.2]}, policy=Faulty)


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        ({"point": {"cores": 99, "frequency": 0, "depth": "deep"}, "idle": "poll"}, "cores and frequencies"),
        ({"point": {"cores": 0, "frequency": 0, "depth": "deep"}, "idle": "poll"}, "cores and frequencies"),
        ({"point": {"cores": 1, "frequency": 99, "depth": "deep"}, "idle": "poll"}, "cores and frequencies"),
        ({"idle": "poll"}, "missing field `point`"),
        (None, "decided null"),
    ],
)
def test_what_is_no_decision_is_refused_in_words(decision: Any, told: str) -> None:
    class Wrong:
        def decide(self, now: int, seen: Any) -> Any:
            return decision

    with pytest.raises(ebb.ScenarioError, match=told) as caught:
        ebb.sim("router", SHORT, policy=Wrong)
    assert caught.value.field == "policy" and "return for example" in str(caught.value.remedy)


def test_the_past_is_no_time_to_decide() -> None:
    class Past(Napi):
        def next_at(self) -> int:
            return 0

    with pytest.raises(ebb.ScenarioError, match="wants to decide next at 0 ns"):
        ebb.sim("router", SHORT, policy=Past)


def test_systems_that_take_none_say_so() -> None:
    with pytest.raises(ebb.ScenarioError, match="`sim coreswitch` is governed by no policy from outside"):
        ebb.sim("coreswitch", {"configuration": "CS", "kernel": "V5", "workload": "web"}, policy=Napi)


def test_a_sweep_in_processes_takes_a_policy(tmp_path: Path) -> None:
    over = {"load": [0.1, 0.3, 0.5]}
    ours = ebb.sweep("router", SHORT, over=over, policy={"name": "powersave"})
    theirs = ebb.sweep("router", SHORT, over=over, policy=PowerSave, executor=2, out=tmp_path / "sweep")
    assert not theirs.failed
    mine, other = (result.frame.drop(columns="policy", errors="ignore") for result in (ours, theirs))
    assert mine.to_csv() == other.to_csv()
    # What is kept is of this policy alone.
    kept = (tmp_path / "sweep" / "points.jsonl").read_text()
    ebb.sweep("router", SHORT, over=over, policy=PowerSave, out=tmp_path / "sweep")
    assert (tmp_path / "sweep" / "points.jsonl").read_text() == kept
    napi = ebb.sweep("router", SHORT, over=over, policy=Napi, out=tmp_path / "sweep")
    assert list(napi.frame["power_w"]) != list(theirs.frame["power_w"])


def test_a_policy_that_cannot_be_sent_is_refused_in_words() -> None:
    class Unique(PowerSave):
        def __reduce__(self) -> Any:
            raise TypeError("it holds a socket")

    with pytest.raises(ebb.ScenarioError, match=r"cannot be sent to other processes.*holds a socket"):
        ebb.sweep("router", SHORT, over={"load": [0.1, 0.2]}, policy=Unique(), executor=2)
    with pytest.raises(ebb.ScenarioError, match=r"cannot be copied.*holds a socket"):
        ebb.sim("router", SHORT, policy=Unique())


def test_failures_in_processes_are_told_with_their_points() -> None:
    with pytest.raises(ebb.StudyError, match="ZeroDivisionError: the third"):
        ebb.sweep("router", SHORT, over={"load": [0.1, 0.2]}, policy=Faulty, executor=2)


def test_a_record_is_shown_to_a_policy(tmp_path: Path) -> None:
    record = tmp_path / "decisions.jsonl"
    ran = ebb.sim("router", {**BURSTS, "duration_s": 0.005}, policy=Recording(record))
    same = ebb.replay("router", record, BURSTS, policy=PowerSave)
    assert same.figures["decisions"] == ran.figures["decisions"]
    assert same.figures["differing"] == 0 and same.decisions is not None
    assert ebb.replay("router", record, BURSTS, policy={"name": "powersave"}).figures["differing"] == 0
    other = ebb.replay("router", record, BURSTS, policy=Napi)
    assert other.figures["differing"] > 0
    assert other.figures["decided.cores_mean"] > other.figures["recorded.cores_mean"]
    assert "cores 1" in other.to_csv("where-it-first-decides-otherwise")
    with pytest.raises(ZeroDivisionError):
        ebb.replay("router", record, BURSTS, policy=Faulty)
    with pytest.raises(ebb.ScenarioError, match=r"line 1 of the record"):
        ebb.replay("router", "r", BURSTS, policy=Napi, files={"r": "nothing"})
    with pytest.raises(ebb.ScenarioError, match="no decision"):
        ebb.replay("router", "r", BURSTS, policy=Napi, files={"r": "\n"})
