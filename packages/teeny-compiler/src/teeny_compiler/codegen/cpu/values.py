"""Tiles while code is written: in registers, or in a form that gives registers on demand.

Every form answers three questions: piece k as a vector, element i as a scalar, and the tile of some
of its elements in another order. Nothing is written before it is asked for.
"""

# ruff: noqa: D102 - the methods are documented once, on the abstract class
from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from teeny_triton.ir import Pointer

from teeny_compiler.codegen.builder import I1, LType, Operand
from teeny_compiler.codegen.cpu import linear
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.lanes import Chunk, LaneMask, chunk, lanes_of, narrowed
from teeny_compiler.codegen.cpu.layout import Indices, Piece, locate, pieces
from teeny_compiler.codegen.cpu.linear import Linear
from teeny_compiler.codegen.cpu.types import Element, memory_scalar, register_scalar


@dataclass(frozen=True, eq=False)
class Tile(ABC):
    """A tile of `shape`; an empty shape is a scalar."""

    shape: tuple[int, ...]
    element: Element

    @property
    def scalar(self) -> str:
        """The LLVM type of an element in a register."""
        return register_scalar(self.element)

    @abstractmethod
    def vector(self, c: Context, k: int) -> Operand:
        """Return piece `k`."""

    @abstractmethod
    def item(self, c: Context, flat: int) -> Operand:
        """Return element `flat` as a scalar."""

    def repeated(self, c: Context, flat: int, width: int) -> Operand:
        """Return element `flat` in every lane of a vector."""
        return c.b.splat(self.item(c, flat), width)

    def lane(self, c: Context, flat: int) -> tuple[Operand, int]:
        """Return the vector that holds element `flat`, and the lane."""
        piece, lane = locate(self.shape, c.lanes)
        return self.vector(c, int(piece[flat])), int(lane[flat])

    @property
    def is_uniform(self) -> bool:
        """Whether all elements are known to be one scalar."""
        return not self.shape

    def uniform(self, c: Context) -> Operand | None:
        """Return the scalar that all elements are, when they are known to be one."""
        return self.item(c, 0) if self.is_uniform else None

    def mask(self, c: Context, k: int) -> LaneMask:
        """Return piece `k` of a bool tile as a mask."""
        piece = c.pieces(self.shape)[k]
        return LaneMask(piece.width, vector=self.vector(c, k))

    def moved(self, c: Context, shape: tuple[int, ...], index: Indices) -> Tile:
        """Return the tile whose flat element i is element index[i] of this one."""
        return view(c, (self,), shape, index)


@dataclass(frozen=True, eq=False)
class Registers(Tile):
    """A tile held in vector registers."""

    vectors: tuple[Operand, ...]

    def vector(self, c: Context, k: int) -> Operand:
        return self.vectors[k]

    def item(self, c: Context, flat: int) -> Operand:
        return c.b.extract(*self.lane(c, flat))

    def repeated(self, c: Context, flat: int, width: int) -> Operand:
        vector, lane = self.lane(c, flat)
        return c.b.shuffle(vector, None, (lane,) * width)


@dataclass(frozen=True, eq=False)
class Uniform(Tile):
    """One scalar, repeated."""

    value: Operand

    def vector(self, c: Context, k: int) -> Operand:
        return c.b.splat(self.value, c.pieces(self.shape)[k].width)

    def item(self, c: Context, flat: int) -> Operand:
        return self.value

    @property
    def is_uniform(self) -> bool:
        return True

    def mask(self, c: Context, k: int) -> LaneMask:
        return LaneMask(c.pieces(self.shape)[k].width).also(self.value)

    def moved(self, c: Context, shape: tuple[int, ...], index: Indices) -> Tile:
        return Uniform(shape, self.element, self.value)


@dataclass(frozen=True, eq=False)
class Items(Tile):
    """A tile held as scalars, each to be repeated over lanes (and folded into its users)."""

    items: tuple[Operand, ...]

    def vector(self, c: Context, k: int) -> Operand:
        piece = c.pieces(self.shape)[k]
        result = Operand(LType(self.scalar, piece.width), "poison")
        for lane in range(piece.count):
            result = c.b.insert(result, self.items[piece.start + lane], lane)
        return result

    def item(self, c: Context, flat: int) -> Operand:
        return self.items[flat]

    def moved(self, c: Context, shape: tuple[int, ...], index: Indices) -> Tile:
        if math.prod(shape) == len(self.items):
            return Items(shape, self.element, tuple(self.items[i] for i in index))
        return super().moved(c, shape, index)


@dataclass(frozen=True, eq=False)
class Computed(Tile):
    """A function of other tiles, applied to the pieces that are wanted.

    `as_items`: the elements are wanted as scalars, each for all lanes.
    """

    sources: tuple[Tile, ...]
    compute: Callable[..., Operand]
    as_items: bool = False

    def vector(self, c: Context, k: int) -> Operand:
        if self.is_uniform:
            return c.b.splat(self.item(c, 0), c.pieces(self.shape)[k].width)
        make = lambda: self.compute(*(x.vector(c, k) for x in self.sources))  # noqa: E731
        return c.remembered((self, k), make)

    def item(self, c: Context, flat: int) -> Operand:
        if not self.is_uniform and not self.as_items:
            return c.b.extract(*self.lane(c, flat))
        place = 0 if self.is_uniform else flat
        make = lambda: self.compute(*(x.item(c, place) for x in self.sources))  # noqa: E731
        return c.remembered((self, "item", place), make)

    def repeated(self, c: Context, flat: int, width: int) -> Operand:
        if self.is_uniform or self.as_items:
            return c.b.splat(self.item(c, flat), width)
        vector, lane = self.lane(c, flat)
        return c.b.shuffle(vector, None, (lane,) * width)

    @cached_property
    def is_uniform(self) -> bool:
        return all(source.is_uniform for source in self.sources)


@dataclass(frozen=True, eq=False)
class Lazy(Tile):
    """A tile whose pieces `make` writes when they are wanted."""

    make: Callable[[int], Operand]

    def vector(self, c: Context, k: int) -> Operand:
        return c.remembered((self, k), lambda: self.make(k))

    def item(self, c: Context, flat: int) -> Operand:
        return c.b.extract(*self.lane(c, flat))

    def repeated(self, c: Context, flat: int, width: int) -> Operand:
        vector, lane = self.lane(c, flat)
        return c.b.shuffle(vector, None, (lane,) * width)


@dataclass(frozen=True, eq=False)
class Index(Tile):
    """Signed integers or addresses in linear form."""

    form: Linear

    def vector(self, c: Context, k: int) -> Operand:
        piece = c.pieces(self.shape)[k]
        part = chunk(self.form, piece)
        if self.form.pointer is not None:
            return self._addresses(c, part, piece)
        return lanes_of(c, part, self.scalar, piece.width)

    def _addresses(self, c: Context, part: Chunk, piece: Piece) -> Operand:
        assert isinstance(self.element, Pointer)
        pointee = memory_scalar(self.element.pointee)
        base = linear.address(c.b, part.base, pointee)
        if part.is_uniform:
            return c.b.splat(base, piece.width)
        return c.b.offset(base, pointee, lanes_of(c, part.offsets(), "i64", piece.width))

    def item(self, c: Context, flat: int) -> Operand:
        form = self.form.at(flat)
        if form.pointer is None:
            return narrowed(c, linear.integer(c.b, form), self.scalar)
        assert isinstance(self.element, Pointer)
        return linear.address(c.b, form, memory_scalar(self.element.pointee))

    @property
    def is_uniform(self) -> bool:
        return self.form.is_uniform

    def moved(self, c: Context, shape: tuple[int, ...], index: Indices) -> Tile:
        return Index(shape, self.element, self.form.moved(shape, index))


@dataclass(frozen=True, eq=False)
class View(Tile):
    """Elements of other tiles: flat element i is element index[i] of the sources end to end."""

    sources: tuple[Tile, ...]
    index: Indices

    def vector(self, c: Context, k: int) -> Operand:
        return c.remembered((self, k), lambda: self._vector(c, k))

    def _vector(self, c: Context, k: int) -> Operand:
        piece = c.pieces(self.shape)[k]
        wanted = self.index[piece.start : piece.start + piece.count]
        source, flat = self._source(int(wanted[0]))
        if (wanted == wanted[0]).all():
            return source.repeated(c, flat, piece.width)
        if (np.diff(wanted) == 1).all():
            number = int(locate(source.shape, c.lanes)[0][flat])
            if c.pieces(source.shape)[number] == Piece(flat, piece.count, piece.width):
                return source.vector(c, number)
        lanes = [self._source(int(flat)) for flat in wanted]
        return assemble(c, lanes, piece.width)

    def _source(self, flat: int) -> tuple[Tile, int]:
        for source in self.sources:
            size = math.prod(source.shape)
            if flat < size:
                return source, flat
            flat -= size
        raise IndexError(flat)

    def item(self, c: Context, flat: int) -> Operand:
        source, place = self._source(int(self.index[flat]))
        return source.item(c, place)

    def repeated(self, c: Context, flat: int, width: int) -> Operand:
        source, place = self._source(int(self.index[flat]))
        return source.repeated(c, place, width)

    def moved(self, c: Context, shape: tuple[int, ...], index: Indices) -> Tile:
        return view(c, self.sources, shape, self.index[index])


def view(c: Context, sources: tuple[Tile, ...], shape: tuple[int, ...], index: Indices) -> Tile:
    """Return a tile of elements of others; the same registers where whole pieces coincide."""
    if len(sources) == 1 and isinstance(sources[0], Registers):
        source = sources[0]
        if pieces(shape, c.lanes) == pieces(source.shape, c.lanes) and _is_identity(index):
            return Registers(shape, source.element, source.vectors)
    return View(shape, sources[0].element, sources, index)


def _is_identity(index: Indices) -> bool:
    return bool((index == np.arange(index.size)).all())


def assemble(c: Context, lanes: Sequence[tuple[Tile, int]], width: int) -> Operand:
    """Gather single elements of tiles into a vector, by as few shuffles as sources."""
    placed: dict[Operand, list[int]] = {}
    for position, (tile, flat) in enumerate(lanes):
        source, lane = tile.lane(c, flat)
        placed.setdefault(source, [-1] * width)[position] = lane
    result: Operand | None = None
    for source, mask in placed.items():
        if source.type.lanes != width:
            source = c.b.shuffle(source, None, mask)
            mask = [lane if pick >= 0 else -1 for lane, pick in enumerate(mask)]
        if result is None:
            result, filled = source, mask
            continue
        picks = [width + new if new >= 0 else old for old, new in zip(filled, mask, strict=True)]
        result = c.b.shuffle(result, source, picks)
        filled = [lane if pick >= 0 else -1 for lane, pick in enumerate(picks)]
    assert result is not None
    return c.b.shuffle(result, None, filled)


def index_of(c: Context, tile: Tile) -> Linear | None:
    """Return a signed integer or pointer tile in linear form, when it has one."""
    if isinstance(tile, Index):
        return tile.form
    value = tile.uniform(c)
    if value is None or not value.type.scalar.startswith("i") or value.type == I1:
        return None
    if value.is_constant:
        return linear.static((), np.array(int(value.text), np.int64)).splat(tile.shape)
    wide = c.b.convert("sext", value, "i64")
    return linear.scalar(wide).splat(tile.shape)
