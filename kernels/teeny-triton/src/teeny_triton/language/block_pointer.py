"""Block pointers: a window on a tensor in memory, which becomes addresses and a mask.

    p = tl.make_block_ptr(base, shape=(M, K), strides=(K, 1), offsets=(m, 0),
                          block_shape=(64, 32), order=(1, 0))
    x = tl.load(p, boundary_check=(0, 1), padding_option="zero")
    p = tl.advance(p, (0, 32))

Shapes, strides and offsets are 64-bit, and must not overflow. `order` is a hint for GPUs and has
no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

from teeny_core import DType, i64

from teeny_triton.builder import current
from teeny_triton.errors import KernelError
from teeny_triton.ir import Pointer
from teeny_triton.language import semantic
from teeny_triton.language.aggregate import Aggregate
from teeny_triton.language.creation import arange
from teeny_triton.language.tile import Operand, Tile, as_shape, raw, tile

PADDINGS = ("", "zero", "nan")


@dataclass(frozen=True, eq=False)
class BlockPointer(Aggregate):
    """A block of a tensor: element i of axis `a` is element `offsets[a] + i` of the tensor's."""

    base: Tile
    shape: tuple[Tile, ...]
    strides: tuple[Tile, ...]
    offsets: tuple[Tile, ...]
    block_shape: tuple[int, ...]

    @property
    def parts(self) -> tuple[Any, ...]:
        """What may differ between paths."""
        return self.base, self.shape, self.strides, self.offsets

    @property
    def known(self) -> tuple[Any, ...]:
        """The shape of the block, and what it holds."""
        return self.block_shape, self.base.type

    def with_parts(self, parts: Sequence[Any]) -> BlockPointer:
        """Return a block of the same shape elsewhere."""
        base, shape, strides, offsets = parts
        return replace(self, base=base, shape=shape, strides=strides, offsets=offsets)

    @property
    def dtype(self) -> Pointer:
        """The type of an address; its `element_ty` is that of the elements."""
        assert isinstance(self.base.dtype, Pointer)
        return self.base.dtype

    type = dtype

    @property
    def element(self) -> DType:
        """The type of the elements."""
        return self.dtype.pointee

    def advance(self, offsets: Sequence[Operand]) -> BlockPointer:
        """Return the block moved by a number of elements along each axis."""
        steps = _wide("offsets", offsets)
        if len(steps) != len(self.offsets):
            rank = len(self.offsets)
            raise KernelError(f"a block of {rank} axes moves by as many, not {len(steps)}")
        moved = tuple(a + b for a, b in zip(self.offsets, steps, strict=True))
        return replace(self, offsets=moved)

    def addresses(self) -> Tile:
        """Return the address of each element of the block."""
        steps = [self._places(axis) * stride for axis, stride in enumerate(self.strides)]
        return (self.base + reduce(add, steps)).broadcast_to(*self.block_shape)

    def inside(self, axes: Iterable[int]) -> Tile | None:
        """Return which elements lie in the tensor along some axes; None asks for no mask."""
        result: Tile | None = None
        for axis in axes:
            places = self._places(axis)
            starts = places >= 0
            current().checks.append(starts.value)
            test = starts & (places < self.shape[axis])
            result = test if result is None else result & test
        return result

    def _places(self, axis: int) -> Tile:
        """The places in the tensor of the elements of the block along an axis, of full rank."""
        steps = arange(0, self.block_shape[axis]).to(i64) + self.offsets[axis]
        extents = [1] * len(self.block_shape)
        extents[axis] = self.block_shape[axis]
        return steps.reshape(*extents)

    def __repr__(self) -> str:
        return f"BlockPointer({self.dtype}, {list(self.block_shape)})"


def make_block_ptr(
    base: Operand,
    shape: Sequence[Operand],
    strides: Sequence[Operand],
    offsets: Sequence[Operand],
    block_shape: Sequence[int],
    order: Sequence[int],
) -> BlockPointer:
    """Return a pointer to the block of `block_shape` at `offsets` of the tensor at `base`.

    Raises:
        KernelError: `base` is no scalar pointer, or the lists do not fit together.
    """
    pointer = tile(base)
    if not isinstance(pointer.dtype, Pointer) or pointer.shape:
        raise KernelError(f"a block pointer starts from a scalar pointer, not {pointer.type}")
    block = as_shape(tuple(block_shape))
    lengths = {len(block), *map(len, (shape, strides, offsets, order))}
    if len(lengths) != 1 or not block:
        raise KernelError(
            f"shape, strides, offsets, block_shape and order have {len(shape)}, {len(strides)}, "
            f"{len(offsets)}, {len(block)} and {len(order)} items",
            hint="give one of each for every axis",
        )
    if min(block) < 1:
        raise KernelError(f"a block has extents of at least 1, not {list(block)}")
    if sorted(as_shape(tuple(order))) != list(range(len(block))):
        raise KernelError(f"order is a permutation of the {len(block)} axes, not {list(order)}")
    numbers = (_wide("shape", shape), _wide("strides", strides), _wide("offsets", offsets))
    return BlockPointer(pointer, *numbers, block)


def advance(base: BlockPointer, offsets: Sequence[Operand]) -> BlockPointer:
    """Return a block pointer moved by a number of elements along each axis."""
    if not isinstance(base, BlockPointer):
        raise KernelError(
            f"advance takes a block pointer, not {base!r}", hint="add offsets to other pointers"
        )
    return base.advance(offsets)


def checked_axes(block: BlockPointer, boundary_check: object) -> tuple[int, ...]:
    """Return the axes that `boundary_check` names: a number or several."""
    items = (boundary_check,) if isinstance(boundary_check, int) else boundary_check
    if not isinstance(items, tuple | list) or not all(isinstance(a, int) for a in items):
        raise KernelError(f"boundary_check lists axes of the block, not {boundary_check!r}")
    axes = [semantic.axis_of(axis, len(block.block_shape)) for axis in items]
    if len(set(axes)) != len(axes):
        raise KernelError(f"boundary_check names an axis twice: {list(items)}")
    return tuple(axes)


def padding(option: str | None, dtype: DType) -> float | None:
    """Return what lies outside of a tensor, None for zeros.

    Raises:
        KernelError: an unknown option, or NaN where the type has none.
    """
    option = option or ""
    if option not in PADDINGS:
        raise KernelError(f"padding_option is 'zero' or 'nan', not {option!r}")
    if option == "nan" and not dtype.is_float:
        raise KernelError(f"{dtype} has no NaN to pad with", hint="pad with 'zero'")
    return float("nan") if option == "nan" else None


def _wide(what: str, numbers: Sequence[Operand]) -> tuple[Tile, ...]:
    """Return scalars as i64."""
    return tuple(_scalar(what, number) for number in numbers)


def _scalar(what: str, number: Operand) -> Tile:
    value = semantic.value(raw(number))
    dtype = value.type.element
    if value.type.shape or not isinstance(dtype, DType) or not dtype.is_int:
        raise KernelError(f"{what} are integers, one for each axis, not {value.type}")
    known = current().constant_of(value)
    return tile(value if known is None else int(known)).to(i64)
