"""A case of a suite: the same computation twice, with what is needed to judge it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from teeny_core import TeenyError


class MismatchError(TeenyError):
    """Ours and the peer give different values, so timing them would mean nothing."""


@dataclass(frozen=True)
class Case:
    """`ours` and `peer` compute the same; `flops` and `bytes` count one call (0: not known).

    `values` returns the arrays to compare, ours first. `tolerance` is relative to the largest
    magnitude of the peer's values.
    """

    name: str
    ours: Callable[[], object]
    peer: Callable[[], object]
    values: Callable[[], tuple[list[np.ndarray], list[np.ndarray]]]
    flops: float = 0.0
    bytes: float = 0.0
    tolerance: float = 1e-4


Suite = Callable[[str, int], Iterator[Case]]
"""`suite(peer, threads)` yields its cases, one at a time so that memory stays small."""


def check(case: Case) -> None:
    """Raise MismatchError unless both sides of `case` agree."""
    ours, theirs = case.values()
    for index, (got, want) in enumerate(zip(ours, theirs, strict=True)):
        if got.shape != want.shape:
            raise MismatchError(f"{case.name}: output {index} is {got.shape}, not {want.shape}")
        scale = float(np.max(np.abs(want), initial=0.0)) or 1.0
        error = float(np.max(np.abs(got.astype(np.float64) - want), initial=0.0)) / scale
        if not error <= case.tolerance:
            raise MismatchError(
                f"{case.name}: output {index} differs by {error:.2e} of its largest value",
                hint=f"at most {case.tolerance:.0e} is expected",
            )
