"""`@kernel`: a function of the kernel language, specialised and launched by calling it."""

from __future__ import annotations

import hashlib
import inspect
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, overload

from teeny_core import Device, DeviceError, DType, config
from teeny_core import device as get_device

from teeny_triton.arguments import MockTensor
from teeny_triton.binding import Bound, Specialisation, Specialised, bind, by_name, unwrapped
from teeny_triton.builder import is_building
from teeny_triton.compiler.kernel import CompiledKernel, DeviceKernel, Metadata
from teeny_triton.errors import KernelError
from teeny_triton.frontend import (
    Constexpr,
    KernelFunction,
    Read,
    inline,
    recording,
    specialise,
)
from teeny_triton.grid import Grid, grid_extents
from teeny_triton.interpreter import interpret
from teeny_triton.ir import Function, Pointer, Type, walk
from teeny_triton.language.control import Facts
from teeny_triton.language.patterns import PointerPattern
from teeny_triton.reading import Key, Reader
from teeny_triton.recall import Memory, Prepared, picker
from teeny_triton.sanitizer import sanitize

IGNORED_OPTIONS = frozenset(
    {
        "num_warps",
        "num_stages",
        "num_ctas",
        "maxnreg",
        "enable_fp_fusion",
        "cluster_dims",
        "ptx_version",
        "ir_override",
        "launch_cooperative_grid",
        "launch_pdl",
        "default_dot_input_precision",
        "sanitize_overflow",
        "stream",
        "extern_libs",
        "waves_per_eu",
        "matrix_instr_nonkdim",
        "kpack",
        "debug",
    }
)
"""Options of GPU launches, accepted so that kernels written for them run unchanged."""

_MISSING = object()


class Launchable(Protocol):
    """What is launched by `k[grid](...)`: a kernel, or one that is tuned."""

    def run(self, *args: Any, grid: Grid, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch, or only compile."""


class KernelInterface:
    """`k[grid](...)` and `k.warmup(..., grid=grid)`, by way of `k.run`."""

    def __getitem__(self: Launchable, grid: Grid) -> Callable[..., Any]:
        """Return what launches the kernel over `grid`: extents, or a function of the arguments."""
        run = self.run

        def launch(*args: Any, **kwargs: Any) -> Any:
            return run(*args, grid=grid, **kwargs)

        return launch

    def warmup(self: Launchable, *args: Any, grid: Grid = (1,), **kwargs: Any) -> Any:
        """Compile the kernel for some arguments, and do not run it.

        Args:
            args: arguments as for a launch; a dtype of PyTorch or NumPy, or a `MockTensor`,
                stands for a tensor.
            grid: extents, or a function of the arguments.
            kwargs: more arguments, and options.
        """
        wrapped = {name: MockTensor.wrap_dtype(value) for name, value in kwargs.items()}
        return self.run(*map(MockTensor.wrap_dtype, args), grid=grid, warmup=True, **wrapped)


@dataclass(frozen=True)
class Options:
    """How a kernel is specialised and named. GPU options are accepted and have no meaning here.

    Attributes:
        version: a version of the kernel; part of its `cache_key`.
        repr: from a specialisation (its `kinds`, `constants` and `facts`) to the function's name.
        launch_metadata: accepted; profilers of GPUs call it.
        do_not_specialize: parameters, by name or position, whose values are not compiled in.
        do_not_specialize_on_alignment: those of which only an integer 1 is.
        debug: accepted; assertions are always compiled.
        noinline: accepted; a kernel called in another is always inlined.
        sanitize: whether launches run in `teeny_triton.sanitize`, as all do with
            `TEENY_SANITIZE=1`.
        check: what `teeny check` compiles for: by parameter, a type or several, or the values of
            a constant.
    """

    version: object = None
    repr: Callable[[Specialisation], str] | None = None
    launch_metadata: Callable[..., Any] | None = None
    do_not_specialize: Iterable[int | str] = ()
    do_not_specialize_on_alignment: Iterable[int | str] = ()
    debug: bool | None = None
    noinline: bool | None = None
    sanitize: bool = False
    check: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Param:
    """A parameter of a kernel, as Triton describes it."""

    num: int
    name: str
    is_constexpr: bool
    do_not_specialize: bool
    do_not_specialize_on_alignment: bool
    default: Any

    @property
    def has_default(self) -> bool:
        """Whether it may be left out."""
        return self.default is not _MISSING


class Kernel(KernelInterface, KernelFunction):
    """A kernel. `k[grid](...)` launches it; inside another kernel a call inlines it."""

    def __init__(self, function: Callable[..., Any], options: Options | None = None) -> None:
        super().__init__(function)
        self.options = options or Options()
        self.pre_run_hooks: list[Callable[..., Any]] = []
        self.cache: dict[str, dict[object, CompiledKernel]] = {}
        self._launches: dict[tuple[Device, Key], Prepared] = {}
        self._forms: dict[tuple[Any, ...], Callable[[Sequence[Any]], Sequence[Any]]] = {}
        self._functions: dict[object, tuple[Function, Sequence[Read]]] = {}
        self._native: dict[tuple[str, Function], DeviceKernel] = {}

    @cached_property
    def arg_names(self) -> list[str]:
        """The names of the parameters."""
        return list(self.signature.parameters)

    @cached_property
    def params(self) -> list[Param]:
        """The parameters."""
        specialised, found = self._specialised, []
        for place, parameter in enumerate(self.signature.parameters.values()):
            name, given = parameter.name, parameter.default
            found.append(
                Param(
                    num=place,
                    name=name,
                    is_constexpr=isinstance(self.specs[name], Constexpr),
                    do_not_specialize=name in specialised.never,
                    do_not_specialize_on_alignment=name in specialised.not_by_alignment,
                    default=_MISSING if given is parameter.empty else given,
                )
            )
        return found

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The values of parameters that may be left out."""
        return {param.name: param.default for param in self.params if param.has_default}

    @property
    def src(self) -> str:
        """The text of the function, without its decorators and indentation."""
        text = textwrap.dedent("".join(self.source.lines))
        return text[re.search(r"^def\s", text, re.MULTILINE).start() :]  # type: ignore[union-attr]

    @cached_property
    def cache_key(self) -> str:
        """A digest of the function's text, its place and its version."""
        text = f"{self.__module__}.{self.__qualname__}\n{self.options.version}\n{self.src}"
        return hashlib.sha256(text.encode()).hexdigest()

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Call `hook` with the arguments of each launch, before it."""
        self.pre_run_hooks.append(hook)

    def __getitem__(self, grid: Grid) -> Callable[..., CompiledKernel]:
        """Return what launches the kernel over `grid`: extents, or a function of the arguments."""
        run = self._run

        def launch(*args: Any, **kwargs: Any) -> CompiledKernel:
            return run(grid, args, kwargs)

        return launch

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inline the kernel into the one that is being built.

        Raises:
            KernelError: none is being built.
        """
        if not is_building():
            raise KernelError(
                f"{self.__name__} is a kernel: it runs over a grid, or in another kernel",
                hint=f"launch it by {self.__name__}[(programs,)](...)",
            )
        return inline(self, args, kwargs)

    def run(self, *args: Any, grid: Grid, warmup: bool = False, **kwargs: Any) -> CompiledKernel:
        """Launch the kernel, or with `warmup` only compile it, and return what was compiled.

        Raises:
            KernelError: arguments that do not fit, or a kernel that does not compile.
            DeviceError: the default device runs no kernels.
        """
        return self._run(grid, args, kwargs, warmup)

    def _run(
        self, grid: Grid, args: Sequence[Any], kwargs: Mapping[str, Any], warmup: bool = False
    ) -> CompiledKernel:
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        values = self._values(args, kwargs)
        extents = grid_extents(grid, lambda: self._arguments(values))
        sanitizing = self.options.sanitize or config.sanitizing()
        if sanitizing or config.interpreting():
            return self._interpret(values, None if warmup else extents, sanitizing)
        device = get_device()
        recalled = None if warmup else self._memory.recall(device, extents, values)
        if recalled is not None:
            return recalled
        key, numbers = self._reader.read(values)
        try:
            launch = self._launches.get((device, key))
        except TypeError:  # a constant without a hash, which `bind` refuses by name
            launch = None
        if launch is None or not launch.is_current():
            launch = self._prepare(device, self._bound(values))
            if warmup and any(isinstance(value, MockTensor) for value in values):
                return launch.compiled
            self._refuse_mocks(values)
            self._launches[device, key] = launch
        if not warmup and 0 not in extents:
            launch.native(extents, numbers)
            self._memory.remember(device, launch, values)
        return launch.compiled

    def function(
        self,
        facts: Mapping[str, Facts] | None = None,
        name: str | None = None,
        **parameters: Any,
    ) -> Function:
        """Specialise by parameter name: a type for a run-time parameter, else a Python value.

            add.function(x=Ptr[f32], y=Ptr[f32], out=Ptr[f32], n=i32, BLOCK=64)

        See `specialise`, which takes the same in two mappings.
        """
        signature: dict[str, Any] = {}
        constexprs: dict[str, Any] = {}
        for parameter, value in parameters.items():
            constant = isinstance(self.specs.get(parameter), Constexpr) or not _is_kind(value)
            (constexprs if constant else signature)[parameter] = value
        return specialise(self, signature, constexprs, facts, name=name)

    def emit(self, stage: str, facts: Mapping[str, Facts] | None = None, **parameters: Any) -> str:
        """Return the text of a stage of compilation: `tile`, or one of the default device's.

            print(add.emit("asm", x=Ptr[f32], y=Ptr[f32], out=Ptr[f32], n=i32, BLOCK=64))

        Parameters are given as to `function`.

        Raises:
            CompileError: the device has no such stage.
            DeviceError: the default device runs no kernels.
        """
        function = self.function(facts, **parameters)
        if stage == "tile":
            return str(function)
        return self._device_kernel(get_device(), function).emit(stage)

    # --- arguments ---

    @cached_property
    def _specialised(self) -> Specialised:
        names = self.arg_names

        def listed(items: Iterable[int | str]) -> frozenset[str]:
            return frozenset(names[item] if isinstance(item, int) else item for item in items)

        return Specialised(
            listed(self.options.do_not_specialize),
            listed(self.options.do_not_specialize_on_alignment),
        )

    @cached_property
    def _reader(self) -> Reader:
        return Reader(self, self._specialised)

    @cached_property
    def _memory(self) -> Memory:
        return Memory(self, self._reader)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self.arg_names)}

    @cached_property
    def _defaults(self) -> list[Any]:
        return [parameter.default for parameter in self.params]

    @cached_property
    def _takes_any_number(self) -> bool:
        kinds = {parameter.kind for parameter in self.signature.parameters.values()}
        return bool(kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD})

    def _values(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """Return a value for each parameter."""
        form = self._forms.get((len(args), *kwargs))
        if form is None:
            places = self._sources(len(args), [*kwargs])
            if places is None:
                known = {n: v for n, v in kwargs.items() if not self._is_option(n)}
                return list(by_name(self, args, known).values())
            form = self._forms[len(args), *kwargs] = picker(places)
        return form((*args, *kwargs.values(), *self._defaults))

    def _is_option(self, name: str) -> bool:
        return name in IGNORED_OPTIONS and name not in self._places

    def _sources(self, given: int, names: Sequence[str]) -> list[int] | None:
        """Return where the value of each parameter stands: in the arguments, `given` of them by
        place, the others by name, or in the defaults behind them; None when that is not so.
        """
        if self._takes_any_number or given > len(self.params):
            return None
        named: dict[int, int] = {}
        for at, name in enumerate(names, given):
            if self._is_option(name):
                continue
            place = self._places.get(name, -1)
            if place < given:  # twice, or unknown
                return None
            named[place] = at
        sources, defaults = [*range(given)], given + len(names)
        for place in range(given, len(self.params)):
            if place not in named and self._defaults[place] is _MISSING:
                return None
            sources.append(named.get(place, defaults + place))
        return sources

    def _arguments(self, values: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self.arg_names, map(unwrapped, values), strict=True))

    def _bound(self, values: Sequence[Any]) -> Bound:
        return bind(self, dict(zip(self.arg_names, values, strict=True)), self._specialised)

    @staticmethod
    def _refuse_mocks(values: Sequence[Any]) -> None:
        for value in values:
            if type(value) is MockTensor:
                raise KernelError(
                    "a MockTensor has no memory to run on", hint="pass it to kernel.warmup(...)"
                )

    # --- compilation ---

    def _prepare(self, device: Device, bound: Bound) -> Prepared:
        function, reads = self._specialised_function(bound.specialisation)
        _require_writable(function, bound.values)
        native = self._device_kernel(device, function)
        if any(op.opcode == "breakpoint" for op in walk(function.body)):
            warnings.warn(
                f"breakpoint() does nothing in native code of {self.__name__}; "
                "set TEENY_INTERPRET=1",
                stacklevel=4,  # the launch
            )
        compiled = self._compiled(function, bound.specialisation, native)
        self.cache.setdefault(device.name, {})[bound.specialisation.key] = compiled
        return Prepared(compiled, native, reads)

    def _interpret(
        self, values: Sequence[Any], extents: tuple[int, int, int] | None, sanitizing: bool
    ) -> CompiledKernel:
        bound = self._bound(values)
        function, _ = self._specialised_function(bound.specialisation, trusting=False)
        _require_writable(function, bound.values)
        if extents is not None:
            self._refuse_mocks(values)
            if 0 not in extents:
                runner = sanitize if sanitizing else interpret
                runner(function, extents, [bound.values[p.name] for p in function.parameters])
        return self._compiled(function, bound.specialisation, None)

    def _specialised_function(
        self, parts: Specialisation, *, trusting: bool = True
    ) -> tuple[Function, Sequence[Read]]:
        """The function for these arguments, read again when a global that it saw has changed."""
        key = parts.key, trusting
        function, reads = self._functions.get(key, (None, ()))
        if function is None or not all(read.is_current() for read in reads):
            name = re.sub(r"\W", "_", self.options.repr(parts)) if self.options.repr else None
            kinds, constants, facts = map(dict, (parts.kinds, parts.constants, parts.facts))
            with recording() as reads:
                function = specialise(self, kinds, constants, facts, name=name, trusting=trusting)
            self._functions[key] = function, reads
        return function, reads

    def _device_kernel(self, device: Device, function: Function) -> DeviceKernel:
        key = device.name, function
        if key not in self._native:
            try:
                self._native[key] = device.compile_kernel(function)
            except DeviceError as error:
                raise DeviceError(
                    error.message, hint="choose one by TEENY_DEVICE, or set TEENY_INTERPRET=1"
                ) from error
        return self._native[key]

    def _compiled(
        self, function: Function, parts: Specialisation, native: DeviceKernel | None
    ) -> CompiledKernel:
        scratch: int = getattr(native, "scratch_bytes", 0)
        metadata = Metadata(function.name, function.key, max(1, scratch))
        return CompiledKernel(self, function, dict(parts.constants), metadata)


@overload
def kernel(function: Callable[..., Any]) -> Kernel: ...
@overload
def kernel(
    *,
    version: object = ...,
    repr: Callable[[Specialisation], str] | None = ...,
    launch_metadata: Callable[..., Any] | None = ...,
    do_not_specialize: Iterable[int | str] = ...,
    do_not_specialize_on_alignment: Iterable[int | str] = ...,
    debug: bool | None = ...,
    noinline: bool | None = ...,
    sanitize: bool = ...,
    check: Mapping[str, Any] = ...,
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    function: Callable[..., Any] | None = None, **options: Any
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make a kernel of a Python function; `jit` is the same. See `Options` for the options.

    Integers of the parameters in `do_not_specialize` (names or positions) are passed as they are;
    of others it is compiled in whether they are 1 or divide by 16.
    """
    if function is None:
        chosen = Options(**options)
        return lambda function: Kernel(function, chosen)
    return Kernel(function, Options(**options))


jit = kernel


def _require_writable(function: Function, values: Mapping[str, Any]) -> None:
    for parameter in function.parameters:
        if parameter.written and not values[parameter.name].flags.writeable:
            raise KernelError(
                f"argument `{parameter.name}` is written, but its memory is read-only"
            )


def _is_kind(value: object) -> bool:
    if isinstance(value, tuple | list):
        return bool(value) and all(map(_is_kind, value))
    return isinstance(value, DType | Pointer | PointerPattern | Type)
