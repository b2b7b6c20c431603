"""Estimates for decisions: sizes in numbers where they are symbolic."""

from __future__ import annotations

from functools import lru_cache

from teeny_core import Dim, Shape, numel, substitute, symbols_of

SYMBOL = 32
"""What a symbolic size is taken for when a decision needs a number."""


@lru_cache(maxsize=8192)
def estimate(dim: Dim) -> int:
    """Return the value of a dimension with every symbol taken for `SYMBOL`."""
    if isinstance(dim, int):
        return dim
    value: Dim = substitute(dim, dict.fromkeys(symbols_of(dim), SYMBOL))
    assert isinstance(value, int)
    return value


@lru_cache(maxsize=8192)
def size(shape: Shape) -> Dim:
    """Return the number of elements of a shape."""
    return numel(shape)
