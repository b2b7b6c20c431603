"""Functions of whole tiles: shapes, types, reductions, scans, order, products."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import teeny_triton.language as tl
from teeny_core import DType, bf16, bool_, f8e4m3, f8e5m2, f16, f32, f64, i8, i32, u8

from .harness import (
    AXES,
    CUBE,
    FLOATS,
    INTEGERS,
    MATRIX,
    NARROW,
    PLAIN_ROW,
    TILES,
    Array,
    Case,
    Layout,
    Operand,
    Shape,
)

NUMBERS = (*INTEGERS, *FLOATS)
TWO = (Operand(), Operand())
FIXED = (PLAIN_ROW, MATRIX, CUBE)


def _tail(x: Array) -> int:
    return int(x.shape[-1])


def _like(shape: Shape) -> Shape:
    return shape


# --- shapes ---


def _interleaved(x: Array, y: Array) -> Array:
    return np.stack([x, y], -1).reshape(*x.shape[:-1], 2 * _tail(x))


def _swizzled(i: Array, j: Array) -> tuple[Array, Array]:
    """Walk a grid of 5 by 4 in groups of two rows, each by columns."""
    order = [
        (row, column)
        for first in range(0, 5, 2)
        for column in range(4)
        for row in range(first, min(first + 2, 5))
    ]
    cells = [order[a * 4 + b] for a, b in zip(i.ravel(), j.ravel(), strict=True)]
    rows, columns = np.array(cells, np.int32).T
    return rows.reshape(i.shape), columns.reshape(i.shape)


def _both(function: Callable[[Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """One function, where NumPy has the method of the same name."""
    return function, function


SHAPES = (
    Case("trans", tl.trans, lambda x: x.swapaxes(-1, -2), layouts=(MATRIX, CUBE)),
    Case(
        "permute",
        lambda x: tl.permute(x, *reversed(range(len(x.shape)))),
        np.transpose,
        layouts=FIXED,
    ),
    Case("reshape", lambda x: tl.reshape(x, (-1, 1)), lambda x: x.reshape(-1, 1)),
    Case("view", lambda x: tl.view(x, 1, -1), lambda x: x.reshape(1, -1)),
    Case("ravel", tl.ravel, np.ravel),
    Case(
        "expand_dims",
        lambda x: (tl.expand_dims(x, 0), tl.expand_dims(x, (0, -1))),
        lambda x: (x[None], x[None, ..., None]),
    ),
    Case("unsqueeze", lambda x: (tl.unsqueeze(x, 0), tl.unsqueeze(x, -1)),
         lambda x: (x[None], x[..., None])),
    Case("squeeze", lambda x: (tl.squeeze(x[None], 0), tl.squeeze(x[..., None], -1)),
         lambda x: (x, x), layouts=TILES),
    Case("broadcast", tl.broadcast, lambda x, y: np.broadcast_arrays(x, y),
         (Operand(), Operand(shape=lambda s: (4, *(1 for _ in s)))), FIXED[:2]),
    Case("broadcast_to", lambda x: tl.broadcast_to(x, 2, *x.shape),
         lambda x: np.broadcast_to(x, (2, *x.shape))),
    Case("cat", lambda x, y: (tl.cat(x, y), tl.cat(x, y, dim=-1)),
         lambda x, y: (np.concatenate([x, y]), np.concatenate([x, y], -1)), TWO, TILES),
    Case("join", tl.join, lambda x, y: np.stack([x, y], -1), TWO),
    Case("split", tl.split, lambda x: (x[..., 0], x[..., 1]),
         (Operand(shape=lambda s: (*s, 2)),)),
    Case("interleave", tl.interleave, _interleaved, TWO, TILES),
    Case("flip", lambda x: (tl.flip(x), tl.flip(x, 0)),
         lambda x: (np.flip(x, -1), np.flip(x, 0)), layouts=AXES),
    Case("swizzle2d", lambda i, j: tl.swizzle2d(i, j, 5, 4, 2), _swizzled,
         (Operand(0, 4, i32), Operand(0, 3, i32)), dtypes=(i32,)),
)  # fmt: skip

# --- types ---

TARGETS = (bool_, i8, i32, u8, f16, bf16, f32, f64)


def converted(x: Array, dtype: DType) -> Array:
    """Round to nearest even; cut towards zero and saturate from floats to integers."""
    if not dtype.is_int or x.dtype.kind in "biu":
        return x != 0 if dtype.is_bool else x.astype(dtype.numpy)
    whole = np.trunc(np.where(np.isnan(x), 0, x))
    bounded = np.clip(whole, float(dtype.min), float(dtype.max))
    return bounded.astype(dtype.numpy)


def _bits(x: tl.Tile) -> tl.Tile:
    names = {1: "u8", 8: "u8", 16: "u16", 32: "u32", 64: "u64"}
    return x.to(names[x.dtype.bits], bitcast=True).to(x.dtype, bitcast=True)


TYPES = (
    Case("cast", lambda x: tuple(tl.cast(x, t) for t in TARGETS),
         lambda x: tuple(converted(x, t) for t in TARGETS), (Operand(-300, 300),), units=0.5),
    Case("cast bits", _bits, lambda x: x, dtypes=(*INTEGERS, *NARROW, *FLOATS)),
    Case("full", lambda x: tl.full((3, 2), 1, x.dtype), lambda x: np.full((3, 2), 1)),
    Case("zeros", lambda x: tl.zeros(x.shape, x.dtype), np.zeros_like),
    Case("zeros_like", tl.zeros_like, np.zeros_like),
    Case("to_tensor", lambda x: tl.where(x == x, tl.to_tensor(1), 0),
         lambda x: np.where(x == x, 1, 0)),
    Case("block_type",
         lambda x: tl.full((), x.type == tl.block_type(x.dtype, x.shape), tl.int1),
         lambda x: True, layouts=TILES),
    Case("dtype", lambda x: tl.full((), isinstance(x.dtype, tl.dtype), tl.int1), lambda x: True),
    Case("tensor", lambda x: tl.full((), isinstance(x, tl.tensor), tl.int1), lambda x: True),
    Case("Tile", lambda x: tl.Tile(x.value) + 0, lambda x: x + 0, dtypes=NUMBERS),
    Case("tile", lambda x: tl.tile(x) * 1, lambda x: x * 1, dtypes=NUMBERS),
)  # fmt: skip

# --- reductions ---


def _over(function: Callable[..., Any]) -> Callable[..., Any]:
    """Reduce everything, then the first axis and the last, with the axis kept."""

    def body(x: Any) -> tuple[Any, ...]:
        found = [function(x, None)]
        if x.shape:
            found += [function(x, 0), function(x, -1, keep_dims=True)]
        return tuple(found)

    return body


def _axes(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    def reference(x: Array) -> tuple[Any, ...]:
        x = np.asarray(x)
        found = [function(x, axis=None, **options)]
        if x.shape:
            found += [function(x, axis=0, **options)]
            found += [np.expand_dims(function(x, axis=-1, **options), -1)]
        return tuple(found)

    return reference


def _widen(x: Array) -> Array:
    """Bools and small integers are summed in 32 bits."""
    if x.dtype.kind in "iub" and x.dtype.itemsize < 4:
        return x.astype(np.uint32 if x.dtype.kind == "u" else np.int32)
    return x


def _folded(ufunc: np.ufunc, widen: bool = True) -> Callable[..., Any]:
    def function(x: Array, axis: int | None) -> Array:
        source = _widen(x) if widen else x
        return np.asarray(ufunc.reduce(source, axis=axis, dtype=source.dtype))

    return _axes(function)


def _pairs(x: Any) -> tuple[Any, ...]:
    """The largest element and its place, found by a function."""

    def larger(a: Any, i: Any, b: Any, j: Any) -> tuple[Any, Any]:
        keep = a >= b
        return tl.where(keep, a, b), tl.where(keep, i, j)

    places = tl.broadcast_to(tl.arange(0, x.shape[-1]), *x.shape)
    return tl.reduce((x, places), -1, larger)


def _with_place(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: function(x, -1, return_indices=True)


REDUCTIONS = (
    Case("sum", _over(tl.sum), _folded(np.add), units=2, of_largest=True,
         layouts=(*TILES, Layout(())), dtypes=(bool_, *NUMBERS)),
    Case("prod", _over(tl.prod), _folded(np.multiply), (Operand(0.5, 1.5),), (*TILES, Layout(())),
         (bool_, *NUMBERS), 4),
    Case("max", _over(tl.max), _folded(np.maximum)),
    Case("min", _over(tl.min), _folded(np.minimum)),
    Case("max with its place", _with_place(tl.max),
         lambda x: (_widen(x).max(-1), np.argmax(x, -1)), layouts=AXES),
    Case("min with its place", _with_place(tl.min),
         lambda x: (_widen(x).min(-1), np.argmin(x, -1)), layouts=AXES),
    Case("argmax", _over(tl.argmax), _axes(np.argmax), layouts=AXES),
    Case("argmin", _over(tl.argmin), _axes(np.argmin), layouts=AXES),
    Case("xor_sum", _over(tl.xor_sum), _folded(np.bitwise_xor, widen=False), layouts=AXES),
    Case("reduce_or", _over(tl.reduce_or), _folded(np.bitwise_or, widen=False), layouts=AXES),
    Case("reduce", _over(lambda x, axis, **kept: tl.reduce(x, axis, tl.add, **kept)),
         _folded(np.add, widen=False), layouts=TILES, dtypes=NUMBERS, units=4, of_largest=True),
    Case("reduce two", _pairs, lambda x: (x.max(-1), np.argmax(x, -1)), layouts=TILES),
    Case("softmax", tl.softmax,
         lambda x: np.exp(x - x.max(0)) / np.exp(x - x.max(0)).sum(0), layouts=TILES,
         dtypes=FLOATS, units=4, of_largest=True),
)  # fmt: skip

# --- scans and order ---


def _both_ways(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: (function(x, 0), function(x, len(x.shape) - 1, reverse=True))


def _scanned(ufunc: np.ufunc, widen: bool = True) -> Callable[..., Any]:
    def reference(x: Array) -> tuple[Array, Array]:
        source = _widen(x) if widen else x
        kind = source.dtype
        backwards = ufunc.accumulate(np.flip(source, -1), axis=-1, dtype=kind)
        return ufunc.accumulate(source, axis=0, dtype=kind), np.flip(backwards, -1)

    return reference


def _largest(x: Any, axis: int, **options: Any) -> Any:
    return tl.associative_scan(x, axis, tl.maximum, **options)


def _recurrence(x: Any, y: Any) -> Any:
    """x[i] is what is kept of the state before, y[i] what is added."""

    def then(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
        return a * c, b * c + d

    return tl.associative_scan((x, y), 0, then)


def _steps(x: Array, y: Array) -> tuple[Array, Array]:
    kept, state = np.ones_like(x[0]), np.zeros_like(y[0])
    found = []
    for factor, term in zip(x, y, strict=True):
        kept, state = kept * factor, state * factor + term
        found.append((kept, state))
    return np.stack([a for a, _ in found]), np.stack([b for _, b in found])


def _top(x: Array) -> Array:
    ordered = np.flip(np.sort(x, -1), -1)
    return ordered[..., :1]


def _index(shape: Shape) -> Shape:
    return (*shape[:-1], 6)


SCANS = (
    Case("cumsum", _both_ways(tl.cumsum), _scanned(np.add), layouts=TILES,
         dtypes=(bool_, *NUMBERS), units=4, of_largest=True),
    Case("cumprod", _both_ways(tl.cumprod), _scanned(np.multiply), (Operand(0.5, 1.5),), TILES,
         (bool_, *NUMBERS), 8),
    Case("associative_scan", _both_ways(_largest), _scanned(np.fmax, widen=False),
         layouts=AXES, dtypes=NUMBERS),
    Case("associative_scan two", _recurrence, _steps, (Operand(0.2, 1), Operand()), TILES,
         (*INTEGERS, f32, f64), 8, of_largest=True),
    Case("sort", lambda x: (tl.sort(x), tl.sort(x, 0, descending=True)),
         lambda x: (np.sort(x, -1), np.flip(np.sort(x, 0), 0)), layouts=AXES),
    Case("topk", lambda x: tl.topk(x, 1), _top, layouts=AXES),
    Case("bitonic_merge", tl.bitonic_merge, lambda x: np.sort(x, -1), layouts=TILES),
    Case("gather", lambda x, i: tl.gather(x, i, -1),
         lambda x, i: np.take_along_axis(x, i.astype(np.int64), -1),
         (Operand(), Operand(0, 2, i32, _index)), (PLAIN_ROW, MATRIX)),
    Case("histogram", lambda x: tl.histogram(x, 5),
         lambda x: np.bincount(x[(x >= 0) & (x < 5)].ravel().astype(int), minlength=5),
         layouts=TILES),
)  # fmt: skip

# --- products ---

FORMATS = {"f8e4m3": "e4m3", "f8e5m2": "e5m2", "bf16": "bf16", "f16": "fp16"}


def _product(x: Array, y: Array) -> Array:
    wide = (v.astype(np.int64) if v.dtype.kind in "iu" else v for v in (x, y))
    return functools.reduce(np.matmul, wide)


def _right(shape: Shape) -> Shape:
    return (*shape[:-2], shape[-1], 4)


def _by_scales(x: Any, scale: Any, y: Any) -> Any:
    form = FORMATS[str(x.dtype)]
    return tl.dot_scaled(x, scale, form, y, None, form)


def _scaled(x: Array, scale: Array, y: Array) -> Array:
    factors = np.repeat(2.0 ** (scale.astype(int) - 127), 32, 1)
    return (x * factors) @ y


PRODUCTS = (
    Case("dot", tl.dot, _product, (Operand(), Operand(shape=_right)), (MATRIX, CUBE), units=8,
         of_largest=True),
    Case("dot and add", lambda x, y, z: tl.dot(x, y, acc=z), lambda x, y, z: _product(x, y) + z,
         (Operand(), Operand(shape=_right), Operand(dtype=f32, shape=lambda s: (*s[:-1], 4))),
         (MATRIX, CUBE), FLOATS[:3], 8, of_largest=True),
    Case("dot_scaled", _by_scales, _scaled,
         (Operand(-1, 1), Operand(120, 130, u8, lambda s: (s[0], 1)),
          Operand(-1, 1, shape=lambda s: (32, 4))),
         (Layout((5, 32)),), (f8e4m3, f8e5m2, f16, bf16), 8, of_largest=True),
)  # fmt: skip
