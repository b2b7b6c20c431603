"""What a rule sees of an op, and the kinds of elements that rules ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from teeny_core import DType, bool_, f8e4m3, f8e5m2

from teeny_triton.errors import KernelError
from teeny_triton.ir import Pointer, Type

NARROW_FLOATS = frozenset({f8e4m3, f8e5m2})
"""Storage formats: moved, converted and multiplied by `dot`, but without arithmetic."""

INTEGERS = ("int", "uint")
NUMBERS = (*INTEGERS, "float")


@dataclass(frozen=True)
class Signature:
    """What a rule sees of an op. `wanted` is empty when the caller leaves the results open."""

    opcode: str
    operands: tuple[Type, ...]
    attrs: Mapping[str, Any]
    wanted: tuple[Type, ...] = ()

    def require(self, condition: bool, message: str) -> None:
        """Raise KernelError about this op unless `condition` holds."""
        if not condition:
            operands = ", ".join(map(str, self.operands))
            raise KernelError(f"{self.opcode}({operands}): {message}")

    def count(self, low: int, high: int | None = None) -> None:
        """Require between `low` and `high` operands."""
        high = low if high is None else high
        wanted = str(low) if low == high else f"{low} to {high}"
        found = len(self.operands)
        self.require(low <= found <= high, f"takes {wanted} operands, not {found}")

    def attr(self, name: str, kind: type) -> Any:
        """Return an attribute that must be there and of type `kind`."""
        self.require(name in self.attrs, f"attribute `{name}` is missing")
        value = self.attrs[name]
        valid = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        self.require(valid, f"attribute `{name}` must be {kind.__name__}, not {value!r}")
        return value

    def axis(self, rank: int) -> int:
        """Return the attribute `axis`, which must be in [0, rank)."""
        axis: int = self.attr("axis", int)
        self.require(0 <= axis < rank, f"axis {axis} is outside [0, {rank})")
        return axis

    def result(self) -> Type:
        """Return the one wanted result type."""
        self.require(len(self.wanted) == 1, "needs one result type")
        return self.wanted[0]

    def mask(self, index: int) -> None:
        """Require that the operand at `index`, if there is one, is a mask for the first."""
        if len(self.operands) > index:
            wanted = Type(self.operands[0].shape, bool_)
            self.require(self.operands[index] == wanted, f"the mask must be {wanted}")


Rule: TypeAlias = Callable[[Signature], tuple[Type, ...]]
"""The result types of an op; KernelError where it is not allowed."""


def is_kind(element: DType | Pointer, *kinds: str) -> bool:
    """Whether `element` is a dtype of one of `kinds` on which arithmetic is defined."""
    return isinstance(element, DType) and element.kind in kinds and element not in NARROW_FLOATS
