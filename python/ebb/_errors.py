"""What can go wrong.

The module `_ebb` raises these by their names.
"""

from __future__ import annotations


class EbbError(Exception):
    """Whatever this package raises on purpose."""


class UnknownError(EbbError, LookupError):
    """There is no study, experiment or setting of that name."""


class StudyError(EbbError, RuntimeError):
    """A study failed for a reason that is not the scenario's: a full disk, a solver that gave up.

    `point` holds the settings of the point of a sweep at which it happened, or is empty.
    """

    def __init__(self, message: str, point: str = "") -> None:
        """Say what failed, and at which point."""
        super().__init__(message, point)
        self.message = message
        self.point = point

    def __str__(self) -> str:
        """Return the point and what failed there."""
        return f"at {self.point}: {self.message}" if self.point else self.message


class ScenarioError(EbbError, ValueError):
    """A scenario, a setting or a file that it names cannot be read or makes no sense.

    `file`, `line` and `field` say where, as far as that is known, `message` what is wrong and `remedy`
    what to write instead. `point` holds the settings of the point of a sweep at which it happened.
    """

    def __init__(
        self,
        file: str = "",
        line: int | None = None,
        field: str | None = None,
        message: str = "",
        remedy: str = "",
        point: str = "",
    ) -> None:
        """Say what is wrong and where."""
        super().__init__(file, line, field, message, remedy, point)
        self.file = file
        self.line = line
        self.field = field or None
        self.message = message
        self.remedy = remedy
        self.point = point

    def __str__(self) -> str:
        """Return everything in one line, as the command prints it."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        parts = [f"at {self.point}: " if self.point else "", f"{place}: " if place else ""]
        parts.append(f"field `{self.field}`: " if self.field else "")
        return "".join(parts) + self.message + (f"; {self.remedy}" if self.remedy else "")


class WorkerLost(EbbError, RuntimeError):
    """A process that computed a point of a sweep ended without an answer."""


class DaemonError(EbbError, ConnectionError):
    """A daemon does not answer."""
