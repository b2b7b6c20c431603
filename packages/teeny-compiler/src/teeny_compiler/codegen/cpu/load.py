"""Loads of tiles: written when their elements are wanted, in the form that the pattern allows."""
# ruff: noqa: D102 - the methods of tiles are documented once, on Tile

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from teeny_triton.ir import Op, Type

from teeny_compiler.codegen.builder import LType, Operand
from teeny_compiler.codegen.cpu import access, linear
from teeny_compiler.codegen.cpu.context import Context, Pending
from teeny_compiler.codegen.cpu.emitter import Emitter
from teeny_compiler.codegen.cpu.lanes import Chunk, LaneMask, chunk, lanes_of
from teeny_compiler.codegen.cpu.layout import Piece
from teeny_compiler.codegen.cpu.place import (
    Place,
    Run,
    from_memory,
    lane_form,
    permuted,
    place_of,
    root_of,
    run_axis,
    runs_of,
    to_memory,
    within,
    zero_of,
)
from teeny_compiler.codegen.cpu.types import register_scalar
from teeny_compiler.codegen.cpu.values import Index, Items, Registers, Tile, Uniform

MAX_WINDOW = 4  # vectors read to pick a vector's elements out of a range of addresses


def load(e: Emitter, op: Op) -> None:
    """Emit `load`."""
    place = place_of(e, op, 1)
    kind = op.result.type
    other = e.tile(op.operands[2]) if len(op.operands) > 2 else _zeros(kind)
    if op.attrs.get("volatile"):
        e.define(op.result, _load_now(e.c, place, other))
        return
    if not kind.shape:
        value = _load_item(e.c, place, other, 0)
        e.define(op.result, Uniform((), place.element, value))
        return
    repeated = e.is_repeated(op.result)
    axis = None if repeated else run_axis(place.pointers)
    if axis is None:
        e.define(op.result, _pending(e.c, place, other, repeated))
        return
    order = (*(a for a in range(len(kind.shape)) if a != axis), axis)
    turned = _pending(e.c, place.permuted(e.c, order), permuted(e.c, other, order), False)
    e.define(op.result, permuted(e.c, turned, tuple(int(a) for a in np.argsort(order))))


def _load_now(c: Context, place: Place, other: Tile) -> Tile:
    """Load each element once and at this very point: others may change it at any time."""
    shape = place.pointers.shape
    items = tuple(
        _load_item(c, place, other, flat, volatile=True) for flat in range(math.prod(shape))
    )
    if not shape:
        return Uniform((), place.element, items[0])
    return Items(shape, place.element, items)


def _pending(c: Context, place: Place, other: Tile, as_items: bool) -> Loaded:
    tile = Loaded(place.pointers.shape, place.element, place, other, as_items)
    c.pending.append(tile)
    return tile


@dataclass(frozen=True, eq=False)
class Loaded(Tile, Pending):
    """A load whose pieces, or elements for all lanes, are written when they are wanted.

    What is not wanted by the time that memory may change is written then, as items or as vectors.
    """

    place: Place
    other: Tile
    as_items: bool
    _written: list[Tile] = field(default_factory=list)

    def vector(self, c: Context, k: int) -> Operand:
        if self._written:
            return self._written[0].vector(c, k)
        return c.remembered((self, k), lambda: _load_vector(c, self.place, self.other, k))

    def item(self, c: Context, flat: int) -> Operand:
        if self._written:
            return self._written[0].item(c, flat)
        if not self.as_items:
            return c.b.extract(*self.lane(c, flat))
        make = lambda: _load_item(c, self.place, self.other, flat)  # noqa: E731
        return c.remembered((self, "item", flat), make)

    def repeated(self, c: Context, flat: int, width: int) -> Operand:
        if self._written:
            return self._written[0].repeated(c, flat, width)
        if self.as_items:
            return c.b.splat(self.item(c, flat), width)
        vector, lane = self.lane(c, flat)
        return c.b.shuffle(vector, None, (lane,) * width)

    def force(self, c: Context) -> None:
        if self.as_items:
            items = tuple(self.item(c, flat) for flat in range(math.prod(self.shape)))
            self._written.append(Items(self.shape, self.element, items))
        else:
            vectors = tuple(self.vector(c, k) for k in range(len(c.pieces(self.shape))))
            self._written.append(Registers(self.shape, self.element, vectors))

    def may_read(self, c: Context, root: object) -> bool:
        own = root_of(c, self.place.pointers)
        if root is None or own is None or own == root:
            return True
        return own not in c.private and root not in c.private


def _zeros(kind: Type) -> Tile:
    return Uniform(kind.shape, kind.element, zero_of(LType(register_scalar(kind.element))))


def _load_item(
    c: Context, place: Place, other: Tile, flat: int, *, volatile: bool = False
) -> Operand:
    pointer = place.pointers.item(c, flat)
    fallback = to_memory(c, other.item(c, flat))
    condition = place.condition(c, flat)
    scalar, align = place.scalar, place.align
    value = access.read_if(c, condition, pointer, scalar, fallback, align, volatile=volatile)
    return from_memory(c, value, place.element)


def _load_vector(c: Context, place: Place, other: Tile, k: int) -> Operand:
    piece = c.pieces(place.pointers.shape)[k]
    mask = place.active(c, k, piece)
    fallback = other.vector(c, k)
    if mask.is_empty:
        return fallback
    value = _load_piece(c, place, k, piece, mask, to_memory(c, fallback))
    return from_memory(c, value, place.element)


def _load_piece(
    c: Context, place: Place, k: int, piece: Piece, mask: LaneMask, other: Operand
) -> Operand:
    pointers, scalar, align = place.pointers, place.scalar, place.align
    if not isinstance(pointers, Index):
        active = within(mask, piece)
        return access.gather(c, pointers.vector(c, k), scalar, active, other, align)
    part = chunk(pointers.form, piece)
    base = linear.address(c.b, part.base, scalar)
    if part.is_uniform:
        return _load_repeated(c, base, place, piece, mask, other)
    if part.is_consecutive:
        return access.read_run(c, base, scalar, piece.count, mask, other, align)
    if mask.is_full and _window(part, piece):
        return _load_window(c, part, base, place, piece)
    runs = runs_of(part)
    if len(runs) * 2 <= piece.count:
        return _load_runs(c, part, place, piece, mask, other)
    offsets = lanes_of(c, part.offsets(), "i64", piece.width)
    addresses = c.b.offset(base, scalar, offsets)
    return access.gather(c, addresses, scalar, within(mask, piece), other, align)


def _load_repeated(
    c: Context, base: Operand, place: Place, piece: Piece, mask: LaneMask, other: Operand
) -> Operand:
    """Load one element for all lanes."""
    condition = access.any_lane(c, within(mask, piece))
    zero = zero_of(LType(place.scalar))
    value = access.read_if(c, condition, base, place.scalar, zero, place.align)
    vector = c.b.splat(value, piece.width)
    if mask.is_full:
        return vector
    return c.b.select(mask.to_vector(c), vector, other)


def _window(part: Chunk, piece: Piece) -> bool:
    """Whether the lanes lie close enough together to read all addresses between them."""
    if part.strides:
        return False
    span = int(part.steps.max() - part.steps.min()) + 1
    return piece.width > 1 and piece.width <= span <= MAX_WINDOW * piece.width


def _load_window(c: Context, part: Chunk, base: Operand, place: Place, piece: Piece) -> Operand:
    """Read the range of addresses by whole vectors and pick the lanes.

    The range ends with the last lane's element, so that nothing beyond is touched.
    """
    least, most = int(part.steps.min()), int(part.steps.max())
    width, scalar = piece.width, place.scalar
    starts = [*range(least, most + 2 - width, width)]
    if starts[-1] + width <= most:
        starts.append(most + 1 - width)
    where = [max(i for i, start in enumerate(starts) if start <= step) for step in part.steps]
    result: Operand | None = None
    filled = [-1] * width
    for number, start in enumerate(starts):
        mask = [-1] * width
        for lane, step in enumerate(part.steps):
            if where[lane] == number:
                mask[lane] = int(step) - start
        if max(mask) < 0:
            continue
        address = c.b.offset(base, scalar, start)
        vector = access.read(c, address, LType(scalar, width), place.align)
        if result is None:
            result, filled = vector, mask
            continue
        picks = [width + new if new >= 0 else old for old, new in zip(filled, mask, strict=True)]
        result = c.b.shuffle(result, vector, picks)
        filled = [lane if pick >= 0 else -1 for lane, pick in enumerate(picks)]
    assert result is not None
    return c.b.shuffle(result, None, filled)


def _load_runs(
    c: Context, part: Chunk, place: Place, piece: Piece, mask: LaneMask, other: Operand
) -> Operand:
    result = other if not mask.is_full else Operand(other.type, "poison")
    for start, count in runs_of(part):
        address = linear.address(c.b, lane_form(part, start), place.scalar)
        run = Run(start, count)
        fallback = run.of(c, other)
        loaded = access.read_run(
            c, address, place.scalar, count, run.mask(c, mask), fallback, place.align
        )
        result = run.put(c, result, loaded)
    return result
