"""Square matrix products in the three layouts that training needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from teeny_bench.case import Case
from teeny_bench.peers import compiled
from teeny_bench.programs import outputs, pair

SIZES = (256, 384, 512, 768, 1024, 1152, 1536)

LAYOUTS: dict[str, Callable[[Any, Any], Any]] = {
    "NN": lambda a, b: a @ b,
    "NT": lambda a, b: a @ b.transpose(0, 1),
    "TN": lambda a, b: a.transpose(0, 1) @ b,
}


def gemm(peer: str, threads: int) -> Iterator[Case]:
    """Yield n³ products for each size and layout."""
    rng = np.random.default_rng(0)
    for size in SIZES:
        arrays = [rng.standard_normal((size, size), np.float32) for _ in range(2)]
        for layout, product in LAYOUTS.items():
            ours, theirs = pair(product, compiled(peer, product), arrays)
            yield Case(
                f"{layout} {size}",
                ours,
                theirs,
                lambda ours=ours, theirs=theirs: (outputs(ours()), outputs(theirs())),
                flops=2.0 * size**3,
                tolerance=1e-4,
            )
