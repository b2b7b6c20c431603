"""Reading the arguments of a launch: what they specialise, and what the machine is passed.

`bind` says what a kernel is compiled for. It takes longer than many kernels run, so launches go
by keys: two launches whose arguments read as equal keys bind to equal specialisations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from teeny_core import DType, Tensor, f32, f64

from teeny_triton.arguments import Array, Span, address, as_array, is_memory, span
from teeny_triton.binding import (
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
from teeny_triton.guards import DIVISIBILITY, ArrayGuard, FloatGuard, Guard, IntegerGuard, SpanGuard
from teeny_triton.ir import Pointer
from teeny_triton.language.constants import constexpr
from teeny_triton.language.patterns import DTypeVariable, PointerPattern
from teeny_triton.tools import TensorDescriptor

Number: TypeAlias = int | float
Key: TypeAlias = tuple[Any, ...]

_TENSOR_NAMES = ("data_ptr", "dtype", "is_contiguous", "is_cpu", "nbytes", "stride")
COMPOUND = (float, tuple, list, constexpr)
"""Types whose values are no keys: equal ones may mean different code. `hashable` rewrites them."""
_MISALIGNED = -1
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_I32 = -(1 << 31), (1 << 31) - 1
_LOW, _HIGH = (_LEAST, _I32[0] - 1), (_I32[1] + 1, _MOST)
_foreign: set[type] = set()
"""The classes seen so far that are PyTorch's tensor or like it."""


class Reader:
    """Reads the arguments of launches of one kernel; `parameters` read one each."""

    def __init__(self, kernel: KernelFunction, specialised: Specialised) -> None:
        self.parameters = tuple(
            ParameterReader(name, name, spec, specialised) for name, spec in kernel.specs.items()
        )
        self._readers = tuple(parameter.read for parameter in self.parameters)

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
            key.append(overlapping(spans))
        return tuple(key), numbers


_Read: TypeAlias = Callable[[Any, list[Number], list[Span]], Any]


class ParameterReader:
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
        self.items: list[ParameterReader] = []
        self.read: _Read = self.constant if isinstance(spec, Constexpr) else self.argument

    def constant(self, value: Any, numbers: list[Number], spans: list[Span]) -> Any:
        """Read a Python value."""
        kind = type(value)
        return hashable(unwrapped(value)) if kind in COMPOUND else (kind, value)

    def argument(self, value: Any, numbers: list[Number], spans: list[Span]) -> Any:
        """Read a value of any kind."""
        kind = type(value)
        if kind in _foreign:
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
            _foreign.add(kind)
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
            dense, size = not self.contiguous, tensor.numel()
            low, high = reach(tensor)
            spans.append((found + low, found + high))
        alignment = 64
        if found & 63 or not (size and self.by_alignment):
            alignment = self.alignment(found, 1) if size else 0
        return tensor.dtype, alignment, tensor.is_cpu, dense

    # --- guards ---

    def guard(
        self, value: Any, word: int, place: int | None, element: DType | Pointer | None
    ) -> Guard | None:
        """Return what tells that another value of the same Python type reads as `value` does.

        Args:
            value: what was read.
            word: where the other one will stand.
            place: which parameter takes it, None when it is compiled in.
            element: the type of that parameter.

        Returns:
            None where no guard tells it.
        """
        kind = type(value)
        if kind is np.ndarray or kind is Tensor:
            array = as_array(self.name, value)
            alignment = self.guarded_alignment(address(array), array.size)
            writeable = array.flags.writeable
            layout = alignment, array.dtype, writeable, self.contiguous
            return ArrayGuard(word, place, array.itemsize, *layout)
        if kind in _foreign:
            alignment = self.guarded_alignment(value.data_ptr(), value.numel())
            return SpanGuard(word, place, value.element_size(), alignment)
        if kind is float:
            return FloatGuard(word, place) if element in (f32, f64) else None
        if isinstance(element, DType) and element.is_float:
            return None  # an integer for a float
        if kind is bool:
            return IntegerGuard(word, place, 0, 1, None)
        bounds = self.bounds(value) if kind is int else None
        if bounds is None:
            return None
        divides = value % DIVISIBILITY == 0 if self.by_alignment else None
        return IntegerGuard(word, place, *bounds, divides)

    def guarded_alignment(self, found: int, size: int) -> int | None:
        """Return the alignment that an address is guarded by."""
        return (alignment_of(found) if size else 0) if self.by_alignment else None

    def bounds(self, value: int) -> tuple[int, int] | None:
        """Return the ends of a range with `value` in which all integers read as it does."""
        if self.wanted is not None:
            ranges = [(max(int(self.wanted.min), _LEAST), min(int(self.wanted.max), _MOST))]
        elif isinstance(self.spec, DTypeVariable):
            return None
        elif self.by_one:
            ranges = [_LOW, (_I32[0], 0), (1, 1), (2, _I32[1]), _HIGH]
        else:
            ranges = [_LOW, _I32, _HIGH]
        return next(((low, high) for low, high in ranges if low <= value <= high), None)

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
            self.items.append(ParameterReader(name, self.root, spec, self.specialised))
        pairs = zip(self.items, values, strict=False)
        return type(values), len(values), *(item.read(v, numbers, spans) for item, v in pairs)

    def descriptor(self, value: TensorDescriptor, numbers: list[Number], spans: list[Span]) -> Any:
        """Read a descriptor: its memory, and numbers whose types are known."""
        if not isinstance(self.spec, Free):
            return TensorDescriptor, value.padding  # refused when it is bound
        memory = self.argument(value.base, numbers, spans)
        tokens = []
        for name, dtype, number in descriptor_scalars(self.name, value):
            reader = ParameterReader(name, self.root, dtype, self.specialised)
            tokens.append(reader.argument(number, numbers, spans))
        return TensorDescriptor, memory, tuple(value.block_shape), value.padding, *tokens


def is_foreign(kind: type) -> bool:
    """Whether a class, of which arguments have been read, is PyTorch's tensor or like it."""
    return kind in _foreign


def reach(tensor: Any) -> Span:
    """Return the ends of the memory of a tensor of PyTorch, counted from its first element."""
    itemsize = tensor.element_size()
    return span(0, tensor.shape, [stride * itemsize for stride in tensor.stride()], itemsize)


def overlapping(spans: Sequence[Span]) -> tuple[int, ...]:
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
