"""What blocking needs to know of a function: definitions, users, costs, index forms, aliases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from teeny_core import DType, i32, i64
from teeny_triton.ir import BINARY, COMPARISONS, UNARY, Block, Function, Op, Value, walk
from teeny_triton.passes import WRITES as WRITES

COST: Mapping[str, int] = {
    **dict.fromkeys(("div", "sqrt", "rsqrt"), 4),
    **dict.fromkeys(("exp", "exp2", "log", "log2", "sigmoid"), 10),
    **dict.fromkeys(("expm1", "log1p", "sin", "cos", "tan", "tanh", "erf", "mod", "floordiv"), 16),
    "pow": 40,
}
"""Instructions of an opcode, about; any other elementwise opcode is 1."""

COSTLY = 8
"""From here on a value that two loops need is kept in memory instead of computed twice."""

ELEMENTWISE = frozenset(
    {*UNARY, *BINARY, *COMPARISONS, "fma", "where", "cast", "bitcast", "dot_words"}
)
MOVES = frozenset({"splat", "expand_dims", "broadcast", "trans", "join", "split", "flip"})
LAZY = ELEMENTWISE | MOVES | {"arange", "load", "addptr", "const"}
"""Opcodes whose results can be computed for any part of the tile, where that part is wanted."""

_MASKS = {"load": 1, "store": 2, "atomic_rmw": 2}

Axes: TypeAlias = tuple[int | None, ...]
"""For each axis of a value the axis of the loops that it follows, None where it stays at 0 (or
runs in another order)."""


@dataclass(frozen=True)
class Facts:
    """Facts of one function, found on demand."""

    function: Function

    @cached_property
    def definition(self) -> dict[Value, Op]:
        """The op that makes each value; block arguments and parameters have none."""
        return {r: op for op in walk(self.function.body) for r in op.results}

    @cached_property
    def users(self) -> dict[Value, list[Op]]:
        """The ops that use each value."""
        users: dict[Value, list[Op]] = {}
        for op in walk(self.function.body):
            for operand in dict.fromkeys(op.operands):
                users.setdefault(operand, []).append(op)
        return users

    @cached_property
    def order(self) -> dict[Op, int]:
        """The number of each op in program order."""
        return {op: number for number, op in enumerate(walk(self.function.body))}

    @cached_property
    def parent(self) -> dict[Op, Op]:
        """The op in whose region each op of a region lies."""
        return {
            inner: op
            for op in walk(self.function.body)
            for region in op.regions
            for inner in region.ops
        }

    def beside(self, op: Op, other: Op) -> Op:
        """Return `op`, or the op around it that lies in the same block as `other`."""
        while self.parent.get(op) is not self.parent.get(other) and op in self.parent:
            op = self.parent[op]
        return op

    def is_lazy(self, value: Value) -> bool:
        """Whether parts of a tile can be computed on their own."""
        op = self.definition.get(value)
        if op is None or not value.type.shape:
            return False
        return op.opcode in LAZY or (op.opcode == "reshape" and unit_axes(op) is not None)

    def sources(self, value: Value, axes: Axes) -> Iterator[tuple[Value, Axes]]:
        """Yield the operands of a lazy value, with the loops that their axes follow."""
        op = self.definition[value]
        if op.opcode == "expand_dims":
            axis = op.attrs["axis"]
            yield op.operands[0], (*axes[:axis], *axes[axis + 1 :])
        elif op.opcode == "broadcast":
            before = op.operands[0].type.shape
            stays = [a == 1 and b > 1 for a, b in zip(before, value.type.shape, strict=True)]
            yield (
                op.operands[0],
                tuple(None if s else a for s, a in zip(stays, axes, strict=True)),
            )
        elif op.opcode == "trans":
            moved: list[int | None] = [None] * len(axes)
            for place, axis in enumerate(op.attrs["order"]):
                moved[axis] = axes[place]
            yield op.operands[0], tuple(moved)
        elif op.opcode == "flip":
            axis = op.attrs["axis"]
            yield op.operands[0], (*axes[:axis], None, *axes[axis + 1 :])
        elif op.opcode == "reshape":
            yield op.operands[0], _through(op, axes)
        elif op.opcode == "join":
            for operand in op.operands:
                yield operand, axes[:-1]
        elif op.opcode == "split":
            yield op.operands[0], (*axes, None)
        else:
            for operand in op.operands:
                yield operand, axes if operand.type.shape else ()

    def cost(self, value: Value) -> int:
        """Return the work of computing an element of a lazy value."""
        known = self._costs.get(value)
        if known is None:
            known = 0
            if self.is_lazy(value):
                op = self.definition[value]
                own = COST.get(op.opcode, 1) if op.opcode in ELEMENTWISE else 0
                known = own + sum(self.cost(x) for x in op.operands if x.type.shape)
            self._costs[value] = known
        return known

    @cached_property
    def _costs(self) -> dict[Value, int]:
        return {}

    # -- index forms

    def step(self, value: Value, axis: int) -> int | None:
        """Return the difference of neighbours along an axis of an index or address tile.

        None where it is not one compile-time number.
        """
        key = (value, axis)
        if key not in self._steps:
            self._steps[key] = self._step(value, axis)
        return self._steps[key]

    @cached_property
    def _steps(self) -> dict[tuple[Value, int], int | None]:
        return {}

    def _step(self, value: Value, axis: int) -> int | None:
        op = self.definition.get(value)
        if value in self._starts:
            return self.step(self._starts[value], axis)
        if op is None or not self.is_lazy(value):
            return None
        if op.opcode == "arange":
            return 1
        if op.opcode in ("add", "sub", "addptr"):
            steps = [self.step(operand, axis) for operand in op.operands]
            if steps[0] is None or steps[1] is None:
                return None
            return steps[0] - steps[1] if op.opcode == "sub" else steps[0] + steps[1]
        if op.opcode == "mul":
            return self._scaled(op, axis)
        if op.opcode == "splat":
            return 0
        if op.opcode in ELEMENTWISE and not (op.opcode == "cast" and self._is_index(op)):
            same = all(self.step(operand, axis) == 0 for operand in op.operands)
            return 0 if same else None
        if op.opcode in ("expand_dims", "broadcast", "trans", "cast", "reshape"):
            axes = tuple(range(len(value.type.shape)))
            ((source, follows),) = self.sources(value, axes)
            return self.step(source, follows.index(axis)) if axis in follows else 0
        return None

    @cached_property
    def _starts(self) -> dict[Value, Value]:
        """What index tiles start from that a loop carries and adds one number to."""
        loops = [op for op in walk(self.function.body) if op.opcode == "for"]
        return {
            argument: start
            for loop in loops
            for argument, start, following in zip(
                loop.regions[0].arguments[1:],
                loop.operands[3:],
                loop.regions[0].ops[-1].operands,
                strict=True,
            )
            if argument.type.shape and self.grows_by(argument, following) is not None
        }

    def grows_by(self, argument: Value, following: Value) -> Value | None:
        """Return the scalar that a round adds to a carried index or address, or to a tile of them.

        None where it does something else.
        """
        op = self.definition.get(following)
        if op is None or op.opcode not in ("add", "addptr") or op.operands[0] is not argument:
            return None
        step = op.operands[1]
        if argument.type.shape:
            offset = self.definition.get(step)
            if offset is None or offset.opcode != "splat":
                return None
            step = offset.operands[0]
        element = argument.type.element
        is_index = not isinstance(element, DType) or element in (i32, i64)
        return step if is_index and step.type.element in (i32, i64) else None

    def _is_index(self, op: Op) -> bool:
        kinds = (op.operands[0].type.element, op.result.type.element)
        return all(isinstance(k, DType) and k.kind == "int" and k.bits >= 32 for k in kinds)

    def _scaled(self, op: Op, axis: int) -> int | None:
        steps = [self.step(operand, axis) for operand in op.operands]
        if steps == [0, 0]:
            return 0
        for step, factor in ((steps[0], op.operands[1]), (steps[1], op.operands[0])):
            number = self.constant(factor)
            if step is not None and number is not None:
                return step * number
        return None

    def constant(self, value: Value) -> int | None:
        """Return the integer that every element of a value is, when it is known."""
        op = self.definition.get(value)
        while op is not None and op.opcode in ("splat", "broadcast", "expand_dims", "cast"):
            op = self.definition.get(op.operands[0])
        if op is None or op.opcode != "const" or isinstance(op.attrs["value"], float):
            return None
        return int(op.attrs["value"])

    def constant_float(self, value: Value) -> float | None:
        """Return the number that every element of a value is, when it is known."""
        op = self.definition.get(value)
        while op is not None and op.opcode in ("splat", "broadcast", "expand_dims", "cast"):
            op = self.definition.get(op.operands[0])
        return float(op.attrs["value"]) if op is not None and op.opcode == "const" else None

    # -- memory

    def root(self, pointer: Value) -> object:
        """Return the parameter or scratch op that a pointer derives from, None if unknown."""
        op = self.definition.get(pointer)
        if op is None:
            return next((p for p in self.function.parameters if p.value is pointer), None)
        if op.opcode == "scratch":
            return op
        if op.opcode in MOVES or op.opcode in ("addptr", "reshape") or _is_pun(op):
            return self.root(op.operands[0])
        return None

    def may_alias(self, a: Value, b: Value) -> bool:
        """Whether two pointers may reach the same memory."""
        first, second = self.root(a), self.root(b)
        if first is None or second is None or first is second:
            return True
        return not (self._is_private(first) or self._is_private(second))

    def _is_private(self, root: object) -> bool:
        return isinstance(root, Op) or bool(getattr(root, "noalias", False))

    def same(self, a: Value, b: Value) -> bool:
        """Whether two values are computed in the same way from the same operands."""
        known = self._same.get((a, b))
        if known is None:
            known = self._same[a, b] = self._is_same(a, b)
        return known

    @cached_property
    def _same(self) -> dict[tuple[Value, Value], bool]:
        return {}

    def _is_same(self, a: Value, b: Value) -> bool:
        if a is b:
            return True
        first, second = self.definition.get(a), self.definition.get(b)
        if first is None or second is None or first.opcode != second.opcode:
            return False
        if first.opcode == "load" or first.regions or first.attrs != second.attrs:
            return False
        if first.opcode not in LAZY and first.opcode != "program_id":
            return False
        alike = zip(first.operands, second.operands, strict=True)
        return a.type == b.type and all(self.same(x, y) for x, y in alike)


def _is_pun(op: Op) -> bool:
    """Whether an op makes a pointer point at another type."""
    return op.opcode == "bitcast" and op.operands[0].type.is_pointer and op.result.type.is_pointer


def unit_axes(op: Op) -> list[int | None] | None:
    """For a reshape that only adds or drops axes of extent 1, the source axis of each axis."""
    before, after = op.operands[0].type.shape, op.result.type.shape
    kept = [axis for axis, extent in enumerate(before) if extent > 1]
    if [before[axis] for axis in kept] != [extent for extent in after if extent > 1]:
        return None
    remaining = iter(kept)
    return [next(remaining) if extent > 1 else None for extent in after]


def _through(op: Op, axes: Axes) -> Axes:
    moved: list[int | None] = [None] * len(op.operands[0].type.shape)
    for axis, source in zip(axes, unit_axes(op) or [], strict=True):
        if source is not None:
            moved[source] = axis
    return tuple(moved)


def mask_of(op: Op) -> Value | None:
    """Return the condition under which an op accesses memory, if it has one."""
    place = _MASKS.get(op.opcode, len(op.operands))
    return op.operands[place] if place < len(op.operands) else None


def is_fence(op: Op) -> bool:
    """Whether other accesses keep their order with an op, to whatever memory."""
    return op.opcode in WRITES and op.attrs.get("sem", "relaxed") != "relaxed"


def has_tiles(block: Block) -> bool:
    """Whether a block computes any tile."""
    return any(value.type.shape for op in walk(block) for value in op.results)
