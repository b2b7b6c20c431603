"""Choosing constants of a kernel: `@heuristics` computes them, `@autotune` measures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from teeny_core import config

from teeny_triton.arguments import as_array, is_memory
from teeny_triton.decorator import Grid, Kernel
from teeny_triton.errors import KernelError

WARM_UP_RUNS, TIMED_RUNS = 1, 3


@dataclass(frozen=True)
class Config:
    """One choice of constexpr arguments. GPU options are accepted and have no meaning here."""

    kwargs: Mapping[str, Any]
    num_warps: int = 4
    num_stages: int = 2
    num_ctas: int = 1
    maxnreg: int | None = None
    pre_hook: Callable[[dict[str, Any]], None] | None = None

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.kwargs.items())


@dataclass
class Heuristics:
    """A kernel with arguments computed from the others at each launch."""

    kernel: Kernel | Autotuner
    values: Mapping[str, Callable[[Mapping[str, Any]], Any]]

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        """Return what launches the kernel over `grid`."""
        return lambda *args, **kwargs: self.run(*args, grid=grid, **kwargs)

    def run(self, *args: Any, grid: Grid, **kwargs: Any) -> None:
        """Launch with the computed arguments added."""
        known = _named(function_of(self.kernel), args, kwargs)
        for name, compute in self.values.items():
            known[name] = compute(known)
        self.kernel.run(**known, grid=grid)


@dataclass
class Autotuner:
    """A kernel that tries its configurations once for each key, and keeps the fastest.

    Trials leave no trace: what the kernel writes is put back before each run.
    """

    kernel: Kernel | Heuristics
    configs: Sequence[Config]
    key: Sequence[str]
    reset_to_zero: Sequence[str] = ()
    best: dict[tuple[Any, ...], Config] = field(default_factory=dict)

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        """Return what launches the kernel over `grid`."""
        return lambda *args, **kwargs: self.run(*args, grid=grid, **kwargs)

    def run(self, *args: Any, grid: Grid, **kwargs: Any) -> None:
        """Launch with the best configuration."""
        known = _named(function_of(self.kernel), args, kwargs)
        chosen = self._choose(known, grid)
        self._launch(chosen, known, grid)

    def _choose(self, known: Mapping[str, Any], grid: Grid) -> Config:
        if len(self.configs) == 1 or config.get().interpret:
            return self.configs[0]
        dtypes = [as_array(n, v).dtype for n, v in known.items() if is_memory(v)]
        key = (*(known[name] for name in self.key), *dtypes)
        if key not in self.best:
            times = [self._time(candidate, known, grid) for candidate in self.configs]
            self.best[key] = self.configs[times.index(min(times))]
        return self.best[key]

    def _time(self, candidate: Config, known: Mapping[str, Any], grid: Grid) -> float:
        times = []
        for _ in range(WARM_UP_RUNS + TIMED_RUNS):
            with _restored(known):
                start = time.perf_counter()
                self._launch(candidate, known, grid)
                times.append(time.perf_counter() - start)
        return min(times[WARM_UP_RUNS:])

    def _launch(self, chosen: Config, known: Mapping[str, Any], grid: Grid) -> None:
        arguments = {**known, **chosen.kwargs}
        for name in self.reset_to_zero:
            as_array(name, known[name])[...] = 0
        if chosen.pre_hook is not None:
            chosen.pre_hook(arguments)
        self.kernel.run(**arguments, grid=grid)


def heuristics(
    values: Mapping[str, Callable[[Mapping[str, Any]], Any]],
) -> Callable[[Kernel | Autotuner], Heuristics]:
    """Compute arguments of a kernel from the others: `{"EVEN": lambda args: ...}`."""
    return lambda kernel: Heuristics(kernel, values)


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    reset_to_zero: Sequence[str] = (),
    restore_value: Sequence[str] = (),
) -> Callable[[Kernel | Heuristics], Autotuner]:
    """Try `configs` whenever the arguments named in `key` have new values.

    The arguments in `reset_to_zero` are cleared before every launch. `restore_value` is accepted:
    trials put back all that they write.

    Raises:
        KernelError: there is no configuration.
    """
    if not configs:
        raise KernelError("autotune needs at least one Config")
    return lambda kernel: Autotuner(kernel, tuple(configs), tuple(key), tuple(reset_to_zero))


def function_of(kernel: Kernel | Heuristics | Autotuner) -> Kernel:
    """Return the kernel inside its decorators."""
    return kernel if isinstance(kernel, Kernel) else function_of(kernel.kernel)


def _named(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments by name, options of the launch included."""
    known = {name: v for name, v in kwargs.items() if name in kernel.signature.parameters}
    bound = kernel.signature.bind_partial(*args, **known)
    return {**kwargs, **bound.arguments}


@contextmanager
def _restored(known: Mapping[str, Any]) -> Iterator[None]:
    """Put back what is written to the arguments inside."""
    arrays = [as_array(name, value) for name, value in known.items() if is_memory(value)]
    saved = [(array, array.copy()) for array in arrays if array.flags.writeable]
    try:
        yield
    finally:
        for array, copy in saved:
            np.copyto(array, copy)
