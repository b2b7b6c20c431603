"""Elementwise kernels: any function of arrays of equal size, and the steps of optimisers.

A program takes `BLOCK` elements.
"""

from __future__ import annotations

from typing import Any

import teeny_triton.language as tl
from teeny_triton import Ptr, TypeVar, constexpr, f32, i64, kernel

T = TypeVar("T")
D = TypeVar("D")


@kernel
def pointwise(
    inputs: tuple[Any, ...], y: Ptr[D], size: i64, FUNCTION: constexpr, BLOCK: constexpr
) -> None:
    """y = FUNCTION(*inputs); `FUNCTION` takes and returns tiles."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    tl.store(y + at, FUNCTION(*[tl.load(x + at, inside) for x in inputs]), inside)


@kernel
def sgd(
    weight: Ptr[T],
    gradient: Ptr[T],
    velocity: Ptr[T],
    size: i64,
    rate: f32,
    momentum: f32,
    decay: f32,
    NESTEROV: constexpr,
    BLOCK: constexpr,
) -> None:
    """A step of stochastic gradient descent with momentum, as PyTorch defines it."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    value = tl.load(weight + at, inside)
    slope = tl.load(gradient + at, inside) + decay * value
    speed = momentum * tl.load(velocity + at, inside) + slope
    tl.store(velocity + at, speed, inside)
    step = slope + momentum * speed if NESTEROV else speed
    tl.store(weight + at, value - rate * step, inside)


@kernel
def adam(
    weight: Ptr[T],
    gradient: Ptr[T],
    mean: Ptr[T],
    square: Ptr[T],
    size: i64,
    rate: f32,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    decay: f32,
    correction1: f32,
    correction2: f32,
    DECOUPLED: constexpr,
    BLOCK: constexpr,
) -> None:
    """A step of Adam, or of AdamW where the decay is `DECOUPLED` from the gradient.

    `correction1` and `correction2` are 1 - beta to the power of the step's number. (D. Kingma, J.
    Ba: "Adam", ICLR 2015; I. Loshchilov, F. Hutter: "Decoupled weight decay regularization", ICLR
    2019.)
    """
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    value, slope = tl.load(weight + at, inside), tl.load(gradient + at, inside)
    if DECOUPLED:
        value = value * (1.0 - rate * decay)
    else:
        slope = slope + decay * value
    first = tl.load(mean + at, inside)
    first = first + (slope - first) * (1.0 - beta1)
    second = beta2 * tl.load(square + at, inside) + (1.0 - beta2) * slope * slope
    tl.store(mean + at, first, inside)
    tl.store(square + at, second, inside)
    size_of_step = tl.sqrt(second) / tl.sqrt(correction2) + epsilon
    tl.store(weight + at, value - rate / correction1 * first / size_of_step, inside)
