"""Rows of results, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from teeny_bench.measure import Timing

if TYPE_CHECKING:
    from rich.table import Table


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


def table(rows: Sequence[Row]) -> Table:
    """Lay out `rows`, of one peer and number of threads: the best times, both ratios, the note.

    Wins are green, losses red.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    result = Table(title=title(rows), title_justify="left", box=SIMPLE_HEAD)
    result.add_column("case", no_wrap=True)
    for heading in ("ours", "peer", "ratio", "median"):
        result.add_column(heading, justify="right", no_wrap=True)
    result.add_column("of limit", justify="right", no_wrap=True)
    for suite, members in by_suite(rows):
        result.add_row(f"[bold]{suite}[/]")
        for row in members:
            colour = "green" if row.ratio_best >= 1.0 else "red"
            result.add_row(
                row.name,
                seconds_text(row.ours_best_s),
                seconds_text(row.peer_best_s),
                f"[{colour}]{row.ratio_best:.2f}[/]",
                f"{row.ratio_median:.2f}",
                row.note,
            )
    return result


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
