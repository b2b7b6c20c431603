"""What Python's built-ins mean in a kernel when they meet a tile."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

from teeny_core import f32, i32

from teeny_triton.ir import Pointer
from teeny_triton.language import control, debug, semantic
from teeny_triton.language import math as tl_math
from teeny_triton.language.aggregate import Aggregate
from teeny_triton.language.constants import constexpr
from teeny_triton.language.dtypes import pointer_type
from teeny_triton.language.static import unwrapped
from teeny_triton.language.tile import Tile, raw


def _extreme(name: str) -> Callable[..., Any]:
    plain, combine = getattr(builtins, name), getattr(tl_math, f"{name}imum")

    def run(*values: Any, **options: Any) -> Any:
        if any(isinstance(value, Tile) for value in values):
            return reduce(combine, values)
        return plain(*values, **options)

    return run


def _converter(plain: type, convert: Callable[[Tile], Tile]) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        if len(values) == 1 and isinstance(values[0], Tile):
            return convert(values[0])
        return plain(*values)

    return run


def _print(*values: Any, **options: Any) -> None:
    if not any(isinstance(value, Tile) for value in values):
        debug.static_print(*values, **options)
        return
    prefix, *rest = values if isinstance(values[0], str) else ("", *values)
    debug.device_print(prefix, *rest)


class Range(control.range):
    """Python's `range`: `for` makes a loop of the kernel of it, anything else just counts."""

    def __iter__(self) -> Iterator[int]:
        return control.static_range(self.start, self.stop, self.step)  # type: ignore[arg-type]


def _isinstance(value: Any, kinds: Any) -> bool:
    """Whether a value is of a type; what is known while a kernel is read is a constexpr too."""
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    listed = tuple(Pointer if kind is pointer_type else kind for kind in wanted)
    if constexpr in listed and not isinstance(value, Tile | Aggregate):
        return True
    return isinstance(value, listed)


REPLACED: Mapping[Any, Callable[..., Any]] = {
    builtins.min: _extreme("min"),
    builtins.max: _extreme("max"),
    builtins.print: _print,
    builtins.isinstance: _isinstance,
    builtins.range: Range,
    builtins.int: _converter(int, lambda x: x.to(i32)),
    builtins.float: _converter(float, lambda x: x.to(f32)),
    builtins.bool: _converter(bool, lambda x: Tile(semantic.truth(raw(x)))),
    constexpr: unwrapped,
}
"""Callables that kernels may name, and what is called in their place."""


def replacement(callee: Any) -> Any:
    """Return what a call of `callee` runs in a kernel."""
    try:
        return REPLACED.get(callee, callee)
    except TypeError:  # not hashable, so not in the table
        return callee
