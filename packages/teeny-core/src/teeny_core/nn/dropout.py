"""Dropout."""

from __future__ import annotations

from teeny_core.errors import OpError
from teeny_core.nn import functional
from teeny_core.nn.layer import Layer
from teeny_core.tensor import AnyTensor


class Dropout(Layer[[AnyTensor], AnyTensor]):
    """In training, replace a share `p` of the elements by 0 and divide the others by 1 - p.

    Source: Srivastava et al., *Dropout* (2014).
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0.0 <= p <= 1.0:
            raise OpError(f"Dropout: p = {p}", hint="give a share from 0 to 1")
        self.p = p

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return `x` with other elements dropped at every step."""
        return functional.dropout(x, self.p, self.in_training)

    def describe(self) -> str:
        """Return the share."""
        return str(self.p)
