"""What a side takes besides its time in use: compilation from cold caches, and memory."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import teeny_core as tn
from numpy.typing import NDArray

from teeny_bench.peers import torch_module

Value = TypeVar("Value")

CACHES = ("TEENY_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")


@dataclass(frozen=True)
class Costs:
    """What one side takes.

    Attributes:
        compile_s: seconds until the first result, tracing included.
        peak_bytes: most bytes that one call holds at a time besides weights and inputs.
    None stands for what was not measured, or does not exist.
    """

    compile_s: float | None = None
    peak_bytes: int | None = None


@contextmanager
def cold_caches() -> Iterator[None]:
    """Give teeny and Inductor empty caches on the disk, which go at the end."""
    before = {name: os.environ.get(name) for name in CACHES}
    with tempfile.TemporaryDirectory(prefix="teeny-bench-") as folder:
        try:
            for name in CACHES:
                os.environ[name] = os.path.join(folder, name)
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def timed(function: Callable[[], Value]) -> tuple[Value, float]:
    """Return what `function` returns, and the seconds that it took."""
    start = time.perf_counter()
    value = function()
    return value, time.perf_counter() - start


def our_peak(program: tn.Program, outputs: Iterable[NDArray[Any]]) -> int:
    """Return the bytes of the arena of a program that has run, and of what it gave."""
    return int(program.stats()["arena_bytes"]) + sum(array.nbytes for array in outputs)


def peer_peak(call: Callable[[], Any]) -> int:
    """Return the most bytes of tensors that were allocated in a call of torch and not yet freed."""
    torch = torch_module()
    cpu = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[cpu], profile_memory=True) as profile:
        call()
    events = profile.profiler.kineto_results.events()
    changes = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    held = peak = 0
    for _, change in sorted(changes, key=lambda pair: pair[0]):
        held += change
        peak = max(peak, held)
    return peak
