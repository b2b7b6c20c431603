"""Which integers of a function are never negative, so that blocks need no check at their start.

A block pointer masks what lies before its tensor: `0 <= offset + i`. Mostly the offset comes from
program ids, counters and sizes, and the check always holds. It is dropped then, since a mask with
one bound is a loop cut short, and one with two is a comparison of each element. Offsets of block
pointers must not overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from teeny_core import DType

from teeny_triton.ir import Block, Op, Value, walk

Assumption: TypeAlias = tuple[Value, Block]
"""A condition that holds, and the block in which it is said to."""


def needless_checks(
    body: Block, checks: Iterable[Value], assumptions: Sequence[Assumption]
) -> dict[Value, Value]:
    """Find `and`s of a check `x >= 0` that always holds; return the other operand of each."""
    wanted = frozenset(checks)
    if not wanted:
        return {}
    signs = _Signs(body, _assumed(body, assumptions))
    tests = (op for op in walk(body) if op.opcode == "ge")
    holds = {op.result for op in tests if op.result in wanted and op.operands[0] in signs.natural}
    pairs = (op for op in walk(body) if op.opcode == "and" and op.operands[0] in holds)
    return {op.result: op.operands[1] for op in pairs}


def _assumed(body: Block, assumptions: Sequence[Assumption]) -> set[Value]:
    """Return what is assumed to be at least 0 in the block that defines it."""
    definition = {result: op for op in walk(body) for result in op.results}
    inner = {
        argument for op in walk(body) for region in op.regions for argument in region.arguments
    }
    constants = {r: op.attrs["value"] for r, op in definition.items() if op.opcode == "const"}
    assumed: set[Value] = set()
    for condition, block in assumptions:
        op = definition.get(condition)
        if op is None or op.opcode not in _LEAST:
            continue
        small, large = op.operands if op.opcode in ("lt", "le") else op.operands[::-1]
        made = definition.get(large)
        local = block is body and large not in inner if made is None else made in block.ops
        if local or large in block.arguments:
            least = constants.get(small, -1) + _LEAST[op.opcode]
            assumed.update({large} if least >= 0 else ())
    return assumed


_LEAST: Mapping[str, int] = {"lt": 1, "gt": 1, "le": 0, "ge": 0}
"""What the greater side of a comparison exceeds the smaller one by, at least."""


class _Signs:
    """`natural`: the values that are at least 0 wherever they are defined.

    Carried values are first taken to be, and given up where a round may make them negative, until
    nothing changes.
    """

    def __init__(self, body: Block, assumed: set[Value]) -> None:
        self.assumed = assumed
        self.refuted: set[Value] = set()
        found = -1
        while len(self.refuted) > found:
            found = len(self.refuted)
            self.natural = set(assumed)
            self._block(body)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if op.opcode in ("for", "while"):
                self._loop(op)
            elif op.opcode == "if":
                for region in op.regions:
                    self._block(region)
                yields = [region.ops[-1].operands for region in op.regions]
                for result, yes, no in zip(op.results, *yields, strict=True):
                    self._note(result, yes in self.natural and no in self.natural)
            elif len(op.results) == 1:
                self._note(op.result, self._rule(op))

    def _loop(self, op: Op) -> None:
        """Read a loop: its counter starts at `lower` and grows."""
        is_for = op.opcode == "for"
        inits = op.operands[3:] if is_for else op.operands
        body = op.regions[-1]
        if is_for:
            self._note(body.arguments[0], op.operands[0] in self.natural)
        carried = [region.arguments[is_for:] for region in op.regions]
        for init, result, *arguments in zip(inits, op.results, *carried, strict=True):
            if init not in self.natural:
                self.refuted.add(result)
            for value in (result, *arguments):
                self._note(value, result not in self.refuted)
        for region in op.regions:
            self._block(region)
        for result, final in zip(op.results, body.ops[-1].operands, strict=True):
            if final not in self.natural:
                self.refuted.add(result)

    def _note(self, value: Value, is_natural: bool) -> None:
        if is_natural:
            self.natural.add(value)

    def _rule(self, op: Op) -> bool:
        known = [operand in self.natural for operand in op.operands]
        if op.opcode in _SAME:
            return known[0]
        if op.opcode == "const":
            return bool(op.attrs["value"] >= 0)
        if op.opcode == "arange":
            return bool(op.attrs["start"] >= 0)
        if op.opcode == "cast":
            return self._cast(op, known[0])
        rule = _RULES.get(op.opcode)
        return rule is not None and rule(known)

    @staticmethod
    def _cast(op: Op, known: bool) -> bool:
        source, target = op.operands[0].type.element, op.result.type.element
        if not isinstance(source, DType) or not isinstance(target, DType):
            return False
        wider = target.bits > source.bits or target == source
        return target.is_int and wider and (known or source.kind == "uint" or source.is_bool)


_SAME = frozenset({"splat", "expand_dims", "broadcast", "reshape", "trans", "shr"})
"""Opcodes whose result is at least 0 where their first operand is."""

_RULES: Mapping[str, Callable[[Sequence[bool]], bool]] = {
    "program_id": lambda known: True,
    "num_programs": lambda known: True,
    **dict.fromkeys(("add", "mul", "floordiv", "minimum"), all),
    **dict.fromkeys(("maximum", "and"), any),
    "mod": lambda known: known[1],  # the remainder has the sign of the divisor
    "where": lambda known: known[1] and known[2],
}
