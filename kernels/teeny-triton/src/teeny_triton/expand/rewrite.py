"""The pass: every op that has an expansion is replaced by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from teeny_core import DType, i32

import teeny_triton.language as tl
from teeny_triton.builder import Builder
from teeny_triton.expand.combine import reduce_by, scan
from teeny_triton.expand.memory import Memory, addresses, once, reserve, spilled
from teeny_triton.expand.sort import sort
from teeny_triton.ir import Block, Function, Op, Value, walk
from teeny_triton.passes import simplify

LANES = 8
Expansion: TypeAlias = Callable[[Builder, Op, int], Sequence[tl.Tile]]


def expand(
    function: Function, lanes: int = LANES, native: frozenset[str] = frozenset()
) -> Function:
    """Return the function with only primitive ops; itself where it has no others.

    `lanes` is the number of elements that a back end works on at once: the loops suit it. Opcodes
    in `native` are left, for a back end that has them.
    """
    pass_ = _Expansion(lanes, EXPANDED.keys() - native)
    while any(pass_.applies(op) for op in walk(function.body)):  # an expansion may use others
        body = Block()
        builder = Builder(body)
        with builder.active():
            pass_.run(builder, function.body, body)
        function = replace(function, body=simplify(body))
    return function


@dataclass
class _Expansion:
    lanes: int
    opcodes: frozenset[str] | set[str]
    known: dict[Value, Value] = field(default_factory=dict)

    def applies(self, op: Op) -> bool:
        """Whether an op is replaced."""
        if op.opcode == "dot":
            return "dot" in self.opcodes and len(op.result.type.shape) == 3
        if op.opcode == "device_assert":
            return "device_assert" in self.opcodes and bool(op.operands[0].type.shape)
        return op.opcode in self.opcodes

    def run(self, builder: Builder, source: Block, target: Block) -> None:
        """Write the ops of a block at the end of another."""
        for op in source.ops:
            operands = tuple(self.known.get(x, x) for x in op.operands)
            regions = tuple(self._region(builder, region) for region in op.regions)
            op = replace(op, operands=operands, regions=regions)
            if not self.applies(op):
                target.ops.append(op)
                continue
            builder.location = op.location
            results = EXPANDED[op.opcode](builder, op, self.lanes)
            for old, new in zip(op.results, results, strict=True):
                self.known[old] = new.value

    def _region(self, builder: Builder, region: Block) -> Block:
        block = Block(region.arguments)
        with builder.inside(block):
            self.run(builder, region, block)
        return block


def _sort(builder: Builder, op: Op, lanes: int) -> Sequence[tl.Tile]:
    return (sort(builder, op, lanes),)


def _gather(builder: Builder, op: Op, lanes: int) -> Sequence[tl.Tile]:
    """Put the source into memory and load from addresses that are computed."""
    x, index = map(tl.Tile, op.operands)
    memory, axis = spilled(x), op.attrs["axis"]
    strides = tuple(0 if a == axis else stride for a, stride in enumerate(memory.strides))
    place = addresses(memory.pointer, index.shape, strides)
    return (tl.load(place + index * memory.strides[axis]),)


def _flip(builder: Builder, op: Op, lanes: int) -> Sequence[tl.Tile]:
    """Put the tile into memory and load it backwards."""
    memory, axis = spilled(tl.Tile(op.operands[0])), op.attrs["axis"]
    strides = list(memory.strides)
    last = memory.pointer + (memory.kind.shape[axis] - 1) * strides[axis]
    strides[axis] = -strides[axis]
    return (Memory(last, memory.kind, tuple(strides)).load(),)


def _histogram(builder: Builder, op: Op, lanes: int) -> Sequence[tl.Tile]:
    """Count one element after another; what is not counted has a counter of its own."""
    x = tl.Tile(op.operands[0])
    (bins,) = op.result.type.shape
    assert isinstance(x.dtype, DType)
    inside = x >= 0
    if bins <= x.dtype.max:
        inside = inside & (x < tl.full((), bins, x.dtype))
    if len(op.operands) > 1:
        inside = inside & tl.Tile(op.operands[1])
    places = spilled(tl.where(inside, x.to(i32), bins))
    counts = reserve((bins + 1,), i32)
    counts.store(tl.zeros((bins + 1,), i32))

    def count(n: tl.Tile) -> None:
        counter = counts.pointer + tl.load(places.pointer + n)
        tl.store(counter, tl.load(counter) + 1)

    once(0, x.numel, 1, count)
    return (counts.load((bins,)),)


def _dot(builder: Builder, op: Op, lanes: int) -> Sequence[tl.Tile]:
    """Multiply one pair of matrices after another."""
    a, b, total = (spilled(tl.Tile(x)) for x in op.operands)

    def matrix(memory: Memory, number: tl.Tile) -> Memory:
        batch, *rest = memory.strides
        kind = memory.kind.with_shape(memory.kind.shape[1:])
        return Memory(memory.pointer + number * batch, kind, tuple(rest))

    def multiply(n: tl.Tile) -> None:
        place = matrix(total, n)
        place.store(tl.dot(matrix(a, n).load(), matrix(b, n).load(), place.load()))

    once(0, op.result.type.shape[0], 1, multiply)
    return (total.load(),)


def _assert(builder: Builder, op: Op, lanes: int) -> Sequence[tl.Tile]:
    """Assert the least truth value of the tile."""
    least = tl.Tile(op.operands[0]).to(i32)
    for axis in reversed(range(len(least.shape))):
        least = tl.min(least, axis=axis)
    builder.emit("device_assert", ((least != 0).value,), op.attrs)
    return ()


def _breakpoint(builder: Builder, op: Op, lanes: int) -> Sequence[tl.Tile]:
    """Do nothing: only interpreters stop."""
    return ()


EXPANDED: Mapping[str, Expansion] = {
    "reduce_by": reduce_by,
    "scan": scan,
    "sort": _sort,
    "gather": _gather,
    "flip": _flip,
    "histogram": _histogram,
    "dot": _dot,
    "device_assert": _assert,
    "breakpoint": _breakpoint,
}
"""The opcodes that `expand` rewrites; of `dot` only batches, of `device_assert` only tiles."""
