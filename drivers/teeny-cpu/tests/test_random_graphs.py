"""Random graphs, run natively, against the reference of each operation."""

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_compiler.testing import Case, random_case
from teeny_core.internal import evaluate_updates


@st.composite
def cases(draw: st.DrawFn) -> Case:
    def pick(items: Sequence[Any]) -> Any:
        return draw(st.sampled_from(list(items)))

    return random_case(pick, draw(st.integers(1, 14)))


@settings(max_examples=200, deadline=None)
@given(cases())
def test_native_programs_mean_what_the_graph_means(case: Case) -> None:
    check(case)


def test_graphs_compile_in_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_CACHE_SIZE", "0")

    def compile_some(number: int) -> None:
        for repeat in range(4):
            check(random_case(random.Random(10 * number + repeat).choice, 8))

    with ThreadPoolExecutor(4) as executor:
        list(executor.map(compile_some, range(4)))


def check(case: Case) -> None:
    parameters = {name: tn.Tensor(value) for name, value in case.parameters.items()}
    found = tn.compile(case.graph, "cpu", parameters)(*case.inputs)
    outputs = found if isinstance(found, tuple) else (found,)
    wanted, updates = evaluate_updates(case.graph, case.inputs, case.parameters)
    for result, expected in zip(outputs, wanted, strict=True):
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)
    for name, value in {**case.parameters, **updates}.items():
        np.testing.assert_allclose(parameters[name].numpy(), value, rtol=1e-3, atol=1e-4)
