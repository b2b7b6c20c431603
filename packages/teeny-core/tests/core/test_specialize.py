"""Programs for hot sizes: the values of the general one, chosen by the extents of a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core.specialize import MOST_PROGRAMS, with_sizes

RNG = np.random.default_rng(3)


def mean_of_pairs(x: Any) -> Any:
    """Means over pairs of rows, and over all: the number of rows is a value, too."""
    pairs = x.reshape(x.shape[0] // 2, 2, x.shape[1]).mean(1)
    return {"pairs": pairs, "all": x.sum((0, 1)) / x.shape[0]}


def graph() -> tn.Graph:
    x = tn.SymTensor.input(tn.f32, (2 * tn.shape.symbol("n"), "m"), name="x")
    y = tn.SymTensor.input(tn.f32, ("n", "m"), name="y")
    return tn.trace(lambda x, y: {**mean_of_pairs(x), "sum": y.sum(0)}, x, y)


@pytest.mark.parametrize("device", ["ndarray", "cpu"])
def test_hot_sizes_give_the_same_values(device: str) -> None:
    program = tn.compile(graph(), device, specialize={"n": (1, 3), "m": (4,)})
    for n, m in ((1, 4), (3, 4), (2, 4), (3, 5), (0, 4)):
        x = RNG.standard_normal((2 * n, m)).astype(np.float32)
        y = RNG.standard_normal((n, m)).astype(np.float32)
        found: Any = program(x, y)
        with np.errstate(invalid="ignore"):
            wide = np.sum(x, dtype=np.float64) / np.float64(2 * n)
        np.testing.assert_allclose(found["pairs"], (x[::2] + x[1::2]) / 2, rtol=1e-6)
        np.testing.assert_allclose(found["all"], wide, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["sum"], y.sum(0, dtype=np.float64), rtol=1e-5, atol=1e-6)


def test_the_sizes_decide_which_program_runs() -> None:
    program = tn.compile(graph(), "cpu", specialize={"m": (4, 5)})
    for m in (4, 4, 5, 6):
        program(np.ones((2, m), np.float32), np.ones((1, m), np.float32))
    stats = program.stats()
    calls = {guard: special["calls"] for guard, special in stats["special"].items()}
    assert calls == {"m = 4": 2, "m = 5": 1}
    assert stats["calls"] == 1


def test_the_sizes_are_printed() -> None:
    program = tn.compile(graph(), "cpu", specialize={"m": (4,), "n": (1, 2)})
    guards = [line for line in program.emit("graph").splitlines() if line.startswith("#")]
    assert guards == ["# m = 4, n = 1", "# m = 4, n = 2", "# any other size"]


def test_the_picture_is_of_the_program_for_all_sizes() -> None:
    program = tn.compile(graph(), "cpu", specialize={"m": (4,)})
    assert program.to_svg() == tn.compile(graph(), "cpu").to_svg()


def test_a_graph_with_sizes_is_a_graph() -> None:
    fixed = with_sizes(graph(), {"n": 3})
    fixed.verify()
    assert fixed.symbols == ("m",)
    assert [node.shape[0] for node in fixed.inputs] == [6, 3]


def test_wrong_inputs_are_refused_as_by_any_program() -> None:
    program = tn.compile(graph(), "ndarray", specialize={"m": (4,)})
    with pytest.raises(tn.ShapeError):
        program(np.ones((2, 4), np.float32))
    with pytest.raises(tn.ShapeError):
        program(np.ones(4, np.float32), np.ones(4, np.float32))


def test_what_cannot_be_special_is_named() -> None:
    with pytest.raises(tn.ShapeError, match=r"no input has the symbolic size 'batch'(.|\n)*n, m|m"):
        tn.compile(graph(), "null", specialize={"batch": (1,)})
    with pytest.raises(tn.ShapeError, match="m cannot be -1"):
        tn.compile(graph(), "null", specialize={"m": (-1,)})
    with pytest.raises(tn.ConfigError, match=f"at most {MOST_PROGRAMS}"):
        tn.compile(graph(), "null", specialize={"m": range(5), "n": range(4)})
    pooled = tn.trace(lambda x: x.max_pool2d(2), tn.SymTensor.input(tn.f32, (1, 1, "h", 8)))
    with pytest.raises(tn.ShapeError, match=r"needs h//2 >= 1, got h = 1"):
        tn.compile(pooled, "null", specialize={"h": (1,)})
