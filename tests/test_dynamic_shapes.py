"""One program for many sizes: image sides, sequences and batches, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import teeny_core as tn
import torch
from teeny_core import nn
from torch.nn import functional as F

RNG = np.random.default_rng(4)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


class Images(nn.Layer[Any, Any]):
    def __init__(self) -> None:
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 4, 3, stride=2, padding=1)

    def call(self, x: Any) -> Any:
        return self.second(self.first(x).relu().max_pool2d(2)).mean((2, 3))


@pytest.fixture(scope="module")
def images() -> tuple[Any, dict[str, torch.Tensor]]:
    graph = tn.trace(Images(), tn.SymTensor.input(tn.f32, ("n", 3, "height", "width")))
    weights = {name: torch.tensor(tensor.numpy()) for name, tensor in graph.bindings.items()}
    return tn.compile(graph, "cpu"), weights


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (2, 3, 17, 23), (3, 3, 32, 5), (0, 3, 9, 9)])
def test_images_of_any_sides(shape: tuple[int, ...], images: Any) -> None:
    program, w = images
    x = normal(*shape)
    y = F.conv2d(torch.tensor(x), w["first.weight"], w["first.bias"], padding=1)
    y = F.max_pool2d(y.relu(), 2)
    y = F.conv2d(y, w["second.weight"], w["second.bias"], stride=2, padding=1)
    np.testing.assert_allclose(program(x), y.mean((2, 3)).numpy(), rtol=1e-5, atol=1e-6)


def test_guards_are_printed_and_checked(images: Any) -> None:
    program, _ = images
    assert "height//2 >= 1" in [str(guard).split("  #")[0] for guard in program.guards]
    with pytest.raises(tn.ShapeError, match=r"max_pool2d needs height//2 >= 1, got height = 1"):
        program(normal(1, 3, 1, 8))


@pytest.mark.parametrize("sizes", [(1, 1), (2, 7), (1, 64), (3, 33)])
def test_attention_over_any_sequence(sizes: tuple[int, int], attention: Any) -> None:
    n, s = sizes
    q, k, v = (normal(n, 2, s, 8) for _ in range(3))
    queries, keys, values = map(torch.tensor, (q, k, v))
    wanted = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    np.testing.assert_allclose(attention(q, k, v), wanted.numpy(), rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def attention() -> Any:
    def function(q: Any, k: Any, v: Any) -> Any:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    kinds = [tn.SymTensor.input(tn.f32, ("n", 2, "s", 8)) for _ in range(3)]
    return tn.compile(tn.trace(function, *kinds), "cpu")


def test_sizes_of_one_name_agree(attention: Any) -> None:
    with pytest.raises(tn.ShapeError, match="s"):
        attention(normal(1, 2, 4, 8), normal(1, 2, 5, 8), normal(1, 2, 4, 8))


def test_a_contradiction_names_the_sizes_and_the_op() -> None:
    x, y = (tn.SymTensor.input(tn.f32, shape) for shape in (("n", "k"), ("m", 3)))
    with pytest.raises(tn.ShapeError, match=r"matmul.*k.*m"):
        tn.trace(lambda x, y: x @ y, x, y)
