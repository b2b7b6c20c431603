"""The example kernels, launched natively, interpreted and sanitised, against PyTorch."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from teeny_kernels import examples

torch = pytest.importorskip("torch")
pytest.importorskip("teeny_cpu")

MODES = {
    "native": {"TEENY_INTERPRET": "0", "TEENY_SANITIZE": "0"},
    "interpreted": {"TEENY_INTERPRET": "1", "TEENY_SANITIZE": "0"},
    "sanitised": {"TEENY_INTERPRET": "0", "TEENY_SANITIZE": "1"},
}


@pytest.fixture(scope="session")
def code_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder for machine code of the session."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(params=MODES, autouse=True)
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, code_cache: str) -> str:
    for name, value in MODES[request.param].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TEENY_DEVICE", "cpu")
    monkeypatch.setenv("TEENY_CACHE_DIR", code_cache)
    torch.manual_seed(0)
    return str(request.param)


@pytest.fixture
def large(mode: str) -> int:
    """What sizes are multiplied by: compiled code is tested on larger ones."""
    return 4 if mode == "native" else 1


def close(actual: Any, expected: Any, tolerance: float = 2e-5) -> None:
    found = torch.from_numpy(np.asarray(actual, np.float64))
    torch.testing.assert_close(found, expected.detach().double(), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("n", [1, 1000, 3001])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_add(n: int, dtype: str) -> None:
    x, y = ((torch.randn(n) * 100).to(getattr(torch, dtype)) for _ in range(2))
    np.testing.assert_array_equal(examples.add(x.numpy(), y.numpy()), (x + y).numpy())


@pytest.mark.parametrize("shape", [(1, 1), (7, 33), (5, 128)])
def test_softmax(shape: tuple[int, int], large: int) -> None:
    x = torch.randn(shape[0] * large, shape[1]) * 5
    close(examples.softmax(x.numpy()), torch.softmax(x.double(), 1), 2e-6)


def test_dropout(large: int) -> None:
    x = torch.rand(1000 * large) + 0.5
    out = examples.dropout(x.numpy(), 0.3, seed=7)
    kept = out != 0
    assert abs(kept.mean() - 0.7) < 4 * math.sqrt(0.21 / x.numel())
    np.testing.assert_allclose(out[kept], x.numpy()[kept] / 0.7, rtol=1e-6)
    np.testing.assert_array_equal(examples.dropout(x.numpy(), 0.3, seed=7), out)
    assert (examples.dropout(x.numpy(), 0.3, seed=8) != out).any()
    gradient = examples.dropout(np.ones_like(out), 0.3, seed=7)
    np.testing.assert_array_equal(gradient != 0, kept)


@pytest.mark.parametrize(("rows", "n"), [(1, 5), (9, 70)])
def test_layer_norm(rows: int, n: int, large: int) -> None:
    x, dy = (torch.randn(rows * large, n) + shift for shift in (3, 0))
    weight, bias = torch.randn(n), torch.randn(n)
    y, mean, scale = examples.layer_norm(x.numpy(), weight.numpy(), bias.numpy())
    inputs = [t.double().requires_grad_() for t in (x, weight, bias)]
    expected = torch.nn.functional.layer_norm(inputs[0], (n,), *inputs[1:])
    close(y, expected)
    expected.backward(dy.double())
    found = examples.layer_norm_backward(dy.numpy(), x.numpy(), weight.numpy(), mean, scale)
    for ours, theirs in zip(found, inputs, strict=True):
        close(ours, theirs.grad, 5e-5)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (70, 33, 50)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products(m: int, n: int, k: int, dtype: str, large: int) -> None:
    m = m * large
    a, b = torch.randn(m, k), torch.randn(k, n)
    a, b = a.to(getattr(torch, dtype)), b.to(getattr(torch, dtype))
    expected, tolerance = a.double() @ b.double(), 2e-5 if dtype == "float32" else 1e-2
    close(examples.matmul(a.numpy(), b.numpy()), expected, tolerance)
    turned = np.ascontiguousarray(b.numpy().T)
    close(examples.persistent_matmul(a.numpy(), turned), expected, tolerance)


def test_grouped_matmul(large: int) -> None:
    sizes = [(33, 16, 8), (1, 50, 70), (40 * large, 24, 32)]
    a = [torch.randn(m, k) for m, _, k in sizes]
    b = [torch.randn(k, n) for _, n, k in sizes]
    found = examples.grouped_matmul([x.numpy() for x in a], [y.numpy() for y in b])
    for x, y, z in zip(a, b, found, strict=True):
        close(z, x.double() @ y.double())


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
"""The numbers of four bits of OCP Microscaling Formats 1.0."""


@pytest.mark.parametrize("form", ["e4m3", "e5m2", "e2m1"])
def test_scaled_matmul(form: str, large: int) -> None:
    m, n, k = 20 * large, 33, 128
    rng = np.random.default_rng(0)
    scales = [rng.integers(120, 135, (rows, k // 32)).astype(np.uint8) for rows in (m, n)]
    held, values = [], []
    for rows in (m, n):
        if form == "e2m1":
            codes = rng.integers(0, 16, (rows, k))
            held.append((codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8))
            values.append(E2M1[codes])
        else:
            kind = ml_dtypes.float8_e4m3fn if form == "e4m3" else ml_dtypes.float8_e5m2
            held.append(rng.standard_normal((rows, k)).astype(kind))
            values.append(held[-1].astype(np.float64))
    wide = [
        torch.from_numpy(x * np.repeat(2.0 ** (s.astype(float) - 127), 32, 1))
        for x, s in zip(values, scales, strict=True)
    ]
    found = examples.scaled_matmul(held[0], scales[0], held[1], scales[1], form)
    expected = wide[0] @ wide[1].T
    largest = float(expected.abs().max())
    close(found / largest, expected / largest, 1e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "length", "size"), [(1, 1, 8), (3, 40, 16)])
def test_attention(heads: int, length: int, size: int, causal: bool, large: int) -> None:
    q, k, v, dout = (torch.randn(heads, length * large, size) for _ in range(4))
    query, key, value = (x.numpy() for x in (q, k, v))
    out, norm = examples.attention(query, key, value, causal=causal)
    inputs = [x.double().requires_grad_() for x in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal)
    close(out, expected)
    expected.backward(dout.double())
    given = dout.numpy(), query, key, value, out, norm
    found = examples.attention_backward(*given, causal=causal)
    for ours, theirs in zip(found, inputs, strict=True):
        close(ours, theirs.grad, 1e-4)
