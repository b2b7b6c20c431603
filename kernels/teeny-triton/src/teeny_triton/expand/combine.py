"""`reduce_by` and `scan`: lines side by side run in lanes; a line by itself runs in blocks.

A block of a line is combined by log2(width) steps in registers (Sklansky, "Conditional-sum addition
logic", 1960): in step h the last element of each lower half joins all of its upper half. What came
before the block joins at the end, so that the chain through the line is one combination a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from teeny_core import DType

import teeny_triton.language as tl
from teeny_triton.builder import Builder
from teeny_triton.expand.memory import Lines, Memory, loads, once, stores
from teeny_triton.ir import Block, Op, Type, Value

Parts = list[tl.Tile]
UNROLL = 4  # vectors of a block: so many hide the chain from block to block


@dataclass(frozen=True)
class Combiner:
    """The region of an op, run on tiles of any shape."""

    builder: Builder
    region: Block

    def __call__(self, first: Sequence[tl.Tile], second: Sequence[tl.Tile]) -> Parts:
        """Combine elements that stand before others."""
        shape = first[0].shape
        known = {
            argument: part.value
            for argument, part in zip(self.region.arguments, (*first, *second), strict=True)
        }

        def value(x: Value) -> Value:
            return known[x] if x in known else tl.Tile(x).broadcast_to(*shape).value

        for op in self.region.ops[:-1]:
            if op.opcode == "const":
                element = op.result.type.element
                assert isinstance(element, DType)
                known[op.result] = self.builder.full(shape, op.attrs["value"], element)
                continue
            wanted = None
            if op.opcode in ("cast", "bitcast"):
                wanted = Type(shape, op.result.type.element)
            operands = [value(operand) for operand in op.operands]
            known[op.result] = self.builder.op(op.opcode, *operands, wanted=wanted, **op.attrs)
        return [tl.Tile(value(x)) for x in self.region.ops[-1].operands]


def reduce_by(builder: Builder, op: Op, lanes: int) -> Parts:
    """Expand `reduce_by`."""
    lines, memories, combine = _prepared(builder, op, lanes)
    results = [lines.result(_element(x)) for x in op.operands]
    if lines.are_abreast:

        def block(start: tl.Tile, count: int) -> None:
            def step(n: tl.Tile, *total: tl.Tile) -> Parts:
                return combine(total, loads(memories, n * lines.count + start, count))

            total = tl.for_(1, lines.length, 1, loads(memories, start, count), step)
            stores(results, start, count, total)

        lines.blocks(block)
    else:
        line = _Line(memories, lines.length, combine)
        once(0, lines.count, 1, lambda r: _put(results, r, line.total(r * lines.length, lanes)))
    return [memory.load() for memory in results]


def scan(builder: Builder, op: Op, lanes: int) -> Parts:
    """Expand `scan`; results take the place of the elements."""
    lines, memories, combine = _prepared(builder, op, lanes)
    reverse: bool = op.attrs["reverse"]
    if lines.are_abreast:
        last = lines.length - 1

        def block(start: tl.Tile, count: int) -> None:
            def step(n: tl.Tile, *total: tl.Tile) -> Parts:
                offset = (last - n if reverse else n) * lines.count + start
                following = combine(total, loads(memories, offset, count))
                stores(memories, offset, count, following)
                return following

            first = start + last * lines.count if reverse else start
            tl.for_(1, lines.length, 1, loads(memories, first, count), step)

        lines.blocks(block)
    else:
        line = _Line(memories, lines.length, combine, reverse)
        once(0, lines.count, 1, lambda r: line.scan(r * lines.length, lanes))
    return [memory.load() for memory in memories]


def _prepared(builder: Builder, op: Op, lanes: int) -> tuple[Lines, list[Memory], Combiner]:
    """Put the operands into memory, by lines."""
    lines = Lines(op.operands[0].type.shape, op.attrs["axis"], lanes)
    memories = []
    for operand in op.operands:
        memory = lines.reserve(_element(operand))
        memory.store(tl.Tile(operand))
        memories.append(memory)
    return lines, memories, Combiner(builder, op.regions[0])


def _element(value: Value) -> DType:
    assert isinstance(value.type.element, DType)
    return value.type.element


def _put(memories: Sequence[Memory], place: tl.Tile, values: Sequence[tl.Tile]) -> None:
    for memory, value in zip(memories, values, strict=True):
        tl.store(memory.pointer + place, value)


@dataclass(frozen=True)
class _Line:
    """One line of neighbouring elements, walked by blocks of a power of two of them."""

    memories: Sequence[Memory]
    length: int
    combine: Combiner
    reverse: bool = False

    def total(self, start: tl.Tile, lanes: int) -> Parts:
        """Combine the whole line."""

        def block(place: tl.Tile, count: int, before: Parts | None) -> Parts:
            inside = self._tree(loads(self.memories, place, count))
            return inside if before is None else self.combine(before, inside)

        return self._walk(start, UNROLL * lanes, block)

    def scan(self, start: tl.Tile, lanes: int) -> None:
        """Replace every element by the combination of all up to it."""

        def block(place: tl.Tile, count: int, before: Parts | None) -> Parts:
            inside = self._prefixes(loads(self.memories, place, count))
            total = [_last(part) for part in inside]
            if before is not None:
                spread = [part.broadcast_to(count) for part in before]
                inside, total = self.combine(spread, inside), self.combine(before, total)
            stores(self.memories, place, count, self._turned(inside))
            return total

        self._walk(start, UNROLL * lanes, block)

    def _walk(
        self, start: tl.Tile, width: int, block: Callable[[tl.Tile, int, Parts | None], Parts]
    ) -> Parts:
        """Run over blocks of `width`, then over ever smaller ones for the rest."""

        def place(done: int | tl.Tile, count: int) -> tl.Tile:
            return start + (self.length - count - done if self.reverse else done)

        before: Parts | None = None
        done = 0
        whole = self.length // width * width
        if whole:
            before, done = block(place(0, width), width, None), width
        if before is not None and whole > width:

            def step(n: tl.Tile, *carried: tl.Tile) -> Parts:
                return block(place(n, width), width, list(carried))

            before = list(tl.for_(width, whole, width, before, step))
            done = whole
        while done < self.length:
            count = 1 << ((self.length - done).bit_length() - 1)
            before = block(place(done, count), count, before)
            done += count
        assert before is not None
        return before

    def _turned(self, parts: Parts) -> Parts:
        return (
            [tl.flip(part) for part in parts] if self.reverse and parts[0].shape != (1,) else parts
        )

    def _tree(self, parts: Parts) -> Parts:
        """Combine neighbours until one is left, a scalar."""
        while parts[0].shape != (1,):
            pairs = [tl.split(part.reshape(-1, 2)) for part in parts]
            parts = self.combine(
                [a.reshape(-1) for a, _ in pairs], [b.reshape(-1) for _, b in pairs]
            )
        return [part.reshape(()) for part in parts]

    def _prefixes(self, parts: Parts) -> Parts:
        """Combine every element with those before it in a block."""
        parts = self._turned(parts)
        (size,) = parts[0].shape
        half = 1
        while half < size:
            ends = [_ends(part, half) for part in parts]
            joined = self.combine(ends, parts)
            upper = (tl.arange(0, size) & half) != 0
            parts = [tl.where(upper, a, b) for a, b in zip(joined, parts, strict=True)]
            half *= 2
        return parts


def _ends(x: tl.Tile, half: int) -> tl.Tile:
    """Repeat the last element of the lower half of every 2 `half` elements over all of them."""
    (size,) = x.shape
    groups = size // (2 * half)
    ends = x.reshape(size // half, half)
    while ends.shape[-1] > 1:
        ends = tl.split(ends.reshape(ends.shape[0], -1, 2))[1]
    ends = tl.split(ends.reshape(groups, 2))[0]
    return ends.reshape(groups, 1).broadcast_to(groups, 2 * half).reshape(size)


def _last(x: tl.Tile) -> tl.Tile:
    """Return the last element as a scalar."""
    while x.shape != (1,):
        x = tl.split(x.reshape(-1, 2))[1].reshape(-1)
    return x.reshape(())
