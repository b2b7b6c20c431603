"""Random graphs: what the optimiser and the scheduler make of them means the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.optimise import Policy, explain
from teeny_compiler.testing import Case, random_case
from teeny_core.internal import evaluate_updates


@st.composite
def cases(draw: st.DrawFn) -> Case:
    def pick(items: Sequence[Any]) -> Any:
        return draw(st.sampled_from(list(items)))

    return random_case(pick, draw(st.integers(1, 14)))


@settings(max_examples=60, deadline=None)
@given(cases())
def test_fxgraph_keeps_the_meaning(case: Case) -> None:
    fx = FXGraph.from_graph(case.graph)
    fx.verify()
    same_values(case, case.graph, fx.to_graph(), exact=True)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_exact_rules_keep_every_bit(case: Case) -> None:
    report = explain(FXGraph.from_graph(case.graph), Policy(frozenset(("exact",))))
    assert not report.problem
    report.graph.verify()
    assert report.after <= report.before + 1e-6
    same_values(case, case.graph, report.graph.to_graph(), exact=True)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_fast_rules_keep_the_value(case: Case) -> None:
    policy = Policy(frozenset(("exact", "real", "fast")), frozen=True)
    report = explain(FXGraph.from_graph(case.graph), policy)
    assert not report.problem
    same_values(case, case.graph, report.graph.to_graph(), exact=False)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_parts_make_the_whole(seed: int, frozen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teeny_compiler.optimise.run.MAX_NODES", 4)
    monkeypatch.setattr("teeny_compiler.optimise.run.PART", 3)
    case = random_case(random.Random(seed).choice, 14)
    report = explain(FXGraph.from_graph(case.graph), Policy(frozenset(("exact",)), frozen=frozen))
    assert not report.problem
    report.graph.verify()
    same_values(case, case.graph, report.graph.to_graph(), exact=True)


@pytest.mark.parametrize("seed", range(100))
def test_schedules_compute_the_graph(seed: int, check: Any) -> None:
    case = random_case(random.Random(seed).choice, 4 + seed % 12)
    check(case.graph, case.inputs, case.parameters, rtol=1e-3, atol=1e-4)


def same_values(case: Case, before: Any, after: Any, *, exact: bool) -> None:
    left = evaluate_updates(before, case.inputs, case.parameters)
    right = evaluate_updates(after, case.inputs, case.parameters)
    pairs = [*zip(left[0], right[0], strict=True)]
    pairs += [(left[1][name], right[1][name]) for name in left[1]]
    for a, b in pairs:
        if exact:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
