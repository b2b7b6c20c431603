"""From the arguments of a launch to run-time values, and to what the kernel is compiled for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from teeny_core import DType, bool_, dtype, f32, i32, i64, u64

from teeny_triton.arguments import address, as_array, is_memory
from teeny_triton.errors import KernelError
from teeny_triton.frontend import (
    Constexpr,
    Described,
    Fixed,
    Free,
    Group,
    KernelFunction,
    Kind,
    Maybe,
    Spec,
    Structure,
    Tuple,
    check_constant,
    check_contiguous,
    describe,
    match,
)
from teeny_triton.guards import DIVISIBILITY
from teeny_triton.ir import Pointer
from teeny_triton.language.constants import constexpr
from teeny_triton.language.control import Facts
from teeny_triton.language.patterns import DTypeVariable
from teeny_triton.language.static import unwrapped as unwrapped
from teeny_triton.tools import TensorDescriptor

NUMBERS = (bool, int, float, np.generic)


@dataclass(frozen=True)
class Specialised:
    """Which parameters leave their values out of what is compiled: not specialised at all, or
    not by how far the value divides.
    """

    never: frozenset[str] = frozenset()
    not_by_alignment: frozenset[str] = frozenset()

    def by_one(self, name: str) -> bool:
        """Whether the number 1 is compiled in."""
        return name not in self.never

    def by_alignment(self, name: str) -> bool:
        """Whether the alignment of addresses and numbers is compiled in."""
        return name not in self.never and name not in self.not_by_alignment


@dataclass(frozen=True)
class Specialisation:
    """What a kernel is compiled for; equal ones share code. Constants are compared by value."""

    kinds: tuple[tuple[str, Structure], ...]
    constants: tuple[tuple[str, Any], ...]
    facts: tuple[tuple[str, Facts], ...]

    @property
    def key(self) -> object:
        """A hashable key; True, 1 and 1.0 differ."""
        constants = tuple((name, hashable(value)) for name, value in self.constants)
        return (self.kinds, constants, self.facts)


@dataclass(frozen=True)
class Bound:
    """The arguments of one launch by run-time parameter, and what they specialise."""

    specialisation: Specialisation
    values: Mapping[str, Any]


def bind(
    kernel: KernelFunction, arguments: Mapping[str, Any], specialised: Specialised | None = None
) -> Bound:
    """Sort the arguments of a launch into run-time values, constants and facts.

    Arrays and tensors become pointers; `None`, strings, functions and other Python objects
    constants; numbers run-time scalars, but an unannotated 1 is a constant, as in Triton.

    Args:
        kernel: the kernel.
        arguments: a value for each of its parameters, in their order: see `by_name`.
        specialised: which of them are not compiled in.

    Raises:
        KernelError: an argument does not fit its annotation.
    """
    return _Binder(kernel, specialised or Specialised()).bind(arguments)


def by_name(
    kernel: KernelFunction, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments in the order of the parameters, defaults included.

    Raises:
        KernelError: an argument that is missing or unknown.
    """
    try:
        bound = kernel.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise KernelError(
            f"{kernel.__name__}: {error}",
            hint=f"its parameters are {', '.join(kernel.signature.parameters)}",
        ) from error
    bound.apply_defaults()
    return dict(bound.arguments)


@dataclass
class _Binder:
    kernel: KernelFunction
    specialised: Specialised
    variables: dict[str, DType] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)

    def bind(self, arguments: Mapping[str, Any]) -> Bound:
        """Memory first: it decides the type variables that numbers then follow."""
        specs = self.kernel.specs
        memory = {name for name, value in arguments.items() if has_memory(value)}
        found: dict[str, Structure] = {}
        for name in sorted(arguments, key=lambda name: name not in memory):
            found[name] = self.argument(name, name, specs[name], arguments[name])
        self.note_overlaps()
        kinds, constants = [], []
        for name in arguments:
            kind = found[name]
            if is_fixed(kind):
                constants.append((name, value_of(kind)))
            else:
                kinds.append((name, kind))
        facts = tuple(sorted(self.facts.items()))
        return Bound(Specialisation(tuple(kinds), tuple(constants), facts), self.values)

    def argument(self, name: str, root: str, spec: Spec, value: Any) -> Structure:
        """Return what a kernel is compiled for, of the parameter `root` or of an item of it."""
        is_constant, value = isinstance(value, constexpr), unwrapped(value)
        if isinstance(spec, Maybe):
            if value is None:
                return fixed(value)
            spec = spec.something
        if isinstance(spec, Constexpr):
            check_constant(name, spec, value)
            return fixed(value)
        if is_constant:
            return fixed(value)
        if isinstance(value, tuple | list):
            return self.items(name, root, spec, value)
        if isinstance(value, TensorDescriptor):
            return self.descriptor(name, root, spec, value)
        if not is_run_time(value):
            self.require_default(name, root, spec, value)
            return fixed(value)
        if self.is_one(name, root, spec, value):
            return fixed(value)
        return self.run_time(name, root, spec, value)

    def items(self, name: str, root: str, spec: Spec, values: Sequence[Any]) -> Structure:
        """Sort the items of a tuple argument."""
        specs: Sequence[Spec] = [Free()] * len(values)
        if isinstance(spec, Tuple):
            specs = spec.items * len(values) if spec.repeats else spec.items
        elif not isinstance(spec, Free):
            raise KernelError(f"argument `{name}` must be {spec}, not a tuple")
        if len(specs) != len(values):
            raise KernelError(f"argument `{name}` takes {len(specs)} items, not {len(values)}")
        triples = enumerate(zip(specs, values, strict=True))
        kinds = tuple(self.argument(f"{name}_{i}", root, *pair) for i, pair in triples)
        return Group(kinds, type(values) if hasattr(values, "_fields") else _as_tuple)

    def descriptor(self, name: str, root: str, spec: Spec, value: TensorDescriptor) -> Described:
        """Sort a descriptor: an address, then extents, then all strides but the last."""
        if not isinstance(spec, Free):
            raise KernelError(f"argument `{name}` must be {spec}, not a descriptor")
        pointer = self.run_time(name, root, Free(), value.base)
        if not isinstance(pointer, Pointer):
            raise KernelError(f"argument `{name}` describes {value.base!r}, which is no tensor")
        for part, of, number in descriptor_scalars(name, value):
            self.run_time(part, root, of, number)
        return Described(pointer, tuple(value.block_shape), value.padding)

    def run_time(self, name: str, root: str, spec: Spec, value: Any) -> Kind:
        """Enter one run-time value and return its type."""
        by_alignment = self.specialised.by_alignment(root)
        if isinstance(value, NUMBERS):
            kind: Kind = self.scalar_kind(name, spec, value)
            self.values[name] = value
            if type(value) is int and value % DIVISIBILITY == 0 and by_alignment:
                self.facts[name] = Facts(divisibility=DIVISIBILITY)
            match(name, spec, kind, self.variables)
            return kind
        array = self.values[name] = as_array(name, value)
        kind = Pointer(dtype(array.dtype))
        match(name, spec, kind, self.variables)
        check_contiguous(name, spec, array)
        alignment = alignment_of(address(array)) if by_alignment and array.size else 0
        self.facts[name] = Facts(alignment or array.itemsize)
        return kind

    def scalar_kind(self, name: str, spec: Spec, value: Any) -> DType:
        """The type of a number: its annotation when it fits that, else its own."""
        wanted = self.variables.get(spec.name) if isinstance(spec, DTypeVariable) else spec
        own = number_dtype(value)
        if not isinstance(wanted, DType):
            return own
        require_fit(name, wanted, own, value)
        return wanted

    def require_default(self, name: str, root: str, spec: Spec, value: Any) -> None:
        """See that an object which is no number and has no memory may be passed.

        Raises:
            KernelError: the annotation asks for a number or for memory, and the object is not
                the parameter's default, such as None.
        """
        default = self.kernel.signature.parameters[root].default
        if not isinstance(spec, Free) and not (name == root and value is default):
            wanted = describe(spec, self.variables)
            raise KernelError(f"argument `{name}` must be {wanted}, not {value!r}")

    def is_one(self, name: str, root: str, spec: Spec, value: Any) -> bool:
        """Whether a number is specialised as the constant 1."""
        plain = isinstance(spec, Free) and type(value) is int and value == 1
        return plain and self.specialised.by_one(root)

    def note_overlaps(self) -> None:
        """Withdraw the promise that memory is reached by one pointer only, where it is not."""
        arrays = {name: v for name, v in self.values.items() if isinstance(v, np.ndarray)}
        overlapping: set[str] = set()
        for a, b in itertools.combinations(arrays, 2):
            if np.may_share_memory(arrays[a], arrays[b]):
                overlapping |= {a, b}
        for name in overlapping:
            self.facts[name] = Facts(self.facts[name].alignment, 1, False)


def descriptor_scalars(name: str, descriptor: TensorDescriptor) -> Iterator[tuple[str, DType, int]]:
    """Yield the parameters of a descriptor beside its base: name, type and value.

    They are all extents, and all strides but the last, which is 1.
    """
    for axis, extent in enumerate(descriptor.shape):
        yield f"{name}_shape_{axis}", i32, extent
    for axis, stride in enumerate(descriptor.strides[:-1]):
        yield f"{name}_stride_{axis}", i64, stride


def fixed(value: Any) -> Fixed:
    """Return what a constant is compiled for.

    Raises:
        KernelError: it has no hash.
    """
    hashable(value)
    return Fixed(type(value), value)


def is_fixed(kind: Structure) -> bool:
    """Whether all of an argument is known when the kernel is built."""
    return all(map(is_fixed, kind.items)) if isinstance(kind, Group) else isinstance(kind, Fixed)


def value_of(kind: Structure) -> Any:
    """Return an argument all of which is known when the kernel is built."""
    if isinstance(kind, Group):
        return kind.make(*map(value_of, kind.items))
    assert isinstance(kind, Fixed)
    return kind.value


def has_memory(value: Any) -> bool:
    """Whether there is memory in an argument."""
    if isinstance(value, tuple | list):
        return any(map(has_memory, value))
    return isinstance(value, TensorDescriptor) or is_memory(value)


def is_run_time(value: Any) -> bool:
    """Whether a value that is no tuple is passed when the kernel runs."""
    return isinstance(value, NUMBERS) or is_memory(value)


def number_dtype(value: Any) -> DType:
    """Return the type that a number has as an argument without annotation.

    Raises:
        KernelError: an integer that fits no type.
    """
    if isinstance(value, np.generic):
        return dtype(value.dtype)
    if isinstance(value, bool):
        return bool_
    if isinstance(value, float):
        return f32
    for candidate in (i32, i64, u64):
        if candidate.min <= value <= candidate.max:
            return candidate
    raise KernelError(f"{value} fits no integer type")


def require_fit(name: str, wanted: DType, own: DType, value: Any) -> None:
    """See that a number may be passed where `wanted` is declared.

    Raises:
        KernelError: it may not.
    """
    fits = wanted.is_float or ((own == bool_) == wanted.is_bool and not own.is_float)
    if fits and not wanted.is_float:
        fits = wanted.min <= value <= wanted.max
    if not fits:
        raise KernelError(f"argument `{name}` must be {wanted}, not {value!r}")


def alignment_of(address: int) -> int:
    """Return what is promised of an address; 0 when that is no more than its type wants."""
    return 0 if address & 15 else 16 if address & 63 else 64


def _as_tuple(*items: Any) -> tuple[Any, ...]:
    return items


def hashable(value: Any) -> Any:
    """Return a key for a constant; those of different types differ, -0.0 and 0.0 too.

    Raises:
        KernelError: it has none.
    """
    if isinstance(value, constexpr):
        return hashable(value.value)
    if isinstance(value, list | tuple):
        return type(value), *map(hashable, value)
    if type(value) is float:
        return float, value.hex()
    try:
        hash(value)
    except TypeError as error:
        raise KernelError(f"{value!r} cannot be a constant of a kernel: {error}") from error
    return type(value), value
