"""Kernels in the style of public Triton code over blocks and products, equal to PyTorch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import teeny_triton as triton
import teeny_triton.language as tl
from teeny_triton.tools.tensor_descriptor import TensorDescriptor

from .harness import close, torch

# --- attention with block pointers ---


@triton.jit
def attend(
    total, weight, top, query, keys, values, row, first, last, length,
    COLUMNS: tl.constexpr, DIAGONAL: tl.constexpr,
):  # fmt: skip
    """Add the keys from `first` to `last` to a running softmax in powers of two."""
    column = tl.arange(0, COLUMNS)
    keys = tl.advance(keys, (0, first))
    values = tl.advance(values, (first, 0))
    for place in tl.range(first, last, COLUMNS, num_stages=2):
        place = tl.multiple_of(place, COLUMNS)
        key = tl.load(keys, boundary_check=(1,), padding_option="zero")
        seen = (place + column < length)[None, :]
        if DIAGONAL:
            seen &= row[:, None] >= place + column[None, :]
        scores = tl.where(seen, tl.dot(query, key), float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        part = tl.math.exp2(scores - higher[:, None])
        fade = tl.math.exp2(top - higher)
        weight = weight * fade + tl.sum(part, 1)
        value = tl.load(values, boundary_check=(0,), padding_option="zero")
        total = tl.dot(part.to(values.type.element_ty), value, total * fade[:, None])
        top = higher
        keys = tl.advance(keys, (0, COLUMNS))
        values = tl.advance(values, (COLUMNS, 0))
    return total, weight, top


@triton.jit
def attention(
    q, k, v, out, lse, scale, stride_b, stride_h, stride_n, stride_d, HEADS, length,
    D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    tl.static_assert(ROWS % COLUMNS == 0, "the diagonal is made of whole blocks")
    block, batch, head = tl.program_id(0), tl.program_id(1) // HEADS, tl.program_id(1) % HEADS
    base = batch.to(tl.int64) * stride_b + head.to(tl.int64) * stride_h
    here = block * ROWS
    queries = tl.make_block_ptr(
        base=q + base, shape=(length, D), strides=(stride_n, stride_d), offsets=(here, 0),
        block_shape=(ROWS, D), order=(1, 0),
    )  # fmt: skip
    results = tl.make_block_ptr(
        base=out + base, shape=(length, D), strides=(stride_n, stride_d), offsets=(here, 0),
        block_shape=(ROWS, D), order=(1, 0),
    )  # fmt: skip
    keys = tl.make_block_ptr(
        k + base, (D, length), (stride_d, stride_n), (0, 0), (D, COLUMNS), order=(0, 1)
    )
    values = tl.make_block_ptr(
        v + base, (length, D), (stride_n, stride_d), (0, 0), (COLUMNS, D), order=(1, 0)
    )
    row = here + tl.arange(0, ROWS)
    query = tl.load(queries, boundary_check=(0,), padding_option="zero")
    query = (query * (scale * 1.4426950408889634)).to(query.dtype)
    total = tl.zeros([ROWS, D], dtype=tl.float32)
    weight = tl.zeros([ROWS], dtype=tl.float32)
    top = tl.full([ROWS], float("-inf"), tl.float32)
    full = here if CAUSAL else length
    total, weight, top = attend(
        total, weight, top, query, keys, values, row, 0, full, length, COLUMNS, False
    )
    if CAUSAL:
        end = min(here + ROWS, length)
        total, weight, top = attend(
            total, weight, top, query, keys, values, row, here, end, length, COLUMNS, True
        )
    tl.store(lse + tl.program_id(1) * length + row, top + tl.log2(weight), mask=row < length)
    tl.store(results, (total / weight[:, None]).to(out.type.element_ty), boundary_check=(0,))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "dtype"), [(64, "float32"), (40, "float32"), (48, "float16")])
def test_attention(n: int, dtype: str, causal: bool) -> None:
    q, k, v = (torch.randn(2, 3, n, 16).to(getattr(torch, dtype)) for _ in range(3))
    out, m = torch.empty_like(q), torch.empty(6, n)
    scale = 1 / math.sqrt(16)
    grid = lambda meta: (triton.cdiv(n, meta["ROWS"]), 6, 1)  # noqa: E731
    attention[grid](
        q, k, v, out, m, scale, *q.stride(), 3, n, D=16, ROWS=32, COLUMNS=16, CAUSAL=causal,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), is_causal=causal
    )
    close(out, expected, 2e-5 if dtype == "float32" else 4e-3)
    scores = q.double() @ k.double().transpose(-1, -2) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
    logsumexp = torch.logsumexp(scores, -1).reshape(6, n) / math.log(2)
    close(m, logsumexp, 1e-5 if dtype == "float32" else 2e-3)


# --- products: persistent, grouped, split, described, quantised ---


@triton.jit
def place_of(block, rows, columns, GROUP: tl.constexpr):
    """Walk the blocks of a matrix in groups of rows, down each column of a group."""
    first = block // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    inside = block % (GROUP * columns)
    return first + inside % height, inside // height


@triton.jit
def persistent_matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, strides,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PROGRAMS: tl.constexpr,
):  # fmt: skip
    (a_row, a_column), (b_row, b_column), c_row = strides
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    k = tl.arange(0, BK)
    for block in tl.range(tl.program_id(axis=0), rows * columns, PROGRAMS, flatten=True):
        row, column = place_of(block, rows, columns, GROUP)
        m = row * BM + tl.arange(0, BM)
        n = column * BN + tl.arange(0, BN)
        safe_m = tl.max_contiguous(tl.multiple_of(tl.where(m < M, m, 0), BM), BM)
        safe_n = tl.max_contiguous(tl.multiple_of(tl.where(n < N, n, 0), BN), BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(tl.cdiv(K, BK)):
            place = step * BK + k
            a_ptrs = a_ptr + (safe_m[:, None] * a_row + place[None, :] * a_column)
            b_ptrs = b_ptr + (place[:, None] * b_row + safe_n[None, :] * b_column)
            a = tl.load(a_ptrs, mask=k[None, :] < K - step * BK, other=0.0)
            b = tl.load(b_ptrs, mask=k[:, None] < K - step * BK, other=0.0)
            acc = tl.dot(a, b, acc)
        if c_ptr.dtype.element_ty == tl.float8e4nv:
            c = acc.to(tl.float8e4nv)
        else:
            c = acc.to(tl.float16)
        inside = (m[:, None] < M) & (n[None, :] < N)
        tl.store(c_ptr + c_row * m[:, None] + n[None, :], c, mask=inside)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 48, 32), (70, 33, 50)])
def test_persistent_matmul(m: int, n: int, k: int) -> None:
    a, b = torch.randn(m, k).half(), torch.randn(k, n).half()
    c = torch.empty(m, n).half()
    strides = (a.stride(), b.stride(), c.stride(0))
    persistent_matmul[(3,)](a, b, c, m, n, k, strides, 16, 16, 16, 2, PROGRAMS=3)
    close(c, a.double() @ b.double(), 1e-2)


@triton.jit
def grouped_matmul(
    a_table, b_table, c_table, sizes, problems, PROGRAMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Products of several sizes, whose matrices are found by addresses in memory."""
    block = tl.program_id(0)
    begin = 0
    for problem in range(problems):
        M = tl.load(sizes + problem * 3)
        N = tl.load(sizes + problem * 3 + 1)
        K = tl.load(sizes + problem * 3 + 2)
        columns = tl.cdiv(N, BN)
        blocks = tl.cdiv(M, BM) * columns
        while block >= begin and block < begin + blocks:
            a = tl.load(a_table + problem).to(tl.pointer_type(tl.float16))
            b = tl.load(b_table + problem).to(tl.pointer_type(tl.float16))
            c = tl.load(c_table + problem).to(tl.pointer_type(tl.float16))
            m = (block - begin) // columns * BM + tl.arange(0, BM)
            n = (block - begin) % columns * BN + tl.arange(0, BN)
            k = tl.arange(0, BK)
            a_ptrs = a + m[:, None] * K + k[None, :]
            b_ptrs = b + k[:, None] * N + n[None, :]
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for _ in range(0, tl.cdiv(K, BK)):
                tl.multiple_of(a_ptrs, [16, 16])
                tl.multiple_of(b_ptrs, [16, 16])
                acc += tl.dot(tl.load(a_ptrs), tl.load(b_ptrs))
                a_ptrs += BK
                b_ptrs += BK * N
            tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))
            block += PROGRAMS
        begin = begin + blocks


def test_grouped_matmul() -> None:
    shapes = [(32, 16, 32), (16, 48, 16), (64, 32, 48)]
    a = [torch.randn(m, k).half() for m, _, k in shapes]
    b = [torch.randn(k, n).half() for _, n, k in shapes]
    c = [torch.empty(m, n).half() for m, n, _ in shapes]
    tables = [torch.tensor([x.data_ptr() for x in group]) for group in (a, b, c)]
    sizes = torch.tensor(shapes, dtype=torch.int32)
    grouped_matmul[(4,)](*tables, sizes, 3, PROGRAMS=4, BM=16, BN=16, BK=16)
    for x, y, z in zip(a, b, c, strict=True):
        close(z, x.double() @ y.double(), 1e-2)


@triton.jit
def split_k_matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    pid, pid_z = tl.program_id(0), tl.program_id(1)
    grid_n = tl.cdiv(N, BLOCK_N)
    rm = (pid // grid_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = (pid % grid_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = pid_z * BLOCK_K + tl.arange(0, BLOCK_K)
    ram, rbn = rm % M, rn % N
    A = a_ptr + (ram[:, None] * stride_am + rk[None, :])
    B = b_ptr + (rk[:, None] * stride_bk + rbn[None, :])
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=c_ptr.dtype.element_ty)
    for k in range(0, tl.cdiv(K, BLOCK_K * SPLIT_K)):
        k_remaining = K - k * (BLOCK_K * SPLIT_K)
        a = tl.load(A, mask=rk[None, :] < k_remaining, other=0.0)
        b = tl.load(B, mask=rk[:, None] < k_remaining, other=0.0)
        acc += tl.dot(a, b, out_dtype=tl.float32)
        A += BLOCK_K * SPLIT_K
        B += BLOCK_K * SPLIT_K * stride_bk
    C = c_ptr + (rm[:, None] * stride_cm + rn[None, :])
    mask = (rm < M)[:, None] & (rn < N)[None, :]
    if SPLIT_K == 1:
        tl.store(C, acc, mask=mask)
    else:
        tl.atomic_add(C, acc, mask=mask, sem="relaxed")


@pytest.mark.parametrize("split", [1, 3])
def test_split_k(split: int) -> None:
    a, b, c = torch.randn(20, 70), torch.randn(70, 24), torch.zeros(20, 24)
    split_k_matmul[(4, split)](a, b, c, 20, 24, 70, 70, 24, 24, 16, 16, 16, SPLIT_K=split)
    close(c, a.double() @ b.double())


@triton.jit
def described_matmul(a_desc, b_desc, c_desc, M, N, K, BLOCK_K: tl.constexpr, T: tl.constexpr):
    BLOCK_M: tl.constexpr = a_desc.block_shape[0]
    BLOCK_N: tl.constexpr = c_desc.block_shape[1]
    offs_am, offs_bn = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([offs_am, k * BLOCK_K])
        b = b_desc.load([offs_bn, k * BLOCK_K])
        accumulator = tl.dot(a, b.T, accumulator)
    c_desc.store([offs_am, offs_bn], accumulator.to(T))


def test_descriptors_of_a_matmul() -> None:
    a, b, c = torch.randn(40, 36).half(), torch.randn(24, 36).half(), torch.zeros(40, 24).half()
    blocks = [(a, [16, 16]), (b, [16, 16]), (c, [16, 16])]
    described = [TensorDescriptor.from_tensor(x, block) for x, block in blocks]
    described_matmul[(3, 2)](*described, 40, 24, 36, BLOCK_K=16, T=tl.float16)
    close(c, a.double() @ b.double().T, 1e-2)


@triton.jit
def int4_matmul(
    x_ptr, packed_ptr, scales_ptr, zeros_ptr, out_ptr, M, N, K, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Eight weights of four bits in a word, with a scale and a zero for each group of rows."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    shifter = (offs_k % 8) * 4
    x_ptrs = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = packed_ptr + (offs_k[:, None] // 8) * N + offs_n[None, :]
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        group = k // GROUP
        scales = tl.load(scales_ptr + group * N + offs_n)
        zeros = tl.load(zeros_ptr + group * (N // 8) + offs_n // 8)
        zeros = ((zeros >> ((offs_n % 8) * 4)) & 0xF) + 1
        x = tl.load(x_ptrs, mask=offs_m[:, None] < M, other=0.0)
        b = (tl.load(b_ptrs) >> shifter[:, None]) & 0xF
        b = ((b - zeros[None, :]) * scales[None, :]).to(tl.float16)
        accumulator += tl.dot(x, b)
        x_ptrs += BLOCK_K
        b_ptrs += (BLOCK_K // 8) * N
    out_ptrs = out_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(out_ptrs, accumulator.to(tl.float16), mask=offs_m[:, None] < M)


def packed(values: Any, axis: int) -> Any:
    """Put eight numbers below 16 along an axis into each 32-bit word."""
    parts = values.to(torch.int64).movedim(axis, 0).reshape(-1, 8, values.shape[1 - axis])
    words = sum(parts[:, i] << (4 * i) for i in range(8))
    return words.to(torch.int32).movedim(0, axis).contiguous()


def test_four_bit_weights() -> None:
    m, n, k, group = 10, 32, 64, 32
    weights, zeros = torch.randint(0, 16, (k, n)), torch.randint(0, 15, (k // group, n))
    scales, x = torch.rand(k // group, n).half(), torch.randn(m, k).half()
    out = torch.zeros(m, n).half()
    int4_matmul[(1, 2)](
        x, packed(weights, 0), scales, packed(zeros, 1), out, m, n, k, group, 16, 16, 16
    )
    spread = [t.repeat_interleave(group, 0).double() for t in (scales, zeros + 1)]
    close(out, x.double() @ ((weights - spread[1]) * spread[0]), 2e-2)


@triton.jit
def conv2d(
    x_ptr, w_ptr, out_ptr, H, W, OH, OW, CI, CO, stride, padding, pixels,
    KH: tl.constexpr, KW: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A convolution as a product over (channel, row, column), whose rows are never stored."""
    pixel = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    ow, oh, image = pixel % OW, (pixel // OW) % OH, pixel // (OW * OH)
    acc = tl.zeros((BLOCK_P, BLOCK_C), tl.float32)
    for start in range(0, CI * KH * KW, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        kw, kh, ci = k % KW, (k // KW) % KH, k // (KW * KH)
        h = (oh * stride - padding)[:, None] + kh[None, :]
        w = (ow * stride - padding)[:, None] + kw[None, :]
        inside = (h >= 0) & (h < H) & (w >= 0) & (w < W)
        inside &= (ci < CI)[None, :] & (pixel < pixels)[:, None]
        place = ((image[:, None] * CI + ci[None, :]) * H + h) * W + w
        x = tl.load(x_ptr + place, mask=inside, other=0.0)
        weight = tl.load(
            w_ptr + channel[None, :] * (CI * KH * KW) + k[:, None],
            mask=(channel[None, :] < CO) & (ci < CI)[:, None], other=0.0,
        )  # fmt: skip
        acc = tl.dot(x, weight, acc)
    out = out_ptr + ((image * CO * OH + oh) * OW + ow)[:, None] + (channel * OH * OW)[None, :]
    tl.store(out, acc, mask=(pixel < pixels)[:, None] & (channel < CO)[None, :])


@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, 0)])
def test_convolution(stride: int, padding: int) -> None:
    x, w = torch.randn(2, 3, 9, 8), torch.randn(5, 3, 3, 3)
    expected = torch.nn.functional.conv2d(x.double(), w.double(), None, stride, padding)
    out = torch.zeros(expected.shape)
    _, co, oh, ow = out.shape
    pixels = 2 * oh * ow
    conv2d[(triton.cdiv(pixels, 32), 1)](
        x, w, out, 9, 8, oh, ow, 3, co, stride, padding, pixels, 3, 3, 32, 8, 16
    )
    close(out, expected)
