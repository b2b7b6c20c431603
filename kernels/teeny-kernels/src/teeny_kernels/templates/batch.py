"""Batch axes on the grid: axes along which all operands step evenly are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teeny_core import Dim, Shape, numel


@dataclass(frozen=True)
class Batch:
    """A group of batch axes that one grid axis runs over.

    `strides` are the distances of neighbouring items, one for each operand.
    """

    extents: Shape
    strides: tuple[Dim, ...]

    @property
    def size(self) -> Dim:
        """Number of items."""
        return numel(self.extents)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The extents by which an index is taken apart; that of the first axis is not needed."""
        rest = (extent for extent in self.extents[1:] if isinstance(extent, int))
        return (0, *rest) if self.extents else ()


def groups(shape: Shape, strides: Sequence[Shape]) -> tuple[Batch, Batch] | None:
    """Return the inner and the outer group of batch axes, None if they do not fit two groups.

    Args:
        shape: extents of the batch axes.
        strides: for each operand its strides along them.
    """
    found: list[Batch] = []
    for extent, *steps in reversed(list(zip(shape, *strides, strict=True))):
        last = found[-1] if found else None
        if last and _continues(last, steps):
            found[-1] = Batch((extent, *last.extents), last.strides)
        else:
            found.append(Batch((extent,), tuple(steps)))
    found += [Batch((), (0,) * len(strides))] * (2 - len(found))
    return (found[0], found[1]) if len(found) == 2 else None


def _continues(group: Batch, steps: Sequence[Dim]) -> bool:
    """Whether an outer axis of these strides is more of the same; its extents must be numbers."""
    if not all(isinstance(extent, int) for extent in group.extents):
        return False
    return [stride * group.size for stride in group.strides] == list(steps)
