"""What the loops of all groups share: the code under construction, loops, bounds and stores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import teeny_triton.language as tl
from teeny_core import DType, i32
from teeny_triton.ir import Value

from teeny_compiler.codegen.block.evaluate import Buffer, Evaluator, Place, Window, in_memory
from teeny_compiler.codegen.block.facts import WRITES, Facts, mask_of
from teeny_compiler.codegen.block.masks import (
    Bound,
    bounds,
    holds_only_with,
    neutral,
    value_without,
)
from teeny_compiler.codegen.block.plan import Group, Root, Shape, reached

UNROLL = 4  # vectors in a block: so many accumulators hide the latency of an addition


@dataclass
class Nest:
    """Loops under construction: the evaluator of values, and the number of lanes in a vector."""

    e: Evaluator
    lanes: int

    @property
    def facts(self) -> Facts:
        """The facts of the function."""
        return self.e.facts

    @property
    def block(self) -> int:
        """Elements that the innermost code works on."""
        return UNROLL * max(self.lanes, 2)

    def scratch(self, shape: Shape, dtype: DType) -> Buffer:
        """Reserve memory for a tile."""
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        return Buffer(tl.scratch(max(1, math.prod(shape)), dtype).value, dtype, strides)

    def loop(self, stop: int | tl.Tile, step: int, body: Callable[[Place], None]) -> None:
        """Run `body` at 0, step, 2 step, ... below `stop`."""
        if isinstance(stop, int) and stop <= step:
            if stop > 0:
                with self.e.region():
                    body(0)
            return

        def run(index: tl.Tile) -> None:
            with self.e.region():
                body(index.value)

        tl.for_(0, stop, step, (), run)

    def write(self, root: Root, window: Window, inputs: Sequence[Value]) -> None:
        """Do the work of a store or keep for a window."""
        if root.buffer is not None:
            tl.store(root.buffer.at(window), in_memory(inputs[0]))
            return
        assert root.op is not None
        operands = list(inputs)
        mask = mask_of(root.op)
        if mask is not None and self.e.builder.constant_of(operands[-1]) is True:
            operands.pop()
        results = self.e.builder.emit(root.op.opcode, operands, root.op.attrs)
        for old, new in zip(root.op.results, results, strict=True):
            if old in self.e.facts.users:
                tl.store(self.e.buffers[old].at(window), tl.Tile(new))

    def inputs(self, roots: Sequence[Root], window: Window) -> list[list[Value]]:
        """Compute what roots want, of all before any is done: a store may overwrite an input."""
        return [[self.e(value, window) for value in root.inputs] for root in roots]


def clipped(limit: tl.Tile, extent: int) -> tl.Tile:
    """Bring a limit into [0, extent], as i32."""
    return tl.maximum(tl.minimum(limit, extent), 0).to(i32)


def bound_of(
    facts: Facts, group: Group, roots: Sequence[Root], axis: int, spanned: Sequence[int] = ()
) -> Bound | None:
    """Find a comparison beyond which all of some roots do nothing along an axis of their space.

    The limit is one for all places along the axes in `spanned`.
    """
    for root in roots:
        for mask, follows in masks_of(facts, root):
            for bound in bounds(facts, mask, follows, axis):
                if any(bound.varies_along(facts, other) for other in spanned):
                    continue
                if all(_stops(facts, group, other, bound) for other in roots):
                    return bound
    return None


def masks_of(facts: Facts, root: Root) -> list[tuple[Value, tuple[int | None, ...]]]:
    """Return the conditions under which a root stores, loads or chooses."""
    axes = tuple(range(len(root.space)))
    if root.kind in WRITES:
        assert root.op is not None
        mask = mask_of(root.op)
        return [] if mask is None else [(mask, axes)]
    found = []
    for value, follows in reached(facts, root.inputs, axes):
        op = facts.definition.get(value)
        mask = mask_of(op) if op is not None else None
        if mask is not None:
            found.append((mask, follows))
        elif op is not None and op.opcode == "where":
            found.append((op.operands[0], follows))
    return found


def _stops(facts: Facts, group: Group, root: Root, bound: Bound) -> bool:
    """Whether a root does nothing where a comparison fails."""
    if root.kind == "keep":
        readers = [
            other for other in group.roots() if other is not root and _reads(facts, other, root)
        ]
        return root.is_local and all(_stops(facts, group, other, bound) for other in readers)
    assert root.op is not None
    operands = root.op.operands
    if root.kind in WRITES:
        mask = mask_of(root.op)
        return mask is not None and holds_only_with(facts, mask, bound.comparison)
    if root.kind != "reduce":
        return False
    element = operands[0].type.element
    assert isinstance(element, DType)
    kind = root.op.attrs["kind"]
    beyond = value_without(facts, operands[0], bound.comparison)
    return beyond == neutral(kind, element) and not kind.startswith("arg")


def _reads(facts: Facts, root: Root, kept: Root) -> bool:
    axes = tuple(range(len(root.space)))
    return any(value is kept.value for value, _ in reached(facts, root.inputs, axes))
