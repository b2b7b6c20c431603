"""What makes a whole tile plain: its masks hold everywhere, its indices do not wrap around."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import teeny_triton.language as tl
from teeny_triton.ir import Op, Value

from teeny_compiler.codegen.block.evaluate import Evaluator
from teeny_compiler.codegen.block.facts import Axes, Facts
from teeny_compiler.codegen.block.masks import Bound, bounds
from teeny_compiler.codegen.block.plan import reached

ROW_AND_COLUMN: Axes = (0, 1)


@dataclass(frozen=True)
class Limits:
    """The comparisons in the masks of a matrix, and the index tiles that are taken modulo a size.

    Where all elements of the matrix meet them, the masks are true, and the remainders are the
    indices themselves. `uniform` are scalar conditions, as tiles.
    """

    bounds: tuple[Bound, ...]
    wraps: tuple[Op, ...]
    shape: tuple[int, ...]
    uniform: tuple[Op, ...] = ()

    @property
    def assumptions(self) -> set[Value]:
        """What may be taken for granted where they are met."""
        ops = (*self.wraps, *self.uniform)
        return {*(bound.comparison for bound in self.bounds), *(op.result for op in ops)}

    def are_met(self, e: Evaluator) -> tl.Tile | None:
        """Return whether all elements meet them, None where there is nothing to meet."""
        origin = (0,) * len(self.shape)
        tests = [bound.limit(e, origin) >= self.shape[bound.axis] for bound in self.bounds]
        tests += [tl.Tile(e.scalar(op.operands[0])) for op in self.uniform]
        for wrap in self.wraps:
            index, size = wrap.operands
            corner = (0,) * len(index.type.shape)
            last = tuple(extent - 1 for extent in index.type.shape)
            most = tl.Tile(e.element(size, corner))
            tests += [
                tl.Tile(e.element(index, corner)) >= 0,
                tl.Tile(e.element(index, last)) < most,
            ]
        result: tl.Tile | None = None
        for test in tests:
            result = test if result is None else result & test
        return result


def limits_of(facts: Facts, matrix: Value, starts: Mapping[Value, Value]) -> Limits:
    """Find the limits that a matrix has; `starts`: what carried index tiles start from."""
    found: dict[Value, Bound] = {}
    wraps: list[Op] = []
    for value, follows in _reached(facts, matrix, ROW_AND_COLUMN, starts):
        op = facts.definition.get(value)
        if op is None:
            continue
        if op.opcode == "load" and len(op.operands) > 1:
            for bound in _same_everywhere(facts, op.operands[1], follows, 2, 2):
                found[bound.comparison] = bound
        elif op.opcode == "mod" and op not in wraps and _wraps(facts, op):
            wraps.append(op)
    return Limits(tuple(found.values()), tuple(wraps), matrix.type.shape)


def limits_of_rows(
    facts: Facts, masks: Iterable[tuple[Value, Axes]], outer: tuple[int, ...]
) -> Limits:
    """Find the limits of the rows of a space, whose other axes are `outer`, in its masks."""
    found: dict[Value, Bound] = {}
    uniform: dict[Op, None] = {}
    for mask, follows in masks:
        for bound in _same_everywhere(facts, mask, follows, len(outer), len(outer) + 1):
            found[bound.comparison] = bound
        uniform.update(dict.fromkeys(_uniform(facts, mask)))
    return Limits(tuple(found.values()), (), (*outer, 1), tuple(uniform))


def _same_everywhere(
    facts: Facts, mask: Value, follows: Axes, count: int, rank: int
) -> Iterator[Bound]:
    """Yield the bounds along the first `count` axes whose limit is one for all of `rank` axes."""
    for axis in range(count):
        for bound in bounds(facts, mask, follows, axis):
            others = (other for other in range(rank) if other != axis)
            if not any(bound.varies_along(facts, other) for other in others):
                yield bound


def _uniform(facts: Facts, mask: Value) -> Iterator[Op]:
    """Yield the conjuncts of a mask that are one scalar."""
    op = facts.definition.get(mask)
    if op is None:
        return
    if op.opcode == "splat":
        yield op
    elif op.opcode in ("and", "expand_dims", "broadcast", "trans", "reshape"):
        for operand in op.operands:
            yield from _uniform(facts, operand)


def _reached(
    facts: Facts, value: Value, follows: Axes, starts: Mapping[Value, Value]
) -> Iterator[tuple[Value, Axes]]:
    """Yield what computing a value involves, also before the loops around it."""
    for inner, axes in reached(facts, (value,), follows):
        yield inner, axes
        if inner in starts:
            yield from _reached(facts, starts[inner], axes, starts)


def _wraps(facts: Facts, op: Op) -> bool:
    """Whether an op takes indices that grow by one, along one axis, modulo a size."""
    index, size = op.operands
    axes = range(len(index.type.shape))
    steps = sorted(step for axis in axes if (step := facts.step(index, axis)) is not None)
    uniform = all(facts.step(size, axis) == 0 for axis in axes)
    return len(steps) == len(axes) and steps == [0] * (len(axes) - 1) + [1] and uniform


def is_true(facts: Facts, mask: Value, assumptions: set[Value]) -> bool:
    """Whether a mask holds everywhere, given some comparisons."""
    if mask in assumptions:
        return True
    op = facts.definition.get(mask)
    if op is None or op.opcode not in ("and", "expand_dims", "broadcast", "trans", "reshape"):
        return False
    return all(is_true(facts, operand, assumptions) for operand in op.operands)
