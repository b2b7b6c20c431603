"""Choosing among the ways to compute an op by running each: `TEENY_TUNE=1`, the option `tune`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from teeny_compiler.internal import host_target
from teeny_core import DType, config, symbols_of
from teeny_triton import choices
from teeny_triton.launch import BufferArg, Launch, Operand, Plan, Request, ScalarArg, launches_once

from teeny_cpu.kernel import CpuKernel
from teeny_cpu.memory import Array, address, empty
from teeny_cpu.runtime import num_threads

ROUNDS, SECONDS = 3, 0.1
"""Each way runs so often at least, in turn, and until all of them together took so long."""
MARGIN = 0.97
"""A way replaces the default when it takes less than this share of the default's time."""
SLOW = 3.0
"""A way whose first run takes so many times the best first run is not run again."""


def choose(request: Request, plans: Sequence[Plan]) -> int:
    """Return which of some plans is fastest on this machine; the choice is kept on disk.

    The first plan is the default. It is taken unmeasured where sizes are symbolic.
    """
    sizes = tuple((x.shape, x.strides) for x in (*request.inputs, request.output))
    if len(plans) == 1 or symbols_of(sizes):
        return 0
    settings = config.get()
    target = host_target().key
    name = choices.key(request.op, target, num_threads(), [_describe(plan) for plan in plans])
    found = choices.read(settings.cache_dir, name)
    place = -1 if found is None else found.get("best", -1)
    if isinstance(place, int) and 0 <= place < len(plans):
        return place
    seconds = _measure(request, plans)
    best = min(range(len(plans)), key=seconds.__getitem__)
    if seconds[best] > MARGIN * seconds[0]:
        best = 0
    microseconds = [round(s * 1e6, 2) for s in seconds]
    record = {"op": request.op, "best": best, "us": microseconds}
    choices.write(settings.cache_dir, name, record)
    if settings.print_autotuning:
        print(f"tuning {request.op} {request.output.shape}: way {best} of {microseconds} us")
    return best


def _describe(plan: Plan) -> object:
    return [(launch.function.key, launch.grid, launch.arguments) for launch in plan.launches]


def _measure(request: Request, plans: Sequence[Plan]) -> list[float]:
    """Return the least seconds of each plan, what is done once left out."""
    runs = [_Run(request, plan) for plan in plans]
    best = [run() for run in runs]
    live = [i for i in range(len(runs)) if best[i] <= SLOW * min(best)]
    spent, rounds = 0.0, 0
    while len(live) > 1 and (rounds < ROUNDS or spent < SECONDS):
        rounds += 1
        for i in live:
            seconds = runs[i]()
            best[i] = min(best[i], seconds)
            spent += seconds
    return best


class _Run:
    """A plan compiled, over memory of its own."""

    def __init__(self, request: Request, plan: Plan) -> None:
        memory = _Memory(request, plan)
        once = launches_once(plan, request)
        self._launches = []
        for number, launch in enumerate(plan.launches):
            run = (CpuKernel(launch.function), _grid(launch), memory.arguments(launch))
            if number in once:
                run[0](*run[1:])
            else:
                self._launches.append(run)
        self._memory = memory
        self()  # what is slow at first: pages, code

    def __call__(self) -> float:
        """Run all launches; return the seconds that they took."""
        start = time.perf_counter()
        for kernel, grid, arguments in self._launches:
            kernel(grid, arguments)
        return time.perf_counter() - start


class _Memory:
    """Arrays for everything that a plan reads and writes: random floats, integers of zero."""

    def __init__(self, request: Request, plan: Plan) -> None:
        extra = request.epilogue.operands if request.epilogue is not None else ()
        self._arrays: dict[BufferArg, Array] = {BufferArg("output"): _array(request.output)}
        for kind, operands in (("input", request.inputs), ("extra", extra)):
            for i, operand in enumerate(operands):
                self._arrays[BufferArg(kind, i)] = _array(operand)
        for i, temp in enumerate(plan.temps):
            assert isinstance(temp.size, int)
            self._arrays[BufferArg("temp", i)] = _filled(temp.size, temp.dtype)

    def arguments(self, launch: Launch) -> list[int | float]:
        """Return what a launch passes."""
        return [self._argument(argument) for argument in launch.arguments]

    def _argument(self, argument: BufferArg | ScalarArg) -> int | float:
        if isinstance(argument, BufferArg):
            return address(self._arrays[argument])
        assert isinstance(argument.value, int | float)
        return argument.value


def _array(operand: Operand) -> Array:
    """Return memory that holds an operand with its strides."""
    last = 0
    for extent, stride in zip(operand.shape, operand.strides, strict=True):
        assert isinstance(extent, int)
        assert isinstance(stride, int)
        last += max(extent - 1, 0) * abs(stride)
    return _filled(last + 1, operand.dtype)


def _filled(size: int, dtype: DType) -> Array:
    array = empty((size,), dtype.numpy)
    array[...] = np.random.default_rng(0).random(size) if dtype.is_float else 0
    return array


def _grid(launch: Launch) -> tuple[int, int, int]:
    x, y, z, *_ = (*launch.grid, 1, 1, 1)
    assert isinstance(x, int)
    assert isinstance(y, int)
    assert isinstance(z, int)
    return x, y, z
