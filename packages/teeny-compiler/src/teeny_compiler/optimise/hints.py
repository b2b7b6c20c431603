"""What rules that recognise attention ask of constants, and cannot compute themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from teeny_core import bool_
from teeny_core.op import Array

from teeny_compiler.fxgraph import FXGraph

MANY = 32
"""With more factors than these only products of equal ones are known."""


def factors(graph: FXGraph) -> list[float]:
    """Return the finite numbers by which a graph may multiply or divide, 1 among them."""
    found: dict[float, None] = {1.0: None}
    for node in graph.nodes:
        if node.op != "constant" or not node.dtype.is_float:
            continue
        value = node.attrs["value"]
        if math.isfinite(value) and value:
            found.setdefault(value)
            found.setdefault(1 / value)
    return list(found)


def products(values: list[float]) -> Iterator[tuple[float, float, float]]:
    """Yield (a, b, a·b) of factors, and each of these products times 1."""
    found = {(a, b): a * b for a in values for b in values if a == b or len(values) <= MANY}
    for number in (*values, *found.values()):
        found[number, 1.0] = found[1.0, number] = number
    yield from ((a, b, product) for (a, b), product in found.items() if math.isfinite(product))


def triangle(array: Array) -> str | None:
    """Return the relation that holds for a literal mask of attention, if any does.

    A bool one is `causal` or `above` the diagonal; one of numbers `hides_above` it.
    """
    if array.ndim < 2 or array.size == 0:
        return None
    seen = np.tri(*array.shape[-2:], dtype=bool_.numpy)
    if array.dtype == bool:
        if (array == seen).all():
            return "causal"
        return "above" if (array != seen).all() else None
    is_mask = array.dtype.kind == "f" and (array == np.where(seen, 0.0, -np.inf)).all()
    return "hides_above" if is_mask else None
