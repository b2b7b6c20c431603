"""Products, embeddings, dropout and pooling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from teeny_core import ops
from teeny_core import shape as shapes
from teeny_core.dtype import DTypeLike, f32, i64
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import DTypeError, OpError, ShapeError
from teeny_core.shape import Dim
from teeny_core.tensor import AnyTensor

BAGS: Mapping[str, Callable[[AnyTensor], AnyTensor]] = MappingProxyType(
    {"sum": lambda x: x.sum(1), "mean": lambda x: x.mean(1), "max": lambda x: x.max(1)}
)


def linear(x: AnyTensor, weight: AnyTensor, bias: AnyTensor | None = None) -> AnyTensor:
    """Return x·weightᵀ + bias for x (..., I), weight (O, I) and bias (O,).

    Raises:
        ShapeError: the last axis of `x` is not the last of `weight`.
    """
    if not x.ndim or not shapes.equal(x.shape[-1], weight.shape[-1]):
        raise ShapeError(
            f"linear: x is {x.type}, the weight {weight.type}",
            hint="the last axis of x is that of the weight; flatten images first",
        )
    product = x.matmul(weight, transpose_b=True)
    return product if bias is None else product + bias


def embedding(index: AnyTensor, weight: AnyTensor, padding_idx: int | None = None) -> AnyTensor:
    """Return the rows of `weight` (V, E) at `index` (...), integers: (..., E).

    The row `padding_idx` gets no gradient.

    Raises:
        DTypeError: `index` does not hold integers.
    """
    if not index.dtype.is_int:
        raise DTypeError(f"embedding of {index.type}", hint="cast the index to i64")
    rows = weight[index]
    if padding_idx is None:
        return rows
    padding = (index == padding_idx).unsqueeze(-1)
    return padding.where(rows.stop_gradient(), rows)


def embedding_bag(
    index: AnyTensor,
    weight: AnyTensor,
    mode: str = "mean",
    per_sample_weights: AnyTensor | None = None,
) -> AnyTensor:
    """Return the rows of `weight` (V, E) at `index` (N, B), integers, reduced over B: (N, E).

    Args:
        index: as many rows for each bag.
        weight: the rows.
        mode: "sum", "mean" or "max".
        per_sample_weights: (N, B), factors of the rows of a sum.

    Raises:
        OpError: there is no such mode, or it takes no factors.
        ShapeError: `index` has not two axes.
    """
    if mode not in BAGS:
        raise OpError(f"embedding_bag: mode = {mode!r}", hint=f"choose from {', '.join(BAGS)}")
    if index.ndim != 2:
        raise ShapeError(f"embedding_bag of {index.type}", hint="give two axes: (bags, rows)")
    rows = embedding(index, weight)
    if per_sample_weights is not None:
        if mode != "sum":
            raise OpError(f"embedding_bag: factors of a {mode}", hint="they need mode='sum'")
        rows = rows * per_sample_weights.unsqueeze(-1)
    return BAGS[mode](rows)


def one_hot(index: AnyTensor, classes: int, dtype: DTypeLike = f32) -> AnyTensor:
    """Return (..., classes) with 1 where the class is `index` (...), 0 elsewhere."""
    return is_class(index, classes, -1).cast(to_dtype(dtype))


def is_class(index: AnyTensor, classes: Dim, axis: int) -> AnyTensor:
    """Return bools with a new `axis` of `classes`: whether `index` is the class there."""
    wide = index.cast(i64).unsqueeze(axis)
    place = axis % wide.ndim
    shape = (*wide.shape[:place], classes, *wide.shape[place + 1 :])
    return wide == wide._wrap(ops.iota(shape, place, i64))


def adaptive_avg_pool2d(x: AnyTensor, output: int | tuple[int, int]) -> AnyTensor:
    """Return the means of images (N, C, H, W) over a grid of `output` equal windows.

    Raises:
        ShapeError: the extents of the image are no multiples of those of the grid.
    """
    rows, columns = (output, output) if isinstance(output, int) else output
    if (rows, columns) == (1, 1):
        return x.mean((-2, -1), keepdims=True)
    height, width = x.shape[-2:]
    if not (shapes.divides(rows, height) and shapes.divides(columns, width)):
        raise ShapeError(
            f"adaptive_avg_pool2d of {x.type} to {rows} x {columns}: windows would differ in size",
            hint="choose an output that divides the image, or resize the image",
        )
    grid = x.unflatten(-2, (rows, height // rows)).unflatten(-1, (columns, width // columns))
    return grid.mean((-3, -1))
