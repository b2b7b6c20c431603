"""Kernels in the style of public Triton code over rows and elements, equal to PyTorch."""

from __future__ import annotations

import pytest
import teeny_triton as triton
import teeny_triton.language as tl

from .harness import close, torch

# --- layer norm: forward, and backward with locks ---


@triton.jit
def layer_norm_forward(
    X, Y, W, B, Mean, Rstd, stride, N, eps, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    sums = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        sums += tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=0) / N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        mask = cols < N
        y = (tl.load(X + cols, mask=mask, other=0.0).to(tl.float32) - mean) * rstd
        y = y * tl.load(W + cols, mask=mask)
        if HAS_BIAS:
            y += tl.load(B + cols, mask=mask)
        tl.store(Y + cols, y, mask=mask)


@triton.jit
def layer_norm_backward(
    DX, DY, DW, DB, X, W, Mean, Rstd, locks, stride, N,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Rows that share a group add to one row of DW and DB, one after the other."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    group = row % GROUPS
    lock, used = locks + group, locks + GROUPS + group
    place = row.to(tl.int64) * stride + cols
    x = tl.load(X + place, mask=mask, other=0).to(tl.float32)
    dy = tl.load(DY + place, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + cols, mask=mask).to(tl.float32)
    rstd = tl.load(Rstd + row)
    normal = tl.where(mask, (x - tl.load(Mean + row)) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    along = tl.sum(normal * wdy, axis=0) / N
    dx = (wdy - (normal * along + tl.sum(wdy, axis=0) / N)) * rstd
    tl.store(DX + place, dx, mask=mask)
    dw, db = (dy * normal).to(w.dtype), dy.to(w.dtype)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    count = tl.load(used)
    DW, DB = DW + group * N + cols, DB + group * N + cols
    if count == 0:
        tl.atomic_xchg(used, 1)
    else:
        dw += tl.load(DW, mask=mask)
        db += tl.load(DB, mask=mask)
    tl.store(DW, dw, mask=mask)
    tl.store(DB, db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@pytest.mark.parametrize(("rows", "n"), [(7, 33), (16, 64)])
def test_layer_norm(rows: int, n: int) -> None:
    x, dy = torch.randn(rows, n), torch.randn(rows, n)
    w, b = torch.randn(n), torch.randn(n)
    y, dx = torch.empty_like(x), torch.empty_like(x)
    mean, rstd = torch.empty(rows), torch.empty(rows)
    layer_norm_forward[(rows,)](x, y, w, b, mean, rstd, n, n, 1e-5, HAS_BIAS=True, BLOCK=32)
    dw, db = torch.full((4, n), 9.0), torch.full((4, n), 9.0)
    locks = torch.zeros(8, dtype=torch.int32)
    layer_norm_backward[(rows,)](dx, dy, dw, db, x, w, mean, rstd, locks, n, n, GROUPS=4, BLOCK=64)
    inputs = [t.double().requires_grad_() for t in (x, w, b)]
    expected = torch.nn.functional.layer_norm(inputs[0], (n,), *inputs[1:])
    close(y, expected)
    expected.backward(dy.double())
    for found, wanted in zip((dx, dw.sum(0), db.sum(0)), inputs, strict=True):
        close(found, wanted.grad)


# --- losses, dropout, gates ---


@triton.jit
def cross_entropy(logits, targets, losses, stride, V, ignore, smoothing, BLOCK: tl.constexpr):
    """The loss of a row by one pass of an online softmax; leaves its gradient in `logits`."""
    row = tl.program_id(0).to(tl.int64)
    y = tl.load(targets + row)
    logits += row * stride
    if y == ignore:
        for i in range(0, V, BLOCK):
            cols = i + tl.arange(0, BLOCK)
            tl.store(logits + cols, 0.0, mask=cols < V)
        tl.store(losses + row, 0.0)
        return
    m = float("-inf")
    d = 0.0
    scaled = 0.0
    eps = smoothing / V
    at_target = tl.load(logits + y).to(tl.float32)
    for i in range(0, V, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        x = tl.load(logits + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
        scaled += tl.sum(tl.where(cols < V, -eps * x, 0.0))
        higher = tl.maximum(m, tl.max(x))
        d = d * tl.exp(m - higher) + tl.sum(tl.exp(x - higher))
        m = higher
    logsumexp = m + tl.log(d)
    for i in range(0, V, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        x = tl.load(logits + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
        grad = tl.exp(x - m) / d - eps
        grad = tl.where(cols != y, grad, grad - (1 - smoothing))
        tl.store(logits + cols, grad, mask=cols < V)
    loss = logsumexp - at_target
    tl.store(losses + row, loss * (1 - smoothing) + scaled + smoothing * logsumexp)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(smoothing: float) -> None:
    logits, targets = torch.randn(6, 50) * 4, torch.tensor([3, 49, -100, 0, 7, 20])
    exact = logits.double().requires_grad_()
    expected = torch.nn.functional.cross_entropy(
        exact, targets, reduction="none", label_smoothing=smoothing
    )
    expected.sum().backward()
    losses = torch.empty(6)
    cross_entropy[(6,)](logits, targets, losses, 50, 50, -100, smoothing, BLOCK=16)
    close(losses, expected)
    close(logits, exact.grad)


@triton.jit
def seeded_dropout(x_ptr, output_ptr, n_elements, p, seed, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    tl.store(output_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


def test_dropout_repeats_by_its_seed() -> None:
    x = torch.rand(3000) + 0.5
    first, again, other = (torch.empty(3000) for _ in range(3))
    for out, seed in ((first, 123), (again, 123), (other, 512)):
        seeded_dropout[lambda meta: (triton.cdiv(3000, meta["BLOCK_SIZE"]),)](
            x, out, 3000, p=0.25, seed=seed, BLOCK_SIZE=512
        )
    kept = first != 0
    assert (first == again).all()
    assert not (first == other).all()
    assert 0.70 < kept.double().mean() < 0.80
    close(first[kept], x[kept] / 0.75)


@triton.jit
def top_k_gate(logits, weights, experts, n, E: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr):
    """The K best experts of each row, by repeated argmax, with softmax weights among them."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    e = tl.arange(0, E)
    x = tl.load(logits + rows[:, None] * E + e[None, :], mask=(rows < n)[:, None], other=0.0)
    first = tl.max(x, axis=1)
    total = tl.zeros((ROWS,), tl.float32)
    for k in tl.static_range(K):
        best, index = tl.max(x, axis=1, return_indices=True)
        weight = tl.exp(best - first)
        total += weight
        tl.store(weights + rows * K + k, weight, mask=rows < n)
        tl.store(experts + rows * K + k, index, mask=rows < n)
        x = tl.where(e[None, :] == index[:, None], float("-inf"), x)
    for k in tl.static_range(K):
        place = weights + rows * K + k
        tl.store(place, tl.load(place, mask=rows < n) / total, mask=rows < n)


def test_top_k_gating() -> None:
    logits = torch.randn(11, 8)
    weights, experts = torch.zeros(11, 3), torch.zeros(11, 3, dtype=torch.int32)
    top_k_gate[(3,)](logits, weights, experts, 11, E=8, K=3, ROWS=4)
    values, indices = logits.double().topk(3)
    close(weights, values.softmax(-1))
    assert (experts == indices).all()


# --- scans, rotations, embeddings, quantisation, optimisers ---


@triton.jit
def decayed(a_left, b_left, a_right, b_right):
    """Two steps of h = a * h + b as one."""
    return a_left * a_right, a_right * b_left + b_right


@triton.jit
def selective_scan(
    u_ptr, delta_ptr, A_ptr, B_ptr, C_ptr, D_ptr, y_ptr, L, DIM,
    STATES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The recurrence of a state space model: chunks are scanned, states carried over."""
    batch, channel = tl.program_id(0), tl.program_id(1)
    s = tl.arange(0, STATES)
    a = tl.load(A_ptr + channel * STATES + s)
    skip = tl.load(D_ptr + channel)
    h = tl.zeros((STATES,), tl.float32)
    for start in range(0, L, BLOCK):
        t = start + tl.arange(0, BLOCK)
        inside = t < L
        row = (batch * L + t) * DIM + channel
        u = tl.load(u_ptr + row, mask=inside, other=0.0)
        delta = tl.load(delta_ptr + row, mask=inside, other=0.0)
        delta = tl.where(delta <= 20.0, tl.log(1 + tl.exp(delta)), delta)
        delta = tl.where(inside, delta, 0.0)
        state = (batch * L + t)[:, None] * STATES + s[None, :]
        b = tl.load(B_ptr + state, mask=inside[:, None], other=0.0)
        c = tl.load(C_ptr + state, mask=inside[:, None], other=0.0)
        decay = tl.exp(delta[:, None] * a[None, :])
        decays, states = tl.associative_scan((decay, (delta * u)[:, None] * b), 0, decayed)
        states += decays * h[None, :]
        tl.store(y_ptr + row, tl.sum(states * c, axis=1) + skip * u, mask=inside)
        last = tl.arange(0, BLOCK)[:, None] == BLOCK - 1
        h = tl.sum(tl.where(last, states, 0.0), axis=0)


def test_selective_scan() -> None:
    batch, length, dim, n = 2, 21, 3, 4
    u, delta = torch.randn(batch, length, dim), torch.randn(batch, length, dim)
    a, d = -torch.rand(dim, n), torch.randn(dim)
    b, c = torch.randn(batch, length, n), torch.randn(batch, length, n)
    y = torch.empty_like(u)
    selective_scan[(batch, dim)](u, delta, a, b, c, d, y, length, dim, STATES=n, BLOCK=8)
    h = torch.zeros(batch, dim, n).double()
    for t in range(length):
        step = torch.nn.functional.softplus(delta[:, t].double())[..., None]
        h = h * (step * a.double()).exp() + step * b[:, t, None].double() * u[:, t, :, None]
        close(y[:, t], (h * c[:, t, None]).sum(-1) + d * u[:, t], 1e-4)


@triton.jit
def rotate(
    q_ptr, cos_ptr, sin_ptr, out_ptr, heads, length, HALF: tl.constexpr,
    INTERLEAVED: tl.constexpr, CONJUGATE: tl.constexpr = False,
):  # fmt: skip
    """Rotary embedding of one head at one place."""
    place = tl.program_id(0) % length
    i = tl.arange(0, HALF)
    cos = tl.load(cos_ptr + place * HALF + i)
    sin = tl.load(sin_ptr + place * HALF + i)
    if CONJUGATE:
        sin = -sin
    for head in range(heads):
        base = (tl.program_id(0) * heads + head) * (2 * HALF)
        if INTERLEAVED:
            x0, x1 = tl.split(tl.reshape(tl.load(q_ptr + base + tl.arange(0, 2 * HALF)), (HALF, 2)))
            y = tl.interleave(x0 * cos - x1 * sin, x0 * sin + x1 * cos)
            tl.store(out_ptr + base + tl.arange(0, 2 * HALF), y)
        else:
            x0, x1 = tl.load(q_ptr + base + i), tl.load(q_ptr + base + HALF + i)
            tl.store(out_ptr + base + i, x0 * cos - x1 * sin)
            tl.store(out_ptr + base + HALF + i, x0 * sin + x1 * cos)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(interleaved: bool) -> None:
    q = torch.randn(2, 5, 3, 16)
    angle = torch.arange(5)[:, None] / 10000 ** (torch.arange(8) / 8)
    cos, sin, out, back = angle.cos(), angle.sin(), torch.empty_like(q), torch.empty_like(q)
    rotate[(10,)](q, cos, sin, out, 3, 5, HALF=8, INTERLEAVED=interleaved)
    pairs = q.unflatten(-1, (8, 2)) if interleaved else q.unflatten(-1, (2, 8)).transpose(-1, -2)
    turned = torch.view_as_complex(pairs.double().contiguous())
    turned = torch.view_as_real(turned * torch.exp(1j * angle.double())[:, None])
    expected = turned if interleaved else turned.transpose(-1, -2)
    close(out, expected.flatten(-2))
    rotate[(10,)](out, cos, sin, back, 3, 5, HALF=8, INTERLEAVED=interleaved, CONJUGATE=True)
    close(back, q)


@triton.jit
def embed(out, table, index, D, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    row = tl.load(index + token).to(tl.int64)
    for start in range(0, D, BLOCK):
        d = start + tl.arange(0, BLOCK)
        tl.store(out + token * D + d, tl.load(table + row * D + d, mask=d < D), mask=d < D)


@triton.jit
def embed_backward(d_table, d_out, index, n, D, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(index + token, mask=token < n, other=0)
    mask = (token < n)[:, None] & (d < D)[None, :]
    grad = tl.load(d_out + token[:, None] * D + d[None, :], mask=mask)
    tl.atomic_add(d_table + row[:, None] * D + d[None, :], grad, mask=mask)


def test_embedding() -> None:
    table, index = torch.randn(10, 20), torch.tensor([3, 3, 9, 0, 3, 7, 9])
    out, d_out, d_table = torch.empty(7, 20), torch.randn(7, 20), torch.zeros(10, 20)
    embed[(7,)](out, table, index, 20, BLOCK=16)
    assert (out == table[index]).all()
    embed_backward[(2, 2)](d_table, d_out, index, 7, 20, ROWS=4, BLOCK=16)
    close(d_table, torch.zeros(10, 20).index_add_(0, index, d_out))


@triton.jit
def quantise_rows(x_ptr, q_ptr, scale_ptr, n, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + i, mask=i < n, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), 0), 1e-10) / 127.0
    q = tl.clamp(tl.floor(x / scale + 0.5), -128.0, 127.0)
    tl.store(q_ptr + row * n + i, q.to(tl.int8), mask=i < n)
    tl.store(scale_ptr + row, scale)


def test_rows_are_quantised() -> None:
    x = torch.randn(4, 30) * 5
    q, scale = torch.empty(4, 30, dtype=torch.int8), torch.empty(4)
    quantise_rows[(4,)](x, q, scale, 30, BLOCK=32)
    close(scale, x.abs().amax(1) / 127)
    assert (q.double() * scale[:, None] - x).abs().max() <= scale.max() * 0.50001


@triton.jit
def adamw(params, grads, moments, n, lr, betas, eps, decay, step, BLOCK: tl.constexpr):
    """A step of AdamW on several tensors of one size, given as tuples."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    for t in tl.static_range(len(params)):
        first, second = moments[t]
        p, g = tl.load(params[t] + i, mask=inside), tl.load(grads[t] + i, mask=inside)
        m = tl.load(first + i, mask=inside) * betas[0] + g * (1 - betas[0])
        v = tl.load(second + i, mask=inside) * betas[1] + g * g * (1 - betas[1])
        tl.store(first + i, m, mask=inside)
        tl.store(second + i, v, mask=inside)
        m_hat = m / (1 - tl.exp2(step * tl.log2(betas[0])))
        v_hat = v / (1 - tl.exp2(step * tl.log2(betas[1])))
        p = p * (1 - lr * decay) - lr * m_hat / (tl.sqrt(v_hat) + eps)
        tl.store(params[t] + i, p, mask=inside)


def test_a_step_of_adamw() -> None:
    params = [torch.randn(70) for _ in range(3)]
    exact = [p.double().requires_grad_() for p in params]
    moments = [(torch.zeros(70), torch.zeros(70)) for _ in params]
    optimiser = torch.optim.AdamW(exact, 1e-2, (0.9, 0.99), 1e-8, 0.1)
    for step in (1, 2, 3):
        grads = [torch.randn(70) for _ in params]
        for p, g in zip(exact, grads, strict=True):
            p.grad = g.double()
        optimiser.step()
        adamw[(2,)](params, grads, moments, 70, 1e-2, (0.9, 0.99), 1e-8, 0.1, step, BLOCK=64)
    for p, wanted in zip(params, exact, strict=True):
        close(p, wanted, 1e-4)
