"""Where compiled kernels and what tuning chose are kept."""

from __future__ import annotations

from teeny_core import config

from teeny_triton.choices import clear as clear


def default_cache_dir() -> str:
    """Return the folder that TEENY_CACHE_DIR names."""
    return str(config.get().cache_dir)
