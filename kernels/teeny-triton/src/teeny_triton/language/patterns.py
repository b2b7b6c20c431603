"""Types of parameters with something left open, or with more than a type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from teeny_core import DType


class Pattern:
    """What a parameter may be annotated with, or with `pattern | None`."""

    def __or__(self, other: None) -> Any:
        """Return the annotation of what may also be None."""
        return Optional[self] if other is None else NotImplemented  # noqa: UP045

    __ror__ = __or__


@dataclass(frozen=True, init=False)
class DTypeVariable(Pattern):
    """A dtype that a call decides, one of `choices` (any when empty)."""

    name: str
    choices: tuple[DType, ...]

    def __init__(self, name: str, *choices: DType) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "choices", choices)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class PointerPattern(Pattern):
    """A pointer to a dtype or to one that a variable stands for, perhaps to contiguous memory."""

    pointee: DType | DTypeVariable
    contiguous: bool = False

    def __str__(self) -> str:
        return f"ptr<{self.pointee}{', contiguous' if self.contiguous else ''}>"


@dataclass(frozen=True)
class ConstexprPattern(Pattern):
    """A Python value of a type: a class, a union of them, or a `typing.Literal`."""

    kind: Any
