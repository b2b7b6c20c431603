"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from teeny_core import nn

from teeny_bench.case import Case, Sides
from teeny_bench.peers import torch_module
from teeny_bench.programs import normal, pair

SHAPES = ((1, 8, 512, 64), (1, 8, 1024, 64), (1, 8, 1024, 128), (1, 8, 2048, 64))


def cases(peer: str) -> Iterator[Case]:
    """Yield full and causal attention for (batch, heads, sequence, head size)."""
    for shape in SHAPES:
        yield from of_shape(peer, shape)


def of_shape(peer: str, shape: tuple[int, int, int, int]) -> Iterator[Case]:
    """Yield full and causal attention of one shape."""
    batch, heads, length, width = shape
    for causal in (False, True):
        yield Case(
            f"{'causal' if causal else 'full'} {'x'.join(map(str, shape))}",
            partial(_attention, peer, shape, causal),
            flops=4.0 * batch * heads * length * length * width * (0.5 if causal else 1.0),
        )


def _attention(peer: str, shape: tuple[int, ...], causal: bool) -> Sides:
    reference = torch_module().nn.functional.scaled_dot_product_attention

    def ours(q: Any, k: Any, v: Any) -> Any:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def theirs(q: Any, k: Any, v: Any) -> Any:
        return reference(q, k, v, is_causal=causal)

    return pair(peer, ours, theirs, normal(0, shape, shape, shape))
