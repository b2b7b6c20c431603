"""Comparing and timing: what kernel authors import from `triton.testing`."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from teeny_triton.arguments import as_array
from teeny_triton.errors import KernelError

_EXACT = "iub"

RETURN_MODES: Mapping[str, Callable[[Sequence[float]], Any]] = {
    "min": min,
    "max": max,
    "mean": np.mean,
    "median": np.median,
}


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Time a function, in milliseconds; launches are done when they return.

    Args:
        fn: what is timed.
        warmup: milliseconds of calls before those that count; at least one call.
        rep: milliseconds of calls that count; at least one call.
        grad_to_none: tensors whose `grad` is dropped before each call.
        quantiles: which quantiles to return, as a list, or a number where there is one.
        return_mode: without quantiles: min, max, mean, median, or all for a list of times.

    Raises:
        KernelError: an unknown `return_mode`.
    """
    if return_mode not in (*RETURN_MODES, "all"):
        raise KernelError(
            f"return_mode is no {return_mode!r}", hint=f"one of {', '.join(RETURN_MODES)}, all"
        )

    def run() -> float:
        for tensor in grad_to_none or ():
            tensor.grad = None
        start = time.perf_counter()
        fn()
        return (time.perf_counter() - start) * 1e3

    spent = run()
    while spent < warmup:
        spent += run()
    times = [run()]
    spent = times[0]
    while spent < rep:
        times.append(run())
        spent += times[-1]
    if quantiles is not None:
        found = [float(value) for value in np.quantile(times, quantiles)]
        return found[0] if len(found) == 1 else found
    return times if return_mode == "all" else float(RETURN_MODES[return_mode](times))


def do_bench_cudagraph(
    fn: Callable[[], Any],
    rep: float = 20,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Time a function as `do_bench` does: there are no graphs of launches here."""
    return do_bench(fn, rep / 4, rep, grad_to_none, quantiles, return_mode)


def assert_close(
    x: Any, y: Any, atol: float | None = None, rtol: float | None = None, err_msg: str = ""
) -> None:
    """See that two arrays or tensors are equal up to `atol + rtol * |y|`, NaN equal to NaN.

    Args:
        x: what was computed.
        y: what it should be; broadcast to the shape of `x` where it is a number.
        atol: 1e-2 by default.
        rtol: 0 by default.
        err_msg: goes into the error.

    Raises:
        AssertionError: they are not.
    """
    left, right = _wide(x), _wide(y)
    if right.ndim and left.shape != right.shape:
        raise AssertionError(f"shapes {left.shape} and {right.shape} differ. {err_msg}".strip())
    atol, rtol = 1e-2 if atol is None else atol, rtol or 0.0
    right = np.broadcast_to(right, left.shape)
    if left.dtype.kind in _EXACT and right.dtype.kind in _EXACT and atol < 1 and not rtol:
        np.testing.assert_array_equal(left, right, err_msg=err_msg)
    else:
        np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, err_msg=err_msg)


def _wide(value: Any) -> np.ndarray[Any, Any]:
    """Return an array in float64, or of integers as they are."""
    array = np.asarray(value) if np.isscalar(value) else _array(value)
    return array if array.dtype.kind in _EXACT else array.astype(np.float64)


def _array(value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, list | tuple):
        return np.asarray(value)
    return as_array("tensor", value)


@dataclass(frozen=True)
class Benchmark:
    """What a function decorated by `perf_report` is measured for.

    Attributes:
        x_names: arguments that vary along the x axis, all by the same value.
        x_vals: their values; a tuple gives each of `x_names` its own.
        line_arg: the argument that differs between lines.
        line_vals: its values.
        line_names: what the lines are called.
        plot_name: the name of the plot and of its files.
        args: the other arguments.
        xlabel: the label of the x axis.
        ylabel: the label of the y axis.
        x_log: whether the x axis is logarithmic.
        y_log: whether the y axis is.
        styles: colour and dashes of each line.
    """

    x_names: Sequence[str]
    x_vals: Sequence[Any]
    line_arg: str
    line_vals: Sequence[Any]
    line_names: Sequence[str]
    plot_name: str
    args: Mapping[str, Any]
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    styles: Sequence[tuple[str, str]] | None = None


@dataclass(frozen=True)
class Report:
    """The measurements of one benchmark: a row for each x, a column for each line."""

    benchmark: Benchmark
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def __str__(self) -> str:
        cells = [self.columns, *(tuple(map(_cell, row)) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in cells)
        return "\n".join((f"{self.benchmark.plot_name}:", *lines))

    def save(self, folder: Path) -> None:
        """Write the table as CSV, named after the benchmark."""
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{self.benchmark.plot_name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(self.rows)

    def plot(self, folder: Path | None, show: bool) -> None:
        """Draw the lines with matplotlib: to a PNG in `folder`, to the screen, or both.

        Raises:
            KernelError: matplotlib is not installed.
        """
        try:
            plt = import_module("matplotlib.pyplot")
        except ImportError as error:
            raise KernelError("plots need matplotlib", hint="install it, or print_data") from error
        benchmark = self.benchmark
        figure, axes = plt.subplots()
        x = [row[0] for row in self.rows]
        first = len(benchmark.x_names)
        for place, name in enumerate(benchmark.line_names):
            colour, dashes = benchmark.styles[place] if benchmark.styles else (None, "-")
            y = [row[first + place] for row in self.rows]
            axes.plot(x, y, label=name, color=colour, linestyle=dashes)
        axes.set_xlabel(benchmark.xlabel or benchmark.x_names[0])
        axes.set_ylabel(benchmark.ylabel)
        axes.set_xscale("log" if benchmark.x_log else "linear")
        axes.set_yscale("log" if benchmark.y_log else "linear")
        axes.legend()
        if folder is not None:
            figure.savefig(folder / f"{benchmark.plot_name}.png")
        if show:
            plt.show()
        plt.close(figure)


class Mark:
    """A function with the benchmarks that it is measured for."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | Sequence[Benchmark]) -> None:
        self.fn = fn
        self.benchmarks = benchmarks

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str | Path = "",
        return_df: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Measure, and print, draw or save the results.

        Args:
            show_plots: draw to the screen; needs matplotlib.
            print_data: print a table.
            save_path: a folder for a CSV file of each benchmark, and a plot with `show_plots`.
            return_df: return a `Report` of each benchmark, or the only one.
            kwargs: more arguments of the function.
        """
        listed = self.benchmarks
        only = isinstance(listed, Benchmark)
        benchmarks = [listed] if isinstance(listed, Benchmark) else listed
        folder = Path(save_path) if save_path else None
        reports = []
        for benchmark in benchmarks:
            report = self._measure(benchmark, kwargs)
            reports.append(report)
            if print_data:
                print(report)
            if folder is not None:
                report.save(folder)
            if show_plots:
                report.plot(folder, show_plots)
        if not return_df:
            return None
        return reports[0] if only else reports

    def _measure(self, benchmark: Benchmark, kwargs: Mapping[str, Any]) -> Report:
        columns = (*benchmark.x_names, *benchmark.line_names)
        report = Report(benchmark, columns)
        for value in benchmark.x_vals:
            many = isinstance(value, tuple | list)
            values = tuple(value) if many else (value,) * len(benchmark.x_names)
            if len(values) != len(benchmark.x_names):
                raise KernelError(
                    f"{benchmark.plot_name}: {len(values)} values for {len(benchmark.x_names)} "
                    f"x_names"
                )
            x = dict(zip(benchmark.x_names, values, strict=True))
            given = {**x, **benchmark.args, **kwargs}
            times = [self.fn(**given, **{benchmark.line_arg: v}) for v in benchmark.line_vals]
            report.rows.append((*values, *map(_middle, times)))
        return report


def perf_report(
    benchmarks: Benchmark | Sequence[Benchmark],
) -> Callable[[Callable[..., Any]], Mark]:
    """Measure a function for some benchmarks, when `run` of what is returned is called."""
    return lambda fn: Mark(fn, benchmarks)


def _middle(measured: Any) -> float:
    """Return the figure that a function measured, without its bounds."""
    return float(measured[0] if isinstance(measured, tuple | list) else measured)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    return str(value)
