"""Functions that draw random numbers."""

from __future__ import annotations

from teeny_core import random
from teeny_core.errors import OpError
from teeny_core.tensor import AnyTensor


def dropout(x: AnyTensor, p: float = 0.5, training: bool = True) -> AnyTensor:
    """Return `x` with a share `p` of its elements 0 and the others divided by 1 - p.

    Nothing is dropped unless `training`.

    Raises:
        OpError: `p` is no share.
    """
    if not 0.0 <= p <= 1.0:
        raise OpError(f"dropout: p = {p}", hint="give a share from 0 to 1")
    if not training or p == 0:
        return x
    kept = random.bernoulli(x.shape, 1 - p)
    scale = 1 / (1 - p) if p < 1 else 0.0
    return kept.where(x * scale, 0.0)
