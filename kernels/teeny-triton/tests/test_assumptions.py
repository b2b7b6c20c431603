"""What kernels assume: believed in native code, checked where they are interpreted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_triton import (
    KernelError,
    Ptr,
    SanitizerError,
    constexpr,
    f32,
    i32,
    i64,
    kernel,
)


@kernel
def copy(x: Ptr[f32], out: Ptr[f32], n: i32, stride: i64, other: i32, FACT: constexpr):
    FACT(n, stride, other)
    i = tl.arange(0, 32)
    tl.store(out + i * other, tl.load(x + i * stride, mask=i < n), mask=i < n)


FACTS: dict[str, Callable[..., Any]] = {
    "nothing": lambda n, stride, other: None,
    "one": lambda n, stride, other: tl.assume(stride == 1),
    "both": lambda n, stride, other: tl.assume((stride == 1) & (other == 1)),
    "positive": lambda n, stride, other: tl.assume(n > 0),
}


@pytest.mark.parametrize(("fact", "products"), [("nothing", 2), ("one", 1), ("both", 0)])
def test_a_stride_that_is_one_multiplies_nothing(fact: str, products: int) -> None:
    text = str(copy.function(FACT=FACTS[fact]))
    assert text.count("= mul ") == products


def test_neighbours_are_loaded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("teeny_cpu")
    monkeypatch.setenv("TEENY_DEVICE", "cpu")
    assert "gather" in copy.emit("llvm", FACT=FACTS["nothing"])
    assert "gather" not in copy.emit("llvm", FACT=FACTS["both"])


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("fact", FACTS)
def test_what_is_assumed_holds(fact: str) -> None:
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    copy[(1,)](x, out, 20, 1, 1, FACT=FACTS[fact])
    np.testing.assert_array_equal(out, np.where(x < 20, x, 0))


@pytest.mark.parametrize(
    ("variable", "error"),
    [("TEENY_INTERPRET", KernelError), ("TEENY_SANITIZE", SanitizerError)],
)
def test_what_is_assumed_is_checked(
    variable: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    for fact, numbers in (("one", (2, 1)), ("both", (1, 2)), ("both", (2, 1))):
        with pytest.raises(error, match="what is assumed does not hold"):
            copy[(1,)](x, out, 20, *numbers, FACT=FACTS[fact])
    copy[(1,)](x, out, 20, 2, 1, FACT=FACTS["nothing"])
    np.testing.assert_array_equal(out[:20], x[:40:2])


@kernel
def branching(x: Ptr[f32], n: i32, zero: f32):
    if n > 3:
        tl.assume(n == 5)
    tl.assume(zero == 0.0)
    tl.store(x, n + 1 / zero)


@pytest.mark.usefixtures("mode")
def test_in_a_branch_and_of_floats_nothing_is_concluded() -> None:
    x = np.zeros(1, np.float32)
    branching[(1,)](x, 2, -0.0)
    assert x[0] == -np.inf


def test_a_later_test_of_what_is_assumed_is_decided() -> None:
    @kernel
    def k(x: Ptr[f32], n: i32):
        tl.assume(n == 4)
        if n == 4:
            tl.store(x, n)

    assert " if " not in str(k.function())
    assert "const {value = 4.0}" in str(k.function())


def test_what_is_known_to_be_false_is_refused() -> None:
    @kernel
    def k(x: Ptr[f32], n: i32):
        tl.assume(n == 4)
        tl.assume(n == 3)

    with pytest.raises(KernelError, match="the assumption is false"):
        k.function()
