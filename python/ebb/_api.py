"""The functions that run one study."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ._drive import Progress
from ._inputs import Content, ScenarioLike
from ._result import Result


def sim(
    system: str,
    scenario: ScenarioLike = None,
    *,
    seed: int | None = None,
    seeds: int | None = None,
    until: str | float | None = None,
    saturation: str | None = None,
    files: Mapping[str, Content] | None = None,
    directory: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    jobs: int | None = None,
    progress: Progress = None,
    policy: Any = None,
    **settings: Any,
) -> Result:
    """Simulate a scenario of a system: what `ebb sim SYSTEM` of the command does.

    `scenario` is a table (`dict`), an object of `ebb.scenarios`, TOML text, or the path of a file.
    Further keywords are settings on top of it: flags of the command (`mesh="8x8"`) or paths with two
    underscores for each dot (`router__vcs=4`). Data frames and graphs may stand wherever a scenario
    names a file; `files` gives further files their content. `directory` is where other files are.

    `seed`, `seeds`, `until`, `saturation`, `out`, `fresh` and `jobs` are as for the command. `progress`
    is True for a bar, or a function of the share that is done and what is being done. `policy` is an
    object, or a class, with `decide(now, seen)` that decides instead of the scenario's policy, where the
    system takes one (`ebb.Policy`); what it costs is in the result's `decisions`. Whatever it raises ends
    the run.

    Raises `ScenarioError` for what is wrong with the scenario, `StudyError` for everything else.
    """
    return _run("sim", system, scenario, settings, progress, seed=seed, seeds=seeds, until=until,
                policy=policy, saturation=saturation, files=files, directory=directory, out=out,
                fresh=fresh, jobs=jobs)  # fmt: skip


def plan(
    system: str,
    scenario: ScenarioLike = None,
    *,
    seed: int | None = None,
    files: Mapping[str, Content] | None = None,
    directory: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    **settings: Any,
) -> Result:
    """Plan what a scenario describes: what `ebb plan SYSTEM` of the command does.

    Arguments are those of `sim`.
    """
    return _run("plan", system, scenario, settings, progress, seed=seed, files=files,
                directory=directory, out=out)  # fmt: skip


def ask(
    name: str,
    scenario: ScenarioLike = None,
    *,
    seed: int | None = None,
    files: Mapping[str, Content] | None = None,
    directory: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    **settings: Any,
) -> Result:
    """Answer a question: `ask("fabric check", tables="before")` is what `ebb fabric check before` does.

    The answer is the result's `report` and `json`, its numbers are figures. Arguments are those of `sim`.
    """
    return _run("", name, scenario, settings, progress, seed=seed, files=files,
                directory=directory)  # fmt: skip


def replay(
    system: str,
    record: str | os.PathLike[str],
    scenario: ScenarioLike = None,
    *,
    policy: Any = None,
    files: Mapping[str, Content] | None = None,
    directory: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    **settings: Any,
) -> Result:
    """Show a policy what a live system recorded, decision by decision, and compare what it decides.

    `record` is the file that the live system wrote (for a router `record` of its `[governor]`). `scenario`
    describes the system as for `sim`. Without `policy` it is the scenario's own that decides again.
    """
    path = os.fspath(record)
    path = path if path in (files or {}) else os.path.abspath(path)
    return _run("sim", system, scenario, settings, progress, policy=policy, record=path, files=files,
                directory=directory)  # fmt: skip


def reproduce(
    *ids: str,
    seed: int = 1,
    quick: bool = False,
    data: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    progress: Progress = None,
) -> Result:
    """Compute published results again: what `ebb reproduce` of the command does.

    `ids` are names of experiments or what they begin with; all, where there is none. The result's
    `claims` hold the published numbers beside ours.
    """
    from . import _drive

    place = None if data is None else os.fspath(data)
    return _drive.reproduce(list(ids), seed, quick, place, jobs, progress)


def _run(
    kind: str,
    system: str,
    scenario: ScenarioLike,
    settings: Mapping[str, Any],
    progress: Progress,
    *,
    until: str | float | None = None,
    policy: Any = None,
    **others: Any,
) -> Result:
    from . import _drive
    from ._inputs import prepare
    from ._policy import split

    words = None if until is None else str(until)
    decider, settings = split(policy, settings)
    job = prepare(kind, system, scenario, settings=settings, until=words, **others)
    return _drive.run(job, progress, decider)
