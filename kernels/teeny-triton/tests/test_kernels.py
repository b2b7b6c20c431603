"""Whole kernels, as Triton's tutorials have them, launched in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import teeny_triton as triton
import teeny_triton.language as tl


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_INTERPRET", "1")


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, x + y, mask=mask)


@pytest.mark.parametrize("n", [0, 1, 100, 128, 1000])
def test_vector_add(n: int) -> None:
    x, y, out = normal(n), normal(n, seed=1), np.zeros(n, np.float32)
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK_SIZE"]),)](x, y, out, n, BLOCK_SIZE=128)
    np.testing.assert_array_equal(out, x + y)


@triton.jit
def softmax_kernel(out, x, x_stride, out_stride, n_rows, n_cols, BLOCK: tl.constexpr):
    row_start, row_step = tl.program_id(0), tl.num_programs(0)
    for row in tl.range(row_start, n_rows, row_step, num_stages=2):
        offsets = tl.arange(0, BLOCK)
        mask = offsets < n_cols
        values = tl.load(x + row * x_stride + offsets, mask=mask, other=-float("inf"))
        numerator = tl.exp(values - tl.max(values, axis=0))
        tl.store(out + row * out_stride + offsets, numerator / tl.sum(numerator, axis=0), mask=mask)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 7), (4, 32)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_softmax(rows: int, columns: int, dtype: Any) -> None:
    x = normal(rows, columns + 3).astype(dtype)[:, :columns]
    out = np.zeros((rows, columns), dtype)
    block = triton.next_power_of_2(columns)
    softmax_kernel[(3,)](out, x, columns + 3, columns, rows, columns, BLOCK=block, num_warps=8)
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(1, keepdims=True))
    tolerance = 4 * float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(
        out.astype(np.float64), e / e.sum(1, keepdims=True), rtol=tolerance, atol=tolerance
    )


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_M)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    num_pid_in_group = GROUP_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    tl.assume(pid_m >= 0)
    offs_am = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_bn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if ACTIVATION == "leaky_relu":
        accumulator = leaky_relu(accumulator)
    elif ACTIVATION is not None:
        accumulator = ACTIVATION(accumulator)
    c = accumulator.to(c_ptr.dtype.element_ty)
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)


def matmul(a: np.ndarray, b: np.ndarray, activation: Any, blocks: tuple[int, int, int]) -> Any:
    (m, k), (_, n) = a.shape, b.shape
    c = np.zeros((m, n), a.dtype)
    strides = [s // x.itemsize for x in (a, b, c) for s in x.strides]
    block_m, block_n, block_k = blocks
    grid: Callable[[Any], tuple[int]] = lambda meta: (  # noqa: E731
        triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),
    )
    matmul_kernel[grid](
        a, b, c, m, n, k, *strides,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=2, ACTIVATION=activation,
    )  # fmt: skip
    return c


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("blocks", [(16, 16, 16), (12, 20, 7)])
def test_matmul(dtype: Any, blocks: tuple[int, int, int]) -> None:
    a, b = normal(35, 50).astype(dtype), normal(50, 41, seed=1).astype(dtype)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    tolerance = 30 * float(ml_dtypes.finfo(dtype).eps)
    got = matmul(a, b, None, blocks).astype(np.float64)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    transposed = np.ascontiguousarray(b.T).T
    got = matmul(a, transposed, "leaky_relu", blocks).astype(np.float64)
    leaky = np.where(expected >= 0, expected, 0.01 * expected)
    np.testing.assert_allclose(got, leaky, rtol=tolerance, atol=tolerance)


def test_matmul_with_a_python_epilogue() -> None:
    a, b = normal(16, 16), normal(16, 16, seed=1)
    got = matmul(a, b, lambda tile: tl.maximum(tile, 0.5), (16, 16, 16))
    np.testing.assert_allclose(got, np.maximum(a @ b, 0.5), rtol=1e-5, atol=1e-5)


@triton.jit
def attention_kernel(
    Q, K, V, Out, scale, length,
    CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(Q + rows[:, None] * D + d[None, :], mask=rows[:, None] < length, other=0.0)
    largest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    end = min((tl.program_id(0) + 1) * BLOCK_M, length) if CAUSAL else length
    for start in range(0, end, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        inside = columns < length
        k = tl.load(K + columns[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
        v = tl.load(V + columns[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
        scores = tl.dot(q, k.T) * scale
        visible = inside[None, :]
        if CAUSAL:
            visible = visible & (columns[None, :] <= rows[:, None])
        scores = tl.where(visible, scores, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(scores, 1))
        correction = tl.exp(largest - new_largest)
        p = tl.exp(scores - new_largest[:, None])
        weight = weight * correction + tl.sum(p, 1)
        acc = tl.dot(p, v, acc * correction[:, None])
        largest = new_largest
    result = acc / weight[:, None]
    tl.store(Out + rows[:, None] * D + d[None, :], result, mask=rows[:, None] < length)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    torch = pytest.importorskip("torch")
    q, k, v = (normal(37, 8, seed=seed) for seed in range(3))
    out = np.zeros_like(q)
    attention_kernel[(3,)](q, k, v, out, 8**-0.5, 37, CAUSAL=causal, BLOCK_M=16, BLOCK_N=8, D=8)
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(torch.tensor(x)[None] for x in (q, k, v)), is_causal=causal
    )
    np.testing.assert_allclose(out, expected[0].numpy(), rtol=1e-5, atol=1e-5)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


def test_seeded_dropout() -> None:
    x, first, second = np.ones(2000, np.float32), *np.zeros((2, 2000), np.float32)
    for out in (first, second):
        dropout_kernel[(4,)](x, out, 2000, 0.25, 123, BLOCK=512)
    np.testing.assert_array_equal(first, second)
    assert abs((first == 0).mean() - 0.25) < 0.03
    np.testing.assert_allclose(first[first != 0], 1 / 0.75, rtol=1e-6)
