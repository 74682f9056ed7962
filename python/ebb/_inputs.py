"""From what users write to the description of a job that the module `_ebb` reads."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from . import _ebb
from ._catalog import Study, find, schema
from ._errors import ScenarioError

#: A scenario: a table of settings, one of the classes of `ebb.scenarios`, TOML, or the path of a file.
ScenarioLike: TypeAlias = "Mapping[str, Any] | str | os.PathLike[str] | object | None"
#: The content of a file: text, bytes, a data frame, an array or a graph.
Content: TypeAlias = Any
Files: TypeAlias = "dict[str, bytes]"


def content(name: str, value: Content) -> bytes:
    """The bytes of a file made of a value of Python: text, bytes, data frames, arrays, graphs."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    if _is_graph(value):
        return _graphml(value)
    if _is_frame(value):
        named = value.index.name is not None or "datetime" in str(getattr(value.index, "dtype", ""))
        text: str = value.to_csv(index=named, date_format="%Y-%m-%dT%H:%M:%S%z")
        return text.encode()
    if hasattr(value, "tolist"):
        rows = value.tolist()
        rows = rows if rows and isinstance(rows[0], list) else [[cell] for cell in rows]
        return "".join(",".join(map(repr, row)) + "\n" for row in rows).encode()
    raise ScenarioError(
        file=name,
        message=f"cannot be made of a value of type {type(value).__name__}",
        remedy="text, bytes, a data frame, an array or a graph",
    )


def _is_frame(value: object) -> bool:
    return hasattr(value, "to_csv") and hasattr(value, "index")


def _is_graph(value: object) -> bool:
    return hasattr(value, "is_multigraph") and hasattr(value, "edges")


def _graphml(graph: Any) -> bytes:
    import networkx

    return "\n".join(networkx.generate_graphml(graph)).encode()


class _Values:
    """Turns values into what JSON holds; data frames, matrices, graphs and models become files."""

    def __init__(self, files: Files, study: Study) -> None:
        self.files, self.study = files, study

    def plain(self, value: Any, path: str) -> Any:
        """The value as JSON has it."""
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = table_of(value)
        if isinstance(value, Mapping):
            table = self.table(value, path)
            declared = self.declared(path)
            if declared.get("type") != "string":
                return table
            # It stands where a file is named: a model, in the language of which there is one.
            text, ending = json.dumps(table), "json"
            if "TOML" in declared.get("description", ""):
                text, ending = _ebb.toml_text(text), "toml"
            self.files[f"{path}.{ending}"] = text.encode()
            return f"{path}.{ending}"
        if isinstance(value, str | bool | int):
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise ScenarioError(field=path, message=f"is {value}", remedy="a finite number")
            return value
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if _is_graph(value) or _is_frame(value):
            return self.file(value, path, "graphml" if _is_graph(value) else "csv")
        if hasattr(value, "tolist"):  # Arrays and numbers of numpy.
            if getattr(value, "ndim", 0) == 2 and self.declared(path).get("type") == "string":
                return self.file(value, path, "csv")
            return self.plain(value.tolist(), path)
        if isinstance(value, Iterable):
            return [self.plain(entry, f"{path}[{index}]") for index, entry in enumerate(value)]
        raise ScenarioError(
            field=path or None,
            message=f"is a value of type {type(value).__name__}",
            remedy="a number, text, list or table",
        )

    def table(self, value: Mapping[str, Any], path: str) -> dict[str, Any]:
        """A table as JSON has it."""
        inner = ((str(key), entry) for key, entry in value.items() if entry is not None)
        return {key: self.plain(entry, f"{path}.{key}" if path else key) for key, entry in inner}

    def file(self, value: Any, path: str, ending: str) -> str:
        """The value as a file in memory, by the name under which the setting takes one."""
        name = f"{(path or 'input').rstrip('_')}.{ending}"
        self.files[name] = content(name, value)
        # Where a file is one way of several to fill a setting, its declaration says how that is written.
        prefix = f"{ending}:"
        return f"{prefix}{name}" if f"{prefix}FILE" in self.declared(path).get("description", "") else name

    def declared(self, path: str) -> Mapping[str, Any]:
        """What the schema says of a setting; of a flag, of its setting."""
        found: Mapping[str, Any] = {"properties": (schema(self.study.name) or {}).get("properties", {})}
        for name in self.study.path(path).split("."):
            found = found.get("properties", {}).get(name, {})
        return found


def table_of(scenario: Any) -> dict[str, Any]:
    """The settings of an object of a scenario class under their names in files."""
    table = {}
    for field in dataclasses.fields(scenario):
        value = getattr(scenario, field.name)
        if value is not None:
            table[field.metadata.get("name", field.name)] = value
    return table


def _read(scenario: ScenarioLike, values: _Values) -> tuple[str, str, Path]:
    """Name, text and directory of a scenario."""
    here = Path.cwd()
    if scenario is None:
        return "settings", "", here
    if isinstance(scenario, str):
        told = "\n" in scenario or "=" in scenario
        if told and not (len(scenario) < 1024 and "\n" not in scenario and Path(scenario).exists()):
            return "scenario", scenario, here
        scenario = Path(scenario)
    if isinstance(scenario, os.PathLike):
        path = Path(scenario)
        try:
            text = path.read_bytes().decode()
        except OSError as error:
            reason = error.strerror or str(error)
            raise ScenarioError(file=str(path), message=f"cannot read the file: {reason}") from error
        except UnicodeDecodeError as error:
            raise ScenarioError(file=str(path), message="is no text in UTF-8") from error
        return str(path), text, path.parent.absolute()
    if isinstance(scenario, Mapping) or (
        dataclasses.is_dataclass(scenario) and not isinstance(scenario, type)
    ):
        plain = values.plain(scenario, "")
        return "scenario", _ebb.toml_text(json.dumps(plain)), here
    raise ScenarioError(
        message=f"a scenario cannot be a {type(scenario).__name__}",
        remedy="a table (dict), a class of ebb.scenarios, TOML text or a path",
    )


def _over(path: str, values: Any, plain: _Values) -> Any:
    """One axis of a sweep: as it is written on the command line, or its values."""
    if isinstance(values, str):
        return f"{path}={values}"
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        values = [values]
    return [path, [plain.plain(value, path) for value in values]]


@dataclasses.dataclass
class Job:
    """What the module `_ebb` is handed."""

    study: Study
    description: dict[str, Any]
    files: Files

    @property
    def text(self) -> str:
        """The description as JSON."""
        return json.dumps(self.description)

    def for_workers(self) -> str:
        """The description without what only whoever collects needs."""
        mine = ("over", "out", "fresh", "jobs", "seeds", "until", "saturation")
        return json.dumps({key: value for key, value in self.description.items() if key not in mine})


def prepare(
    kind: str,
    name: str,
    scenario: ScenarioLike,
    *,
    settings: Mapping[str, Any],
    over: Mapping[str, Any] | None = None,
    files: Mapping[str, Content] | None = None,
    directory: str | os.PathLike[str] | None = None,
    **others: Any,
) -> Job:
    """Describe a job."""
    study = find(kind, name)
    given: Files = {file: content(file, value) for file, value in (files or {}).items()}
    values = _Values(given, study)
    label, text, place = _read(scenario, values)
    flags, axes = [], []
    for key, value in settings.items():
        flag = study.flag(key)
        if flag is not None:
            if value is not None and value is not False:
                flags.append([flag, values.plain(value, key)])
        elif value is not None:
            path = key.replace("__", ".")
            axes.append([path, [values.plain(value, path)]])
    for path, entries in (over or {}).items():
        axes.append(_over(path.replace("__", "."), entries, values))
    description: dict[str, Any] = {
        "kind": study.kind,
        "system": study.system,
        "name": label,
        "text": text,
        "directory": os.fspath(directory) if directory is not None else str(place),
        "flags": flags,
        "over": axes,
    }
    description.update({key: value for key, value in others.items() if value is not None})
    if description.get("out") is not None:
        description["out"] = os.fspath(description["out"])
        description["program"] = program()
    return Job(study, description, given)


_identity: str | None = None


def program() -> str:
    """What results of this build are told by: the digest of the module's bytes."""
    global _identity
    if _identity is None:
        _identity = _ebb.digest(_ebb.__file__)
    return _identity
