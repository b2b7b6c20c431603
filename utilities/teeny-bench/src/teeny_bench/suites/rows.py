"""Memory-bound kernels: elementwise chains, softmax and layer norm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from teeny_core import nn

from teeny_bench.case import Case
from teeny_bench.peers import compiled, torch_module
from teeny_bench.programs import outputs, pair

POINTWISE_SIZES = (4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20)
SOFTMAX_SHAPES = ((1024, 1000), (1024, 1024), (8192, 128))
LAYERNORM_SHAPES = ((1024, 1000), (1024, 1024), (1024, 4096))


def make_case(
    name: str,
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    arrays: list[np.ndarray],
    written: int,
) -> Case:
    """Build a memory-bound case that reads `arrays` once and writes `written` f32 elements."""
    run_ours, run_theirs = pair(ours, theirs, arrays)
    return Case(
        name,
        run_ours,
        run_theirs,
        lambda: (outputs(run_ours()), outputs(run_theirs())),
        bytes=float(sum(array.nbytes for array in arrays) + 4 * written),
        tolerance=1e-5,
    )


def pointwise(peer: str, threads: int) -> Iterator[Case]:
    """Yield a sum and gelu(x·w + b) over growing arrays."""
    torch = torch_module()
    rng = np.random.default_rng(0)
    gelu = torch.nn.functional.gelu
    for size in POINTWISE_SIZES:
        x, w, b = (rng.standard_normal(size, np.float32) for _ in range(3))
        label = f"{size >> 20}M" if size >> 20 else f"{size >> 10}K"
        add = lambda x, y: x + y  # noqa: E731
        yield make_case(f"add {label}", add, compiled(peer, add), [x, w], size)
        yield make_case(
            f"gelu(x·w+b) {label}",
            lambda x, w, b: (x * w + b).gelu(),
            compiled(peer, lambda x, w, b: gelu(x * w + b)),
            [x, w, b],
            size,
        )


def softmax(peer: str, threads: int) -> Iterator[Case]:
    """Yield softmax over the last axis."""
    rng = np.random.default_rng(0)
    function = lambda x: x.softmax(-1)  # noqa: E731
    for shape in SOFTMAX_SHAPES:
        x = rng.standard_normal(shape, np.float32)
        name = "x".join(map(str, shape))
        yield make_case(name, function, compiled(peer, function), [x], x.size)


def layernorm(peer: str, threads: int) -> Iterator[Case]:
    """Yield layer norm with scale and shift over the last axis."""
    torch = torch_module()
    rng = np.random.default_rng(0)
    for shape in LAYERNORM_SHAPES:
        x = rng.standard_normal(shape, np.float32)
        w, b = (rng.standard_normal(shape[1], np.float32) for _ in range(2))
        yield make_case(
            "x".join(map(str, shape)),
            lambda x, w, b: nn.functional.layer_norm(x, (x.shape[-1],), w, b),
            compiled(peer, lambda x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b)),
            [x, w, b],
            x.size,
        )
