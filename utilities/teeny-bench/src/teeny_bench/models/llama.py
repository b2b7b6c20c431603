"""Blocks as Llama has them: RMSNorm, rotary positions, grouped queries, SwiGLU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from teeny_core import AnyTensor, concat, nn

BASE = 10_000.0
EPS = 1e-5


def rotations(length: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return cosine and sine of position/BASE^(2i/width), (length, width), each i in both halves.

    Source: Su et al., *RoFormer: Enhanced transformer with rotary position embedding* (2021).
    """
    frequencies = BASE ** (-np.arange(0, width, 2) / width)
    angles = np.tile(np.outer(np.arange(length), frequencies), 2)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


class LlamaBlock(nn.Layer[[AnyTensor, AnyTensor, AnyTensor], AnyTensor]):
    """Causal attention of grouped queries, and a gated perceptron."""

    def __init__(self, width: int, heads: int, kv_heads: int, hidden: int) -> None:
        self.heads, self.kv_heads = heads, kv_heads
        narrow = width // heads * kv_heads
        self.input_layernorm = nn.RmsNorm(width, EPS)
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, narrow, bias=False)
        self.v_proj = nn.Linear(width, narrow, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)
        self.post_attention_layernorm = nn.RmsNorm(width, EPS)
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def call(self, x: AnyTensor, cos: AnyTensor, sin: AnyTensor) -> AnyTensor:
        """Return features of the shape of `x`, (N, length, width)."""
        x = x + self._attend(self.input_layernorm(x), cos, sin)
        near = self.post_attention_layernorm(x)
        return x + self.down_proj(self.gate_proj(near).silu() * self.up_proj(near))

    def _attend(self, x: AnyTensor, cos: AnyTensor, sin: AnyTensor) -> AnyTensor:
        q = _rotated(_split(self.q_proj(x), self.heads), cos, sin)
        k = _rotated(_split(self.k_proj(x), self.kv_heads), cos, sin)
        v = _split(self.v_proj(x), self.kv_heads)
        attend = nn.functional.scaled_dot_product_attention
        mixed = attend(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class LlamaBlocks(nn.Layer[[AnyTensor], AnyTensor]):
    """A stack of blocks and the last normalisation: (N, length, width) → the same.

    Source: Touvron et al., *LLaMA* (2023) and *Llama 2* (2023).
    """

    def __init__(
        self, length: int, width: int, depth: int, heads: int, kv_heads: int, hidden: int
    ) -> None:
        self.layers = nn.LayerList(LlamaBlock(width, heads, kv_heads, hidden) for _ in range(depth))
        self.norm = nn.RmsNorm(width, EPS)
        cos, sin = rotations(length, width // heads)
        self.cos, self.sin = (nn.Buffer(table, persistent=False) for table in (cos, sin))

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the features after all blocks."""
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.norm(x)


def _split(x: AnyTensor, heads: int) -> AnyTensor:
    """Lay out (N, length, width) as (N, heads, length, width/heads)."""
    return x.unflatten(-1, (heads, x.shape[2] // heads)).transpose(1, 2)


def _rotated(x: AnyTensor, cos: AnyTensor, sin: AnyTensor) -> AnyTensor:
    """Turn each pair, one from each half of the features, by the angle of its position."""
    first, second = x.chunk(2, -1)
    return x * cos + concat([-second, first], -1) * sin
