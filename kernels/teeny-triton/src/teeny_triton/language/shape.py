"""Functions that move elements without changing them."""

from __future__ import annotations

from teeny_triton.builder import current
from teeny_triton.errors import KernelError
from teeny_triton.language import math, semantic
from teeny_triton.language.tile import Operand, Tile, as_shape, tile


def broadcast_to(x: Operand, *shape: int | tuple[int, ...]) -> Tile:
    """Repeat `x` to `shape`, with ranks aligned at the right.

    Raises:
        KernelError: an extent of `x` is neither 1 nor that of `shape`.
    """
    return tile(x).broadcast_to(*shape)


def broadcast(a: Operand, b: Operand) -> tuple[Tile, Tile]:
    """Bring two tiles to their common shape; extents of 1 are repeated, and types stay.

    Raises:
        KernelError: there is no such shape.
    """
    left, right = semantic.broadcast(tile(a).value, tile(b).value)
    return Tile(left), Tile(right)


def expand_dims(x: Operand, axis: int | tuple[int, ...]) -> Tile:
    """Insert axes of extent 1 at the given places of the result, which may be negative."""
    axes = as_shape(axis)
    result, rank = tile(x), len(tile(x).shape) + len(axes)
    for place in sorted(semantic.axis_of(item, rank) for item in axes):
        result = result.expand_dims(place)
    return result


def squeeze(x: Operand, dim: int) -> Tile:
    """Remove an axis of extent 1.

    Raises:
        KernelError: its extent is another.
    """
    shape = tile(x).shape
    axis = semantic.axis_of(dim, len(shape))
    if shape[axis] != 1:
        raise KernelError(f"axis {dim} of {tile(x).type} has extent {shape[axis]}, not 1")
    return tile(x).reshape(*shape[:axis], *shape[axis + 1 :])


def unsqueeze(x: Operand, dim: int) -> Tile:
    """Insert an axis of extent 1 at a place of the result: `expand_dims` of one axis."""
    return expand_dims(x, dim)


def trans(x: Operand, *order: int | tuple[int, ...]) -> Tile:
    """Permute the axes: axis `order[i]` of `x` becomes axis i; without an order, swap the last two.

    Raises:
        KernelError: the order is no permutation of all axes.
    """
    return tile(x).trans(*order)


def permute(x: Operand, *order: int | tuple[int, ...]) -> Tile:
    """Permute the axes: axis `order[i]` of `x` becomes axis i, as `trans` does."""
    return tile(x).trans(*order)


def reshape(x: Operand, *shape: int | tuple[int, ...], can_reorder: bool = False) -> Tile:
    """Return the elements in row-major order as another shape; one extent may be -1.

    `can_reorder` has no effect: the order stays.

    Raises:
        KernelError: the shape holds another number of elements.
    """
    return tile(x).reshape(*shape)


view = reshape


def ravel(x: Operand, can_reorder: bool = False) -> Tile:
    """Return the elements as one axis, in row-major order; `can_reorder` has no effect."""
    return tile(x).reshape(tile(x).numel)


def join(a: Operand, b: Operand) -> Tile:
    """Put two tiles, broadcast to one shape (...), side by side: (..., 2)."""
    left, right = broadcast(a, b)
    return Tile(current().op("join", left.value, right.value))


def split(x: Operand) -> tuple[Tile, Tile]:
    """Take apart the last axis, of extent 2: two tiles (...) of a tile (..., 2).

    Raises:
        KernelError: the last axis has another extent.
    """
    first, second = current().emit("split", (tile(x).value,))
    return Tile(first), Tile(second)


def interleave(a: Operand, b: Operand) -> Tile:
    """Alternate the elements of two tiles (..., n) along the last axis: (..., 2n), `a` first."""
    joined = join(a, b)
    if len(joined.shape) == 1:
        return joined
    return joined.reshape(*joined.shape[:-2], 2 * joined.shape[-2])


def cat(a: Operand, b: Operand, can_reorder: bool = False, dim: int = 0) -> Tile:
    """Put `b` behind `a` along an axis; the order is kept, and `can_reorder` has no effect.

    Raises:
        KernelError: types differ, or extents on another axis.
    """
    left, right = tile(a), tile(b)
    axis = semantic.axis_of(dim, len(left.shape))
    return Tile(current().op("cat", left.value, right.value, axis=axis))


def swizzle2d(
    i: Operand, j: Operand, size_i: Operand, size_j: Operand, size_g: Operand
) -> tuple[Tile, Tile]:
    """Renumber the cells of a row-major grid so that groups of `size_g` rows are walked by columns.

    Cell `(i, j)` of a grid of `size_i` by `size_j` becomes the cell returned; the last group may
    have fewer rows.
    """
    rows, columns, group = tile(size_i), tile(size_j), tile(size_g)
    number = tile(i) * columns + j
    cells = group * columns
    first = number // cells * group
    height = math.minimum(rows - first, group)
    within = number % cells
    return first + within % height, within // height
