from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def modes(mode: str) -> None:
    """Run every test interpreted and native, on the same numbers."""
    pytest.importorskip("torch").manual_seed(0)
