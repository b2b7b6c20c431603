"""A model of recommendation: bags of embeddings that meet in pairs."""

from __future__ import annotations

import itertools

import numpy as np
from teeny_core import AnyTensor, Tensor, concat, nn, stack


class Dlrm(nn.Layer[[AnyTensor, AnyTensor], AnyTensor]):
    """Numbers (N, dense) and bags of categories (N, tables, bag) → logits (N, 1).

    Source: Naumov et al., *Deep learning recommendation model* (2019).
    """

    def __init__(
        self, dense: int, tables: int, rows: int, width: int, hidden: tuple[int, ...]
    ) -> None:
        self.bottom = _perceptron((dense, *hidden, width))
        self.tables = nn.LayerList(nn.EmbeddingBag(rows, width, "sum") for _ in range(tables))
        first, second = np.tril_indices(tables + 1, -1)
        self.pairs = Tensor(first * (tables + 1) + second)
        self.top = _perceptron((width + len(first), *hidden, 1))

    def call(self, numbers: AnyTensor, categories: AnyTensor) -> AnyTensor:
        """Return the logits of a batch."""
        x = self.bottom(numbers).relu()
        bags = [table(categories[:, place]) for place, table in enumerate(self.tables)]
        features = stack([x, *bags], 1)
        products = features.matmul(features, transpose_b=True).flatten(1)
        return self.top(concat([x, products.take(self.pairs, 1)], 1))


def _perceptron(widths: tuple[int, ...]) -> nn.Sequential:
    """Dense layers with ReLU between them."""
    layers = [
        layer
        for width, following in itertools.pairwise(widths)
        for layer in (nn.Linear(width, following), nn.ReLU())
    ]
    return nn.Sequential(*layers[:-1])
