"""The arena: buffers packed by lifetime, with sizes that may be symbolic.

Buffers are placed one by one, from the largest to the smallest or in another order if that packs
better, each at the lowest offset where no buffer that lives at the same time can overlap it.
Offsets are sums of sizes of other buffers, so that they hold for every value of the symbols. Sizes
that cannot be compared (fixed and symbolic ones) are packed in regions of their own, one behind
the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from teeny_core import Dim, Expr, ceildiv, substitute, symbols_of
from teeny_core import shape as shapes

from teeny_compiler.nest.estimate import estimate
from teeny_compiler.schedule.plan import ARENA_ALIGNMENT

Vectors: TypeAlias = np.ndarray[Any, np.dtype[Any]]


CANDIDATES = 64
"""Places tried at a time."""

SYMBOLS = (1, 32, 1024)
"""Values of symbols for which the lower bound is exact."""


@dataclass(frozen=True)
class Lifetime:
    """A buffer of `size` bytes that lives from step `first` to step `last`, both included."""

    size: Dim
    first: int
    last: int


@dataclass(frozen=True)
class Arena:
    """The offset of each buffer, the size of all, and the most bytes that live at one time."""

    offsets: tuple[Dim, ...]
    size: Dim
    bound: Dim


def pack(buffers: Sequence[Lifetime]) -> Arena:
    """Place buffers so that those that live at the same time do not overlap."""
    sizes = [aligned(buffer.size) for buffer in buffers]
    offsets: dict[int, Dim] = {}
    end: Dim = 0
    for region in (_is_sum, _is_fixed, _is_rounded):
        members = [i for i, size in enumerate(sizes) if region(size)]
        packed = _pack_region(members, buffers, sizes)
        offsets.update({i: end + offset for i, offset in packed.items()})
        end = end + _largest([packed[i] + sizes[i] for i in members])
    return Arena(tuple(offsets[i] for i in range(len(buffers))), end, _bound(buffers, sizes))


def _pack_region(
    members: Sequence[int], buffers: Sequence[Lifetime], sizes: Sequence[Dim]
) -> dict[int, Dim]:
    space = _Space([sizes[i] for i in members])
    bytes_of = {i: estimate(sizes[i]) for i in members}

    def end(packed: Mapping[int, Dim]) -> int:
        return max((estimate(packed[i]) + bytes_of[i] for i in members), default=0)

    least = estimate(_bound([buffers[i] for i in members], [sizes[i] for i in members]))
    best: dict[int, Dim] = {}
    for key in _ORDERS:
        order = sorted(members, key=lambda i: (*key(bytes_of[i], buffers[i]), i))
        packed = _pack_in_order(order, buffers, sizes, space)
        best = packed if not best or end(packed) < end(best) else best
        if end(best) <= least:
            break
    return best


_ORDERS: Sequence[Callable[[int, Lifetime], tuple[int, ...]]] = (
    lambda size, buffer: (-size,),
    lambda size, buffer: (buffer.first - buffer.last, -size),
    lambda size, buffer: (-size * (buffer.last - buffer.first + 1),),
    lambda size, buffer: (buffer.first, -size),
)
"""Keys by which buffers are sorted before they are placed: size, lifetime, both, and start."""


def _pack_in_order(
    order: Sequence[int], buffers: Sequence[Lifetime], sizes: Sequence[Dim], space: _Space
) -> dict[int, Dim]:
    size = np.stack([space.vector(sizes[i]) for i in order]) if order else space.zeros(0)
    first = np.array([buffers[i].first for i in order])
    last = np.array([buffers[i].last for i in order])
    start = space.zeros(len(order))
    for k in range(len(order)):
        rivals = np.flatnonzero((first[:k] <= last[k]) & (first[k] <= last[:k]))
        starts = start[rivals]
        found = space.lowest(starts, starts + size[rivals], size[k])
        start[k] = size[:k].sum(axis=0) if found is None else found
    return {i: space.dim(start[k]) for k, i in enumerate(order)}


class _Space:
    """Sizes as vectors of coefficients, which compare many times faster than expressions."""

    def __init__(self, sizes: Sequence[Dim]) -> None:
        symbolic = [size for size in sizes if isinstance(size, Expr)]
        seen = dict.fromkeys(powers for size in symbolic for _, powers in size.terms)
        self.monomials = ((), *(powers for powers in seen if powers))
        self.atoms = [Expr(((1, powers),)) if powers else 1 for powers in self.monomials]
        self.estimates = np.array([estimate(atom) for atom in self.atoms], np.int64)
        self.positive = np.array([shapes.at_least(atom, 0) for atom in self.atoms])
        self.line = self._line(sizes)

    def _line(self, sizes: Sequence[Dim]) -> int | None:
        """Return the one monomial of which all sizes are multiples, which orders them."""
        used = np.any([self.vector(size) for size in sizes], axis=0) if sizes else self.positive
        (columns,) = np.nonzero(used)
        return int(columns[0]) if len(columns) == 1 and self.positive[columns[0]] else None

    def values(self, symbol: int) -> Vectors:
        """Return the values of the monomials, as floats, where all symbols have one value."""
        env: dict[str, Dim] = dict.fromkeys(symbols_of(tuple(self.atoms)), symbol)
        return np.array(substitute(tuple(self.atoms), env), np.float64)

    def zeros(self, count: int) -> Vectors:
        """Return `count` vectors of size 0."""
        return np.zeros((count, len(self.monomials)), np.int64)

    def vector(self, size: Dim) -> Vectors:
        """Return the coefficients of a size."""
        terms: dict[Any, int] = {(): size} if isinstance(size, int) else {}
        if isinstance(size, Expr):
            terms = {powers: coefficient for coefficient, powers in size.terms}
        return np.array([terms.get(powers, 0) for powers in self.monomials], np.int64)

    def dim(self, vector: Vectors) -> Dim:
        """Return the size of a vector."""
        total: Dim = 0
        for powers, coefficient in zip(self.monomials, vector.tolist(), strict=True):
            total = total + (
                Expr(((coefficient, powers),)) if powers and coefficient else coefficient
            )
        return total

    def at_least(self, left: Vectors, right: Vectors) -> Vectors:
        """Whether `left >= right` for all values of the symbols, as far as signs prove it."""
        difference = left - right
        proven: Vectors = np.where(self.positive, difference >= 0, difference == 0)
        return np.asarray(proven.all(axis=-1))

    def lowest(self, starts: Vectors, ends: Vectors, size: Vectors) -> Vectors | None:
        """Return the lowest place where `size` fits between intervals, None if none is proven."""
        if self.line is not None:
            place = np.zeros_like(size)
            column = self.line
            place[column] = _lowest(starts[:, column], ends[:, column], size[column])
            return place
        places = self.sorted(np.concatenate([self.zeros(1), ends]))
        for part in np.array_split(places, -(-len(places) // CANDIDATES)):
            below = self.at_least(starts[None], (part + size)[:, None])
            above = self.at_least(part[:, None], ends[None])
            free = np.flatnonzero((below | above).all(axis=1))
            if len(free):
                return np.asarray(part[free[0]])
        return None

    def sorted(self, places: Vectors) -> Vectors:
        """Return distinct places by their estimates."""
        distinct = np.unique(places, axis=0)
        return distinct[np.argsort(distinct @ self.estimates, kind="stable")]


def _lowest(starts: Vectors, ends: Vectors, size: int) -> int:
    """Return the lowest place of a line where `size` fits between intervals."""
    order = np.argsort(starts, kind="stable")
    reached = np.maximum.accumulate(np.concatenate([[0], ends[order]]))
    (gaps,) = np.nonzero(reached[:-1] + size <= starts[order])
    return int(reached[gaps[0]] if len(gaps) else reached[-1])


def _is_fixed(size: Dim) -> bool:
    return isinstance(size, int)


def _is_rounded(size: Dim) -> bool:
    """Whether a size is symbolic and not a plain sum of products."""
    if isinstance(size, int):
        return False
    atoms = (atom for _, powers in size.terms for atom, _ in powers)
    return not all(isinstance(atom, shapes.Symbol) for atom in atoms)


def _is_sum(size: Dim) -> bool:
    return not _is_fixed(size) and not _is_rounded(size)


def aligned(size: Dim) -> Dim:
    """Round a size up so that what follows it is aligned.

    A symbolic size is rounded term by term where that costs little, which keeps it a plain sum.
    """
    if isinstance(size, int):
        return ceildiv(size, ARENA_ALIGNMENT) * ARENA_ALIGNMENT
    if all(coefficient >= 4 * ARENA_ALIGNMENT for coefficient, powers in size.terms if powers):
        return _rounded_terms(size)
    return ceildiv(size, ARENA_ALIGNMENT) * ARENA_ALIGNMENT


def _rounded_terms(size: Expr) -> Dim:
    terms = tuple(
        (-(-coefficient // ARENA_ALIGNMENT) * ARENA_ALIGNMENT, powers)
        for coefficient, powers in size.terms
    )
    return Expr(terms)


def _largest(ends: Sequence[Dim]) -> Dim:
    """Return the maximum of all ends, of which those proven smaller than others drop out."""
    open_ends = list(dict.fromkeys(ends))
    kept = [
        end
        for i, end in enumerate(open_ends)
        if not any(
            shapes.at_least(other, end) and (j < i or not shapes.at_least(end, other))
            for j, other in enumerate(open_ends)
            if j != i
        )
    ]
    largest: Dim = 0
    for end in kept:
        largest = shapes.maximum(largest, end)
    return largest


def _bound(buffers: Sequence[Lifetime], sizes: Sequence[Dim]) -> Dim:
    """Return the most bytes that live at one time, for symbols of some values.

    Which step that is depends on the values: the maximum is taken over the steps that are the
    fullest ones for small, for usual and for large values.
    """
    if not buffers:
        return 0
    space = _Space(sizes)
    size = np.stack([space.vector(s) for s in sizes])
    first = np.array([buffer.first for buffer in buffers])
    last = np.array([buffer.last for buffer in buffers])
    steps = np.unique(first)
    live = (first <= steps[:, None]) & (steps[:, None] <= last)
    sums = live.astype(np.int64) @ size
    fullest = {int(np.argmax(sums @ space.values(symbol))) for symbol in SYMBOLS}
    return _largest([space.dim(sums[step]) for step in sorted(fullest)])
