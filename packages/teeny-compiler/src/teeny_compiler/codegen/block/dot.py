"""Products of matrices: rows of B in registers against broadcast numbers of A.

B is packed into panels as wide as a few vectors, by the same evaluation as everything else, so that
masks, casts and transposes cost one pass over B. A is read where it lies. A block of results, some
rows times one panel, stays in registers while K is walked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import teeny_triton.language as tl
from teeny_core import DType
from teeny_triton import Target
from teeny_triton.ir import Op, Value

from teeny_compiler.codegen.block.evaluate import Buffer, Place, Window, plus
from teeny_compiler.codegen.block.nests import Nest

PACKED_ROWS = 8  # with no more rows of A than this, packing B costs more than it saves
SHORT = 64  # rows of B that lie close enough together to be read where they are


@dataclass(frozen=True)
class Product:
    """One `dot` op, its result in memory; `fresh`: the result starts from zero."""

    nest: Nest
    op: Op
    result: Buffer
    fresh: bool
    target: Target

    @property
    def a(self) -> Value:
        """The left factor, [M, K]."""
        return self.op.operands[0]

    @property
    def b(self) -> Value:
        """The right factor, [K, N]."""
        return self.op.operands[1]

    @property
    def accumulator(self) -> DType:
        """The type of the result."""
        element = self.op.result.type.element
        assert isinstance(element, DType)
        return element

    def emit(self) -> None:
        """Write the loops."""
        rows, depth = self.a.type.shape
        columns = self.b.type.shape[1]
        lanes = max(self.nest.lanes, 1)
        vectors = 1 if columns <= lanes else 2
        width = min(columns, vectors * max(lanes, 2))
        registers = max(self.target.vector_registers, 8)
        height = max(1, (registers - vectors - 2) // vectors)
        panel = self._pack(width) if self._is_packed(rows, depth) else None
        heights = _heights(rows, height)
        start = 0
        for count, size in heights:
            first = start

            def walk(block: Place, size: int = size, first: int = first) -> None:
                self._row_block(plus(first, block), size, width, panel)

            self.nest.loop(count * size, size, walk)
            start += count * size

    def _row_block(self, row: Place, size: int, width: int, panel: Buffer | None) -> None:
        columns = self.b.type.shape[1]
        whole = columns // width * width
        self.nest.loop(whole, width, lambda j: self._block(row, size, j, width, panel))
        if whole < columns:
            with self.nest.e.region():
                self._block(row, size, whole, columns - whole, panel)

    def _block(
        self, row: Place, size: int, column: Place, width: int, panel: Buffer | None
    ) -> None:
        """Keep a block of results in registers over all of K."""
        e, depth = self.nest.e, self.a.type.shape[1]
        place = self.result.at(Window((row, column), (size, width)))
        start = tl.zeros((size, width), self.accumulator) if self.fresh else tl.load(place)

        def step(k: tl.Tile, total: tl.Tile) -> tl.Tile:
            with e.region():
                left = tl.Tile(e(self.a, Window((row, k.value), (size, 1))))
                if panel is None:
                    right = tl.Tile(e(self.b, Window((k.value, column), (1, width))))
                else:
                    right = tl.load(panel.at(Window((column, k.value, 0), (1, 1, width))))
                    right = right.reshape(1, width)
                return self._multiply_add(left, right, total)

        (total,) = tl.for_(0, depth, 1, (start,), step)
        tl.store(place, total)

    def _multiply_add(self, a: tl.Tile, b: tl.Tile, total: tl.Tile) -> tl.Tile:
        x = a.to(self.accumulator).broadcast_to(*total.shape)
        y = b.to(self.accumulator).broadcast_to(*total.shape)
        return total + x * y

    # -- packing

    def _is_packed(self, rows: int, depth: int) -> bool:
        facts = self.nest.facts
        if self.b in self.nest.e.buffers:
            return False
        op = facts.definition.get(self.b)
        plain = op is not None and op.opcode == "load" and len(op.operands) == 1
        if plain and op is not None and facts.step(op.operands[0], 1) == 1 and depth <= SHORT:
            return False
        return rows > PACKED_ROWS

    def _pack(self, width: int) -> Buffer:
        """Copy B into panels of `width` columns; element (k, j) of panel p lies at (p w, k, j)."""
        e = self.nest.e
        depth, columns = self.b.type.shape
        panels = -(-columns // width)
        memory = self.nest.scratch((panels * depth * width,), self.accumulator)
        panel = Buffer(memory.pointer, self.accumulator, (depth, width, 1))
        along = self._rows_at_once()

        def copy(column: Place, count: int) -> Callable[[Place], None]:
            def rows(k: Place, size: int = along) -> None:
                tile = tl.Tile(e(self.b, Window((k, column), (size, count))))
                place = panel.at(Window((column, k, 0), (1, size, count)))
                tl.store(place, tile.to(self.accumulator).reshape(1, size, count))

            return rows

        def panel_of(column: Place, count: int) -> None:
            whole = depth // along * along
            self.nest.loop(whole, along, copy(column, count))
            if whole < depth:
                with e.region():
                    tile = tl.Tile(e(self.b, Window((whole, column), (depth - whole, count))))
                    place = panel.at(Window((column, whole, 0), (1, depth - whole, count)))
                    tl.store(place, tile.to(self.accumulator).reshape(1, depth - whole, count))

        whole = columns // width * width
        self.nest.loop(whole, width, lambda j: panel_of(j, width))
        if whole < columns:
            with e.region():
                panel_of(whole, columns - whole)
        return panel

    def _rows_at_once(self) -> int:
        """Take as many rows as a transposition in registers wants where B is stored by columns."""
        facts, depth = self.nest.facts, self.b.type.shape[0]
        lanes = max(self.nest.lanes, 1)
        value: Value | None = self.b
        axis = 0
        while value is not None:
            op = facts.definition.get(value)
            if op is None:
                return 2
            if op.opcode == "load":
                by_columns = facts.step(op.operands[0], axis) == 1
                return min(lanes, depth) if by_columns else 2
            if op.opcode == "trans":
                axis = tuple(op.attrs["order"])[axis]
            tiles = [operand for operand in op.operands if operand.type.shape == value.type.shape]
            turned = op.opcode == "trans"
            value = op.operands[0] if turned else tiles[-1] if tiles else None
        return 2


def _heights(rows: int, most: int) -> list[tuple[int, int]]:
    """Cut rows into blocks of nearly equal height: (number of blocks, height)."""
    blocks = -(-rows // most)
    low, higher = divmod(rows, blocks)
    cut = [(higher, low + 1), (blocks - higher, low)]
    return [(count, height) for count, height in cut if count]
