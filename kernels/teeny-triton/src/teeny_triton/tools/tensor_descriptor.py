"""A tensor with the shape of the blocks that a kernel reads of it, as an argument of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from teeny_triton.errors import KernelError

PADDINGS = ("zero", "nan")


@dataclass
class TensorDescriptor:
    """Memory from `base` on, read in blocks of `block_shape`; in a kernel, what
    `tl.make_tensor_descriptor` returns.

    `shape` and `strides` (in elements, the last one 1) may be anything the memory holds; elements
    of a block outside of `shape` are 0 or NaN, by `padding`, and never written.

    Raises:
        KernelError: lists of different lengths, an empty block, an unknown padding, or elements
            of the last axis that do not lie side by side.
    """

    base: Any
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"

    def __post_init__(self) -> None:
        rank = len(self.block_shape)
        if not rank or not rank == len(self.shape) == len(self.strides):
            raise KernelError(
                f"a descriptor has as many shape, stride and block extents, not {self.shape}, "
                f"{self.strides} and {self.block_shape}"
            )
        if min(self.block_shape) < 1:
            raise KernelError(f"a block has extents of at least 1, not {self.block_shape}")
        if self.strides[-1] != 1:
            raise KernelError(
                f"the last stride of a descriptor is 1, not {self.strides[-1]}",
                hint="pass a tensor whose last axis is contiguous",
            )
        if self.padding not in PADDINGS:
            raise KernelError(f"padding is {' or '.join(PADDINGS)}, not {self.padding!r}")

    @staticmethod
    def from_tensor(
        tensor: Any, block_shape: Sequence[int], padding: str = "zero"
    ) -> TensorDescriptor:
        """Describe a whole array or tensor: of NumPy, PyTorch or teeny."""
        shape = [int(extent) for extent in tensor.shape]
        return TensorDescriptor(tensor, shape, _strides(tensor), list(block_shape), padding)


def _strides(tensor: Any) -> list[int]:
    """Strides in elements: torch has a method for them, NumPy counts bytes."""
    if callable(getattr(tensor, "stride", None)):
        return [int(stride) for stride in tensor.stride()]
    if hasattr(tensor, "strides") and hasattr(tensor, "itemsize"):
        return [int(stride) // tensor.itemsize for stride in tensor.strides]
    strides, step = [], 1  # a tensor of teeny, which is contiguous
    for extent in reversed(tensor.shape):
        strides.append(step)
        step *= int(extent)
    return strides[::-1]
