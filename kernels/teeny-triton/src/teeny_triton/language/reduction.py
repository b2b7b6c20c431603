"""Reductions over one axis or all, and matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from teeny_triton.builder import current
from teeny_triton.errors import KernelError
from teeny_triton.ir import REDUCTIONS
from teeny_triton.language import semantic
from teeny_triton.language.tile import (
    DTypeLike,
    Operand,
    Tile,
    as_dtype,
    reduction,
    tile,
)


def sum(
    x: Operand, axis: int | None = None, keep_dims: bool = False, dtype: DTypeLike | None = None
) -> Tile:
    """Sum; f16 and bf16 accumulate in f32, small integers in 32 bits."""
    source = tile(x)
    return reduction("sum", source if dtype is None else source.to(dtype), axis, keep_dims)


def prod(x: Operand, axis: int | None = None, keep_dims: bool = False) -> Tile:
    """Product."""
    return reduction("prod", x, axis, keep_dims)


def max(
    x: Operand, axis: int | None = None, return_indices: bool = False, keep_dims: bool = False
) -> Any:
    """The largest element, and with `return_indices` its index too; NaN wins."""
    return _extreme("max", x, axis, return_indices, keep_dims)


def min(
    x: Operand, axis: int | None = None, return_indices: bool = False, keep_dims: bool = False
) -> Any:
    """The smallest element, and with `return_indices` its index too; NaN wins."""
    return _extreme("min", x, axis, return_indices, keep_dims)


def argmax(x: Operand, axis: int | None = None, keep_dims: bool = False) -> Tile:
    """Index (i32) of the largest element: the first of equals, or the first NaN."""
    return reduction("argmax", x, axis, keep_dims)


def argmin(x: Operand, axis: int | None = None, keep_dims: bool = False) -> Tile:
    """Index (i32) of the smallest element: the first of equals, or the first NaN."""
    return reduction("argmin", x, axis, keep_dims)


def xor_sum(x: Operand, axis: int | None = None, keep_dims: bool = False) -> Tile:
    """Exclusive or of integers."""
    return reduction("xor_sum", x, axis, keep_dims)


def reduce(
    x: Any,
    axis: int | None,
    combine: str | Callable[..., Any],
    keep_dims: bool = False,
) -> Any:
    """Reduce by a named kind, or by an associative function of two elements.

    `combine` is one of sum, prod, max, min, xor_sum, argmax, argmin, or a function: of `(a, b)`,
    or, when `x` is a tuple of tiles, of `(a0, a1, ..., b0, b1, ...)` giving a tuple. Elements
    keep their order. A function needs an extent that is a power of two.
    """
    if isinstance(combine, str):
        if combine not in REDUCTIONS:
            raise KernelError(f"cannot reduce by {combine!r}: known are {', '.join(REDUCTIONS)}")
        return reduction(combine, x, axis, keep_dims)
    parts = [tile(part) for part in (x if isinstance(x, tuple) else (x,))]
    rank = len(parts[0].shape)
    if axis is None:
        parts, place = [part.reshape(part.numel) for part in parts], 0
    else:
        place = semantic.axis_of(axis, rank)
    results = tuple(_tree(parts, place, combine))
    if keep_dims:
        shape = (1,) * rank if axis is None else None
        results = tuple(r.broadcast_to(shape) if shape else r.expand_dims(place) for r in results)
    return results if isinstance(x, tuple) else results[0]


def _tree(parts: list[Tile], axis: int, combine: Callable[..., Any]) -> list[Tile]:
    """Combine neighbours until one is left: log2(extent) steps."""
    extent, rank = parts[0].shape[axis], len(parts[0].shape)
    if extent & (extent - 1):
        raise KernelError(
            f"a reduction by a function needs a power of two, not {extent}",
            hint="pad the tile with the neutral element, or use tl.sum, tl.max, tl.min",
        )
    order = (*(i for i in range(rank) if i != axis), axis)
    parts = [part.trans(*order) for part in parts] if rank > 1 else parts
    while parts[0].shape[-1] > 1:
        halves = []
        for part in parts:
            pairs = part.reshape(*part.shape[:-1], part.shape[-1] // 2, 2)
            halves.append(current().emit("split", (pairs.value,)))
        combined = combine(*(Tile(a) for a, _ in halves), *(Tile(b) for _, b in halves))
        parts = list(combined) if isinstance(combined, tuple) else [combined]
    return [part.reshape(*part.shape[:-1]) for part in parts]


def dot(
    a: Tile,
    b: Tile,
    acc: Tile | None = None,
    input_precision: str | None = None,
    allow_tf32: bool | None = None,
    max_num_imprecise_acc: int | None = None,
    out_dtype: DTypeLike | None = None,
) -> Tile:
    """Return `a @ b`, plus `acc` when given: f16, bf16, f8 and f32 sum in f32, i8 and u8 in i32.

    The precision options of GPUs are accepted and not needed: f32 is multiplied as f32.
    """
    start = None if acc is None else acc.value
    result = Tile(semantic.dot(a.value, b.value, start))
    return result if out_dtype is None else result.to(as_dtype(out_dtype))


def _extreme(
    kind: str, x: Operand, axis: int | None, return_indices: bool, keep_dims: bool
) -> Tile | tuple[Tile, Tile]:
    value = reduction(kind, x, axis, keep_dims)
    if not return_indices:
        return value
    return value, reduction(f"arg{kind}", x, axis, keep_dims)
