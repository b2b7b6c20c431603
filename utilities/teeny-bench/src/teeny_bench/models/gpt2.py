"""The blocks of GPT-2."""

from __future__ import annotations

from teeny_core import AnyTensor, nn


class Gpt2Block(nn.Layer[[AnyTensor], AnyTensor]):
    """Causal attention and a perceptron, each of its input normalised, and added to it."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_out = nn.Linear(4 * width, width)

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return features of the shape of `x`, (N, length, width)."""
        x = x + self._attend(self.ln_1(x))
        return x + self.c_out(self.c_fc(self.ln_2(x)).gelu("tanh"))

    def _attend(self, x: AnyTensor) -> AnyTensor:
        split = (self.heads, x.shape[2] // self.heads)
        parts = self.c_attn(x).chunk(3, -1)
        q, k, v = (part.unflatten(-1, split).transpose(1, 2) for part in parts)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).flatten(2))


class Gpt2Blocks(nn.Layer[[AnyTensor], AnyTensor]):
    """A stack of blocks and the last normalisation: (N, length, width) → the same.

    Source: Radford et al., *Language models are unsupervised multitask learners* (2019); 768
    features in 12 heads are its small model.
    """

    def __init__(self, width: int, depth: int, heads: int) -> None:
        self.h = nn.LayerList(Gpt2Block(width, heads) for _ in range(depth))
        self.ln_f = nn.LayerNorm(width)

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the features after all blocks."""
        for block in self.h:
            x = block(x)
        return self.ln_f(x)
