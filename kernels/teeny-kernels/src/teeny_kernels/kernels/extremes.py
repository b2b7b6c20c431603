"""The larger of two numbers as PyTorch has it."""

from __future__ import annotations

from typing import Any

import teeny_triton.language as tl


def larger(a: Any, b: Any) -> Any:
    """Return the larger of the two, NaN where either is: `tl.maximum` alone would drop it."""
    return tl.maximum(a, b, tl.PropagateNan.ALL)
