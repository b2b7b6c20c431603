"""Measured runs of a program: a second program, which takes its times, runs beside the first."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from teeny_compiler import Schedule
from teeny_compiler.internal import EVENT_WORDS, HEAD_WORDS, Profile, Row, Span
from teeny_core import ConfigError, substitute

from teeny_cpu.peaks import least_seconds
from teeny_cpu.runtime import num_threads

EVENTS = 1 << 16
"""Most pieces of a run that are written down."""

WARM_UP = 2


class Recorder:
    """The memory in which a timed program writes when its kernels ran."""

    def __init__(self, listen: int) -> None:
        self._words = (ctypes.c_int64 * (HEAD_WORDS + EVENT_WORDS * EVENTS))()
        self._words[1] = EVENTS
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(listen)(ctypes.addressof(self._words))

    def take(self) -> tuple[list[Span], int]:
        """Return what was written, its threads numbered as they came, and how much was lost."""
        total = self._words[0]
        self._words[0] = 0
        written = self._words[HEAD_WORDS : HEAD_WORDS + EVENT_WORDS * min(total, EVENTS)]
        threads: dict[int, int] = {0: 0}
        spans = [
            Span(step, threads.setdefault(thread, len(threads)), start, end)
            for step, thread, start, end in zip(*[iter(written)] * EVENT_WORDS, strict=True)
        ]
        return spans, max(0, total - EVENTS)


def measure(
    run: Callable[[], object],
    recorder: Recorder,
    schedule: Schedule,
    sizes: Mapping[str, int],
    runs: int,
) -> Profile:
    """Run a timed program and say where its time went.

    Args:
        run: calls the program.
        recorder: where the program writes its times.
        schedule: what the program runs.
        sizes: the values of its symbols.
        runs: how often it is called, after a few calls to warm up.

    Raises:
        ConfigError: for no runs.
    """
    if runs < 1:
        raise ConfigError(f"cannot profile {runs} runs", hint="ask for 1 or more")
    calls: list[float] = []
    times: list[list[float]] = [[] for _ in schedule.steps]
    for number in range(WARM_UP + runs):
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
        spans, lost = recorder.take()
        if number < WARM_UP:
            continue
        calls.append(seconds)
        for span in spans:
            if span.thread == 0:
                times[span.step].append((span.end - span.start) * 1e-9)
    medians = [statistics.median(found or [0.0]) for found in times]
    total = sum(medians) or 1.0
    rows = tuple(
        _row(schedule, step, times[step], median / total, sizes)
        for step, median in enumerate(medians)
    )
    return Profile(schedule.name, runs, statistics.median(calls), rows, tuple(spans), lost)


def _row(
    schedule: Schedule, number: int, times: Sequence[float], share: float, sizes: Mapping[str, int]
) -> Row:
    step = schedule.steps[number]
    flops, traffic = substitute((step.flops, step.bytes), sizes)
    floor = least_seconds(flops, traffic, num_threads())
    best, median = min(times, default=0.0), statistics.median(times or [0.0])
    name, calls = step.function.name, len(times)
    return Row(name, step.label, calls, best, median, share, flops, traffic, floor)
