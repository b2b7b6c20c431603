"""Memory-bound kernels: elementwise chains, softmax and layer norm."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod
from typing import Any

from teeny_core import nn

from teeny_bench.case import Case, Sides
from teeny_bench.peers import Function, torch_module
from teeny_bench.programs import normal, pair

POINTWISE_SIZES = (4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20)
SOFTMAX_SHAPES = ((1024, 1000), (1024, 1024), (8192, 128))
LAYERNORM_SHAPES = ((1024, 1000), (1024, 1024), (1024, 4096))
FLOAT_BYTES = 4
TOLERANCE = 1e-5


def pointwise(peer: str) -> Iterator[Case]:
    """Yield a sum and gelu(x·w + b) over growing arrays."""
    for size in POINTWISE_SIZES:
        label = f"{size >> 20}M" if size >> 20 else f"{size >> 10}K"
        yield _case(f"add {label}", partial(_add, peer, size), 3 * size)
        yield _case(f"gelu(x·w+b) {label}", partial(_gelu, peer, size), 4 * size)


def softmax(peer: str) -> Iterator[Case]:
    """Yield softmax over the last axis."""
    for shape in SOFTMAX_SHAPES:
        yield _case(_label(shape), partial(_softmax, peer, shape), 2 * prod(shape))


def layernorm(peer: str) -> Iterator[Case]:
    """Yield layer norm with scale and shift over the last axis."""
    for shape in LAYERNORM_SHAPES:
        yield _case(_label(shape), partial(_layer_norm, peer, shape), 2 * prod(shape))


def _case(name: str, build: partial[Sides], elements: int) -> Case:
    """Make a case limited by the `elements` that it must read and write."""
    return Case(name, build, bytes=float(FLOAT_BYTES * elements), tolerance=TOLERANCE)


def _label(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _add(peer: str, size: int) -> Sides:
    add: Function = lambda x, y: x + y  # noqa: E731
    return pair(peer, add, add, normal(0, (size,), (size,)))


def _gelu(peer: str, size: int) -> Sides:
    gelu = torch_module().nn.functional.gelu
    return pair(
        peer,
        lambda x, w, b: (x * w + b).gelu(),
        lambda x, w, b: gelu(x * w + b),
        normal(0, (size,), (size,), (size,)),
    )


def _softmax(peer: str, shape: tuple[int, int]) -> Sides:
    function: Function = lambda x: x.softmax(-1)  # noqa: E731
    return pair(peer, function, function, normal(0, shape))


def _layer_norm(peer: str, shape: tuple[int, int]) -> Sides:
    width = shape[1:]
    reference = torch_module().nn.functional.layer_norm

    def ours(x: Any, weight: Any, bias: Any) -> Any:
        return nn.functional.layer_norm(x, width, weight, bias)

    def theirs(x: Any, weight: Any, bias: Any) -> Any:
        return reference(x, width, weight, bias)

    return pair(peer, ours, theirs, normal(0, shape, width, width))
