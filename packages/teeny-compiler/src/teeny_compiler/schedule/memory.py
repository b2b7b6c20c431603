"""The arena: buffers packed by lifetime, with sizes that may be symbolic.

Buffers are placed from the largest to the smallest, each at the lowest offset where no buffer
that lives at the same time can overlap it. Offsets are sums of sizes of other buffers, so that
they hold for every value of the symbols. Sizes that cannot be compared (fixed and symbolic ones)
are packed in regions of their own, one behind the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teeny_core import Dim, Expr, ceildiv
from teeny_core import shape as shapes

from teeny_compiler.nest.estimate import estimate
from teeny_compiler.schedule.plan import ARENA_ALIGNMENT


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
    offsets: dict[int, Dim] = {}
    total: Dim = 0
    for i in sorted(members, key=lambda i: (-estimate(sizes[i]), i)):
        rivals = [(offsets[j], sizes[j]) for j in offsets if _together(buffers[i], buffers[j])]
        places = sorted({0, *(start + size for start, size in rivals)}, key=_by_estimate)
        free = (place for place in places if _is_free(place, sizes[i], rivals))
        offsets[i] = next(free, total)
        total = total + sizes[i]
    return offsets


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


def _by_estimate(place: Dim) -> tuple[int, str]:
    return estimate(place), str(place)


def _together(a: Lifetime, b: Lifetime) -> bool:
    return a.first <= b.last and b.first <= a.last


def _is_free(place: Dim, size: Dim, rivals: Sequence[tuple[Dim, Dim]]) -> bool:
    return all(
        shapes.at_least(start, place + size) or shapes.at_least(place, start + other)
        for start, other in rivals
    )


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
    """Return the sum of sizes at the step where, as estimated, most bytes live."""
    steps = {buffer.first for buffer in buffers}
    sums: list[Dim] = [0]
    for step in steps:
        live: Dim = 0
        for buffer, size in zip(buffers, sizes, strict=True):
            live = live + size if buffer.first <= step <= buffer.last else live
        sums.append(live)
    return max(sums, key=estimate)
