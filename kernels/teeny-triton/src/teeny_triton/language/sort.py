"""Order, lookup and counting within a tile."""

from __future__ import annotations

from teeny_core import i32

from teeny_triton.builder import current
from teeny_triton.errors import KernelError
from teeny_triton.ir import Type
from teeny_triton.language import semantic
from teeny_triton.language.tile import Operand, Tile, raw, tile


def sort(x: Operand, dim: int | None = None, descending: bool = False) -> Tile:
    """Sort along an axis (the last by default), of any extent.

    -0 comes before +0. NaNs, which all become the quiet NaN without a sign, are above all numbers:
    last, or first when descending. Elements that are equal are identical, so no order of them can
    be told apart.
    """
    return _sorted(tile(x), dim, descending, None)


def topk(x: Operand, k: int, dim: int | None = None, descending: bool = True) -> Tile:
    """The `k` largest elements along an axis from the largest on (smallest, if not descending)."""
    return _sorted(tile(x), dim, descending, k)


def bitonic_merge(x: Operand, dim: int | None = None, descending: bool = False) -> Tile:
    """Sort elements that first rise and then fall (or the reverse); others are sorted as well."""
    return sort(x, dim, descending)


def flip(x: Operand, dim: int | None = None) -> Tile:
    """Reverse the order of the elements along an axis, by default the last."""
    source = tile(x)
    return Tile(current().op("flip", source.value, axis=_axis(source, dim)))


def gather(src: Operand, index: Operand, axis: int) -> Tile:
    """Elements of `src` at indices along an axis: `src[..., index[..., i, ...], ...]`.

    The shapes agree on all other axes; indices lie in [0, extent).
    """
    source, place = tile(src), Tile(semantic.offset_of(raw(index)))
    axis = _axis(source, axis)
    return Tile(current().op("gather", source.value, place.value, axis=axis))


def histogram(input: Operand, num_bins: int, mask: Operand | None = None) -> Tile:
    """Count (i32) the elements that are 0, 1, ... `num_bins` - 1, where `mask` holds.

    Other elements are not counted.
    """
    source = tile(input)
    if semantic.element(source.value).is_bool:
        source = source.to(i32)
    operands = [semantic.reshape(source.value, (source.numel,))]
    if mask is not None:
        active = semantic.broadcast_to(semantic.truth(raw(mask)), source.shape)
        operands.append(semantic.reshape(active, (source.numel,)))
    return Tile(current().op("histogram", *operands, wanted=Type((num_bins,), i32)))


def _sorted(x: Tile, dim: int | None, descending: bool, k: int | None) -> Tile:
    axis = _axis(x, dim)
    keep = x.shape[axis] if k is None else k
    if not 1 <= keep <= x.shape[axis]:
        raise KernelError(f"cannot take the top {keep} of {x.shape[axis]} elements")
    return Tile(current().op("sort", x.value, axis=axis, descending=bool(descending), keep=keep))


def _axis(x: Tile, dim: int | None) -> int:
    if not x.shape:
        raise KernelError("a scalar has no axis", hint="make it a tile with x.expand_dims(0)")
    return semantic.axis_of(-1 if dim is None else dim, len(x.shape))
