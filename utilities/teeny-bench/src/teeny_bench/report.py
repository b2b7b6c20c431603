"""Rows of results: as a table, as JSON and as a picture."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from teeny_bench.measure import Timing


@dataclass(frozen=True)
class Row:
    """One comparison. Times are seconds for one call; a ratio over 1 means that teeny is faster."""

    suite: str
    name: str
    threads: int
    ours_best_s: float
    ours_median_s: float
    peer: str
    peer_best_s: float
    peer_median_s: float
    ratio_best: float
    ratio_median: float
    note: str


def make_row(
    suite: str, name: str, threads: int, ours: Timing, peer: str, theirs: Timing, note: str
) -> Row:
    """Build the row of one comparison."""
    return Row(
        suite=suite,
        name=name,
        threads=threads,
        ours_best_s=ours.best,
        ours_median_s=ours.median,
        peer=peer,
        peer_best_s=theirs.best,
        peer_median_s=theirs.median,
        ratio_best=theirs.best / ours.best,
        ratio_median=theirs.median / ours.median,
        note=note,
    )


def seconds_text(seconds: float) -> str:
    """Format a duration with three figures and a fitting unit."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def print_table(rows: Sequence[Row], console: Console) -> None:
    """Print `rows` as a table; wins are green, losses red."""
    table = Table(
        title=f"teeny against {rows[0].peer}, {rows[0].threads} thread(s)" if rows else ""
    )
    table.add_column("case")
    for heading in ("ours best", "peer best", "ratio best", "ratio median"):
        table.add_column(heading, justify="right")
    table.add_column("note")
    for row in rows:
        colour = "green" if row.ratio_best >= 1.0 else "red"
        table.add_row(
            f"{row.suite} {row.name}",
            seconds_text(row.ours_best_s),
            seconds_text(row.peer_best_s),
            f"[{colour}]{row.ratio_best:.2f}[/{colour}]",
            f"{row.ratio_median:.2f}",
            row.note,
        )
    console.print(table)


def write_json(rows: Sequence[Row], path: Path) -> None:
    """Write `rows` as a JSON list, to a temporary name first."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    os.replace(temporary, path)


def write_plot(rows: Sequence[Row], path: Path) -> None:
    """Draw the best ratios as horizontal bars into an SVG (or whatever the suffix names)."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    names = [f"{row.suite} {row.name}" for row in rows]
    ratios = [row.ratio_best for row in rows]
    figure, axes = pyplot.subplots(figsize=(8, 1 + 0.3 * len(rows)), layout="constrained")
    colours = ["#2a9d8f" if ratio >= 1 else "#e76f51" for ratio in ratios]
    bars = axes.barh(names, ratios, color=colours)
    axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel(f"{rows[0].peer} time / teeny time ({rows[0].threads} thread(s), best)")
    figure.savefig(path)
    pyplot.close(figure)
