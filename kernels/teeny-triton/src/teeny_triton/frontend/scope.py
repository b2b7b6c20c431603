"""Names and their values while a kernel is read, and what happens to them where paths meet."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from teeny_triton.builder import Scalar
from teeny_triton.errors import KernelError
from teeny_triton.language.aggregate import Aggregate
from teeny_triton.language.tile import Tile

Names: TypeAlias = dict[str, Any]
Outer: TypeAlias = Callable[[str], tuple[bool, Any]]
Leaf: TypeAlias = Tile | Scalar


_ASSIGNED: WeakKeyDictionary[ast.stmt, tuple[str, ...]] = WeakKeyDictionary()
"""What statements assign: a helper is read as often as it is inlined."""


@dataclass(frozen=True)
class Unavailable:
    """Stands for a name that has no single value here, and says why."""

    reason: str


@dataclass
class Scope:
    """The local names of one function; `outer` finds the others.

    `places` holds where each name was assigned last, as the source is read.
    """

    outer: Outer
    names: Names = field(default_factory=dict)
    places: dict[str, ast.AST] = field(default_factory=dict)

    def lookup(self, name: str) -> tuple[bool, Any]:
        """Find a name here or further out.

        Raises:
            KernelError: the name exists, but has no single value at this point.
        """
        if name not in self.names:
            return self.outer(name)
        value = self.names[name]
        if isinstance(value, Unavailable):
            raise KernelError(f"`{name}` {value.reason}", hint="assign it before on every path")
        return True, value


def assigned_names(statements: Iterable[ast.stmt]) -> tuple[str, ...]:
    """Return the names that `statements` may assign, in order of appearance."""
    names = (name for statement in statements for name in _assigned_by(statement))
    return tuple(dict.fromkeys(names))


def _assigned_by(statement: ast.stmt) -> tuple[str, ...]:
    if statement not in _ASSIGNED:
        found = []
        for node in _own_nodes(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.append(node.id)
            elif isinstance(node, ast.FunctionDef):
                found.append(node.name)
        _ASSIGNED[statement] = tuple(found)
    return _ASSIGNED[statement]


def contains_return(statements: Iterable[ast.stmt]) -> bool:
    """Whether any of `statements` may return from the function that they stand in."""
    return any(isinstance(n, ast.Return) for s in statements for n in _own_nodes(s))


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Walk `node`, but not into functions and comprehensions, whose names are their own."""
    yield node
    if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ListComp | ast.GeneratorExp):
        return
    for child in ast.iter_child_nodes(node):
        yield from _own_nodes(child)


def is_leaf(value: object) -> bool:
    """Whether a value can live in the running kernel."""
    return isinstance(value, Tile | bool | int | float)


def leaves(value: Any) -> list[Leaf]:
    """Return the tiles and numbers in `value`, which may be nested tuples and aggregates."""
    if is_leaf(value):
        return [value]
    if isinstance(value, Aggregate):
        return leaves(value.parts)
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return []


def rebuild(value: Any, replacements: Iterator[Any]) -> Any:
    """Return `value` with its leaves replaced, in order."""
    if is_leaf(value):
        return next(replacements)
    if isinstance(value, Aggregate):
        return value.with_parts(rebuild(value.parts, replacements))
    if isinstance(value, tuple):
        return _tuple_like(value, [rebuild(item, replacements) for item in value])
    return value


def same(a: object, b: object) -> bool:
    """Whether two values are known to be equal."""
    if a is b:
        return True
    if isinstance(a, Tile) and isinstance(b, Tile):
        return a.value is b.value
    if isinstance(a, bool | int | float) and type(a) is type(b):
        return a == b
    if isinstance(a, Aggregate) and isinstance(b, Aggregate):
        return a.matches(b) and same(a.parts, b.parts)
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return all(map(same, a, b))
    return False


def merge(a: Any, b: Any, pairs: list[tuple[Leaf, Leaf]]) -> Any:
    """Return the value that is `a` on one path and `b` on the other.

    Leaves that differ are appended to `pairs`, and stand in the result as `Slot`s.
    """
    if same(a, b):
        return a
    if is_leaf(a) and is_leaf(b):
        pairs.append((a, b))
        return Slot(len(pairs) - 1)
    if isinstance(a, Aggregate) and isinstance(b, Aggregate) and a.matches(b):
        return a.with_parts(merge(a.parts, b.parts, pairs))
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return _tuple_like(a, [merge(x, y, pairs) for x, y in zip(a, b, strict=True)])
    missing = isinstance(a, Unavailable) or isinstance(b, Unavailable)
    reason = "has a value on one path only" if missing else "is another Python object on each path"
    return Unavailable(reason)


@dataclass(frozen=True)
class Slot:
    """A place for a value that an `if` chooses."""

    index: int


def fill(value: Any, chosen: Sequence[Tile]) -> Any:
    """Return `value` with its slots filled."""
    if isinstance(value, Slot):
        return chosen[value.index]
    if isinstance(value, Aggregate):
        return value.with_parts(fill(value.parts, chosen))
    if isinstance(value, tuple):
        return _tuple_like(value, [fill(item, chosen) for item in value])
    return value


def _tuple_like(value: tuple[Any, ...], items: list[Any]) -> Any:
    named = hasattr(value, "_fields")
    return type(value)(*items) if named else tuple(items)
