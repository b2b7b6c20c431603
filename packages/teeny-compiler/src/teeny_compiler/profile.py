"""What a program did with its time: a table of its kernels, and a trace of its threads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEAD_WORDS = 2
EVENT_WORDS = 4
"""Words before the events of a record, and words of an event: see `codegen.cpu.timed`."""

HEADINGS = ("sum", "share", "best", "median", "GFLOP/s", "GB/s", "limit", "kernel")


@dataclass(frozen=True)
class Row:
    """A kernel launch of a program: times in seconds, work as the scheduler counts it.

    Attributes:
        kernel: name of its function.
        label: what was fused, over which sizes, to which values, and where in the model.
        calls: how many times it was measured.
        best: shortest time of a call.
        median: median time of a call.
        share: share of the median in that of all kernels.
        flops: operations of a call.
        bytes: bytes that a call reads and writes, each once.
        floor: least time that the machine allows, by its measured peaks; 0 when unknown.
    """

    kernel: str
    label: str
    calls: int
    best: float
    median: float
    share: float
    flops: int
    bytes: int
    floor: float = 0.0

    @property
    def gflops(self) -> float:
        """Operations in a nanosecond of the best call."""
        return _rate(self.flops, self.best)

    @property
    def gbytes(self) -> float:
        """Bytes in a nanosecond of the best call."""
        return _rate(self.bytes, self.best)

    @property
    def roofline(self) -> float:
        """Share of the speed that the machine allows: Williams, Waterman, Patterson, CACM 2009."""
        return self.floor / self.best if self.best else 0.0


@dataclass(frozen=True)
class Span:
    """A launch of step `step`, or a piece of it in a thread; times in nanoseconds.

    `thread` is 0 for the whole launch; else threads are numbered from 1.
    """

    step: int
    thread: int
    start: int
    end: int


@dataclass(frozen=True)
class Profile:
    """Measured runs of a program; `str` gives a table, `save` a trace.

    Attributes:
        name: name of the program.
        runs: how many were measured.
        seconds: median time of a call, with all that Python does.
        rows: the launches in the order in which they run.
        spans: what each thread did in the last run.
        lost: pieces of the last run for which there was no room.
    """

    name: str
    runs: int
    seconds: float
    rows: tuple[Row, ...]
    spans: tuple[Span, ...] = field(default=(), repr=False)
    lost: int = 0

    def __str__(self) -> str:
        kernels = sum(row.median for row in self.rows)
        rows = sorted(self.rows, key=lambda row: -row.median)
        cells = [
            HEADINGS,
            *(_cells(row, total) for row, total in zip(rows, _sums(rows), strict=True)),
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        head = (
            f"{self.name}: {_time(self.seconds)} a call, {_time(kernels)} of it in "
            f"{len(self.rows)} kernels; median of {self.runs} runs"
        )
        return "\n".join((head, *(_line(line, widths) for line in cells)))

    def trace(self) -> dict[str, Any]:
        """Return the last run in the Trace Event Format, for Perfetto or chrome://tracing."""
        origin = min((span.start for span in self.spans), default=0)
        events: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": f"teeny {self.name}"}}
        ]
        for thread in sorted({span.thread for span in self.spans}):
            name = f"thread {thread}" if thread else "launches"
            arguments = {"name": name}
            named = {"name": "thread_name", "ph": "M", "pid": 0, "tid": thread, "args": arguments}
            events.append(named)
        for span in self.spans:
            row = self.rows[span.step]
            events.append(
                {
                    "name": row.kernel,
                    "cat": "piece" if span.thread else "launch",
                    "ph": "X",
                    "pid": 0,
                    "tid": span.thread,
                    "ts": (span.start - origin) / 1e3,
                    "dur": (span.end - span.start) / 1e3,
                    "args": {"what": row.label, "flops": row.flops, "bytes": row.bytes},
                }
            )
        return {"traceEvents": events, "displayTimeUnit": "ns"}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to a file that https://ui.perfetto.dev opens."""
        Path(path).write_text(json.dumps(self.trace()), encoding="utf-8")


def _rate(work: int, seconds: float) -> float:
    return work / seconds / 1e9 if seconds else 0.0


def _sums(rows: Sequence[Row]) -> Iterator[float]:
    total = 0.0
    for row in rows:
        total += row.share
        yield total


def _cells(row: Row, total: float) -> tuple[str, ...]:
    return (
        f"{total:.0%}",
        f"{row.share:.1%}",
        _time(row.best),
        _time(row.median),
        f"{row.gflops:.1f}",
        f"{row.gbytes:.1f}",
        f"{row.roofline:.0%}" if row.floor else "",
        f"{row.kernel}: {row.label}",
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    numbers = zip(cells[:-1], widths, strict=False)
    return "  ".join((*(cell.rjust(width) for cell, width in numbers), cells[-1]))


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
