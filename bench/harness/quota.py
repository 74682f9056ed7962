"""Virtual cores: threads of which each may use a part of a CPU, by the kernel's control groups.

Either version does: groups of threads in a mount of version 1's `cpu` controller, or threaded groups
of version 2.
"""

import os
import threading
import time

from .lab import Failure, read

# A thread that has used up its part stands still until the period ends. The kernel looks at ticks, 4 ms apart with
# HZ=250: of parts shorter than that a thread overruns one, and others on its CPU, who wait meanwhile, never get back what
# they missed of theirs. With periods of 5 ms four threads of a fifth each got 0.18 to 0.19, with these 0.20.
PERIOD_US = 20_000


def write(path, value):
    with open(path, "w") as file:
        file.write(str(value))


def mounts(kind):
    lines = [line.split() for line in read("/proc/mounts").splitlines()]
    return [words for words in lines if words[2] == kind]


class Quotas:
    """A group for each of some threads, with `share` of a CPU; `with` removes the groups."""

    def __init__(self, share):
        self.quota, self.groups, self.home, self.threads = int(share * PERIOD_US), [], None, []
        self.first = next((words[1] for words in mounts("cgroup") if "cpu" in words[3].split(",")), None)
        self.second = None
        if not self.first:
            for words in mounts("cgroup2"):
                if "cpu" in read(f"{words[1]}/cgroup.controllers").split():
                    self.second = words[1]
        if not self.first and not self.second:
            raise Failure("no control group with a cpu controller is mounted (cgroup v1 or v2)")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for group in [*self.groups, *([self.home] if self.home else [])]:
            self.empty(group)

    def confine(self, process, threads):
        """Gives each of a process's threads a group of its own."""
        if self.second and not self.home:
            # Threads of one process may differ in their groups only below one that holds all of it.
            self.home = f"{self.second}/ebb-bench-{os.getpid()}"
            os.mkdir(self.home)
            write(f"{self.second}/cgroup.subtree_control", "+cpu")
        if self.home:
            write(f"{self.home}/cgroup.procs", process)
        for number, thread in enumerate(threads):
            group = f"{self.home or self.first}/" + (f"{number}" if self.home else f"ebb-bench-{os.getpid()}-{number}")
            if group not in self.groups:
                os.mkdir(group)
                self.groups.append(group)
                if self.home:
                    write(f"{group}/cgroup.type", "threaded")
            if self.home:
                if number == 0:
                    write(f"{self.home}/cgroup.subtree_control", "+cpu")
                write(f"{group}/cpu.max", f"{self.quota} {PERIOD_US}")
                write(f"{group}/cgroup.threads", thread)
            else:
                write(f"{group}/cpu.cfs_period_us", PERIOD_US)
                write(f"{group}/cpu.cfs_quota_us", self.quota)
                write(f"{group}/tasks", thread)

    def empty(self, group):
        # Groups go when the threads in them have ended.
        for _ in range(50):
            try:
                os.rmdir(group)
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.1)


class Day:
    """Samples the router's active cores and changes while a load lasts."""

    def __init__(self, router):
        self.router, self.cores, self.over = router, [], threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.over.wait(0.05):
            self.cores.append(self.router.status()["point"]["cores"])

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
