"""Making tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from teeny_core import ops
from teeny_core import shape as shapes
from teeny_core.dtype import DType, DTypeLike, f32, i64
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import OpError, ShapeError
from teeny_core.graph import Node
from teeny_core.shape import Dim
from teeny_core.tensor import AnyTensor, SymTensor, Tensor, core
from teeny_core.tensor.core import Scalar
from teeny_core.tensor.movement import flat


def tensor(data: Any, dtype: DTypeLike | None = None) -> Tensor:
    """Return a tensor of the values of `data`: see `Tensor`."""
    return Tensor(data, dtype)


def from_dlpack(data: Any) -> Tensor:
    """Return a tensor that shares the memory of an array with `__dlpack__`, in host memory."""
    return Tensor.from_array(np.from_dlpack(data))


def full(shape: Sequence[Dim], value: Scalar, dtype: DTypeLike | None = None) -> AnyTensor:
    """Return a tensor that is `value` everywhere; symbolic where the shape is.

    Without a dtype a float makes f32, an integer i64, a bool bool.
    """
    target = _type_of(value) if dtype is None else to_dtype(dtype)
    return _wrap(ops.full(tuple(shape), value, target))


def zeros(*shape: Dim | Sequence[Dim], dtype: DTypeLike = f32) -> AnyTensor:
    """Return zeros, of extents or of one shape; symbolic where the shape is."""
    return full(flat(shape), 0, dtype)


def ones(*shape: Dim | Sequence[Dim], dtype: DTypeLike = f32) -> AnyTensor:
    """Return ones, of extents or of one shape; symbolic where the shape is."""
    return full(flat(shape), 1, dtype)


def full_like(x: AnyTensor, value: Scalar, dtype: DTypeLike | None = None) -> AnyTensor:
    """Return `value` everywhere, in the shape of x, and in its type unless another is given."""
    return full(x.shape, value, x.dtype if dtype is None else dtype)


def zeros_like(x: AnyTensor, dtype: DTypeLike | None = None) -> AnyTensor:
    """Return zeros of the shape of x, and of its type unless another is given."""
    return full_like(x, 0, dtype)


def ones_like(x: AnyTensor, dtype: DTypeLike | None = None) -> AnyTensor:
    """Return ones of the shape of x, and of its type unless another is given."""
    return full_like(x, 1, dtype)


def arange(
    start: Dim, stop: Dim | None = None, step: int = 1, *, dtype: DTypeLike = i64
) -> AnyTensor:
    """Return start, start + step, … before stop; from 0 where only one bound is given.

    Raises:
        OpError: when the step is 0.
    """
    if step == 0:
        raise OpError("arange with step 0", hint="use another step")
    first, last = (0, start) if stop is None else (start, stop)
    way = last - first if step > 0 else first - last
    count = shapes.maximum(shapes.ceildiv(way, abs(step)), 0)
    node = ops.iota((count,), 0, i64)
    if step != 1:
        node = ops.mul(node, ops.like(node, step))
    if first != 0:
        node = ops.add(node, core.expand(core.scalar(first, i64), node.shape))
    return _wrap(core.cast(node, to_dtype(dtype)))


def linspace(start: float, stop: float, count: int, *, dtype: DTypeLike = f32) -> Tensor:
    """Return `count` values from start to stop, both among them, at equal distances."""
    return Tensor(np.linspace(start, stop, count), dtype)


def eye(rows: Dim, columns: Dim | None = None, *, dtype: DTypeLike = f32) -> AnyTensor:
    """Return a matrix with ones where row and column are equal, else zeros."""
    shape = rows, rows if columns is None else columns
    same = ops.eq(ops.iota(shape, 0, i64), ops.iota(shape, 1, i64))
    return _wrap(ops.cast(same, to_dtype(dtype)))


def one_hot(index: AnyTensor, classes: int, *, dtype: DTypeLike = f32) -> AnyTensor:
    """Return [*index.shape, classes]: one at the place given, zeros else; no place, all zeros."""
    shape = (*index.shape, classes)
    places = ops.iota(shape, len(shape) - 1, index.dtype)
    spread = index.unsqueeze(-1).broadcast_to(shape)
    return index._result(ops.cast(ops.eq(spread.node, places), to_dtype(dtype)))


def tril(x: AnyTensor, diagonal: int = 0) -> AnyTensor:
    """Return matrices (..., M, N) with zeros above a diagonal, counted upwards from the main one.

    Raises:
        ShapeError: x has fewer than two axes.
    """
    return _triangle(x, lambda row, column: ops.le(column, row), diagonal)


def triu(x: AnyTensor, diagonal: int = 0) -> AnyTensor:
    """Return matrices (..., M, N) with zeros below a diagonal, counted upwards from the main one.

    Raises:
        ShapeError: x has fewer than two axes.
    """
    return _triangle(x, lambda row, column: ops.ge(column, row), diagonal)


def _triangle(x: AnyTensor, keeps: Callable[[Node, Node], Node], diagonal: int) -> AnyTensor:
    if x.ndim < 2:
        raise ShapeError(f"a triangle of {x.type}", hint="matrices have two axes")
    row = ops.iota(x.shape, x.ndim - 2, i64)
    column = ops.iota(x.shape, x.ndim - 1, i64)
    shifted = ops.add(row, ops.like(row, diagonal)) if diagonal else row
    return x._result(ops.where(keeps(shifted, column), x.node, ops.like(x.node, 0)))


def _type_of(value: Scalar) -> DType:
    return core.common_dtype((value,))


def _wrap(node: Node) -> AnyTensor:
    """Return a tensor for a node without inputs: symbolic where its shape is."""
    return SymTensor(node) if shapes.symbols_of(node.shape) else Tensor.from_node(node)
