"""Running daemons: their state, and their snapshots as they come."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _ebb
from ._drive import LOOK_S

if TYPE_CHECKING:
    import pandas

#: Where daemons have their sockets unless configured otherwise.
SOCKETS = "/run/ebb"


@dataclass(frozen=True)
class Snapshot:
    """What a daemon says of itself at a moment."""

    #: The snapshot as the daemon sent it.
    data: dict[str, Any]

    @property
    def uptime_s(self) -> float:
        """Seconds since the daemon started."""
        return float(self.data["uptime_seconds"])

    @property
    def facts(self) -> dict[str, str]:
        """What it says in words, such as the mode."""
        return dict(self.data["facts"])

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each value: when, metric, unit, labels, value and its growth a second."""
        for metric, family in self.data["metrics"].items():
            for sample in family["samples"]:
                yield {
                    "uptime_s": self.uptime_s,
                    "metric": metric,
                    "unit": family.get("unit", ""),
                    **sample.get("labels", {}),
                    "value": sample["value"],
                    "per_second": sample.get("per_second"),
                }

    def value(self, metric: str, **labels: str) -> Any:
        """The value of a metric, of the sample that has these labels."""
        samples = self.data["metrics"][metric]["samples"]
        for sample in samples:
            if labels.items() <= sample.get("labels", {}).items():
                return sample["value"]
        raise KeyError(f"{metric} has no sample with {labels}")


class Connection:
    """A running daemon: iterate over it, with `for` or `async for`, to get its snapshots."""

    def __init__(self, socket: Path, every_s: float) -> None:
        """Remember where the daemon is; each iteration is a stream of its own."""
        self.socket = socket
        self.every_s = every_s

    def status(self) -> dict[str, Any]:
        """The daemon's state as its own document."""
        state: dict[str, Any] = json.loads(_ebb.status(os.fspath(self.socket)))
        return state

    def __iter__(self) -> Iterator[Snapshot]:
        """Snapshots as they come, until the daemon ends."""
        stream = _ebb.Snapshots(os.fspath(self.socket), self.every_s)
        while True:
            text = stream.wait(LOOK_S)
            if text is not None:
                yield Snapshot(json.loads(text))

    async def __aiter__(self) -> AsyncIterator[Snapshot]:
        """Snapshots as they come; other tasks go on meanwhile."""
        stream = await asyncio.to_thread(_ebb.Snapshots, os.fspath(self.socket), self.every_s)
        while True:
            text = await asyncio.to_thread(stream.wait, 10 * LOOK_S)
            if text is not None:
                yield Snapshot(json.loads(text))

    def frame(self, count: int) -> pandas.DataFrame:
        """This many snapshots as one data frame: a row for each value."""
        import pandas

        rows: list[dict[str, Any]] = []
        for number, snapshot in enumerate(self, 1):
            rows.extend(snapshot.rows())
            if number >= count:
                break
        return pandas.DataFrame(rows)


def connect(
    daemon: str = "router", *, socket: str | os.PathLike[str] | None = None, every_s: float = 1.0
) -> Connection:
    """Connect to a running daemon by its name, or by the path of its socket.

    >>> async for snapshot in ebb.connect("router"):                              # doctest: +SKIP
    ...     print(snapshot.value("ebb_power_watts"))
    """
    path = Path(socket) if socket is not None else Path(SOCKETS) / f"{daemon}.sock"
    connection = Connection(path, every_s)
    connection.status()
    return connection
