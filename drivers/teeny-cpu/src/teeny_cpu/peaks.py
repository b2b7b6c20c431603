"""The limits of this machine, measured: the rate of multiply-adds and of copies."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable

import numpy as np
import teeny_triton as triton
import teeny_triton.language as tl
from teeny_compiler.internal import host_target
from teeny_core import f32
from teeny_triton import Ptr, Target, constexpr, i64

STEPS = 100_000
PROGRAMS = 8
"""Programs of a thread."""
BLOCK = 1024
FLOAT_BYTES = 4
LAUNCH_BYTES = 64 << 20
SMALLEST_COPY = 16
"""Binary logarithm of the bytes of the smallest copy that is measured."""


@triton.kernel
def fma_chains(x: Ptr[triton.f32], steps: i64, SIZE: constexpr) -> None:
    """Run `steps` fused multiply-adds on a tile of SIZE lanes that stays in registers."""
    lanes = tl.arange(0, SIZE)
    tile = tl.load(x + lanes)
    factor = tl.load(x)
    for _ in range(steps):
        tile = tl.fma(tile, factor, factor)
    tl.store(x + SIZE * tl.program_id(0) + lanes, tile)


@triton.kernel
def copy(source: Ptr[triton.f32], target: Ptr[triton.f32], blocks: i64, BLOCK: constexpr) -> None:
    """Copy one block; programs past the last block begin again with the first."""
    lanes = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + lanes, tl.load(source + lanes))


def _best_seconds(function: Callable[[], object], rounds: int) -> float:
    function()
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def chain_lanes(target: Target) -> int:
    """Lanes of the tile of `fma_chains`.

    It takes three in four of the registers: enough chains to hide the latency of a multiply-add (4
    cycles, two a cycle), and a register is left for the factor.
    """
    return target.vector_registers * 3 // 4 * target.lanes(f32)


@functools.cache
def fma_peak(threads: int) -> float:
    """Measured f32 multiply-add rate in FLOP/s with `threads` threads (two per lane and FMA)."""
    size, programs = chain_lanes(host_target()), PROGRAMS * threads
    data = np.ones(size * programs, np.float32)
    run = functools.partial(fma_chains[(programs,)], data, STEPS, SIZE=size)
    return 2.0 * size * STEPS * programs / _best_seconds(run, 20)


@functools.cache
def copy_bandwidth(size_bytes: int, threads: int) -> float:
    """Measured bytes/s (read plus written) of copies whose two arrays hold `size_bytes`."""
    blocks = max(1, size_bytes // (2 * FLOAT_BYTES * BLOCK))
    rounds = max(1, LAUNCH_BYTES // size_bytes)  # small copies in a row, to hide the launch
    source = np.ones(blocks * BLOCK, np.float32)
    target = np.empty_like(source)
    run = functools.partial(copy[(blocks * rounds,)], source, target, blocks, BLOCK=BLOCK)
    return 2.0 * source.nbytes * rounds / _best_seconds(run, 10)


def least_seconds(flops: float, bytes_moved: float, threads: int) -> float:
    """Return the time that the nearer limit allows for some work of a kernel."""
    arithmetic = flops / fma_peak(threads)
    if not bytes_moved:
        return arithmetic
    size = 1 << max(SMALLEST_COPY, math.ceil(math.log2(bytes_moved)))  # few sizes to measure
    return max(arithmetic, bytes_moved / copy_bandwidth(min(size, LAUNCH_BYTES), threads))
