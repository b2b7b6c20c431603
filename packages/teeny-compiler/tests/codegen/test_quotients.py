"""Layouts of blocks: `i // 32 * stride + i % 32` is read by whole vectors, and rightly."""

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_core import f32, i32
from teeny_triton import Ptr, constexpr, interpret, kernel


@kernel
def tiles(x, o, n, stride, B: constexpr, D: constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i // D * stride + i % D, mask=i < n)
    tl.store(o + i, v * (i % D) + i // D, mask=i < n)


@kernel
def shifted(x, o, n, stride, B: constexpr, D: constexpr):
    """The same by shifts and masks of bits, along a loop that starts below zero."""
    for k in range(-B, n, B):
        i = k + tl.arange(0, B)
        v = tl.load(x + (i >> D) * stride + (i & ((1 << D) - 1)), mask=(i >= 0) & (i < n))
        tl.store(o + i, v * ((1 << D) - 1 & i) + (i >> D), mask=(i >= 0) & (i < n))


@kernel
def signed(o, n, B: constexpr, D: constexpr):
    for k in range(-n, n, B):
        i = k + tl.arange(0, B)
        tl.store(o + n + i, i // D * 1000 + i % D)


def compiled_for(body, block, divisor):
    return body.function(x=Ptr[f32], o=Ptr[f32], n=i32, stride=i32, B=block, D=divisor)


def whole_numbers(*shape):
    return np.random.default_rng(0).integers(-99, 100, shape).astype(np.float32)


@pytest.mark.parametrize(("block", "divisor"), [(32, 32), (512, 32), (512, 96), (96, 48), (64, 7)])
def test_blocks_of_a_layout(block, divisor, target, load):
    n, stride = 1000, divisor + 3
    function = compiled_for(tiles, block, divisor)
    x = whole_numbers(n // divisor + 1, stride)
    i = np.arange(n)
    wanted = x[i // divisor, i % divisor] * (i % divisor).astype(np.float32) + i // divisor
    native, interpreted = np.zeros(n, np.float32), np.zeros(n, np.float32)
    arguments = [x, native, n, stride]
    load(function, target)((-(-n // block),), arguments)
    interpret(function, (-(-n // block),), [x, interpreted, n, stride])
    np.testing.assert_array_equal(native, wanted)
    np.testing.assert_array_equal(interpreted, wanted)


@pytest.mark.parametrize(("block", "shift"), [(16, 5), (64, 6), (512, 6)])
def test_bits_of_indices(block, shift, target, load):
    n, size = 1000, 1 << shift
    function = compiled_for(shifted, block, shift)
    x = whole_numbers(n // size + 1, size + 3)
    i = np.arange(n)
    out = np.zeros(n, np.float32)
    load(function, target)((1,), [x, out, n, size + 3])
    wanted = x[i // size, i % size] * (i % size).astype(np.float32) + i // size
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("divisor", [8, 12, 24, 64, -8, 5])
def test_quotients_of_negative_indices_round_down(divisor, target, load):
    n = 96
    function = signed.function(o=Ptr[i32], n=i32, B=24, D=divisor)
    out = np.zeros(2 * n, np.int32)
    load(function, target)((1,), [out, n])
    i = np.arange(-n, n)
    np.testing.assert_array_equal(out, i // divisor * 1000 + i % divisor)


@pytest.mark.parametrize("body", [tiles, shifted])
@pytest.mark.parametrize("block", [64, 4096])
def test_no_lane_is_read_on_its_own(body, block, target, load):
    divisor = 64 if body is tiles else 6
    text = load(compiled_for(body, block, divisor), target).text
    assert "masked.gather" not in text
    if target.vector_bits >= 128:
        assert "load <4 x float>" in text or "load <8 x float>" in text or "masked.load" in text
