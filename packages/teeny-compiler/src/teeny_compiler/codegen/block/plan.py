"""Roots and passes: what the loops of a blocked function do, in which order.

Only stores, reductions and values that are kept in memory are scheduled; everything else is
computed where a root wants it. Roots that walk the same rows share a loop over rows. Within it a
*pass* is one loop along the rows, for all roots that need no result of one another; a row's
results, such as its maximum, are known when its pass is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from teeny_triton.ir import Op, Value, walk

from teeny_compiler.codegen.block.evaluate import Buffer
from teeny_compiler.codegen.block.facts import WRITES, Axes, Facts, is_fence

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Root:
    """Work over a space of elements: a store, a reduction, or a value put into a buffer.

    A value is local when only roots of its own group want it.
    """

    space: Shape
    op: Op | None = None
    value: Value | None = None
    buffer: Buffer | None = None
    is_local: bool = False

    @property
    def kind(self) -> str:
        """The opcode, or keep."""
        return "keep" if self.op is None else self.op.opcode

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that are computed for each element."""
        if self.op is None:
            assert self.value is not None
            return (self.value,)
        return self.op.operands

    @property
    def axis(self) -> int:
        """The axis that a reduction removes."""
        assert self.op is not None
        axis: int = self.op.attrs["axis"]
        return axis

    @property
    def result(self) -> Value | None:
        """What later roots may use."""
        return self.op.results[0] if self.op is not None and self.op.results else self.value

    @property
    def outer(self) -> Shape:
        """The extents of the rows: all axes but the last."""
        return self.space[:-1]

    @property
    def is_by_rows(self) -> bool:
        """Whether rows are worked on one by one, not folded together."""
        return self.kind != "reduce" or self.axis == len(self.space) - 1


@dataclass
class Group:
    """Roots over the same rows, by passes."""

    outer: Shape
    passes: list[list[Root]] = field(default_factory=list)

    def roots(self) -> Iterator[Root]:
        """Yield all roots in order."""
        for roots in self.passes:
            yield from roots


def groups(facts: Facts, roots: list[Root]) -> list[Group]:
    """Distribute roots, in program order, over groups and passes."""
    result: list[Group] = []
    for root in roots:
        last = result[-1] if result else None
        place = None if last is None else _place(facts, last, root)
        if last is None or place is None:
            last = Group(root.outer)
            result.append(last)
            place = 0
        while len(last.passes) <= place:
            last.passes.append([])
        last.passes[place].append(root)
    return result


def _place(facts: Facts, group: Group, root: Root) -> int | None:
    """Return the first pass of a group in which a root may run, None if it must stand apart."""
    single = root.space == group.outer and root.kind != "reduce"
    aligned = root.outer == group.outer or single
    folded = not root.is_by_rows or any(not other.is_by_rows for other in group.roots())
    if not aligned or folded:
        return None
    earliest = 0
    for number, others in enumerate(group.passes):
        for other in others:
            relation = _depends(facts, root, other, len(group.outer))
            if relation is None:
                return None
            earliest = max(earliest, number + relation)
    return earliest


def _depends(facts: Facts, root: Root, other: Root, rank: int) -> int | None:
    """Return how many passes after another a root runs: 0 or 1; None: in another group."""
    axes = tuple(range(len(root.space)))
    later = 0
    for value, follows in reached(facts, root.inputs, axes):
        if value is other.result:
            if follows[:rank] != tuple(range(rank))[: len(follows)]:
                return None
            whole = len(follows) <= rank or other.kind == "reduce"
            same = other.space == root.space and follows == axes
            later = max(later, 0 if same and not whole else 1)
        op = facts.definition.get(value)
        if op is not None and op.opcode == "load" and other.kind in WRITES:
            assert other.op is not None
            if facts.may_alias(op.operands[0], other.op.operands[0]):
                return None
    if root.kind in WRITES and other.kind in WRITES:
        assert root.op is not None
        assert other.op is not None
        if facts.may_alias(root.op.operands[0], other.op.operands[0]):
            return None
    if root.kind in WRITES and _overwrites(facts, root, other):
        return None
    return later


def _overwrites(facts: Facts, write: Root, other: Root) -> bool:
    """Whether a store may change what an earlier root reads, other than in the same place."""
    assert write.op is not None
    pointer = write.op.operands[0]
    for value, _ in reached(facts, other.inputs, tuple(range(len(other.space)))):
        op = facts.definition.get(value)
        if op is None or op.opcode != "load" or not facts.may_alias(op.operands[0], pointer):
            continue
        if other.space != write.space or not facts.same(op.operands[0], pointer):
            return True
    return False


def reached(
    facts: Facts, values: tuple[Value, ...], axes: Axes, stop: frozenset[Value] = frozenset()
) -> Iterator[tuple[Value, Axes]]:
    """Yield all values that computing some values involves, with the loops that they follow."""
    seen: set[tuple[Value, Axes]] = set()
    worklist = [(value, axes if value.type.shape else ()) for value in values]
    while worklist:
        value, follows = worklist.pop()
        if (value, follows) in seen:
            continue
        seen.add((value, follows))
        yield value, follows
        if value not in stop and facts.is_lazy(value):
            worklist.extend(facts.sources(value, follows))


def must_keep(facts: Facts, op: Op) -> bool:
    """Whether a load must be done in its place, because memory may change before its use."""
    pointer = op.operands[0]
    roots = set(roots_of(facts, op.result))
    ends = {root: facts.beside(root, op) for root in roots}
    last = max((_end(facts, end) for end in ends.values()), default=-1)
    for write, place in facts.order.items():
        between = write.opcode in WRITES and facts.order[op] < place <= last
        if not between:
            continue
        if not is_fence(write) and not facts.may_alias(pointer, write.operands[0]):
            continue
        in_place = facts.same(pointer, write.operands[0]) and ends.get(write) is write
        if not in_place or place < last:
            return True
    return False


def _end(facts: Facts, op: Op) -> int:
    """Return the place of the last op in the regions of an op, or of the op itself."""
    inner = [inner for region in op.regions for inner in walk(region)]
    return max(facts.order[x] for x in (op, *inner))


def roots_of(facts: Facts, value: Value) -> Iterator[Op]:
    """Yield the ops that use a value other than to compute lazy values."""
    seen: set[Op] = set()
    worklist = [value]
    while worklist:
        for op in facts.users.get(worklist.pop(), []):
            if op in seen:
                continue
            seen.add(op)
            lazy = [r for r in op.results if r.type.shape and facts.is_lazy(r)]
            if lazy:
                worklist.extend(op.results)
            else:
                yield op
