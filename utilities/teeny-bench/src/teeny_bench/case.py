"""A case of a suite: the same computation twice, with what is needed to judge it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from teeny_core import TeenyError

from teeny_bench.costs import Costs

Arrays: TypeAlias = Sequence[NDArray[Any]]


class MismatchError(TeenyError):
    """Ours and the peer give different values, so timing them would mean nothing."""


@dataclass(frozen=True)
class Sides:
    """The computation, once a call, in teeny and in the peer.

    Attributes:
        ours: runs it in teeny.
        peer: runs it in the peer.
        values: returns what both give, ours first.
        costs: what building them took, ours first; None where it was not measured.
    """

    ours: Callable[[], object]
    peer: Callable[[], object]
    values: Callable[[], tuple[Arrays, Arrays]]
    costs: tuple[Costs, Costs] | None = None


@dataclass(frozen=True)
class Case:
    """A comparison that costs nothing until it is built.

    Attributes:
        name: unique in its suite.
        build: makes the arguments and compiles both sides.
        flops: multiplications and additions of one call; 0 where they do not limit it.
        bytes: bytes that one call must read and write; 0 where they do not limit it.
        tolerance: the largest difference, as a share of the largest magnitude of the peer's values.
    """

    name: str
    build: Callable[[], Sides]
    flops: float = 0.0
    bytes: float = 0.0
    tolerance: float = 1e-4


Suite: TypeAlias = Callable[[str], Iterator[Case]]
"""`suite(peer)` yields its cases."""


def check(case: Case, sides: Sides) -> None:
    """Compare the values of both sides.

    Raises:
        MismatchError: they differ in number, shape, or by more than the tolerance.
    """
    ours, theirs = sides.values()
    if len(ours) != len(theirs):
        raise MismatchError(f"{case.name}: {len(ours)} outputs, and the peer gives {len(theirs)}")
    for index, (got, want) in enumerate(zip(ours, theirs, strict=True)):
        if got.shape != want.shape:
            raise MismatchError(f"{case.name}: output {index} is {got.shape}, not {want.shape}")
        error = difference(got, want)
        if not error <= case.tolerance:
            raise MismatchError(
                f"{case.name}: output {index} differs by {error:.2e} of its largest value",
                hint=f"at most {case.tolerance:.0e} is expected",
            )


def difference(got: NDArray[Any], want: NDArray[Any]) -> float:
    """Return the largest difference, as a share of the largest magnitude in `want`."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    scale = float(np.max(np.abs(want), initial=0.0)) or 1.0
    return float(np.max(np.abs(got - want), initial=0.0)) / scale
