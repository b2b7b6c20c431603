"""Rows of results, as a table and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from teeny_bench.costs import Costs
from teeny_bench.measure import Timing

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One comparison. Times are seconds for one call; a ratio over 1 means that teeny is faster.

    Seconds of compilation are from cold caches to the first result, bytes the most that a call
    holds besides weights and inputs; None where they were not measured.
    """

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
    ours_compile_s: float | None = None
    peer_compile_s: float | None = None
    ours_peak_bytes: int | None = None
    peer_peak_bytes: int | None = None


def make_row(
    suite: str,
    name: str,
    threads: int,
    ours: Timing,
    peer: str,
    theirs: Timing,
    note: str,
    costs: tuple[Costs, Costs] | None = None,
) -> Row:
    """Build the row of one comparison."""
    our_costs, peer_costs = costs or (Costs(), Costs())
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
        ours_compile_s=our_costs.compile_s,
        peer_compile_s=peer_costs.compile_s,
        ours_peak_bytes=our_costs.peak_bytes,
        peer_peak_bytes=peer_costs.peak_bytes,
    )


SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))


def seconds_text(seconds: float) -> str:
    """Format a duration with three figures and a fitting unit."""
    return _measured((seconds,), SECONDS)


def _measured(values: Sequence[float | None], units: Sequence[tuple[float, str]]) -> str:
    """Format values with three figures in one unit, that of the largest; `-` for none."""
    largest = max(value for value in values if value is not None)
    size, unit = next((pair for pair in units if largest >= pair[0]), units[-1])
    figures = ("-" if value is None else f"{value / size:.3g}" for value in values)
    return f"{' / '.join(figures)} {unit}"


def geometric_mean(ratios: Sequence[float]) -> float:
    """Return the number whose logarithm is the mean of those of `ratios`."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def table(rows: Sequence[Row]) -> Table:
    """Lay out `rows`, of one peer and number of threads: the best times, both ratios, the note.

    Where they were measured, seconds of compilation and bytes follow, ours / the peer's. Suites
    end with the geometric means of their ratios. Wins are green, losses red.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    extras = {heading: cell for heading, cell in EXTRAS.items() if any(map(cell, rows))}
    result = Table(title=title(rows), title_justify="left", box=SIMPLE_HEAD)
    result.add_column("case", no_wrap=True)
    for heading in ("ours", "peer", "ratio", "median", *extras):
        result.add_column(heading, justify="right", no_wrap=True)
    for suite, members in by_suite(rows):
        result.add_row(f"[bold]{suite}[/]")
        for row in members:
            times = seconds_text(row.ours_best_s), seconds_text(row.peer_best_s)
            cells = (cell(row) for cell in extras.values())
            result.add_row(row.name, *times, *_ratios([row]), *cells)
        if len(members) > 1:
            result.add_row("geometric mean", "", "", *_ratios(members))
    return result


def _ratios(rows: Sequence[Row]) -> tuple[str, str]:
    """Return the mean ratios of `rows`, that of the best rounds in its colour."""
    best = geometric_mean([row.ratio_best for row in rows])
    median = geometric_mean([row.ratio_median for row in rows])
    colour = "green" if best >= 1.0 else "red"
    return f"[{colour}]{best:.2f}[/]", f"{median:.2f}"


def _compile_cell(row: Row) -> str:
    if row.ours_compile_s is None:
        return ""
    return _measured((row.ours_compile_s, row.peer_compile_s), SECONDS)


def _memory_cell(row: Row) -> str:
    if row.ours_peak_bytes is None:
        return ""
    return _measured((row.ours_peak_bytes, row.peer_peak_bytes), BYTES)


EXTRAS: Mapping[str, Callable[[Row], str]] = {
    "of limit": attrgetter("note"),
    "compile": _compile_cell,
    "memory": _memory_cell,
}


def by_suite(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Return the rows of each suite, in order."""
    return [(suite, list(members)) for suite, members in groupby(rows, attrgetter("suite"))]


def title(rows: Sequence[Row]) -> str:
    """Say what `rows` compare."""
    threads = rows[0].threads
    return f"teeny against {rows[0].peer}, {threads} thread{'' if threads == 1 else 's'}"


def to_json(rows: Sequence[Row]) -> str:
    """Return `rows` as a JSON list of objects."""
    return json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False) + "\n"
