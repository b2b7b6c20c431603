"""Running a schedule by the interpreter of tile IR: the reference for compiled programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from teeny_core import substitute
from teeny_core.internal import Array
from teeny_triton import interpret

from teeny_compiler.schedule.plan import Buffer, BufferRef, Schedule, Step

POISON = 0xA5
"""What fresh memory is filled with, so that reading it shows."""


def run_schedule(
    schedule: Schedule,
    inputs: Sequence[Array],
    parameters: Mapping[str, Array],
    sizes: Mapping[str, int],
) -> tuple[Array, ...]:
    """Run every step on NumPy memory and return the outputs.

    Args:
        schedule: what to run.
        inputs: contiguous arrays in order.
        parameters: contiguous arrays by name, updated in place.
        sizes: the values of the symbols.
    """
    arena = np.full(substitute(schedule.arena, sizes), POISON, np.uint8)
    given = iter(inputs)
    memory: list[Array] = []
    for buffer in schedule.buffers:
        match buffer.kind:
            case "input":
                memory.append(next(given))
            case "parameter":
                memory.append(parameters[buffer.name])
            case "constant":
                memory.append(np.frombuffer(buffer.data, buffer.dtype.numpy))
            case "arena":
                memory.append(_slice(arena, buffer, sizes))
            case _:
                size = substitute(buffer.nbytes, sizes)
                memory.append(np.full(size, POISON, np.uint8).view(buffer.dtype.numpy))
    flat = [array.reshape(-1) for array in memory]
    for step in (*schedule.prepare, *schedule.steps):
        _run_step(step, flat, sizes)
    shapes = [substitute(schedule.buffers[i].shape, sizes) for i in schedule.outputs]
    return tuple(flat[i].reshape(shape) for i, shape in zip(schedule.outputs, shapes, strict=True))


def _slice(arena: Array, buffer: Buffer, sizes: Mapping[str, int]) -> Array:
    start, length = substitute((buffer.offset, buffer.nbytes), sizes)
    return arena[start : start + length].view(buffer.dtype.numpy)


def _run_step(step: Step, memory: Sequence[Array], sizes: Mapping[str, int]) -> None:
    arguments = []
    for argument in step.arguments:
        if isinstance(argument, BufferRef):
            arguments.append(memory[argument.buffer][substitute(argument.offset, sizes) :])
        else:
            arguments.append(substitute(argument.value, sizes))
    interpret(step.function, substitute(step.grid, sizes), arguments)
