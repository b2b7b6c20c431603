"""Reductions over one axis or all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from teeny_triton.builder import current
from teeny_triton.errors import KernelError
from teeny_triton.ir import REDUCTIONS
from teeny_triton.language import semantic
from teeny_triton.language.combination import as_given, combination, tiles_of
from teeny_triton.language.tile import (
    DTypeLike,
    Operand,
    Tile,
    reduction,
    tile,
)


def sum(
    x: Operand, axis: int | None = None, keep_dims: bool = False, dtype: DTypeLike | None = None
) -> Tile:
    """Sum over an axis, or over all elements without one.

    f16 and bf16 accumulate in f32 and round once; integers of fewer than 32 bits give i32 or u32.
    With `dtype` the elements are converted first. With `keep_dims` axes stay, with extent 1.
    """
    source = tile(x)
    return reduction("sum", source if dtype is None else source.to(dtype), axis, keep_dims)


def prod(x: Operand, axis: int | None = None, keep_dims: bool = False) -> Tile:
    """Product over an axis, or over all elements without one; types as those of `sum`."""
    return reduction("prod", x, axis, keep_dims)


def max(
    x: Operand,
    axis: int | None = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Any:
    """The largest element, and with `return_indices` its index too; NaN wins.

    Of equals the first is taken, whether or not that is asked for.
    """
    return _extreme("max", x, axis, return_indices, keep_dims)


def min(
    x: Operand,
    axis: int | None = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Any:
    """The smallest element, and with `return_indices` its index too; NaN wins.

    Of equals the first is taken, whether or not that is asked for.
    """
    return _extreme("min", x, axis, return_indices, keep_dims)


def argmax(
    x: Operand, axis: int | None = None, tie_break_left: bool = True, keep_dims: bool = False
) -> Tile:
    """Index (i32) of the largest element: the first of equals, or the first NaN."""
    return reduction("argmax", x, axis, keep_dims)


def argmin(
    x: Operand, axis: int | None = None, tie_break_left: bool = True, keep_dims: bool = False
) -> Tile:
    """Index (i32) of the smallest element: the first of equals, or the first NaN."""
    return reduction("argmin", x, axis, keep_dims)


def xor_sum(x: Operand, axis: int | None = None, keep_dims: bool = False) -> Tile:
    """Exclusive or over an axis, or over all elements without one.

    Raises:
        KernelError: the elements are floats.
    """
    return reduction("xor_sum", x, axis, keep_dims)


def reduce_or(x: Operand, axis: int | None = None, keep_dims: bool = False) -> Tile:
    """Bitwise or over an axis, or over all elements without one; types stay.

    Raises:
        KernelError: the elements are floats.
    """
    result: Tile = reduce(x, axis, lambda a, b: a | b, keep_dims)
    return result


def reduce(
    x: Any,
    axis: int | None,
    combine_fn: str | Callable[..., Any],
    keep_dims: bool = False,
) -> Any:
    """Reduce by a named kind, or by an associative function of two elements.

    `combine_fn` is one of sum, prod, max, min, xor_sum, argmax, argmin, or a function: of `(a, b)`,
    or, when `x` is a tuple of tiles of one shape, of `(a0, a1, ..., b0, b1, ...)` giving a tuple.
    `a` stands before `b`: elements keep their order, but how they are grouped is left open. Types
    stay; all extents are allowed.

    Raises:
        KernelError: no reduction has that name, or the function gives other types than it takes.
    """
    if isinstance(combine_fn, str):
        if combine_fn not in REDUCTIONS:
            raise KernelError(f"cannot reduce by {combine_fn!r}: known are {', '.join(REDUCTIONS)}")
        return reduction(combine_fn, x, axis, keep_dims)
    parts = tiles_of(x)
    shape = parts[0].shape
    if not shape:
        return x
    if axis is None:
        parts, place = [part.reshape(part.numel) for part in parts], 0
    else:
        place = semantic.axis_of(axis, len(shape))
    region = combination(parts, combine_fn)
    values = [part.value for part in parts]
    results = list(map(Tile, current().emit("reduce_by", values, {"axis": place}, (), (region,))))
    if keep_dims:
        ones = (1,) * len(shape) if axis is None else (*shape[:place], 1, *shape[place + 1 :])
        results = [r.expand_dims(0).reshape(ones) for r in results]
    return as_given(x, results)


def _extreme(
    kind: str, x: Operand, axis: int | None, return_indices: bool, keep_dims: bool
) -> Tile | tuple[Tile, Tile]:
    value = reduction(kind, x, axis, keep_dims)
    if not return_indices:
        return value
    return value, reduction(f"arg{kind}", x, axis, keep_dims)
