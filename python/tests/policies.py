"""Policies of the router, written in Python as a user would; `PowerSave` as crates/control has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Napi:
    """All cores at the highest frequency, asleep while their queues are empty."""

    def begin(self, plant: Any) -> None:
        self.point = {"cores": plant.cores, "frequency": plant.frequencies - 1, "depth": "deep"}

    def decide(self, now: int, seen: Any) -> Any:
        return {"point": self.point, "idle": "halt" if seen.own_queue_len == 0 else "poll"}


class PowerSave:
    """As few cores as the queues allow, then the lowest frequency."""

    def begin(self, plant: Any) -> None:
        self.plant, self.settings = plant, plant.settings
        self.cores, self.frequency = 1, 0
        self.high = self.low = self.low_since = self.sampled_at = 0
        self.lowered_at: int | None = None
        self.failure: tuple[int, int, int] | None = None  # Rung, hold, when.
        self.hold = self.settings.hold_ms * 1_000_000
        self.hold_max = self.settings.hold_max_ms * 1_000_000

    def rung(self) -> int:
        return self.cores - 1 + self.frequency

    def decide(self, now: int, seen: Any) -> Any:
        self.sampled_at = now
        settings = self.settings
        if seen.queue_len > settings.queue_high:
            self.low = 0
            self.high += 1
            if seen.queue_len > max(settings.queue_high, 1) * 16:
                self.high = 0
                self.step_up(now, self.cores * 2, self.plant.frequencies)
            elif self.high > settings.count_up:
                self.high = 0
                self.step_up(now, self.cores + 1, self.frequency + 2)
        elif seen.queue_len < settings.queue_low:
            self.high = 0
            if self.low == 0:
                self.low_since = now
            self.low += 1
            if self.low > settings.count_down and now >= self.lowers_at():
                self.low = 0
                self.step_down(now)
        else:
            self.high = self.low = 0
        point = {"cores": self.cores, "frequency": self.frequency, "depth": "shallow"}
        return {"point": point, "idle": "halt" if seen.own_queue_len == 0 else "poll"}

    def step_up(self, now: int, cores: int, frequencies: int) -> None:
        failed = self.rung()
        if self.cores < self.plant.cores:
            self.cores = min(cores, self.plant.cores)
        elif self.frequency + 1 < self.plant.frequencies:
            self.frequency = min(frequencies, self.plant.frequencies) - 1
        else:
            return
        lowered_at, self.lowered_at = self.lowered_at, None
        if lowered_at is not None and now - lowered_at <= self.hold_max:
            last = self.hold if self.failure is None else self.failure[1]
            self.failure = failed, min(last * 2, self.hold_max), now

    def step_down(self, now: int) -> None:
        survived = self.rung()
        if self.frequency > 0:
            self.frequency -= 1
        elif self.cores > 1:
            self.cores -= 1
        else:
            return
        self.lowered_at = now
        if self.failure is not None and self.failure[0] >= survived:
            self.failure = None

    def lowers_at(self) -> int:
        held = self.low_since + self.hold
        if self.failure is None:
            return held
        rung, hold, at = self.failure
        if self.rung() <= rung:
            return max(held, (at if self.lowered_at is None else self.lowered_at) + hold)
        return max(held, at + hold) if self.rung() == rung + 1 else held

    def next_at(self) -> int | None:
        if self.rung() == 0:
            return None
        sample = self.sampled_at + max(self.settings.sample_ms, 1) * 1_000_000
        return max(sample, self.lowers_at()) if self.low > self.settings.count_down else sample


class Recording(PowerSave):
    """Writes its decisions as a live router does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, plant: Any) -> None:
        super().begin(plant)
        self.lines: list[str] = []

    def decide(self, now: int, seen: Any) -> Any:
        action = super().decide(now, seen)
        with self.path.open("a") as file:
            file.write(json.dumps({"at": now, "seen": vars(seen), "action": action}) + "\n")
        return action


class Faulty:
    """Fails at its third decision."""

    def __init__(self) -> None:
        self.decisions = 0

    def decide(self, now: int, seen: Any) -> Any:
        self.decisions += 1
        if self.decisions == 3:
            raise ZeroDivisionError("the third")
        return {"point": {"cores": 1, "frequency": 0, "depth": "shallow"}, "idle": "halt"}
