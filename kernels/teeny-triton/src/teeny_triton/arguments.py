"""Memory that a kernel may be given: arrays and tensors of any library, and wrappers of them."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from teeny_core import DType, DTypeError, Tensor, dtype
from teeny_core.internal import settle

from teeny_triton.errors import KernelError

Array: TypeAlias = npt.NDArray[Any]

_INTERFACES = ("__array_interface__", "data_ptr", "__dlpack__")
_FAKE_BYTES = 1 << 40  # between the addresses of two `MockTensor`s
_first_byte = ctypes.c_char.from_buffer
_fake_addresses = itertools.count(_FAKE_BYTES, _FAKE_BYTES)


def is_memory(value: Any) -> bool:
    """Whether an argument is an array or tensor, or a tuple with one in it."""
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, tuple | list):
        return any(map(is_memory, value))
    if isinstance(value, np.generic | type):
        return False
    return any(hasattr(value, name) for name in _INTERFACES)


def as_array(name: str, value: Any) -> Array:
    """Return a NumPy array over the memory of an argument, without a copy.

    Takes NumPy arrays, teeny tensors, torch tensors in host memory (anything with `data_ptr`),
    and whatever speaks `__array_interface__` or DLPack.

    Raises:
        KernelError: the object has no memory that a kernel could use.
    """
    try:
        array = _viewed(value)
        dtype(array.dtype)
        if not array.dtype.isnative:
            raise TypeError("its bytes are in the order of another machine")
        if array.size and address(array) % array.itemsize:
            raise TypeError("its elements begin between the addresses that suit their type")
        return array
    except (DTypeError, TypeError, AttributeError, BufferError, RuntimeError) as error:
        raise KernelError(
            f"argument `{name}` of type {type(value).__name__} cannot be passed: {error}",
            hint="pass a NumPy array or a tensor in host memory",
        ) from error


def address(array: Array) -> int:
    """Return the address of the first element of an array."""
    try:
        return ctypes.addressof(_first_byte(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only, strided, or of a dtype that buffers do not know
        found: int = array.__array_interface__["data"][0]
        return found


def span(address: int, shape: Sequence[int], steps: Sequence[int], itemsize: int) -> Span:
    """Return the first byte of a strided array and the first one after it; steps in bytes."""
    low, high = address, address + itemsize
    for extent, step in zip(shape, steps, strict=True):
        if extent == 0:
            return address, address
        if step < 0:
            low += (extent - 1) * step
        else:
            high += (extent - 1) * step
    return low, high


Span: TypeAlias = tuple[int, int]


class TensorWrapper:
    """Memory of another object, read as elements of another dtype of the same size."""

    def __init__(self, base: Any, dtype: DType) -> None:
        self.base = base
        self.dtype = dtype
        self.array = as_array("base", base).view(dtype.numpy)
        self.shape = self.array.shape

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The memory, as NumPy's protocol describes it; raw where NumPy lacks the dtype."""
        return self.array.__array_interface__

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return address(self.array)

    def stride(self, axis: int | None = None) -> Any:
        """Return how many elements apart neighbours are, along an axis or along each."""
        strides = tuple(step // self.array.itemsize for step in self.array.strides)
        return strides if axis is None else strides[axis]

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return self.array.itemsize

    def numel(self) -> int:
        """Return the number of elements."""
        return self.array.size

    def __repr__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base!r})"


def reinterpret(tensor: Any, dtype: Any) -> TensorWrapper:
    """Return `tensor` seen as elements of another dtype of the same size; no copy is made.

    Raises:
        KernelError: it has no memory, or the sizes differ.
    """
    wanted = as_dtype(dtype)
    base = tensor.base if isinstance(tensor, TensorWrapper) else tensor
    size = as_array("tensor", base).itemsize
    if size != wanted.itemsize:
        raise KernelError(f"elements of {size} bytes cannot be read as {wanted}")
    return TensorWrapper(base, wanted)


class MockTensor:
    """A tensor without memory, to compile a kernel by `warmup` before its arguments exist."""

    def __init__(self, dtype: Any, shape: Sequence[int] = (1,)) -> None:
        self.dtype = as_dtype(dtype)
        self.shape = tuple(shape)
        self._address = next(_fake_addresses)
        size = max(1, int(np.prod(self.shape))) * self.dtype.itemsize
        memory = (ctypes.c_char * size).from_address(self._address)
        self.array: Array = np.ndarray(self.shape, self.dtype.numpy, buffer=memory)  # type: ignore[arg-type]

    @staticmethod
    def wrap_dtype(value: Any) -> Any:
        """Return a mock of a dtype of PyTorch or NumPy, and anything else as it is."""
        is_dtype = isinstance(value, np.dtype) or type(value).__module__ == "torch"
        return MockTensor(value) if is_dtype and _names_dtype(value) else value

    def data_ptr(self) -> int:
        """Return an address at which there is nothing."""
        return self._address

    def stride(self, axis: int | None = None) -> Any:
        """Return how many elements apart neighbours are, along an axis or along each."""
        strides = tuple(step // self.dtype.itemsize for step in self.array.strides)
        return strides if axis is None else strides[axis]


def as_dtype(value: Any) -> DType:
    """Return the dtype that a name, or a dtype of this language, NumPy or PyTorch stands for."""
    foreign = type(value).__module__ == "torch"
    return dtype(str(value).rpartition(".")[2] if foreign else value)


def _names_dtype(value: Any) -> bool:
    try:
        as_dtype(value)
    except DTypeError:
        return False
    return True


def _viewed(value: Any) -> Array:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, TensorWrapper | MockTensor):
        return value.array
    if isinstance(value, Tensor):
        settle()  # lazy tensors that read this one must see it as it is now
        return value.storage.array()
    if hasattr(value, "data_ptr"):
        return _from_address(value)
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    return np.from_dlpack(value)


def _from_address(tensor: Any) -> Array:
    """View a torch-like tensor; NumPy itself would refuse bf16 and tensors with gradients."""
    if getattr(getattr(tensor, "device", None), "type", "cpu") != "cpu":
        raise TypeError(f"its memory is on {tensor.device}")
    numpy = as_dtype(tensor.dtype).numpy
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    if 0 in shape:
        return np.empty(shape, numpy)
    reach = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    memory = (ctypes.c_char * (reach * numpy.itemsize)).from_address(tensor.data_ptr())
    steps = tuple(stride * numpy.itemsize for stride in strides)
    return np.ndarray(shape, numpy, buffer=memory, strides=steps)
