"""How a nest is turned into loops: which dim lies in the lanes, which make the grid.

Kept dims other than the lanes' are the *rows*; a program takes a run of them. Reduced dims other
than the lanes' are *folds*, loops inside of a row. The lane dim is walked in tiles of a few vector
registers: a loop of full tiles, then one masked tile.
"""

from __future__ import annotations

from dataclasses import dataclass

from teeny_core import Dim, ceildiv, f32, numel
from teeny_core import shape as shapes
from teeny_triton.target import Target

from teeny_compiler.nest.estimate import estimate
from teeny_compiler.nest.nest import Nest, dims_of

REGISTERS_PER_TILE = 4
REGISTERS_PER_ROW = 8
"""A folded row of at most this many registers is one tile, kept there from phase to phase."""

REGISTERS_PER_SHORT_ROW = 16
MOST_ROWS = 4
"""Rows of at most so many registers are walked together, at most so many of them."""

WORK_PER_PROGRAM = 16 * 1024
"""Elements that one program handles, where the size is known: tens of microseconds at most."""


@dataclass(frozen=True)
class LoopPlan:
    """The loops of a kernel.

    `lane` is None for a single value. `lane_block` is the part of a kept lane dim that one
    program walks, 0 when it walks all of it. With `in_registers` a tile is a whole folded row.
    `together` rows are walked in the same loops.
    """

    lane: int | None
    tile: int
    rows: tuple[int, ...]
    folds: tuple[int, ...]
    rows_per_program: int
    lane_block: int
    in_registers: bool = False
    together: int = 1

    def grid(self, nest: Nest) -> tuple[Dim, ...]:
        """Return the numbers of programs: runs of rows, then blocks of lanes."""
        rows = ceildiv(numel(nest.dims[d] for d in self.rows), self.rows_per_program)
        if not self.lane_block or self.lane is None:
            return (rows,)
        return (rows, ceildiv(nest.dims[self.lane], self.lane_block))


def plan_loops(nest: Nest, target: Target) -> LoopPlan:
    """Choose the loops of a nest for a machine."""
    lane = lane_of(nest)
    tile = 1 if lane is None else _tile(nest, lane, target)
    row = 0 if lane is None else _row_tile(nest, lane, target)
    others = [d for d in range(len(nest.dims)) if d != lane]
    rows = tuple(d for d in others if not nest.reduced[d])
    folds = tuple(d for d in others if nest.reduced[d])
    folded = estimate(numel(nest.dims[d] for d in folds))
    lanes = 1 if lane is None else estimate(nest.dims[lane])
    blocked = lane is not None and not nest.reduced[lane]
    block = max(1, WORK_PER_PROGRAM // (max(folded, 1) * tile)) * tile if blocked else 0
    if block and isinstance(nest.dims[lane or 0], int) and lanes <= block:
        block = 0
    work = max(1, folded * (min(lanes, block) if block else lanes))
    run = max(1, WORK_PER_PROGRAM // work)
    many = 1 if row and folds else _together(nest, lane, folds, target)
    run = -(-run // many) * many
    if row and not folds:
        return LoopPlan(lane, row, rows, folds, run, block, in_registers=True, together=many)
    if many > 1:
        tile = target.lanes(f32) * REGISTERS_PER_TILE // 2
    return LoopPlan(lane, tile, rows, folds, run, block, together=many)


def _together(nest: Nest, lane: int | None, folds: tuple[int, ...], target: Target) -> int:
    """How many rows to walk at once: some where they are short, folded, and then written.

    What a row computes after a reduction waits for its end, which takes about as long as a few
    registers of the row; meanwhile the others have something to do.
    """
    if lane is None or folds or not nest.reduced[lane] or not target.vector_bits:
        return 1
    extent = nest.dims[lane]
    rows = numel(d for d, folded in zip(nest.dims, nest.reduced, strict=True) if not folded)
    written = any(lane in dims_of(store.view) for store in nest.stores)
    if not written or not isinstance(extent, int) or (isinstance(rows, int) and rows < MOST_ROWS):
        return 1
    registers = -(-extent // target.lanes(f32))
    if registers > REGISTERS_PER_SHORT_ROW:
        return 1
    return MOST_ROWS // 2 if 2 < registers <= REGISTERS_PER_ROW else MOST_ROWS


def lane_of(nest: Nest) -> int | None:
    """The dim along which most memory lies in a row; among equals the innermost one."""
    views = [i.view for i in nest.instructions if i.operand >= 0 and i.view]
    views += [store.view for store in nest.stores]
    sizes = [estimate(numel(nest.dims[d] for d in sorted(dims_of(view)))) for view in views]
    whole = max(sizes, default=1) or 1
    best: tuple[float, int] | None = None
    for dim, extent in enumerate(nest.dims):
        shares = (
            size / whole * _score(view.strides[dim])
            for view, size in zip(views, sizes, strict=True)
        )
        score = min(estimate(extent), 64) * (sum(shares) + 1 / 64)
        if best is None or score >= best[0]:
            best = (score, dim)
    return None if best is None else best[1]


def _score(stride: Dim) -> float:
    if stride == 1:
        return 1.0
    return 0.25 if stride == 0 else 0.02


def _row_tile(nest: Nest, lane: int, target: Target) -> int:
    """The length of a folded row, rounded up to registers, where these hold it; else 0."""
    extent, width = nest.dims[lane], target.lanes(f32)
    if not nest.reduced[lane] or not isinstance(extent, int) or extent < 1:
        return 0
    row = -(-extent // width) * width if extent > width else _power_of_two(extent)
    return row if row <= REGISTERS_PER_ROW * width else 0


def _power_of_two(extent: int) -> int:
    return 1 << (extent - 1).bit_length()


def _tile(nest: Nest, lane: int, target: Target) -> int:
    """Lanes of a tile: some registers of 32-bit elements, no more than the extent needs."""
    tile = target.lanes(f32) * REGISTERS_PER_TILE
    extent = nest.dims[lane]
    _, high = shapes.bounds(extent)
    while high is not None and tile // 2 >= high and tile > 1:
        tile //= 2
    return tile
