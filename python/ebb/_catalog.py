"""What there is to run, from the catalogue."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

from . import _ebb
from ._errors import UnknownError


@dataclass(frozen=True)
class Study:
    """A simulator, a planner or a set of experiments, as the catalogue describes it."""

    #: `sim`, `plan`, `reproduce`, `import`, or the group of a command that answers questions: `fabric`.
    kind: str
    #: The system that it is about.
    system: str
    #: What it is, in a sentence.
    about: str
    #: Command lines that show it, without the program's name.
    examples: tuple[str, ...]
    #: Figures that matter most.
    headlines: tuple[str, ...]
    #: Settings that make a run of any scenario short.
    quick: tuple[str, ...]
    #: What is to be said beside the examples.
    notes: str
    #: Settings that have a short name: the name and what it does.
    flags: tuple[tuple[str, str], ...]
    #: The settings that these are, in the same order.
    paths: tuple[str, ...]

    @property
    def name(self) -> str:
        """Kind and system: `sim noc`."""
        return f"{self.kind} {self.system}"

    def flag(self, keyword: str) -> str | None:
        """The short name that a keyword of Python stands for; `from_` is `from`, which Python has itself."""
        wanted = keyword.rstrip("_").replace("_", "-")
        return next((name for name, _ in self.flags if name in (wanted, keyword)), None)

    def path(self, keyword: str) -> str:
        """The setting of a keyword: that of a short name, or the keyword itself."""
        flag = self.flag(keyword)
        places = [place for place, (name, _) in enumerate(self.flags) if name == flag]
        return self.paths[places[0]] if places else keyword

    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema of its scenario."""
        text = _ebb.json_schema(self.kind, self.system)
        return None if text is None else json.loads(text)

    def reference(self) -> str | None:
        """The page of its settings, in Markdown."""
        return _ebb.reference(self.kind, self.system)


@functools.cache
def studies() -> tuple[Study, ...]:
    """Everything that the catalogue has."""

    def of(entry: dict[str, Any]) -> Study:
        several = {key: tuple(entry[key]) for key in ("examples", "headlines", "quick")}
        flags = tuple((flag["name"], flag["about"]) for flag in entry["flags"])
        return Study(entry["kind"], entry["system"], entry["about"], **several,
                     notes=entry["notes"], flags=flags,
                     paths=tuple(flag["path"] for flag in entry["flags"]))  # fmt: skip

    return tuple(of(entry) for entry in json.loads(_ebb.studies()))


def find(kind: str, name: str) -> Study:
    """The study of a name with or without its kind: `noc`, `sim noc`."""
    words = name.split()
    if len(words) == 2:
        kind, name = words
    for study in studies():
        if (study.kind, study.system) == (kind, name):
            return study
    known = ", ".join(study.system for study in studies() if study.kind == kind)
    raise UnknownError(f"there is no study `{kind} {name}`; known: {known}")


def schema(name: str, kind: str = "sim") -> dict[str, Any] | None:
    """The JSON Schema of a study's scenario: `schema("noc")`, `schema("plan noc")`."""
    return find(kind, name).schema()


def experiments() -> list[dict[str, Any]]:
    """All experiments that can be reproduced: their names, titles and numbers of claims."""
    listed: list[dict[str, Any]] = json.loads(_ebb.experiments())
    return listed
