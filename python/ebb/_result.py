"""What a run found: figures, tables, plots and the forms that the command writes."""

from __future__ import annotations

import functools
import html
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _ebb
from ._policy import DecisionCost

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class Figures(Mapping[str, Any]):
    """The figures of a run by name, in the order of the report, each with its unit.

    >>> figures["power_w"], figures.unit("power_w")        # doctest: +SKIP
    (12.5, 'W')
    """

    def __init__(self, values: Mapping[str, Any], units: Mapping[str, str]) -> None:
        """Put values and units together."""
        self._values = {name: values[name] for name in units if name in values}
        self._values.update({name: value for name, value in values.items() if name not in units})
        #: Units by name; empty for counts and words.
        self.units: dict[str, str] = {name: units.get(name, "") for name in self._values}

    def __getitem__(self, name: str) -> Any:
        """Return the value of a figure."""
        try:
            return self._values[name]
        except KeyError:
            near = [known for known in self._values if name in known or known in name]
            hint = f"; there are {', '.join(near)}" if near else ""
            raise KeyError(f"there is no figure `{name}`{hint}") from None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names in order."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._values)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._values)

    def unit(self, name: str) -> str:
        """The unit of a figure; empty for counts and words."""
        self[name]
        return self.units[name]

    def __repr__(self) -> str:
        """List those that are single values."""
        return "\n".join(f"{name} = {value!r} {self.units[name]}".rstrip() for name, value in self._single())

    def _single(self) -> Iterator[tuple[str, Any]]:
        return ((name, value) for name, value in self.items() if not isinstance(value, list | dict))

    def _repr_html_(self) -> str:
        row = "<tr><th style='text-align:left'>{}</th><td>{}</td><td>{}</td></tr>"
        cells = ((name, _shown(value), self.units[name]) for name, value in self._single())
        rows = (row.format(*(html.escape(str(cell)) for cell in line)) for line in cells)
        return f"<table>{''.join(rows)}</table>"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class Tables(Mapping[str, "pandas.DataFrame"]):
    """The tables of a run as data frames, by the names of the files that the command writes.

    Units are in `frame.attrs["units"]` by column, the title in `frame.attrs["title"]`.
    """

    def __init__(self, report: _ebb.Report) -> None:
        """Describe the tables; data frames are made when they are asked for."""
        self._report = report
        self._made: dict[str, pandas.DataFrame] = {}
        self._described = {table["name"]: (i, table) for i, table in enumerate(json.loads(report.tables()))}

    def __getitem__(self, name: str) -> pandas.DataFrame:
        """Make the data frame of a table."""
        if name not in self._made:
            index, table = self._described[name]
            self._made[name] = _frame(self._report.columns(index), table)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names in order."""
        return iter(self._described)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._described)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._described)

    def index(self, name: str) -> int:
        """The place of a table."""
        index: int = self._described[name][0]
        return index

    def __repr__(self) -> str:
        """List names and titles."""
        return "\n".join(f"{name}: {table['title']} ({table['rows']} rows)"
                         for name, (_, table) in self._described.items())  # fmt: skip


def _frame(blocks: Sequence[tuple[str, Any]], table: dict[str, Any]) -> pandas.DataFrame:
    import numpy
    import pandas

    kinds: dict[str, Any] = {"count": numpy.uint64, "number": numpy.float64}
    columns: dict[str, Any] = {}
    units: dict[str, str] = {}
    for (kind, block), column in zip(blocks, table["columns"], strict=True):
        name, number = column["name"], 2
        while name in columns:
            name, number = f"{column['name']} {number}", number + 1
        if kind == "text":
            columns[name] = pandas.array(block, dtype=object)
        else:
            columns[name] = numpy.frombuffer(block, dtype=kinds[kind])
        units[name] = column["unit"]
    frame = pandas.DataFrame(columns, copy=False)
    frame.attrs.update(title=table["title"], units=units, keys=list(columns)[: table["keys"]])
    return frame


def grid(frame: pandas.DataFrame, axes: list[str]) -> Any:
    """A data frame as a data set of xarray over some of its columns."""
    import xarray

    wide = frame.set_index(axes)
    if not wide.index.is_unique:
        raise ValueError(f"this is no grid: two rows have the same {', '.join(axes)}")
    made = xarray.Dataset.from_dataframe(wide)
    made.attrs["title"] = frame.attrs["title"]
    for name, unit in frame.attrs["units"].items():
        if name in made.variables and unit:
            made[name].attrs["units"] = unit
    return made


class Result:
    """What a run found.

    `figures` holds its numbers with their units, `tables` its data frames, `report` the text that the
    command prints; `html`, `json` and `to_csv` are byte for byte what the command writes.
    """

    def __init__(
        self,
        report: _ebb.Report,
        *,
        claims: list[Any] | None = None,
        claims_json: str | None = None,
        decisions: DecisionCost | None = None,
    ) -> None:
        """Hold a report of the module `_ebb`."""
        self._report = report
        #: Published numbers beside ours, of `ebb.reproduce` alone.
        self.claims = claims
        self._claims_json = claims_json
        #: What a policy of Python cost per decision, where one decided; it differs from run to run.
        self.decisions = decisions

    @property
    def title(self) -> str:
        """The headline."""
        return self._report.title

    @functools.cached_property
    def figures(self) -> Figures:
        """The figures with their units."""
        return Figures(json.loads(self._report.figures()), dict(self._report.units()))

    @functools.cached_property
    def tables(self) -> Tables:
        """The tables as data frames."""
        return Tables(self._report)

    @property
    def report(self) -> str:
        """The report as text, as the command prints it."""
        return self._report.text()

    @property
    def html(self) -> str:
        """The report as a page that loads nothing: `report.html` of the command."""
        return self._report.html()

    @property
    def json(self) -> str:
        """The report as JSON: `report.json` of the command."""
        return self._report.json()

    @property
    def svg(self) -> list[str]:
        """The plots as the page draws them, each an SVG document."""
        return self._report.svg()

    def to_csv(self, table: str, path: str | os.PathLike[str] | None = None) -> str:
        """Return a table as the command writes it; write it to `path`, if there is one."""
        content = self._report.csv(self.tables.index(table))
        if path is not None:
            Path(path).write_bytes(content)
        return content.decode()

    def to_xarray(self, table: str | None = None, over: Sequence[str] | None = None) -> Any:
        """A table as a data set of xarray over its columns `over`; units in the attributes.

        Without `over` these are the columns that name its rows, `attrs["keys"]` of the data frame. `table`
        may be left out where there is only one. Where two rows have the same name it is no grid: that is a
        `ValueError`.
        """
        if table is None:
            if len(self.tables) != 1:
                raise ValueError(f"which table? there are: {', '.join(self.tables) or 'none'}")
            (table,) = self.tables
        frame = self.tables[table]
        return grid(frame, frame.attrs["keys"] if over is None else list(over))

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Write `report.html`, `report.json` and the tables as CSV into a directory."""
        place = Path(directory)
        place.mkdir(parents=True, exist_ok=True)
        (place / "report.html").write_text(self.html)
        (place / "report.json").write_text(self.json)
        for name in self.tables:
            self.to_csv(name, place / f"{name}.csv")
        if self._claims_json is not None:
            (place / "claims.json").write_text(self._claims_json)
        return place

    @functools.cached_property
    def plots(self) -> list[dict[str, Any]]:
        """The plots as data: title, axes, panels with their series."""
        plots: list[dict[str, Any]] = json.loads(self._report.plots_json())
        return plots

    def plot(self, which: int | str = 0, **figure: Any) -> Figure:
        """Draw a plot with matplotlib: the one of this index, or with this in its title.

        Further arguments go to `matplotlib.pyplot.figure`.
        """
        from ._plot import draw

        if isinstance(which, str):
            titles = [plot["title"] for plot in self.plots]
            found = [index for index, title in enumerate(titles) if which in title]
            if not found:
                raise KeyError(f"no plot has `{which}` in its title; there are: {'; '.join(titles)}")
            which = found[0]
        if not self.plots:
            raise IndexError("this report has no plots")
        return draw(self.plots[which], **figure)

    def __repr__(self) -> str:
        """Return the headline and the first figures."""
        lines = repr(self.figures).splitlines()
        more = [f"… {len(lines) - 8} more in .figures"] if len(lines) > 8 else []
        more += [f"({self.decisions})"] if self.decisions else []
        return "\n".join([f"<Result: {self.title}>", *("  " + line for line in [*lines[:8], *more])])

    def _repr_html_(self) -> str:
        page = html.escape(self.html, quote=True)
        style = "width:100%;height:480px;border:1px solid #ccc"
        cost = f"<p>{html.escape(str(self.decisions))}</p>" if self.decisions else ""
        return f'{cost}<iframe style="{style}" srcdoc="{page}"></iframe>'
