"""What Python costs: import, binding, data frames, sweeps on processes and on Dask.

usage: python bench/python/run.py [--small]      prints a table, then a line of JSON
The package `ebb` must be installed, and the command `ebb` be on the PATH or named by EBB_COMMAND.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ebb

SHORT = {"warmup": 200, "sample": 500, "samples_max": 3}
MESH = {"mesh": "2x2", "traffic": "uniform", "runs": 1, "router": {"kind": "vc"}, "run": SHORT}


def seconds(call: Callable[[], object], repeats: int) -> float:
    """The median time of a call."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def importing() -> float:
    """What `import ebb` takes, beyond an interpreter that imports nothing."""

    def run(code: str) -> object:
        return subprocess.run([sys.executable, "-c", code], check=True)

    run("import ebb")
    return seconds(lambda: run("import ebb"), 15) - seconds(lambda: run(""), 15)


def binding() -> float:
    """What a run of next to nothing takes: reading, starting, handing over."""
    scenario = {"configuration": "CS", "kernel": "V5", "workload": "web", "cycles": 1}
    ebb.sim("coreswitch", scenario)
    return seconds(lambda: ebb.sim("coreswitch", scenario), 101)


def frame(rows: int) -> float:
    """What a million rows take to become a data frame, from so many."""
    scenario = {**MESH, "load": 0.4, "run": {"warmup": 0, "sample": rows * 6, "samples_max": 3}}
    result = ebb.sim("noc", scenario, output__packets=rows)
    name = max(result.tables, key=lambda name: len(result.to_csv(name)))
    count = max(len(result.tables[name]), 1)

    def make() -> object:
        result.tables._made.clear()
        return result.tables[name]

    return seconds(make, 5) * 1e6 / count


def scaling(points: int) -> float:
    """How many times as fast two processes are as one."""
    loads = {"load": [round(0.05 + 0.2 * index / points, 6) for index in range(points)]}
    scenario = {**MESH, "mesh": "4x4", "run": {**SHORT, "sample": 4000}}
    ratios = []
    with ebb.Processes(1) as one, ebb.Processes(2) as two:
        for executor in (one, two):
            ebb.sweep("noc", scenario, over={"load": [0.1, 0.2]}, executor=executor)
        for _ in range(3):
            alone = seconds(lambda: ebb.sweep("noc", scenario, over=loads, executor=one), 1)
            ratios.append(alone / seconds(lambda: ebb.sweep("noc", scenario, over=loads, executor=two), 1))
    return statistics.median(ratios)


def dask(points: int) -> tuple[float, float]:
    """Points a minute through a scheduler with two workers, and tasks that do nothing beside them."""
    from distributed import Client, LocalCluster

    scenario = {"configuration": "CS", "kernel": "V5", "workload": "web"}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        ebb.sweep("coreswitch", scenario, over={"cycles": [1, 2]}, executor=client)
        over = {"cycles": [1], "wakeup_cycles": list(range(points))}

        def plain() -> object:
            return client.gather([client.submit(abs, number, pure=False) for number in range(points)])

        plain()
        swept, nothing = [], []
        for _ in range(3):
            swept.append(seconds(lambda: ebb.sweep("coreswitch", scenario, over=over, executor=client), 1))
            nothing.append(seconds(plain, 1))
        return 60 * points / statistics.median(swept), 60 * points / statistics.median(nothing)


class Napi:
    """A policy that does as little as one can."""

    def begin(self, plant: Any) -> None:
        """All cores at the highest frequency."""
        self.point = {"cores": plant.cores, "frequency": plant.frequencies - 1, "depth": "deep"}

    def decide(self, now: int, seen: Any) -> Any:
        """Sleep while nothing waits."""
        return {"point": self.point, "idle": "halt" if seen.own_queue_len == 0 else "poll"}


def decisions(duration_s: float) -> tuple[float, float]:
    """Microseconds of a decision in Python, and how many times as long the run takes."""
    scenario = {"load": 0.3, "duration_s": duration_s}
    own = seconds(lambda: ebb.sim("router", scenario, policy={"name": "napi"}), 3)
    found: list[float] = []

    def under() -> None:
        result = ebb.sim("router", scenario, policy=Napi)
        assert result.decisions is not None
        found.append(result.decisions.per_decision_us)

    ours = seconds(under, 3)
    return statistics.median(found), ours / own


def notebooks() -> float:
    """Seconds that the longest notebook takes."""
    place = Path(__file__).parents[2] / "python/notebooks"
    times = {}
    environment = {**os.environ, "MPLBACKEND": "agg"}

    # As in a notebook, there is no file that the processes it starts could run again.
    code = "import sys; exec(open(sys.argv[1]).read())"

    def execute(path: Path) -> object:
        run = [sys.executable, "-c", code, path.name]
        return subprocess.run(run, cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL)

    for path in sorted(place.glob("*.py")):
        times[path.stem] = seconds(lambda path=path: execute(path), 1)
        print(f"{path.stem:28} {times[path.stem]:12.1f}", flush=True)
    return max(times.values())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="few rows and points: whether it runs")
    small = parser.parse_args().small
    if shutil.which(os.environ.get("EBB_COMMAND", "ebb")) is None:
        parser.error("the command ebb is missing, which notebooks run: name it in EBB_COMMAND")
    # Users keep what is compiled: an import that compiles first is another matter.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    found: dict[str, float] = {}

    def say(**values: float) -> None:
        for name, value in values.items():
            print(f"{name:28} {value:12.3f}", flush=True)
        found.update(values)

    say(import_ms=1e3 * importing())
    say(binding_ms=1e3 * binding())
    say(million_rows_to_pandas_s=frame(20_000 if small else 1_000_000))
    points, tasks = dask(50 if small else 2000)
    say(dask_points_a_minute=points, dask_tasks_of_nothing_a_minute=tasks)
    decision_us, slower = decisions(0.01 if small else 1.0)
    say(python_decision_us=decision_us, python_policy_times_as_long=slower)
    if not small:
        say(longest_notebook_s=notebooks())
    say(two_cores_times_one=scaling(8 if small else 1000))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
