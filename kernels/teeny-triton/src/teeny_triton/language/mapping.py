"""A function of numbers, with branches and loops of its own, over the elements of tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from teeny_triton.builder import current
from teeny_triton.errors import KernelError
from teeny_triton.ir import Block
from teeny_triton.language.combination import as_given, tiles_of
from teeny_triton.language.control import for_
from teeny_triton.language.creation import arange, scratch
from teeny_triton.language.memory import load, store
from teeny_triton.language.tile import Operand, Tile, tile


def map_elementwise(
    scalar_fn: Callable[..., Any], *args: Operand, pack: int = 1
) -> Tile | tuple[Tile, ...]:
    """Apply a function of scalars to each element of tiles of one shape.

    It may branch on its arguments, as no function of tiles can, so it runs once for each element
    and not in vectors: prefer `where`.

    Args:
        scalar_fn: a function of as many scalars as there are tiles, that returns one or several.
        args: tiles of one shape.
        pack: 1; elements are not grouped.

    Raises:
        KernelError: shapes that differ, or elements that are to be grouped.
    """
    if pack != 1:
        raise KernelError("map_elementwise passes one element at a time", hint="leave out `pack`")
    tiles = tiles_of(args)
    shape, size = tiles[0].shape, tiles[0].numel
    if not shape:
        return scalar_fn(*tiles)  # type: ignore[no-any-return]
    places = arange(0, size).reshape(shape)
    inputs = [_held(each, places) for each in tiles]
    with current().inside(Block()):  # only to see of which types the results are
        found = scalar_fn(*(load(pointer) for pointer in inputs))
    kinds = [tile(each).dtype for each in (found if isinstance(found, tuple) else (found,))]
    outputs = [scratch(size, kind) for kind in kinds]

    def body(i: Tile) -> tuple[()]:
        results = scalar_fn(*(load(pointer + i) for pointer in inputs))
        each = results if isinstance(results, tuple) else (results,)
        for pointer, value in zip(outputs, each, strict=True):
            store(pointer + i, value)
        return ()

    for_(0, size, 1, (), body)
    return as_given(found, [load(pointer + places) for pointer in outputs])  # type: ignore[no-any-return]


def _held(x: Tile, places: Tile) -> Tile:
    """Put a tile in memory of its own."""
    pointer = scratch(x.numel, x.dtype)
    store(pointer + places, x)
    return pointer
