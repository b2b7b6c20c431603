"""What tests of kernels in the style of public Triton code share; without PyTorch they skip."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")


def close(actual: Any, expected: Any, tolerance: float = 2e-5) -> None:
    """Compare in f64; the tolerance is that of a sum of some hundred products in f32."""
    torch.testing.assert_close(actual.double(), expected.double(), atol=tolerance, rtol=tolerance)
