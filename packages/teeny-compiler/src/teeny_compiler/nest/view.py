"""Strided views: how an index space reads a row-major buffer, movement ops without copies.

A `View` maps an index of its logical `shape` to an element `offset + Σ strides·index` of a
buffer. Each logical axis is a product of zero or more *factors* (an extent with its stride), so
that merging axes never fails; only slicing, flipping or padding an axis of several factors, or
splitting across factors that do not divide, is inexpressible and returns None.

Guards say where the elements exist: outside of them (padding) the buffer must not be read.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from teeny_core import Dim, Shape, equal, numel
from teeny_core import shape as shapes


@dataclass(frozen=True)
class Guard:
    """`0 <= offset + Σ strides·index < limit`, over the factors of a view."""

    strides: Shape
    offset: Dim
    limit: Dim


@dataclass(frozen=True)
class View:
    """An affine map from a logical index to an element number.

    `extents` and `strides` are those of the factors; axis `k` is made of the next `axes[k]`
    factors, in row-major order.
    """

    extents: Shape
    strides: Shape
    axes: tuple[int, ...]
    offset: Dim = 0
    guards: tuple[Guard, ...] = ()

    @cached_property
    def _hash(self) -> int:
        return hash((self.extents, self.strides, self.axes, self.offset, self.guards))

    def __hash__(self) -> int:
        return self._hash

    @staticmethod
    def contiguous(shape: Shape) -> View:
        """Return the row-major view of a buffer of `shape`."""
        return _contiguous(shape)

    @staticmethod
    def strided(shape: Shape, strides: Shape, offset: Dim = 0) -> View:
        """Return a view with one factor for each axis."""
        return View(shape, strides, (1,) * len(shape), offset).simplified()

    @property
    def shape(self) -> Shape:
        """The logical shape."""
        return tuple(numel(self.extents[a:b]) for a, b in self.spans)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """For each axis, the range of its factors."""
        return spans(self.axes)

    def simplified(self) -> View:
        """Return the equal view without factors of extent 1 and with factors joined."""
        return _simplified(self)

    # --- movement ops: each returns the view of the op's result -------------------------------

    def permute(self, axes: Sequence[int]) -> View:
        """Reorder the logical axes."""
        order = [i for axis in axes for i in range(*self.spans[axis])]
        view = _reordered(self, order)
        return replace(view, axes=tuple(self.axes[axis] for axis in axes))

    def broadcast(self, shape: Shape) -> View:
        """Repeat axes of extent 1, after adding leading ones, up to `shape`."""
        view = self.simplified()
        view = view.reaxed((0,) * (len(shape) - len(view.axes)) + view.axes)
        for axis, (old, new) in enumerate(zip(view.shape, shape, strict=True)):
            if not equal(old, new):
                view = _insert_factor(view, axis, new)
        return view

    def slice(self, starts: Shape, limits: Shape, steps: Sequence[int]) -> View | None:
        """Keep `start, start + step, …` below `limit` of each axis."""
        view: View | None = self
        for axis, (start, limit, step) in enumerate(zip(starts, limits, steps, strict=True)):
            extent = (limit - start + step - 1) // step
            if equal(start, 0) and step == 1 and equal(extent, self.shape[axis]):
                continue
            view = None if view is None else _affine_axis(view, axis, start, step, extent)
        return view

    def flip(self, axes: Sequence[int]) -> View | None:
        """Reverse some axes."""
        view: View | None = self
        for axis in axes:
            extent = self.shape[axis]
            view = None if view is None else _affine_axis(view, axis, extent - 1, -1, extent)
        return view

    def pad(self, low: Shape, high: Shape) -> View | None:
        """Add `low` and `high` positions that do not exist at the ends of each axis."""
        view: View | None = self
        for axis, (before, after) in enumerate(zip(low, high, strict=True)):
            if (equal(before, 0) and equal(after, 0)) or view is None:
                continue
            inner = self.shape[axis]
            view = _affine_axis(view, axis, -before, 1, before + inner + after, limit=inner)
        return view

    def reshape(self, shape: Shape) -> View | None:
        """Read the same elements in row-major order as another shape."""
        if any(equal(extent, 0) for extent in shape):
            return View.strided(shape, (0,) * len(shape))
        flat = self.reaxed((len(self.extents),)).simplified()
        cuts = refine(flat.extents, shape)
        if cuts is None:
            return None
        extents, old, new = cuts
        return flat.split(extents, old).reaxed(new)

    # --- factors ---------------------------------------------------------------------------------

    def split(self, extents: Shape, counts: tuple[int, ...]) -> View:
        """Split factor `i` into the next `counts[i]` of `extents`."""
        pieces = spans(counts)
        strides: list[Dim] = []
        for stride, (a, b) in zip(self.strides, pieces, strict=True):
            strides += [stride * inner for inner in row_major(extents[a:b])]
        guards = tuple(
            replace(
                guard,
                strides=tuple(
                    stride * inner
                    for stride, (a, b) in zip(guard.strides, pieces, strict=True)
                    for inner in row_major(extents[a:b])
                ),
            )
            for guard in self.guards
        )
        axes = tuple(sum(counts[a:b]) for a, b in self.spans)
        return View(extents, tuple(strides), axes, self.offset, guards)

    def reaxed(self, axes: tuple[int, ...]) -> View:
        """Return the same factors grouped into other axes."""
        return replace(self, axes=axes)

    def refined(self, factors: Sequence[Shape]) -> View:
        """Return the view whose axis `k` has exactly the factors `factors[k]`.

        They must refine the view's own, as `common_factors` of a set of views with it does.
        """
        return _refined(self, tuple(factors))

    def flat_strides(self) -> Shape | None:
        """Return one stride for each axis, or None when an axis has several factors."""
        view = self.simplified()
        if view.guards or any(count > 1 for count in view.axes):
            return None
        return tuple(view.strides[a] if a < b else 0 for a, b in view.spans)


# Views are made again and again from the same few shapes: the costly steps are remembered.


@lru_cache(maxsize=4096)
def _contiguous(shape: Shape) -> View:
    return View.strided(shape, row_major(shape))


@lru_cache(maxsize=32768)
def _simplified(view: View) -> View:
    view = _select(view, [i for i, extent in enumerate(view.extents) if extent != 1])
    view = replace(view, guards=tuple(g for g in view.guards if not _always(g, view.extents)))
    return _joined(view)


@lru_cache(maxsize=32768)
def _refined(view: View, factors: tuple[Shape, ...]) -> View:
    extents: list[Dim] = []
    counts: list[int] = []
    for (a, b), wanted in zip(view.spans, factors, strict=True):
        cuts = refine(view.extents[a:b], wanted)
        if cuts is None:
            raise ValueError(f"{wanted} does not refine {view.extents[a:b]}")
        extents += cuts[0]
        counts += cuts[1]
    return view.split(tuple(extents), tuple(counts))


def row_major(shape: Shape) -> Shape:
    """Return the strides of a contiguous buffer."""
    strides: list[Dim] = []
    inner: Dim = 1
    for extent in reversed(shape):
        strides.append(inner)
        inner = inner * extent
    return tuple(reversed(strides))


def spans(counts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the consecutive half-open ranges of the given lengths."""
    ends = tuple(itertools.accumulate(counts, initial=0))
    return tuple(itertools.pairwise(ends))


@lru_cache(maxsize=32768)
def refine(left: Shape, right: Shape) -> tuple[Shape, tuple[int, ...], tuple[int, ...]] | None:
    """Return the coarsest factors of which both shapes are products, and how many each takes.

    None when the two differ in size or their boundaries do not divide one another, as those of
    (6, 4) and (8, 3). Extents of 1 take no factor.
    """
    shapes = (left, right)
    counts = [[0] * len(left), [0] * len(right)]
    position = [len(left) - 1, len(right) - 1]
    rest: list[Dim] = [1, 1]
    extents: list[Dim] = []
    while True:
        for side in (0, 1):
            while rest[side] == 1 and position[side] >= 0:
                rest[side] = shapes[side][position[side]]
                position[side] -= rest[side] == 1
        a, b = rest
        if a == 1 and b == 1:
            break
        cut = _divisor(a, b)
        if cut is None:
            return None
        extents.append(cut)
        for side in (0, 1):
            counts[side][position[side]] += 1
            rest[side] = 1 if equal(rest[side], cut) else rest[side] // cut
            position[side] -= rest[side] == 1
    return tuple(reversed(extents)), tuple(counts[0]), tuple(counts[1])


def common_factors(views: Sequence[View]) -> tuple[Shape, ...] | None:
    """Return, for each axis, factors that refine those of all views of one shape."""
    first, *others = views
    factors = [first.extents[a:b] for a, b in first.spans]
    for view in others:
        for axis, (a, b) in enumerate(view.spans):
            cuts = refine(factors[axis], view.extents[a:b])
            if cuts is None:
                return None
            factors[axis] = cuts[0]
    return tuple(factors)


def joinable(view: View, factor: int) -> bool:
    """Whether factors `factor` and `factor + 1` walk the buffer and the guards as one."""
    inner = view.extents[factor + 1]
    rows = (view.strides, *(guard.strides for guard in view.guards))
    return all(equal(row[factor], row[factor + 1] * inner) for row in rows)


def join(view: View, factor: int) -> View:
    """Merge factors `factor` and `factor + 1` of one axis, which must be joinable."""
    extents = list(view.extents)
    extents[factor : factor + 2] = [extents[factor] * extents[factor + 1]]
    axis = next(k for k, (a, b) in enumerate(view.spans) if a <= factor < b)
    axes = tuple(count - (k == axis) for k, count in enumerate(view.axes))
    return View(
        tuple(extents),
        _without(view.strides, factor),
        axes,
        view.offset,
        tuple(replace(g, strides=_without(g.strides, factor)) for g in view.guards),
    )


def _without(items: Shape, index: int) -> Shape:
    return items[:index] + items[index + 1 :]


def _divisor(a: Dim, b: Dim) -> Dim | None:
    if equal(a, b):
        return a
    if b != 1 and equal(a % b, 0):
        return b
    if a != 1 and equal(b % a, 0):
        return a
    return None


def _select(view: View, order: Sequence[int]) -> View:
    kept = set(order)
    axes = tuple(sum(i in kept for i in range(a, b)) for a, b in view.spans)
    return replace(_reordered(view, order), axes=axes)


def _reordered(view: View, order: Sequence[int]) -> View:
    return replace(
        view,
        extents=tuple(view.extents[i] for i in order),
        strides=tuple(view.strides[i] for i in order),
        guards=tuple(
            replace(guard, strides=tuple(guard.strides[i] for i in order)) for guard in view.guards
        ),
    )


def _joined(view: View) -> View:
    for factor in reversed(range(len(view.extents) - 1)):
        same_axis = any(a <= factor < b - 1 for a, b in view.spans)
        if same_axis and joinable(view, factor):
            view = join(view, factor)
    return view


def _always(guard: Guard, extents: Shape) -> bool:
    low, high = guard.offset, guard.offset
    for stride, extent in zip(guard.strides, extents, strict=True):
        reach = stride * (extent - 1)
        if shapes.at_least(stride, 0):
            high = high + reach
        elif shapes.at_least(0, stride):
            low = low + reach
        else:
            return False
    return shapes.at_least(low, 0) and shapes.at_least(guard.limit - 1, high)


def _affine_axis(
    view: View, axis: int, start: Dim, step: int, extent: Dim, limit: Dim | None = None
) -> View | None:
    """Substitute `start + step·index` for the index of `axis`, guarded by `limit` when given."""
    view = view.simplified()
    a, b = view.spans[axis]
    if b - a > 1:
        return None
    if a == b:
        view = _insert_factor(view, axis)
    stride = view.strides[a]
    guards = tuple(
        Guard(
            _put(guard.strides, a, guard.strides[a] * step),
            guard.offset + guard.strides[a] * start,
            guard.limit,
        )
        for guard in view.guards
    )
    if limit is not None:
        unit = tuple(step if i == a else 0 for i in range(len(view.extents)))
        guards += (Guard(unit, start, limit),)
    return View(
        _put(view.extents, a, extent),
        _put(view.strides, a, stride * step),
        view.axes,
        view.offset + stride * start,
        guards,
    ).simplified()


def _insert_factor(view: View, axis: int, extent: Dim = 1) -> View:
    """Add a factor that the buffer does not notice to an axis that has none."""
    position = view.spans[axis][0]

    def grown(items: Shape, value: Dim) -> Shape:
        return (*items[:position], value, *items[position:])

    return View(
        grown(view.extents, extent),
        grown(view.strides, 0),
        _put_count(view.axes, axis),
        view.offset,
        tuple(replace(guard, strides=grown(guard.strides, 0)) for guard in view.guards),
    )


def _put(items: Shape, index: int, value: Dim) -> Shape:
    return (*items[:index], value, *items[index + 1 :])


def _put_count(axes: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*axes[:axis], 1, *axes[axis + 1 :])
