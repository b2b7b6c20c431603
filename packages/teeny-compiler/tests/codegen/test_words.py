"""Small integers multiplied several at a time: exact for all values, depths and machines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import teeny_triton.language as tl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from teeny_compiler.codegen import llvm
from teeny_compiler.codegen.block import block
from teeny_compiler.codegen.cpu import emit_kernel
from teeny_core import i8, i16, i32, u8
from teeny_triton import Ptr, Target, constexpr, interpret, kernel, semantics
from teeny_triton.parser import parse

PARTS = {"i8": i8, "u8": u8, "i16": i16}
KINDS = [("i8", "i8"), ("i8", "u8"), ("u8", "i8"), ("u8", "u8"), ("i16", "i16")]
AVX512 = frozenset({"avx2", "avx512f", "avx512bw", "avx512vl"})


def machine(*features: str, bits: int = 512) -> Target:
    return Target("x86_64-unknown-linux-gnu", "x86-64", frozenset(features), bits, 32)


ARM = Target("aarch64-unknown-linux-gnu", "generic", frozenset({"neon", "dotprod"}), 128, 32)
VNNI = machine(*AVX512, "avx512vnni")
TEXT = """
func @words(%a: ptr<i32>, %b: ptr<i32>, %c: ptr<i32> {{written = true}}) {{
  %at = arange {{start = 0, end = {count}}} : tile<{count}xi32>
  %as = splat %a : tile<{count}xptr<i32>>
  %bs = splat %b : tile<{count}xptr<i32>>
  %cs = splat %c : tile<{count}xptr<i32>>
  %ap = addptr %as, %at : tile<{count}xptr<i32>>
  %bp = addptr %bs, %at : tile<{count}xptr<i32>>
  %cp = addptr %cs, %at : tile<{count}xptr<i32>>
  %x = load %ap : tile<{count}xi32>
  %y = load %bp : tile<{count}xi32>
  %z = load %cp : tile<{count}xi32>
  %r = dot_words %x, %y, %z {{left = "{left}", right = "{right}"}} : tile<{count}xi32>
  store %cp, %r
}}
"""


def words(kind, count, seed):
    """Return small integers, the extremes among them, as they are and in words."""
    dtype = PARTS[kind]
    shape = (count, 32 // dtype.bits)
    parts = np.random.default_rng(seed).integers(dtype.min, dtype.max + 1, shape)
    low = dtype.min + (dtype.bits == 16)  # two products of -32768 squared do not fit
    parts[: count // 2] = np.where(parts[: count // 2] < 0, low, dtype.max)
    parts = np.maximum(parts, low)
    return parts, np.ascontiguousarray(parts.astype(dtype.numpy)).view(np.int32)[:, 0]


@pytest.mark.parametrize(("left", "right"), KINDS)
@pytest.mark.parametrize("count", [1, 5, 32])
def test_words(left, right, count, target, load):
    a, packed_a = words(left, count, 0)
    b, packed_b = words(right, count, 1)
    start = np.arange(count, dtype=np.int32) - 3
    wanted = start + (a * b).sum(1)
    defined = semantics.dot_words(packed_a, packed_b, start, left, right)
    np.testing.assert_array_equal(defined, wanted)
    function = parse(TEXT.format(left=left, right=right, count=count))
    c = start.copy()
    load(function, target)((1,), [packed_a, packed_b, c])
    np.testing.assert_array_equal(c, wanted)


@pytest.mark.parametrize(
    ("machine", "left", "right", "instruction"),
    [
        (machine("avx2", bits=256), "i16", "i16", "vpmaddwd"),
        (machine(*AVX512), "i16", "i16", "vpmaddwd"),
        (VNNI, "i16", "i16", "vpdpwssd"),
        (VNNI, "u8", "i8", "vpdpbusd"),
        (VNNI, "i8", "u8", "vpdpbusd"),
        (machine("avx2", "avxvnni", bits=256), "u8", "i8", "vpdpbusd"),
        (machine("sse2", bits=128), "i16", "i16", "pmaddwd"),
        (ARM, "i8", "i8", "sdot"),
        (ARM, "u8", "u8", "udot"),
    ],
)
def test_instructions(machine, left, right, instruction):
    function = parse(TEXT.format(left=left, right=right, count=machine.lanes(i32)))
    assert instruction in llvm.assembly(emit_kernel(function, machine), machine)


@kernel
def product(a, b, c, K: constexpr, M: constexpr, N: constexpr, BK: constexpr):
    row, column, along = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), tl.int32)
    for k in range(0, K, BK):
        at = k + along
        x = tl.load(a + row[:, None] * K + at[None, :], at[None, :] < K, 0)
        y = tl.load(b + at[:, None] * N + column[None, :], at[:, None] < K, 0)
        total = tl.dot(x, y, total)
    tl.store(c + row[:, None] * N + column[None, :], total)


def integers(shape, dtype, seed):
    values = np.random.default_rng(seed).integers(dtype.min, dtype.max + 1, shape)
    return values.astype(dtype.numpy)


def function_of(a, b, depth, m, n, bk):
    return product.function(a=Ptr[a], b=Ptr[b], c=Ptr[i32], K=depth, M=m, N=n, BK=bk)


BYTES = [(i8, i8), (u8, u8), (i8, u8), (u8, i8)]


@pytest.mark.parametrize(("left", "right"), BYTES)
@pytest.mark.parametrize("machine", [VNNI, ARM, machine("avx2", bits=256)], ids=lambda m: m.key)
def test_blocked_products_of_other_machines(machine, left, right):
    """What the machine would compute, by the definition of each op."""
    depth, m, n, bk = 23, 17, 40, 9
    function = function_of(left, right, depth, m, n, bk)
    blocked = block(function, machine, machine.lanes(i32))
    assert "dot_words" in str(blocked) or (machine is ARM and left != right)
    a, b = integers((m, depth), left, 0), integers((depth, n), right, 1)
    a[0], b[:, 0] = left.min, right.min
    a[1], b[:, 1] = left.max, right.max
    c = np.zeros((m, n), np.int32)
    interpret(blocked, (1,), [a, b, c])
    np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(BYTES), st.integers(1, 70), st.integers(9, 20), st.integers(1, 40),
    st.sampled_from([1, 3, 8, 32]),
)  # fmt: skip
def test_products_of_any_shape(host, load, kinds, depth, m, n, bk):
    left, right = kinds
    a, b = integers((m, depth), left, 0), integers((depth, n), right, 1)
    c = np.zeros((m, n), np.int32)
    load(function_of(left, right, depth, m, n, bk), host)((1,), [a, b, c])
    np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize(("left", "right"), BYTES)
def test_the_largest_sums(left, right, target, load):
    """10,001 products of the values that are farthest from zero."""
    depth, m, n = 10_001, 12, 18
    a = np.full((m, depth), left.min or left.max, left.numpy)
    b = np.full((depth, n), right.min or right.max, right.numpy)
    c = np.zeros((m, n), np.int32)
    load(function_of(left, right, depth, m, n, 64), target)((1,), [a, b, c])
    assert (c == depth * int(a[0, 0]) * int(b[0, 0])).all()


def test_pairs_are_chosen_by_what_the_machine_has():
    function = function_of(i8, i8, 64, 32, 32, 16)
    for features, kind in (({"avx512vnni"}, "u8"), (set(), "i16")):
        target = replace(VNNI, features=AVX512 | features)
        assert f'left = "{kind}"' in str(block(function, target, 16))
    bare = replace(VNNI, features=frozenset(), vector_bits=0)
    assert "dot_words" not in str(block(function, bare, 1))
