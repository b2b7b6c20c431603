"""Checks and prints, while a kernel is built (`static_…`) or while it runs (`device_…`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teeny_triton.builder import current
from teeny_triton.errors import KernelError, StaticAssertion
from teeny_triton.language import semantic
from teeny_triton.language.tile import Operand, Tile, raw, tile


def static_assert(condition: object, message: str = "") -> None:
    """Refuse to build the kernel unless a Python condition holds.

    Raises:
        KernelError: it does not hold, or is known only at run time.
    """
    if isinstance(condition, Tile):
        raise KernelError(
            "static_assert needs a condition that is known while the kernel is built",
            hint="use tl.device_assert for a value of the running kernel",
        )
    if not condition:
        raise StaticAssertion(
            f"static assertion failed: {message}" if message else "static assertion failed"
        )


def static_print(*values: object, sep: str = " ", end: str = "\n") -> None:
    """Print while the kernel is built."""
    print(*values, sep=sep, end=end)


def device_assert(condition: Operand, message: str = "", mask: Operand | None = None) -> None:
    """Stop the running kernel unless every element of `condition` holds (where `mask` does)."""
    test = Tile(semantic.truth(raw(condition)))
    if mask is not None:
        test = test | ~Tile(semantic.truth(raw(mask)))
    place = current().location
    attrs = {"message": message} | ({} if place is None else {"place": str(place)})
    current().emit("device_assert", (test.value,), attrs)


def device_print(prefix: str, *values: Operand, hex: bool = False) -> None:
    """Print a line from each program: its index, the prefix, and all elements of the values.

    Floats have six digits. With `hex` the bits are printed, as many digits as the type has.
    """
    operands = tuple(tile(value).value for value in values)
    current().emit("device_print", operands, {"prefix": prefix} | ({"hex": True} if hex else {}))


def stop(function: str, names: Mapping[str, Any]) -> None:
    """Stop in a debugger when the kernel is interpreted: `breakpoint()` in the source of `function`
    does, and shows the variables `names`. Items of a tuple `t` are `t_0`, `t_1`...
    """
    values: dict[str, Any] = {}
    for name, value in names.items():
        items = {f"{name}_{i}": x for i, x in enumerate(value)} if isinstance(value, tuple) else {}
        values.update(items or {name: value})
    shown = {
        name: tile(value).value
        for name, value in values.items()
        if isinstance(value, Tile | bool | int | float)
    }
    attrs = {"function": function, "names": " ".join(shown)}
    current().emit("breakpoint", tuple(shown.values()), attrs)


def assume(condition: object) -> None:
    """Tell the compiler a fact; a fact known to be false is refused.

    `assume(x >= 0)` of a scalar saves checks at the start of blocks; other facts have no effect.
    """
    if isinstance(condition, Tile):
        known = current().constant_of(condition.value)
        current().assume(condition.value)
    else:
        known = bool(condition)
    if known is False:
        raise KernelError("the assumption is false")


def debug_barrier() -> None:
    """Accepted for compatibility: a program is one thread, which need not wait for itself."""


def inline_asm_elementwise(*arguments: object, **options: object) -> Tile:
    """Refuse: this is assembly of a GPU.

    Raises:
        KernelError: always.
    """
    raise KernelError(
        "inline assembly is written for one kind of machine, so it is not part of the language",
        hint="write the function by tl operations; they become vector instructions",
    )


def multiple_of(x: Tile, values: object) -> Tile:
    """Accepted for compatibility; returns `x`."""
    return x


max_contiguous = multiple_of
max_constancy = multiple_of
