"""Program indices and new tiles."""

from __future__ import annotations

from teeny_core import f32

from teeny_triton.builder import current
from teeny_triton.errors import KernelError
from teeny_triton.ir import Pointer, Type
from teeny_triton.language import semantic
from teeny_triton.language.tile import DTypeLike, Operand, Tile, as_dtype, raw, tile


def program_id(axis: int) -> Tile:
    """Return the index of this program along a grid axis (0, 1 or 2), an i32."""
    return Tile(current().op("program_id", axis=axis))


def num_programs(axis: int) -> Tile:
    """Return the extent of the grid along an axis, an i32."""
    return Tile(current().op("num_programs", axis=axis))


def arange(start: int, end: int) -> Tile:
    """Return `start, start + 1, ... end - 1` as i32; the length need not be a power of two.

    Raises:
        KernelError: a bound is no Python integer, or nothing lies between them.
    """
    for bound in (start, end):
        if not isinstance(bound, int):
            raise KernelError(
                f"arange takes Python integers, not {bound!r}",
                hint="declare the parameter as tl.constexpr",
            )
    return Tile(current().op("arange", start=int(start), end=int(end)))


def full(shape: int | tuple[int, ...], value: Operand, dtype: DTypeLike | None = None) -> Tile:
    """Return a tile of equal elements, in `dtype` or the value's own type."""
    scalar = raw(value)
    source = tile(scalar) if dtype is None else Tile(semantic.cast(scalar, as_dtype(dtype)))
    return source.broadcast_to(shape)


def zeros(shape: int | tuple[int, ...], dtype: DTypeLike = f32) -> Tile:
    """Return a tile of zeros; of `()`, a scalar."""
    return full(shape, 0, dtype)


def zeros_like(x: Tile) -> Tile:
    """Return zeros of the shape and type of `x`."""
    return zeros(x.shape, semantic.element(x.value))


def cast(
    x: Operand,
    dtype: DTypeLike,
    fp_downcast_rounding: str | None = None,
    bitcast: bool = False,
) -> Tile:
    """Convert the elements, or reinterpret their bits; see `Tile.to`."""
    if isinstance(x, Tile) or isinstance(dtype, Pointer):
        return tile(x).to(dtype, fp_downcast_rounding, bitcast)
    wanted, rounding = as_dtype(dtype), fp_downcast_rounding
    return Tile(semantic.cast(raw(x), wanted, bitcast=bitcast, rounding=rounding))


def scratch(size: int, dtype: DTypeLike) -> Tile:
    """Return a pointer to `size` elements of thread-private memory, 64-byte aligned.

    The contents are undefined at first and do not outlive the program instance.
    """
    wanted = Type((), Pointer(as_dtype(dtype)))
    return Tile(current().op("scratch", wanted=wanted, size=size))
