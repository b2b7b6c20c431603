"""Timing functions fairly on a machine that others share.

The functions run in turn, round by round, so that a drift of the machine's speed meets all alike;
each round repeats a function until it has run long enough for the clock. The best round tells what
the code can do, the median what a user sees.

Threads that have nothing to do may spin before they sleep: those of the OpenMP that PyTorch brings
keep a core for 10 ms after a call. With several threads, a round begins when all are asleep.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MIN_ROUNDS = 5
LONG_SECONDS = 10.0
LONG_ROUNDS = 2
"""Rounds that are enough once all sides together took `LONG_SECONDS`: slow code scatters less."""
ROUND_SECONDS = 0.02
MAX_REPEATS = 100_000
IDLE_SECONDS = 0.01
BUSY = 0.1
"""Share of a core that a process uses at least when one of its threads runs."""
MOST_WAITS = 10

Call = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Seconds for one call: the best and the median round."""

    best: float
    median: float


def alternate(functions: Sequence[Call], seconds: float = 1.0, *, threads: int = 1) -> list[Timing]:
    """Time `functions` in turn for about `seconds` each, and at least `MIN_ROUNDS` rounds.

    Where these take longer than `LONG_SECONDS`, fewer do.

    Args:
        functions: what to call.
        seconds: how long to call each.
        threads: how many they use.
    """
    counts = [repeats_for(function) for function in functions]
    samples: list[list[float]] = [[] for _ in functions]
    spent = 0.0
    while spent < seconds * len(functions) or not _are_enough(len(samples[0]), spent):
        for function, count, sample in zip(functions, counts, samples, strict=True):
            if threads > 1:
                await_idle()
                function()  # its threads start, or wake
            elapsed = _round_seconds(function, count)
            sample.append(elapsed / count)
            spent += elapsed
    return [Timing(min(sample), statistics.median(sample)) for sample in samples]


def _are_enough(rounds: int, spent: float) -> bool:
    return rounds >= (MIN_ROUNDS if spent < LONG_SECONDS else LONG_ROUNDS)


def repeats_for(function: Call, seconds: float = ROUND_SECONDS) -> int:
    """Return how many calls of `function` take about `seconds`; also warms it up."""
    function()
    count = 1
    while True:
        elapsed = _round_seconds(function, count)
        if elapsed >= seconds / 2 or count >= MAX_REPEATS:
            return max(1, min(MAX_REPEATS, round(count * seconds / max(elapsed, 1e-9))))
        count *= 4


def _round_seconds(function: Call, count: int) -> float:
    if count > 1:
        function()  # short calls begin with their own data in the caches, not the other side's
    start = time.perf_counter()
    for _ in range(count):
        function()
    return time.perf_counter() - start


def await_idle() -> None:
    """Wait until no thread of this process runs, `MOST_WAITS * IDLE_SECONDS` at most."""
    for _ in range(MOST_WAITS):
        used = time.process_time()
        time.sleep(IDLE_SECONDS)
        if time.process_time() - used < BUSY * IDLE_SECONDS:
            return
