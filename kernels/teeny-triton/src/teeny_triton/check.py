"""Type-checking kernels for all arguments that their annotations admit; none of them runs.

The cases of a kernel are all combinations of

- the dtypes of its type variables; f16, bf16 and f32 for one without choices;
- the values of its constants: those of `@kernel(check={...})`, else the configurations of its
  `@autotune`, else the members of a `Literal` or of `bool` in its annotation, else its default,
  else what its `@heuristics` compute;
- what `check` gives for other parameters: a type, or a tuple of types.

A parameter without annotation from which addresses are made is taken for a pointer to f16, bf16
or f32, the same for all of them, any other one for an i32.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import itertools
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from teeny_core import DType, TeenyError, bf16, f16, f32, i32

from teeny_triton.arguments import MockTensor
from teeny_triton.compatibility import compatible
from teeny_triton.decorator import Kernel
from teeny_triton.errors import CompilationError, KernelError
from teeny_triton.frontend import Constexpr, Free, Maybe, Spec, Tuple, specialise, stated
from teeny_triton.inference import called, pointers, returns_value
from teeny_triton.ir import Pointer
from teeny_triton.language.patterns import DTypeVariable, PointerPattern
from teeny_triton.tune import Autotuner, Heuristics, Tuned, function_of
from teeny_triton.verifier import verify

DTYPES = (f16, bf16, f32)
"""What a type variable without choices stands for, and what unannotated pointers point at."""

SIZES = (1024, 1000)
"""Integers that stand for those of a launch where heuristics ask for them."""

Values = Mapping[str, Sequence[Any]]
"""What to check for, by parameter: types or values."""

_UNANNOTATED = DTypeVariable("the dtype of unannotated pointers")


@dataclass(frozen=True)
class Case:
    """One specialisation: the type or the value of each parameter."""

    kinds: Mapping[str, Any]
    constants: Mapping[str, Any]

    def __str__(self) -> str:
        kinds = [f"{name}: {kind}" for name, kind in self.kinds.items()]
        return ", ".join((*kinds, *(f"{name}={value}" for name, value in self.constants.items())))


@dataclass(frozen=True)
class Problem:
    """An error at one place, in the words of the first of the cases in which it is met."""

    error: TeenyError
    cases: tuple[Case, ...]

    @property
    def place(self) -> tuple[str, int, int] | None:
        """File, line and column, counted from 1; None for an error of the arguments."""
        if not isinstance(self.error, CompilationError):
            return None
        frame = self.error.frames[0]
        return frame.file, frame.line, frame.column + 1


@dataclass(frozen=True)
class Checked:
    """What is known of a kernel: `cases` were checked; `unchecked` says why none could be."""

    kernel: Kernel
    cases: int = 0
    problems: tuple[Problem, ...] = ()
    assumed: tuple[str, ...] = ()
    unchecked: KernelError | None = None
    helper: bool = False

    @property
    def line(self) -> int:
        """The line where its definition begins."""
        return self.kernel.source.first_line


def load(path: Path) -> list[Kernel | Tuned]:
    """Import a file, in which `triton` is teeny_triton, and return its kernels, first one first.

    Raises:
        KernelError: it cannot be imported.
    """
    with compatible(), contextlib.redirect_stdout(io.StringIO()):
        module = _imported(path)
    found: dict[Kernel, Kernel | Tuned] = {}
    for value in vars(module).values():
        if isinstance(value, Kernel | Tuned) and value.__module__ == module.__name__:
            base = function_of(value)
            if not isinstance(found.get(base), Tuned):
                found[base] = value
    return sorted(found.values(), key=lambda each: function_of(each).source.first_line)


def check(kernels: Sequence[Kernel | Tuned], values: Values | None = None) -> Iterator[Checked]:
    """Check the kernels of a file. A helper of others is checked where it is called.

    Args:
        kernels: what `load` returned.
        values: types or values by parameter, which go before those of `@kernel(check={...})`.
    """
    inlined = {callee for each in kernels for callee in called(function_of(each))}
    for each in kernels:
        base = function_of(each)
        untyped = any(isinstance(spec, Free) for spec in base.specs.values())
        if returns_value(base) or (base in inlined and untyped):
            yield Checked(base, helper=True)
        else:
            yield check_kernel(each, values)


def check_kernel(kernel: Kernel | Tuned, values: Values | None = None) -> Checked:
    """Specialise a kernel for each of its cases.

    Args:
        kernel: a kernel, perhaps tuned.
        values: types or values by parameter, which go before those of `@kernel(check={...})`.
    """
    base = function_of(kernel)
    try:
        choices = _Choices(kernel, {**_listed(base.options.check), **(values or {})})
        cases = list(choices.cases())
    except KernelError as error:
        return Checked(base, unchecked=error)
    met: dict[object, tuple[TeenyError, list[Case]]] = {}
    for case in cases:
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # static_print
                verify(specialise(base, case.kinds, case.constants))
        except TeenyError as error:
            where = error.frames if isinstance(error, CompilationError) else str(error)
            met.setdefault(where, (error, []))[1].append(case)
    problems = tuple(Problem(error, tuple(all_)) for error, all_ in met.values())
    failing = sum(len(problem.cases) for problem in problems)
    untyped = all(isinstance(spec, Free) for spec in base.specs.values())
    if problems and untyped and failing == len(cases):
        return Checked(base, unchecked=_untyped(base))
    return Checked(base, len(cases), problems, tuple(choices.assumed))


def _untyped(kernel: Kernel) -> KernelError:
    """Return the reason why nothing is said of a kernel that is perhaps a helper of other files."""
    return KernelError(
        f"{kernel.__name__} is not checked: nothing is annotated, and its parameters are not all "
        "pointers and integers",
        hint="annotate them, unless it is a helper",
    )


@dataclass
class _Choices:
    """What each parameter of a kernel may be."""

    kernel: Kernel | Tuned
    values: Values
    assumed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.base = function_of(self.kernel)
        self.layers = list(_layers(self.kernel))
        unknown = [name for name in self.base.options.check if name not in self.base.arg_names]
        if unknown:
            raise KernelError(
                f"{self.base.__name__} has no parameter `{unknown[0]}`, named in its check",
                hint=f"its parameters are {', '.join(self.base.arg_names)}",
            )

    def cases(self) -> Iterator[Case]:
        """Yield all combinations.

        Raises:
            KernelError: what a parameter may be is not known.
        """
        configs = next((x.configs for x in self.layers if isinstance(x, Autotuner)), [])
        tuned = [dict(each.kwargs) for each in configs] or [{}]
        computed = {n for x in self.layers if isinstance(x, Heuristics) for n in x.values}
        decided = {name for each in tuned for name in each} | computed
        sets: dict[str, list[Callable[[Mapping[str, DType]], Any]]] = {}
        variables: dict[DTypeVariable, tuple[DType, ...]] = {}
        for name, spec in self.base.specs.items():
            if name in self.values or name not in decided:
                sets[name] = self.options(name, spec, variables)
        seen: set[str] = set()
        dtypes = (dict(zip(variables, each, strict=True)) for each in _product(variables.values()))
        for bound, config, chosen in itertools.product(dtypes, tuned, _product(sets.values())):
            names = {variable.name: dtype for variable, dtype in bound.items()}
            known = {n: make(names) for n, make in zip(sets, chosen, strict=True)}
            for case in self.computed({**config, **known}):
                if str(case) not in seen:
                    seen.add(str(case))
                    yield case

    def options(
        self, name: str, spec: Spec, variables: dict[DTypeVariable, tuple[DType, ...]]
    ) -> list[Callable[[Mapping[str, DType]], Any]]:
        """Return what a parameter may be, as functions of the type variables."""
        if name in self.values:
            return [_fixed(value) for value in self.values[name]]
        if isinstance(spec, Constexpr):
            return [_fixed(value) for value in self.constants(name, spec)]
        if isinstance(spec, Maybe):
            absent = _fixed(_Constant(None))
            return [absent, *self.options(name, spec.something, variables)]
        parameter = self.base.signature.parameters[name]
        if isinstance(spec, Tuple):
            if not any(isinstance(x, Free | Tuple | Constexpr | Maybe) for x in spec.items):
                makers = [self.item(item, variables) for item in spec.items]
                makers *= 2 if spec.repeats else 1
                return [lambda names: tuple(make(names) for make in makers)]
            if parameter.kind is parameter.VAR_POSITIONAL:
                return [_fixed(())]
        elif not isinstance(spec, Free):
            return [self.item(spec, variables)]
        elif name in self.base.defaults:
            return [_fixed(_Constant(self.base.defaults[name]))]
        elif parameter.annotation is parameter.empty:
            self.assumed.append(name)
            if name in pointers(self.base):
                return [self.item(PointerPattern(_UNANNOTATED), variables)]
            return [_fixed(i32)]
        raise KernelError(
            f"{self.base.__name__} is not checked: what `{name}` may be is not known",
            hint=f'give types or values: @kernel(check={{"{name}": [...]}})',
        )

    def item(
        self, spec: Spec, variables: dict[DTypeVariable, tuple[DType, ...]]
    ) -> Callable[[Mapping[str, DType]], Any]:
        """Return the type of a parameter as a function of the type variables."""
        if stated(spec) is not None:
            return _fixed(stated(spec))
        variable = spec.pointee if isinstance(spec, PointerPattern) else spec
        assert isinstance(variable, DTypeVariable)
        known = next((each for each in variables if each.name == variable.name), variable)
        variables[known] = known.choices or DTYPES
        if isinstance(spec, PointerPattern):
            return lambda names: Pointer(names[variable.name])
        return lambda names: names[variable.name]

    def constants(self, name: str, spec: Constexpr) -> Sequence[Any]:
        """Return the values of a constant."""
        if typing.get_origin(spec.kind) is typing.Literal:
            return list(spec.kind.__args__)
        if name in self.base.defaults:
            return [self.base.defaults[name]]
        if spec.kind is bool:
            return [False, True]
        raise KernelError(
            f"{self.base.__name__} is not checked: no value of its constant `{name}` is known",
            hint=f'give some: @kernel(check={{"{name}": (64, 128)}}), or a default',
        )

    def computed(self, known: Mapping[str, Any]) -> Iterator[Case]:
        """Yield the cases of known parameters, with what heuristics compute for some sizes."""
        layers = [layer for layer in self.layers if isinstance(layer, Heuristics)]
        for size in SIZES if layers else SIZES[:1]:
            found = dict(known)
            for layer in layers:
                for name, compute in layer.values.items():
                    if name not in self.values:
                        found[name] = self.heuristic(name, compute, found, size)
            yield _case(self.base, found)

    def heuristic(
        self, name: str, compute: Callable[..., Any], known: Mapping[str, Any], size: int
    ) -> Any:
        """Return what a heuristic computes where all integers are `size`.

        Raises:
            KernelError: it fails.
        """
        arguments = {n: _stand_in(value, size) for n, value in known.items()}
        try:
            return compute({**self.base.defaults, **arguments})
        except Exception as error:
            raise KernelError(
                f"{self.base.__name__} is not checked: the heuristic of `{name}` fails for "
                f"integers of {size}: {type(error).__name__}: {error}",
                hint=f'give values: @kernel(check={{"{name}": (True, False)}})',
            ) from error


@dataclass(frozen=True)
class _Constant:
    """A Python value for a parameter that is not declared to be one."""

    value: Any


def _case(kernel: Kernel, known: Mapping[str, Any]) -> Case:
    kinds: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    for name in kernel.arg_names:
        value = known[name]
        if isinstance(value, _Constant):
            constants[name] = value.value
        elif isinstance(kernel.specs[name], Constexpr) or not _is_kind(value):
            constants[name] = value
        else:
            kinds[name] = value
    return Case(kinds, constants)


def _is_kind(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_kind, value))
    return isinstance(value, DType | Pointer)


def _stand_in(value: Any, size: int) -> Any:
    """Return an argument of a launch of the type that is known."""
    if isinstance(value, _Constant):
        return value.value
    if isinstance(value, Pointer):
        return MockTensor(value.pointee)
    if isinstance(value, DType):
        return float(size) if value.is_float else size
    return value


def _fixed(value: Any) -> Callable[[Mapping[str, DType]], Any]:
    kind = stated(value) if isinstance(value, PointerPattern) else value
    return lambda names: kind


def _listed(given: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """Return a sequence for each parameter; a single type or value stands for itself."""
    return {n: tuple(v) if isinstance(v, tuple | list) else (v,) for n, v in given.items()}


def _product(sets: Any) -> Iterator[tuple[Any, ...]]:
    return itertools.product(*sets)


def _layers(kernel: Kernel | Tuned) -> Iterator[Tuned]:
    while isinstance(kernel, Tuned):
        yield kernel
        kernel = kernel.fn


def _imported(path: Path) -> ModuleType:
    """Import a file under its name in its package, or under its own."""
    folder, parts = path.resolve().parent, [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        if len(parts) > 1:
            return importlib.import_module(".".join(parts))
        spec = importlib.util.spec_from_file_location(f"checked_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise ImportError("it is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    except TeenyError:
        raise
    except Exception as error:
        raise KernelError(
            f"{path} cannot be imported: {type(error).__name__}: {error}",
            hint="mend this, or install what it needs: a file is imported to be checked",
        ) from error
