"""The arena: buffers packed by lifetime, with sizes that may be symbolic.

Buffers are placed from the largest to the smallest, each at the lowest offset where no buffer
that lives at the same time can overlap it. Offsets are sums of sizes of other buffers, so that
they hold for every value of the symbols; behind all buffers placed so far there is always room.
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
    order = sorted(range(len(buffers)), key=lambda i: (-estimate(sizes[i]), i))
    offsets: dict[int, Dim] = {}
    total: Dim = 0
    for i in order:
        rivals = [(offsets[j], sizes[j]) for j in offsets if _together(buffers[i], buffers[j])]
        places = sorted({0, *(start + size for start, size in rivals)}, key=_by_estimate)
        free = (place for place in places if _is_free(place, sizes[i], rivals))
        offsets[i] = next(free, total)
        total = total + sizes[i]
    ends = [offsets[i] + sizes[i] for i in order]
    return Arena(
        tuple(offsets[i] for i in range(len(buffers))), _largest(ends), _bound(buffers, sizes)
    )


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
    """Return the smallest proven bound of all ends."""
    result: Dim = 0
    for end in sorted(ends, key=_by_estimate):
        result = shapes.maximum(result, end)
    return result


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
