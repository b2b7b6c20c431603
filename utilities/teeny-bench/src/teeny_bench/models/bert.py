"""An encoder as BERT has it."""

from __future__ import annotations

from teeny_core import AnyTensor, nn


class BertEncoder(nn.Layer[[AnyTensor], AnyTensor]):
    """Tokens (N, length) → features (N, length, width), each seeing all others.

    Source: Devlin et al., *BERT: Pre-training of deep bidirectional transformers* (2019); 4 layers
    of 256 features in 4 heads are BERT-mini of Turc et al., *Well-read students learn better*
    (2019).
    """

    def __init__(self, vocabulary: int, length: int, width: int, depth: int, heads: int) -> None:
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(nn.init.normal((length, width)))
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.LayerList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True)
            for _ in range(depth)
        )

    def call(self, tokens: AnyTensor) -> AnyTensor:
        """Return the features of each token."""
        x = self.norm(self.tokens(tokens) + self.positions)
        for block in self.blocks:
            x = block(x)
        return x
