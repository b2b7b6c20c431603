"""Kernels that iterate on whole matrices, and that read weights in blocks of bytes."""

from __future__ import annotations

import numpy as np
import pytest
import teeny_triton as triton
import teeny_triton.language as tl

from .harness import close, torch

# --- iterations on whole matrices ---


@triton.jit
def newton_schulz(x, out, steps, N: tl.constexpr):
    """Drive the singular values of a matrix towards one."""
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    value = tl.load(x + at)
    value = value / tl.sqrt(tl.sum(value * value))
    for _ in range(steps):
        square = tl.dot(value, tl.trans(value))
        change = 2.0315 * tl.dot(square, square) - 4.775 * square
        value = 3.4445 * value + tl.dot(change, value)
    tl.store(out + at, value)


@pytest.mark.parametrize("size", [16, 64])
def test_a_matrix_that_a_loop_carries_is_multiplied_with_itself(size: int) -> None:
    x, out = torch.randn(size, size), torch.empty(size, size)
    newton_schulz[(1,)](x, out, 4, N=size)
    value = x.double() / x.double().norm()
    for _ in range(4):
        square = value @ value.T
        value = 3.4445 * value + (2.0315 * square @ square - 4.775 * square) @ value
    close(out, value.float(), 1e-3)


@triton.jit
def substitute(lower, right, out, N: tl.constexpr, M: tl.constexpr):
    """Solve a triangular system, row by row."""
    i, j = tl.arange(0, N), tl.arange(0, M)
    matrix = tl.load(lower + i[:, None] * N + i[None, :])
    left = tl.load(right + i[:, None] * M + j[None, :])
    for k in range(N):
        column = tl.sum(tl.where(i[None, :] == k, matrix, 0.0), 1)
        pivot = tl.sum(tl.where(i == k, column, 0.0), 0)
        row = tl.sum(tl.where(i[:, None] == k, left, 0.0), 0) / pivot
        below = tl.where(i[:, None] > k, left - column[:, None] * row[None, :], left)
        left = tl.where(i[:, None] == k, row[None, :], below)
    tl.store(out + i[:, None] * M + j[None, :], left)


def test_a_triangular_system() -> None:
    lower = torch.randn(32, 32).tril() + 32 * torch.eye(32)
    right, out = torch.randn(32, 16), torch.empty(32, 16)
    substitute[(1,)](lower, right, out, N=32, M=16)
    close(out, torch.linalg.solve_triangular(lower, right, upper=False))


# --- weights in blocks of a scale and 32 integers ---


@triton.jit
def dequantise(weights, out, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, block = at < size, weights + at // 32 * 34
    low = tl.load(block, inside, 0).to(tl.uint8, bitcast=True).to(tl.uint16)
    high = tl.load(block + 1, inside, 0).to(tl.uint8, bitcast=True).to(tl.uint16)
    scale = (low | (high << 8)).to(tl.float16, bitcast=True).to(tl.float32)
    value = tl.load(block + 2 + at % 32, inside, 0).to(tl.float32)
    tl.store(out + at, value * scale, inside)


@pytest.mark.parametrize("block", [32, 256])
def test_weights_in_blocks_of_bytes(block: int) -> None:
    random = np.random.default_rng(0)
    values = random.integers(-127, 128, (11, 32)).astype(np.int8)
    scales = random.random((11, 1)).astype(np.float16)
    packed = np.concatenate([scales.view(np.int8), values], axis=1).reshape(-1)
    out = np.empty(11 * 32, np.float32)
    dequantise[(triton.cdiv(out.size, block),)](packed, out, out.size, BLOCK=block)
    np.testing.assert_array_equal(out.reshape(values.shape), values * scales.astype(np.float32))
