"""Kernels that transpose: square tiles, read along one axis and written along the other.

Where an operand lies along one dim and a result along another, a row of either would touch a line
of the other's memory for each element. A square tile touches as many lines as it has rows, and all
of each: code generation reads it line by line and turns it in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from teeny_core import Dim, Expr, ceildiv, f32, i64, numel
from teeny_triton import language as tl
from teeny_triton.language import Operand, Tile
from teeny_triton.target import Target

from teeny_compiler.lower.evaluate import TileEvaluator
from teeny_compiler.nest.nest import REDUCTIONS, Instruction, Nest, dims_of

SMALLEST = 4
"""The side of the smallest square worth turning."""


@dataclass(frozen=True)
class Turn:
    """Squares of `side` over the dims `row` (first axis of a tile) and `lane` (second axis)."""

    row: int
    lane: int
    side: int

    def others(self, nest: Nest) -> tuple[int, ...]:
        """Return the dims that do not lie in the squares."""
        return tuple(d for d in range(len(nest.dims)) if d not in (self.row, self.lane))

    def grid(self, nest: Nest) -> tuple[Dim, ...]:
        """Return the numbers of programs: a strip of squares each, for each other index."""
        strips = ceildiv(nest.dims[self.row], self.side)
        return (strips, numel(nest.dims[d] for d in self.others(nest)))


def plan_turn(nest: Nest, lane: int, target: Target) -> Turn | None:
    """Return how to turn what elementwise work reads, None when it reads along the lanes."""
    side = target.lanes(f32)
    folds = any(instruction.op in REDUCTIONS for instruction in nest.instructions)
    if folds or side < SMALLEST or not _is_long(nest.dims[lane], side):
        return None
    for instruction in nest.instructions:
        row = _row_of(instruction, lane)
        if row is not None and _is_long(nest.dims[row], side):
            return Turn(row, lane, side)
    return None


def _row_of(instruction: Instruction, lane: int) -> int | None:
    """The dim along which a load lies, where that is not the lanes'."""
    view = instruction.view
    if instruction.op != "load" or view is None or view.strides[lane] in (0, 1):
        return None
    return next((d for d in sorted(dims_of(view)) if view.strides[d] == 1), None)


def _is_long(extent: Dim, side: int) -> bool:
    return not isinstance(extent, int) or extent >= side


class Square(TileEvaluator):
    """Evaluates on squares: the indices of two dims are tiles, along one axis each."""

    def __init__(
        self, nest: Nest, plan: Turn, addresses: Mapping[int, Tile], sizes: Mapping[Expr, Tile]
    ) -> None:
        super().__init__(nest, addresses, sizes)
        self.plan = plan
        self.steps = tl.arange(0, plan.side)

    def program(self) -> None:
        """Emit one program: the squares of a strip."""
        rest: Operand = tl.program_id(1).to(i64)
        for dim in reversed(self.plan.others(self.nest)):
            extent = self.dim(self.nest.dims[dim])
            self.index[dim] = rest % extent  # type: ignore[operator]
            rest = rest // extent  # type: ignore[operator]
        first = tl.program_id(0).to(i64) * self.plan.side
        with self.at(self.plan.row, (first + self.steps)[:, None]):
            self.strip()

    def strip(self) -> None:
        """Emit the squares side by side along the lanes."""
        end = self.dim(self.nest.dims[self.plan.lane])
        with tl.loop(tl.full((), 0, i64), end, self.plan.side) as (start, _):
            with self.at(self.plan.lane, (start + self.steps)[None, :]):
                self.square()
            tl.yield_()

    @contextmanager
    def at(self, dim: int, places: Tile) -> Iterator[None]:
        """Know the indices of a dim for a while, and which of them exist."""
        extent = self.nest.dims[dim]
        self.index[dim] = places
        if not isinstance(extent, int) or extent % self.plan.side:
            self.bounds[dim] = places < self.dim(extent)
        with self.scope():
            yield
        del self.index[dim]

    def square(self) -> None:
        """Emit the work of one square."""
        for i in range(len(self.nest.instructions)):
            self.compute(i)
        shape = (self.plan.side, self.plan.side)
        for store in self.nest.stores:
            value = self.value(store.value).broadcast_to(shape)
            mask = self.inside(store.view, tiled=True)
            tl.store(self.address(store.operand, store.view), value, mask)
