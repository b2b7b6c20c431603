"""One element at a time: a sum, and dropout that keeps no mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import teeny_triton.language as tl
from teeny_triton import Ptr, TypeVar, cdiv, constexpr, f32, i32, kernel

Array = Any
T = TypeVar("T")


@kernel
def add_kernel(x: Ptr[T], y: Ptr[T], out: Ptr[T], n: i32, BLOCK: constexpr[int]) -> None:
    """out = x + y, `BLOCK` elements in a program."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    total = tl.load(x + place, mask=inside) + tl.load(y + place, mask=inside)
    tl.store(out + place, total, mask=inside)


def add(x: Array, y: Array) -> Array:
    """Return x + y, of equal shapes and types."""
    out = np.empty_like(x)
    add_kernel[lambda meta: (cdiv(x.size, meta["BLOCK"]),)](x, y, out, x.size, BLOCK=1024)
    return out


@kernel
def dropout_kernel(
    x: Ptr[T], out: Ptr[T], n: i32, p: f32, seed: i32, BLOCK: constexpr[int]
) -> None:
    """Keep each element with probability 1 - p, and make it larger by as much."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    value = tl.load(x + place, mask=inside)
    kept = tl.rand(seed, place) > p
    tl.store(out + place, tl.where(kept, value / (1 - p), 0.0), mask=inside)


def dropout(x: Array, p: float, seed: int) -> Array:
    """Drop elements of x with probability p.

    Whether an element is kept follows from the seed and its place, so the gradient needs no mask in
    memory: it is the dropout of the gradient, with the same seed.
    """
    out = np.empty_like(x)
    dropout_kernel[lambda meta: (cdiv(x.size, meta["BLOCK"]),)](x, out, x.size, p, seed, BLOCK=1024)
    return out
