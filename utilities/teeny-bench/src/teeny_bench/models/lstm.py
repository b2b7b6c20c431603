"""A recurrent classifier."""

from __future__ import annotations

from teeny_core import AnyTensor, nn


class LstmClassifier(nn.Layer[[AnyTensor], AnyTensor]):
    """The class of a sequence by its last state: (N, length, inputs) → logits (N, classes)."""

    def __init__(self, inputs: int, hidden: int, classes: int) -> None:
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the logits of a batch of sequences."""
        outputs, _ = self.lstm(x)
        return self.head(outputs[:, -1])
