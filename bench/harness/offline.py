"""Benchmarks in memory: programs of the workspace that bring their own peers."""

import json
import os
import subprocess

from .lab import Failure


def example(context, name, program, *more):
    words = [context.tools.example(program), *more]
    words += ["--small"] if context.quick else []
    words += [] if context.dpdk else ["--no-dpdk"]
    done = subprocess.run(words, cwd=context.repository, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)}: {done.stderr[-2000:]}")
    *table, line = done.stdout.rstrip().splitlines()
    summary = json.loads(line)
    print(f"\n== {name}\n" + "\n".join(table) + "\n" + json.dumps({"benchmark": name, **summary}), flush=True)
    context.record.write(f"{name}.txt", "\n".join(table) + "\n")
    context.record.write(f"{name}.json", json.dumps(summary, indent=1) + "\n")


def lpm(context):
    """Longest-prefix match beside rte_fib and rte_fib6."""
    example(context, "lpm", "bench")


def path(context):
    """The full 64-byte path in memory beside a loop around rte_fib."""
    example(context, "path", "path")


def flows(context):
    """What flow export adds to routing a packet, over a million flows."""
    example(context, "flows", "flows")


def redundancy(context):
    """What redundancy elimination costs a packet at either end, and what it spares the link."""
    example(context, "redundancy", "redundancy")


def cluster(context):
    """Changes of a cluster's table with 1,024 back-ends, and the goal program on a year of samples."""
    example(context, "cluster", "cluster_bench")


def scale(context):
    """What the control of clusters of 10 to 1,000 members takes, and that of 16 to 10,000 racks."""
    example(context, "scale", "cluster_scale")
    example(context, "scale-circuits", "circuit_scale", *([] if context.quick else ["--large"]))


def threads(context):
    """What binding, priorities and parts of a CPU bring a cluster's threads, beside the scheduler's own choice, in turns."""
    size = ["--turns", "1", "--seconds", "0.2"] if context.quick else ["--turns", "5"]
    words = [context.tools.ebb, "cluster", "bench", "binding", "priority", "isolation", *size, "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)}: {done.stderr[-2000:]}")
    summary = json.loads(done.stdout) | {"load_average": os.getloadavg()}
    lines = [f"{'setup':28} {'kpps':>6} {'least':>6} {'most':>6}  balancer us  back-ends us"]
    for name, one in summary["setups"].items():
        figures = " ".join(f"{one[key]:6.1f}" for key in ("kpps", "least", "most"))
        lines.append(f"{name:28} {figures} {one['balancer_ns'] / 1e3:12.1f} {one['back_end_ns'] / 1e3:13.1f}")
    table = "\n".join(lines) + "\n"
    print(f"\n== threads\n{table}" + json.dumps({"benchmark": "threads", **summary}), flush=True)
    context.record.write("threads.txt", table)
    context.record.write("threads.json", json.dumps(summary, indent=1) + "\n")


def balance_memory(context):
    """One and two workers of a balancer in memory, a million flows."""
    example(context, "balance-memory", "balance")


def control(context):
    """What the control of 64 back-ends costs at rest, and of some whose kernels have the Internet's table."""
    example(context, "control", "control")
    if os.geteuid() != 0:
        raise Failure("control: the second part makes network namespaces, which takes root")
    size = ["1000", "--back-ends", "2"] if context.quick else ["732483", "--back-ends", "8"]
    example(context, "control-routes", "control", "--routes", *size)
