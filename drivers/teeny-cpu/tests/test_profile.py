"""Profiles: what a table and a trace say, against the schedule and the clock."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import ConfigError, ShapeError, SymTensor, nn

Array = np.ndarray[Any, Any]


class Two(nn.Layer):
    def __init__(self) -> None:
        self.first = nn.Linear(48, 96)
        self.second = nn.Linear(96, 8)

    def __call__(self, x: Any) -> Any:
        return self.second(self.first(x).relu()).softmax(axis=-1)


def rows(n: int) -> Array:
    return np.random.default_rng(0).standard_normal((n, 48), dtype=np.float32)


@pytest.fixture(scope="module")
def program() -> Any:
    return tn.compile(tn.trace(Two(), SymTensor.input(tn.f32, ("n", 48))), "cpu")


def test_every_launch_has_a_row(program: Any) -> None:
    start = time.perf_counter()
    found = program.profile(rows(200), runs=5)
    elapsed = time.perf_counter() - start
    assert len(found.rows) == program.stats()["kernels"]
    assert found.runs == 5
    assert sum(row.share for row in found.rows) == pytest.approx(1)
    for row in found.rows:
        assert row.calls == 5
        assert 0 < row.best <= row.median < elapsed
        assert row.gflops == pytest.approx(row.flops / row.best / 1e9)
        assert row.gbytes == pytest.approx(row.bytes / row.best / 1e9)
        assert row.roofline == pytest.approx(row.floor / row.best)
    assert sum(row.median for row in found.rows) <= 2 * found.seconds


def test_work_is_that_of_the_sizes_of_the_call(program: Any) -> None:
    for n in (16, 128):
        products = [
            r for r in program.profile(rows(n), runs=1).rows if r.label.startswith("matmul")
        ]
        first = max(products, key=lambda row: row.flops)
        assert first.flops == pytest.approx(2 * n * 48 * 96, rel=0.1)
        least = 4 * (n * 48 + 48 * 96 + n * 96)
        assert least <= first.bytes <= 2 * least


def test_rows_say_where_in_the_model_they_come_from(program: Any) -> None:
    labels = " ".join(row.label for row in program.profile(rows(9), runs=1).rows)
    assert "first" in labels
    assert "second" in labels


def test_the_table_has_a_line_for_each_row(program: Any) -> None:
    found = program.profile(rows(64), runs=2)
    head, titles, *lines = str(found).splitlines()
    assert head.startswith("Two: ")
    assert titles.split() == [
        "sum",
        "share",
        "best",
        "median",
        "GFLOP/s",
        "GB/s",
        "limit",
        "kernel",
    ]
    assert sorted(line.rpartition("  ")[2] for line in lines) == sorted(
        f"{row.kernel}: {row.label}" for row in found.rows
    )


def test_a_trace_is_made_of_launches_with_their_pieces_within(program: Any, tmp_path: Path) -> None:
    found = program.profile(rows(5000), runs=2)
    assert found.lost == 0
    found.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names[0] == "launches"
    timed = [event for event in events if event["ph"] == "X"]
    launches = [event for event in timed if event["tid"] == 0]
    assert [event["name"] for event in launches] == [row.kernel for row in found.rows]
    ends = [event["ts"] + event["dur"] for event in launches]
    assert all(a <= b["ts"] + 1e-3 for a, b in zip(ends, launches[1:], strict=False))
    pieces = [event for event in timed if event["tid"] > 0]
    assert pieces
    for piece in pieces:
        assert names[piece["tid"]] == f"thread {piece['tid']}"
        around = [
            launch
            for launch in launches
            if launch["ts"] <= piece["ts"] + 1e-3
            and piece["ts"] + piece["dur"] <= launch["ts"] + launch["dur"] + 1e-3
        ]
        assert [launch["name"] for launch in around] == [piece["name"]]


def test_values_and_parameters_stay_as_they_are() -> None:
    weights = tn.Tensor(np.ones(3, np.float32))

    def step(x: Any) -> Any:
        weights.assign(weights + x)
        return weights * 2

    program: Any = tn.compile(tn.trace(step, SymTensor.input(tn.f32, (3,))), "cpu")
    x = np.full(3, 2, np.float32)
    program.profile(x, runs=3)
    np.testing.assert_array_equal(np.asarray(weights), np.ones(3))
    np.testing.assert_array_equal(program(x), np.full(3, 6))


def test_empty_grids_take_no_time_of_a_kernel(program: Any) -> None:
    found = program.profile(rows(0), runs=1)
    assert {span.thread for span in found.spans} == {0}


def test_debugging_prints_a_profile_for_each_set_of_shapes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TEENY_DEBUG", "2")
    model = Two()
    program: Any = tn.compile(tn.trace(model, SymTensor.input(tn.f32, ("n", 48))), "cpu")
    found = program(rows(7))
    assert "GFLOP/s" in capsys.readouterr().err
    assert program.stats()["calls"] == 1
    monkeypatch.delenv("TEENY_DEBUG")
    plain: Any = tn.compile(tn.trace(model, SymTensor.input(tn.f32, ("n", 48))), "cpu")
    np.testing.assert_array_equal(found, plain(rows(7)))
    assert capsys.readouterr().err == ""
    program(rows(7))
    assert capsys.readouterr().err == ""
    program(rows(8))
    assert "GFLOP/s" in capsys.readouterr().err


def test_figures_are_those_of_the_last_call() -> None:
    traced = tn.trace(Two(), SymTensor.input(tn.f32, ("n", 48)))
    program: Any = tn.compile(traced, "cpu")
    before = program.stats()
    assert str(before["arena_bound"]).endswith("*n")
    assert before["arena_ratio"] is None
    program(rows(64))
    after = program.stats()
    assert after["flops"] >= 2 * 64 * (48 * 96 + 96 * 8)
    assert after["arena_bytes"] >= after["arena_planned"] >= after["arena_bound"] >= 4 * 64 * 96
    assert 1 <= after["arena_ratio"] < 2
    assert after["parameters"] == 4 * (48 * 96 + 96 + 96 * 8 + 8)
    assert after["calls"] == 1
    assert tn.compile(traced, "cpu").stats()["cached"]
    assert list(program.stats()["compile_seconds"]) in (
        ["cache"],
        ["graph", "fxgraph", "optimised", "schedule", "tile", "llvm", "asm", "object"],
    )


def test_wrong_arguments_are_refused(program: Any) -> None:
    with pytest.raises(ShapeError):
        program.profile(rows(4)[:, 1:])
    with pytest.raises(ConfigError, match="0 runs"):
        program.profile(rows(4), runs=0)
