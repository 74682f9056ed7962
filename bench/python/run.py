"""What Python costs: import, binding, data frames, sweeps on processes and on Dask.

usage: python bench/python/run.py [--small]      prints a table, then a line of JSON
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

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


def dask(points: int) -> float:
    """Tasks a minute through a scheduler with two workers."""
    from distributed import Client, LocalCluster

    scenario = {"configuration": "CS", "kernel": "V5", "workload": "web"}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        ebb.sweep("coreswitch", scenario, over={"cycles": [1, 2]}, executor=client)
        over = {"cycles": [1], "wakeup_cycles": list(range(points))}
        return 60 * points / seconds(lambda: ebb.sweep("coreswitch", scenario, over=over, executor=client), 1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="few rows and points: whether it runs")
    small = parser.parse_args().small
    found = {
        "import_ms": 1e3 * importing(),
        "binding_ms": 1e3 * binding(),
        "million_rows_to_pandas_s": frame(20_000 if small else 1_000_000),
        "two_cores_times_one": scaling(8 if small else 1000),
        "dask_tasks_a_minute": dask(50 if small else 2000),
    }
    for name, value in found.items():
        print(f"{name:28} {value:12.3f}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
