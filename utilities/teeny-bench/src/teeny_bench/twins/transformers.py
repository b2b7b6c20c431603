"""Transformers, in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class VisionTransformer(nn.Module):  # type: ignore[misc]
    """The twin of `teeny_vision.models.VisionTransformer`."""

    def __init__(
        self, classes: int, side: int, patch: int, width: int, depth: int, heads: int
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Any) -> Any:
        """Return the logits."""
        tokens = self.patches(x).flatten(2).mT
        first = self.class_token.expand(len(x), -1, -1)
        x = torch.cat([first, tokens], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


class BertEncoder(nn.Module):  # type: ignore[misc]
    """The twin of `teeny_bench.models.BertEncoder`."""

    def __init__(self, vocabulary: int, length: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width))
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True)
            for _ in range(depth)
        )

    def forward(self, tokens: Any) -> Any:
        """Return the features of each token."""
        x = self.norm(self.tokens(tokens) + self.positions)
        for block in self.blocks:
            x = block(x)
        return x


class Gpt2Block(nn.Module):  # type: ignore[misc]
    """The twin of `teeny_bench.models.gpt2.Gpt2Block`."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_out = nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        """Return features of the shape of `x`."""
        n, length, width = x.shape
        shape = (n, length, self.heads, width // self.heads)
        q, k, v = self.c_attn(self.ln_1(x)).split(width, -1)
        q, k, v = (part.view(shape).transpose(1, 2) for part in (q, k, v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(mixed.transpose(1, 2).reshape(x.shape))
        hidden = functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")
        return x + self.c_out(hidden)


class Gpt2Blocks(nn.Module):  # type: ignore[misc]
    """The twin of `teeny_bench.models.Gpt2Blocks`."""

    def __init__(self, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.h = nn.ModuleList(Gpt2Block(width, heads) for _ in range(depth))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        """Return the features after all blocks."""
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


def _rotated(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class LlamaBlock(nn.Module):  # type: ignore[misc]
    """The twin of `teeny_bench.models.llama.LlamaBlock`."""

    def __init__(self, width: int, heads: int, kv_heads: int, hidden: int) -> None:
        super().__init__()
        self.size = width // heads
        self.input_layernorm = nn.RMSNorm(width, 1e-5)
        self.q_proj = nn.Linear(width, heads * self.size, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)
        self.post_attention_layernorm = nn.RMSNorm(width, 1e-5)
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        """Return features of the shape of `x`."""
        n, length, _ = x.shape
        near = self.input_layernorm(x)
        projections = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (
            layer(near).view(n, length, -1, self.size).transpose(1, 2) for layer in projections
        )
        q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o_proj(mixed.transpose(1, 2).reshape(x.shape))
        near = self.post_attention_layernorm(x)
        return x + self.down_proj(functional.silu(self.gate_proj(near)) * self.up_proj(near))


class LlamaBlocks(nn.Module):  # type: ignore[misc]
    """The twin of `teeny_bench.models.LlamaBlocks`."""

    def __init__(
        self, length: int, width: int, depth: int, heads: int, kv_heads: int, hidden: int
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            LlamaBlock(width, heads, kv_heads, hidden) for _ in range(depth)
        )
        self.norm = nn.RMSNorm(width, 1e-5)
        size = width // heads
        steps = torch.arange(0, size, 2, dtype=torch.float64) / size
        angles = torch.outer(torch.arange(length, dtype=torch.float64), 10_000.0**-steps)
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)

    def forward(self, x: Any) -> Any:
        """Return the features after all blocks."""
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.norm(x)
