"""Products of matrices: rows of B in registers against broadcast numbers of A.

B is packed into panels as wide as a few vectors, by the same evaluation as everything else, so that
masks, casts and transposes cost one pass over B. A is read where it lies, if its numbers can be
used as they are; else it is copied too. A block of results, some rows times one panel, stays in
registers while K is walked. Where masks hold everywhere, which is asked once for a whole tile, they
cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import teeny_triton.language as tl
from teeny_core import DType, f32, i32
from teeny_triton import Target
from teeny_triton.ir import Op, Value

from teeny_compiler.codegen.block.evaluate import Buffer, Place, Window, plus
from teeny_compiler.codegen.block.limits import Limits, is_true, limits_of
from teeny_compiler.codegen.block.nests import Nest
from teeny_compiler.codegen.block.words import Words, as_words, words_of

PACKED_ROWS = 8  # with no more rows of A than this, packing B costs more than it saves
EXACT = 1 << 24  # integers up to here are f32
SHORT = 64  # rows of B that lie close enough together to be read where they are


class Turns(Protocol):
    """The products that are summed into one result: `count` of them, at most `most`."""

    most: int
    count: Place

    @property
    def starts(self) -> Mapping[Value, Value]:
        """What the index tiles that the loop carries start from."""

    def enter(self, turn: Place) -> None:
        """Say what A and B are in one of the products."""


@dataclass
class Once:
    """A product that stands alone."""

    most: int = 1
    count: Place = 1

    @property
    def starts(self) -> Mapping[Value, Value]:
        """No loop carries anything."""
        return {}

    def enter(self, turn: Place) -> None:
        """There is nothing to say."""


@dataclass(frozen=True)
class Panel:
    """B, copied: numbers or words (see `Product._pack`), and what results are too large by."""

    memory: Buffer
    excess: Buffer | None = None


Read = Callable[[Place, int, Place, Place], tl.Tile]
"""`read(row, rows, turn, k)`: a column of A."""


@dataclass(frozen=True)
class Product:
    """One `dot` op, its result in memory; `fresh`: the result starts from zero."""

    nest: Nest
    op: Op
    result: Buffer
    fresh: bool
    target: Target
    turns: Turns = field(default_factory=Once)

    @property
    def a(self) -> Value:
        """The left factor, [M, K]."""
        return self.op.operands[0]

    @property
    def b(self) -> Value:
        """The right factor, [K, N]."""
        return self.op.operands[1]

    @property
    def depth(self) -> int:
        """K, of one turn."""
        return self.a.type.shape[1]

    @property
    def accumulator(self) -> DType:
        """The type of the result."""
        element = self.op.result.type.element
        assert isinstance(element, DType)
        return element

    @property
    def factor(self) -> DType:
        """The type in which factors are multiplied, and products are summed in registers.

        Small integers are multiplied as f32, which vectors do best, where all sums are exact.
        """
        element = self.a.type.element
        if self.words or not isinstance(element, DType) or not element.is_int:
            return self.accumulator
        if not self.target.vector_bits:
            return self.accumulator
        other = self.b.type.element
        assert isinstance(other, DType)
        largest = max(-element.min, element.max) * max(-other.min, other.max)
        return f32 if self.turns.most * self.depth * largest <= EXACT else self.accumulator

    @cached_property
    def words(self) -> Words | None:
        """How integers are packed into words, None where factors are taken one by one."""
        if not self._is_worth_packing():
            return None
        return words_of(self.target, self.a.type.element, self.b.type.element)

    @property
    def step(self) -> int:
        """How many columns of A, and rows of B, are taken at once."""
        return self.words.count if self.words else 1

    @property
    def steps(self) -> int:
        """How many steps a turn has."""
        return -(-self.depth // self.step)

    @property
    def lanes(self) -> int:
        """Results in a vector register."""
        return max(1, min(self.nest.lanes, self.target.lanes(self.accumulator)))

    def emit(self) -> None:
        """Write the loops."""
        columns = self.b.type.shape[1]
        vectors = 1 if columns <= self.lanes else 2
        width = min(columns, vectors * max(self.lanes, 2))
        registers = max(self.target.vector_registers, 8)
        height = max(1, (registers - vectors - 2) // vectors)
        panel = self._pack(width) if self._is_packed() else None
        limits = self._limits(self.a)
        if not self._is_read_in_place(limits.assumptions):
            copy = self._copy_a(limits)
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
                copy = self._copy_a(limits)
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
                        at = self._along(number, k.value)
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

            (total,) = tl.for_(0, _tile(self.turns.count), 1, (start,), each)
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

    def _along(self, turn: Place, k: Place, length: int = 0) -> Place:
        """Return the place of step `k` in what holds all turns, each of some length."""
        length = length or self.steps
        if isinstance(turn, int):
            return plus(turn * length, k)
        return plus((tl.Tile(turn) * length).value, k)

    def _each_turn(self, work: Callable[[Place], None]) -> None:
        """Do something for each turn."""

        def run(turn: Place) -> None:
            self.turns.enter(turn)
            work(turn)

        count = self.turns.count
        self.nest.loop(count if isinstance(count, int) else tl.Tile(count), 1, run)

    def _limits(self, matrix: Value) -> Limits:
        outer = {value: start for value, (start, _) in self.nest.e.stepped.items()}
        return limits_of(self.nest.facts, matrix, {**outer, **self.turns.starts})

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

        (met,) = tl.for_(0, _tile(self.turns.count), 1, (tl.full((), True, tl.int1),), check)
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
            return tl.load(copy.at(Window((row, self._along(turn, k)), (rows, 1))))

        return read

    def _copy_a(self, limits: Limits) -> Buffer:
        """Copy A to rows without gaps, all turns side by side."""
        rows, words = self.a.type.shape[0], self.words
        steps = self.turns.most * self.steps
        copy = self.nest.scratch((rows, steps * self.step), words.left if words else self.factor)
        size = self._lines_at_once(self.a)

        def each(turn: Place) -> None:
            def block(row: Place, k: Place, rows: int, width: int) -> None:
                tile = tl.Tile(self.nest.e(self.a, Window((row, k), (rows, width))))
                tile = words.of_left(tile) if words else tile.to(self.factor)
                at = self._along(turn, k, self.steps * self.step)
                tl.store(copy.at(Window((row, at), (rows, width))), tile)

            self._blocks(rows, self.depth, size, self.nest.block if size == 1 else size, block)

        self._each_turn(self._versioned(limits, each))
        return Buffer(as_words(copy), i32, (steps, 1)) if words else copy

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
        return self._is_worth_packing()

    def _is_worth_packing(self) -> bool:
        return self.a.type.shape[0] > PACKED_ROWS

    def _pack(self, width: int) -> Panel:
        """Copy B into panels of `width` columns; element (k, j) of panel p lies at (p w, k, j)."""
        columns, words = self.b.type.shape[1], self.words
        panels = -(-columns // width)
        element = words.right if words else self.factor
        turn_depth = self.steps * self.step
        depth = self.turns.most * turn_depth
        memory = self.nest.scratch((panels * depth * width,), element)
        panel = Buffer(memory.pointer, element, (depth, width, 1))
        size = self._lines_at_once(self.b)

        def each(turn: Place) -> None:
            def block(k: Place, column: Place, size: int, count: int) -> None:
                tile = tl.Tile(self.nest.e(self.b, Window((k, column), (size, count))))
                at = Window((column, self._along(turn, k, turn_depth), 0), (1, size, count))
                tl.store(panel.at(at), tile.to(element).reshape(1, size, count))

            def clear(column: Place) -> None:
                rows = turn_depth - self.depth
                at = Window(
                    (column, self._along(turn, self.depth, turn_depth), 0), (1, rows, width)
                )
                tl.store(panel.at(at), tl.zeros((1, rows, width), element))

            self._blocks(self.depth, columns, max(size, 2), width, block)
            if turn_depth > self.depth:
                self.nest.loop(panels * width, width, clear)

        self._each_turn(self._versioned(self._limits(self.b), each))
        return self._interleaved(words, panel, panels, width) if words else Panel(panel)

    def _interleaved(self, words: Words, panel: Buffer, panels: int, width: int) -> Panel:
        """Turn rows of integers, some after one another, into rows of words in the same memory."""
        joined = Buffer(as_words(panel), i32, (self.turns.most * self.steps, width, 1))
        excess = self.nest.scratch((1, panels * width), i32) if words.bias else None
        row = (1, 1, width)
        ones = tl.full(row, 0x01010101, i32)
        steps = _tile(self.turns.count) * self.steps

        def work(column: Place) -> None:
            def step(k: tl.Tile, *sums: tl.Tile) -> tuple[tl.Tile, ...]:
                places = [(k * words.count + part).value for part in range(words.count)]
                parts = [tl.load(panel.at(Window((column, at, 0), row))) for at in places]
                word = words.joined(parts)
                tl.store(joined.at(Window((column, k.value, 0), row)), word)
                return tuple(words.multiply_add(ones, word, total) for total in sums)

            start = (tl.zeros(row, i32),) if excess else ()
            for total in tl.for_(0, steps, 1, start, step):
                assert excess is not None
                place = excess.at(Window((0, column), (1, width)))
                tl.store(place, total.reshape(1, width) * words.bias)

        self.nest.loop(panels * width, width, work)
        return Panel(joined, excess)

    # -- both

    def _versioned(self, limits: Limits, work: Callable[[Place], None]) -> Callable[[Place], None]:
        """Return work that is written twice: for what meets its limits, and for what does not."""

        def run(turn: Place) -> None:
            met = limits.are_met(self.nest.e)
            if met is None:
                work(turn)
                return

            def plain() -> None:
                with self.nest.e.assuming(limits.assumptions):
                    work(turn)

            def masked() -> None:
                with self.nest.e.region():
                    work(turn)

            tl.if_(met, plain, masked)

        return run

    def _blocks(
        self,
        height: int,
        width: int,
        rows: int,
        columns: int,
        work: Callable[[Place, Place, int, int], None],
    ) -> None:
        """Call `work(row, column, rows, columns)` for all blocks of a space, also those cut off."""

        def line(row: Place, rows: int) -> None:
            whole = width // columns * columns
            self.nest.loop(whole, columns, lambda column: work(row, column, rows, columns))
            if whole < width:
                with self.nest.e.region():
                    work(row, whole, rows, width - whole)

        whole = height // rows * rows
        self.nest.loop(whole, rows, lambda row: line(row, rows))
        if whole < height:
            with self.nest.e.region():
                line(whole, height - whole)

    def _lines_at_once(self, matrix: Value) -> int:
        """Take as many rows as a transposition in registers wants where columns lie in memory."""
        facts, extent = self.nest.facts, min(matrix.type.shape)
        value: Value | None = matrix
        axis = 0
        while value is not None:
            op = facts.definition.get(value)
            if op is None:
                return 1
            if op.opcode == "load":
                across = facts.step(op.operands[0], axis) == 1
                return min(self.lanes, extent) if across else 1
            if op.opcode == "trans":
                axis = tuple(op.attrs["order"])[axis]
            tiles = [operand for operand in op.operands if operand.type.shape == value.type.shape]
            turned = op.opcode == "trans"
            value = op.operands[0] if turned else tiles[-1] if tiles else None
        return 1


def _tile(place: Place) -> tl.Tile | int:
    return place if isinstance(place, int) else tl.Tile(place)


def _heights(rows: int, most: int) -> list[tuple[int, int]]:
    """Cut rows into blocks of nearly equal height: (number of blocks, height)."""
    blocks = -(-rows // most)
    low, higher = divmod(rows, blocks)
    cut = [(higher, low + 1), (blocks - higher, low)]
    return [(count, height) for count, height in cut if count]
