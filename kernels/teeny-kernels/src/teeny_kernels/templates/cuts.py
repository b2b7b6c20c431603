"""Cutting a count into blocks."""

from __future__ import annotations


def cuts(count: int, size: int) -> list[tuple[int, int]]:
    """Return (size, times) of the blocks that `count` is cut into: whole ones, then the rest."""
    blocks = [(size, count // size), (count % size, 1)]
    return [block for block in blocks if block[0] and block[1]]
