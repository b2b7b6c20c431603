"""Python values that are known while a kernel is read."""

from __future__ import annotations

from typing import Any

from teeny_triton.language.patterns import ConstexprPattern


class constexpr:  # noqa: N801 - Triton's name
    """Annotation of a parameter that is a Python value; called, it wraps one (and is unwrapped).

    `constexpr[int]`, `constexpr[int | None]` and `constexpr[Literal["sum", "max"]]` say of which
    type it is.
    """

    def __class_getitem__(cls, kind: Any) -> ConstexprPattern:
        return ConstexprPattern(kind)

    def __init__(self, value: Any) -> None:
        self.value: Any = value.value if isinstance(value, constexpr) else value

    def __repr__(self) -> str:
        return f"constexpr({self.value!r})"

    def __index__(self) -> int:
        return int(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)
