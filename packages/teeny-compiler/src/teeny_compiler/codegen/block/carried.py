"""The values that a loop carries: scalars, steps of index tiles, and tiles in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import teeny_triton.language as tl
from teeny_triton.ir import Block, Value

from teeny_compiler.codegen.block.evaluate import Buffer
from teeny_compiler.codegen.block.facts import Facts
from teeny_compiler.codegen.block.plan import reached

if TYPE_CHECKING:
    from teeny_compiler.codegen.block.program import Program


class Carried:
    """The carried values of a loop: scalars, steps of index tiles, and tiles in memory."""

    def __init__(
        self,
        program: Program,
        inits: Sequence[Value],
        arguments: Sequence[Value],
        body: Block,
        results: Sequence[Value],
        test: Block | None = None,
    ) -> None:
        self.program, self.arguments, self.results, self.body = program, arguments, results, body
        self.inits = inits
        yields = body.ops[-1].operands
        self.scalars: list[int] = []
        self.steps: dict[int, Value] = {}
        self.buffers: dict[int, Buffer] = {}
        starts: list[tl.Tile] = []
        for number, init in enumerate(inits):
            if not init.type.shape:
                self.scalars.append(number)
                starts.append(tl.Tile(program.e.scalar(init)))
                continue
            step = program.facts.grows_by(arguments[number], yields[number])
            if step is not None and test is None:
                self.steps[number] = step
                starts.append(tl.full((), 0, step.type.element))
                continue
            self.buffers[number] = program.reserve(init.type)
            with program.apart():
                program.copy(init, self.buffers[number])
        self.starts = tuple(starts)

    def enter(self, values: Sequence[tl.Tile], arguments: Sequence[Value]) -> None:
        """Say what the arguments of a region are."""
        e = self.program.e
        given = iter(values)
        for number, argument in enumerate(arguments):
            if number in self.buffers:
                e.buffers[argument] = self.buffers[number]
            elif number in self.steps:
                e.stepped[argument] = (self.inits[number], next(given).value)
            else:
                e.scalars[argument] = next(given).value

    def round(self, values: Sequence[tl.Tile]) -> tuple[tl.Tile, ...]:
        """Write the body; return the scalars and steps of the next round."""
        e = self.program.e
        with e.region():
            self.enter(values, self.arguments)
            yields = self.program.run(self.body)
            for number in self._order(yields):
                self.program.copy(yields[number], self.buffers[number])
            following = []
            given = iter(values)
            for number in range(len(self.arguments)):
                if number in self.buffers:
                    continue
                value = next(given)
                if number in self.steps:
                    added = self.program.e.scalar(self.steps[number])
                    following.append(value + tl.Tile(added))
                else:
                    following.append(tl.Tile(e.scalar(yields[number])))
            return tuple(following)

    def _order(self, yields: Sequence[Value]) -> list[int]:
        """Order the copies into carried memory: a tile is overwritten after all that read it."""
        facts = self.program.facts
        reads = {
            number: {
                other
                for other in self.buffers
                if other != number and _reads(facts, yields[number], self.arguments[other])
            }
            for number in self.buffers
        }
        order: list[int] = []
        left = set(self.buffers)
        while left:
            free = [n for n in left if not any(n in reads[other] for other in left - {n})]
            if not free:
                first = min(left)
                self.program.in_memory(yields[first])  # breaks the cycle
                reads[first] = set()
                continue
            order.extend(sorted(free))
            left -= set(free)
        return order

    def finish(self, results: Sequence[tl.Tile]) -> None:
        """Say what the results of the loop are."""
        self.enter(results, self.results)


def _reads(facts: Facts, value: Value, argument: Value) -> bool:
    axes = tuple(range(len(value.type.shape)))
    return any(found is argument for found, _ in reached(facts, (value,), axes))
