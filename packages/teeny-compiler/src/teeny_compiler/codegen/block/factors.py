"""What a product multiplies: its factors, their types, and the turns that are summed up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import teeny_triton.language as tl
from teeny_core import DType, f32
from teeny_triton import Target
from teeny_triton.ir import Op, Value

from teeny_compiler.codegen.block.evaluate import Place, plus
from teeny_compiler.codegen.block.limits import Limits, limits_of
from teeny_compiler.codegen.block.nests import Nest
from teeny_compiler.codegen.block.words import Words, words_of

PACKED_ROWS = 8  # with no more rows of A than this, packing B costs more than it saves
EXACT = 1 << 24  # integers up to here are f32


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
class Factors:
    """The factors A [M, K] and B [K, N] of a `dot` op, in each of some turns."""

    nest: Nest
    op: Op
    target: Target
    turns: Turns

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
        if not self.is_worth_packing():
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

    def along(self, turn: Place, k: Place, length: int = 0) -> Place:
        """Return the place of step `k` in what holds all turns, each of some length."""
        length = length or self.steps
        if isinstance(turn, int):
            return plus(turn * length, k)
        return plus((tl.Tile(turn) * length).value, k)

    def each_turn(self, work: Callable[[Place], None]) -> None:
        """Do something for each turn."""

        def run(turn: Place) -> None:
            self.turns.enter(turn)
            work(turn)

        count = self.turns.count
        self.nest.loop(count if isinstance(count, int) else tl.Tile(count), 1, run)

    def limits(self, matrix: Value) -> Limits:
        """Return what makes one of the factors plain."""
        outer = {value: start for value, (start, _) in self.nest.e.stepped.items()}
        return limits_of(self.nest.facts, matrix, {**outer, **self.turns.starts})

    def is_worth_packing(self) -> bool:
        """Whether so many rows use B that a copy of it pays."""
        return self.a.type.shape[0] > PACKED_ROWS


def tile(place: Place) -> tl.Tile | int:
    """Return a place to count with."""
    return place if isinstance(place, int) else tl.Tile(place)
