"""Policies written in Python."""

from __future__ import annotations

import copy
import hashlib
import inspect
import pickle
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from . import _ebb
from ._errors import ScenarioError


@runtime_checkable
class Policy(Protocol):
    """What decides for a system that takes a policy from outside.

    `decide(now, seen)` is called at each moment in which a policy of the system itself would be: `now` in
    nanoseconds, `seen` with what the system reports as attributes. It returns what is to be done, as a
    table. Two further methods are called where there are any: `begin(plant)` before a run, with what is
    to be governed, and `next_at()` after each decision: when to decide again even if nothing happens, in
    nanoseconds, or None.
    """

    def decide(self, now: int, seen: Any) -> Any:
        """Decide on what is seen."""


@dataclass(frozen=True)
class DecisionCost:
    """What a policy of Python cost: the calls and everything that they needed on the way."""

    #: How often it decided.
    decisions: int
    #: What that took altogether.
    seconds: float

    @property
    def per_decision_us(self) -> float:
        """The mean, in microseconds."""
        return 1e6 * self.seconds / self.decisions if self.decisions else 0.0

    def __str__(self) -> str:
        """In words."""
        return f"{self.decisions} decisions in Python, {self.per_decision_us:.1f} µs each"


def is_policy(value: object) -> bool:
    """Whether it is a policy, or a class of policies, and no setting."""
    return callable(getattr(value, "decide", None))


def split(policy: Any, settings: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """A policy, or none; and the settings, of which `policy` may be one, too."""
    if policy is None or is_policy(policy):
        return policy, settings
    return None, {"policy": policy, **settings}


class _Maker:
    """A fresh policy for each run: of the class, or a copy of the object as it was handed over."""

    def __init__(self, policy: Any) -> None:
        try:
            self.policy = policy if isinstance(policy, type) else copy.deepcopy(policy)
        except Exception as error:
            raise ScenarioError(
                field="policy",
                message=f"cannot be copied: {type(error).__name__}: {error}",
                remedy="each run needs a fresh one: hand over its class instead of an object",
            ) from error

    def __call__(self) -> Any:
        return self.policy() if isinstance(self.policy, type) else copy.deepcopy(self.policy)


def wrap(policy: Any, identity: str | None = None) -> _ebb.Policy:
    """A policy for the module `_ebb`."""
    kind = policy if isinstance(policy, type) else type(policy)
    return _ebb.Policy(_Maker(policy), kind.__name__, identity or identify(policy))


def identify(policy: Any) -> str:
    """A digest of its class's source and of its state: results are kept under it.

    Whose source cannot be read, its results are never taken for those of another.
    """
    kind = policy if isinstance(policy, type) else type(policy)
    try:
        source = inspect.getsource(inspect.getmodule(kind) or kind)
        state = b"" if isinstance(policy, type) else pickle.dumps(policy)
    except Exception:  # Of a class made on the way, whatever is asked may not be there.
        try:
            source, state = inspect.getsource(kind), pickle.dumps(vars(policy))
        except Exception:
            return uuid.uuid4().hex
    name = f"{kind.__module__}.{kind.__qualname__}"
    return hashlib.blake2b(b"\0".join([name.encode(), source.encode(), state]), digest_size=16).hexdigest()


def pack(policy: Any) -> bytes:
    """The policy for other processes."""
    try:
        import cloudpickle
    except ImportError:
        pickler: Any = pickle
    else:
        pickler = cloudpickle
    try:
        packed: bytes = pickler.dumps(policy)
    except Exception as error:
        raise ScenarioError(
            field="policy",
            message=f"cannot be sent to other processes: {type(error).__name__}: {error}",
            remedy="define its class in a module, keep nothing in it that cannot be pickled, or let threads "
            "compute: leave out executor",
        ) from error
    return packed


def unpack(packed: bytes, identity: str) -> _ebb.Policy:
    """The policy in a worker."""
    return wrap(pickle.loads(packed), identity)
