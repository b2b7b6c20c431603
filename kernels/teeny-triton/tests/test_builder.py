"""Folding, type checks, control flow from plain Python, and the clean-up passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_core import bf16, bool_, f16, f32, i8, i32, i64, u8
from teeny_triton import (
    Facts,
    KernelError,
    Ptr,
    Tile,
    build_function,
    for_,
    if_,
    interpret,
    ir,
    loop,
    verify,
    while_,
    yield_,
)
from teeny_triton.builder import current


def opcodes(function: ir.Function) -> list[str]:
    return [op.opcode for op in ir.walk(function.body)]


def stored(body: Callable[[Tile], Any], dtype: Any = f32) -> list[str]:
    """The opcodes that computing on one loaded scalar takes, without the load and the store."""
    with build_function("k", [("x", Ptr[dtype]), ("y", Ptr[f32])]) as f:
        x, y = f.arguments
        tl.store(y, tl.cast(body(tl.load(x)), f32))
    return [opcode for opcode in opcodes(f.function) if opcode not in ("load", "store", "cast")]


@pytest.mark.parametrize(
    "identity",
    [
        lambda x: x - 0.0,
        lambda x: x * 1,
        lambda x: 1.0 * x,
        lambda x: x / 1,
        lambda x: x + -0.0,
        lambda x: tl.where(True, x, 0),
        lambda x: x.to(f32),
    ],
)
def test_float_identities_vanish(identity: Callable[[Tile], Tile]) -> None:
    assert stored(identity) == []


@pytest.mark.parametrize(
    "no_identity", [lambda x: x + 0.0, lambda x: x * 0, lambda x: x - x, lambda x: x / x]
)
def test_float_non_identities_stay(no_identity: Callable[[Tile], Tile]) -> None:
    assert set(stored(no_identity)) & {"add", "mul", "sub", "div"}


@pytest.mark.parametrize(
    "identity",
    [
        lambda x: x + 0,
        lambda x: 0 + x,
        lambda x: x - 0,
        lambda x: x * 1,
        lambda x: x // 1,
        lambda x: x | 0,
        lambda x: x ^ 0,
        lambda x: x << 0,
        lambda x: x >> 0,
    ],
)
@pytest.mark.parametrize("dtype", [i32, u8], ids=str)
def test_integer_identities_vanish(identity: Callable[[Tile], Tile], dtype: Any) -> None:
    assert stored(identity, dtype) == []


def test_all_ones_depend_on_the_type() -> None:
    assert stored(lambda x: x & 255, u8) == []
    assert stored(lambda x: x & -1, i32) == []
    assert stored(lambda x: x & 255, i32) == ["const", "and"]
    assert stored(lambda x: x & True, bool_) == []


@pytest.mark.parametrize(
    ("body", "value"), [(lambda x: x * 0, 0), (lambda x: x & 0, 0), (lambda x: x % 1, 0)]
)
def test_integer_absorption(body: Callable[[Tile], Tile], value: int) -> None:
    assert stored(body, i32) == ["const"]


def test_constants_fold_exactly() -> None:
    with build_function("k", [("x", Ptr[f32])]):
        builder = current()

        def known(tile: Tile) -> Any:
            return builder.constant_of(tile.value)

        seven = tl.full((), 7, i32)
        assert known(seven * 3 - 1) == 20
        assert known(seven // -2) == -4
        assert known(seven % -2) == -1
        assert known(tl.full((), 2**31 - 1, i32) + 1) == -(2**31)
        assert known(tl.full((), 0.1, f32)) == float(np.float32(0.1))
        assert known(tl.full((), 1, f16) / 3) == float(np.float32(1) / np.float32(3))
        assert known(tl.full((), 1e20, f32).to(i32)) == 2**31 - 1
        assert known(tl.full((4, 4), 2, bf16) * 3 > 5) is True
        assert known((tl.zeros((4,), i32)[:, None] + 5).to(i64)) == 5
        assert known(tl.sqrt(tl.full((), 2.0, f32))) == float(np.sqrt(np.float32(2)))
        assert known(tl.exp(tl.full((), 1.0, f32))) is None  # left to the machine
        assert known(tl.full((), -1, i8).to(u8)) == 255


def test_work_on_splats_is_lifted() -> None:
    with build_function("k", [("y", Ptr[i32]), ("n", i32), ("m", i32)]) as f:
        y, n, m = f.arguments
        ones = tl.zeros((8,), i32) + n
        tl.store(y + tl.arange(0, 8), (ones * m)[None, :].reshape(8))
    (product,) = (op for op in ir.walk(f.function.body) if op.opcode == "mul")
    assert product.result.type.shape == ()


def test_builder_refuses_wrong_types() -> None:
    with build_function("k", [("x", Ptr[f32]), ("n", i32)]) as f:
        x, n = (tile.value for tile in f.arguments)
        for opcode, operands, message in [
            ("add", (x, n), "the two differ in type"),
            ("exp", (n,), "takes float elements"),
            ("load", (n,), "takes a pointer first"),
            ("store", (x, n), "the value must be f32"),
            ("nonsense", (), "unknown opcode"),
        ]:
            with pytest.raises(KernelError, match=message):
                current().op(opcode, *operands)


def test_no_builder_is_an_error() -> None:
    with pytest.raises(KernelError, match="no kernel is being built"):
        tl.arange(0, 4)


def test_function_is_available_after_the_block() -> None:
    with build_function("k", []) as f, pytest.raises(KernelError, match="not finished"):
        _ = f.function
    assert f.function.name == "k"


def test_facts_and_written_pointers() -> None:
    specs = [("x", Ptr[f32], Facts(64, 1, False)), ("y", Ptr[f32]), ("n", i32, Facts(0, 16))]
    with build_function("k", specs) as f:
        x, y, _ = f.arguments
        tl.store(y, tl.load(x))
    x, y, n = f.function.parameters
    assert (x.alignment, x.noalias, x.written) == (64, False, False)
    assert (y.written, n.divisibility) == (True, 16)


def test_written_follows_carried_and_chosen_pointers() -> None:
    specs = [("a", Ptr[f32]), ("b", Ptr[f32]), ("c", Ptr[f32]), ("n", i32)]
    with build_function("k", specs) as f:
        a, b, c, n = f.arguments
        p, q = for_(0, n, 1, (a, b), lambda i, p, q: (q, p))
        (r,) = if_(n > 3, lambda: p, lambda: c)
        tl.store(r, tl.load(q))
    assert [p.written for p in f.function.parameters] == [True, True, True, False]


# --- control flow ---


def test_for_and_loop_agree() -> None:
    def build(body: Callable[..., Tile]) -> np.ndarray:
        with build_function("k", [("y", Ptr[i64]), ("n", i32)]) as f:
            y, n = f.arguments
            tl.store(y, body(n))
        out = np.zeros(1, np.int64)
        interpret(verify(f.function), (1,), [out, 10])
        return out

    def functional(n: Tile) -> Tile:
        (total,) = for_(0, n, 3, (tl.full((), 0, i64),), lambda i, total: total + i)
        return total

    def imperative(n: Tile) -> Tile:
        with (counted := loop(0, n, 3, [tl.full((), 0, i64)])) as (i, (total,)):
            yield_(total + i)
        return counted.results[0]

    assert build(functional) == build(imperative) == 18


def test_while_and_if() -> None:
    with build_function("collatz", [("y", Ptr[i32])]) as f:
        (y,) = f.arguments

        def step(x: Tile, n: Tile) -> tuple[Tile, Tile]:
            (following,) = if_(x % 2 == 0, lambda: x // 2, lambda: 3 * x + 1)
            return following, n + 1

        _, steps = while_((tl.load(y), 0), lambda x, n: x != 1, step)
        tl.store(y, steps)
    out = np.int32([27])
    interpret(verify(f.function), (1,), [out])
    assert out == 111


def test_if_without_values_has_effects() -> None:
    with build_function("k", [("y", Ptr[i32]), ("n", i32)]) as f:
        y, n = f.arguments
        assert if_(n > 0, lambda: tl.store(y, n)) == ()
    for n, expected in ((3, 3), (-3, 0)):
        out = np.zeros(1, np.int32)
        interpret(verify(f.function), (1,), [out, n])
        assert out == expected


def test_bounds_widen_together() -> None:
    with build_function("k", [("y", Ptr[i64]), ("n", i64)]) as f:
        y, n = f.arguments
        (last,) = for_(0, n, 1, (n,), lambda i, last: i)
        tl.store(y, last)
    (counted,) = (op for op in f.function.body.ops if op.opcode == "for")
    assert {str(x.type) for x in counted.operands[:3]} == {"i64"}


def test_regions_check_what_they_yield() -> None:
    with build_function("k", [("x", f32), ("n", i32)]) as f:
        x, n = f.arguments
        with pytest.raises(KernelError, match="gives 2 values instead of 1"):
            for_(0, n, 1, (x,), lambda i, x: (x, x))
        with pytest.raises(KernelError, match="gives i32 where f32 is carried"):
            for_(0, n, 1, (x,), lambda i, x: i)
        with pytest.raises(KernelError, match="the branches give f32 and i32"):
            if_(n > 0, lambda: x, lambda: n)
        with pytest.raises(KernelError, match="ends without yield_"), loop(0, n, 1, [x]):
            pass
        with (
            pytest.raises(KernelError, match=r"carries \(f32\) but yields \(i32\)"),
            loop(0, n, 1, [x]) as (i, _),
        ):
            yield_(i)
        with pytest.raises(KernelError, match="must be scalars"):
            loop(0, tl.arange(0, 2))


# --- clean-up ---


def test_dead_code_goes() -> None:
    with build_function("k", [("x", Ptr[f32]), ("n", i32)]) as f:
        x, n = f.arguments
        tl.exp(tl.load(x))
        for_(0, n, 1, (tl.load(x),), lambda i, a: a + 1)
        if_(n > 0, lambda: tl.load(x), lambda: 0.0)
        tl.store(x, 1.0)
    assert opcodes(f.function) == ["const", "store"]


def test_carried_values_without_a_use_go() -> None:
    with build_function("k", [("x", Ptr[f32]), ("n", i32)]) as f:
        x, n = f.arguments
        start = tl.load(x)
        a, *_ = for_(
            0, n, 1, (start, start, start, start), lambda i, a, b, c, d: (a + b, b, a, d * 2)
        )
        tl.store(x, a)
    (counted,) = (op for op in f.function.body.ops if op.opcode == "for")
    assert len(counted.results) == 1  # b never changes, c and d feed nothing
    out = np.float32([2])
    interpret(verify(f.function), (1,), [out, 5])
    assert out == 12


def test_values_that_nested_loops_hand_on_are_not_carried() -> None:
    with build_function("k", [("x", Ptr[f32]), ("n", i32)]) as f:
        x, n = f.arguments

        def outer(i: Tile, a: Tile, total: Tile) -> Any:
            return for_(0, n, 1, (a, total), lambda j, a, total: (a, total + a))

        _, total = for_(0, n, 1, (tl.load(x), 0.0), outer)
        tl.store(x, total)
    loops = [op for op in ir.walk(f.function.body) if op.opcode == "for"]
    assert [len(op.results) for op in loops] == [1, 1]
    out = np.float32([2])
    interpret(verify(f.function), (1,), [out, 3])
    assert out == 18


def test_chains_of_carried_values_stay() -> None:
    with build_function("fibonacci", [("y", Ptr[i32])]) as f:
        (y,) = f.arguments
        a, _ = for_(0, 10, 1, (0, 1), lambda i, a, b: (b, a + b))
        tl.store(y, a)
    out = np.zeros(1, np.int32)
    interpret(verify(f.function), (1,), [out])
    assert out == 55


def test_loops_with_effects_stay() -> None:
    with build_function("k", [("y", Ptr[i32]), ("n", i32)]) as f:
        y, n = f.arguments
        for_(0, n, 1, (), lambda i: tl.store(y + i, i))
    out = np.zeros(4, np.int32)
    interpret(verify(f.function), (1,), [out, 4])
    np.testing.assert_array_equal(out, [0, 1, 2, 3])
