"""Waits for jobs: progress, Ctrl-C, and points that others compute."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from . import _ebb
from ._errors import StudyError
from ._policy import DecisionCost, wrap
from ._result import Result

#: How long the interpreter waits before it looks for Ctrl-C, in seconds.
LOOK_S = 0.05

#: True for a bar by tqdm, or a function of the share that is done (0 to 1) and what is being done.
Progress: TypeAlias = "bool | Callable[[float, str], object] | None"


def cost(policies: _ebb.Policy | None) -> DecisionCost | None:
    """What a policy of Python cost."""
    return None if policies is None else DecisionCost(*policies.cost())


class _Reported(Protocol):
    def progress(self) -> tuple[float, str]: ...


class Shown:
    """Shows how far a job is."""

    def __init__(self, progress: Progress) -> None:
        """Begin to show, where that is wanted."""
        self._tell: Callable[[float, str], object] | None = None
        self._bar: Any = None
        self._last: tuple[float, str] = (0.0, "")
        if callable(progress):
            self._tell = progress
        elif progress:
            from tqdm.auto import tqdm

            form = "{l_bar}{bar}| {elapsed}<{remaining}{postfix}"
            self._bar = tqdm(total=1.0, bar_format=form, leave=False)

    def look(self, job: _Reported) -> None:
        """Show what is new."""
        if self._tell is None and self._bar is None:
            return
        now = job.progress()
        if now == self._last:
            return
        self._last = now
        done, note = now
        if self._tell is not None:
            self._tell(done, note)
        if self._bar is not None:
            self._bar.n = min(max(done, 0.0), 1.0)
            self._bar.set_postfix_str(note)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


def run(job: Any, progress: Progress = None, policy: Any = None) -> Result:
    """Run a job on this machine, under a policy of Python if there is one."""
    shown = Shown(progress)
    policies = None if policy is None else wrap(policy)
    running = _ebb.Run(job.text, job.files, False, policies)
    try:
        while True:
            said = running.wait(LOOK_S)
            shown.look(running)
            if said is not None and said[0] == "done":
                return Result(said[1], decisions=cost(policies))
    except BaseException:
        running.stop()
        raise
    finally:
        shown.close()


def reproduce(
    ids: list[str], seed: int, quick: bool, data: str | None, jobs: int | None, progress: Progress
) -> Result:
    """Run experiments."""
    shown = Shown(progress)
    running = _ebb.Reproducing(ids, seed, quick, data, jobs)
    try:
        while (done := running.wait(LOOK_S)) is None:
            shown.look(running)
    except BaseException:
        running.stop()
        raise
    finally:
        shown.close()
    report, claims, failed = done
    if failed:
        raise StudyError("; ".join(f"{name} failed: {error}" for name, error in failed))
    return Result(report, claims=json.loads(claims), claims_json=claims)
