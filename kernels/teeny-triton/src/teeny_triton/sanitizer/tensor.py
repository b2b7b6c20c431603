"""Where the elements of a tensor lie in its memory."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from teeny_triton.memory import Array, Region


class Tensor:
    """The argument, or scratch memory, that a region is the memory of.

    The region holds all memory between the first and the last element. Of a tensor whose strides
    leave gaps, not all of it is the tensor's.
    """

    def __init__(self, region: Region) -> None:
        self.region = region

    @property
    def extent(self) -> str:
        """Its shape in words, and its strides in elements where they are not row-major."""
        array = self.region.array
        if array is None:
            return f"its {self.region.elements.size} elements"
        text = f"its shape {array.shape}"
        if array.flags.c_contiguous:
            return text
        return f"{text} with strides {tuple(step // array.itemsize for step in array.strides)}"

    def owns(self, elements: Array) -> Array:
        """Tell which elements of the region are the tensor's."""
        if self._table is None:
            return np.ones(elements.shape, np.bool_)
        return np.asarray(self._table[elements] >= 0)

    def name(self, element: int) -> str:
        """Return an element of the region as an expression: x[2, 3], or x + 7 where it has no
        index.
        """
        numbers = ", ".join(map(str, self.index(element)))
        between = self._table is not None and self._number(element) < 0
        return f"{self.region.name} + {numbers}" if between else f"{self.region.name}[{numbers}]"

    def index(self, element: int) -> tuple[int, ...]:
        """Return the index in the tensor of an element of the region.

        An element that is not the tensor's has the index that continues its rows where they are
        dense, and else one number, its distance from the address that the kernel was given.
        """
        array, distance = self.region.array, (element - self.region.origin,)
        if array is None or not array.size or not array.ndim:
            return distance
        if self._table is None:
            row, rest = divmod(element, array.size // array.shape[0])
            inner = np.unravel_index(rest, array.shape[1:]) if array.ndim > 1 else ()
            return row, *(int(i) for i in inner)
        number = self._number(element)
        if number < 0:
            return distance
        return tuple(int(i) for i in np.unravel_index(number, array.shape))

    def _number(self, element: int) -> int:
        table = self._table
        inside = table is not None and 0 <= element < table.size
        return int(table[element]) if table is not None and inside else -1

    @cached_property
    def _table(self) -> Array | None:
        """The row-major number of the tensor's element at each of the region, -1 in gaps; None
        for a tensor that is row-major and dense.
        """
        array = self.region.array
        if array is None or array.flags.c_contiguous:
            return None
        places = np.full(array.shape, self.region.origin, np.int64)
        for axis, (extent, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
            steps = np.arange(extent) * (stride // array.itemsize)
            places += steps.reshape([-1 if i == axis else 1 for i in range(array.ndim)])
        table = np.full(self.region.elements.size, -1, np.int64)
        table[places.ravel()[::-1]] = np.arange(array.size)[::-1]  # the first of equals stays
        return table
