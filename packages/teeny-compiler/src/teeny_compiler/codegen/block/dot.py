"""Products of matrices: rows of B in registers against broadcast numbers of A.

B is packed into panels as wide as a few vectors. A is read where it lies, if its numbers can be
used as they are; else it is copied too. A block of results, some rows times one panel, stays in
registers while K is walked. Where masks hold everywhere, which is asked once for a whole tile, they
cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import teeny_triton.language as tl
from teeny_triton.ir import Value

from teeny_compiler.codegen.block.evaluate import Buffer, Place, Window, plus
from teeny_compiler.codegen.block.factors import Factors, tile
from teeny_compiler.codegen.block.limits import Limits, is_true
from teeny_compiler.codegen.block.packing import Panel, copy_left, pack_right

SHORT = 64  # rows of B that lie close enough together to be read where they are

Read = Callable[[Place, int, Place, Place], tl.Tile]
"""`read(row, rows, turn, k)`: a column of A."""


@dataclass(frozen=True)
class Product(Factors):
    """One `dot` op, its result in memory; `fresh`: the result starts from zero."""

    result: Buffer
    fresh: bool

    def emit(self) -> None:
        """Write the loops."""
        columns = self.b.type.shape[1]
        vectors = 1 if columns <= self.lanes else 2
        width = min(columns, vectors * max(self.lanes, 2))
        registers = max(self.target.vector_registers, 8)
        height = max(1, (registers - vectors - 2) // vectors)
        panel = pack_right(self, width) if self._is_packed() else None
        limits = self.limits(self.a)
        if not self._is_read_in_place(limits.assumptions):
            copy = copy_left(self, limits)
            self._multiply(width, height, panel, self._from(copy), enters=False)
            return
        met = self._always(limits)
        if met is None:
            self._multiply(width, height, panel, self._in_place, enters=True)
            return

        def plain() -> None:
            with self.nest.e.assuming(limits.assumptions):
                self._multiply(width, height, panel, self._in_place, enters=True)

        def masked() -> None:
            with self.nest.e.region():
                copy = copy_left(self, limits)
                self._multiply(width, height, panel, self._from(copy), enters=False)

        tl.if_(met, plain, masked)

    # -- register tiles

    def _multiply(
        self, width: int, height: int, panel: Panel | None, read: Read, *, enters: bool
    ) -> None:
        """Go over the results by blocks of registers: the rows of one panel, then the next."""
        columns = self.b.type.shape[1]
        whole = columns // width * width

        def work(column: Place, width: int = width) -> None:
            start = 0
            for count, size in _heights(self.a.type.shape[0], height):

                def block(row: Place, size: int = size, start: int = start) -> None:
                    row = plus(start, row)
                    self._block(row, size, column, width, panel, read, enters or panel is None)

                self.nest.loop(count * size, size, block)
                start += count * size

        self.nest.loop(whole, width, work)
        if whole < columns:
            with self.nest.e.region():
                work(whole, columns - whole)

    def _block(
        self,
        row: Place,
        size: int,
        column: Place,
        width: int,
        panel: Panel | None,
        read: Read,
        enters: bool,
    ) -> None:
        """Keep a block of results in registers over all of K."""
        e = self.nest.e
        place = self.result.at(Window((row, column), (size, width)))
        apart = self.factor != self.accumulator
        zero = self.fresh or apart
        start = tl.zeros((size, width), self.factor) if zero else tl.load(place)
        if panel is not None and panel.excess is not None:
            excess = tl.load(panel.excess.at(Window((0, column), (1, width))))
            start = start - excess.broadcast_to(size, width)

        def turn(number: Place, total: tl.Tile) -> tl.Tile:
            def step(k: tl.Tile, total: tl.Tile) -> tl.Tile:
                with e.region():
                    left = read(row, size, number, k.value)
                    if panel is None:
                        right = tl.Tile(e(self.b, Window((k.value, column), (1, width))))
                    else:
                        at = self.along(number, k.value)
                        right = tl.load(panel.memory.at(Window((column, at, 0), (1, 1, width))))
                        right = right.reshape(1, width)
                    return self._multiply_add(left, right, total)

            if enters:
                self.turns.enter(number)
            (total,) = tl.for_(0, self.steps, 1, (total,), step)
            return total

        if self.turns.most == 1:
            with e.region():
                total = turn(0, start)
        else:

            def each(number: tl.Tile, total: tl.Tile) -> tl.Tile:
                with e.region():
                    return turn(number.value, total)

            (total,) = tl.for_(0, tile(self.turns.count), 1, (start,), each)
        if apart:
            total = total.to(self.accumulator)
            total = total if self.fresh else tl.load(place) + total
        tl.store(place, total)

    def _multiply_add(self, a: tl.Tile, b: tl.Tile, total: tl.Tile) -> tl.Tile:
        if self.words:
            a, b = a.broadcast_to(*total.shape), b.broadcast_to(*total.shape)
            return self.words.multiply_add(a, b, total)
        x = a.to(self.factor).broadcast_to(*total.shape)
        y = b.to(self.factor).broadcast_to(*total.shape)
        return total + x * y

    def _always(self, limits: Limits) -> tl.Tile | None:
        """Return whether A meets its limits in all turns, None where it has none."""
        if not limits.assumptions:
            return None
        if self.turns.most == 1:
            self.turns.enter(0)
            return limits.are_met(self.nest.e)

        def check(turn: tl.Tile, before: tl.Tile) -> tl.Tile:
            with self.nest.e.region():
                self.turns.enter(turn.value)
                met = limits.are_met(self.nest.e)
                assert met is not None
                return before & met

        (met,) = tl.for_(0, tile(self.turns.count), 1, (tl.full((), True, tl.int1),), check)
        return met

    # -- A

    def _is_read_in_place(self, assumptions: set[Value]) -> bool:
        """Whether the numbers of A lie in memory as they are wanted, given that its masks hold."""
        facts = self.nest.facts
        if self.a.type.element != self.factor:
            return False
        if self.a in self.nest.e.buffers:
            return True
        op = facts.definition[self.a]
        if op.opcode != "load":
            return False
        by_columns = facts.step(op.operands[0], 0) == 1 and facts.step(op.operands[0], 1) != 1
        plain = len(op.operands) == 1 or is_true(facts, op.operands[1], assumptions)
        return plain and not (by_columns and self.b.type.shape[1] > SHORT // 2)

    def _in_place(self, row: Place, rows: int, turn: Place, k: Place) -> tl.Tile:
        return tl.Tile(self.nest.e(self.a, Window((row, k), (rows, 1))))

    def _from(self, copy: Buffer) -> Read:
        def read(row: Place, rows: int, turn: Place, k: Place) -> tl.Tile:
            return tl.load(copy.at(Window((row, self.along(turn, k)), (rows, 1))))

        return read

    # -- B

    def _is_packed(self) -> bool:
        if self.words:
            return True
        facts = self.nest.facts
        if self.b in self.nest.e.buffers:
            return False
        op = facts.definition.get(self.b)
        plain = op is not None and op.opcode == "load" and len(op.operands) == 1
        short = self.turns.most * self.depth <= SHORT
        if plain and op is not None and facts.step(op.operands[0], 1) == 1 and short:
            return False
        return self.is_worth_packing()


def _heights(rows: int, most: int) -> list[tuple[int, int]]:
    """Cut rows into blocks of nearly equal height: (number of blocks, height)."""
    blocks = -(-rows // most)
    low, higher = divmod(rows, blocks)
    cut = [(higher, low + 1), (blocks - higher, low)]
    return [(count, height) for count, height in cut if count]
