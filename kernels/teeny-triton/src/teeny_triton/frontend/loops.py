"""Loops that run in the kernel: which names they carry, and of what types.

A name that the body assigns and that has a value before the loop is carried from iteration to
iteration. Its type must stay. A Python number before the loop takes the type that the body gives
it, so that `total = 0.0` may become a tile: the body is then read again with that type.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from teeny_triton.builder import current
from teeny_triton.errors import KernelError
from teeny_triton.frontend.expressions import Expressions, bind
from teeny_triton.frontend.scope import (
    Leaf,
    Names,
    Unavailable,
    assigned_names,
    is_leaf,
    leaves,
    rebuild,
    same,
)
from teeny_triton.ir import Block, Type, Value, walk
from teeny_triton.language import control, semantic
from teeny_triton.language.aggregate import Aggregate
from teeny_triton.language.promotion import scalar_dtype
from teeny_triton.language.tile import Tile

MAX_READINGS = 16
"""Most readings of a body until the types of carried numbers are settled."""

INSIDE_ONLY = Unavailable("is assigned inside the loop only")
LOOP_VARIABLE = Unavailable("is the variable of a loop that has ended")


def runtime_for(self: Expressions, node: ast.For, limits: control.range) -> None:
    """Emit a counted loop."""
    with self.at(node.iter):
        bounds = control.bounds(limits.start, limits.stop, limits.step)
        step = current().constant_of(bounds[2])
        if step == 0:
            raise KernelError("a loop that steps by 0 never ends")
        backwards = step is not None and step < 0
        if backwards:  # the counter runs over the same number of places, upwards
            bounds = control.bounds(limits.stop, limits.start, -int(step or 0))

    def enter(block: Block) -> None:
        block.arguments[0].name = ""
        counter = Tile(block.arguments[0])
        place = Tile(bounds[1]) - (counter - Tile(bounds[0])) if backwards else counter
        bind(self, node.target, place)

    carried, block = _settle(self, node, (bounds[0].type,), enter)
    operands = (*bounds, *carried.operands())
    results = current().emit("for", operands, {}, carried.types, (block,))
    _leave(self, node, carried, results)
    for name in assigned_names([ast.copy_location(ast.Assign([node.target], node.iter), node)]):
        self.scope.names[name] = LOOP_VARIABLE


def runtime_while(self: Expressions, node: ast.While) -> None:
    """Emit a loop that runs as long as its condition holds."""
    carried, block = _settle(self, node, (), lambda block: None)
    test, outer = Block(carried.arguments()), self.scope.names
    self.scope.names = {**outer, **carried.names_of(test.arguments)}
    with current().inside(test):
        condition = self.evaluate(node.test)
        control.yield_(semantic.truth(semantic.value(_raw(condition))))
    self.scope.names = outer
    results = current().emit("while", carried.operands(), {}, carried.types, (test, block))
    _leave(self, node, carried, results)


@dataclass(frozen=True)
class Carried:
    """The carried values: by name the value before the loop, and for each leaf its type.

    `fixed` are names that the body assigns but whose value before is no run-time value; those in
    `stale` change in the loop, so that their value before it must not be read.
    """

    before: Names
    types: tuple[Type, ...]
    fixed: Names = field(default_factory=dict)
    stale: Names = field(default_factory=dict)

    @classmethod
    def of(cls, names: Names, assigned: Sequence[str]) -> Carried:
        """Classify the assigned names that have a value before the loop."""
        known = {n: names[n] for n in assigned if n in names}
        known = {n: v for n, v in known.items() if not isinstance(v, Unavailable)}
        before = {n: v for n, v in known.items() if leaves(v)}
        fixed = {n: v for n, v in known.items() if not leaves(v)}
        types = tuple(_type(leaf) for leaf in leaves(tuple(before.values())))
        return cls(before, types, fixed)

    @property
    def initial(self) -> list[Leaf]:
        """The leaves before the loop."""
        return leaves(tuple(self.before.values()))

    def arguments(self) -> tuple[Value, ...]:
        """Return new block arguments for the leaves."""
        pairs = zip(self.types, self._owners(), strict=True)
        return tuple(Value(kind, name) for kind, name in pairs)

    def operands(self) -> tuple[Value, ...]:
        """Return the leaves before the loop, numbers turned into constants."""
        return tuple(x.value for x in control.like(self.initial, self.types, "loop"))

    def names_of(self, values: Sequence[Value]) -> Names:
        """Return the carried names with `values` for their leaves, and the stale ones."""
        replacements = iter([Tile(value) for value in values])
        names = {name: rebuild(value, replacements) for name, value in self.before.items()}
        return {**names, **self.stale}

    def without(self, name: str, reason: str) -> Carried:
        """Stop carrying a name: reading its value from before is then an error."""
        before = {n: v for n, v in self.before.items() if n != name}
        pairs = zip(self.types, self._owners(), strict=True)
        kept = [kind for kind, owner in pairs if owner != name]
        fixed = {n: v for n, v in self.fixed.items() if n != name}
        return Carried(before, tuple(kept), fixed, {**self.stale, name: Unavailable(reason)})

    def _owners(self) -> list[str]:
        """The name that each leaf belongs to."""
        return [name for name, value in self.before.items() for _ in leaves(value)]


def _settle(
    self: Expressions,
    node: ast.For | ast.While,
    leading: tuple[Type, ...],
    enter: Callable[[Block], None],
) -> tuple[Carried, Block]:
    """Read the body until the types of all carried values are stable."""
    if node.orelse:
        raise self.error(node, "a run-time loop has no `else`")
    outer, places = self.scope.names, dict(self.scope.places)
    carried = Carried.of(outer, assigned_names(node.body))
    for _ in range(MAX_READINGS):
        arguments = carried.arguments()
        block = Block((*(Value(kind) for kind in leading), *arguments))
        self.scope.names = {**outer, **carried.names_of(arguments)}
        with current().inside(block):
            enter(block)
            left = self.body(node.body)
            if left is not None:
                word = type(left).__name__.lower()
                raise self.error(
                    left, f"a run-time loop cannot be left by `{word}`", "use masks or tl.where"
                )
            after, self.scope.names = self.scope.names, outer
            changed = _retype(self, node, carried, after, block, places)
            if changed is None:
                finals = leaves(tuple(after[name] for name in carried.before))
                control.yield_(*control.like(finals, carried.types, "loop"))
                return carried, block
            carried = changed
    raise self.error(node, "the types of the carried values do not settle")


def _retype(
    self: Expressions,
    node: ast.For | ast.While,
    carried: Carried,
    after: Names,
    block: Block,
    places: Mapping[str, ast.AST],
) -> Carried | None:
    """Return how to read the body again, or None when it leaves everything as it entered."""
    for name, value in carried.fixed.items():
        if not same(value, after[name]):
            return carried.without(name, "changes in the loop, but is no tile or number before it")
    for name, value in carried.before.items():
        if not _aligned(value, after[name]):
            return carried.without(name, "is another kind of object after an iteration")
    position = 0
    for name, value in carried.before.items():
        for initial, final in zip(leaves(value), leaves(after[name]), strict=True):
            kind, found = carried.types[position], _type(final)
            argument = block.arguments[len(block.arguments) - len(carried.types) + position]
            if kind != found and not (isinstance(initial, Tile) and not isinstance(final, Tile)):
                if not isinstance(initial, Tile):
                    types = list(carried.types)
                    types[position] = found if isinstance(final, Tile) else _wider(kind, found)
                    if types[position] != kind:
                        return replace(carried, types=tuple(types))
                elif not _is_used(argument, block):
                    return carried.without(name, "has another type after an iteration")
                else:
                    raise self.error(
                        _assignment(node.body, name),
                        f"`{name}` enters the loop as {kind}, but an iteration leaves {found}",
                        "keep its type with .to(...), or start from the type that it gets",
                        [("it enters with the value given", places.get(name))],
                    )
            position += 1
    return None


def _leave(
    self: Expressions, node: ast.For | ast.While, carried: Carried, results: Sequence[Value]
) -> None:
    """Give the names after the loop their values."""
    names = self.scope.names
    for name in assigned_names(node.body):
        names.setdefault(name, INSIDE_ONLY)
    for argument, result in zip(carried.arguments(), results, strict=True):
        result.name = argument.name
    names.update(carried.names_of(results))


def _aligned(before: Any, after: Any) -> bool:
    """Whether two values differ in their leaves only."""
    if is_leaf(before) and is_leaf(after):
        return True
    if isinstance(before, Aggregate) and isinstance(after, Aggregate):
        return before.matches(after) and _aligned(before.parts, after.parts)
    if isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
        return all(map(_aligned, before, after))
    return same(before, after)


def _wider(kind: Type, found: Type) -> Type:
    """The scalar type that holds the numbers of both."""
    order = ["bool", "i32", "u32", "i64", "u64", "f32", "f64"]
    return max(kind, found, key=lambda t: order.index(str(t)) if str(t) in order else len(order))


def _type(leaf: Leaf) -> Type:
    return leaf.type if isinstance(leaf, Tile) else Type((), scalar_dtype(leaf))


def _raw(value: Any) -> semantic.Raw:
    return value.value if isinstance(value, Tile) else bool(value)


def _is_used(argument: Value, block: Block) -> bool:
    return any(argument in op.operands for op in walk(block))


def _assignment(statements: Sequence[ast.stmt], name: str) -> ast.AST:
    """The last statement that assigns `name`."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    simple = [n for n in nodes if isinstance(n, ast.Assign | ast.AugAssign | ast.AnnAssign)]
    return [statements[0], *(node for node in simple if name in assigned_names([node]))][-1]
