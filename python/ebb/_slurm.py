"""Tasks that SLURM has lost: submitit learns of them from the accounting, which not every cluster keeps."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from typing import Any

#: How long nothing comes back before the queue is looked at, in seconds; then twice as long each time.
LOOK_MIN_S, LOOK_MAX_S = 2.0, 60.0


class Queue:
    """The tasks of this user that SLURM has."""

    def __init__(self) -> None:
        """Nothing is missing yet."""
        self.wait_s = LOOK_MIN_S
        self.at = time.monotonic() + self.wait_s
        self.missing: set[int] = set()

    def answered(self) -> None:
        """A task came back: there is no reason to look."""
        self.wait_s = LOOK_MIN_S
        self.at = time.monotonic() + self.wait_s

    def lost(self, tasks: Mapping[int, Any]) -> list[int]:
        """Which of these tasks ended without a result: twice they were neither in the queue nor done.

        The first time a result may still be on its way through the file system.
        """
        if time.monotonic() < self.at:
            return []
        self.wait_s = min(2 * self.wait_s, LOOK_MAX_S)
        self.at = time.monotonic() + self.wait_s
        waiting = self.read()
        if waiting is None:
            return []
        missing = {number for number, task in tasks.items() if task.job_id not in waiting and not task.done()}
        lost, self.missing = missing & self.missing, missing
        return sorted(lost)

    @staticmethod
    def read() -> set[str] | None:
        """Tasks that wait or run, as SLURM names them; none where it does not answer."""
        words = ["squeue", "--me", "--noheader", "--array", "--format=%i"]
        try:
            asked = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.SubprocessError):
            return None
        return set(asked.stdout.split()) if asked.returncode == 0 else None
