"""Gathering rows of a table by index, and adding rows up by index.

The table is [rows, columns]; the other array [count, columns].
"""

from __future__ import annotations

import teeny_triton.language as tl
from teeny_triton import Ptr, TypeVar, constexpr, i64, kernel

T = TypeVar("T")


@kernel
def take(table: Ptr[T], index: Ptr[i64], y: Ptr[T], columns: i64, BLOCK: constexpr) -> None:
    """y[i] = table[index[i]], a program for each i."""
    number = tl.program_id(0).to(tl.int64)
    row = tl.load(index + number)
    lane = tl.arange(0, BLOCK)
    for start in range(0, columns, BLOCK):
        inside = start + lane < columns
        value = tl.load(table + row * columns + start + lane, inside)
        tl.store(y + number * columns + start + lane, value, inside)


@kernel
def take_grad(
    index: Ptr[i64], dy: Ptr[T], table: Ptr[T], count: i64, columns: i64, BLOCK: constexpr
) -> None:
    """table[index[i]] += dy[i] for i in order, a program for each `BLOCK` columns.

    Programs own columns, so that sums are the same however many threads run.
    """
    column = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    for number in range(count):
        place = table + tl.load(index + number) * columns + column
        total = tl.load(place, inside) + tl.load(dy + number * columns + column, inside)
        tl.store(place, total, inside)
