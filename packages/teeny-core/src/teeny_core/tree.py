"""Trees: values in tuples, lists, dicts and dataclasses, nested in any way.

Whatever is no container is a leaf. None is a container of nothing, so that optional parts may be
left out. Keys of a dict keep their order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from teeny_core.errors import ShapeError

Tree: TypeAlias = Any


@dataclass(frozen=True)
class Structure:
    """The shape of a tree: a leaf, or a container of parts.

    Attributes:
        kind: type of the container; None for a leaf.
        keys: of a dict its keys, of a dataclass or a named tuple its fields, else positions.
        parts: the structures under them.
    """

    kind: type | None = None
    keys: tuple[Any, ...] = ()
    parts: tuple[Structure, ...] = ()

    def leaves(self, tree: Tree) -> list[Any]:
        """Return what a tree has in place of the leaves, in order.

        Raises:
            ShapeError: when the tree has another structure.
        """
        return list(_leaves(self, tree, ""))

    def tree(self, leaves: Iterator[Any]) -> Tree:
        """Return a tree with the next of `leaves` in place of its own."""
        if self.kind is None:
            return next(leaves)
        return _made(self.kind, self.keys, [part.tree(leaves) for part in self.parts])

    def paths(self, root: str = "") -> Iterator[str]:
        """Yield the dotted place of each leaf, in order."""
        if self.kind is None:
            yield root
        for key, part in zip(self.keys, self.parts, strict=True):
            yield from part.paths(f"{root}.{key}" if root else str(key))

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        parts = [str(part) for part in self.parts]
        if self.kind is list:
            return f"[{', '.join(parts)}]"
        if self.kind is tuple:
            return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
        if self.kind is type(None):
            return "None"
        named = [f"{key}: {part}" for key, part in zip(self.keys, parts, strict=True)]
        text = f"{{{', '.join(named)}}}"
        return text if self.kind is dict else f"{self.kind.__name__}{text}"


LEAF = Structure()


def flatten(tree: Tree) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree in order, and its structure."""
    structure = structure_of(tree)
    return structure.leaves(tree), structure


def structure_of(tree: Tree) -> Structure:
    """Return the structure of a tree."""
    kind = _kind(tree)
    if kind is None:
        return LEAF
    items = _items(tree)
    return Structure(kind, tuple(items), tuple(map(structure_of, items.values())))


def leaves(tree: Tree) -> list[Any]:
    """Return the leaves of a tree in order."""
    return flatten(tree)[0]


def mapped(function: Callable[[Any], Any], tree: Tree) -> Tree:
    """Return a tree of the same structure with a function applied to its leaves, in order."""
    found, structure = flatten(tree)
    return structure.tree(map(function, found))


def _kind(tree: Tree) -> type | None:
    if isinstance(tree, Mapping):
        return dict
    if isinstance(tree, tuple | list) or tree is None:
        return type(tree)
    is_record = dataclasses.is_dataclass(tree) and not isinstance(tree, type)
    return type(tree) if is_record else None


def _items(tree: Tree) -> Mapping[Any, Any]:
    """Return the parts of a container by key, field or position."""
    if tree is None:
        return {}
    if isinstance(tree, Mapping):
        return tree
    if isinstance(tree, tuple | list):
        return dict(zip(_fields(type(tree)) or range(len(tree)), tree, strict=True))
    return {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}


def _fields(kind: type) -> tuple[str, ...]:
    """Return the fields of a named tuple."""
    return getattr(kind, "_fields", ())


def _made(kind: type, keys: tuple[Any, ...], parts: list[Any]) -> Tree:
    if kind is type(None):
        return None
    if kind is dict:
        return dict(zip(keys, parts, strict=True))
    if issubclass(kind, tuple | list):
        return kind(*parts) if _fields(kind) else kind(parts)
    made = object.__new__(kind)  # as it was: `__init__` may take other arguments
    for key, part in zip(keys, parts, strict=True):
        object.__setattr__(made, key, part)
    return made


def _leaves(structure: Structure, tree: Tree, place: str) -> Iterator[Any]:
    if structure.kind is None:
        yield tree
        return
    items = _items(tree) if _kind(tree) is structure.kind else None
    if items is None or set(items) != set(structure.keys):
        where = f" at {place}" if place else ""
        raise ShapeError(
            f"expected {structure}{where}, got {structure_of(tree)}",
            hint="pass values in the structure of the trace; * stands for one of them",
        )
    for key, part in zip(structure.keys, structure.parts, strict=True):
        yield from _leaves(part, items[key], f"{place}.{key}" if place else str(key))
