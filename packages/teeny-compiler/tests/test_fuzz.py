"""Random graphs, compiled for this machine, with their gradients, against float64.

A few in every run; more by a profile of hypothesis, which shrinks what it finds:

    pytest packages/teeny-compiler/tests/test_fuzz.py --hypothesis-profile=ci        # 300
    pytest packages/teeny-compiler/tests/test_fuzz.py --hypothesis-profile=nightly   # 2,000
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from teeny_compiler.fuzz import check_case, widened, with_gradients
from teeny_compiler.internal import host_target
from teeny_compiler.schedule import inplace
from teeny_compiler.testing import Case, random_case
from teeny_core import Graph, f32, f64, ops

GRAPHS = {"ci": 300, "nightly": 2000}.get(settings.get_current_profile_name(), 5)
ALL = settings(max_examples=GRAPHS, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    def pick(items: Sequence[Any]) -> Any:
        return draw(st.sampled_from(list(items)))

    return with_gradients(random_case(pick, draw(st.integers(1, 12))))


@ALL
@given(cases(), st.sampled_from([0, inplace.LEAST_BYTES]))
def test_programs_compute_the_graph(case: Case, least: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inplace, "LEAST_BYTES", least)
        check_case(case, "cpu")


def case_of(scale: float) -> Case:
    x, index = ops.input("x", (3,), f32), ops.input("i", (1,), f32)
    graph = Graph("scaled", (x, index), (), (ops.mul(x, ops.full((3,), scale, f32)),))
    return Case(graph, (np.ones(3, np.float32), np.zeros(1, np.float32)), {})


def test_what_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = case_of(2.0), case_of(2.01)
    check_case(right, "ndarray")
    monkeypatch.setattr("teeny_compiler.fuzz.widened", lambda graph: widened(right.graph))
    with pytest.raises(AssertionError, match="value 0 differs"):
        check_case(wrong, "ndarray")


def test_the_reference_is_wide() -> None:
    graph = widened(with_gradients(case_of(2.0)).graph)
    graph.verify()
    assert {node.dtype for node in graph.nodes} == {f64}
    assert len(graph.outputs) == 3


def test_a_value_that_a_later_phase_needs_first(check: Any) -> None:
    """A softmax with its gradient: a value of the first phase is first needed in the third."""
    case = with_gradients(random_case(random.Random(1164).choice, 3))
    arguments = case.graph, case.inputs, case.parameters
    check(*arguments, rtol=1e-3, atol=1e-4, target=host_target())
