"""Reductions of tensors, and statistics made from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from teeny_core import ops
from teeny_core import shape as shapes
from teeny_core.dtype import DTypeLike, bool_, f32, u8
from teeny_core.dtype import dtype as to_dtype
from teeny_core.graph import Node
from teeny_core.shape import Dim, Shape
from teeny_core.tensor import core
from teeny_core.tensor.arithmetic import Arithmetic
from teeny_core.tensor.core import Axes

if TYPE_CHECKING:
    from teeny_core.tensor.base import AnyTensor


def fold(
    node: Node, make: Callable[[Node, tuple[int, ...]], Node], axes: Axes, keepdims: bool
) -> Node:
    """Reduce a node over axes given in any form, keeping them with extent 1 where asked."""
    folded = core.normalize_axes(axes, len(node.shape))
    result = make(node, folded)
    if not keepdims:
        return result
    kept = tuple(1 if axis in folded else extent for axis, extent in enumerate(node.shape))
    return core.reshape(result, kept)


class Reductions(Arithmetic):
    """Reductions and statistics. `axis` is an axis, several, or None for all."""

    __slots__ = ()

    def sum(
        self, axis: Axes = None, keepdims: bool = False, *, dtype: DTypeLike | None = None
    ) -> AnyTensor:
        """Return the sum; integers and bools give i64, narrow floats accumulate in f32."""
        node = self._node if dtype is None else core.cast(self._node, to_dtype(dtype))
        return self._wrap(fold(node, ops.sum, axis, keepdims))

    def prod(self, axis: Axes = None, keepdims: bool = False) -> AnyTensor:
        """Return the product; integers and bools give i64, narrow floats accumulate in f32."""
        return self._wrap(fold(self._node, ops.prod, axis, keepdims))

    def max(self, axis: Axes = None, keepdims: bool = False) -> AnyTensor:
        """Return the largest value; NaN where there is one.

        Raises:
            ShapeError: when an axis is empty.
        """
        return (
            self.any(axis, keepdims) if self.dtype.is_bool else self._fold(ops.max, axis, keepdims)
        )

    def min(self, axis: Axes = None, keepdims: bool = False) -> AnyTensor:
        """Return the smallest value; NaN where there is one.

        Raises:
            ShapeError: when an axis is empty.
        """
        return (
            self.all(axis, keepdims) if self.dtype.is_bool else self._fold(ops.min, axis, keepdims)
        )

    def _fold(
        self, make: Callable[[Node, tuple[int, ...]], Node], axis: Axes, keepdims: bool
    ) -> AnyTensor:
        return self._wrap(fold(self._node, make, axis, keepdims))

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> AnyTensor:
        """Return the index (i64) of the first largest value, in the flat tensor for axis None."""
        return self._index(ops.argmax, axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> AnyTensor:
        """Return the index (i64) of the first smallest value, in the flat tensor for axis None."""
        return self._index(ops.argmin, axis, keepdims)

    def _index(
        self, make: Callable[[Node, int], Node], axis: int | None, keepdims: bool
    ) -> AnyTensor:
        node = ops.cast(self._node, u8) if self.dtype.is_bool else self._node
        if axis is None:
            flat = core.reshape(node, (self.size,))
            result = make(flat, 0)
            kept: Shape = (1,) * self.ndim
        else:
            place = core.normalize_axis(axis, self.ndim)
            result = make(node, place)
            kept = (*self.shape[:place], 1, *self.shape[place + 1 :])
        return self._wrap(core.reshape(result, kept) if keepdims else result)

    def any(self, axis: Axes = None, keepdims: bool = False) -> AnyTensor:
        """Return whether any value is not zero (bool); False for none."""
        return self.cast(bool_).sum(axis, keepdims) != 0

    def all(self, axis: Axes = None, keepdims: bool = False) -> AnyTensor:
        """Return whether all values are not zero (bool); True for none."""
        return self.logical_not().sum(axis, keepdims) == 0

    def mean(self, axis: Axes = None, keepdims: bool = False) -> AnyTensor:
        """Return the mean; f32 for integers and bools, without overflow for narrow floats."""
        wide = self._accumulated()
        count = core.scalar(self._count(axis), wide.dtype)
        total = wide.sum(axis, keepdims)
        mean = self._wrap(ops.div(total.node, core.expand(count, total.shape)))
        return mean.cast(self.dtype) if self.dtype.is_float else mean

    def var(self, axis: Axes = None, keepdims: bool = False, *, correction: int = 1) -> AnyTensor:
        """Return the variance in two passes, divided by n - correction."""
        core.check_float(self, "var")
        wide = self._accumulated()
        centred = wide - wide.mean(axis, keepdims=True)
        total = centred.square().sum(axis, keepdims)
        degrees = shapes.maximum(self._count(axis) - correction, 0)
        count = core.scalar(degrees, wide.dtype)
        spread = self._wrap(ops.div(total.node, core.expand(count, total.shape)))
        return spread.cast(self.dtype)

    def std(self, axis: Axes = None, keepdims: bool = False, *, correction: int = 1) -> AnyTensor:
        """Return the square root of the variance."""
        return self.var(axis, keepdims, correction=correction).sqrt()

    def logsumexp(self, axis: Axes = None, keepdims: bool = False) -> AnyTensor:
        """Return log(sum(exp(x))) without overflow."""
        core.check_float(self, "logsumexp")
        wide = self._accumulated()
        top = wide.max(axis, keepdims=True).stop_gradient()
        shift = top.masked_fill(top.isinf(), 0.0)
        total = (wide - shift).exp().sum(axis, keepdims=True).log() + shift
        kept = total if keepdims else self._wrap(_drop(total.node, axis, self.ndim))
        return kept.cast(self.dtype)

    def norm(self, p: float = 2, axis: Axes = None, keepdims: bool = False) -> AnyTensor:
        """Return (sum |x|^p)^(1/p); the largest |x| for p = inf."""
        core.check_float(self, "norm")
        wide = self._accumulated()
        if p == math.inf:
            result = wide.abs().max(axis, keepdims)
        elif p == 2:
            result = wide.square().sum(axis, keepdims).sqrt()
        elif p == 1:
            result = wide.abs().sum(axis, keepdims)
        else:
            result = (wide.abs() ** p).sum(axis, keepdims) ** (1 / p)
        return result.cast(self.dtype)

    def _accumulated(self) -> AnyTensor:
        """Return the tensor in the type in which means and sums of its type are held."""
        return self.cast(self.dtype.accumulator if self.dtype.is_float else f32)

    def _count(self, axis: Axes) -> Dim:
        return shapes.numel(self.shape[i] for i in core.normalize_axes(axis, self.ndim))


def _drop(node: Node, axis: Axes, rank: int) -> Node:
    folded = core.normalize_axes(axis, rank)
    return core.reshape(node, tuple(n for i, n in enumerate(node.shape) if i not in folded))
