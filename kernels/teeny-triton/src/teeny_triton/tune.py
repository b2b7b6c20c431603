"""Choosing constants of a kernel: `@heuristics` computes them, `@autotune` measures."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from teeny_core import TeenyError, config
from teeny_core import device as get_device

from teeny_triton import choices
from teeny_triton.arguments import Array, as_array, is_memory
from teeny_triton.binding import hashable
from teeny_triton.decorator import Kernel, KernelInterface
from teeny_triton.errors import AutotunerError, KernelError
from teeny_triton.grid import Grid
from teeny_triton.tools import TensorDescriptor

LEAST_RUNS = 3
WARMUP_MS, REP_MS = 5.0, 20.0
QUANTILES = (0.5, 0.2, 0.8)

Arguments = dict[str, Any]
Bench = Callable[..., float | Sequence[float]]


@dataclass(eq=True)
class Config:
    """One choice of constexpr arguments. GPU options are accepted and have no meaning here.

    `pre_hook` is called with all arguments by name before each launch with this choice.
    """

    kwargs: Mapping[str, Any]
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    pre_hook: Callable[[Arguments], None] | None = None
    ir_override: str | None = None

    def all_kwargs(self) -> Arguments:
        """Return the constants together with the options of the launch that are set."""
        names = ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")
        options = {name: getattr(self, name) for name in names}
        return {**self.kwargs, **{name: v for name, v in options.items() if v is not None}}

    def __hash__(self) -> int:
        return hash((hashable(tuple(self.all_kwargs().items())), self.pre_hook))

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.kwargs.items())


class Tuned(KernelInterface, ABC):
    """A kernel with arguments that a decorator adds."""

    def __init__(self, fn: Kernel | Tuned) -> None:
        self.fn = fn
        self.base_fn = function_of(fn)
        self.arg_names = self.base_fn.arg_names
        self.__name__ = self.base_fn.__name__
        self.__doc__ = self.base_fn.__doc__
        self.__module__ = self.base_fn.__module__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inline the kernel into the one that is being built; nothing is added then."""
        return self.base_fn(*args, **kwargs)

    @abstractmethod
    def run(self, *args: Any, grid: Grid, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch with the arguments added, or only compile."""

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        """Return all arguments by name, options of the launch included."""
        if len(args) > len(self.arg_names):
            raise KernelError(
                f"{self.__name__}: too many positional arguments",
                hint=f"its parameters are {', '.join(self.arg_names)}",
            )
        given = dict(zip(self.arg_names, args, strict=False))
        twice = next((name for name in kwargs if name in given), None)
        if twice is not None:
            raise KernelError(f"{self.__name__}: multiple values for argument {twice!r}")
        return {**given, **kwargs}


class Heuristics(Tuned):
    """A kernel with arguments computed from the others at each launch."""

    def __init__(
        self, fn: Kernel | Tuned, values: Mapping[str, Callable[[Mapping[str, Any]], Any]]
    ) -> None:
        super().__init__(fn)
        self.values = values

    def run(self, *args: Any, grid: Grid, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch with the computed arguments added."""
        known = self.named(args, kwargs)
        for name, compute in self.values.items():
            known[name] = compute({**self.base_fn.defaults, **known})
        return self.fn.run(**known, grid=grid, warmup=warmup)


@dataclass(frozen=True)
class Pruning:
    """Which configurations are worth a measurement.

    Attributes:
        early_config_prune: from the configurations and the arguments to those that are.
        perf_model: from all arguments by name to an estimate of the time.
        top_k: how many are measured, those with the lowest estimates; a float is a share.
    """

    early_config_prune: Callable[..., Sequence[Config]] | None = None
    perf_model: Callable[..., float] | None = None
    top_k: int | float = 1.0

    def choose(self, configs: Sequence[Config], known: Mapping[str, Any]) -> Sequence[Config]:
        """Return the configurations to measure.

        Raises:
            AutotunerError: none is left.
        """
        left = list(configs)
        if self.early_config_prune is not None:
            left = list(self.early_config_prune(left, known, **known))
            if not left:
                raise AutotunerError(
                    "early_config_prune left no configuration", hint="return at least one of them"
                )
        count = self.top_k
        if isinstance(count, float) and count <= 1.0:
            count = max(1, int(len(left) * count))
        model = self.perf_model
        if model is not None and len(left) > count:
            estimates = [model(**{**known, **each.all_kwargs()}) for each in left]
            order = sorted(range(len(left)), key=estimates.__getitem__)
            left = [left[place] for place in order[: int(count)]]
        return left


@dataclass(frozen=True)
class Trials:
    """How trials are run; see `autotune`."""

    reset_to_zero: Sequence[str] = ()
    restore_value: Sequence[str] = ()
    pre_hook: Callable[..., Any] | None = None
    post_hook: Callable[..., Any] | None = None
    warmup: float = WARMUP_MS
    rep: float = REP_MS
    do_bench: Bench | None = None
    cache_results: bool = False


class Autotuner(Tuned):
    """A kernel that tries its configurations once for each key, and keeps the fastest.

    Trials leave no trace: what the kernel writes is put back before each run.

    Attributes:
        cache: the choice for each key.
        best_config: the choice of the last launch.
        configs_timings: the milliseconds of each configuration when they were last measured:
            median, and the quantiles 0.2 and 0.8.
    """

    def __init__(
        self,
        fn: Kernel | Tuned,
        configs: Sequence[Config],
        key: Sequence[str],
        pruning: Pruning | None = None,
        trials: Trials | None = None,
    ) -> None:
        super().__init__(fn)
        self.configs = list(configs)
        self.keys = list(key)
        self.pruning = pruning or Pruning()
        self.trials = trials or Trials()
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, Sequence[float]] = {}
        self.bench_time: float | None = None
        self._require_parameters()

    def _require_parameters(self) -> None:
        """Refuse names that the kernel does not have."""
        lists = {
            "key": self.keys,
            "reset_to_zero": self.trials.reset_to_zero,
            "restore_value": self.trials.restore_value,
        }
        for what, names in lists.items():
            for name in names:
                if name not in self.arg_names:
                    raise KernelError(
                        f"{self.__name__} has no parameter `{name}`, named in {what} of autotune",
                        hint=f"its parameters are {', '.join(self.arg_names)}",
                    )

    def run(self, *args: Any, grid: Grid, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch with the best configuration; with `warmup`, compile all and run none."""
        known = self.named(args, kwargs)
        if warmup:
            chosen = self.pruning.choose(self.configs, known)
            return [self._compile(each, known, grid) for each in chosen]
        self.best_config = self._choose(known, grid)
        self._prepare(self.best_config, known)
        return self._launch(self.best_config, known, grid)

    def _choose(self, known: Arguments, grid: Grid) -> Config:
        if len(self.configs) == 1 or config.interpreting():
            return self.configs[0]
        everything = {**self.base_fn.defaults, **known}
        key = (
            *(_key(everything.get(name)) for name in self.keys),
            *(array.dtype.name for n, v in known.items() for _, array in _arrays(n, v)),
        )
        if key not in self.cache:
            self.cache[key] = self._stored(key, known, grid)
        return self.cache[key]

    def _stored(self, key: tuple[Any, ...], known: Arguments, grid: Grid) -> Config:
        """Return the choice of an earlier process, or measure and keep it for the next one."""
        settings = config.get()
        configs = list(self.pruning.choose(self.configs, known))
        twice = next((name for each in configs for name in each.kwargs if name in known), None)
        if twice is not None:
            raise AutotunerError(
                f"`{twice}` is an argument of the launch of {self.__name__} and of a Config",
                hint="leave it to the Config",
            )
        keep = settings.tune or self.trials.cache_results
        if not keep or any(each.pre_hook for each in configs):
            return self._measured(key, configs, known, grid, settings.print_autotuning)
        device = get_device()
        name = choices.key(
            self.base_fn.cache_key, device.name, device.properties(), key, [*map(str, configs)]
        )
        found = choices.read(settings.cache_dir, name)
        place = -1 if found is None else found.get("best", -1)
        if isinstance(place, int) and 0 <= place < len(configs):
            return configs[place]
        best = self._measured(key, configs, known, grid, settings.print_autotuning)
        timings = {str(each): list(times) for each, times in self.configs_timings.items()}
        record = {"kernel": self.__name__, "best": configs.index(best), "ms": timings}
        choices.write(settings.cache_dir, name, record)
        return best

    def _measured(
        self,
        key: tuple[Any, ...],
        configs: Sequence[Config],
        known: Arguments,
        grid: Grid,
        printing: bool,
    ) -> Config:
        """Return the fastest of `configs`; one that does not compile or run is passed over.

        Raises:
            AutotunerError: none of them does.
        """
        start = time.perf_counter()
        timings: dict[Config, Sequence[float]] = {}
        failures: list[TeenyError] = []
        for each in configs:
            try:
                timings[each] = self._time(each, known, grid)
            except TeenyError as error:
                timings[each] = [float("inf")] * len(QUANTILES)
                failures.append(error)
        if len(failures) == len(configs):
            raise AutotunerError(
                f"no configuration of {self.__name__} compiles and runs; the first: {failures[0]}"
            ) from failures[0]
        self.configs_timings = timings
        self.bench_time = time.perf_counter() - start
        best = min(timings, key=lambda each: timings[each][0])
        if printing:
            print(
                f"autotuning {self.__name__} for {key}: {best} "
                f"({timings[best][0]:.3g} ms, chosen in {self.bench_time:.2f} s)"
            )
        return best

    def _time(self, candidate: Config, known: Arguments, grid: Grid) -> Sequence[float]:
        """Return the quantiles of the milliseconds of a launch."""
        with _restored(self._written(candidate, known, grid)) as restore:
            bench = self.trials.do_bench

            def run() -> None:
                restore()
                self._trial(candidate, known, grid)

            if bench is not None:
                found = bench(run, quantiles=QUANTILES)
                return [found] if isinstance(found, int | float) else list(found)
            return self._bench(candidate, known, grid, restore)

    def _bench(
        self, candidate: Config, known: Arguments, grid: Grid, restore: Callable[[], None]
    ) -> Sequence[float]:
        def run() -> float:
            restore()
            start = time.perf_counter()
            self._trial(candidate, known, grid)
            return (time.perf_counter() - start) * 1e3

        spent = run()
        while spent < self.trials.warmup:
            spent += run()
        times = [run() for _ in range(LEAST_RUNS)]
        while sum(times) < self.trials.rep:
            times.append(run())
        return [float(quantile) for quantile in np.quantile(times, QUANTILES)]

    def _trial(self, candidate: Config, known: Arguments, grid: Grid) -> None:
        """Launch once, between the hooks."""
        if self.trials.pre_hook is not None:
            self.trials.pre_hook(dict(known), reset_only=False)
        self._prepare(candidate, known)
        failure: Exception | None = None
        try:
            self._launch(candidate, known, grid)
        except TeenyError as error:
            failure = error
            raise
        finally:
            if self.trials.post_hook is not None:
                self.trials.post_hook(dict(known), exception=failure)

    def _prepare(self, chosen: Config, known: Arguments) -> None:
        for name in self.trials.reset_to_zero:
            as_array(name, known[name])[...] = 0
        if chosen.pre_hook is not None:
            chosen.pre_hook({**known, **chosen.all_kwargs()})

    def _launch(self, chosen: Config, known: Arguments, grid: Grid) -> Any:
        return self.fn.run(**{**known, **chosen.all_kwargs()}, grid=grid)

    def _compile(self, chosen: Config, known: Arguments, grid: Grid) -> Any:
        return self.fn.run(**{**known, **chosen.all_kwargs()}, grid=grid, warmup=True)

    def _written(self, candidate: Config, known: Arguments, grid: Grid) -> list[Array]:
        """Compile, and return the arrays that a trial changes."""
        compiled = self._compile(candidate, known, grid)
        written = {p.name for p in compiled.function.parameters if p.written}
        arrays = (pair for name, value in known.items() for pair in _arrays(name, value))
        return [array for name, array in arrays if name in written]


def heuristics(
    values: Mapping[str, Callable[[Mapping[str, Any]], Any]],
) -> Callable[[Kernel | Tuned], Heuristics]:
    """Compute arguments of a kernel from the others: `{"EVEN": lambda args: ...}`."""
    return lambda fn: Heuristics(fn, values)


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., Any] | None = None,
    post_hook: Callable[..., Any] | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Bench | None = None,
    cache_results: bool = False,
) -> Callable[[Kernel | Tuned], Autotuner]:
    """Try `configs` whenever the arguments named in `key` have new values.

    A configuration that does not compile or run is passed over. With `TEENY_INTERPRET=1` the
    first one is taken. `TEENY_PRINT_AUTOTUNING=1` prints each choice.

    Args:
        configs: the choices.
        key: parameters whose values decide; the dtypes of all tensors do too.
        prune_configs_by: see `Pruning`; a mapping of any of its fields.
        reset_to_zero: arguments that are cleared before every launch.
        restore_value: accepted; trials put back all that they write.
        pre_hook: called before each trial with the arguments by name and `reset_only=False`.
        post_hook: called after each trial with the arguments by name and `exception=`.
        warmup: milliseconds of launches before those that are timed.
        rep: milliseconds of launches that are timed; there are at least three.
        use_cuda_graph: accepted; it has no meaning here.
        do_bench: what measures instead: `do_bench(run, quantiles=(0.5, 0.2, 0.8))` returns
            milliseconds.
        cache_results: whether choices are kept in `TEENY_CACHE_DIR` for other processes, as
            they are with `TEENY_TUNE=1`; not those of configurations with hooks.

    Raises:
        KernelError: there is no configuration, or a name is no parameter of the kernel or no
            field of `Pruning`.
    """
    if not configs:
        raise KernelError("autotune needs at least one Config")
    pruning = dict(prune_configs_by or {})
    unknown = pruning.keys() - Pruning.__dataclass_fields__.keys()
    if unknown:
        raise KernelError(
            f"prune_configs_by takes no {sorted(unknown)[0]!r}",
            hint=f"its keys are {', '.join(Pruning.__dataclass_fields__)}",
        )
    trials = Trials(
        tuple(reset_to_zero or ()),
        tuple(restore_value or ()),
        pre_hook,
        post_hook,
        WARMUP_MS if warmup is None else warmup,
        REP_MS if rep is None else rep,
        do_bench,
        cache_results,
    )
    return lambda fn: Autotuner(fn, configs, key, Pruning(**pruning), trials)


def function_of(kernel: Kernel | Tuned) -> Kernel:
    """Return the kernel inside its decorators."""
    return kernel if isinstance(kernel, Kernel) else function_of(kernel.fn)


def _arrays(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    """Yield the arrays in an argument, named as the function's parameters are."""
    if isinstance(value, TensorDescriptor):
        yield name, as_array(name, value.base)
    elif isinstance(value, tuple | list):
        for place, item in enumerate(value):
            yield from _arrays(f"{name}_{place}", item)
    elif is_memory(value):
        yield name, as_array(name, value)


def _key(value: Any) -> Any:
    return None if is_memory(value) else hashable(value)


@contextmanager
def _restored(arrays: Sequence[Array]) -> Iterator[Callable[[], None]]:
    """Yield what puts back the contents of arrays; at the end they are put back too."""
    saved = [(array, array.copy()) for array in arrays if array.flags.writeable]

    def restore() -> None:
        for array, copy in saved:
            np.copyto(array, copy)

    try:
        yield restore
    finally:
        restore()
