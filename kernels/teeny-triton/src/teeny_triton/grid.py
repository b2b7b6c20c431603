"""The grid of a launch: how many programs run along each of three axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from teeny_triton.errors import KernelError

Extents: TypeAlias = int | Sequence[int]
Grid: TypeAlias = Extents | Callable[[Mapping[str, Any]], Extents]


def grid_extents(grid: Grid, arguments: Callable[[], Mapping[str, Any]]) -> tuple[int, int, int]:
    """Return the three extents of a grid.

    Args:
        grid: extents, or a function of the arguments by name.
        arguments: returns those.

    Raises:
        KernelError: not one to three integers of at least 0.
    """
    found = grid(arguments()) if callable(grid) else grid
    if type(found) is tuple and len(found) == 1 and type(found[0]) is int and found[0] >= 0:
        return found[0], 1, 1  # the common case
    extents = tuple(found) if isinstance(found, Sequence) else (found,)
    valid = all(isinstance(extent, int | np.integer) and extent >= 0 for extent in extents)
    if not 1 <= len(extents) <= 3 or not valid:
        raise KernelError(
            f"a grid has one to three integer extents, not {found!r}",
            hint="write kernel[(n,)](...)",
        )
    x, y, z = (*(int(extent) for extent in extents), 1, 1)[:3]
    return x, y, z
