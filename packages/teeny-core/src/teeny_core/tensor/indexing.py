"""Indexing of tensors: `x[0, ..., None, 1:-1:2, index]`.

Integers, slices with steps of either sign, None, `...`, and integer tensors on adjacent axes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from teeny_core import ops
from teeny_core import shape as shapes
from teeny_core.dtype import i64
from teeny_core.errors import IndexingError
from teeny_core.graph import Node
from teeny_core.shape import Dim, Expr
from teeny_core.tensor import core
from teeny_core.tensor.core import Core
from teeny_core.tensor.movement import Movement

if TYPE_CHECKING:
    from teeny_core.tensor.base import AnyTensor

Index: TypeAlias = Any  # an item, or a tuple of them: int, slice, None, ..., integer tensor


@dataclass(frozen=True)
class _Cut:
    """A positive slice of one axis, then reversed where `flipped`, then dropped where `dropped`."""

    start: Dim
    limit: Dim
    step: int = 1
    flipped: bool = False
    dropped: bool = False


class Indexing(Movement):
    """Indexing and gathering."""

    __slots__ = ()

    def __getitem__(self, index: Index) -> AnyTensor:
        """Return the elements that an index selects, as in NumPy.

        Raises:
            IndexingError: when an index is out of range, or of a kind that does not exist.
        """
        items = self._complete(index if isinstance(index, tuple) else (index,))
        axes = _axes(items)
        cuts = [
            _cut(item, axis, self.shape[axis])
            for item, axis in zip(items, axes, strict=True)
            if item is not None
        ]
        node = _flipped(_sliced(self._node, cuts), cuts)
        kept = iter(extent for extent, cut in zip(node.shape, cuts, strict=True) if not cut.dropped)
        layout = [1 if item is None else next(kept) for item in items if not _is_scalar_index(item)]
        result = self._wrap(core.reshape(node, tuple(layout)))
        chosen: list[AnyTensor] = [item for item in items if _is_tensor(item)]
        if not chosen:
            return result
        first = next(
            place
            for place, item in enumerate(i for i in items if not _is_scalar_index(i))
            if _is_tensor(item)
        )
        return result._gather(first, chosen)

    def __setitem__(self, index: Index, value: object) -> NoReturn:
        raise IndexingError(
            "the elements of a tensor do not change in place",
            hint="make a new tensor: mask.where(value, x)",
        )

    def __len__(self) -> int:
        if not self.shape:
            raise IndexingError("a scalar has no length", hint="use x.item()")
        extent = self.shape[0]
        if not isinstance(extent, int):
            raise IndexingError(f"the length is symbolic: {extent}", hint="use x.shape[0]")
        return extent

    def __iter__(self) -> Iterator[AnyTensor]:
        return (self[place] for place in range(len(self)))

    def take(self, index: AnyTensor, axis: int = 0) -> AnyTensor:
        """Return the slices along `axis` at the places in `index`, which lie in [0, n).

        The result has the shape `x.shape[:axis] + index.shape + x.shape[axis + 1:]`.
        """
        place = core.normalize_axis(axis, self.ndim)
        return self._result(ops.take(self._node, index.node, place), index)

    def take_along(self, index: AnyTensor, axis: int) -> AnyTensor:
        """Return along `axis` the elements at the places in `index`, which lie in [0, n).

        `index` has the shape of the tensor but for the extent of `axis`.
        """
        place = core.normalize_axis(axis, self.ndim)
        return self._result(ops.take_along(self._node, index.node, place), index)

    def _complete(self, items: Sequence[Index]) -> list[Index]:
        """Return the items, arrays as tensors, `...` written out, one for each axis and None."""
        found = [self._item(item) for item in items]
        used = sum(item is not None and item is not Ellipsis for item in found)
        if used > self.ndim:
            raise IndexingError(
                f"{used} indices for {self.type}", hint=f"index at most {self.ndim} axes"
            )
        dots = [place for place, item in enumerate(found) if item is Ellipsis]
        if len(dots) > 1:
            raise IndexingError("two `...` in one index", hint="write the other axes as `:`")
        where = dots[0] if dots else len(found)
        rest: list[Index] = [slice(None)] * (self.ndim - used)
        return [*found[:where], *rest, *found[where + 1 :]]

    def _item(self, item: Index) -> Index:
        if item is None or item is Ellipsis or isinstance(item, slice | Expr):
            return item
        if isinstance(item, list | np.ndarray) and np.ndim(item):
            item = self._constant(np.asarray(item))
        if isinstance(item, bool | np.bool_) or (_is_tensor(item) and item.dtype.is_bool):
            raise IndexingError(
                "a bool mask selects a number of elements that is known only when it runs",
                hint="keep the shape: mask.where(x, 0); or select in NumPy: x.numpy()[mask]",
            )
        if _is_tensor(item):
            if not item.dtype.is_int:
                raise IndexingError(
                    f"cannot index with {item.type}", hint="cast it: index.cast(tn.i64)"
                )
            return item
        try:
            return operator.index(item)
        except TypeError:
            raise IndexingError(
                f"cannot index with {type(item).__name__}",
                hint="use integers, slices, None, `...` or an integer tensor",
            ) from None

    def _gather(self, axis: int, indices: Sequence[AnyTensor]) -> AnyTensor:
        """Take from adjacent axes, from `axis` on, at places given by one tensor for each."""
        extents = self.shape[axis : axis + len(indices)]
        shape = core.broadcast_shapes(*(index.shape for index in indices))
        places = [
            _wrapped(index, axis + i, extent)
            for i, (index, extent) in enumerate(zip(indices, extents, strict=True))
        ]
        if len(places) == 1:
            return self._result(ops.take(self._node, places[0], axis), *indices)
        flat = core.expand(core.cast(places[0], i64), shape)
        for place, extent in zip(places[1:], extents[1:], strict=True):
            stride = core.expand(core.scalar(extent, i64), shape)
            offset = core.expand(core.cast(place, i64), shape)
            flat = ops.add(ops.mul(flat, stride), offset)
        merged = (*self.shape[:axis], shapes.numel(extents), *self.shape[axis + len(indices) :])
        return self._result(ops.take(core.reshape(self._node, merged), flat, axis), *indices)


def _is_tensor(item: Index) -> bool:
    return isinstance(item, Core)


def _is_scalar_index(item: Index) -> bool:
    return isinstance(item, int | Expr)


def _axes(items: Sequence[Index]) -> list[int]:
    """Return the axis that each item indexes; that of the next one for None.

    Raises:
        IndexingError: when tensors are apart, where NumPy would move their axes to the front.
    """
    if any(_is_tensor(item) for item in items):
        advanced = [p for p, item in enumerate(items) if isinstance(item, Core | int | Expr)]
        if advanced[-1] - advanced[0] != len(advanced) - 1:
            raise IndexingError(
                "index tensors and integers with slices or None between them",
                hint="index in two steps, or permute the axes to be next to each other",
            )
    axes = []
    axis = 0
    for item in items:
        axes.append(axis)
        axis += item is not None
    return axes


def _cut(item: Index, axis: int, extent: Dim) -> _Cut:
    if _is_tensor(item):
        return _Cut(0, extent)
    if isinstance(item, slice):
        return _slice_cut(item, extent)
    place = extent + item if isinstance(item, int) and item < 0 else item
    if shapes.at_least(-1, place) or shapes.at_least(place, extent):
        raise IndexingError(
            f"index {item} is out of range for axis {axis} with size {extent}",
            hint=f"indices go from {-extent} to {extent - 1}" if extent != 0 else "it is empty",
        )
    return _Cut(place, place + 1, dropped=True)


def _slice_cut(item: slice, extent: Dim) -> _Cut:
    step = 1 if item.step is None else operator.index(item.step)
    if step == 0:
        raise IndexingError("a slice with step 0", hint="use a step of 1 or more, or below 0")
    if step > 0:
        start = _clamped(item.start, 0, extent, low=0, high=extent)
        limit = _clamped(item.stop, extent, extent, low=0, high=extent)
        return _Cut(start, shapes.maximum(limit, start), step)
    start = _clamped(item.start, extent - 1, extent, low=-1, high=extent - 1)
    stop = _clamped(item.stop, -1, extent, low=-1, high=extent - 1)
    count = shapes.maximum(shapes.ceildiv(start - stop, -step), 0)
    if count == 0:
        return _Cut(0, 0)
    lowest = start + (count - 1) * step
    return _Cut(lowest, start + 1, -step, flipped=True)


def _clamped(bound: Any, default: Dim, extent: Dim, *, low: Dim, high: Dim) -> Dim:
    """Return a bound of a slice counted from the front and limited to [low, high]."""
    if bound is None:
        return default
    place: Dim = bound if isinstance(bound, Expr) else operator.index(bound)
    if isinstance(place, int) and place < 0:
        return shapes.maximum(extent + place, low)
    return shapes.minimum(place, high)


def _sliced(node: Node, cuts: Sequence[_Cut]) -> Node:
    whole = all(
        cut.start == 0 and cut.step == 1 and shapes.equal(cut.limit, extent)
        for cut, extent in zip(cuts, node.shape, strict=True)
    )
    if whole:
        return node
    starts, limits = tuple(cut.start for cut in cuts), tuple(cut.limit for cut in cuts)
    return ops.slice(node, starts, limits, tuple(cut.step for cut in cuts))


def _flipped(node: Node, cuts: Sequence[_Cut]) -> Node:
    axes = tuple(axis for axis, cut in enumerate(cuts) if cut.flipped)
    return ops.flip(node, axes) if axes else node


def _wrapped(index: AnyTensor, axis: int, extent: Dim) -> Node:
    """Return places below 0 counted from the end of the axis."""
    if extent == 0 and shapes.numel(index.shape) != 0:
        raise IndexingError(
            f"an index is out of range for axis {axis} with size 0", hint="it is empty"
        )
    node = index.node
    if not node.dtype.is_signed:
        return node
    below = ops.lt(node, ops.like(node, 0))
    size = core.expand(core.cast(core.scalar(extent, i64), node.dtype), node.shape)
    return ops.where(below, ops.add(node, size), node)
