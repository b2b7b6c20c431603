"""`teeny profile`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Teeny = Callable[..., Any]


def test_it_prints_a_table_and_writes_a_trace(teeny: Teeny, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    result = teeny("profile", "mlp", "--size", "n=3", "--runs", "2", "--trace", str(trace))
    assert result.code == 0, result.err
    assert "median of 2 runs" in result.out
    assert "GFLOP/s" in result.out
    events = json.loads(trace.read_text())["traceEvents"]
    assert any(event["ph"] == "X" for event in events)


@pytest.mark.parametrize("size", ["m=3", "n", "n=-1", "n=x"])
def test_wrong_sizes_are_refused(teeny: Teeny, size: str) -> None:
    result = teeny("profile", "mlp", "--size", size)
    assert (result.code, result.out) == (2, "")
    assert "is no symbolic size" in result.err
    assert "the sizes are n" in result.err


def test_a_device_that_takes_no_times_is_named(teeny: Teeny) -> None:
    result = teeny("profile", "mlp", "--device", "ndarray")
    assert result.code == 2
    assert "does not take the times of its kernels" in result.err
