"""Plots of a report with matplotlib."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _heading(axis: dict[str, Any]) -> str:
    return f"{axis['label']} ({axis['unit']})" if axis["unit"] else str(axis["label"])


def _limits(axis: dict[str, Any]) -> dict[str, float]:
    return {} if axis.get("log") else {end: axis[end] for end in ("low", "high") if axis[end] is not None}


def draw(plot: dict[str, Any], **figure: Any) -> Figure:
    """Draw panels above each other that share their horizontal axis."""
    import matplotlib.pyplot as pyplot

    count = max(len(plot["panels"]), 1)
    figure.setdefault("figsize", (6.4, 3.2 if count == 1 else 2.0 * count + 0.6))
    page: Figure
    page, axes = pyplot.subplots(count, 1, sharex=True, squeeze=False, layout="constrained", **figure)
    colours: dict[str, str] = {}
    cycle = pyplot.rcParams["axes.prop_cycle"].by_key()["color"]
    for panel, (ax,) in zip(plot["panels"], axes, strict=False):
        for series in panel["series"]:
            name = series["name"]
            colour = "black" if series.get("published") else cycle[len(colours) % len(cycle)]
            _draw(ax, series, colours.setdefault(name, colour))
        ax.set_ylabel(_heading(panel["y"]))
        if panel["y"].get("log"):
            ax.set_yscale("log")
        for end, value in _limits(panel["y"]).items():
            low, high = ax.get_ylim()
            ax.set_ylim(min(low, value), max(high, value))
            if end == "low" and value <= low:
                ax.set_ylim(bottom=value)
        ax.grid(alpha=0.3)
        if len(panel["series"]) > 1:
            ax.legend(fontsize="small", frameon=False)
    axes[-1][0].set_xlabel(_heading(plot["x"]))
    if plot["x"].get("log"):
        axes[-1][0].set_xscale("log")
    page.suptitle(plot["title"], fontsize="medium")
    pyplot.close(page)  # A notebook shows what is returned, once.
    return page


def _draw(ax: Axes, series: dict[str, Any], colour: str) -> None:
    points = [(math.nan if x is None else x, math.nan if y is None else y) for x, y in series["points"]]
    x, y = [x for x, _ in points], [y for _, y in points]
    line: dict[str, Any] = {"label": series["name"], "color": colour}
    if series.get("published"):
        line["linestyle"] = "--"
    if series["kind"] == "area":
        ax.fill_between(x, y, alpha=0.2, linewidth=0, label=series["name"], color=colour)
    elif series["kind"] == "step":
        ax.step(x, y, where="post", **line)
    elif series["kind"] == "points":
        ax.plot(x, y, "o", markersize=4, label=series["name"], color=colour)
    elif half := series.get("half_widths"):
        ax.errorbar(x, y, yerr=[0.0 if width is None else width for width in half], capsize=2, **line)
    else:
        ax.plot(x, y, marker="o" if len(x) <= 32 else None, markersize=3, **line)
