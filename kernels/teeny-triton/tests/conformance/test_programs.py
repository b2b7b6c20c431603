"""Random kernels, and one with everything: compiled code leaves what the interpreter leaves."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import teeny_triton as triton
import teeny_triton.language as tl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from teeny_core import f16, f32, f64, i8, i32, i64

from .harness import interpreting
from .programs import STEPS, Machine, Plan

pytest.importorskip("teeny_cpu")

MORE = os.environ.get("TEENY_RANDOM_KERNELS")
EXAMPLES = int(MORE or "60")
PROGRAMS = 2

extents = st.sampled_from([1, 2, 3, 5, 8, 13, 16, 32, 33, 64])
numbers = st.integers(0, 11)
plans = st.builds(
    Plan,
    extents,
    extents,
    st.sampled_from([f32, i32, i8, i64, f16, f64]),
    st.lists(st.tuples(st.integers(0, len(STEPS) - 1), numbers, numbers, numbers), min_size=1,
             max_size=8).map(tuple),
)  # fmt: skip


@pytest.fixture(autouse=True)
def native(monkeypatch: pytest.MonkeyPatch, code_cache: str) -> None:
    monkeypatch.setenv("TEENY_DEVICE", "cpu")
    monkeypatch.setenv("TEENY_CACHE_DIR", code_cache)


@triton.jit
def run(inputs, outputs, BODY: tl.constexpr):
    BODY(inputs, outputs)


def results(plan: Plan) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    shape = plan.rows, plan.columns
    inputs = tuple(rng.integers(-8, 9, shape).astype(plan.dtype.numpy) for _ in range(2))
    outputs = tuple(np.zeros((PROGRAMS, *shape), plan.dtype.numpy) for _ in range(3))

    def body(inputs: Any, outputs: Any) -> None:
        machine = Machine(plan, inputs)
        first = tl.program_id(0) * (plan.rows * plan.columns)
        for pointer, value in zip(outputs, machine.run(), strict=True):
            tl.store(pointer + first + machine.index, value)

    run[(PROGRAMS,)](inputs, outputs, BODY=body)
    return outputs


def check(plan: Plan) -> None:
    with interpreting(True):
        wanted = results(plan)
    with interpreting(False):
        found = results(plan)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


@given(plan=plans)
@settings(
    max_examples=EXAMPLES,
    derandomize=MORE is None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_random_kernels(plan: Plan) -> None:
    """The same every time, unless `TEENY_RANDOM_KERNELS` says how many new ones to draw."""
    check(plan)


@pytest.mark.parametrize("shape", [(5, 13), (32, 16)])
@pytest.mark.parametrize("dtype", [f32, i32], ids=str)
def test_a_kernel_with_everything(dtype: Any, shape: tuple[int, int]) -> None:
    steps = tuple((what, what + 1, 2 * what, what % 5) for what in range(len(STEPS)))
    check(Plan(*shape, dtype, steps))


# Random kernels that compiled code once got wrong, made as small as they can be.
FOUND = {
    "the maximum of a column is reduced again": Plan(33, 1, i8, ((2, 0, 8, 7), (8, 10, 5, 6))),
    "a mask runs over both axes of a factor": Plan(
        32,
        64,
        i8,
        ((9, 4, 4, 10), (9, 5, 5, 0), (9, 11, 3, 1), (10, 0, 9, 8), (6, 9, 6, 1)),
    ),
}


@pytest.mark.parametrize("plan", FOUND.values(), ids=FOUND.keys())
def test_kernels_that_were_wrong(plan: Plan) -> None:
    check(plan)
