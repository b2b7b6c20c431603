"""Stores, prefetches, addresses and scratch memory of tiles."""

from __future__ import annotations

from teeny_triton.ir import Op, Pointer

from teeny_compiler.codegen.builder import PTR, LType, Operand
from teeny_compiler.codegen.cpu import access, atomic, linear
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.emitter import Emitter
from teeny_compiler.codegen.cpu.lanes import LaneMask, chunk, lanes_of
from teeny_compiler.codegen.cpu.layout import Piece
from teeny_compiler.codegen.cpu.linear import Linear
from teeny_compiler.codegen.cpu.load import load
from teeny_compiler.codegen.cpu.place import (
    Place,
    Run,
    lane_form,
    permuted,
    place_of,
    root_of,
    run_axis,
    runs_of,
    to_memory,
    within,
)
from teeny_compiler.codegen.cpu.types import element_bytes, memory_scalar
from teeny_compiler.codegen.cpu.values import Index, Lazy, Tile, Uniform, index_of

SCRATCH = Operand(PTR, "%scratch")
STREAMING = ".cs"
"""The cache modifier of what will not be read soon."""


def store(e: Emitter, op: Op) -> None:
    """Emit `store`."""
    c = e.c
    place = place_of(e, op, 2)
    value = e.tile(op.operands[1])
    c.settle(root_of(c, place.pointers))
    if not place.pointers.shape:
        pointer, item = place.pointers.item(c, 0), to_memory(c, value.item(c, 0))
        access.write_if(c, place.condition(c, 0), pointer, item, place.align)
        return
    if op.attrs.get("cache") == STREAMING and _stream(c, place, value):
        return
    axis = run_axis(place.pointers)
    if axis is not None:
        shape = place.pointers.shape
        order = (*(a for a in range(len(shape)) if a != axis), axis)
        place, value = place.permuted(c, order), permuted(c, value, order)
    for k, piece in enumerate(c.pieces(place.pointers.shape)):
        active = place.active(c, k, piece)
        if not active.is_empty:
            _store_piece(c, place, k, piece, active, value)


def _stream(c: Context, place: Place, tile: Tile) -> bool:
    """Store whole vectors in a row past the caches; whether that was possible."""
    pointers, cut = place.pointers, c.pieces(place.pointers.shape)
    if place.mask is not None or not isinstance(pointers, Index) or len(pointers.shape) != 1:
        return False
    type = LType(place.scalar, c.lanes)
    in_a_row = all(chunk(pointers.form, piece).is_consecutive for piece in cut)
    whole = all(piece.count == c.lanes for piece in cut)
    if not (in_a_row and whole and access.can_stream(c, type)):
        return False
    values = [to_memory(c, tile.vector(c, k)) for k in range(len(cut))]
    start = linear.address(c.b, chunk(pointers.form, cut[0]).base, place.scalar)
    access.stream(c, start, values)
    return True


def _store_piece(
    c: Context, place: Place, k: int, piece: Piece, mask: LaneMask, tile: Tile
) -> None:
    pointers, scalar, align = place.pointers, place.scalar, place.align
    value = to_memory(c, tile.vector(c, k))
    if not isinstance(pointers, Index):
        access.scatter(c, pointers.vector(c, k), value, within(mask, piece), align)
        return
    part = chunk(pointers.form, piece)
    base = linear.address(c.b, part.base, scalar)
    if part.is_consecutive:
        access.write_run(c, base, value, piece.count, mask, align)
        return
    if part.is_uniform and mask.vector is None and mask.bits is None:
        last = c.b.extract(value, piece.count - 1)
        access.write_if(c, mask.lane(c, 0), base, last, align)
        return
    runs = runs_of(part)
    if len(runs) * 2 <= piece.count:
        for start, count in runs:
            run = Run(start, count)
            address = linear.address(c.b, lane_form(part, start), scalar)
            access.write_run(c, address, run.of(c, value), count, run.mask(c, mask), align)
        return
    offsets = lanes_of(c, part.offsets(), "i64", piece.width)
    addresses = c.b.offset(base, scalar, offsets)
    access.scatter(c, addresses, value, within(mask, piece), align)


def prefetch(e: Emitter, op: Op) -> None:
    """Emit `prefetch`: one hint a vector of consecutive addresses, else one an element."""
    c = e.c
    place = place_of(e, op, 1)
    locality = 4 - op.attrs["level"]
    for piece in c.pieces(place.pointers.shape):
        lanes = range(piece.start, piece.start + piece.count)
        if isinstance(place.pointers, Index):
            part = chunk(place.pointers.form, piece)
            if part.is_consecutive or part.is_uniform:
                lanes = range(piece.start, piece.start + 1)
        for flat in lanes:
            pointer = place.pointers.item(c, flat)
            access.prefetch(c, pointer, op.attrs["write"], locality)


def addptr(e: Emitter, op: Op) -> None:
    """Emit `addptr`."""
    c = e.c
    pointer, offset = map(e.tile, op.operands)
    kind = op.result.type
    assert isinstance(kind.element, Pointer)
    base, steps = _pointer_form(pointer), index_of(c, offset)
    if base is not None and steps is not None:
        e.define(op.result, Index(kind.shape, kind.element, base + steps))
        return
    scalar = memory_scalar(kind.element.pointee)

    def make(k: int) -> Operand:
        return c.b.offset(_base_vector(c, pointer, k), scalar, _wide(c, offset.vector(c, k)))

    e.define(op.result, Lazy(kind.shape, kind.element, make))


def _pointer_form(pointer: Tile) -> Linear | None:
    if isinstance(pointer, Index):
        return pointer.form
    if isinstance(pointer, Uniform):
        return Linear(pointer.shape, {}, pointer.value)
    return None


def _base_vector(c: Context, pointer: Tile, k: int) -> Operand:
    """Return the addresses of a piece, as one scalar where they are equal."""
    same = pointer.uniform(c)
    return pointer.vector(c, k) if same is None else same


def _wide(c: Context, offsets: Operand) -> Operand:
    return c.b.convert("sext", offsets, "i64") if offsets.type.scalar != "i64" else offsets


def scratch(e: Emitter, op: Op) -> None:
    """Emit `scratch`: a place in the arena."""
    kind = op.result.type.element
    assert isinstance(kind, Pointer)
    start = e.reserve(op, op.attrs["size"] * element_bytes(kind.pointee))
    pointer = e.c.b.offset(SCRATCH, "i8", start)
    e.c.roots[pointer] = op
    e.c.private.add(op)
    e.define(op.result, Index((), kind, Linear((), {}, pointer)))


EMITTERS = {
    **atomic.EMITTERS,
    "load": load,
    "store": store,
    "prefetch": prefetch,
    "addptr": addptr,
    "scratch": scratch,
}
