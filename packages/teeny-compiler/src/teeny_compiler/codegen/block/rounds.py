"""Loops of which each round adds one product to a tile: the body of a matrix product.

A number of rounds is worked on at once. Their rows of B are packed one after another, and a block
of results stays in registers over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import teeny_triton.language as tl
from teeny_core import DType, i32
from teeny_triton import Target
from teeny_triton.ir import Block, Op, Value
from teeny_triton.passes import EFFECTS

from teeny_compiler.codegen.block.evaluate import Place
from teeny_compiler.codegen.block.facts import Facts

if TYPE_CHECKING:
    from teeny_compiler.codegen.block.program import Program

_NOT_REPEATED = EFFECTS | {"scratch", "for", "while", "if", "reduce", "reduce_by", "scan"}
"""Opcodes that may not be done twice, or have regions."""


@dataclass(frozen=True)
class Rounds:
    """Such a loop: its product, and how each carried value but the sum grows from round to round.

    `steps` are old scalars that do not change in the loop, or their negatives.
    """

    loop: Op
    product: Op
    sum: int
    steps: dict[int, Value]
    invariant: tuple[Op, ...]
    varying: tuple[Op, ...]

    @property
    def body(self) -> Block:
        """The body of the loop."""
        return self.loop.regions[0]

    @property
    def start(self) -> Value:
        """What the sum starts from."""
        return self.loop.operands[3 + self.sum]

    def at_once(self, target: Target) -> int:
        """Choose how many rounds to work on at once.

        Of B, packed, a panel should stay in the L1 cache, and all of it in the L2 cache.
        """
        depth, columns = self.product.operands[1].type.shape
        element = self.product.result.type.element
        assert isinstance(element, DType)
        panel = min(columns, 2 * target.lanes(element)) * element.itemsize
        held = min(
            target.l1_bytes // 4 // panel, target.l2_bytes // 4 // (columns * element.itemsize)
        )
        return max(1, held // depth)


def rounds_of(facts: Facts, loop: Op) -> Rounds | None:
    """Read a loop, None if it does more than add up products."""
    (body,) = loop.regions
    arguments, yields = body.arguments[1:], body.ops[-1].operands
    products = [op for op in body.ops if op.opcode == "dot"]
    if len(products) != 1 or any(op.opcode in _NOT_REPEATED for op in body.ops):
        return None
    if (facts.constant(loop.operands[2]) or 0) <= 0:
        return None
    (product,) = products
    factors, start = product.operands[:2], product.operands[2]
    if start not in arguments or yields[arguments.index(start)] is not product.result:
        return None
    alone = facts.users[start] == [product] and facts.users[product.result] == [body.ops[-1]]
    if not alone or not all(facts.is_lazy(factor) for factor in factors):
        return None
    varying = _varying(body)
    steps: dict[int, Value] = {}
    for number, (argument, following) in enumerate(zip(arguments, yields, strict=True)):
        if argument is start:
            continue
        step = facts.grows_by(argument, following)
        if step is None or step in varying:
            return None
        steps[number] = step
    scalars: list[Op] = []
    changing: list[Op] = []
    for op in body.ops:
        if op is product or op.opcode == "yield":
            continue
        tiled = any(x.type.shape for x in (*op.operands, *op.results))
        if tiled and not all(facts.is_lazy(result) for result in op.results):
            return None
        if not tiled:
            (changing if varying.intersection(op.results) else scalars).append(op)
    return Rounds(loop, product, arguments.index(start), steps, tuple(scalars), tuple(changing))


def _varying(body: Block) -> set[Value]:
    """Return the values that may differ from round to round."""
    varying = set(body.arguments)
    for op in body.ops:
        if not varying.isdisjoint(op.operands):
            varying.update(op.results)
    return varying


@dataclass
class Turns:
    """Some rounds of a loop, while code for them is written: `count` of them from `first` on."""

    program: Program
    rounds: Rounds
    most: int
    first: tl.Tile = field(init=False)
    count: Place = field(init=False)

    @property
    def starts(self) -> Mapping[Value, Value]:
        """What the values that the loop carries start from."""
        arguments, starts = self.rounds.body.arguments[1:], self.rounds.loop.operands[3:]
        return {arguments[place]: starts[place] for place in self.rounds.steps}

    def number(self) -> tl.Tile:
        """Return how many rounds the loop has, as i32."""
        e = self.program.e
        lower, upper, step = (tl.Tile(e.scalar(x)) for x in self.rounds.loop.operands[:3])
        return tl.maximum(tl.cdiv(upper - lower, step), 0).to(i32)

    def begin(self, first: tl.Tile, rounds: tl.Tile) -> None:
        """Take the rounds from `first` on, of `rounds` in all."""
        self.first = first
        self.count = tl.minimum(rounds - first, self.most).value if self.most > 1 else 1

    def enter(self, turn: Place) -> None:
        """Say what the values of the loop are in one of the rounds."""
        e, loop = self.program.e, self.rounds.loop
        number = self.first + (tl.Tile(turn) if isinstance(turn, Value) else turn)
        lower, _, step = (tl.Tile(e.scalar(x)) for x in loop.operands[:3])
        index, *arguments = self.rounds.body.arguments
        e.scalars[index] = (lower + number.to(index.type.element) * step).value
        self.carry(arguments, number)
        for op in self.rounds.varying:
            self.program.scalar(op)

    def carry(self, values: Sequence[Value], number: tl.Tile) -> None:
        """Say what carried values are, given by arguments or results, after some rounds."""
        e, loop = self.program.e, self.rounds.loop
        for place, old in self.rounds.steps.items():
            step = tl.Tile(e.scalar(old))
            added = number.to(old.type.element) * step
            init, value = loop.operands[3 + place], values[place]
            if init.type.shape:
                e.stepped[value] = (init, added.value)
            else:
                e.scalars[value] = (tl.Tile(e.scalar(init)) + added).value
