"""Short rows are walked some at a time, in the same loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
import torch
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.schedule import make_schedule
from teeny_core import nn
from teeny_triton import Target
from teeny_triton.ir import walk

RNG = np.random.default_rng(5)

Pair = tuple[Callable[..., Any], Callable[..., Any]]


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    return nn.functional.layer_norm(x, x.shape[-1:], weight, bias)


def _torch_layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)


def _with_maximum(x: Any, weight: Any, bias: Any) -> Any:
    return x.softmax(-1) * weight + bias, x.max(-1)


def _torch_with_maximum(x: Any, weight: Any, bias: Any) -> Any:
    return x.softmax(-1) * weight + bias, x.amax(-1)


KINDS: dict[str, Pair] = {
    "layer norm": (_layer_norm, _torch_layer_norm),
    "softmax": (_with_maximum, _torch_with_maximum),
    "log-softmax": (
        lambda x, weight, bias: (x * weight + bias).log_softmax(-1),
        lambda x, weight, bias: (x * weight + bias).log_softmax(-1),
    ),
}


def _arrays(rows: tuple[int, ...], width: int) -> list[np.ndarray]:
    shapes = ((*rows, width), (width,), (width,))
    return [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("rows", [(5,), (2, 4), ("n",), (2, "n")])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_walked_together_are_those_of_torch(kind: str, rows: tuple[Any, ...]) -> None:
    ours, theirs = KINDS[kind]
    for width in (1, 37, 96):
        handles = [
            tn.SymTensor.input(tn.f32, shape) for shape in ((*rows, width), (width,), (width,))
        ]
        program = tn.compile(tn.trace(ours, *handles), device="cpu")
        for number in (0, 1, 7) if "n" in rows else (0,):
            arrays = _arrays(tuple(number if d == "n" else d for d in rows), width)
            found = program(*arrays)
            wanted = theirs(*(torch.from_numpy(x).double() for x in arrays))
            pairs = [(found, wanted)] if kind != "softmax" else zip(found, wanted, strict=True)
            for x, y in pairs:
                np.testing.assert_allclose(x, y.numpy(), rtol=2e-5, atol=2e-5)


def test_a_row_keeps_its_nan_to_itself() -> None:
    x = RNG.standard_normal((8, 40)).astype(np.float32)
    x[2, 39] = np.nan
    x[5] = -np.inf
    program = tn.compile(
        tn.trace(lambda x: x.softmax(-1), tn.SymTensor.input(tn.f32, x.shape)), device="cpu"
    )
    wanted = torch.from_numpy(x).softmax(-1).numpy()
    assert np.isnan(wanted).all(-1).nonzero()[0].tolist() == [2, 5]
    np.testing.assert_allclose(program(x), wanted, rtol=1e-5, atol=1e-7)


def _loads(rows: int) -> int:
    target = Target("x86_64-unknown-linux-gnu", "", frozenset(), 256, 16)
    handles = [tn.SymTensor.input(tn.f32, shape) for shape in ((rows, 96), (96,), (96,))]
    graph = FXGraph.from_graph(tn.trace(_layer_norm, *handles))
    (step,) = make_schedule(graph, target, templates=()).steps
    return sum(op.opcode == "load" for op in walk(step.function.body))


def test_what_rows_share_is_loaded_once() -> None:
    walks, shared = 3, 2
    assert _loads(1) == walks + shared
    assert _loads(8) == 4 * walks + shared
