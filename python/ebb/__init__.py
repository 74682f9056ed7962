"""Ebb in Python: simulators and planners of networks whose capacity follows the load.

>>> import ebb
>>> result = ebb.sim("noc", {"mesh": "4x4", "traffic": "uniform", "load": 0.1})   # doctest: +SKIP
>>> result.figures["latency_cycles.mean"], result.tables["tiles"]                 # doctest: +SKIP

What there is to run is in `ebb.studies()`, what a scenario may hold in `ebb.schema(name)` and in the
classes of `ebb.scenarios`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import _ebb
from ._api import ask, plan, replay, reproduce, sim
from ._catalog import Study, experiments, schema, studies
from ._errors import DaemonError, EbbError, ScenarioError, StudyError, UnknownError, WorkerLost

if TYPE_CHECKING:
    from . import scenarios as scenarios
    from ._connect import Connection as Connection
    from ._connect import Snapshot as Snapshot
    from ._connect import connect as connect
    from ._policy import DecisionCost as DecisionCost
    from ._policy import Policy as Policy
    from ._processes import Processes as Processes
    from ._ray import Ray as Ray
    from ._result import Figures as Figures
    from ._result import Result as Result
    from ._sweep import Failure as Failure
    from ._sweep import SweepResult as SweepResult
    from ._sweep import sweep as sweep

__version__: str = _ebb.version

__all__ = [
    "Connection",
    "DaemonError",
    "DecisionCost",
    "EbbError",
    "Failure",
    "Figures",
    "Policy",
    "Processes",
    "Ray",
    "Result",
    "ScenarioError",
    "Snapshot",
    "Study",
    "StudyError",
    "SweepResult",
    "UnknownError",
    "WorkerLost",
    "ask",
    "connect",
    "experiments",
    "plan",
    "replay",
    "reproduce",
    "scenarios",
    "schema",
    "sim",
    "studies",
    "sweep",
]

# Imported when they are first used: the import of `ebb` itself stays short.
_LATER = {
    "Connection": "._connect",
    "Failure": "._sweep",
    "DecisionCost": "._policy",
    "Figures": "._result",
    "Policy": "._policy",
    "Processes": "._processes",
    "Ray": "._ray",
    "Result": "._result",
    "Snapshot": "._connect",
    "SweepResult": "._sweep",
    "connect": "._connect",
    "sweep": "._sweep",
}


def __getattr__(name: str) -> Any:
    if name == "scenarios":
        return importlib.import_module(".scenarios", __name__)
    if name in _LATER:
        value = getattr(importlib.import_module(_LATER[name], __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
