"""Figures: one query each, drawn as lines with error bars or as grouped bars.

A query yields `series, x, y` and, if it knows them, `low` and `high`, one row per point of the figure. If it yields a
row for each seed instead, rows of the same series and x are averaged, with the 95% confidence interval of their mean.
A series whose name begins with "analysis" is drawn as a dashed line without marks: prediction next to measurement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gossamer.pipeline.experiments.claims import interval
from gossamer.pipeline.experiments.files import Plot
from gossamer.pipeline.session import PipelineError

INK = "#3c3f44"
"""The colour of axes and text in the files; the report replaces it with that of the page."""
COLOURS = ("#2f7ed8", "#e0662b", "#2ca25f", "#9b59b6", "#c0392b", "#7f8c8d", "#b8860b", "#16a085")
MARKS = "osD^vP*X"
PROTOCOLS = {"LBRM": 0, "pbcast": 1, "rpbcast": 2}
"""A protocol looks the same in every figure."""
SIZE = (6.4, 4.0)

Point = tuple[Any, float, float, float]
"""x, y, low, high."""


def gather(rows: Sequence[dict[str, Any]]) -> dict[str, list[Point]]:
    """The points of each series, in the order of the query."""
    samples: dict[str, dict[Any, list[dict[str, Any]]]] = {}
    for row in rows:
        if row.get("x") is not None and row.get("y") is not None:
            samples.setdefault(str(row.get("series", "")), {}).setdefault(row["x"], []).append(row)
    return {series: [_point(x, found) for x, found in by_x.items()] for series, by_x in samples.items()}


def _point(x: Any, rows: Sequence[dict[str, Any]]) -> Point:
    values = [float(row["y"]) for row in rows]
    mean = sum(values) / len(values)
    if len(values) == 1:
        low, high = rows[0].get("low"), rows[0].get("high")
        return x, mean, float(mean if low is None else low), float(mean if high is None else high)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return x, mean, *interval(mean, deviation, len(values))


def draw(plot: Plot, rows: Sequence[dict[str, Any]], stem: Path) -> None:
    """Write `stem.svg` and `stem.png`."""
    series = gather(rows)
    if not series:
        raise PipelineError(f"plot {plot.name!r}: its query yields no points")
    pyplot = _pyplot(stem.name)
    figure, axes = pyplot.subplots(figsize=SIZE)
    if plot.kind == "bars":
        _bars(axes, series)
    else:
        _lines(axes, series)
    least = min(point[1] for points in series.values() for point in points)
    _dress(axes, plot, len(series), least)
    figure.tight_layout()
    figure.savefig(stem.with_suffix(".svg"), transparent=True, metadata={"Date": None, "Creator": "gossamer"})
    figure.savefig(stem.with_suffix(".png"), dpi=130, facecolor="white")
    pyplot.close(figure)


def _pyplot(salt: str) -> Any:
    try:
        import matplotlib
    except ImportError:
        raise PipelineError("matplotlib is not installed; install it with: pip install 'gossamer[plots]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    style: dict[Any, Any] = {
        "svg.fonttype": "none",  # text stays text: it can be searched, and uses the page's font
        "svg.hashsalt": salt,
        "font.family": "sans-serif",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        **{f"{part}.color": INK for part in ("text", "xtick", "ytick")},
        "axes.labelcolor": INK,
        "axes.edgecolor": INK,
    }
    pyplot.rcParams.update(style)
    return pyplot


def _lines(axes: Any, series: dict[str, list[Point]]) -> None:
    measured = 0
    predicted = 0
    for name, points in series.items():
        x, y = [p[0] for p in points], [p[1] for p in points]
        if name.startswith("analysis"):
            axes.plot(x, y, "--", color=COLOURS[predicted % len(COLOURS)], lw=1.3, alpha=0.75, label=name)
            predicted += 1
            continue
        errors = [[max(0.0, p[1] - p[2]) for p in points], [max(0.0, p[3] - p[1]) for p in points]]
        look = PROTOCOLS.get(name, measured)
        style = {"color": COLOURS[look % len(COLOURS)], "marker": MARKS[look % len(MARKS)]}
        axes.errorbar(x, y, yerr=errors, label=name, ms=4.5, lw=1.8, capsize=2.5, elinewidth=1, **style)
        measured += 1


def _bars(axes: Any, series: dict[str, list[Point]]) -> None:
    places = list(dict.fromkeys(p[0] for points in series.values() for p in points))
    width = 0.8 / len(series)
    for number, (name, points) in enumerate(series.items()):
        at = [places.index(p[0]) + (number - (len(series) - 1) / 2) * width for p in points]
        errors = [[max(0.0, p[1] - p[2]) for p in points], [max(0.0, p[3] - p[1]) for p in points]]
        look = PROTOCOLS.get(name, number)
        bars = {"color": COLOURS[look % len(COLOURS)], "error_kw": {"elinewidth": 0.8, "ecolor": INK}}
        axes.bar(at, [p[1] for p in points], width * 0.94, yerr=errors, label=name, **bars)
    labels = [f"{p:g}" if isinstance(p, float) else str(p) for p in places]
    axes.set_xticks(range(len(places)), labels, rotation=90 if len(places) > 20 else 0, fontsize=8)


def _dress(axes: Any, plot: Plot, count: int, least: float) -> None:
    axes.set_xlabel(plot.xlabel)
    axes.set_ylabel(plot.ylabel)
    if plot.xlog:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    if plot.ylog:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    elif least >= 0:  # an error bar may reach below 0, but nothing that we measure does
        axes.set_ylim(bottom=0)
    axes.grid(axis="y", color=INK, alpha=0.15, lw=0.8)
    axes.set_axisbelow(True)
    if count > 1:
        axes.legend(frameon=False, fontsize=9)
