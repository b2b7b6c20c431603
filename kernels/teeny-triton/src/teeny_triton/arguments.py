"""Arguments of a launch: memory of any library, numbers, and the facts that specialise a kernel."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from teeny_core import DType, DTypeError, Tensor, bool_, dtype, f32, i32, i64
from teeny_core.internal import settle

from teeny_triton.errors import KernelError
from teeny_triton.frontend import (
    Constexpr,
    Described,
    Fixed,
    Free,
    Group,
    KernelFunction,
    Kind,
    Structure,
    Tuple,
    match,
)
from teeny_triton.ir import Pointer
from teeny_triton.language.control import Facts
from teeny_triton.language.dtypes import constexpr
from teeny_triton.language.patterns import DTypeVariable
from teeny_triton.language.promotion import scalar_dtype
from teeny_triton.tools import TensorDescriptor

Array: TypeAlias = npt.NDArray[Any]
Spec: TypeAlias = Any

ALIGNMENTS = (64, 16)
DIVISIBILITY = 16


@dataclass(frozen=True)
class Specialisation:
    """What a kernel is compiled for; equal ones share code. Constants are compared by value."""

    kinds: tuple[tuple[str, Structure], ...]
    constants: tuple[tuple[str, Any], ...]
    facts: tuple[tuple[str, Facts], ...]

    @property
    def key(self) -> object:
        """A hashable key; True, 1 and 1.0 differ."""
        typed = tuple((name, type(value), _hashable(value)) for name, value in self.constants)
        return (self.kinds, typed, self.facts)


@dataclass(frozen=True)
class Bound:
    """The arguments of one launch by run-time parameter, and what they specialise."""

    specialisation: Specialisation
    values: Mapping[str, Any]


def bind(
    kernel: KernelFunction,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    plain: frozenset[str] = frozenset(),
) -> Bound:
    """Sort the arguments of a launch into run-time values, constants and facts.

    Arrays and tensors become pointers; `None`, strings, functions and other Python objects
    constants; numbers run-time scalars, but an unannotated 1 is a constant, as in Triton.
    Integers of the parameters in `plain` are not specialised.

    Raises:
        KernelError: an argument that is missing, unknown, or does not fit its annotation.
    """
    return _Binder(kernel, plain).bind(_by_name(kernel, args, kwargs))


def _by_name(
    kernel: KernelFunction, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments in the order of the parameters, defaults included."""
    given = {**dict(zip(kernel.specs, args, strict=False)), **kwargs}
    if given.keys() == kernel.specs.keys() and len(args) + len(kwargs) == len(given):
        variadic = any(isinstance(spec, Tuple) for spec in kernel.specs.values())
        if not variadic:  # the common case, without the cost of `bind`
            return {name: given[name] for name in kernel.specs}
    try:
        bound = kernel.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise KernelError(
            f"{kernel.__name__}: {error}",
            hint=f"its parameters are {', '.join(kernel.signature.parameters)}",
        ) from error
    bound.apply_defaults()
    return dict(bound.arguments)


class _Binder:
    def __init__(self, kernel: KernelFunction, plain: frozenset[str]) -> None:
        self.kernel = kernel
        self.plain = plain
        self.variables: dict[str, DType] = {}
        self.kinds: dict[str, Structure] = {}
        self.constants: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        self.facts: dict[str, Facts] = {}

    def bind(self, arguments: Mapping[str, Any]) -> Bound:
        """Memory first: it decides the type variables that numbers then follow."""
        specs = self.kernel.specs
        given = {name: _unwrapped(value) for name, value in arguments.items()}
        memory = {name for name, value in given.items() if is_memory(value)}
        for name in sorted(given, key=lambda name: name not in memory):
            self.argument(name, specs[name], given[name])
        order = list(given)
        arrays = {name: v for name, v in self.values.items() if isinstance(v, np.ndarray)}
        overlapping: set[str] = set()
        for a, b in itertools.combinations(arrays, 2):
            if np.may_share_memory(arrays[a], arrays[b]):
                overlapping |= {a, b}
        for name, array in arrays.items():
            self.facts[name] = Facts(_alignment(array), 1, name not in overlapping)
        return Bound(
            Specialisation(
                tuple((name, self.kinds[name]) for name in order if name in self.kinds),
                tuple((name, self.constants[name]) for name in order if name in self.constants),
                tuple(sorted(self.facts.items())),
            ),
            self.values,
        )

    def argument(self, name: str, spec: Spec, value: Any) -> None:
        """Sort one argument of the call."""
        if isinstance(spec, Constexpr):
            self.constants[name] = value
        elif isinstance(value, tuple | list) and _has_run_time(value):
            self.kinds[name] = self.group(name, spec, value)
        elif isinstance(value, TensorDescriptor):
            self.kinds[name] = self.described(name, value)
        elif not _is_run_time(value) or self.is_one(name, spec, value):
            self.constants[name] = value
        else:
            self.kinds[name] = self.run_time(name, spec, value)

    def group(self, name: str, spec: Spec, values: Sequence[Any]) -> Group:
        """Sort the items of a tuple argument."""
        specs: Sequence[Spec] = [Free()] * len(values)
        if isinstance(spec, Tuple):
            specs = spec.items * len(values) if spec.repeats else spec.items
        if len(specs) != len(values):
            raise KernelError(f"argument `{name}` takes {len(specs)} items, not {len(values)}")
        triples = enumerate(zip(specs, map(_unwrapped, values), strict=True))
        items = tuple(self.item(f"{name}_{i}", *pair) for i, pair in triples)
        return Group(items, type(values) if hasattr(values, "_fields") else _as_tuple)

    def item(self, name: str, spec: Spec, value: Any) -> Structure:
        """Sort one item of a tuple."""
        if isinstance(value, tuple | list):
            return self.group(name, spec, value)
        if isinstance(value, TensorDescriptor):
            return self.described(name, value)
        if not _is_run_time(value) or self.is_one(name, spec, value):
            return Fixed(type(value), _hashable(value))
        return self.run_time(name, spec, value)

    def described(self, name: str, value: TensorDescriptor) -> Described:
        """Enter the memory, the extents and the strides of a tensor."""
        pointer = self.run_time(name, Free(), value.base)
        if not isinstance(pointer, Pointer):
            raise KernelError(f"argument `{name}` describes {value.base!r}, which is no tensor")
        for i, extent in enumerate(value.shape):
            self.run_time(f"{name}_shape_{i}", i32, extent)
        for i, stride in enumerate(value.strides[:-1]):
            self.run_time(f"{name}_stride_{i}", i64, stride)
        return Described(pointer, tuple(value.block_shape), value.padding)

    def run_time(self, name: str, spec: Spec, value: Any) -> Kind:
        """Enter one run-time value and return its type."""
        if isinstance(value, bool | int | float | np.generic):
            kind: Kind = self.scalar_kind(name, spec, value)
            self.values[name] = value
            if type(value) is int and value % DIVISIBILITY == 0 and name not in self.plain:
                self.facts[name] = Facts(divisibility=DIVISIBILITY)
        else:
            self.values[name] = as_array(name, value)
            kind = Pointer(dtype(self.values[name].dtype))
        match(name, spec, kind, self.variables)
        return kind

    def scalar_kind(self, name: str, spec: Spec, value: Any) -> DType:
        """The type of a number: its annotation when it fits that, else its own."""
        wanted = spec
        if isinstance(spec, DTypeVariable):
            wanted = self.variables.get(spec.name)
        if isinstance(value, np.generic):
            own = dtype(value.dtype)
        else:
            own = scalar_dtype(value)
        if not isinstance(wanted, DType):
            return f32 if own.is_float and not isinstance(value, np.generic) else own
        fits = wanted.is_float or ((own == bool_) == wanted.is_bool and not own.is_float)
        if fits and not wanted.is_float:
            fits = wanted.min <= value <= wanted.max
        if not fits:
            raise KernelError(f"argument `{name}` must be {wanted}, not {value!r}")
        return wanted

    def is_one(self, name: str, spec: Spec, value: Any) -> bool:
        """Whether a number is specialised as the constant 1."""
        return (
            isinstance(spec, Free) and type(value) is int and value == 1 and name not in self.plain
        )


def is_memory(value: Any) -> bool:
    """Whether an argument is an array or tensor, or a tuple with one in it."""
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, tuple | list):
        return any(map(is_memory, value))
    if isinstance(value, TensorDescriptor):
        return True
    names = ("__array_interface__", "data_ptr", "__dlpack__")
    return not isinstance(value, np.generic) and any(hasattr(value, name) for name in names)


def as_array(name: str, value: Any) -> Array:
    """Return a NumPy array over the memory of an argument, without a copy.

    Takes NumPy arrays, teeny tensors, torch tensors in host memory (anything with `data_ptr`),
    and whatever speaks `__array_interface__` or DLPack.

    Raises:
        KernelError: the object has no memory that a kernel could use.
    """
    try:
        if isinstance(value, np.ndarray):
            array = value
        elif isinstance(value, Tensor):
            settle()  # lazy tensors that read this one must see it as it is now
            array = value.storage.array()
        elif hasattr(value, "data_ptr"):
            array = _from_address(value)
        elif hasattr(value, "__array_interface__"):
            array = np.asarray(value)
        else:
            array = np.from_dlpack(value)
        dtype(array.dtype)
        return array
    except (DTypeError, TypeError, AttributeError, BufferError) as error:
        raise KernelError(
            f"argument `{name}` of type {type(value).__name__} cannot be passed: {error}",
            hint="pass a NumPy array or a tensor in host memory",
        ) from error


def _from_address(tensor: Any) -> Array:
    """View a torch-like tensor; NumPy itself would refuse bf16 and tensors with gradients."""
    if getattr(getattr(tensor, "device", None), "type", "cpu") != "cpu":
        raise TypeError(f"its memory is on {tensor.device}")
    numpy = dtype(str(tensor.dtype).rpartition(".")[2]).numpy
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    if 0 in shape:
        return np.empty(shape, numpy)
    reach = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    memory = (ctypes.c_char * (reach * numpy.itemsize)).from_address(tensor.data_ptr())
    steps = tuple(stride * numpy.itemsize for stride in strides)
    return np.ndarray(shape, numpy, buffer=memory, strides=steps)


def _is_run_time(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.generic) or is_memory(value)


def _has_run_time(values: Sequence[Any]) -> bool:
    """Whether a tuple has an item, at any depth, that is not known when the kernel is built."""
    return any(
        _has_run_time(value)
        if isinstance(value, tuple | list)
        else isinstance(value, TensorDescriptor) or _is_run_time(value)
        for value in map(_unwrapped, values)
    )


def _as_tuple(*items: Any) -> tuple[Any, ...]:
    return items


def _alignment(array: Array) -> int:
    address = array.__array_interface__["data"][0]
    return next((known for known in ALIGNMENTS if address % known == 0), array.itemsize)


def _unwrapped(value: Any) -> Any:
    return value.value if isinstance(value, constexpr) else value


def _hashable(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple((type(item), _hashable(item)) for item in value)
    try:
        hash(value)
    except TypeError as error:
        raise KernelError(f"{value!r} cannot be a constant of a kernel: {error}") from error
    return value
