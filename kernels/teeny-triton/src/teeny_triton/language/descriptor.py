"""Tensor descriptors: a tensor in memory that is read and written in blocks, always in bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from teeny_core import DType, i32, i64

from teeny_triton.builder import current
from teeny_triton.errors import KernelError
from teeny_triton.ir import Pointer
from teeny_triton.language import atomic, memory
from teeny_triton.language.aggregate import Aggregate
from teeny_triton.language.block_pointer import BlockPointer, make_block_ptr, padding
from teeny_triton.language.creation import arange
from teeny_triton.language.tile import Operand, Tile, tile


@dataclass(frozen=True, eq=False)
class TensorDescriptor(Aggregate):
    """A tensor, with the shape of the blocks in which it is read and written.

    Elements of a block that lie outside of the tensor are read as 0 (or NaN, by
    `padding_option`) and never written. `shape` holds i32 scalars, `strides` i64.
    """

    base: Tile
    shape: tuple[Tile, ...]
    strides: tuple[Tile, ...]
    block_shape: tuple[int, ...]
    padding_option: str = "zero"

    @property
    def parts(self) -> tuple[Any, ...]:
        """What may differ between paths."""
        return self.base, self.shape, self.strides

    @property
    def known(self) -> tuple[Any, ...]:
        """The shape of a block, what it holds, and what lies outside."""
        return self.block_shape, self.base.type, self.padding_option

    def with_parts(self, parts: Sequence[Any]) -> TensorDescriptor:
        """Return the descriptor of another tensor."""
        base, shape, strides = parts
        return replace(self, base=base, shape=shape, strides=strides)

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        assert isinstance(self.base.dtype, Pointer)
        return self.base.dtype.pointee

    def load(self, offsets: Sequence[Operand]) -> Tile:
        """Read the block at `offsets`."""
        axes = tuple(range(len(self.block_shape)))
        return memory.load(
            self._block(offsets), boundary_check=axes, padding_option=self.padding_option
        )

    def store(self, offsets: Sequence[Operand], value: Operand) -> None:
        """Write a block at `offsets`."""
        axes = tuple(range(len(self.block_shape)))
        memory.store(self._block(offsets), value, boundary_check=axes)

    def gather(self, x_offsets: Tile, y_offset: Operand) -> Tile:
        """Read the rows `x_offsets`, each from column `y_offset` on: [rows, block_shape[1]]."""
        pointer, inside = self._rows(x_offsets, y_offset)
        other = padding(self.padding_option, self.dtype)
        return memory.load(pointer, mask=inside, other=other)

    def scatter(self, value: Operand, x_offsets: Tile, y_offset: Operand) -> None:
        """Write rows of [rows, block_shape[1]] where `gather` reads them."""
        pointer, inside = self._rows(x_offsets, y_offset)
        memory.store(pointer, value, mask=inside)

    def atomic_add(self, offsets: Sequence[Operand], value: Operand) -> Tile:
        """Add a block to memory, each element atomically; returns what was there."""
        return self._atomic(atomic.atomic_add, offsets, value)

    def atomic_and(self, offsets: Sequence[Operand], value: Operand) -> Tile:
        """Keep the bits that a block in memory and `value` both have; see `atomic_add`."""
        return self._atomic(atomic.atomic_and, offsets, value)

    def atomic_or(self, offsets: Sequence[Operand], value: Operand) -> Tile:
        """Set the bits of `value` in a block of memory; see `atomic_add`."""
        return self._atomic(atomic.atomic_or, offsets, value)

    def atomic_xor(self, offsets: Sequence[Operand], value: Operand) -> Tile:
        """Flip the bits of `value` in a block of memory; see `atomic_add`."""
        return self._atomic(atomic.atomic_xor, offsets, value)

    def atomic_max(self, offsets: Sequence[Operand], value: Operand) -> Tile:
        """Leave the larger of a block of memory and `value`; see `atomic_add`."""
        return self._atomic(atomic.atomic_max, offsets, value)

    def atomic_min(self, offsets: Sequence[Operand], value: Operand) -> Tile:
        """Leave the smaller of a block of memory and `value`; see `atomic_add`."""
        return self._atomic(atomic.atomic_min, offsets, value)

    def _atomic(
        self, function: Callable[..., Tile], offsets: Sequence[Operand], value: Operand
    ) -> Tile:
        block = self._block(offsets)
        inside = block.inside(range(len(self.block_shape)))
        return function(block.addresses(), value, mask=inside)

    def _block(self, offsets: Sequence[Operand]) -> BlockPointer:
        order = tuple(range(len(self.block_shape)))
        return make_block_ptr(self.base, self.shape, self.strides, offsets, self.block_shape, order)

    def _rows(self, x_offsets: Tile, y_offset: Operand) -> tuple[Tile, Tile]:
        """Return the addresses of rows and which of their elements lie in the tensor."""
        if len(self.block_shape) != 2 or self.block_shape[0] != 1:
            raise KernelError(
                f"rows are gathered by blocks of shape [1, columns], not {list(self.block_shape)}"
            )
        if len(tile(x_offsets).shape) != 1:
            raise KernelError(f"rows are named by a tile of one axis, not {tile(x_offsets).type}")
        rows = x_offsets.to(i64)[:, None]
        columns = (arange(0, self.block_shape[1]).to(i64) + tile(y_offset).to(i64))[None, :]
        inside = (rows >= 0) & (rows < self.shape[0].to(i64))
        inside = inside & (columns >= 0) & (columns < self.shape[1].to(i64))
        return self.base + (rows * self.strides[0] + columns * self.strides[1]), inside

    def __repr__(self) -> str:
        return f"TensorDescriptor({self.dtype}, {list(self.block_shape)})"


def make_tensor_descriptor(
    base: Operand,
    shape: Sequence[Operand],
    strides: Sequence[Operand],
    block_shape: Sequence[int],
    padding_option: str = "zero",
) -> TensorDescriptor:
    """Describe the tensor at `base`, of which `strides` count elements; the last one is 1.

    Raises:
        KernelError: `base` is no scalar pointer, the lists do not fit together, or the elements
            of the last axis do not lie side by side.
    """
    block = make_block_ptr(base, shape, strides, [0] * len(shape), block_shape, range(len(shape)))
    padding(padding_option, block.element)
    if current().constant_of(block.strides[-1].value) != 1:
        raise KernelError(
            "the last stride of a descriptor must be known to be 1",
            hint="pass 1, or use tl.make_block_ptr",
        )
    extents = tuple(extent.to(i32) for extent in block.shape)
    return TensorDescriptor(block.base, extents, block.strides, block.block_shape, padding_option)


def load_tensor_descriptor(desc: TensorDescriptor, offsets: Sequence[Operand]) -> Tile:
    """Read the block of `desc` at `offsets`."""
    return desc.load(offsets)


def store_tensor_descriptor(
    desc: TensorDescriptor, offsets: Sequence[Operand], value: Operand
) -> None:
    """Write a block of `desc` at `offsets`."""
    desc.store(offsets, value)
