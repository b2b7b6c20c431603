"""Accumulators: how a reduction starts, takes a value, and ends across the lanes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from teeny_core import DType, i64
from teeny_triton import language as tl
from teeny_triton.language import Tile

from teeny_compiler.lower.elementwise import convert, emit, is_nan, like

_COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}


@dataclass(frozen=True)
class Accumulator:
    """A reduction that holds `width` tiles of `dtype` on its way to a `result`."""

    op: str
    dtype: DType
    result: DType
    width: int = 1

    def start(self, shape: tuple[int, ...]) -> tuple[Tile, ...]:
        """Return the accumulators before any value."""
        return (tl.full(shape, neutral(self.op, self.dtype), self.dtype),)

    def first(self, args: Sequence[Tile], mask: Tile | None) -> list[Tile]:
        """Return the accumulators after one value, neutral where `mask` does not hold."""
        value = convert(args[0], self.dtype)
        if mask is None:
            return [value]
        return [tl.where(mask, value, like(value, neutral(self.op, self.dtype)))]

    def add(self, parts: Sequence[Tile], args: Sequence[Tile], mask: Tile | None) -> list[Tile]:
        """Return the accumulators with a value taken in, where `mask` holds."""
        (value,) = self.first(args, mask)
        return [emit(_COMBINE[self.op], (parts[0], value), self.dtype)]

    def finish(self, parts: Sequence[Tile], across_lanes: bool) -> Tile:
        """Return the result: of each lane, or of all of them."""
        (held,) = parts
        total = tl.reduce(held, 0, self.op) if across_lanes else held
        return convert(total, self.result)


@dataclass(frozen=True)
class ArgAccumulator(Accumulator):
    """The index of the first extreme value; NaN is the most extreme. Holds value and index."""

    width: int = 2

    def start(self, shape: tuple[int, ...]) -> tuple[Tile, ...]:
        """Return the worst value, at an index behind all others."""
        worst = neutral(self.op, self.dtype)
        return tl.full(shape, worst, self.dtype), tl.full(shape, i64.max, i64)

    def first(self, args: Sequence[Tile], mask: Tile | None) -> list[Tile]:
        """Return the value and its index; the worst value, behind all others, outside of `mask`."""
        return self.add(self.start(args[0].shape), args, mask)

    def add(self, parts: Sequence[Tile], args: Sequence[Tile], mask: Tile | None) -> list[Tile]:
        """Take a value that beats what is held; the first value is taken in any case."""
        (held, place), (value, index) = parts, args
        index = convert(index, i64)
        better = self._beats(value, held) | (place == like(place, i64.max))
        if mask is not None:
            better = better & mask
        return [tl.where(better, value, held), tl.where(better, index, place)]

    def finish(self, parts: Sequence[Tile], across_lanes: bool) -> Tile:
        """Return the smallest index among the lanes that hold the extreme value."""
        held, place = parts
        if across_lanes:
            best = tl.reduce(held, 0, self.op.removeprefix("arg"))
            same = held == best
            if self.dtype.is_float:
                same = same | (is_nan(held) & is_nan(best).broadcast_to(held.shape))
            place = tl.reduce(tl.where(same, place, like(place, i64.max)), 0, "min")
        return convert(place, self.result)

    def _beats(self, value: Tile, held: Tile) -> Tile:
        beats = value > held if self.op == "argmax" else value < held
        if self.dtype.is_float:
            beats = beats | (is_nan(value) & ~is_nan(held))
        return beats


def accumulator(op: str, source: DType, result: DType) -> Accumulator:
    """Return the accumulator of a reduction from `source` elements to a `result`."""
    if op in ("argmax", "argmin"):
        return ArgAccumulator(op, source, result)
    held = result.accumulator if op in ("sum", "prod") else source
    return Accumulator(op, held, result)


def neutral(op: str, dtype: DType) -> int | float:
    """Return the value that a reduction starts from."""
    if op in ("sum", "prod"):
        return int(op == "prod")
    sign = -1 if op.endswith("max") else 1
    if dtype.is_float:
        return sign * math.inf
    return dtype.min if sign < 0 else dtype.max
