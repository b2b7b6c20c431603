"""`tl.standard`, where kernels written for Triton find functions composed of others, too."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from teeny_triton.language import core

    return getattr(core, name)
