"""Scans: every element combined with those before it along an axis."""

from __future__ import annotations

from typing import Any

from teeny_triton.builder import current
from teeny_triton.language import math, semantic
from teeny_triton.language.combination import Combine, as_given, combination, tiles_of
from teeny_triton.language.tile import DTypeLike, Operand, Tile, accumulated


def associative_scan(x: Any, axis: int, combine_fn: Combine, reverse: bool = False) -> Any:
    """Combine every element with all before it along an axis; from the end in `reverse`.

    `x` is a tile, with `combine_fn(a, b)`, or a tuple of tiles of one shape, with
    `combine_fn(a0, a1, ..., b0, b1, ...)` giving a tuple. `a` is the result so far, `b` the next
    element. The function must be associative: how elements are grouped is left open, not their
    order. The types stay.
    """
    parts = tiles_of(x)
    axis = semantic.axis_of(axis, len(parts[0].shape))
    region = combination(parts, combine_fn)
    attrs = {"axis": axis, "reverse": reverse}
    results = current().emit("scan", [part.value for part in parts], attrs, (), (region,))
    return as_given(x, list(map(Tile, results)))


def cumsum(
    x: Operand, axis: int = 0, reverse: bool = False, dtype: DTypeLike | None = None
) -> Tile:
    """Sum of every element and all before it; 16-bit floats sum in f32, small integers in i32.

    With a `dtype`, elements are converted to it first.
    """
    return accumulated("sum", x, dtype, lambda y: associative_scan(y, axis, math.add, reverse))


def cumprod(
    x: Operand, axis: int = 0, reverse: bool = False, dtype: DTypeLike | None = None
) -> Tile:
    """Product of every element and all before it, in the types of `cumsum`."""
    return accumulated("prod", x, dtype, lambda y: associative_scan(y, axis, math.mul, reverse))
