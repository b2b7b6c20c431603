"""Models of sequences and of tables, in PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn


class LstmClassifier(nn.Module):  # type: ignore[misc]
    """The twin of `teeny_bench.models.LstmClassifier`."""

    def __init__(self, inputs: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Any) -> Any:
        """Return the logits."""
        outputs, _ = self.lstm(x)
        return self.head(outputs[:, -1])


def _perceptron(*widths: int) -> Any:
    layers: list[Any] = []
    for width, following in itertools.pairwise(widths):
        layers += [nn.Linear(width, following), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Dlrm(nn.Module):  # type: ignore[misc]
    """The twin of `teeny_bench.models.Dlrm`."""

    def __init__(
        self, dense: int, tables: int, rows: int, width: int, hidden: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.bottom = _perceptron(dense, *hidden, width)
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        rows_of, columns_of = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("rows_of", rows_of, persistent=False)
        self.register_buffer("columns_of", columns_of, persistent=False)
        self.top = _perceptron(width + len(rows_of), *hidden, 1)

    def forward(self, numbers: Any, categories: Any) -> Any:
        """Return the logits."""
        x = self.bottom(numbers).relu()
        bags = [table(categories[:, place]) for place, table in enumerate(self.tables)]
        features = torch.stack([x, *bags], 1)
        products = features @ features.mT
        return self.top(torch.cat([x, products[:, self.rows_of, self.columns_of]], 1))
