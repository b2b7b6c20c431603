"""Types of parameters with a dtype left open."""

from __future__ import annotations

from dataclasses import dataclass

from teeny_core import DType


@dataclass(frozen=True, init=False)
class DTypeVariable:
    """A dtype that a call decides, one of `choices` (any when empty)."""

    name: str
    choices: tuple[DType, ...]

    def __init__(self, name: str, *choices: DType) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "choices", choices)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class PointerPattern:
    """A pointer to a dtype that a variable stands for."""

    pointee: DTypeVariable

    def __str__(self) -> str:
        return f"ptr<{self.pointee}>"
