"""Ray as an executor of sweeps."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Ray(Executor):
    """Ray's cluster, or Ray on this machine: `pip install 'ebb[ray]'`.

    Arguments are those of `ray.init`, which is called unless Ray runs already; what it started ends with
    `shutdown`. A task whose worker dies is not repeated by Ray: sweeps do that themselves.
    """

    def __init__(self, *, num_cpus_per_task: float = 1, **init: Any) -> None:
        """Connect, or start Ray here."""
        import ray

        self._ray = ray
        self._started = not ray.is_initialized()
        if self._started:
            ray.init(**{"include_dashboard": False, "logging_level": "ERROR", "log_to_driver": False, **init})

        def call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return fn(*args, **kwargs)

        self._call = ray.remote(num_cpus=num_cpus_per_task, max_retries=0)(call)

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Let a worker call a function."""
        future: Future[_T] = self._call.remote(fn, args, kwargs).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End what was started here."""
        if self._started:
            self._ray.shutdown()
