"""Reading the arguments of a launch: what they specialise, and what the machine is passed.

`bind` says what a kernel is compiled for. It takes longer than many kernels run, so launches go
by keys: two launches whose arguments read as equal keys bind to equal specialisations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from teeny_core import DType, Tensor

from teeny_triton.arguments import Array, Span, address, as_array, is_memory, span
from teeny_triton.binding import (
    DIVISIBILITY,
    NUMBERS,
    Specialised,
    alignment_of,
    descriptor_scalars,
    hashable,
    number_dtype,
    require_fit,
    unwrapped,
)
from teeny_triton.frontend import Constexpr, Free, KernelFunction, Maybe, Spec, Tuple
from teeny_triton.language.constants import constexpr
from teeny_triton.language.patterns import DTypeVariable, PointerPattern
from teeny_triton.tools import TensorDescriptor

Number: TypeAlias = int | float
Key: TypeAlias = tuple[Any, ...]

_TENSOR_NAMES = ("data_ptr", "dtype", "is_contiguous", "is_cpu", "nbytes", "stride")
_COMPOUND = (float, tuple, list, constexpr)  # whose values `hashable` rewrites
_MISALIGNED = -1
_tensors: set[type] = set()
"""The classes seen so far that are PyTorch's tensor or like it."""


class Reader:
    """Reads the arguments of launches of one kernel."""

    def __init__(self, kernel: KernelFunction, specialised: Specialised) -> None:
        self._readers = tuple(
            _ParameterReader(name, name, spec, specialised).read
            for name, spec in kernel.specs.items()
        )

    def read(self, values: Sequence[Any]) -> tuple[Key, list[Number]]:
        """Return the key of a launch, and an address or a number for each run-time parameter.

        Args:
            values: a value for each parameter, in their order.

        Raises:
            KernelError: a number does not fit its annotation, or memory cannot be passed.
        """
        numbers: list[Number] = []
        spans: list[Span] = []
        key = [
            read(value, numbers, spans) for read, value in zip(self._readers, values, strict=True)
        ]
        if len(spans) > 1:
            key.append(_overlapping(spans))
        return tuple(key), numbers


_Read: TypeAlias = Callable[[Any, list[Number], list[Span]], Any]


class _ParameterReader:
    """Reads the arguments for one parameter, or for one item of a tuple."""

    def __init__(self, name: str, root: str, spec: Spec, specialised: Specialised) -> None:
        spec = spec.something if isinstance(spec, Maybe) else spec
        self.name = name
        self.root = root
        self.spec = spec
        self.specialised = specialised
        self.wanted = spec if isinstance(spec, DType) else None
        self.by_one = isinstance(spec, Free) and specialised.by_one(root)
        self.by_alignment = specialised.by_alignment(root)
        self.contiguous = isinstance(spec, PointerPattern) and spec.contiguous
        self.items: list[_ParameterReader] = []
        self.read: _Read = self.constant if isinstance(spec, Constexpr) else self.argument

    def constant(self, value: Any, numbers: list[Number], spans: list[Span]) -> Any:
        """Read a Python value."""
        kind = type(value)
        return hashable(unwrapped(value)) if kind in _COMPOUND else (kind, value)

    def argument(self, value: Any, numbers: list[Number], spans: list[Span]) -> Any:
        """Read a value of any kind."""
        kind = type(value)
        if kind in _tensors:
            return self.tensor(value, numbers, spans)
        if kind is np.ndarray:
            return self.array(value, numbers, spans)
        if kind is int:
            return self.integer(value, numbers)
        if kind is float or kind is bool:
            if self.wanted is not None:
                require_fit(self.name, self.wanted, number_dtype(value), value)
            numbers.append(value)
            return kind
        if kind is Tensor:
            return self.array(as_array(self.name, value), numbers, spans)
        if all(hasattr(kind, name) for name in _TENSOR_NAMES):
            _tensors.add(kind)
            return self.tensor(value, numbers, spans)
        if kind is constexpr:
            return constexpr, hashable(value)
        if isinstance(value, tuple | list):
            return self.tuple(value, numbers, spans)
        if isinstance(value, NUMBERS):
            return kind, self.scalar(value, numbers)
        if isinstance(value, TensorDescriptor):
            return self.descriptor(value, numbers, spans)
        if value is not None and is_memory(value):
            return kind, self.array(as_array(self.name, value), numbers, spans)
        return kind, value

    def integer(self, value: int, numbers: list[Number]) -> Any:
        """Read a Python integer: by its range, and whether it divides."""
        if self.by_one and value == 1:
            return "one"  # a 1 would equal True
        numbers.append(value)
        divides = self.by_alignment and value % DIVISIBILITY == 0
        if self.wanted is not None:
            require_fit(self.name, self.wanted, number_dtype(value), value)
            return divides
        if isinstance(self.spec, DTypeVariable):
            return divides, value < 0, (~value if value < 0 else value).bit_length()
        if -0x80000000 <= value <= 0x7FFFFFFF:
            return divides
        return divides, number_dtype(value)

    def scalar(self, value: Any, numbers: list[Number]) -> Any:
        """Read a number of NumPy, or of a subclass of Python's: by its dtype."""
        number = value.item() if isinstance(value, np.generic) else value
        numbers.append(number)
        own = number_dtype(value)
        if self.wanted is not None:
            require_fit(self.name, self.wanted, own, value)
        elif isinstance(self.spec, DTypeVariable) and not own.is_float:
            return own, number < 0, (~number if number < 0 else number).bit_length()
        return own

    def array(self, array: Array, numbers: list[Number], spans: list[Span]) -> Any:
        """Read memory: by its dtype, its alignment, and what may be done with it."""
        found = address(array)
        flags = array.flags
        dense = flags.c_contiguous
        numbers.append(found)
        if dense:
            spans.append((found, found + array.nbytes))
        else:
            spans.append(span(found, array.shape, array.strides, array.itemsize))
        alignment = 64
        if found & 63 or not (array.size and self.by_alignment):
            alignment = self.alignment(found, array.itemsize) if array.size else 0
        return array.dtype, alignment, flags.writeable, dense or not self.contiguous

    def tensor(self, tensor: Any, numbers: list[Number], spans: list[Span]) -> Any:
        """Read a tensor of PyTorch, as `array` does."""
        found = tensor.data_ptr()
        numbers.append(found)
        if tensor.is_contiguous():
            dense, size = True, tensor.nbytes
            spans.append((found, found + size))
        else:
            dense, size, itemsize = not self.contiguous, tensor.numel(), tensor.element_size()
            steps = [stride * itemsize for stride in tensor.stride()]
            spans.append(span(found, tensor.shape, steps, itemsize))
        alignment = 64
        if found & 63 or not (size and self.by_alignment):
            alignment = self.alignment(found, 1) if size else 0
        return tensor.dtype, alignment, tensor.is_cpu, dense

    def alignment(self, found: int, itemsize: int) -> int:
        """Read an address."""
        if found & 15 and found % itemsize:
            return _MISALIGNED
        return alignment_of(found) if self.by_alignment else 0

    def tuple(self, values: Sequence[Any], numbers: list[Number], spans: list[Span]) -> Any:
        """Read the items of a tuple."""
        if isinstance(self.spec, Tuple) and not self.spec.repeats:
            specs: Sequence[Spec] = self.spec.items
        else:
            repeated = self.spec.items[0] if isinstance(self.spec, Tuple) else Free()
            specs = [repeated] * len(values)
        while len(self.items) < min(len(specs), len(values)):
            place = len(self.items)
            name, spec = f"{self.name}_{place}", specs[place]
            self.items.append(_ParameterReader(name, self.root, spec, self.specialised))
        pairs = zip(self.items, values, strict=False)
        return type(values), len(values), *(item.read(v, numbers, spans) for item, v in pairs)

    def descriptor(self, value: TensorDescriptor, numbers: list[Number], spans: list[Span]) -> Any:
        """Read a descriptor: its memory, and numbers whose types are known."""
        if not isinstance(self.spec, Free):
            return TensorDescriptor, value.padding  # refused when it is bound
        memory = self.argument(value.base, numbers, spans)
        tokens = []
        for name, dtype, number in descriptor_scalars(self.name, value):
            reader = _ParameterReader(name, self.root, dtype, self.specialised)
            tokens.append(reader.argument(number, numbers, spans))
        return TensorDescriptor, memory, tuple(value.block_shape), value.padding, *tokens


def _overlapping(spans: Sequence[Span]) -> tuple[int, ...]:
    """Return which stretches of memory share a byte with another."""
    end = 0
    for low, high in sorted(spans):
        if low < end:
            break
        end = high
    else:
        return ()
    found = []
    for i, (low, high) in enumerate(spans):
        for j, (other_low, other_high) in enumerate(spans):
            if low < other_high and other_low < high and i != j:
                found.append(i)
                break
    return tuple(found)
