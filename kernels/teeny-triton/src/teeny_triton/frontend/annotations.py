"""What the annotations of kernel parameters say, and whether an argument's type fits."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Optional, TypeAlias

import numpy as np
from teeny_core import DType

from teeny_triton.errors import KernelError
from teeny_triton.ir import Pointer
from teeny_triton.language.constants import constexpr
from teeny_triton.language.dtypes import TRITON_NAMES
from teeny_triton.language.patterns import ConstexprPattern, DTypeVariable, PointerPattern

UNIONS = (typing.Union, types.UnionType)

Kind: TypeAlias = DType | Pointer
"""The type of one run-time argument."""


@dataclass(frozen=True)
class Fixed:
    """An item of a tuple argument that is known when the kernel is built."""

    kind: type[Any]  # tells True, 1 and 1.0 apart
    value: Any


@dataclass(frozen=True)
class Described:
    """A tensor descriptor as an argument, all of whose blocks have one shape."""

    pointer: Pointer
    block_shape: tuple[int, ...]
    padding: str


@dataclass(frozen=True)
class Group:
    """A tuple as an argument; `make` puts the items together, for a tuple may have named ones."""

    items: tuple[Structure, ...]
    make: Callable[..., Any]


Structure: TypeAlias = Kind | Fixed | Described | Group
"""What a kernel is compiled for, of one argument."""


@dataclass(frozen=True)
class Tuple:
    """A tuple parameter: the annotation of each item, or one that repeats."""

    items: tuple[Spec, ...]
    repeats: bool


@dataclass(frozen=True)
class Constexpr:
    """A Python value that is known when the kernel is built, of any type or a given one."""

    kind: Any = None


@dataclass(frozen=True)
class Maybe:
    """Something, or None, which is then known when the kernel is built."""

    something: Spec

    def __str__(self) -> str:
        return f"{self.something} or None"


@dataclass(frozen=True)
class Free:
    """No annotation: whatever the argument is."""


Spec: TypeAlias = Kind | DTypeVariable | PointerPattern | Tuple | Constexpr | Maybe | Free


def specs(function: Callable[..., Any]) -> dict[str, Spec]:
    """Return the annotation of each parameter of `function`.

    Raises:
        KernelError: an annotation that names something unknown.
    """
    names = _names(function)
    annotations = getattr(function, "__annotations__", {})
    result: dict[str, Spec] = {}
    for parameter in inspect.signature(function).parameters.values():
        written = annotations.get(parameter.name)
        if isinstance(written, str):
            written = _evaluate(function.__qualname__, parameter.name, written, names)
        spec = spec_of(written)
        starred = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        result[parameter.name] = Tuple((spec,), repeats=True) if starred else spec
    return result


def spec_of(annotation: object) -> Spec:
    """Return what an annotation says; anything unknown to the language leaves the type free."""
    if isinstance(annotation, DType | Pointer | DTypeVariable | PointerPattern):
        return annotation
    if isinstance(annotation, typing.TypeVar):
        return DTypeVariable(annotation.__name__)
    if annotation is constexpr or isinstance(annotation, constexpr):
        return Constexpr()
    if isinstance(annotation, ConstexprPattern):
        return Constexpr(annotation.kind)
    if isinstance(annotation, types.GenericAlias) and annotation.__origin__ is tuple:
        arguments = annotation.__args__
        repeats = arguments[-1:] == (Ellipsis,)
        items = arguments[:-1] if repeats else arguments
        return Tuple(tuple(map(spec_of, items)), repeats)
    if typing.get_origin(annotation) in UNIONS:
        something = [each for each in typing.get_args(annotation) if each is not types.NoneType]
        return _maybe(spec_of(something[0])) if len(something) == 1 else Free()
    if isinstance(annotation, type) and issubclass(annotation, tuple):
        return _named(annotation)
    return Free()


def _maybe(spec: Spec) -> Spec:
    if isinstance(spec, Constexpr):
        return Constexpr(spec.kind and Optional[spec.kind])  # noqa: UP045
    return Maybe(spec)


def _named(kind: type[tuple[Any, ...]]) -> Spec:
    """Return what the fields of a `NamedTuple` are annotated with."""
    fields = inspect.get_annotations(kind)
    if tuple(fields) != getattr(kind, "_fields", None):
        return Free()
    names = vars(sys.modules[kind.__module__])
    found = []
    for name, written in fields.items():
        text = written.__forward_arg__ if isinstance(written, typing.ForwardRef) else written
        known = _evaluate(kind.__qualname__, name, text, names) if isinstance(text, str) else text
        found.append(spec_of(known))
    return Tuple(tuple(found), repeats=False)


def match(name: str, spec: Spec, kind: Kind, bound: dict[str, DType]) -> None:
    """Check the type of the run-time argument `name`; type variables are bound in `bound`.

    Raises:
        KernelError: it does not fit its annotation.
    """
    fits = True
    if isinstance(spec, DType | Pointer):
        fits = kind == spec
    elif isinstance(spec, DTypeVariable):
        fits = isinstance(kind, DType) and _bind(spec, kind, bound)
    elif isinstance(spec, PointerPattern) and isinstance(spec.pointee, DTypeVariable):
        fits = isinstance(kind, Pointer) and _bind(spec.pointee, kind.pointee, bound)
    elif isinstance(spec, PointerPattern):
        fits = kind == stated(spec)
    elif isinstance(spec, Constexpr):
        raise KernelError(
            f"argument `{name}` must be a Python value, not {kind}",
            hint="it is declared as constexpr",
        )
    if not fits:
        raise KernelError(f"argument `{name}` must be {describe(spec, bound)}, not {kind}")


def stated(spec: Spec) -> Kind | None:
    """Return the type that an annotation states in full, None where it leaves something open."""
    if isinstance(spec, PointerPattern) and isinstance(spec.pointee, DType):
        return Pointer(spec.pointee)
    return spec if isinstance(spec, DType | Pointer) else None


def check_constant(name: str, spec: Constexpr, value: Any) -> None:
    """See that a constant is a Python value of the type declared.

    Raises:
        KernelError: it is an array or a tensor, or of another type.
    """
    if isinstance(value, np.ndarray) or hasattr(value, "data_ptr"):
        raise KernelError(
            f"argument `{name}` must be a Python value, not {type(value).__name__}",
            hint="it is declared as constexpr",
        )
    if spec.kind is not None and not _is_instance(value, spec.kind):
        kind = getattr(spec.kind, "__name__", str(spec.kind).removeprefix("typing."))
        if typing.get_origin(spec.kind) is typing.Literal:
            kind = f"one of {', '.join(map(repr, spec.kind.__args__))}"
        raise KernelError(
            f"argument `{name}` must be {kind}, not {value!r}",
            hint="its annotation says so: constexpr[...]",
        )


def check_contiguous(name: str, spec: Spec, array: np.ndarray[Any, Any]) -> None:
    """See that memory is contiguous where that is declared.

    Raises:
        KernelError: it is not.
    """
    if isinstance(spec, PointerPattern) and spec.contiguous and not array.flags.c_contiguous:
        strides = tuple(step // array.itemsize for step in array.strides)
        raise KernelError(
            f"argument `{name}` must be contiguous, not of shape {array.shape} and "
            f"strides {strides}",
            hint="pass a contiguous copy of it",
        )


def _is_instance(value: Any, kind: Any) -> bool:
    """Whether a value is of a type; True is no int, but an int is a float."""
    if typing.get_origin(kind) is typing.Literal:
        return any(type(value) is type(each) and value == each for each in kind.__args__)
    if typing.get_origin(kind) in UNIONS:
        return any(_is_instance(value, each) for each in kind.__args__)
    if kind is float:
        return type(value) in (int, float)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, typing.get_origin(kind) or kind)


def describe(spec: Spec, bound: Mapping[str, DType]) -> str:
    """Return the type that an annotation asks for, in words."""
    if isinstance(spec, Maybe):
        return f"{describe(spec.something, bound)} or None"
    variable = spec.pointee if isinstance(spec, PointerPattern) else spec
    if not isinstance(variable, DTypeVariable):
        return str(spec)
    known = bound.get(variable.name)
    listed = " or ".join(map(str, variable.choices)) or "any dtype"
    return f"{spec} where {variable.name} is {known or listed}"


def _bind(variable: DTypeVariable, dtype: DType, bound: dict[str, DType]) -> bool:
    allowed = not variable.choices or dtype in variable.choices
    return allowed and bound.setdefault(variable.name, dtype) == dtype


def _names(function: Callable[..., Any]) -> dict[str, Any]:
    closure = inspect.getclosurevars(function).nonlocals
    return {**getattr(function, "__globals__", {}), **closure}


def _named_type(text: str) -> Kind:
    element = TRITON_NAMES[text.removeprefix("*")]
    return Pointer(element) if text.startswith("*") else element


def _evaluate(owner: str, parameter: str, text: str, names: Mapping[str, Any]) -> object:
    """Return what the annotation `text` of a parameter or a field of `owner` says."""
    if text.removeprefix("*") in TRITON_NAMES:
        return _named_type(text)
    try:
        found = eval(text, dict(names))
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise KernelError(
            f"{owner}: cannot read the annotation `{text}` of `{parameter}`: {error}",
            hint="import its names at the top of the module",
        ) from error
    return _evaluate(owner, parameter, found, names) if isinstance(found, str) else found
