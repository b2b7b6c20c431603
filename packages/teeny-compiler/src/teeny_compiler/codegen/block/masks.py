"""Masks that cut a loop short: comparisons that hold up to a bound along an axis.

Where work beyond the bound is masked off, or adds what changes nothing, the loop is split: blocks
that lie inside run without masks, one masked block covers the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import teeny_triton.language as tl
from teeny_core import DType
from teeny_triton.ir import Op, Value

from teeny_compiler.codegen.block.evaluate import Evaluator, Place
from teeny_compiler.codegen.block.facts import Axes, Facts

UNKNOWN = "unknown"
"""Stands for a number of which nothing is known but that it is the same in all lanes."""


@dataclass(frozen=True)
class Bound:
    """A comparison that holds for the first elements along an axis of the loops, then fails."""

    comparison: Value
    axes: Axes
    axis: int

    def varies_along(self, facts: Facts, axis: int) -> bool:
        """Whether the limit may differ from place to place along another axis of the loops."""
        op = facts.definition[self.comparison]
        places = [place for place, follows in enumerate(self.axes) if follows == axis]
        steps = [[facts.step(operand, place) for operand in op.operands] for place in places]
        return any(a is None or a != b for a, b in steps)

    def limit(self, e: Evaluator, outer: tuple[Place, ...]) -> tl.Tile:
        """Return how many elements along the axis it holds for (any number, not clipped)."""
        op = e.facts.definition[self.comparison]
        less, more = op.operands if op.opcode in ("lt", "le") else op.operands[::-1]
        places = [*outer]
        places[self.axis] = 0
        origin = tuple(0 if axis is None else places[axis] for axis in self.axes)
        difference = tl.Tile(e.element(more, origin)) - tl.Tile(e.element(less, origin))
        return difference + 1 if op.opcode in ("le", "ge") else difference


def bounds(facts: Facts, mask: Value, axes: Axes, axis: int) -> Iterator[Bound]:
    """Find the conjuncts of a mask that bound an axis of the loops."""
    op = facts.definition.get(mask)
    if op is None or not mask.type.shape:
        return
    if op.opcode == "and":
        for operand in op.operands:
            yield from bounds(facts, operand, axes, axis)
    elif op.opcode in ("expand_dims", "broadcast", "trans", "reshape") and facts.is_lazy(mask):
        for source, follows in facts.sources(mask, axes):
            yield from bounds(facts, source, follows, axis)
    elif op.opcode in ("lt", "le", "gt", "ge") and axes.count(axis) == 1:
        less, more = op.operands if op.opcode in ("lt", "le") else op.operands[::-1]
        place = axes.index(axis)
        steps = facts.step(less, place), facts.step(more, place)
        if steps[0] is not None and steps[1] is not None and steps[0] - steps[1] == 1:
            yield Bound(mask, axes, axis)


def holds_only_with(facts: Facts, mask: Value, comparison: Value) -> bool:
    """Whether a mask is false wherever a comparison is."""
    if mask is comparison:
        return True
    op = facts.definition.get(mask)
    if op is None:
        return False
    if op.opcode == "and":
        return any(holds_only_with(facts, operand, comparison) for operand in op.operands)
    if op.opcode in ("expand_dims", "broadcast", "trans", "reshape"):
        return holds_only_with(facts, op.operands[0], comparison)
    return False


def value_without(facts: Facts, value: Value, comparison: Value) -> float | str | None:
    """Return what a value is in lanes where a comparison fails; None where that varies.

    Numbers that are the same in all lanes are taken to be finite: what a reduction that starts
    from infinity or NaN gives is decided by the lanes where the comparison holds.
    """
    return _Beyond(facts, comparison).value(value)


Number: TypeAlias = float | str | None


class _Beyond:
    """What values are where a comparison fails; each is found once."""

    def __init__(self, facts: Facts, comparison: Value) -> None:
        self.facts, self.comparison = facts, comparison
        self.known: dict[Value, Number] = {}

    def value(self, value: Value) -> Number:
        if value not in self.known:
            self.known[value] = self._value(value)
        return self.known[value]

    def _value(self, value: Value) -> Number:
        op = self.facts.definition.get(value)
        if not value.type.shape:
            known = op is not None and op.opcode == "const"
            return float(op.attrs["value"]) if known and op is not None else UNKNOWN
        if op is None or not self.facts.is_lazy(value):
            return UNKNOWN if op is not None and op.opcode == "reduce" else None
        if op.opcode == "load":
            return self._loaded(op)
        if op.opcode == "where":
            fails = holds_only_with(self.facts, op.operands[0], self.comparison)
            return self.value(op.operands[2]) if fails else None
        if op.opcode in ("splat", "expand_dims", "broadcast", "cast"):
            return self.value(op.operands[0])
        if op.opcode not in _RULES:
            return None
        numbers = [self.value(operand) for operand in op.operands]
        return None if None in numbers else _RULES[op.opcode](*numbers)

    def _loaded(self, op: Op) -> Number:
        fails = len(op.operands) > 1 and holds_only_with(
            self.facts, op.operands[1], self.comparison
        )
        if not fails:
            return None
        return self.value(op.operands[2]) if len(op.operands) > 2 else 0.0


def _is_number(x: float | str) -> bool:
    return not isinstance(x, str)


def _add(x: float | str, y: float | str) -> float | str | None:
    if _is_number(x) and _is_number(y):
        return float(x) + float(y)
    known = x if _is_number(x) else y
    return known if _is_number(known) and math.isinf(float(known)) else UNKNOWN


def _sub(x: float | str, y: float | str) -> float | str | None:
    return _add(x, -float(y) if _is_number(y) else UNKNOWN)


def _mul(x: float | str, y: float | str) -> float | str | None:
    if _is_number(x) and _is_number(y):
        return float(x) * float(y)
    return 0.0 if 0.0 in (x, y) else UNKNOWN if UNKNOWN == x == y else None


def _exp(x: float | str) -> float | str | None:
    if not _is_number(x):
        return UNKNOWN
    return 0.0 if float(x) == -math.inf else math.exp(min(float(x), 700.0))


def _div(x: float | str, y: float | str) -> float | str | None:
    return 0.0 if x == 0.0 and y == UNKNOWN else UNKNOWN if UNKNOWN == x == y else None


def _larger(x: float | str, y: float | str) -> float | str | None:
    return max(float(x), float(y)) if _is_number(x) and _is_number(y) else None


_RULES: Mapping[str, Callable[..., float | str | None]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "exp": _exp,
    "exp2": _exp,
    "maximum": _larger,
    "maxnum": _larger,
}


def neutral(kind: str, dtype: DType) -> float | int:
    """Return the number that changes no result of a reduction."""
    if kind == "prod":
        return 1
    if kind in ("max", "argmax"):
        return -math.inf if dtype.is_float else dtype.min
    if kind in ("min", "argmin"):
        return math.inf if dtype.is_float else dtype.max
    return 0
