"""Attention layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from teeny_core.dtype import DTypeLike, f32
from teeny_core.errors import ConfigError, ShapeError
from teeny_core.nn import functional, init
from teeny_core.nn.dropout import Dropout
from teeny_core.nn.layer import Layer
from teeny_core.nn.linear import Linear
from teeny_core.nn.normalisation import LayerNorm
from teeny_core.nn.parameter import Parameter
from teeny_core.tensor import AnyTensor


class MultiheadAttention(Layer[..., tuple[AnyTensor, AnyTensor]]):
    """Attention in `num_heads` heads of embed_dim/num_heads features each.

    Parameters and conventions are PyTorch's: sequences are (L, N, E) unless `batch_first`, bool
    masks are True where a key is hidden.

    Source: Vaswani et al., *Attention Is All You Need* (2017).

    Raises:
        ShapeError: `num_heads` does not divide `embed_dim`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
        *,
        dtype: DTypeLike = f32,
    ) -> None:
        if num_heads < 1 or embed_dim < 1 or embed_dim % num_heads:
            raise ShapeError(
                f"num_heads = {num_heads} does not divide embed_dim = {embed_dim}",
                hint="choose a number of heads that divides the width",
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.in_proj_weight = Parameter(init.xavier_uniform((3 * embed_dim, embed_dim)), dtype)
        self.in_proj_bias = Parameter(np.zeros(3 * embed_dim), dtype) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype)
        if self.out_proj.bias is not None:
            self.out_proj.bias.assign(0.0)

    def call(
        self,
        query: AnyTensor,
        key: AnyTensor,
        value: AnyTensor,
        key_padding_mask: AnyTensor | None = None,
        attn_mask: AnyTensor | None = None,
        is_causal: bool = False,
    ) -> tuple[AnyTensor, AnyTensor]:
        """Mix `value` by how `query` meets `key`.

        Args:
            query: (L, N, E), or (N, L, E) with `batch_first`.
            key: (S, N, E) or (N, S, E).
            value: of the shape of `key`.
            key_padding_mask: (N, S); bools, True for padding, or floats added to the scores.
            attn_mask: (L, S) or (N·heads, L, S); bools, True where hidden, or floats.
            is_causal: whether query i sees the keys up to i only; needs no mask.

        Returns:
            The output, of the shape of `query`, and the weights (N, L, S), means over the heads.
            What is not used is not computed.
        """
        if not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q, k, v = (self._heads(x, part) for part, x in enumerate((query, key, value)))
        mask = self._mask(q, k, key_padding_mask, attn_mask, is_causal)
        causal = is_causal and mask is None
        drop = self.dropout if self.in_training else 0.0
        mixed = functional.scaled_dot_product_attention(q, k, v, mask, drop, causal)
        output = self.out_proj(mixed.transpose(1, 2).flatten(2))
        weights = functional.attention_weights(q, k, mask, causal).mean(1)
        return (output if self.batch_first else output.transpose(0, 1)), weights

    def _heads(self, x: AnyTensor, part: int) -> AnyTensor:
        """Project (N, L, E) by one third of the input weights, to (N, heads, L, width)."""
        rows = slice(part * self.embed_dim, (part + 1) * self.embed_dim)
        bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
        projected = functional.linear(x, self.in_proj_weight[rows], bias)
        width = self.embed_dim // self.num_heads
        return projected.unflatten(-1, (self.num_heads, width)).transpose(1, 2)

    def _mask(
        self,
        query: AnyTensor,
        key: AnyTensor,
        key_padding_mask: AnyTensor | None,
        attn_mask: AnyTensor | None,
        is_causal: bool,
    ) -> AnyTensor | None:
        """Return all masks as one to add to the scores (N, heads, L, S); None for no mask."""
        masks = []
        if attn_mask is not None:
            split = (-1, self.num_heads)
            masks.append(attn_mask.unflatten(0, split) if attn_mask.ndim == 3 else attn_mask)
        if key_padding_mask is not None:
            masks.append(key_padding_mask.unsqueeze(1).unsqueeze(1))
        if is_causal and masks:
            masks.append(~functional.causal_mask(query, key))
        if not masks:
            return None
        added = [_additive(mask, query) for mask in masks]
        return sum(added[1:], start=added[0])

    def describe(self) -> str:
        """Return width, heads and dropout."""
        drop = f", dropout={self.dropout}" if self.dropout else ""
        return f"{self.embed_dim}, {self.num_heads}{drop}"


class TransformerEncoderLayer(Layer[..., AnyTensor]):
    """Self-attention and a perceptron, each added to its input and normalised.

    Parameters and conventions are PyTorch's; `activation` is "relu" or "gelu". Normalisation comes
    before each part with `norm_first`, else after it.

    Source: Vaswani et al., *Attention Is All You Need* (2017).
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        *,
        dtype: DTypeLike = f32,
    ) -> None:
        if activation not in _ACTIVATIONS:
            raise ConfigError(
                f"activation = {activation!r}", hint=f"choose from {', '.join(_ACTIVATIONS)}"
            )
        self.activation = activation
        self.norm_first = norm_first
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, batch_first=batch_first, dtype=dtype
        )
        self.linear1 = Linear(d_model, dim_feedforward, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, dtype=dtype)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)

    def call(
        self,
        x: AnyTensor,
        src_mask: AnyTensor | None = None,
        src_key_padding_mask: AnyTensor | None = None,
        is_causal: bool = False,
    ) -> AnyTensor:
        """Return sequences of the shape of `x`; masks as of `MultiheadAttention`."""

        def attend(x: AnyTensor) -> AnyTensor:
            mixed, _ = self.self_attn(x, x, x, src_key_padding_mask, src_mask, is_causal)
            return self.dropout1(mixed)

        def feed(x: AnyTensor) -> AnyTensor:
            hidden = self.dropout(_ACTIVATIONS[self.activation](self.linear1(x)))
            return self.dropout2(self.linear2(hidden))

        if self.norm_first:
            x = x + attend(self.norm1(x))
            return x + feed(self.norm2(x))
        x = self.norm1(x + attend(x))
        return self.norm2(x + feed(x))

    def describe(self) -> str:
        """Return what the parts do not show."""
        return f"{self.activation!r}, norm_first={self.norm_first}"


_ACTIVATIONS: Mapping[str, Callable[[AnyTensor], AnyTensor]] = MappingProxyType(
    {"relu": AnyTensor.relu, "gelu": AnyTensor.gelu}
)


def _additive(mask: AnyTensor, like: AnyTensor) -> AnyTensor:
    """Return a mask as numbers to add to scores: minus infinity where it is True."""
    if not mask.dtype.is_bool:
        return mask.cast(like.dtype)
    return mask.where(-math.inf, 0.0).cast(like.dtype)
