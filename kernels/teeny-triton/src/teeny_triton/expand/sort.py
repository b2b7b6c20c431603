"""`sort`: a bitonic network over keys, which are integers (Batcher, "Sorting networks and their
applications", 1968).

Floats become integers in the same order, and a descending order an ascending one, by inverting
bits; so every step is a minimum and a maximum. Lines are padded to a power of two by keys above all
others. Lines side by side are sorted in lanes; a line by itself is sorted by whole vectors as long
as partners are a vector or more apart, and within vectors below that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from teeny_core import DType, i8, i16, i32, i64, u8

import teeny_triton.language as tl
from teeny_triton.builder import Builder
from teeny_triton.expand.memory import Lines, Memory, at, once
from teeny_triton.ir import Op

KEYS = {8: i8, 16: i16, 32: i32, 64: i64}


def sort(builder: Builder, op: Op, lanes: int) -> tl.Tile:
    """Expand `sort`."""
    x, axis, keep = tl.Tile(op.operands[0]), op.attrs["axis"], op.attrs["keep"]
    keys = _keys(x, op.attrs["descending"])
    assert isinstance(keys.dtype, DType)
    lines = Lines(x.shape, axis, lanes)
    room = 1 << (lines.length - 1).bit_length()
    memory = lines.reserve(keys.dtype, room)
    memory.store(keys)
    network = _Network(lines, memory, room, lanes)
    if room > lines.length:
        network.pad(int(keys.dtype.max))
    network.run()
    first = memory.load((*x.shape[:axis], keep, *x.shape[axis + 1 :]))
    return _values(first, x.dtype, op.attrs["descending"])


def _keys(x: tl.Tile, descending: bool) -> tl.Tile:
    """Return integers whose ascending order is the order that is wanted."""
    dtype = x.dtype
    assert isinstance(dtype, DType)
    if dtype.is_float:
        bits = x.to(KEYS[dtype.bits], bitcast=True)
        quiet = int(np.asarray(np.nan).astype(dtype.numpy).view(f"i{dtype.itemsize}"))
        x = _order_bits(tl.where(x != x, tl.full(x.shape, quiet, bits.dtype), bits))
    elif dtype.is_bool:
        x = x.to(u8)
    return ~x if descending else x


def _values(keys: tl.Tile, dtype: object, descending: bool) -> tl.Tile:
    """Turn keys back into elements."""
    assert isinstance(dtype, DType)
    keys = ~keys if descending else keys
    if dtype.is_float:
        return _order_bits(keys).to(dtype, bitcast=True)
    return keys.to(dtype)


def _order_bits(x: tl.Tile) -> tl.Tile:
    """Invert all bits but the sign of negative numbers."""
    assert isinstance(x.dtype, DType)
    return tl.where(x < 0, x ^ int(x.dtype.max), x)


@dataclass(frozen=True)
class _Network:
    """Lines of `room` keys, a power of two, sorted in place.

    Keys i and i + j, j < k a power of two, are put in order for ever smaller j, for ever larger k:
    upwards where i & k is 0, else downwards.
    """

    lines: Lines
    memory: Memory
    room: int
    lanes: int

    def pad(self, above: int) -> None:
        """Fill what is left of every line."""
        dtype = self.memory.kind.element
        assert isinstance(dtype, DType)
        rest = self.room - self.lines.length
        shape = (*self.lines.outer, rest)
        axis = self.lines.axis
        strides = list(self.memory.strides)
        step = strides.pop(axis)
        pointer = self.memory.pointer + self.lines.length * step
        padding = Memory(pointer, tl.full(shape, above, dtype).type, (*strides, step))
        padding.store(tl.full(shape, above, dtype))

    def run(self) -> None:
        """Write the loops."""
        if self.lines.are_abreast:
            self.lines.blocks(self._abreast)
        else:
            once(0, self.lines.count, 1, lambda r: self._line(r * self.room))

    def _abreast(self, start: tl.Tile, count: int) -> None:
        """Sort some lines side by side."""
        stride = self.lines.count

        def order(i: tl.Tile, j: tl.Tile, up: tl.Tile) -> None:
            self._exchange(i * stride + start, j * stride, up, count)

        self._rounds(1, order)

    def _line(self, start: tl.Tile) -> None:
        """Sort one line: vectors first, then ever longer runs of them."""
        width = min(self.room, max(1, self.lanes))

        def vectors(distance: int, up: tl.Tile | None) -> None:
            """Order the keys of all vectors up to a distance; the bit `up` decides which way."""

            def vector(i: tl.Tile) -> None:
                place = at(self.memory, start + i, width)
                keys = tl.load(place)
                if up is None:
                    tl.store(place, self._sorted(keys, (i & width) == 0))
                else:
                    tl.store(place, self._merged(keys, distance, (i & up) == 0))

            once(0, self.room, width, vector)

        vectors(1, None)
        if self.room > width:

            def order(i: tl.Tile, j: tl.Tile, up: tl.Tile) -> None:
                self._exchange(start + i, j, up, width)

            self._rounds(width, order, lambda size: vectors(width // 2, size))

    def _rounds(
        self,
        width: int,
        order: Callable[[tl.Tile, tl.Tile, tl.Tile], None],
        finish: Callable[[tl.Tile], None] | None = None,
    ) -> None:
        """Walk the sizes k above `width`, and distances of at least `width`."""
        first, last = width.bit_length(), self.room.bit_length()

        def size(power: tl.Tile) -> None:
            k = 1 << power

            def distance(lower: tl.Tile) -> None:
                j = 1 << (power - 1 - lower)

                def pair(p: tl.Tile) -> None:
                    i = 2 * p - (p & (j - 1))
                    order(i, j, (i & k) == 0)

                once(0, self.room // 2, width, pair)

            once(0, power - (first - 1), 1, distance)
            if finish is not None:
                finish(k)

        once(first, last, 1, size)

    def _exchange(self, place: tl.Tile, distance: tl.Tile, up: tl.Tile, count: int) -> None:
        """Put neighbours and their partners in order: the smaller first, or last."""
        a = tl.load(at(self.memory, place, count))
        b = tl.load(at(self.memory, place + distance, count))
        tl.store(at(self.memory, place + tl.where(up, 0, distance), count), tl.minimum(a, b))
        tl.store(at(self.memory, place + tl.where(up, distance, 0), count), tl.maximum(a, b))

    def _sorted(self, keys: tl.Tile, up: tl.Tile) -> tl.Tile:
        """Sort a vector."""
        (size,) = keys.shape
        keys = _turned(keys, up)
        k = 2
        while k <= size:
            upwards = (tl.arange(0, size) & k) == 0
            j = k // 2
            while j:
                keys = _ordered(keys, j, upwards)
                j //= 2
            k *= 2
        return _turned(keys, up)

    def _merged(self, keys: tl.Tile, distance: int, up: tl.Tile) -> tl.Tile:
        """Sort a vector that rises and falls."""
        keys = _turned(keys, up)
        while distance:
            keys = _ordered(keys, distance, None)
            distance //= 2
        return _turned(keys, up)


def _turned(keys: tl.Tile, up: tl.Tile) -> tl.Tile:
    """Invert the order of keys unless `up`."""
    return keys ^ tl.where(up, 0, -1).to(keys.dtype)


def _ordered(keys: tl.Tile, j: int, upwards: tl.Tile | None) -> tl.Tile:
    """Put lanes i and i + j in order."""
    (size,) = keys.shape
    partners = tl.flip(keys.reshape(size // (2 * j), 2, j), 1).reshape(size)
    lower = (tl.arange(0, size) & j) == 0
    smaller = lower if upwards is None else lower == upwards
    return tl.where(smaller, tl.minimum(keys, partners), tl.maximum(keys, partners))
