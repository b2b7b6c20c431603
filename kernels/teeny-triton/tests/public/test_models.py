"""Kernels of language models in the style of public Triton code, equal to PyTorch.

Serving: caches in pages, experts, weights of few bits. Training: norms, losses and optimisers that
work in place. Sequences: states carried over chunks, jagged rows, programs that wait for others.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import teeny_triton as triton
import teeny_triton.language as tl

from .harness import close, torch


def starts_of(lengths: list[int]) -> Any:
    return torch.tensor(np.cumsum([0, *lengths]), dtype=torch.int32)


# --- attention over pages of keys and values, in parts that are merged ---


class Softmax(NamedTuple):
    """A running softmax: the largest score, the weight so far, and the weighted sum."""

    top: Any
    weight: Any
    total: Any


@triton.jit
def seen(state, scores, values):
    top = tl.maximum(state.top, tl.max(scores, 0))
    fade = tl.exp(state.top - top)
    part = tl.exp(scores - top)
    total = state.total * fade + tl.sum(part[:, None] * values, 0)
    return Softmax(top, state.weight * fade + tl.sum(part, 0), total)


@triton.jit
def decode(
    q_ptr, cache, pages_ptr, starts_ptr, slopes_ptr, part_ptr, lse_ptr, scale: tl.float32,
    page_stride: tl.int64, slot_stride: tl.int64, head_stride: tl.int64, sequences,
    SHARE: tl.constexpr, PAGE: tl.constexpr, D: tl.constexpr, PADDED: tl.constexpr,
    PARTS: tl.constexpr, WINDOW: tl.constexpr = 0,
):  # fmt: skip
    token, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    low: tl.int32 = 0
    high = sequences
    while low < high:  # the sequence that owns this token
        middle = (low + high) // 2
        if tl.load(starts_ptr + middle + 1) <= token:
            low = middle + 1
        else:
            high = middle
    length = token - tl.load(starts_ptr + low) + 1  # a token sees those before it, and itself
    each = tl.cdiv(tl.cdiv(length, PAGE), PARTS)
    first = part * each
    last = min(first + each, tl.cdiv(length, PAGE))
    place = ((token * tl.num_programs(1)) + head) * PARTS + part
    if first >= last:
        tl.store(lse_ptr + place, float("-inf"))
        return
    d = tl.arange(0, PADDED)
    q = tl.load(q_ptr + (token * tl.num_programs(1) + head) * D + d, mask=d < D, other=0.0)
    keys, values = cache
    state = Softmax(-float("inf"), 0.0, tl.zeros((PADDED,), tl.float32))
    for page in range(first, last):
        number = tl.load(pages_ptr + low * 8 + page).to(tl.int64)
        slot = tl.arange(0, PAGE)
        here = number * page_stride + (head // SHARE) * head_stride
        offsets = here + slot[:, None] * slot_stride + d[None, :]
        key = tl.load(keys + offsets, mask=(d < D)[None, :], other=0.0)
        scores = tl.sum(q[None, :] * key, 1) * scale
        at = page * PAGE + slot
        if slopes_ptr is not None:
            scores += tl.load(slopes_ptr + head) * (at - length + 1)
        visible = at < length
        if WINDOW > 0:
            visible &= length - at <= WINDOW
        scores = tl.where(visible, scores, -1e30)
        state = seen(state, scores, tl.load(values + offsets, mask=(d < D)[None, :], other=0.0))
    tl.store(lse_ptr + place, state.top + tl.log(state.weight))
    tl.store(part_ptr + place * D + d, state.total / state.weight, mask=d < D)


@triton.jit
def merge(part_ptr, lse_ptr, out_ptr, PARTS: tl.constexpr, D: tl.constexpr, PADDED: tl.constexpr):
    row = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    d = tl.arange(0, PADDED)
    top, weight = -float("inf"), 0.0
    total = tl.zeros([PADDED], tl.float32)
    for part in tl.static_range(PARTS):
        lse = tl.load(lse_ptr + row * PARTS + part)
        if lse != float("-inf"):
            higher = tl.maximum(top, lse)
            share = tl.exp(lse - higher)
            piece = tl.load(part_ptr + (row * PARTS + part) * D + d, mask=d < D)
            total = total * tl.exp(top - higher) + share * piece
            weight = weight * tl.exp(top - higher) + share
            top = higher
    tl.store(out_ptr + row * D + d, total / weight, mask=d < D)


@pytest.mark.parametrize(("window", "biased"), [(0, False), (5, False), (0, True)])
def test_attention_over_pages(window: int, biased: bool) -> None:
    lengths, heads, share, d, page, parts = [3, 1, 11], 2, 2, 12, 4, 3
    keys, values = torch.randn(2, 24, page, heads // share, d)
    pages = torch.randperm(24)[: 3 * 8].reshape(3, 8).to(torch.int32)
    starts, slopes = starts_of(lengths), torch.rand(heads)
    q = torch.randn(sum(lengths), heads, d)
    partial, lse = (
        torch.full((sum(lengths), heads, parts, d), torch.nan),
        torch.zeros(15, heads, parts),
    )
    out = torch.empty_like(q)
    decode[(sum(lengths), heads, parts)](
        q, (keys, values), pages, starts, slopes if biased else None, partial, lse, d**-0.5,
        *keys.stride()[:3], len(lengths), SHARE=share, PAGE=page, D=d, PADDED=16, PARTS=parts,
        WINDOW=window, num_warps=4, num_stages=1,
    )  # fmt: skip
    merge[(sum(lengths), heads)](partial, lse, out, PARTS=parts, D=d, PADDED=16)
    for i, n in enumerate(lengths):
        held = pages[i, : -(-n // page)].long()
        k, v = (
            x[held].flatten(0, 1)[:n].repeat_interleave(share, 1).double() for x in (keys, values)
        )
        scores = torch.einsum("qhd,khd->hqk", q[starts[i] : starts[i + 1]].double(), k) * d**-0.5
        apart = torch.arange(n)[:, None] - torch.arange(n)
        if biased:
            scores -= slopes.double()[:, None, None] * apart
        hidden = (apart < 0) | (apart >= (window or n))
        weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
        expected = torch.einsum("hqk,khd->qhd", weights, v)
        close(out[starts[i] : starts[i + 1]], expected, 1e-4)


# --- experts: tokens are sorted by theirs, in blocks ---


@triton.jit
def align(expert_ptr, sorted_ptr, owner_ptr, count, N: tl.constexpr, E: tl.constexpr,
          BLOCK: tl.constexpr):  # fmt: skip
    """Give each expert whole blocks of places, and each token one of them."""
    i = tl.arange(0, N)
    expert = tl.load(expert_ptr + i, mask=i < count, other=E)
    mine = expert[:, None] == tl.arange(0, E)[None, :]
    before = tl.cumsum(mine.to(tl.int32), 0) - mine
    room = tl.cdiv(tl.sum(mine.to(tl.int32), 0), BLOCK) * BLOCK
    end = tl.cumsum(room, 0)
    place = tl.sum(tl.where(mine, (end - room)[None, :] + before, 0), 1)
    tl.store(sorted_ptr + place, i, mask=i < count)
    block = tl.arange(0, N) * BLOCK
    owner = tl.sum((block[:, None] >= end[None, :]).to(tl.int32), 1)
    tl.store(owner_ptr + tl.arange(0, N), tl.where(owner < E, owner, -1))


@triton.jit
def experts_matmul(
    x_ptr, w_ptr, scale_ptr, bias_ptr, out_ptr, gate_ptr, sorted_ptr, owner_ptr, N, K, count,
    stride_e, stride_n, stride_k, TOP: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, compute_type: tl.constexpr,
):  # fmt: skip
    owner = tl.load(owner_ptr + tl.program_id(0)).to(tl.int64)
    if owner == -1:
        return
    token = tl.load(sorted_ptr + tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M))
    mine = token < count
    n = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    x = x_ptr + (token[:, None] // TOP) * K + k[None, :]
    w = w_ptr + owner * stride_e + n[None, :] * stride_n + k[:, None] * stride_k
    total = tl.zeros((BLOCK_M, BLOCK_N), compute_type)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        a = tl.load(x, mask=mine[:, None] & (k[None, :] < left), other=0.0)
        b = tl.load(w, mask=k[:, None] < left, other=0.0)
        total = tl.dot(a, b.to(a.dtype), acc=total)
        x += BLOCK_K
        w += BLOCK_K * stride_k
    if scale_ptr is not None:
        total *= tl.load(scale_ptr + owner * N + n)[None, :]
    if bias_ptr is not None:
        total += tl.load(bias_ptr + owner * N + n)
    total *= tl.load(gate_ptr + token, mask=mine, other=0)[:, None]
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = mine[:, None] & (column[None, :] < N)
    tl.store(out_ptr + token[:, None] * N + column[None, :], total, mask=inside)


@pytest.mark.parametrize("whole", [False, True])
def test_mixture_of_experts(whole: bool) -> None:
    tokens, top, experts, size, width, block = 9, 2, 4, 24, 20, 4
    chosen = torch.stack([torch.randperm(experts)[:top] for _ in range(tokens)]).to(torch.int32)
    gates, x, w = torch.rand(tokens, top), torch.randn(tokens, size), torch.randn(4, width, size)
    scale, bias = w.abs().amax(-1) / 127, torch.randn(experts, width)
    held = (w / scale[..., None]).round().to(torch.int8) if whole else w
    places = torch.full((128,), tokens * top, dtype=torch.int32)
    owners, out = torch.empty(32, dtype=torch.int32), torch.zeros(tokens, top, width)
    align[(1,)](chosen, places, owners, chosen.numel(), N=32, E=experts, BLOCK=block)
    experts_matmul[lambda meta: (32, triton.cdiv(width, meta["BLOCK_N"]))](
        x, held, scale if whole else None, None if whole else bias, out, gates, places, owners,
        width, size, chosen.numel(), *held.stride(), TOP=top, BLOCK_M=block, BLOCK_N=16,
        BLOCK_K=16, compute_type=tl.float32,
    )  # fmt: skip
    used = (held * scale[..., None] if whole else w).double()
    expected = torch.einsum("ts,tkws->tkw", x.double(), used[chosen.long()])
    if not whole:
        expected += bias[chosen.long()].double()
    close(out, expected * gates[..., None].double(), 1e-4)


# --- weights of few bits ---


@triton.jit
def unpack(words_ptr, scales_ptr, out_ptr, columns, ROWS: tl.constexpr, WORDS: tl.constexpr):
    """Words of eight numbers of four bits, of which the even ones come first."""
    row = tl.arange(0, ROWS)[:, None]
    words = tl.load(words_ptr + row * columns + tl.arange(0, WORDS)[None, :])
    for _ in tl.static_range(3):
        words = tl.interleave(words, words)
    order = (tl.arange(0, 4)[:, None] + 4 * tl.arange(0, 2)[None, :]).reshape(8)
    shift = tl.broadcast_to(4 * order[None, :], (ROWS * WORDS, 8)).reshape(ROWS, WORDS * 8)
    column = tl.arange(0, WORDS * 8)[None, :]
    value = ((words >> shift) & 0xF) * tl.load(scales_ptr + column)
    tl.store(out_ptr + row * columns * 8 + column, value.to(out_ptr.dtype.element_ty))


def test_interleaved_words() -> None:
    numbers, scales, out = (
        torch.randint(0, 16, (4, 2, 8)),
        torch.rand(16),
        torch.empty(4, 16).half(),
    )
    places = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])
    words = (numbers << (4 * places)).sum(-1).to(torch.int32)
    unpack[(1,)](words, scales, out, 2, ROWS=4, WORDS=2)
    close(out, numbers.flatten(1) * scales, 1e-3)


@triton.jit
def to_codes(x_ptr, table_ptr, top_ptr, code_ptr, n, SIZE: tl.constexpr, BLOCKS: tl.constexpr):
    """Code numbers by the nearest of 16 that ascend, over the largest of their block."""
    block = tl.program_id(0) * BLOCKS
    place = block * SIZE + tl.arange(0, BLOCKS * SIZE)
    x = tl.reshape(tl.load(x_ptr + place, mask=place < n, other=0.0), (BLOCKS, SIZE))
    top = tl.max(tl.abs(x), axis=1)
    tl.store(top_ptr + block + tl.arange(0, BLOCKS), top)
    x = x / top[:, None]
    low, high = tl.zeros(x.shape, tl.int32), tl.full(x.shape, 15, tl.int32)
    for _ in range(4):
        middle = (low + high) // 2
        above = x > tl.load(table_ptr + middle)
        low, high = tl.where(above, middle, low), tl.where(above, high, middle)
    below, over = tl.load(table_ptr + low), tl.load(table_ptr + high)
    code = tl.where(x - below <= over - x, low, high)
    tl.store(code_ptr + place, code.to(tl.uint8).ravel(), mask=place < n)


def test_blocks_by_a_table() -> None:
    x, table = torch.randn(150), torch.linspace(-1, 1, 16) ** 3
    top, code = torch.empty(6), torch.empty(150, dtype=torch.uint8)
    to_codes[(3,)](x, table, top, code, 150, SIZE=32, BLOCKS=2)
    blocks = torch.nn.functional.pad(x, (0, 42)).reshape(6, 32)
    close(top[:5], blocks.abs().amax(1)[:5], 0)
    scaled = (blocks / blocks.abs().amax(1, keepdim=True)).flatten()[:150]
    close((scaled - table[code.long()]).abs(), (scaled[:, None] - table).abs().amin(1), 1e-6)


# --- training: modes by constants of the module, gradients in place, tables of addresses ---

PLAIN: tl.constexpr = tl.constexpr(0)
WIDE = tl.constexpr(1)


@triton.jit
def rms_norm(x_ptr, w_ptr, y_ptr, r_ptr, n, eps, offset, MODE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n
    y_ptr += row * n
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    w = tl.load(w_ptr + i, mask=i < n, other=0)
    kind = x.dtype
    x = x.to(tl.float32)
    r = tl.extra.libdevice.rsqrt(tl.sum(x * x, axis=0) / n + eps)
    tl.store(r_ptr + row, r)
    if MODE == WIDE:
        y = (x * r * (w.to(tl.float32) + offset)).to(kind)
    elif MODE == PLAIN:
        y = (x * r).to(kind) * (w + offset)
    tl.store(y_ptr + i, y, mask=i < n, cache_modifier=".wb")


@triton.jit
def rms_norm_backward(
    dy_ptr, x_ptr, w_ptr, r_ptr, dw_ptr, rows, n, offset, each, BLOCK: tl.constexpr
):
    """The gradient of x is left where that of y was; each program sums that of w for its rows."""
    first = tl.program_id(0) * each
    i = tl.arange(0, BLOCK)
    dw = tl.zeros((BLOCK,), tl.float32)
    w = tl.load(w_ptr + i, mask=i < n, other=0.0).cast(tl.float32) + offset
    for row in range(first, min(first + each, rows)):
        dy = tl.load(dy_ptr + row * n + i, mask=i < n, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * n + i, mask=i < n, other=0.0).to(tl.float32)
        r = tl.load(r_ptr + row)
        dw += dy * x * r
        g = dy * w
        dx = r * (g - x * (r * r / n) * tl.sum(g * x))
        tl.store(dy_ptr + row * n + i, dx, mask=i < n)
    tl.store(dw_ptr + tl.program_id(0) * n + i, dw, mask=i < n)


@pytest.mark.parametrize(("kind", "wide"), [("bfloat16", 0), ("float16", 1), ("float32", 1)])
def test_rms_norm(kind: str, wide: int) -> None:
    dtype = getattr(torch, kind)
    x, dy, w = (torch.randn(*shape).to(dtype) for shape in ((7, 50), (7, 50), (50,)))
    y, r, dw = torch.empty_like(x), torch.empty(7), torch.empty(2, 50)
    inputs = [t.double().requires_grad_() for t in (x, w)]
    expected = torch.nn.functional.rms_norm(inputs[0], (50,), eps=1e-6) * (1 + inputs[1])
    expected.backward(dy.double())
    rms_norm[(7,)](x, w, y, r, 50, 1e-6, 1.0, MODE=wide, BLOCK=64)
    rms_norm_backward[(2,)](dy, x, w, r, dw, 7, 50, 1.0, 4, BLOCK=64)
    tolerance = 16 * torch.finfo(dtype).eps
    close(y, expected.detach(), tolerance)
    close(dy, inputs[0].grad, tolerance)
    close(dw.sum(0), inputs[1].grad, 2e-5)


def _loss(logits_ptr, loss_ptr, label_ptr, n, stride, CAP: tl.constexpr, CAPPED: tl.constexpr,
          BLOCK: tl.constexpr):  # fmt: skip
    """Cross entropy of a row, whose gradient is left where its logits were."""
    row = tl.program_id(0)
    logits_ptr += row * tl.cast(stride, tl.int64)
    label = tl.load(label_ptr + row).to(tl.int32)
    if label == -100:
        for start in range(0, n, BLOCK):
            i = start + tl.arange(0, BLOCK)
            tl.store(logits_ptr + i, 0.0, mask=i < n)
        return
    top = float("-inf")
    weight = 0.0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + i, mask=i < n, other=float("-inf")).to(tl.float32)
        if CAPPED:
            x = tl.where(i < n, CAP * tl.extra.libdevice.tanh(x / CAP), float("-inf"))
        higher = tl.maximum(top, tl.max(x))
        weight = weight * tl.exp(top - higher) + tl.sum(tl.exp(x - higher))
        top = higher
    own = tl.load(logits_ptr + label).to(tl.float32)
    own = CAP * tl.extra.libdevice.tanh(own / CAP) if CAPPED else own
    tl.debug_barrier()
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + i, mask=i < n)
        slope = tl.full([BLOCK], 1.0, tl.float32)
        if CAPPED:
            part = tl.extra.libdevice.tanh(x / CAP)
            x, slope = CAP * part, 1 - part * part
        p = tl.exp(x - top) / weight
        tl.store(logits_ptr + i, (p - (i == label)) * slope, mask=i < n)
    tl.store(loss_ptr + row, top + tl.log(weight) - own)


loss_in_place = triton.heuristics({"CAPPED": lambda args: bool(args["CAP"])})(triton.jit(_loss))


@pytest.mark.parametrize("cap", [0, 3.0])
def test_cross_entropy_in_place(cap: float) -> None:
    logits, labels = torch.randn(5, 40)[:, :37], torch.tensor([3, -100, 0, 36, -100])
    wide, loss = logits.double().requires_grad_(), torch.zeros(5)
    capped = cap * torch.tanh(wide / cap) if cap else wide
    expected = torch.nn.functional.cross_entropy(capped, labels, reduction="none")
    expected.sum().backward()
    loss_in_place[(5,)](logits, loss, labels, 37, logits.stride(0), CAP=cap, BLOCK=16)
    close(loss, expected.detach())
    close(logits, wide.grad)


@triton.jit
def adam_of_many(tables, size_ptr, owner_ptr, start_ptr, rates, step, CHUNK: tl.constexpr):
    """One launch for many tensors: their addresses are in memory."""
    owner, start = tl.load(owner_ptr + tl.program_id(0)), tl.load(start_ptr + tl.program_id(0))
    i = start + tl.arange(0, CHUNK)
    inside = i < tl.load(size_ptr + owner)
    p_ptr, g_ptr, m_ptr, v_ptr = [
        tl.load(table + owner).to(tl.pointer_type(tl.float32)) for table in tables
    ]
    lr, beta1, beta2, eps = rates
    g = tl.load(g_ptr + i, mask=inside)
    m = beta1 * tl.load(m_ptr + i, mask=inside) + (1 - beta1) * g
    v = beta2 * tl.load(v_ptr + i, mask=inside) + (1 - beta2) * g * g
    power = tl.extra.libdevice.pow
    unbiased = (m / (1 - power(beta1, step)), v / (1 - power(beta2, step)))
    p = tl.load(p_ptr + i, mask=inside) - lr * unbiased[0] / (tl.sqrt(unbiased[1]) + eps)
    for pointer, value in zip((p_ptr, m_ptr, v_ptr), (p, m, v), strict=True):
        tl.store(pointer + i, value, mask=inside)


def test_adam_over_many_tensors() -> None:
    sizes = (5, 70, 33)
    held = [[torch.randn(n) for n in sizes] for _ in range(2)]
    held += [[torch.zeros(n) for n in sizes] for _ in range(2)]
    theirs = [p.clone().requires_grad_() for p in held[0]]
    optimiser = torch.optim.Adam(theirs, lr=0.1)
    chunks = torch.tensor([(i, s) for i, n in enumerate(sizes) for s in range(0, n, 32)])
    owners, starts = chunks.T.contiguous().to(torch.int32)
    tables = tuple(torch.tensor([t.data_ptr() for t in tensors]) for tensors in held)
    for step in range(1, 4):
        for p, g in zip(theirs, held[1], strict=True):
            p.grad = g
        optimiser.step()
        rates = (0.1, 0.9, 0.999, 1e-8)
        adam_of_many[(len(chunks),)](
            tables, torch.tensor(sizes), owners, starts, rates, step, CHUNK=32
        )
    for ours, expected in zip(held[0], theirs, strict=True):
        close(ours, expected.detach())


def clear(name: str) -> Any:
    return lambda arguments: arguments[name].zero_()


@triton.autotune(
    [triton.Config({"ROWS": 16, "COLUMNS": 16}, num_warps=8, pre_hook=clear("dq"))], key=["n"]
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["ROWS"] == 0})
@triton.jit
def attention_backward(
    q, k, v, do, lse, delta, dq, dk, dv, scale, n, D: tl.constexpr, CAUSAL: tl.constexpr,
    EVEN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradients of a block of keys and values; those of queries are added by all programs."""
    base = tl.program_id(1) * n * D
    d = tl.arange(0, D)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    here = base + column[:, None] * D + d[None, :]
    keys = tl.load(k + here, mask=(column < n)[:, None], other=0.0)
    values = tl.load(v + here, mask=(column < n)[:, None], other=0.0)
    d_keys = tl.zeros([COLUMNS, D], tl.float32)
    d_values = tl.zeros([COLUMNS, D], tl.float32)
    begin = (tl.program_id(0) * COLUMNS // ROWS) * ROWS if CAUSAL else 0
    for start in range(begin, n, ROWS):
        start = tl.multiple_of(start, ROWS)
        row = start + tl.arange(0, ROWS)
        there = base + row[:, None] * D + d
        if EVEN:
            query, grad = tl.load(q + there), tl.load(do + there)
        else:
            query = tl.load(q + there, mask=row[:, None] < n, other=0.0)
            grad = tl.load(do + there, mask=row[:, None] < n, other=0.0)
        scores = tl.dot(query, tl.trans(keys), allow_tf32=False) * scale
        shown = (row < n)[:, None] & (column < n)[None, :]
        if CAUSAL:
            shown &= row[:, None] >= column[None, :]
        at = tl.program_id(1) * n + row
        p = tl.exp(scores - tl.load(lse + at, mask=row < n, other=0.0)[:, None])
        p = tl.where(shown, p, 0.0)
        d_values += tl.dot(tl.trans(p), grad)
        inner = tl.dot(grad, tl.trans(values)) - tl.load(delta + at, mask=row < n)[:, None]
        ds = p * inner * scale
        d_keys = tl.dot(ds.T, query, d_keys)
        tl.atomic_add(dq + there, tl.dot(ds, keys), mask=row[:, None] < n, sem="relaxed")
    tl.store(dk + here, d_keys, mask=(column < n)[:, None])
    tl.store(dv + here, d_values, mask=(column < n)[:, None])


@pytest.mark.parametrize(("n", "causal"), [(32, True), (27, False), (27, True)])
def test_gradients_of_attention(n: int, causal: bool) -> None:
    heads, d = 2, 16
    q, k, v, do = torch.randn(4, heads, n, d)
    wide = [t.double().requires_grad_() for t in (q, k, v)]
    scores = wide[0] @ wide[1].mT * d**-0.5
    if causal:
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
    out = scores.softmax(-1) @ wide[2]
    out.backward(do.double())
    delta = (out.detach() * do).sum(-1).float()
    found = torch.randn(3, heads, n, d)
    attention_backward[lambda meta: (triton.cdiv(n, meta["COLUMNS"]), heads)](
        q, k, v, do, scores.detach().logsumexp(-1).float(), delta, *found, d**-0.5, n, D=d,
        CAUSAL=causal,
    )  # fmt: skip
    for ours, expected in zip(found, wide, strict=True):
        close(ours, expected.grad, 1e-4)


# --- sequences: chunks, states, jagged rows ---


@triton.heuristics({"JAGGED": lambda args: args["starts"] is not None})
@triton.jit(do_not_specialize=["T"])
def gated_states(
    k, v, g, first, last, starts, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    CHUNK: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, JAGGED: tl.constexpr,
):  # fmt: skip
    """The state of linear attention that decays by exp(g), a sum of gates within each chunk."""
    sequence, head = tl.program_id(1) // H, tl.program_id(1) % H
    if JAGGED:
        begin, end = tl.load(starts + sequence).to(tl.int32), tl.load(starts + sequence + 1)
        T = (end - begin).to(tl.int32)
    else:
        begin = sequence * T
    k += (begin * H + head) * K
    v += (begin * H + head) * V
    g += begin * H + head
    state = tl.zeros([BK, BV], dtype=tl.float32)
    corner = (0, tl.program_id(0) * BV)
    if first is not None:
        p = tl.make_block_ptr(
            first + tl.program_id(1) * K * V, (K, V), (V, 1), corner, (BK, BV), (1, 0)
        )
        state += tl.load(p, boundary_check=(0, 1)).to(tl.float32)
    for chunk in range(tl.cdiv(T, CHUNK)):
        at = chunk * CHUNK
        keys = tl.make_block_ptr(k, (K, T), (1, H * K), (0, at), (BK, CHUNK), (0, 1))
        values = tl.make_block_ptr(
            v, (T, V), (H * V, 1), (at, tl.program_id(0) * BV), (CHUNK, BV), (1, 0)
        )
        gates = tl.make_block_ptr(g, (T,), (H,), (at,), (CHUNK,), (0,))
        total = tl.load(g + (min(at + CHUNK, T) - 1) * H)
        inside = at + tl.arange(0, CHUNK) < T
        fade = tl.where(inside, tl.exp(total - tl.load(gates, boundary_check=(0,))), 0)
        value = tl.load(values, boundary_check=(0, 1)) * fade[:, None]
        key = tl.load(keys, boundary_check=(0, 1))
        state = state * tl.exp(total) + tl.dot(key, value.to(k.dtype.element_ty))
    p = tl.make_block_ptr(last + tl.program_id(1) * K * V, (K, V), (V, 1), corner, (BK, BV), (1, 0))
    state = state.to(p.dtype.element_ty, fp_downcast_rounding="rtne")
    tl.store(p, state, boundary_check=(0, 1))


@pytest.mark.parametrize("jagged", [False, True])
def test_states_of_gated_linear_attention(jagged: bool) -> None:
    heads, size, width, chunk = 2, 12, 10, 8
    lengths = [20, 9] if jagged else [13, 13]
    k, v = torch.randn(sum(lengths), heads, size), torch.randn(sum(lengths), heads, width)
    gates, starts = -torch.rand(sum(lengths), heads), starts_of(lengths)
    first, last = torch.randn(2, heads, size, width), torch.empty(2, heads, size, width)
    sums, expected = gates.clone(), first.double()
    for i, n in enumerate(lengths):
        for t in range(n):
            at = int(starts[i]) + t
            sums[at] += sums[at - 1] if t % chunk else 0
            update = k[at, :, :, None].double() * v[at, :, None]
            expected[i] = expected[i] * gates[at].double().exp()[:, None, None] + update
    gated_states[(2, 2 * heads)](
        k, v, sums, first, last, starts if jagged else None, lengths[0], H=heads, K=size,
        V=width, CHUNK=chunk, BK=16, BV=8,
    )  # fmt: skip
    close(last, expected, 1e-4)


@triton.jit
def inverse(a_ptr, out_ptr, T, SIZE: tl.constexpr):
    """Invert 1 + a for each block on the diagonal, a strictly below it, row by row."""
    start = tl.program_id(0) * SIZE
    i = tl.arange(0, SIZE)
    block = tl.make_block_ptr(a_ptr, (T, SIZE), (SIZE, 1), (start, 0), (SIZE, SIZE), (1, 0))
    a = tl.load(block, boundary_check=(0, 1), padding_option="zero")
    found = -tl.where(i[:, None] > i[None, :], a, 0)
    for row in range(1, min(SIZE, T - start)):
        line = tl.where(i < row, -tl.load(a_ptr + (start + row) * SIZE + i), 0.0)
        line += tl.sum(line[:, None] * found, 0)
        found = tl.where((i == row)[:, None], line, found)
    found += i[:, None] == i[None, :]
    block = tl.make_block_ptr(out_ptr, (T, SIZE), (SIZE, 1), (start, 0), (SIZE, SIZE), (1, 0))
    tl.store(block, found.to(block.dtype.element_ty), boundary_check=(0, 1))


def test_triangular_inverses() -> None:
    a, out = 0.3 * torch.randn(21, 8), torch.zeros(21, 8)
    inverse[(3,)](a, out, 21, SIZE=8)
    for start in range(0, 21, 8):
        block = a[start : start + 8].double()
        n = len(block)
        close(out[start : start + 8, :n], torch.linalg.inv(torch.eye(n) + block[:, :n].tril(-1)))


@triton.jit
def welford(mean, square, count, mean_, square_, count_):
    """Join the means, sums of squared distances and counts of two sets (Chan et al., 1983)."""
    total = count + count_
    share = tl.where(total == 0, 0.0, count_ / total)
    away = mean_ - mean
    return mean + away * share, square + square_ + away * away * count * share, total


@triton.jit
def jagged_variance(x_ptr, starts_ptr, out_ptr, D: tl.constexpr, ROWS: tl.constexpr):
    begin, end = tl.load(starts_ptr + tl.program_id(0)), tl.load(starts_ptr + tl.program_id(0) + 1)
    d = tl.arange(0, D)[None, :]
    mean = tl.zeros((1, D), tl.float32)
    square, count = mean, mean
    for at in range(begin, end, ROWS):
        row = at + tl.arange(0, ROWS)[:, None]
        here = tl.broadcast_to((row < end).to(tl.float32), (ROWS, D))
        x = tl.load(x_ptr + row * D + d, mask=row < end, other=0.0)
        found = tl.reduce((x, tl.zeros_like(x), here), 0, welford, keep_dims=True)
        mean, square, count = welford(mean, square, count, *found)
    tl.store(out_ptr + tl.program_id(0) * D + d, tl.where(count > 0, square / count, -1.0))


def test_variances_of_jagged_rows() -> None:
    lengths, x, out = [3, 0, 9, 1], torch.randn(13, 8), torch.empty(4, 8)
    jagged_variance[(4,)](x, starts_of(lengths), out, D=8, ROWS=4)
    for part, found in zip(x.double().split(lengths), out, strict=True):
        close(found, part.var(0, unbiased=False) if len(part) else torch.full((8,), -1.0))


# --- programs that wait for others ---


@triton.jit
def look_back(x_ptr, out_ptr, flag_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    """A sum up to each element: a block waits for the sum of those before it."""
    block = tl.program_id(0)
    i = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    before = 0.0
    if block > 0:
        while tl.atomic_add(flag_ptr + block - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(sum_ptr + block - 1, volatile=True)
    tl.store(sum_ptr + block, before + tl.sum(x, 0))
    tl.atomic_xchg(flag_ptr + block, 1, sem="release")
    tl.store(out_ptr + i, before + tl.cumsum(x, 0), mask=i < n)


def test_a_scan_over_blocks() -> None:
    x, out = torch.randn(100), torch.empty(100)
    look_back[(7,)](x, out, torch.zeros(7, dtype=torch.int32), torch.zeros(7), 100, BLOCK=16)
    close(out, x.double().cumsum(0))


@triton.jit
def steps_of_a_tile(a, b, c, lock, N, K, begin, end, per, SIZE: tl.constexpr):
    tile = begin // per
    m = tile // tl.cdiv(N, SIZE) * SIZE + tl.arange(0, SIZE)
    n = tile % tl.cdiv(N, SIZE) * SIZE + tl.arange(0, SIZE)
    k = (begin % per) * SIZE + tl.arange(0, SIZE)
    a += m[:, None] * K + k[None, :]
    b += k[:, None] * N + n[None, :]
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for _ in range(begin, end):
        total += tl.dot(tl.load(a), tl.load(b))
        a += SIZE
        b += SIZE * N
    c += m[:, None] * N + n[None, :]
    if begin % per == 0:
        tl.store(c, total)
        tl.atomic_xchg(lock + tile, 1)
    else:
        while tl.atomic_cas(lock + tile, 1, 1) != 1:
            pass
        tl.atomic_add(c, total)


@triton.jit
def stream_k(a, b, c, lock, N, K, steps, per, SIZE: tl.constexpr):
    """Each program takes as many steps along K, over the borders of tiles."""
    each = tl.cdiv(steps, tl.num_programs(0))
    begin = tl.program_id(0) * each
    stop = tl.minimum(begin + each, steps)
    while begin < stop:
        end = tl.minimum(begin + (per - begin % per), stop)
        steps_of_a_tile(a, b, c, lock, N, K, begin, end, per, SIZE)
        begin = end


def test_a_product_whose_programs_share_tiles() -> None:
    a, b, c = torch.randn(32, 64), torch.randn(64, 32), torch.zeros(32, 32)
    stream_k[(3,)](a, b, c, torch.zeros(4, dtype=torch.int32), 32, 64, 16, 4, SIZE=16)
    close(c, a.double() @ b.double(), 1e-4)


# --- order, by the names of Triton's own modules ---


@triton.jit
def exchange(x, index, turned, CUT: tl.core.constexpr, LOG: tl.core.constexpr):
    outer: tl.core.constexpr = x.numel >> LOG
    shape: tl.core.constexpr = [outer * 2**CUT, 2, 2 ** (LOG - CUT - 1)]
    pairs, places = tl.core.reshape(x, shape), tl.core.reshape(index, shape)
    right = tl.core.arange(0, 2)[None, :, None] == 1
    swapped = tl.flip(pairs, 1)
    later, away = tl.where(right, pairs, swapped), tl.flip(places, 1)
    earlier = tl.where(right, swapped, pairs)
    swap = (earlier > later) != turned
    x = tl.core.where(swap, swapped, pairs).reshape(x.shape)
    return x, tl.core.where(swap, away, places).reshape(x.shape)


@triton.jit
def arg_sort(x_ptr, out_ptr, index_ptr, N: tl.constexpr, LOG: tl.constexpr):
    i = tl.arange(0, N)
    x, index = tl.load(x_ptr + i), i
    for stage in tl.core.static_range(1, LOG + 1):
        turned = tl.standard.zeros_like(i)
        if stage < LOG:
            turned = (i >> stage) & 1
        for j in tl.core.static_range(stage):
            CUT: tl.constexpr = LOG - stage + j
            shape: tl.constexpr = [2**CUT, 2, 2 ** (LOG - CUT - 1)]
            x, index = exchange(x, index, turned.reshape(shape) != 0, CUT, LOG)
    tl.store(out_ptr + i, x)
    tl.store(index_ptr + i, index)


def test_a_bitonic_sort_with_indices() -> None:
    x, out, index = torch.randn(32), torch.empty(32), torch.empty(32, dtype=torch.int32)
    arg_sort[(1,)](x, out, index, N=32, LOG=5)
    assert torch.equal(out, x.sort().values)
    assert torch.equal(x[index.long()], out)
