"""From a kernel and the types of its arguments to a function of tile IR."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from teeny_core import DType, dtype, i32, i64

from teeny_triton.errors import KernelError
from teeny_triton.frontend.annotations import (
    Constexpr,
    Described,
    Fixed,
    Free,
    Group,
    Kind,
    Maybe,
    Spec,
    Tuple,
    match,
    stated,
)
from teeny_triton.frontend.function import KernelFunction
from teeny_triton.frontend.scope import Scope
from teeny_triton.frontend.statements import Evaluator
from teeny_triton.ir import Function, Pointer, Type
from teeny_triton.language.control import Facts, build_function
from teeny_triton.language.descriptor import TensorDescriptor
from teeny_triton.language.tile import tile

KindLike: TypeAlias = Kind | Type | str | Fixed | Described | Group
Signature: TypeAlias = Mapping[str, KindLike | Sequence[KindLike]]


def specialise(
    kernel: KernelFunction,
    signature: Signature,
    constexprs: Mapping[str, Any] | None = None,
    facts: Mapping[str, Facts] | None = None,
    *,
    name: str | None = None,
    trusting: bool = True,
) -> Function:
    """Read `kernel` for arguments of given types and return its function.

    Args:
        kernel: a function decorated by `@kernel`.
        signature: the type of each run-time parameter: a dtype for a scalar, `Ptr[dtype]` for a
            pointer, their names ("f32", "*f32"), or a sequence of them for a tuple parameter,
            whose items become parameters `name_0`, `name_1`… A descriptor becomes its base,
            `name`, and parameters `name_shape_0`, … `name_stride_0`, … What an annotation states
            in full may be left out.
        constexprs: Python values for the other parameters. A parameter that is not annotated as
            constexpr may be given here too; it is then a constant.
        facts: what a launch guarantees of parameters, by name.
        name: the name of the function, instead of the kernel's.
        trusting: whether what it assumes is believed, or checked as it runs.

    Raises:
        CompilationError: the kernel does not compile, with its source and a caret.
        KernelError: the arguments do not fit the kernel's parameters.
    """
    arguments = _Arguments(kernel, signature, constexprs or {}, facts or {})
    name = name or kernel.__name__
    with build_function(name, arguments.parameters, trusting=trusting) as built:
        tiles = iter(built.arguments)
        names = {n: _place(value, tiles) for n, value in arguments.names.items()}
        scope = Scope(kernel.lookup, names)
        evaluator = Evaluator(kernel.source, scope)
        result = evaluator.call(kernel.source.tree.body)
        if result is not None:
            raise evaluator.error(
                kernel.source.tree, "a kernel returns nothing", "store its results with tl.store"
            )
    return built.function


class _Arguments:
    """The parameters of the function to build, and what each name of the kernel stands for."""

    def __init__(
        self,
        kernel: KernelFunction,
        signature: Signature,
        constexprs: Mapping[str, Any],
        facts: Mapping[str, Facts],
    ) -> None:
        self.kernel = kernel
        self.parameters: list[tuple[str, Kind, Facts]] = []
        self.names: dict[str, Any] = {}
        self._facts = facts
        self._bound: dict[str, DType] = {}
        self._check_known(signature, constexprs)
        for parameter in kernel.signature.parameters.values():
            self.names[parameter.name] = self._resolve(parameter, signature, constexprs)
        unknown = set(facts) - {name for name, _, _ in self.parameters}
        if unknown:
            raise KernelError(f"{kernel.__name__} has no run-time parameter {sorted(unknown)[0]}")

    def _check_known(self, signature: Signature, constexprs: Mapping[str, Any]) -> None:
        known = self.kernel.signature.parameters
        for name in (*signature, *constexprs):
            if name not in known:
                raise KernelError(
                    f"{self.kernel.__name__} has no parameter `{name}`",
                    hint=f"its parameters are {', '.join(known)}",
                )

    def _resolve(
        self,
        parameter: inspect.Parameter,
        signature: Signature,
        constexprs: Mapping[str, Any],
    ) -> Any:
        """Return what a name stands for: a Python value, or `_Runtime` where a tile comes."""
        name, spec = parameter.name, self.kernel.specs[parameter.name]
        if name in constexprs:
            return constexprs[name]
        given = signature.get(name)
        if given is None and parameter.default is not inspect.Parameter.empty:
            return parameter.default
        if given is None:
            given = stated(spec)
        if given is None:
            wanted = "a constexpr value" if isinstance(spec, Constexpr) else "a type"
            raise KernelError(f"{self.kernel.__name__} needs {wanted} for its parameter `{name}`")
        return self._argument(name, spec, given)

    def _argument(self, name: str, spec: Spec, given: Any) -> Any:
        if isinstance(given, Fixed):
            return given.value
        if isinstance(spec, Maybe):
            spec = spec.something
        if isinstance(given, Described):
            return self._described(name, spec, given)
        if isinstance(spec, Tuple) or not isinstance(given, DType | Pointer | Type | str):
            return self._tuple(name, spec, given)
        return self._runtime(name, spec, given)

    def _tuple(self, name: str, spec: Spec, given: Any) -> _Together:
        make = given.make if isinstance(given, Group) else _as_tuple
        kinds = given.items if isinstance(given, Group) else given
        if not isinstance(kinds, list | tuple):
            raise KernelError(f"parameter `{name}` is a tuple, so it needs a sequence of types")
        items: tuple[Spec, ...] = (Free(),) * len(kinds)
        if isinstance(spec, Tuple):
            items = spec.items * len(kinds) if spec.repeats else spec.items
        elif not isinstance(spec, Free):
            raise KernelError(f"parameter `{name}` is {spec}, not a tuple")
        if len(items) != len(kinds):
            raise KernelError(f"parameter `{name}` has {len(items)} items, not {len(kinds)}")
        pairs = enumerate(zip(items, kinds, strict=True))
        return _Together(make, tuple(self._argument(f"{name}_{i}", *pair) for i, pair in pairs))

    def _described(self, name: str, spec: Spec, given: Described) -> _Together:
        """Enter the parameters of a descriptor; the last stride is known to be 1."""
        if not isinstance(spec, Free):
            raise KernelError(f"argument `{name}` must be {spec}, not a tensor descriptor")
        rank = len(given.block_shape)
        shapes = (self._runtime(f"{name}_shape_{i}", Free(), i32) for i in range(rank))
        strides = (self._runtime(f"{name}_stride_{i}", Free(), i64) for i in range(rank - 1))
        parts = (self._runtime(name, Free(), given.pointer), *shapes, *strides)

        def make(base: Any, *numbers: Any) -> TensorDescriptor:
            extents, steps = numbers[:rank], (*numbers[rank:], tile(1).to(i64))
            return TensorDescriptor(base, extents, steps, given.block_shape, given.padding)

        return _Together(make, parts)

    def _runtime(self, name: str, spec: Spec, given: Kind | Type | str) -> _Runtime:
        kind = as_kind(given)
        match(name, spec, kind, self._bound)
        self.parameters.append((name, kind, self._facts.get(name, Facts())))
        return _Runtime()


class _Runtime:
    """Stands where an argument of the running kernel comes."""


@dataclass(frozen=True)
class _Together:
    """Stands where a Python object comes that is made of arguments of the running kernel."""

    make: Callable[..., Any]
    items: tuple[Any, ...]


def _as_tuple(*items: Any) -> tuple[Any, ...]:
    return items


def _place(value: Any, tiles: Iterator[Any]) -> Any:
    if isinstance(value, _Runtime):
        return next(tiles)
    if isinstance(value, _Together):
        return value.make(*(_place(item, tiles) for item in value.items))
    return value


def as_kind(given: Kind | Type | str) -> Kind:
    """Coerce to the type of one parameter; "f32" is a scalar, "*f32" and "ptr<f32>" pointers."""
    if isinstance(given, Type):
        if given.shape:
            raise KernelError(f"a parameter is a scalar or a pointer, not {given}")
        return given.element
    if isinstance(given, str) and given.startswith("*"):
        return Pointer(dtype(given[1:]))
    if isinstance(given, str) and given.startswith("ptr<"):
        return Pointer(dtype(given[4:-1]))
    return given if isinstance(given, Pointer) else dtype(given)
