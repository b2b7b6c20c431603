"""Reductions by blocks: accumulators of the size of a block, folded when all blocks are in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import teeny_triton.language as tl
from teeny_core import DType, f32, i32
from teeny_triton.ir import Op

from teeny_compiler.codegen.block.evaluate import Place
from teeny_compiler.codegen.block.masks import neutral

Accumulator: TypeAlias = tuple[tl.Tile, ...]
"""The values of a block so far, and for argmax and argmin their indices."""

COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "xor_sum": "xor"}
LAST = (1 << 31) - 1


@dataclass(frozen=True)
class Fold:
    """The reduction of one op."""

    op: Op

    @property
    def kind(self) -> str:
        """The kind of the reduction."""
        kind: str = self.op.attrs["kind"]
        return kind

    @property
    def is_index(self) -> bool:
        """Whether the result is a position."""
        return self.kind.startswith("arg")

    @property
    def element(self) -> DType:
        """The type of the elements."""
        element = self.op.operands[0].type.element
        assert isinstance(element, DType)
        return element

    @property
    def wide(self) -> DType:
        """The type in which partial results are kept."""
        return f32 if self.element.is_float and self.element.bits < 32 else self.element

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The types of the tiles in an accumulator."""
        return (self.wide, i32) if self.is_index else (self.wide,)

    def start(self, shape: tuple[int, ...]) -> Accumulator:
        """Return the accumulator of no elements."""
        values = tl.full(shape, neutral(self.kind, self.element), self.wide)
        return (values, tl.full(shape, LAST, i32)) if self.is_index else (values,)

    def block(self, x: tl.Tile, axis: int, first: Place) -> Accumulator:
        """Return the accumulator of one block whose elements start at `first` along an axis."""
        values = x.to(self.wide)
        if not self.is_index:
            return (values,)
        shape = tuple(extent if a == axis else 1 for a, extent in enumerate(x.shape))
        places = tl.arange(0, x.shape[axis]).reshape(*shape)
        places = places + (first if isinstance(first, int) else tl.Tile(first))
        return values, places.broadcast_to(*x.shape)

    def add(self, a: Accumulator, b: Accumulator) -> Accumulator:
        """Combine accumulators; the indices of `b` are higher."""
        if not self.is_index:
            return (combine(self.kind, a[0], b[0]),)
        better = b[0] > a[0] if self.kind == "argmax" else b[0] < a[0]
        better = better | (a[1] == LAST)
        if self.element.is_float:
            better = (better | (b[0] != b[0])) & (a[0] == a[0])
        return tl.where(better, b[0], a[0]), tl.where(better, b[1], a[1])

    def fold(self, a: Accumulator, axis: int) -> Accumulator:
        """Reduce an axis of an accumulator."""
        if not self.is_index:
            return (reduce(self.kind, a[0], axis),)
        best = reduce(self.kind.removeprefix("arg"), a[0], axis)
        wanted = best.expand_dims(axis).broadcast_to(*a[0].shape)
        hit = a[0] == wanted
        if self.element.is_float:
            hit = hit | ((a[0] != a[0]) & (wanted != wanted))
        return best, reduce("min", tl.where(hit, a[1], LAST), axis)

    def finish(self, a: Accumulator) -> tl.Tile:
        """Return the result of a folded accumulator, in the type of the op."""
        return a[1] if self.is_index else a[0].to(self.element)


def reduce(kind: str, x: tl.Tile, axis: int) -> tl.Tile:
    """Reduce an axis of a register tile."""
    from teeny_triton.builder import current  # the ambient builder of the new function

    return tl.Tile(current().op("reduce", x.value, kind=kind, axis=axis))


def combine(kind: str, a: tl.Tile, b: tl.Tile) -> tl.Tile:
    """Combine two partial results."""
    from teeny_triton.builder import current

    return tl.Tile(current().op(COMBINE[kind], a.value, b.value))
