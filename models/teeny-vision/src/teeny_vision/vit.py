"""Vision transformer."""

from __future__ import annotations

import numpy as np
from teeny_core import AnyTensor, concat, nn


class VisionTransformer(nn.Layer[[AnyTensor], AnyTensor]):
    """A transformer over patches: images (N, 3, side, side) → logits (N, classes).

    The sizes unless given are those of ViT-tiny.

    Source: Dosovitskiy et al., *An image is worth 16x16 words* (2021), and for the size Touvron et
    al., *Training data-efficient image transformers* (2021).

    Raises:
        ShapeError: the heads do not divide the width.
    """

    def __init__(
        self,
        classes: int = 1000,
        side: int = 224,
        patch: int = 16,
        width: int = 192,
        depth: int = 12,
        heads: int = 3,
    ) -> None:
        tokens = (side // patch) ** 2 + 1
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(np.zeros((1, 1, width), np.float32))
        self.positions = nn.Parameter(nn.init.normal((1, tokens, width), 0.0, 0.02))
        self.blocks = nn.LayerList(
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the logits of a batch of images."""
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        first = self.class_token.expand(x.shape[0], 1, tokens.shape[2])
        x = concat([first, tokens], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))
