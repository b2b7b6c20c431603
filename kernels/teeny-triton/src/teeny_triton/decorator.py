"""`@kernel`: a function of the kernel language, specialised and launched by calling it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, overload

import numpy as np
from teeny_core import DeviceError, DType, config
from teeny_core import device as get_device

from teeny_triton.arguments import Bound, bind
from teeny_triton.builder import is_building
from teeny_triton.errors import KernelError
from teeny_triton.frontend import (
    Constexpr,
    KernelFunction,
    Read,
    inline,
    recording,
    specialise,
)
from teeny_triton.interpret import interpret
from teeny_triton.ir import Function, Pointer, Type, walk
from teeny_triton.language.control import Facts
from teeny_triton.sanitizer import sanitize

Grid: TypeAlias = int | Sequence[int] | Callable[[Mapping[str, Any]], int | Sequence[int]]

IGNORED_OPTIONS = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion"})
"""Options of GPU launches, accepted so that kernels written for them run unchanged."""


class CompiledKernel(Protocol):
    """What `Device.compile_kernel(function)` returns.

    A call runs the whole grid (three extents; the first axis runs fastest) and returns when it is
    done. `arguments` follow the function's parameters: an address for a pointer, else a number.
    """

    def __call__(self, grid: tuple[int, int, int], arguments: Sequence[int | float]) -> None:
        """Launch."""


class Kernel(KernelFunction):
    """A kernel. `k[grid](...)` launches it; inside another kernel a call inlines it."""

    def __init__(
        self,
        function: Callable[..., Any],
        do_not_specialize: Iterable[int | str] = (),
        sanitize: bool = False,
    ) -> None:
        super().__init__(function)
        self.sanitize = sanitize
        names = list(self.signature.parameters)
        listed = (names[item] if isinstance(item, int) else item for item in do_not_specialize)
        self.do_not_specialize = frozenset(listed)
        self._functions: dict[object, tuple[Function, Sequence[Read]]] = {}
        self._compiled: dict[tuple[str, Function], CompiledKernel] = {}

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

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        """Return what launches the kernel over `grid`: extents, or a function of the arguments."""

        def launch(*args: Any, **kwargs: Any) -> None:
            self.run(*args, grid=grid, **kwargs)

        return launch

    def run(self, *args: Any, grid: Grid, **kwargs: Any) -> None:
        """Launch the kernel.

        Raises:
            KernelError: arguments that do not fit, or a kernel that does not compile.
            DeviceError: the default device runs no kernels.
        """
        kwargs = {name: value for name, value in kwargs.items() if not self._is_option(name)}
        bound = bind(self, args, kwargs, self.do_not_specialize)
        constants = dict(bound.specialisation.constants)
        extents = grid_extents(grid, {**bound.values, **constants})
        function = self._specialised(bound)
        values = [bound.values[parameter.name] for parameter in function.parameters]
        self._check_writable(function, values)
        if 0 in extents:
            return
        if self.sanitize or config.sanitizing():
            sanitize(function, extents, values)
        elif config.interpreting():
            interpret(function, extents, values)
        else:
            self._device_kernel(function)(extents, [_machine_argument(v) for v in values])

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

    def _is_option(self, name: str) -> bool:
        return name in IGNORED_OPTIONS and name not in self.signature.parameters

    def _specialised(self, bound: Bound) -> Function:
        """The function for these arguments, read again when a global that it saw has changed."""
        key, parts = bound.specialisation.key, bound.specialisation
        function, reads = self._functions.get(key, (None, ()))
        if function is None or not all(read.is_current() for read in reads):
            with recording() as reads:
                function = specialise(
                    self, dict(parts.kinds), dict(parts.constants), dict(parts.facts)
                )
            self._functions[key] = function, reads
        return function

    def _device_kernel(self, function: Function) -> CompiledKernel:
        device = get_device()
        key = device.name, function
        if key not in self._compiled:
            if any(op.opcode == "breakpoint" for op in walk(function.body)):
                warnings.warn(
                    f"breakpoint() does nothing in native code of {self.__name__}; "
                    "set TEENY_INTERPRET=1",
                    stacklevel=2,
                )
            try:
                self._compiled[key] = device.compile_kernel(function)
            except DeviceError as error:
                raise DeviceError(
                    error.message, hint="choose one by TEENY_DEVICE, or set TEENY_INTERPRET=1"
                ) from error
        return self._compiled[key]

    @staticmethod
    def _check_writable(function: Function, values: Sequence[Any]) -> None:
        for parameter, value in zip(function.parameters, values, strict=True):
            if parameter.written and not value.flags.writeable:
                raise KernelError(
                    f"argument `{parameter.name}` is written, but its memory is read-only"
                )


@overload
def kernel(function: Callable[..., Any]) -> Kernel: ...
@overload
def kernel(
    *, do_not_specialize: Iterable[int | str] = ..., sanitize: bool = ...
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    function: Callable[..., Any] | None = None,
    *,
    do_not_specialize: Iterable[int | str] = (),
    sanitize: bool = False,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make a kernel of a Python function; `jit` is the same.

    Integers of the parameters in `do_not_specialize` (names or positions) are passed as they are;
    of others it is compiled in whether they are 1 or divide by 16.
    With `sanitize`, and for all kernels with `TEENY_SANITIZE=1`, a launch runs in `sanitize`.
    """
    if function is None:
        return lambda function: Kernel(function, do_not_specialize, sanitize)
    return Kernel(function, do_not_specialize, sanitize)


jit = kernel


def grid_extents(grid: Grid, arguments: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the three extents of a grid.

    Raises:
        KernelError: not one to three integers of at least 0.
    """
    found = grid(arguments) if callable(grid) else grid
    extents = tuple(found) if isinstance(found, Sequence) else (found,)
    valid = all(isinstance(extent, int | np.integer) and extent >= 0 for extent in extents)
    if not 1 <= len(extents) <= 3 or not valid:
        raise KernelError(
            f"a grid has one to three integer extents, not {found!r}",
            hint="write kernel[(n,)](...)",
        )
    x, y, z = (*(int(extent) for extent in extents), 1, 1)[:3]
    return x, y, z


def _machine_argument(value: Any) -> int | float:
    if isinstance(value, np.ndarray):
        address: int = value.__array_interface__["data"][0]
        return address
    number: int | float = value.item() if isinstance(value, np.generic) else value
    return number


def _is_kind(value: object) -> bool:
    if isinstance(value, tuple | list):
        return bool(value) and all(map(_is_kind, value))
    return isinstance(value, DType | Pointer | Type)
