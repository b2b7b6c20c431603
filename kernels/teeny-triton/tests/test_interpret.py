"""What the interpreter checks: bounds, aliasing, arguments; and memory of any strides."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_triton import (
    Facts,
    KernelError,
    Ptr,
    build_function,
    constexpr,
    f8e5m2,
    f32,
    i8,
    i32,
    interpret,
    ir,
    kernel,
)


@kernel
def copy(x: Ptr[f32], y: Ptr[f32], n: i32, stride: i32, block: constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i * stride, mask=i < n)
    tl.store(y + i, value, mask=i < n)


def test_reads_outside_are_told_by_name_index_and_line() -> None:
    function = copy.function(block=4)
    line = next(op.location.line for op in function.body.ops if op.opcode == "load")  # type: ignore[union-attr]
    x, y = np.arange(6, dtype=np.float32), np.zeros(8, np.float32)
    interpret(function, (2,), [x, y, 6, 1])
    with pytest.raises(KernelError) as caught:
        interpret(function, (2,), [x, y, 8, 1])
    assert str(caught.value) == (
        f"{__file__}:{line}:13: program (1, 0, 0): load reads x[6], outside its 6 elements\n"
        "    value = tl.load(x + i * stride, mask=i < n)\n"
        "            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "hint: mask the access: tl.load(pointer, mask=offset < n)"
    )
    with pytest.raises(KernelError, match=r"store writes y\[4\], outside its 4 elements"):
        interpret(function, (2,), [x, y[:4].copy(), 6, 1])
    with pytest.raises(KernelError, match=r"load reads x\[-1\], outside its 6 elements"):
        interpret(function, (1,), [x, y, 2, -1])


def test_masked_lanes_touch_nothing() -> None:
    empty = np.zeros(0, np.float32)
    interpret(copy.function(block=4), (3,), [empty, empty.copy(), 0, 1])


@pytest.mark.parametrize("view", [np.s_[::2], np.s_[::-1], np.s_[3:9:3], np.s_[5:1:-2]])
def test_strided_arguments(view: Any) -> None:
    base = np.arange(10, dtype=np.float32)
    x = base[view]
    y = np.zeros_like(x)
    interpret(copy.function(block=4), (3,), [x, y, len(x), x.strides[0] // 4])
    np.testing.assert_array_equal(y, x)
    target = np.zeros(10, np.float32)
    out = target[view]
    flipped = copy.function(block=1)
    interpret(flipped, (1,), [x, out, 1, 1])
    assert out[0] == x[0]
    assert np.count_nonzero(target) == np.count_nonzero(out[:1])


def test_two_dimensional_views() -> None:
    with build_function("k", [("x", Ptr[i32]), ("y", Ptr[i32])]) as f:
        x, y = f.arguments
        i, j = tl.arange(0, 3)[:, None], tl.arange(0, 4)[None, :]
        tl.store(y + i * 4 + j, tl.load(x + i - j * 3))
    base = np.arange(12, dtype=np.int32).reshape(4, 3)
    x, y = base.T[:, ::-1], np.zeros((3, 4), np.int32)
    interpret(f.function, (1,), [x, y])
    np.testing.assert_array_equal(y, x)


def test_strides_that_split_elements_are_refused() -> None:
    bytes_ = np.zeros(21, np.uint8)
    x = np.ndarray((4,), np.float32, buffer=bytes_.data, strides=(5,))
    with pytest.raises(KernelError, match="split elements"):
        interpret(copy.function(block=4), (1,), [x, np.zeros(4, np.float32), 4, 1])


def test_wrong_arguments() -> None:
    function = copy.function(block=4, facts={"n": Facts(divisibility=4)})
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    for arguments, message in [
        ([x, y, 4], "copy takes 4 arguments"),
        ({"x": x, "y": y, "n": 4, "m": 1}, "wrong: m, stride"),
        ([x.astype(np.float64), y, 4, 1], "argument x must be an array of f32, not float64"),
        ([[1.0], y, 4, 1], "argument x must be an array of f32, not list"),
        ([x, y, 4.5, 1], "argument n must be i32, not 4.5"),
        ([x, y, 2**40, 1], "argument n must be i32"),
        ([x, y, "n", 1], "argument n must be i32, not 'n'"),
        ([x, y, 6, 1], "argument n must be a multiple of 4, not 6"),
        ([x, x, 4, 1], "arguments x and y overlap"),
    ]:
        with pytest.raises(KernelError, match=message):
            interpret(function, (1,), arguments)
    with pytest.raises(KernelError, match="a grid has one to three extents"):
        interpret(function, (1, 1, 1, 1), [x, y, 4, 1])
    interpret(function, (1,), {"stride": 1, "n": 4, "y": y, "x": x})


def test_in_place_with_the_promise_withdrawn() -> None:
    facts = {"x": Facts(noalias=False), "y": Facts(noalias=False)}
    x = np.arange(4, dtype=np.float32)
    interpret(copy.function(facts, block=4), (1,), [x, x, 3, 1])
    np.testing.assert_array_equal(x, [0, 1, 2, 3])


def test_scratch_starts_poisoned_and_is_private() -> None:
    with build_function("k", [("y", Ptr[f32]), ("z", Ptr[i8])]) as f:
        y, z = f.arguments
        p = tl.program_id(0)
        reals, whole = tl.scratch(2, f32), tl.scratch(2, i8)
        tl.store(y + p, tl.load(reals + 1))
        tl.store(z + p, tl.load(whole + 1))
        tl.store(reals + 1, 5.0)
    y, z = np.zeros(2, np.float32), np.zeros(2, np.int8)
    interpret(f.function, (2,), [y, z])
    assert np.isnan(y).all()
    assert (z == 127).all()
    with build_function("k", [("y", Ptr[f32])]) as f:
        tl.store(f.arguments[0], tl.load(tl.scratch(2, f32) + 2))
    with pytest.raises(KernelError, match=r"load reads scratch\[2\], outside its 2 elements"):
        interpret(f.function, (1,), [y])


def test_loops_must_step_forwards() -> None:
    with build_function("k", [("y", Ptr[i32]), ("s", i32)]) as f:
        y, s = f.arguments
        with tl.loop(0, 4, s) as (i, _):
            tl.store(y + i, i)
    with pytest.raises(KernelError, match="for steps by 0, not forwards"):
        interpret(f.function, (1,), [np.zeros(4, np.int32), 0])


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.float16, np.bool_])
def test_narrow_memory(dtype: Any) -> None:
    from teeny_core import dtype as as_dtype

    kind = as_dtype(np.dtype(dtype))
    with build_function("k", [("x", Ptr[kind]), ("y", Ptr[kind])]) as f:
        x, y = f.arguments
        i = tl.arange(0, 4)
        tl.store(y + i, tl.load(x + i))
    x = np.array([0, 1, 1.5, -2], np.float32).astype(dtype)
    y = np.zeros_like(x)
    interpret(f.function, (1,), [x, y])
    np.testing.assert_array_equal(y.astype(np.float32), x.astype(np.float32))


def test_duplicate_addresses_take_the_last_lane() -> None:
    with build_function("k", [("y", Ptr[i32])]) as f:
        tl.store(f.arguments[0] + tl.zeros((4,), i32), tl.arange(0, 4))
    y = np.zeros(1, np.int32)
    interpret(f.function, (1,), [y])
    assert y == 3


def test_f8_pointers_have_a_name() -> None:
    assert str(ir.Pointer(f8e5m2)) == "ptr<f8e5m2>"
