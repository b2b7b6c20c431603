"""Moving the elements of tensors: shapes, axes, joining and splitting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from teeny_core import ops
from teeny_core import shape as shapes
from teeny_core.errors import ShapeError
from teeny_core.graph import Node
from teeny_core.shape import Dim, Shape
from teeny_core.tensor import core
from teeny_core.tensor.core import Axes, Core, Scalar

if TYPE_CHECKING:
    from teeny_core.tensor.base import AnyTensor


class Movement(Core):
    """Movement of elements."""

    __slots__ = ()

    def reshape(self, *shape: Dim | Sequence[Dim]) -> AnyTensor:
        """Return the elements, in row-major order, in another shape; one extent may be -1.

        Raises:
            ShapeError: when the numbers of elements differ.
        """
        return self._wrap(core.reshape(self._node, infer_extent(self.shape, flat(shape))))

    def view(self, *shape: Dim | Sequence[Dim]) -> AnyTensor:
        """Return `reshape(*shape)`."""
        return self.reshape(*shape)

    def flatten(self, start: int = 0, end: int = -1) -> AnyTensor:
        """Return the tensor with the axes from `start` to `end` merged into one."""
        if self.ndim == 0:
            return self.reshape(1)
        first, last = (core.normalize_axis(axis, self.ndim) for axis in (start, end))
        if first > last:
            raise ShapeError(f"flatten from axis {first} to {last}", hint="start comes before end")
        merged = shapes.numel(self.shape[first : last + 1])
        return self.reshape(*self.shape[:first], merged, *self.shape[last + 1 :])

    def unflatten(self, axis: int, extents: Sequence[Dim]) -> AnyTensor:
        """Return the tensor with one axis split into several; one extent may be -1."""
        place = core.normalize_axis(axis, self.ndim)
        split = infer_extent((self.shape[place],), tuple(extents))
        return self.reshape(*self.shape[:place], *split, *self.shape[place + 1 :])

    def squeeze(self, axis: Axes = None) -> AnyTensor:
        """Return the tensor without axes of extent 1: all of them, or those of `axis`.

        Raises:
            ShapeError: when an axis named has another extent.
        """
        axes = core.normalize_axes(axis, self.ndim)
        dropped = [i for i in axes if self.shape[i] == 1]
        if axis is not None and len(dropped) != len(axes):
            raise ShapeError(
                f"squeeze({axis}) of {self.type}: the extent is not 1", hint="use reshape or index"
            )
        return self.reshape(*(n for i, n in enumerate(self.shape) if i not in dropped))

    def unsqueeze(self, axis: int) -> AnyTensor:
        """Return the tensor with a new axis of extent 1 at `axis`."""
        place = core.normalize_axis(axis, self.ndim + 1)
        return self.reshape(*self.shape[:place], 1, *self.shape[place:])

    def permute(self, *axes: int | Sequence[int]) -> AnyTensor:
        """Return the tensor with its axes in the order given."""
        listed: tuple[int, ...] = flat(axes)  # type: ignore[assignment]
        order = tuple(core.normalize_axis(axis, self.ndim) for axis in listed)
        return self._wrap(permute(self._node, order))

    def transpose(self, axis0: int = -2, axis1: int = -1) -> AnyTensor:
        """Return the tensor with two axes swapped, the last two unless others are named."""
        order = list(range(self.ndim))
        a, b = (core.normalize_axis(axis, self.ndim) for axis in (axis0, axis1))
        order[a], order[b] = order[b], order[a]
        return self.permute(*order)

    @property
    def T(self) -> AnyTensor:  # noqa: N802
        """The tensor with its axes reversed."""
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self) -> AnyTensor:  # noqa: N802
        """The tensor with its last two axes swapped."""
        return self.transpose()

    def movedim(self, source: int, destination: int) -> AnyTensor:
        """Return the tensor with one axis moved to another place."""
        a, b = (core.normalize_axis(axis, self.ndim) for axis in (source, destination))
        order = [axis for axis in range(self.ndim) if axis != a]
        order.insert(b, a)
        return self.permute(*order)

    def broadcast_to(self, *shape: Dim | Sequence[Dim]) -> AnyTensor:
        """Return the tensor repeated along axes of extent 1 and along new leading axes."""
        return self._wrap(core.expand(self._node, flat(shape)))

    def expand(self, *shape: Dim | Sequence[Dim]) -> AnyTensor:
        """Return `broadcast_to`, where -1 keeps the extent of an axis."""
        wanted = flat(shape)
        lead = len(wanted) - self.ndim
        kept = (self.shape[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(wanted))
        return self.broadcast_to(tuple(kept))

    def flip(self, axis: Axes = None) -> AnyTensor:
        """Return the tensor reversed along `axis`, several axes, or all."""
        axes = core.normalize_axes(axis, self.ndim)
        return self._wrap(ops.flip(self._node, axes) if axes else self._node)

    def pad(self, widths: Sequence[tuple[Dim, Dim]], value: Scalar = 0) -> AnyTensor:
        """Return the tensor with `value` around it: one pair (before, after) for each axis."""
        if len(widths) != self.ndim:
            raise ShapeError(
                f"pad got {len(widths)} pairs for {self.type}", hint="give one pair for each axis"
            )
        low, high = (tuple(pair[i] for pair in widths) for i in (0, 1))
        return self._wrap(ops.pad(self._node, low, high, value))

    def roll(self, shift: int, axis: int) -> AnyTensor:
        """Return the tensor with elements moved by `shift` along `axis`, around the end."""
        place = core.normalize_axis(axis, self.ndim)
        extent = self.shape[place]
        if extent == 0:
            return self._wrap(self._node)
        cut = -shift % extent
        head, tail = narrow(self._node, place, 0, cut), narrow(self._node, place, cut, extent)
        return self._wrap(ops.concat((tail, head), place))

    def repeat(self, *times: int | Sequence[int]) -> AnyTensor:
        """Return the tensor tiled `times` along each axis, new ones in front."""
        counts: tuple[int, ...] = flat(times)  # type: ignore[assignment]
        shape = (1,) * (len(counts) - self.ndim) + self.shape
        pairs = tuple(part for n in shape for part in (1, n))
        tiled = tuple(part for n, count in zip(shape, counts, strict=True) for part in (count, n))
        total = tuple(n * count for n, count in zip(shape, counts, strict=True))
        return self.reshape(*pairs).broadcast_to(tiled).reshape(*total)

    def repeat_interleave(self, times: int, axis: int) -> AnyTensor:
        """Return the tensor with each slice along `axis` repeated `times`."""
        place = core.normalize_axis(axis, self.ndim)
        before, extent, after = self.shape[:place], self.shape[place], self.shape[place + 1 :]
        column = self.reshape(*before, extent, 1, *after)
        spread = column.broadcast_to((*before, extent, times, *after))
        return spread.reshape(*before, extent * times, *after)

    def narrow(self, axis: int, start: Dim, length: Dim) -> AnyTensor:
        """Return `length` elements along `axis` from `start`."""
        place = core.normalize_axis(axis, self.ndim)
        return self._wrap(narrow(self._node, place, start, start + length))

    def split(self, size: int | Sequence[int], axis: int = 0) -> tuple[AnyTensor, ...]:
        """Return pieces along `axis`: of `size` each (the last may be smaller), or of the sizes.

        Raises:
            ShapeError: when the axis is symbolic, or the sizes do not add up to its extent.
        """
        place = core.normalize_axis(axis, self.ndim)
        extent = self.shape[place]
        if not isinstance(extent, int):
            raise ShapeError(f"split along the symbolic extent {extent}", hint="use narrow")
        sizes = _pieces(extent, size) if isinstance(size, int) else list(size)
        if sum(sizes) != extent:
            raise ShapeError(f"sizes {sizes} do not add up to {extent}", hint="cover the axis")
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        return tuple(self.narrow(place, start, n) for start, n in zip(starts, sizes, strict=True))

    def chunk(self, count: int, axis: int = 0) -> tuple[AnyTensor, ...]:
        """Return at most `count` pieces of one size along `axis`; the last may be smaller.

        Raises:
            ShapeError: when the axis is symbolic and `count` is not proven to divide it.
        """
        extent = self.shape[core.normalize_axis(axis, self.ndim)]
        if isinstance(extent, int):
            return self.split(max(-(-extent // count), 1), axis)
        if not shapes.divides(count, extent):
            raise ShapeError(f"cannot cut {extent} into {count} equal pieces", hint="use narrow")
        piece = extent // count
        return tuple(self.narrow(axis, i * piece, piece) for i in range(count))


def _pieces(extent: int, size: int) -> list[int]:
    if size < 1:
        raise ShapeError(f"pieces of {size} elements", hint="the size is 1 or more")
    return [min(size, extent - start) for start in range(0, extent, size)] or [0]


def flat(values: Sequence[Dim | Sequence[Dim]]) -> Shape:
    """Return f(1, 2) and f((1, 2)) alike as (1, 2)."""
    if len(values) == 1 and isinstance(values[0], Sequence):
        return tuple(values[0])
    return tuple(values)  # type: ignore[arg-type]


def infer_extent(old: Shape, new: Shape) -> Shape:
    """Return a new shape with its -1 replaced.

    Raises:
        ShapeError: when there are several, or the rest does not divide the number of elements.
    """
    unknown = [axis for axis, extent in enumerate(new) if extent == -1]
    if not unknown:
        return new
    known = shapes.numel(extent for extent in new if extent != -1)
    total = shapes.numel(old)
    if len(unknown) > 1 or known == 0 or not shapes.equal(total // known * known, total):
        raise ShapeError(
            f"cannot infer -1 in reshape of {shapes.text(old)} to {shapes.text(new)}",
            hint="one -1 at most, and the other extents divide the number of elements",
        )
    return tuple(total // known if extent == -1 else extent for extent in new)


def permute(node: Node, order: tuple[int, ...]) -> Node:
    """Permute a node where the order changes."""
    return node if order == tuple(range(len(node.shape))) else ops.permute(node, order)


def narrow(node: Node, axis: int, start: Dim, limit: Dim) -> Node:
    """Slice a node along one axis."""
    rank = len(node.shape)
    starts = tuple(start if i == axis else 0 for i in range(rank))
    limits = tuple(limit if i == axis else node.shape[i] for i in range(rank))
    return ops.slice(node, starts, limits, (1,) * rank)
