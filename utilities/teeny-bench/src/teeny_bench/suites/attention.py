"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from teeny_core import nn

from teeny_bench.case import Case
from teeny_bench.peers import compiled, torch_module
from teeny_bench.programs import outputs, pair

SHAPES = ((1, 8, 512, 64), (1, 8, 1024, 64), (1, 8, 1024, 128), (1, 8, 2048, 64))


def attention(peer: str, threads: int) -> Iterator[Case]:
    """Yield full and causal attention for (batch, heads, sequence, head size)."""
    torch = torch_module()
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        arrays = [rng.standard_normal(shape, np.float32) for _ in range(3)]
        batch, heads, length, width = shape
        for causal in (False, True):

            def reference(q, k, v, causal=causal):  # type: ignore[no-untyped-def]
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

            def function(q, k, v, causal=causal):  # type: ignore[no-untyped-def]
                return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

            ours, theirs = pair(function, compiled(peer, reference), arrays)
            yield Case(
                f"{'causal' if causal else 'full'} {'x'.join(map(str, shape))}",
                ours,
                theirs,
                lambda ours=ours, theirs=theirs: (outputs(ours()), outputs(theirs())),
                flops=4.0 * batch * heads * length * length * width * (0.5 if causal else 1.0),
            )
