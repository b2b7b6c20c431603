"""Random numbers: the published generator, its distributions, its state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import ops
from teeny_core.internal import philox

KNOWN = [  # from the kat_vectors of Random123, philox4x32 with 10 rounds
    (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: row[0][:8])
def test_known_answers(row: tuple[str, str, str]) -> None:
    counter, key, expected = map(words, row)
    c0, c1, c2, c3 = (np.array([word], np.uint32) for word in counter)
    got = philox((c0, c1, c2, c3), (key[0], key[1]))
    assert [int(word[0]) for word in got] == expected


def test_random_bits_are_word_0_of_the_counter_specified() -> None:
    state = np.array([0xA4093822, 0x299F31D0, 77, 0], np.uint32)
    got = ops.get("random_bits").reference(tn.Attrs(shape=(3, 5), site=9), state)
    for place in range(15):
        counter = tuple(np.array([word], np.uint32) for word in (place, 0, 9, 77))
        word = philox(counter, (0xA4093822, 0x299F31D0))[0][0]  # type: ignore[arg-type]
        assert got.reshape(-1)[place] == word


def test_seeds() -> None:
    tn.manual_seed(5)
    first, second = tn.rand(4).tolist(), tn.rand(4).tolist()
    tn.manual_seed(5)
    assert tn.rand(4).tolist() == first
    assert tn.rand(4).tolist() == second
    assert first != second
    tn.manual_seed(5 + (1 << 32))
    assert tn.rand(4).tolist() != first
    for wrong in (-1, 1 << 64):
        with pytest.raises(tn.OpError, match="hint: use 0 to"):
            tn.manual_seed(wrong)


def test_order_of_asking_does_not_matter() -> None:
    tn.manual_seed(1)
    a, b = tn.rand(3), tn.rand(3)
    late = b.tolist(), a.tolist()
    tn.manual_seed(1)
    assert (tn.rand(3).tolist(), tn.rand(3).tolist()) == (late[1], late[0])


def kolmogorov(values: Any, cdf: Any) -> float:
    """Return sqrt(n) times the largest distance between empirical and true distribution."""
    ordered = np.sort(values.reshape(-1).astype(np.float64))
    n = ordered.size
    true = cdf(ordered)
    steps = np.arange(n)
    return math.sqrt(n) * max(np.max(true - steps / n), np.max((steps + 1) / n - true))


CRITICAL = 1.95  # exceeded by chance once in a thousand


def test_distributions() -> None:
    tn.manual_seed(2024)
    uniform = tn.rand(200, 100).numpy()
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert kolmogorov(uniform, lambda x: x) < CRITICAL
    assert (uniform * 2**24 == np.floor(uniform * 2**24)).all()
    between = tn.uniform((20_000,), -3, 5).numpy()
    assert kolmogorov(between, lambda x: (x + 3) / 8) < CRITICAL
    normal = tn.randn(20_000).numpy()
    cdf = np.vectorize(lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2))))
    assert np.isfinite(normal).all()
    assert kolmogorov(normal, cdf) < CRITICAL
    moved = tn.normal((20_000,), 3, 0.5).numpy()
    assert kolmogorov((moved - 3) / 0.5, cdf) < CRITICAL
    assert abs(np.corrcoef(normal[:-1], normal[1:])[0, 1]) < 0.03


def test_integers_are_even_over_their_interval() -> None:
    tn.manual_seed(3)
    got = tn.randint(-2, 5, (70_000,)).numpy()
    assert got.dtype == np.int64
    counts = np.bincount(got + 2, minlength=7)
    assert counts.sum() == 70_000
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 22.5  # chi squared, 6 degrees, 0.1 %
    assert tn.randint(0, 1, (3,)).tolist() == [0, 0, 0]
    wide = tn.randint(-(2**31), 2**31, (1000,), dtype="i32").numpy()
    assert wide.min() < -(2**30)
    assert wide.max() > 2**30
    for low, high in ((3, 3), (0, 2**33)):
        with pytest.raises(tn.OpError, match="hint: low < high"):
            tn.randint(low, high, (1,))


def test_bernoulli() -> None:
    tn.manual_seed(4)
    got = tn.bernoulli((100_000,), 0.3)
    assert got.dtype is tn.bool_
    assert abs(got.numpy().mean() - 0.3) < 0.005
    assert not tn.bernoulli((1000,), 0.0).any().item()
    assert tn.bernoulli((1000,), 1.0).all().item()
    with pytest.raises(tn.OpError, match="is no probability"):
        tn.bernoulli((1,), 1.5)


def test_types() -> None:
    assert tn.rand(2, dtype="f64").dtype is tn.f64
    assert tn.randn((2, 3), dtype="bf16").shape == (2, 3)
    with pytest.raises(tn.DTypeError, match="hint: use randint"):
        tn.rand(2, dtype="i32")


@pytest.mark.parametrize("shape", [(1 << 16,), (3, 40_001), (2, 0, 1 << 17)], ids=str)
@pytest.mark.parametrize("name", tn.device_names())
def test_many_numbers_are_the_same_from_any_device(name: str, shape: tuple[int, ...]) -> None:
    tn.manual_seed(0x12345678_9ABCDEF0)
    tn.rand(1)  # takes step 0
    with tn.default_device(name):
        bits = tn.random.bits(shape).numpy()
        numbers = tn.rand(shape).numpy()
    for step, got in ((1, bits), (2, numbers)):
        state = np.array([0x9ABCDEF0, 0x12345678, step, 0], np.uint32)
        words = ops.get("random_bits").reference(tn.Attrs(shape=shape, site=0), state)
        expected = words if got is bits else (words >> 8).astype(np.float32) * np.float32(2.0**-24)
        np.testing.assert_array_equal(got, expected, strict=True)


def test_traced_numbers_move_on_with_each_run() -> None:
    x = tn.SymTensor.input("f32", ("n",))
    graph = tn.trace(lambda x: (x + tn.rand(x.shape), x + tn.rand(x.shape)), x)
    graph.verify()
    assert [node.attrs["name"] for node in graph.parameters] == ["random.state"]
    sites = [node.attrs["site"] for node in graph.nodes if node.op == "random_bits"]
    assert sites == [0, 1]
    program = tn.compile(graph)
    zeros = np.zeros(1000, np.float32)
    tn.manual_seed(6)
    first, second = program(zeros), program(zeros)
    tn.manual_seed(6)
    again = program(zeros)
    np.testing.assert_array_equal(again, first)
    runs = [*first, *second]
    assert all(not np.array_equal(runs[i], runs[j]) for i in range(4) for j in range(i))
    np.testing.assert_array_equal(tn.rand(1000).numpy(), second[0])  # step 1 of the same seed


def test_numbers_are_the_same_forward_and_backward() -> None:
    def f(x: Any) -> Any:
        return (x * tn.bernoulli(x.shape, 0.5).cast("f32")).sum()

    both = tn.value_and_grad(f)
    graph = tn.trace(lambda x: both(x), tn.SymTensor.input("f32", (64,)))
    assert sum(node.op == "random_bits" for node in graph.nodes) == 1
    value, mask = tn.compile(graph)(np.ones(64, np.float32))
    assert value == mask.sum()
    assert 0 < value < 64
