"""Random numbers from a seed, the same on every device.

The generator's state is one tensor u32[4] = (seed low, seed high, step, 0). Outside of a trace each
call uses a step of its own. While tracing, each call is a site of its own within a step, the state
is the parameter `random.state` of the graph, and every run of the program moves it on by one step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from teeny_core import ops
from teeny_core.context import current_trace
from teeny_core.device.base import HostBuffer
from teeny_core.dtype import DType, DTypeLike, f32, i64, u64
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import DTypeError, OpError
from teeny_core.graph import Node
from teeny_core.op import Array
from teeny_core.shape import Dim, Shape
from teeny_core.storage import Storage
from teeny_core.tensor import AnyTensor, SymTensor, Tensor, settle
from teeny_core.tensor.movement import flat

STATE = "random.state"

_state = Tensor.from_node(ops.data(Storage(HostBuffer(np.zeros(4, np.uint32)))))


def state() -> Tensor:
    """Return the tensor u32[4] that holds the state of the generator."""
    return _state


def manual_seed(seed: int) -> None:
    """Start the generator anew from a seed of up to 64 bits.

    Raises:
        OpError: when the seed is below 0 or too large.
    """
    first = seeded(seed)
    settle()
    _state.storage.buffer.write(first)


def seeded(seed: int) -> Array:
    """Return the first state, u32[4], of a generator with a seed of up to 64 bits.

    Raises:
        OpError: when the seed is below 0 or too large.
    """
    if not 0 <= seed < 1 << 64:
        raise OpError(f"the seed {seed} is not valid", hint="use 0 to 2**64 - 1")
    return np.array([seed & 0xFFFFFFFF, seed >> 32, 0, 0], np.uint32)


def advanced(leaf: Node) -> Node:
    """Return the state one step later."""
    return ops.add(leaf, ops.array(np.array([0, 0, 1, 0], np.uint32)))


def bits(shape: Shape) -> AnyTensor:
    """Return uniform u32 of `shape`."""
    trace = current_trace()
    if trace is not None:
        site = trace.next_site()
        return SymTensor(ops.random_bits(_state.node, shape=shape, site=site))
    words = _state.numpy().copy()
    now = ops.data(Storage(HostBuffer(words), is_random_state=True))
    _state.storage.buffer.write(words + np.array([0, 0, 1, 0], np.uint32))
    return Tensor.from_node(ops.random_bits(now, shape=shape, site=0))


def rand(*shape: Dim | Sequence[Dim], dtype: DTypeLike = f32) -> AnyTensor:
    """Return uniform floats in [0, 1), multiples of 2^-24 before they are rounded to `dtype`.

    Raises:
        DTypeError: `dtype` is no type of floats.
    """
    target = _float(dtype)
    fraction = (bits(flat(shape)) >> 8).cast(f32) * 2.0**-24
    return fraction.cast(target)


def uniform(
    shape: Sequence[Dim], low: float = 0.0, high: float = 1.0, *, dtype: DTypeLike = f32
) -> AnyTensor:
    """Return uniform floats in [low, high), where rounding may give `high` itself.

    Raises:
        DTypeError: `dtype` is no type of floats.
    """
    target = _float(dtype)
    return (rand(shape) * (high - low) + low).cast(target)


def randn(*shape: Dim | Sequence[Dim], dtype: DTypeLike = f32) -> AnyTensor:
    """Return floats of the standard normal distribution.

    Source: Box, Muller, "A note on the generation of random normal deviates", Annals of
    Mathematical Statistics 29(2), 1958.

    Raises:
        DTypeError: `dtype` is no type of floats.
    """
    target = _float(dtype)
    extents = flat(shape)
    radius = ((1 - rand(extents)).log() * -2).sqrt()  # 1 - u lies in (0, 1]
    angle = rand(extents) * (2 * math.pi)
    return (radius * angle.cos()).cast(target)


def normal(
    shape: Sequence[Dim], mean: float = 0.0, std: float = 1.0, *, dtype: DTypeLike = f32
) -> AnyTensor:
    """Return floats of the normal distribution with a mean and a standard deviation.

    Source and errors: those of `randn`.
    """
    target = _float(dtype)
    return (randn(shape) * std + mean).cast(target)


def randint(low: int, high: int, shape: Sequence[Dim], *, dtype: DTypeLike = i64) -> AnyTensor:
    """Return integers of [low, high), each with the same chance but for 2^-32 of it.

    Source: Lemire, "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019.

    Raises:
        OpError: when the interval is empty or wider than 2^32.
    """
    span = high - low
    if not 0 < span <= 1 << 32:
        raise OpError(f"randint of [{low}, {high})", hint="low < high <= low + 2**32")
    scaled = (bits(tuple(shape)).cast(u64) * span) >> 32
    return (scaled.cast(i64) + low).cast(dtype)


def bernoulli(shape: Sequence[Dim], p: float = 0.5) -> AnyTensor:
    """Return bools that are true with probability p.

    Raises:
        OpError: when p is no probability.
    """
    if not 0 <= p <= 1:
        raise OpError(f"{p} is no probability", hint="use 0 to 1")
    return rand(tuple(shape)) < p


def _float(dtype: DTypeLike) -> DType:
    target = to_dtype(dtype)
    if not target.is_float:
        raise DTypeError(f"random floats as {target}", hint="use randint for integers")
    return target
