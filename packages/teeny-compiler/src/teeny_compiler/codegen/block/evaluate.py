"""Computing a part of a tile: the window of a value at an origin, as new ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import teeny_triton.language as tl
from teeny_core import CompileError, DType, bool_, i64
from teeny_triton import Builder
from teeny_triton.builder import current
from teeny_triton.ir import Op, Pointer, Type, Value

from teeny_compiler.codegen.block.facts import ELEMENTWISE, Facts, unit_axes

Place: TypeAlias = int | Value
"""A position along an axis: known, or an i32 scalar."""


@dataclass(frozen=True)
class Window:
    """A part of a tile: where it starts along each axis, and how far it extends."""

    origin: tuple[Place, ...]
    extent: tuple[int, ...]

    def without(self, axis: int) -> Window:
        """Drop an axis."""
        origin, extent = self.origin, self.extent
        return Window((*origin[:axis], *origin[axis + 1 :]), (*extent[:axis], *extent[axis + 1 :]))

    def pick(self, axes: Sequence[int | None]) -> Window:
        """Return the window of a value whose axes are some of these; None is the one element."""
        origin = tuple(0 if axis is None else self.origin[axis] for axis in axes)
        return Window(origin, tuple(1 if axis is None else self.extent[axis] for axis in axes))


@dataclass(frozen=True)
class Buffer:
    """A tile in scratch memory: element i at `pointer + sum((i - first) * strides)`."""

    pointer: Value
    dtype: DType
    strides: tuple[int, ...]
    first: tuple[Place, ...] = ()

    def at(self, window: Window) -> tl.Tile:
        """Return the addresses of a window."""
        base: tl.Tile = tl.Tile(self.pointer)
        first = self.first or (0,) * len(self.strides)
        for start, origin, stride in zip(first, window.origin, self.strides, strict=True):
            base = base + _minus(origin, start) * stride
        rank = len(window.extent)
        for axis, (extent, stride) in enumerate(zip(window.extent, self.strides, strict=True)):
            shape = tuple(extent if a == axis else 1 for a in range(rank))
            base = base + (tl.arange(0, extent) * stride).reshape(*shape)
        return base.broadcast_to(*window.extent)


def memory_dtype(element: DType | Pointer) -> DType:
    """Return the type in which memory holds elements: addresses are held as numbers."""
    return i64 if isinstance(element, Pointer) else element


def in_memory(x: Value) -> tl.Tile:
    """Return a tile as memory holds it."""
    return tl.Tile(_recast(x, memory_dtype(x.type.element)))


def _recast(x: Value, element: DType | Pointer) -> Value:
    if x.type.element == element:
        return x
    return current().op("bitcast", x, wanted=Type(x.type.shape, element))


def _minus(place: Place, start: Place) -> tl.Tile | int:
    if isinstance(place, int) and isinstance(start, int):
        return place - start
    if place is start:
        return 0
    return _tile(place) - _tile(start)


def _tile(place: Place) -> tl.Tile | int:
    return tl.Tile(place) if isinstance(place, Value) else place


def plus(place: Place, offset: Place) -> Place:
    """Add two positions."""
    if isinstance(place, int) and isinstance(offset, int):
        return place + offset
    if place == 0:
        return offset
    if offset == 0:
        return place
    total = _tile(place) + _tile(offset)
    assert isinstance(total, tl.Tile)
    return total.value


@dataclass
class Evaluator:
    """Writes windows of values; what is written once in a region is not written again there.

    `scalars` are the new values of scalars, `buffers` the tiles that lie in memory, `stepped` the
    carried index tiles, as an initial tile and what has been added to all of it, `assumed` the
    comparisons that hold everywhere in the code that is written, and the remainders of indices that
    are less than the divisor.
    """

    facts: Facts
    builder: Builder
    scalars: dict[Value, Value] = field(default_factory=dict)
    buffers: dict[Value, Buffer] = field(default_factory=dict)
    stepped: dict[Value, tuple[Value, Value]] = field(default_factory=dict)
    assumed: set[Value] = field(default_factory=set)
    _memo: list[dict[object, Value]] = field(default_factory=lambda: [{}])

    @contextmanager
    def region(self) -> Iterator[None]:
        """Write a region: what is known inside is forgotten after it."""
        self._memo.append({})
        yield
        self._memo.pop()

    @contextmanager
    def assuming(self, comparisons: set[Value]) -> Iterator[None]:
        """Take comparisons to hold."""
        before = self.assumed
        self.assumed = before | comparisons
        with self.region():
            yield
        self.assumed = before

    def scalar(self, value: Value) -> Value:
        """Return the new value of a scalar."""
        return self.scalars.get(value, value)

    def remember(self, value: Value, window: Window, result: Value) -> None:
        """Say what a window of a value is, in this region."""
        self._memo[-1][value, window, frozenset(self.assumed)] = result

    def __call__(self, value: Value, window: Window) -> Value:
        """Return a window of a value."""
        if not value.type.shape:
            return self.scalar(value)
        key = (value, window, frozenset(self.assumed))
        for known in reversed(self._memo):
            if key in known:
                return known[key]
        made = self._make(value, window)
        self._memo[-1][key] = made
        return made

    def element(self, value: Value, origin: tuple[Place, ...]) -> Value:
        """Return one element as a scalar."""
        if not value.type.shape:
            return self.scalar(value)
        window = Window(origin, (1,) * len(origin))
        return tl.Tile(self(value, window)).reshape(()).value

    def _make(self, value: Value, window: Window) -> Value:
        if value in self.assumed:
            return self._assumed(value, window)
        buffer = self.buffers.get(value)
        if buffer is not None:
            return _recast(tl.load(buffer.at(window)).value, value.type.element)
        if value in self.stepped:
            return self._stepped(value, window)
        op = self.facts.definition[value]
        if op.opcode in ELEMENTWISE or op.opcode == "addptr":
            return self._elementwise(op, window)
        if op.opcode == "split":
            return self._split(op, value, window)
        make = _MAKERS.get(op.opcode)
        if make is None:
            raise CompileError(f"cannot compute a part of {op.opcode!r}")
        return make(self, op, window)

    def _assumed(self, value: Value, window: Window) -> Value:
        """Return a comparison as true, and a remainder as what is divided."""
        if value.type.element == bool_:
            return self.builder.full(window.extent, True, bool_)
        return self(self.facts.definition[value].operands[0], window)

    def _stepped(self, value: Value, window: Window) -> Value:
        start, added = self.stepped[value]
        opcode = "addptr" if value.type.is_pointer else "add"
        offset = self.builder.splat(added, window.extent)
        return self.builder.op(opcode, self(start, window), offset)

    def _elementwise(self, op: Op, window: Window) -> Value:
        operands = [self(operand, window) for operand in op.operands]
        wanted = None
        if op.opcode in ("cast", "bitcast"):
            wanted = Type(window.extent, op.result.type.element)
        return self.builder.op(op.opcode, *operands, wanted=wanted, **op.attrs)

    def _split(self, op: Op, value: Value, window: Window) -> Value:
        inner = Window((*window.origin, 0), (*window.extent, 2))
        halves = self.builder.emit("split", (self(op.operands[0], inner),))
        for result, half in zip(op.results, halves, strict=True):
            self.remember(result, window, half)
        return halves[op.results.index(value)]


Maker: TypeAlias = Callable[[Evaluator, Op, Window], Value]


def _arange(e: Evaluator, op: Op, window: Window) -> Value:
    start, (origin,) = op.attrs["start"], window.origin
    if isinstance(origin, int):
        start += origin
    tile = tl.arange(start, start + window.extent[0])
    return (tile if isinstance(origin, int) else tile + tl.Tile(origin)).value


def _splat(e: Evaluator, op: Op, window: Window) -> Value:
    return e.builder.splat(e.scalar(op.operands[0]), window.extent)


def _expand_dims(e: Evaluator, op: Op, window: Window) -> Value:
    axis = op.attrs["axis"]
    if not op.operands[0].type.shape:
        return e.builder.splat(e.scalar(op.operands[0]), window.extent)
    inner = e(op.operands[0], window.without(axis))
    return e.builder.op("expand_dims", inner, axis=axis)


def _broadcast(e: Evaluator, op: Op, window: Window) -> Value:
    before, after = op.operands[0].type.shape, op.result.type.shape
    axes = [
        None if a == 1 and b > 1 else i for i, (a, b) in enumerate(zip(before, after, strict=True))
    ]
    inner = e(op.operands[0], window.pick(axes))
    return tl.Tile(inner).broadcast_to(*window.extent).value


def _trans(e: Evaluator, op: Op, window: Window) -> Value:
    order = op.attrs["order"]
    places = [order.index(axis) for axis in range(len(order))]
    return e.builder.op("trans", e(op.operands[0], window.pick(places)), order=tuple(order))


def _flip(e: Evaluator, op: Op, window: Window) -> Value:
    axis, extent = op.attrs["axis"], op.result.type.shape[op.attrs["axis"]]
    place = _minus(extent - window.extent[axis], window.origin[axis])
    origin = [*window.origin]
    origin[axis] = place.value if isinstance(place, tl.Tile) else place
    inner = e(op.operands[0], Window(tuple(origin), window.extent))
    return inner if window.extent[axis] == 1 else e.builder.op("flip", inner, axis=axis)


def _reshape(e: Evaluator, op: Op, window: Window) -> Value:
    sources = unit_axes(op)
    assert sources is not None
    rank = len(op.operands[0].type.shape)
    places: list[int | None] = [None] * rank
    for axis, source in enumerate(sources):
        if source is not None:
            places[source] = axis
    inner = e(op.operands[0], window.pick(places)) if rank else e.scalar(op.operands[0])
    return tl.Tile(inner).reshape(*window.extent).value


def _join(e: Evaluator, op: Op, window: Window) -> Value:
    inner = window.without(len(window.extent) - 1)
    half = window.origin[-1]
    if window.extent[-1] == 2:
        return e.builder.op("join", *(e(operand, inner) for operand in op.operands))
    last = len(window.extent) - 1
    if isinstance(half, int):
        return e.builder.op("expand_dims", e(op.operands[half], inner), axis=last)
    first, second = (tl.Tile(e(operand, inner)) for operand in op.operands)
    return tl.where(tl.Tile(half) == 0, first, second).expand_dims(last).value


def _load(e: Evaluator, op: Op, window: Window) -> Value:
    operands = [e(operand, window) for operand in op.operands]
    if len(operands) > 1:
        known = e.builder.constant_of(operands[1])
        if known is True:
            operands = operands[:1]
    return e.builder.emit("load", operands, op.attrs)[0]


_MAKERS: Mapping[str, Maker] = {
    "arange": _arange,
    "splat": _splat,
    "expand_dims": _expand_dims,
    "broadcast": _broadcast,
    "trans": _trans,
    "flip": _flip,
    "reshape": _reshape,
    "join": _join,
    "load": _load,
}
