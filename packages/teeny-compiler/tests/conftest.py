"""What the tests of the compiler share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.schedule import Schedule, make_schedule
from teeny_compiler.schedule.run import run_schedule
from teeny_core import Graph
from teeny_core.internal import evaluate_updates
from teeny_core.shape import bind
from teeny_triton import Target

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Check: TypeAlias = Callable[..., Schedule]

SMALL = Target("x86_64-unknown-linux-gnu", "", frozenset(), 128, 16)
"""A machine with short vectors, so that small shapes have full and part tiles."""


@pytest.fixture
def check() -> Check:
    """Schedule a graph, run it by the interpreter, and compare it with the graph's meaning."""
    return check_graph


def check_graph(
    graph: Graph,
    inputs: Sequence[Array],
    parameters: Mapping[str, Array] | None = None,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    target: Target = SMALL,
) -> Schedule:
    """Raise AssertionError unless outputs and updated parameters are those of the evaluator."""
    given = dict(parameters or {})
    fx = FXGraph.from_graph(graph)
    fx.verify()
    schedule = make_schedule(fx, target, templates=())
    schedule.verify()
    sizes = bind((n.shape, a.shape) for n, a in zip(graph.inputs, inputs, strict=True))
    outputs, updates = evaluate_updates(graph, inputs, given)
    mine = {name: np.array(value, order="C") for name, value in given.items()}
    contiguous = [np.ascontiguousarray(a).reshape(a.shape) for a in inputs]
    results = run_schedule(schedule, contiguous, mine, sizes)
    for result, wanted in zip(results, outputs, strict=True):
        _same(result, wanted, rtol, atol)
    for name, wanted in {**given, **updates}.items():
        _same(mine[name], wanted, rtol, atol)
    return schedule


def _same(result: Array, wanted: Array, rtol: float, atol: float) -> None:
    assert result.shape == wanted.shape
    assert result.dtype == wanted.dtype
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(result, wanted)
    else:
        wide = np.float64
        np.testing.assert_allclose(result.astype(wide), wanted.astype(wide), rtol=rtol, atol=atol)
