"""Tiles in scratch memory, and the loops that walk them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from teeny_core import DType

import teeny_triton.language as tl
from teeny_triton.ir import Type

Shape = tuple[int, ...]
Number = int | tl.Tile


@dataclass(frozen=True)
class Memory:
    """A tile in scratch memory: element i at `pointer + sum(i * strides)`."""

    pointer: tl.Tile
    kind: Type
    strides: Shape

    def store(self, x: tl.Tile) -> None:
        """Put the whole tile there."""
        tl.store(addresses(self.pointer, self.kind.shape, self.strides), x)

    def load(self, shape: Shape | None = None) -> tl.Tile:
        """Return the whole tile, or the part of `shape` at its start."""
        shape = self.kind.shape if shape is None else shape
        return tl.load(addresses(self.pointer, shape, self.strides))


def addresses(pointer: tl.Tile, shape: Shape, strides: Shape) -> tl.Tile:
    """Return the addresses of a tile."""
    place = pointer
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        along = tuple(extent if a == axis else 1 for a in range(len(shape)))
        place = place + (tl.arange(0, extent) * stride).reshape(*along)
    return place.broadcast_to(*shape)


def row_major(shape: Shape) -> Shape:
    """Return the strides of a dense tile."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def reserve(shape: Shape, element: DType, strides: Shape | None = None, size: int = 0) -> Memory:
    """Reserve scratch memory for a tile, dense unless strides and a size are given."""
    pointer = tl.scratch(size or math.prod(shape), element)
    return Memory(pointer, Type(shape, element), row_major(shape) if strides is None else strides)


def spilled(x: tl.Tile) -> Memory:
    """Put a tile into dense scratch memory."""
    assert isinstance(x.dtype, DType)
    memory = reserve(x.shape, x.dtype)
    memory.store(x)
    return memory


@dataclass(frozen=True)
class Lines:
    """How the lines of a tile along one axis lie in memory, `count` lines of `length` elements.

    Where there are many lines they lie side by side, element n of line r at `n * count + r`, so
    that neighbouring lines are neighbouring lanes; else end to end, at `r * length + n`.
    """

    shape: Shape
    axis: int
    lanes: int

    @property
    def length(self) -> int:
        """Elements of a line."""
        return self.shape[self.axis]

    @property
    def count(self) -> int:
        """Number of lines."""
        return math.prod(self.outer)

    @property
    def outer(self) -> Shape:
        """The extents of the other axes."""
        return (*self.shape[: self.axis], *self.shape[self.axis + 1 :])

    @property
    def are_abreast(self) -> bool:
        """Whether lines lie side by side."""
        return self.lanes <= 1 or self.count >= max(2, self.lanes // 2)

    def strides(self, length: int) -> Shape:
        """Return the strides of a tile whose lines have room for `length` elements."""
        step = self.count if self.are_abreast else 1
        strides = list(row_major(self.outer) if self.are_abreast else _times(self.outer, length))
        strides.insert(self.axis, step)
        return tuple(strides)

    def reserve(self, element: DType, length: int | None = None) -> Memory:
        """Reserve memory for the tile, with room for longer lines if need be."""
        room = self.length if length is None else length
        return reserve(self.shape, element, self.strides(room), self.count * room)

    def result(self, element: DType) -> Memory:
        """Reserve memory for one element of each line."""
        return reserve(self.outer, element)

    def blocks(self, body: Callable[[tl.Tile, int], None]) -> None:
        """Run `body(first line, how many)` over lines side by side, a few vectors at a time."""
        vectors = max(1, min(4, self.count // max(self.lanes, 1)))
        walk(self.count, vectors * max(self.lanes, 1), body)


def _times(outer: Shape, length: int) -> Shape:
    return tuple(stride * length for stride in row_major(outer))


def walk(extent: int, width: int, body: Callable[[tl.Tile, int], None]) -> None:
    """Run `body(start, count)` over blocks of `width`, then over what is left.

    Each is a loop, even of one round: what it holds is one unit, with scalars only from outside.
    """
    whole = extent // width * width
    if whole:
        once(0, whole, width, lambda start: body(start, width))
    if whole < extent:
        once(whole, extent, extent - whole, lambda start: body(start, extent - whole))


def once(start: Number, stop: Number, step: int, body: Callable[[tl.Tile], None]) -> None:
    """Write a loop that carries nothing."""
    tl.for_(start, stop, step, (), body)


def at(memory: Memory, offset: Number, count: int) -> tl.Tile:
    """Return the addresses of neighbouring elements of flat memory."""
    return memory.pointer + offset + tl.arange(0, count)


def loads(memories: Sequence[Memory], offset: Number, count: int) -> list[tl.Tile]:
    """Load neighbours from each of several tiles."""
    return [tl.load(at(memory, offset, count)) for memory in memories]


def stores(
    memories: Sequence[Memory], offset: Number, count: int, values: Sequence[tl.Tile]
) -> None:
    """Store neighbours into each of several tiles."""
    for memory, value in zip(memories, values, strict=True):
        tl.store(at(memory, offset, count), value)
