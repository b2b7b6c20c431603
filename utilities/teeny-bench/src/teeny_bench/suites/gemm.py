"""Square matrix products in the three layouts that training needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from teeny_bench.case import Case, Sides
from teeny_bench.programs import normal, pair

SIZES = (256, 384, 512, 768, 1024, 1152, 1536)

LAYOUTS: Mapping[str, Callable[[Any, Any], Any]] = {
    "NN": lambda a, b: a @ b,
    "NT": lambda a, b: a @ b.transpose(0, 1),
    "TN": lambda a, b: a.transpose(0, 1) @ b,
}


def cases(peer: str) -> Iterator[Case]:
    """Yield n³ products for each size and layout."""
    for size in SIZES:
        for layout in LAYOUTS:
            build = partial(_product, peer, layout, size)
            yield Case(f"{layout} {size}", build, flops=2.0 * size**3)


def _product(peer: str, layout: str, size: int) -> Sides:
    product = LAYOUTS[layout]
    return pair(peer, product, product, normal(0, (size, size), (size, size)))
