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
    **settings: Any,
) -> Result:
    """Simulate a scenario of a system: what `ebb sim SYSTEM` of the command does.

    `scenario` is a table (`dict`), an object of `ebb.scenarios`, TOML text, or the path of a file.
    Further keywords are settings on top of it: flags of the command (`mesh="8x8"`) or paths with two
    underscores for each dot (`router__vcs=4`). Data frames and graphs may stand wherever a scenario
    names a file; `files` gives further files their content. `directory` is where other files are.

    `seed`, `seeds`, `until`, `saturation`, `out`, `fresh` and `jobs` are as for the command. `progress`
    is True for a bar, or a function of the share that is done and what is being done.

    Raises `ScenarioError` for what is wrong with the scenario, `StudyError` for everything else.
    """
    return _run("sim", system, scenario, settings, progress, seed=seed, seeds=seeds, until=until,
                saturation=saturation, files=files, directory=directory, out=out, fresh=fresh,
                jobs=jobs)  # fmt: skip


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
    **others: Any,
) -> Result:
    from . import _drive
    from ._inputs import prepare

    words = None if until is None else str(until)
    job = prepare(kind, system, scenario, settings=settings, until=words, **others)
    return _drive.run(job, progress)
