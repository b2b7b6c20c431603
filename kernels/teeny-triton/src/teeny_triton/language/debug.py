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
    """Print Python values, and the types of tiles, while the kernel is built; as `print` does."""
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
    """Tell the compiler a fact, which the sanitizer and the interpreter check.

    After `assume(stride == 1)` at the start of a kernel the stride is 1, so that neighbours are
    loaded together; `assume(x >= 0)` of a scalar saves checks at the start of blocks. Other facts
    have no effect.

    Raises:
        KernelError: the fact is known to be false.
    """
    known: object = bool(condition) if not isinstance(condition, Tile) else None
    if isinstance(condition, Tile):
        known = current().constant_of(condition.value)
    if known is not None and not known:
        raise KernelError("the assumption is false")
    if isinstance(condition, Tile) and known is None:
        if current().trusting:
            current().assume(condition.value)
        else:
            device_assert(condition, "what is assumed does not hold")


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
    """Accepted for compatibility; returns `x`.

    Kernels promise this, and that neighbours count up, of blocks at an edge too, where indices wrap
    around or stay: to load by it would leave the tensor. What an index is, is seen from how it is
    made.
    """
    return x


max_contiguous = multiple_of
max_constancy = multiple_of
