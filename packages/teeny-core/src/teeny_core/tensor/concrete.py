"""Concrete tensors: lazy, with a value when one is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from teeny_core import ops
from teeny_core import shape as shapes
from teeny_core.device.base import Buffer, Device
from teeny_core.dtype import DType, DTypeLike, bool_, f32, i64
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import DTypeError, ShapeError
from teeny_core.graph import Node
from teeny_core.op import Array
from teeny_core.ops.convert import convert
from teeny_core.storage import Storage
from teeny_core.tensor.base import AnyTensor
from teeny_core.tensor.core import Operand
from teeny_core.tensor.realize import assign, own, pending, realize


class Tensor(AnyTensor):
    """A tensor with a value.

    Operations on it are recorded; when the value is asked for, they are compiled and run together
    on the default device.
    """

    __slots__ = ()

    def __init__(self, data: Any, dtype: DTypeLike | None = None) -> None:
        """Make a tensor of the values of `data`, which are copied.

        Args:
            data: a scalar, nested lists, a NumPy array, a tensor, or anything with `__array__` or
                `__dlpack__` in host memory. Python floats become f32, integers i64.
            dtype: element type, to which the values are converted.

        Raises:
            DTypeError: when there is no such element type.
            ShapeError: when nested lists are ragged.
        """
        wanted = None if dtype is None else to_dtype(dtype)
        if isinstance(data, AnyTensor):
            self._node = data.cast(wanted or data.dtype).node
            pending(self)
            return
        self._node = ops.data(Storage.of(as_array(data, wanted)))

    @staticmethod
    def from_node(node: Node) -> Tensor:
        """Return a tensor for a node whose leaves have values; it shares the value of a leaf."""
        tensor = Tensor.__new__(Tensor)
        tensor._node = node
        if node.op != "data":
            pending(tensor)
        return tensor

    @staticmethod
    def from_array(array: Array) -> Tensor:
        """Return a tensor that shares the memory of `array`, which must not change."""
        return Tensor.from_node(ops.data(Storage.of(array)))

    @property
    def is_symbolic(self) -> bool:
        """Whether this is a handle while tracing: no."""
        return False

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return self._node.type.shape  # type: ignore[return-value]

    @property
    def size(self) -> int:
        """Number of elements."""
        return shapes.numel(self.shape)  # type: ignore[return-value]

    def _wrap(self, node: Node) -> AnyTensor:
        tensor = Tensor.from_node(node)
        pending(tensor)
        return tensor

    def _constant(self, value: Operand) -> AnyTensor:
        return Tensor(value)

    # --- values -------------------------------------------------------------

    def realize(self) -> Tensor:
        """Compute the value now and return the tensor."""
        realize(self)
        return self

    def own(self) -> Tensor:
        """Compute the value, in a buffer that no other tensor shares; return the tensor."""
        own(self)
        return self

    @property
    def storage(self) -> Storage:
        """The place of the value, which no other tensor shares and which stays the same."""
        own(self)
        return self._node.attrs["handle"]  # type: ignore[no-any-return]

    def _array(self) -> Array:
        """Return the value in host memory, which other tensors may share."""
        realize(self)
        return self._node.attrs["handle"].array()  # type: ignore[no-any-return]

    def place(self, device: Device) -> Buffer:
        """Move the value to a device and return its buffer, which stays that of the tensor."""
        return self.storage.place(device)

    def assign(self, value: Operand) -> Tensor:
        """Replace the value, keeping the buffer; while tracing, record the update.

        Raises:
            ShapeError: when `value` does not broadcast to the shape.
            DTypeError: when it is of another type.
        """
        assign(self, value)
        return self

    def numpy(self) -> Array:
        """Return the value as a NumPy array, read-only, without a copy where the device can."""
        view = self._array().view()
        view.flags.writeable = False
        return view

    def item(self) -> bool | int | float:
        """Return the only element as a Python scalar.

        Raises:
            ShapeError: when there is not exactly one element.
        """
        if self.size != 1:
            raise ShapeError(f"item() of {self.type}", hint="index one element first")
        return _widened(self.numpy()).item()  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        """Return the value as nested lists of Python scalars."""
        return _widened(self.numpy()).tolist()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if not self.dtype.is_int:
            raise DTypeError(f"{self.type} is no index", hint="cast it to an integer type")
        return int(self.item())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        array = self._array()
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array().__dlpack_device__()

    def __repr__(self) -> str:
        values = np.array2string(
            _widened(self.numpy()), separator=", ", prefix="Tensor(", threshold=100
        )
        size = "" if self.size else f", shape={self.shape}"
        return f"Tensor({values}{size}, dtype={self.dtype})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.size == 1 else str(self)


def _widened(array: Array) -> Array:
    """Return ml_dtypes' arrays, which NumPy prints badly, as f32."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def as_array(data: Any, wanted: DType | None) -> Array:
    """Return data in any form as a new C-ordered array, of the type wanted or of its own."""
    typed = isinstance(data, np.ndarray | np.generic)
    if not typed and hasattr(data, "__dlpack__"):
        data, typed = np.from_dlpack(data), True
    try:
        array = np.array(data, order="C")
    except ValueError as error:
        raise ShapeError(
            f"cannot make a tensor: {error}", hint="nested lists have equal lengths"
        ) from error
    own = to_dtype(array.dtype)
    if not typed and not hasattr(data, "__array__"):
        wanted = wanted or _DEFAULTS.get(own.kind, own)
    native = array.astype(own.numpy, copy=False)
    return convert(native, wanted) if wanted else native


_DEFAULTS = {"bool": bool_, "int": i64, "float": f32}
