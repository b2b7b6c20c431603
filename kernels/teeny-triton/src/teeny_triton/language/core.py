"""`tl.core`, where kernels written for Triton find the names of the language too."""

from __future__ import annotations

from typing import Any

from teeny_triton.language.aggregate import refuse as _aggregate  # noqa: F401 - Triton's name


def __getattr__(name: str) -> Any:
    import teeny_triton.language as tl

    try:
        return getattr(tl, name)
    except AttributeError as error:
        raise AttributeError(f"the language has no {name!r}") from error
