"""`testing`: timing, comparing, and reports."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from teeny_triton import KernelError, testing


class Clock:
    """Stands for `time`: each call of what is timed takes the next of some milliseconds."""

    def __init__(self, *times: float) -> None:
        self.times = list(times)
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def work(self) -> None:
        self.now += (self.times.pop(0) if len(self.times) > 1 else self.times[0]) / 1e3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, statistics.fmean([1, 2, 3, 4])),
        ({"return_mode": "min"}, 1),
        ({"return_mode": "max"}, 4),
        ({"return_mode": "median"}, 2.5),
        ({"return_mode": "all"}, [1, 2, 3, 4]),
        ({"quantiles": [0.5]}, 2.5),
        ({"quantiles": [0.0, 0.5, 1.0]}, [1, 2.5, 4]),
    ],
)
def test_do_bench(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], expected: Any) -> None:
    clock = Clock(9, 1, 1, 2, 3, 4)
    monkeypatch.setattr(testing, "time", clock)
    found = testing.do_bench(clock.work, warmup=10, rep=10, **options)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_do_bench_drops_gradients_and_runs_at_least_twice() -> None:
    class Tensor:
        grad: Any = 1

    tensor, calls = Tensor(), []
    testing.do_bench(lambda: calls.append(tensor.grad), warmup=0, rep=0, grad_to_none=[tensor])
    assert calls == [None, None]
    assert testing.do_bench_cudagraph(lambda: None, rep=0.1) >= 0
    with pytest.raises(KernelError, match="return_mode is no 'best'"):
        testing.do_bench(lambda: None, return_mode="best")


def test_assert_close() -> None:
    x = np.float32([1, 2, np.nan])
    testing.assert_close(x, x + np.float32(0.009))
    testing.assert_close(x.astype(ml_dtypes.bfloat16), x, rtol=0.01, atol=0)
    testing.assert_close(np.int64([2**62 + 1]), np.int64([2**62 + 1]), atol=0)
    testing.assert_close(np.ones((2, 3)), 1.0)
    testing.assert_close(1.0, 1.001)
    for wrong in (x + 0.02, x[:2], np.float32([1, 2, 3])):
        with pytest.raises(AssertionError, match="of these"):
            testing.assert_close(x, wrong, err_msg="of these")
    with pytest.raises(AssertionError):
        testing.assert_close(np.int64([2**62 + 1]), np.int64([2**62]), atol=0)


def test_assert_close_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.linspace(0, 1, 8, requires_grad=True)
    testing.assert_close(x.bfloat16(), x)
    with pytest.raises(AssertionError):
        testing.assert_close(x.bfloat16(), x, atol=1e-6)


BENCHMARK = testing.Benchmark(
    x_names=["m", "n"],
    x_vals=[2, (3, 4)],
    line_arg="provider",
    line_vals=["ours", "peer"],
    line_names=["Ours", "Peer"],
    plot_name="products",
    args={"scale": 10},
    xlabel="m",
    ylabel="GB/s",
)


def test_perf_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    @testing.perf_report(BENCHMARK)
    def bench(m: int, n: int, provider: str, scale: int, offset: int = 0) -> Any:
        value = m * n * scale + offset
        return (value, value - 1, value + 1) if provider == "ours" else value / 3

    report = bench.run(print_data=True, save_path=tmp_path, return_df=True, offset=1)
    assert report.columns == ("m", "n", "Ours", "Peer")
    assert report.rows == [(2, 2, 41, 41 / 3), (3, 4, 121, 121 / 3)]
    with (tmp_path / "products.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["m", "n", "Ours", "Peer"]
    assert [float(cell) for cell in rows[2]] == [3, 4, 121, 121 / 3]
    assert capsys.readouterr().out == (
        "products:\nm  n  Ours     Peer\n2  2    41  13.6667\n3  4   121  40.3333\n"
    )
    several = testing.perf_report([BENCHMARK, BENCHMARK])(bench.fn)
    assert len(several.run(return_df=True)) == 2
    assert several.run() is None


def test_plots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = testing.Mark(lambda m, n, provider, scale: m * n, BENCHMARK)
    monkeypatch.setattr(testing, "import_module", _missing)
    with pytest.raises(KernelError, match="plots need matplotlib"):
        mark.run(show_plots=True, save_path=tmp_path)
    monkeypatch.undo()
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    mark.run(show_plots=True, save_path=tmp_path)
    assert (tmp_path / "products.png").read_bytes().startswith(b"\x89PNG")


def _missing(name: str) -> Any:
    raise ImportError(name)


def test_values_that_do_not_fit_the_names() -> None:
    benchmark = testing.Benchmark(["m"], [(1, 2)], "p", [0], ["a"], "odd", {})
    with pytest.raises(KernelError, match="odd: 2 values for 1 x_names"):
        testing.Mark(lambda **kwargs: 0.0, benchmark).run()
