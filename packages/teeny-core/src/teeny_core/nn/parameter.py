"""The tensors that belong to layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from teeny_core.dtype import DTypeLike
from teeny_core.tensor import Tensor


class Parameter(Tensor):
    """A tensor that training changes: a weight. `assign` gives it new values."""

    __slots__ = ()

    def __init__(self, data: Any, dtype: DTypeLike | None = None) -> None:
        """Make a parameter of the values of `data`, which are copied."""
        super().__init__(_values(data), dtype)

    def converted(self, dtype: DTypeLike) -> Parameter:
        """Return a new parameter with the values in another type."""
        return Parameter(self, dtype)


class Buffer(Tensor):
    """A tensor that belongs to a layer and is no weight, such as running statistics."""

    __slots__ = ("persistent",)

    def __init__(
        self, data: Any, dtype: DTypeLike | None = None, *, persistent: bool = True
    ) -> None:
        """Make a buffer of the values of `data`, which are copied.

        Args:
            data: the values.
            dtype: element type, to which they are converted.
            persistent: whether the buffer is part of the state dict.
        """
        super().__init__(_values(data), dtype)
        self.persistent = persistent

    def converted(self, dtype: DTypeLike) -> Buffer:
        """Return a new buffer with the values in another type."""
        return Buffer(self, dtype, persistent=self.persistent)


def _values(data: Any) -> Any:
    """Return the values of a tensor, so that the new tensor has memory of its own."""
    return np.asarray(data) if isinstance(data, Tensor) else data
