"""The ratios as a picture: bars from 1 to the right for wins, to the left for losses."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from teeny_core import ConfigError

from teeny_bench.report import Row, by_suite, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIN, LOSS, INK, FAINT = "#2a9d8f", "#d1603d", "#22303c", "#d9dee3"
ROW_INCHES = 0.27
PANEL_INCHES = 0.35
WIDTH_INCHES = 8.0


def require_svg(path: Path) -> None:
    """Raise ConfigError unless `path` names an SVG file."""
    if path.suffix.lower() != ".svg":
        raise ConfigError(f"the plot is an SVG, and {path} is not", hint="end the name with .svg")


def to_svg(rows: Sequence[Row]) -> bytes:
    """Return the picture of `rows` as the contents of an SVG file."""
    import matplotlib as mpl

    style: Any = {
        "font.size": 9,
        "text.color": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "svg.hashsalt": "teeny",  # the same rows give the same file
    }
    with mpl.rc_context(style):
        contents = io.BytesIO()
        draw(rows).savefig(contents, format="svg", metadata={"Date": None})
    return contents.getvalue()


def draw(rows: Sequence[Row]) -> Figure:
    """Draw the best ratio of each row as a bar, the median as a tick; a panel for each suite."""
    from matplotlib.figure import Figure

    groups = by_suite(rows)
    height = 1.1 + ROW_INCHES * len(rows) + PANEL_INCHES * len(groups)
    figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    panels = figure.subplots(
        len(groups),
        sharex=True,
        squeeze=False,
        height_ratios=[len(members) for _, members in groups],
    )[:, 0]
    for panel, (suite, members) in zip(panels, groups, strict=True):
        _panel(panel, suite, members)
    _scale(panels[-1], rows)
    figure.suptitle(title(rows), x=0.01, ha="left", weight="bold", size=11)
    return figure


def _panel(axes: Axes, suite: str, rows: Sequence[Row]) -> None:
    places = range(len(rows))
    ratios = [row.ratio_best for row in rows]
    colours = [WIN if ratio >= 1.0 else LOSS for ratio in ratios]
    axes.barh(places, [ratio - 1.0 for ratio in ratios], left=1.0, height=0.72, color=colours)
    axes.plot([row.ratio_median for row in rows], places, "|", color=INK, markersize=9, mew=1.4)
    for place, row in zip(places, rows, strict=True):
        end = max(row.ratio_best, row.ratio_median, 1.0)
        axes.annotate(
            f"{row.ratio_best:.2f}×", (end, place), (6, 0), textcoords="offset points", va="center"
        )
    axes.axvline(1.0, color=INK, linewidth=1)
    axes.set_yticks(places, [row.name for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_title(suite, loc="left", size=10)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=FAINT, linewidth=0.8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _scale(axes: Axes, rows: Sequence[Row]) -> None:
    """Make the shared axis logarithmic, with ticks at powers of two."""
    values = [value for row in rows for value in (row.ratio_best, row.ratio_median)]
    low = min(-1, math.floor(math.log2(min(values))))
    high = max(1, math.ceil(math.log2(max(values))))
    ticks = [2.0**power for power in range(low, high + 1)]
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tick:g}×" for tick in ticks])
    axes.set_xlim(ticks[0], ticks[-1] * 1.25)
    axes.set_xlabel(f"{rows[0].peer} time / teeny time; bar: best round, tick: median round")
