"""Loads, stores, atomics, prefetches and scratch memory of tiles."""

# ruff: noqa: D102 - the methods of tiles are documented once, on Tile
from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from teeny_core import CompileError
from teeny_triton.ir import Op, Pointer, Type

from teeny_compiler.codegen.builder import (
    PTR,
    LType,
    Operand,
    constant,
)
from teeny_compiler.codegen.cpu import access, linear
from teeny_compiler.codegen.cpu.context import Context, Pending
from teeny_compiler.codegen.cpu.emitter import Emitter
from teeny_compiler.codegen.cpu.lanes import Chunk, LaneMask, chunk, lanes_of
from teeny_compiler.codegen.cpu.layout import Indices, Piece
from teeny_compiler.codegen.cpu.linear import ONE, Linear
from teeny_compiler.codegen.cpu.transpose import Transposed
from teeny_compiler.codegen.cpu.types import (
    Element,
    element_bytes,
    is_narrow,
    memory_scalar,
    register_scalar,
)
from teeny_compiler.codegen.cpu.values import (
    Computed,
    Index,
    Items,
    Lazy,
    Registers,
    Tile,
    Uniform,
    index_of,
)

SCRATCH = Operand(PTR, "%scratch")
MIN_TRANSPOSED = 4  # shortest run of consecutive addresses for which rows are read along it
MAX_WINDOW = 4  # vectors read to pick a vector's elements out of a range of addresses


@dataclass(frozen=True)
class Place:
    """What a memory operation addresses: pointers, who is active, and the element type."""

    pointers: Tile
    mask: Tile | None
    element: Element

    @property
    def align(self) -> int:
        """Alignment that every element has."""
        return element_bytes(self.element)

    @property
    def scalar(self) -> str:
        """LLVM type of an element in memory."""
        return memory_scalar(self.element)

    def active(self, c: Context, k: int, piece: Piece) -> LaneMask:
        """Return the mask of piece `k`; lanes past its elements are active or not."""
        return LaneMask(piece.width) if self.mask is None else self.mask.mask(c, k)

    def permuted(self, c: Context, order: tuple[int, ...]) -> Place:
        """Return the same places with the axes permuted."""
        mask = None if self.mask is None else permuted(c, self.mask, order)
        return Place(permuted(c, self.pointers, order), mask, self.element)

    def condition(self, c: Context, flat: int) -> Operand:
        """Return the mask of one element."""
        return Operand(LType("i1"), "true") if self.mask is None else self.mask.item(c, flat)


def _place(e: Emitter, op: Op, mask_at: int) -> Place:
    pointers = e.tile(op.operands[0])
    mask = e.tile(op.operands[mask_at]) if len(op.operands) > mask_at else None
    kind = op.operands[0].type.element
    assert isinstance(kind, Pointer)
    return Place(pointers, mask, kind.pointee)


# -- loads


def load(e: Emitter, op: Op) -> None:
    """Emit `load`."""
    place = _place(e, op, 1)
    kind = op.result.type
    other = e.tile(op.operands[2]) if len(op.operands) > 2 else _zeros(kind)
    if not kind.shape:
        value = _load_item(e.c, place, other, 0)
        e.define(op.result, Uniform((), place.element, value))
        return
    repeated = e.is_repeated(op.result)
    axis = None if repeated else _run_axis(place.pointers)
    if axis is None:
        e.define(op.result, _pending(e.c, place, other, repeated))
        return
    order = (*(a for a in range(len(kind.shape)) if a != axis), axis)
    turned = _pending(e.c, place.permuted(e.c, order), permuted(e.c, other, order), False)
    e.define(op.result, permuted(e.c, turned, tuple(int(a) for a in np.argsort(order))))


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


def root_of(c: Context, pointers: Tile) -> object:
    """Return the parameter or scratch memory that pointers derive from, None if unknown."""
    if isinstance(pointers, Index) and pointers.form.pointer is not None:
        return c.roots.get(pointers.form.pointer)
    return None


def _zeros(kind: Type) -> Tile:
    return Uniform(kind.shape, kind.element, _zero_of(LType(register_scalar(kind.element))))


def _zero_of(type: LType) -> Operand:
    if type.scalar == "ptr":
        return Operand(type, "null" if type.lanes == 1 else "zeroinitializer")
    return constant(type, 0)


def _load_item(c: Context, place: Place, other: Tile, flat: int) -> Operand:
    pointer = place.pointers.item(c, flat)
    fallback = _to_memory(c, other.item(c, flat))
    condition = place.condition(c, flat)
    value = access.read_if(c, condition, pointer, place.scalar, fallback, place.align)
    return _from_memory(c, value, place.element)


def _load_vector(c: Context, place: Place, other: Tile, k: int) -> Operand:
    piece = c.pieces(place.pointers.shape)[k]
    mask = place.active(c, k, piece)
    fallback = other.vector(c, k)
    if mask.is_empty:
        return fallback
    value = _load_piece(c, place, k, piece, mask, _to_memory(c, fallback))
    return _from_memory(c, value, place.element)


def permuted(c: Context, tile: Tile, order: tuple[int, ...]) -> Tile:
    """Return a tile with its axes permuted."""
    shape = tuple(tile.shape[axis] for axis in order)
    index = np.arange(int(np.prod(tile.shape, dtype=np.int64))).reshape(tile.shape)
    index = index.transpose(order).reshape(-1)
    if isinstance(tile, Registers | Computed | Lazy | Loaded) and len(order) > 1:
        return Transposed(shape, tile.element, (tile,), index, order)
    return tile.moved(c, shape, index)


def _run_axis(pointers: Tile) -> int | None:
    """Return an axis of consecutive addresses, when that is not the last one."""
    if not isinstance(pointers, Index) or len(pointers.shape) < 2:
        return None
    steps = [_is_run(pointers.form, axis) for axis in range(len(pointers.shape))]
    if steps[-1]:
        return None
    runs = [axis for axis, run in enumerate(steps) if run]
    return max(runs, key=lambda axis: pointers.shape[axis], default=None)


def _is_run(form: Linear, axis: int) -> bool:
    """Whether neighbours along an axis of some length have consecutive addresses."""
    if form.shape[axis] < MIN_TRANSPOSED:
        return False
    for register, table in form.terms.items():
        if table.shape[axis] > 1 and (register != ONE or (np.diff(table, axis=axis) != 1).any()):
            return False
    return ONE in form.terms and form.terms[ONE].shape[axis] > 1


def _load_piece(
    c: Context, place: Place, k: int, piece: Piece, mask: LaneMask, other: Operand
) -> Operand:
    pointers, scalar, align = place.pointers, place.scalar, place.align
    if not isinstance(pointers, Index):
        active = _within(mask, piece)
        return access.gather(c, pointers.vector(c, k), scalar, active, other, align)
    part = chunk(pointers.form, piece)
    base = linear.address(c.b, part.base, scalar)
    if part.is_uniform:
        return _load_repeated(c, base, place, piece, mask, other)
    if part.is_consecutive:
        return access.read_run(c, base, scalar, piece.count, mask, other, align)
    if mask.is_full and _window(part, piece):
        return _load_window(c, part, base, place, piece)
    runs = _runs(part)
    if len(runs) * 2 <= piece.count:
        return _load_runs(c, part, place, piece, mask, other)
    offsets = lanes_of(c, part.offsets(), "i64", piece.width)
    addresses = c.b.offset(base, scalar, offsets)
    return access.gather(c, addresses, scalar, _within(mask, piece), other, align)


def _within(mask: LaneMask, piece: Piece) -> LaneMask:
    """Switch off the lanes past the elements of a piece."""
    return access.limited(mask, piece.count)


def _load_repeated(
    c: Context, base: Operand, place: Place, piece: Piece, mask: LaneMask, other: Operand
) -> Operand:
    """Load one element for all lanes."""
    condition = access.any_lane(c, _within(mask, piece))
    zero = _zero_of(LType(place.scalar))
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


def _runs(part: Chunk) -> list[tuple[int, int]]:
    """Cut the lanes of a piece into (first lane, length) of consecutive addresses."""
    breaks = np.diff(part.steps) != 1
    for _, factors in part.strides:
        breaks |= np.diff(factors) != 0
    starts = [0, *(int(i) + 1 for i in np.flatnonzero(breaks))]
    ends = [*starts[1:], part.steps.size]
    return [(start, end - start) for start, end in zip(starts, ends, strict=True)]


def lane_form(part: Chunk, lane: int) -> Linear:
    """Return the address of one lane as a scalar form."""
    terms: dict[Operand, Indices] = dict(part.base.terms)
    steps = [(ONE, part.steps), *part.strides]
    for register, factors in steps:
        extra = np.asarray(factors[lane])
        terms[register] = terms[register] + extra if register in terms else extra
    return Linear((), terms, part.base.pointer)


def _load_runs(
    c: Context, part: Chunk, place: Place, piece: Piece, mask: LaneMask, other: Operand
) -> Operand:
    result = other if not mask.is_full else Operand(other.type, "poison")
    for start, count in _runs(part):
        address = linear.address(c.b, lane_form(part, start), place.scalar)
        run = Run(start, count)
        fallback = run.of(c, other)
        loaded = access.read_run(
            c, address, place.scalar, count, run.mask(c, mask), fallback, place.align
        )
        result = run.put(c, result, loaded)
    return result


@dataclass(frozen=True)
class Run:
    """Some neighbouring lanes of a vector."""

    start: int
    count: int

    @property
    def width(self) -> int:
        """Lanes of a vector that holds the run."""
        return 1 << (self.count - 1).bit_length()

    @property
    def picks(self) -> list[int]:
        """Lanes of the whole vector for each lane of the run's vector."""
        return [self.start + i if i < self.count else -1 for i in range(self.width)]

    def of(self, c: Context, vector: Operand) -> Operand:
        """Cut the run out of a vector."""
        return c.b.shuffle(vector, None, self.picks)

    def put(self, c: Context, vector: Operand, run: Operand) -> Operand:
        """Replace the run in a vector."""
        width = vector.type.lanes
        if run.type.lanes == 1:
            return c.b.insert(vector, run, self.start)
        inside = range(self.start, self.start + self.count)
        spread = [lane - self.start if lane in inside else -1 for lane in range(width)]
        wide = c.b.shuffle(run, None, spread)
        picks = [width + lane if lane in inside else lane for lane in range(width)]
        return c.b.shuffle(vector, wide, picks)

    def mask(self, c: Context, mask: LaneMask) -> LaneMask:
        """Cut the run out of a mask."""
        bits = None
        if mask.bits is not None:
            bits = tuple(pick >= 0 and mask.bits[pick] for pick in self.picks)
        vector = None if mask.vector is None else self.of(c, mask.vector)
        return LaneMask(self.width, bits, mask.scalar, vector)


def _from_memory(c: Context, value: Operand, element: Element) -> Operand:
    if register_scalar(element) == "i1" and value.type.scalar != "i1":
        return c.b.compare("icmp ne", value, constant(value.type, 0))
    return value


def _to_memory(c: Context, value: Operand) -> Operand:
    return c.b.convert("zext", value, "i8") if value.type.scalar == "i1" else value


# -- stores


def store(e: Emitter, op: Op) -> None:
    """Emit `store`."""
    c = e.c
    place = _place(e, op, 2)
    value = e.tile(op.operands[1])
    c.settle(root_of(c, place.pointers))
    if not place.pointers.shape:
        pointer, item = place.pointers.item(c, 0), _to_memory(c, value.item(c, 0))
        access.write_if(c, place.condition(c, 0), pointer, item, place.align)
        return
    axis = _run_axis(place.pointers)
    if axis is not None:
        shape = place.pointers.shape
        order = (*(a for a in range(len(shape)) if a != axis), axis)
        place, value = place.permuted(c, order), permuted(c, value, order)
    for k, piece in enumerate(c.pieces(place.pointers.shape)):
        active = place.active(c, k, piece)
        if not active.is_empty:
            _store_piece(c, place, k, piece, active, value)


def _store_piece(
    c: Context, place: Place, k: int, piece: Piece, mask: LaneMask, tile: Tile
) -> None:
    pointers, scalar, align = place.pointers, place.scalar, place.align
    value = _to_memory(c, tile.vector(c, k))
    if not isinstance(pointers, Index):
        access.scatter(c, pointers.vector(c, k), value, _within(mask, piece), align)
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
    runs = _runs(part)
    if len(runs) * 2 <= piece.count:
        for start, count in runs:
            run = Run(start, count)
            address = linear.address(c.b, lane_form(part, start), scalar)
            access.write_run(c, address, run.of(c, value), count, run.mask(c, mask), align)
        return
    offsets = lanes_of(c, part.offsets(), "i64", piece.width)
    addresses = c.b.offset(base, scalar, offsets)
    access.scatter(c, addresses, value, _within(mask, piece), align)


# -- the rest


def atomic_add(e: Emitter, op: Op) -> None:
    """Emit `atomic_add`, an element at a time."""
    c = e.c
    place = _place(e, op, 2)
    value = e.tile(op.operands[1])
    if is_narrow(place.element):
        raise CompileError(
            f"atomic_add on {place.element} is not supported on CPUs",
            hint="accumulate in f32 and cast afterwards",
        )
    c.settle(root_of(c, place.pointers))
    opcode = "fadd" if place.scalar in ("float", "double") else "add"
    old = []
    for flat in range(op.operands[1].type.size):
        item, pointer = value.item(c, flat), place.pointers.item(c, flat)
        old.append(_atomic_item(c, opcode, pointer, item, place.condition(c, flat)))
    if not op.result.type.shape:
        e.define(op.result, Uniform((), place.element, old[0]))
    else:
        e.define(op.result, Items(op.result.type.shape, place.element, tuple(old)))


def _atomic_item(
    c: Context, opcode: str, pointer: Operand, item: Operand, condition: Operand
) -> Operand:
    text = f"atomicrmw {opcode} {pointer}, {item} monotonic"
    if condition.text == "true":
        return c.b.ordered(item.type, text)
    if condition.text == "false":
        return _zero_of(item.type)
    then, after, before = c.b.new_block(), c.b.new_block(), c.b.block
    c.b.branch(condition, then, after)
    with c.b.scope(is_loop=False):
        c.b.place(then)
        old = c.b.ordered(item.type, text)
        c.b.jump(after)
    c.b.place(after)
    phi = c.b.phi(item.type)
    phi.incoming = [(_zero_of(item.type), before.label), (old, then.label)]
    return phi.result


def prefetch(e: Emitter, op: Op) -> None:
    """Emit `prefetch`: one hint a vector of consecutive addresses, else one an element."""
    c = e.c
    place = _place(e, op, 1)
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
    "load": load,
    "store": store,
    "atomic_add": atomic_add,
    "prefetch": prefetch,
    "addptr": addptr,
    "scratch": scratch,
}
