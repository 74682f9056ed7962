"""Sweeps: all combinations of some settings, computed by whatever computes.

The job of the module `_ebb` decides what is to be computed, keeps what is finished and writes the
report; here its points are handed to an executor and what comes back is handed to the job.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _ebb
from ._drive import LOOK_S, Progress, Shown, cost
from ._errors import EbbError, ScenarioError, StudyError, WorkerLost
from ._inputs import Content, Job, ScenarioLike, prepare, program
from ._policy import DecisionCost, identify, pack, split, unpack, wrap
from ._processes import Processes
from ._result import Result, grid
from ._slurm import Queue

if TYPE_CHECKING:
    import pandas

#: How often a point is tried whose worker is lost, before it counts as the cause.
ATTEMPTS = 3
#: Tasks that wait in an executor at once, at most.
WAITING_MAX = 8192
#: What a task should last, where points are shorter: whoever hands on tasks needs time for each. A worker
#: that is lost loses so much.
TASK_S = 0.1
#: Tasks of one point each, from whose time it is known how many make a task; and tasks that wait then, at
#: most.
FIRST, AHEAD = 32, 256
#: Tasks of a job array, at most, where nothing else is said.
ARRAY_MAX = 64
#: How long finished points wait to become a file of the data set, and how many do, at most.
PART_S, PART_RUNS = 5.0, 5000

#: A point: its settings as JSON pairs, and its seed.
Point = tuple[str, int]
#: What comes of a point: ("finished", text) or ("scenario" or "failed", what is wrong).
Answer = tuple[str, Any]


@dataclass(frozen=True)
class Failure:
    """A point of which nothing came."""

    #: Its settings, in the words of the command line.
    point: str
    #: Its seed.
    seed: int
    #: Why.
    error: EbbError


class SweepResult(Result):
    """What a sweep found. `failed` lists the points of which nothing came."""

    def __init__(
        self,
        report: _ebb.Report,
        failed: list[Failure],
        axes: list[str],
        decisions: DecisionCost | None = None,
    ) -> None:
        """Hold a sweep's report."""
        super().__init__(report, decisions=decisions)
        #: Points of which nothing came, with the reason.
        self.failed = failed
        #: The settings that vary, the last one fastest.
        self.axes = axes

    @property
    def frame(self) -> pandas.DataFrame:
        """All points: a row each, settings first, then figures."""
        return self.tables["points"]

    def to_xarray(self, table: str | None = None, over: Sequence[str] | None = None) -> Any:
        """The figures over the grid of the settings, or a table as of any result, as a data set of xarray."""
        if table is None and over is None:
            return grid(self.frame, self.axes)
        return super().to_xarray(table, over)


def compute_points(
    description: str, files: dict[str, bytes], points: list[Point], policy: tuple[bytes, str] | None = None
) -> list[Answer]:
    """What a worker runs: these points of the job that is described, each by itself."""
    wanted = json.loads(description)["program"]
    if wanted != program():
        message = "the worker runs another build of ebb than whoever collects: install the same on both"
        return [("failed", message)] * len(points)
    policies = None if policy is None else unpack(*policy)
    answers: list[Answer] = []
    for settings, seed in points:
        try:
            answers.append(("finished", _ebb.compute(description, files, settings, seed, policies)))
        except ScenarioError as error:
            answers.append(("scenario", error.args))
        except StudyError as error:
            answers.append(("failed", error.message))
        except Exception as error:  # What a policy raised.
            answers.append(("failed", f"{type(error).__name__}: {error}"))
    return answers


def timed_points(
    description: str, files: dict[str, bytes], points: list[Point], policy: tuple[bytes, str] | None
) -> tuple[list[Answer], float]:
    """The same, with the seconds that it took."""
    begun = time.perf_counter()
    answers = compute_points(description, files, points, policy)
    return answers, time.perf_counter() - begun


def sweep(
    study: str,
    scenario: ScenarioLike = None,
    *,
    over: Mapping[str, Any],
    executor: Any = None,
    chunk: int | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    until: str | float | None = None,
    files: Mapping[str, Content] | None = None,
    directory: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    jobs: int | None = None,
    progress: Progress = None,
    policy: Any = None,
    **settings: Any,
) -> SweepResult:
    """Compute all combinations of the settings `over`.

    `over` maps a setting to its values, or to a range as the command reads it: `"0.1..0.9:0.1"`.
    `executor` is anything with `submit` that returns futures: processes, Dask, MPI, SLURM; without one,
    threads of this process compute. What is finished is kept in the directory `out`, by a digest of
    everything that it depends on: a sweep that was interrupted goes on there, with any executor. In
    `out/parts` finished points are a growing Parquet data set. `chunk` points make one task;
    without it so many as take a tenth of a second, found out on the way. `policy` is as for `sim`; with an
    executor it is pickled, and by `cloudpickle` where that is installed.

    The result is the same to the last byte whatever computes, in whatever order.
    """
    decider, told = split(policy, settings)
    job = prepare(
        "sim", study, scenario, settings=told, over=over, files=files, directory=directory,
        seed=seed, seeds=seeds, until=None if until is None else str(until), out=out, fresh=fresh, jobs=jobs,
    )  # fmt: skip
    job.description["program"] = program()
    axes = [path.replace("__", ".") for path in over]
    collector = _Collector(job, axes, executor, chunk, progress, decider)
    return collector.run()


class _Parts:
    """The growing data set of finished points."""

    def __init__(self, out: str | None, axes: list[str]) -> None:
        self.place = None if out is None else Path(out) / "parts"
        self.axes = axes
        self.waiting: list[str] = []
        self.since = time.monotonic()
        self.number = 0

    def begin(self) -> None:
        """Starts anew with what is kept from before."""
        if self.place is None:
            return
        self.place.mkdir(parents=True, exist_ok=True)
        for old in self.place.glob("part-*.parquet"):
            old.unlink()
        kept = self.place.parent / "points.jsonl"
        if kept.exists():
            self.waiting = [line for line in kept.read_text().splitlines() if line.endswith("}")]
            self.write()

    def add(self, run: str) -> None:
        """One more finished point."""
        if self.place is not None:
            self.waiting.append(run)
            if len(self.waiting) >= PART_RUNS or time.monotonic() - self.since > PART_S:
                self.write()

    def write(self) -> None:
        """Everything that waits becomes a file."""
        if self.place is not None and self.waiting:
            path = self.place / f"part-{self.number:06}.parquet"
            _ebb.write_part(os.fspath(path), self.axes, self.waiting)
            self.waiting, self.number = [], self.number + 1
        self.since = time.monotonic()


class _Collector:
    """Hands points to an executor and what comes back to the job."""

    def __init__(
        self, job: Job, axes: list[str], executor: Any, chunk: int | None, progress: Progress, policy: Any
    ) -> None:
        self.job, self.axes, self.chunk = job, axes, chunk
        self.shown = Shown(progress)
        self.failed: list[Failure] = []
        self.parts = _Parts(job.description.get("out"), axes)
        self.executor = executor
        self.description = job.for_workers()
        self.policies: _ebb.Policy | None = None
        self.packed: tuple[bytes, str] | None = None
        if policy is not None:
            identity = identify(policy)
            self.packed = None if executor is None else (pack(policy), identity)
            self.policies = wrap(policy, identity)
        self.running = _ebb.Run(job.text, job.files, executor is not None, self.policies)

    def run(self) -> SweepResult:
        """Everything until the report is there."""
        try:
            while True:
                said = self.running.wait(LOOK_S)
                self.shown.look(self.running)
                if said is None:
                    continue
                if said[0] == "points":
                    self.compute(said[1])
                elif said[0] == "done":
                    return self.conclude(said[1])
        except BaseException:
            self.running.stop()
            with contextlib.suppress(Exception):
                self.parts.write()
            raise
        finally:
            self.shown.close()

    def conclude(self, report: _ebb.Report) -> SweepResult:
        """The result; points of which nothing came are told."""
        # Elsewhere it is the workers that pay, and what they paid stays with them.
        spent = cost(self.policies) if self.packed is None else None
        result = SweepResult(report, self.failed, self.axes, spent)
        if self.failed:
            if not result.figures.get("points"):
                raise self.failed[0].error
            first = self.failed[0]
            message = f"{len(self.failed)} points failed, the first at {first.point}: {first.error}"
            warnings.warn(message, RuntimeWarning, stacklevel=4)
        return result

    def compute(self, points: list[Point]) -> None:
        """Has these points computed."""
        self.parts.begin()
        tasks = _Tasks(self.executor, (self.description, self.job.files, self.packed), points, self.chunk)
        try:
            for index, answer in tasks.answers(self.look):
                self.take(index, points[index], answer)
        finally:
            tasks.close()
        self.parts.write()

    def look(self) -> None:
        """Shows progress while nothing comes back."""
        self.shown.look(self.running)
        said = self.running.wait(0.0)
        if said is not None and said[0] == "done":  # It cannot be: points are still open.
            raise StudyError("the job ended before its points")

    def take(self, index: int, point: Point, answer: Answer) -> None:
        """One point came back."""
        kind, what = answer
        if kind == "finished":
            self.running.give(index, what)
            self.parts.add(what)
            return
        name = " ".join(f"{path}={value}" for path, value in json.loads(point[0]))
        error: EbbError
        if kind == "scenario":
            error = ScenarioError(*what)
        elif kind == "lost":
            error = WorkerLost(what)
        else:
            error = StudyError(what)
        self.failed.append(Failure(name, point[1], error))
        self.running.skip()


class _Tasks:
    """The points of a round as tasks of an executor."""

    def __init__(
        self,
        executor: Any,
        job: tuple[str, dict[str, bytes], tuple[bytes, str] | None],
        points: list[Point],
        chunk: int | None,
    ) -> None:
        self.own: Processes | None = None
        if isinstance(executor, int):
            executor = self.own = Processes(executor)
        self.executor, self.points = executor, points
        self.description, self.files, self.packed = job
        arrays = hasattr(executor, "batch")
        if chunk is None and arrays:
            chunk = max(1, -(-len(points) // ARRAY_MAX))
        self.arrays = arrays
        #: Points by task, the next last; and points that are in no task yet, the next first.
        self.waiting: list[list[int]] = []
        self.rest: deque[int] = deque()
        if chunk is None:
            self.rest.extend(range(len(points)))
        else:
            starts = range(0, len(points), chunk)
            self.waiting = [list(range(at, min(at + chunk, len(points)))) for at in reversed(starts)]
        #: Points that came back and what they took, in seconds.
        self.spent = (0, 0.0)
        self.lost: dict[int, int] = {}
        self.open: dict[int, tuple[Any, list[int]]] = {}
        self.number = 0
        self.back: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.polled: set[int] = set()
        self.slurm = Queue()

    def answers(self, look: Callable[[], None]) -> Iterator[tuple[int, Answer]]:
        """What comes of each point, as soon as it does."""
        while self.waiting or self.rest or self.open:
            self.submit()
            look()
            for number in self.came_back():
                future, indices = self.open.pop(number)
                yield from self.of_task(future, indices)

    def submit(self) -> None:
        """Hands on what waits, as far as there is room."""
        fresh: list[tuple[Any, list[int]]] = []
        indices = self.task(0)
        if not indices:
            return
        with self.executor.batch() if self.arrays else contextlib.nullcontext():
            while indices:
                points = [self.points[index] for index in indices]
                try:
                    future = self.executor.submit(
                        timed_points, self.description, self.files, points, self.packed
                    )
                except Exception as error:
                    if not _is_loss(error):
                        raise
                    self.waiting.append(indices)
                    self.replace(error)
                else:
                    fresh.append((future, indices))
                indices = self.task(len(fresh))
        for future, indices in fresh:
            number, self.number = self.number, self.number + 1
            self.open[number] = (future, indices)
            if hasattr(future, "add_done_callback"):
                future.add_done_callback(lambda _, number=number: self.back.put(number))
            else:
                self.polled.add(number)

    def task(self, more: int) -> list[int]:
        """The points of the next task, beside those that are open and `more`; none where there is no room."""
        under_way = len(self.open) + more
        if self.waiting:
            return self.waiting.pop() if under_way < WAITING_MAX else []
        count, seconds = self.spent
        if not self.rest or under_way >= (AHEAD if count else FIRST):
            return []
        # Fewer towards the end, so that all workers end together.
        size = min(int(TASK_S * count / seconds), len(self.rest) // FIRST) if count else 1
        return [self.rest.popleft() for _ in range(max(size, 1))]

    def came_back(self) -> list[int]:
        """Tasks that ended, waiting a moment for the first."""
        ended = [number for number in self.polled if self.open[number][0].done()]
        if ended:
            self.slurm.answered()
        tasks = {number: self.open[number][0] for number in self.polled.difference(ended)}
        if any(type(task).__name__ == "SlurmJob" for task in tasks.values()):
            for number in self.slurm.lost(tasks):
                lost: Future[Any] = Future()
                lost.set_exception(WorkerLost(f"task {tasks[number].job_id} of SLURM ended without a result"))
                self.open[number] = (lost, self.open[number][1])
                ended.append(number)
        self.polled.difference_update(ended)
        with contextlib.suppress(queue.Empty):
            ended.append(self.back.get(timeout=0.0 if ended else LOOK_S))
            while True:
                ended.append(self.back.get_nowait())
        return ended

    def of_task(self, future: Any, indices: list[int]) -> Iterator[tuple[int, Answer]]:
        """What comes of the points of a task that ended."""
        try:
            answers, seconds = future.result()
            self.spent = (self.spent[0] + len(indices), self.spent[1] + max(seconds, 1e-6))
        except Exception as error:
            if not _is_loss(error):
                text = f"{type(error).__name__}: {error}"
                yield from ((index, ("failed", text)) for index in indices)
                return
            self.replace(error)
            yield from self.again(indices, error)
            return
        yield from zip(indices, answers, strict=True)

    def again(self, indices: list[int], error: Exception) -> Iterator[tuple[int, Answer]]:
        """The worker of these points is lost: each is tried alone, until it is clear that it is the cause."""
        for index in indices:
            self.lost[index] = self.lost.get(index, 0) + 1
            if self.lost[index] < ATTEMPTS:
                self.waiting.append([index])
            else:
                text = f"its worker ended {ATTEMPTS} times: {type(error).__name__}: {error}"
                yield index, ("lost", text)

    def replace(self, error: Exception) -> None:
        """A pool of processes that lost one takes no further task: another takes its place."""
        from concurrent.futures import ProcessPoolExecutor
        from concurrent.futures.process import BrokenProcessPool

        if isinstance(error, BrokenProcessPool) and isinstance(self.executor, ProcessPoolExecutor):
            # Processes of our own know which task they lost, so that the others do not count as suspects.
            self.executor = self.own = Processes(getattr(self.executor, "_max_workers", None) or 1)

    def close(self) -> None:
        """Gives up what is still open."""
        for future, _ in self.open.values():
            with contextlib.suppress(Exception):
                future.cancel()
        if self.own is not None:
            self.own.close()


def _is_loss(error: Exception) -> bool:
    """Whether the worker is at fault, not the task."""
    names = {"BrokenProcessPool", "BrokenExecutor", "KilledWorker", "CancelledError", "WorkerLost",
             "FutureCancelledError", "UncompletedJobError", "CommClosedError", "FutureLostError",
             "ConnectionError", "FailedJobError", "WorkerCrashedError", "NodeDiedError"}  # fmt: skip
    return any(kind.__name__ in names for kind in type(error).__mro__)
