"""Tuning: which configuration is chosen, what is measured, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_triton import (
    AutotunerError,
    Config,
    KernelError,
    Ptr,
    autotune,
    constexpr,
    f32,
    heuristics,
    i32,
    kernel,
)
from teeny_triton.tools import TensorDescriptor
from teeny_triton.tune import Autotuner, Pruning

BLOCKS = (1, 2, 4, 8)
CONFIGS = [Config({"BLOCK": block}) for block in BLOCKS]


@pytest.fixture(autouse=True)
def native(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Run on the CPU, with a cache of its own."""
    pytest.importorskip("teeny_cpu")
    monkeypatch.setenv("TEENY_INTERPRET", "0")
    monkeypatch.setenv("TEENY_DEVICE", "cpu")
    monkeypatch.setenv("TEENY_CACHE_DIR", str(tmp_path))
    return tmp_path


@kernel
def increment(x: Ptr[f32], n: i32, BLOCK: constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


class Clock:
    """Measures launches: each costs what `cost` says of its configuration."""

    def __init__(self, cost: Callable[[int], float]) -> None:
        self.cost = cost
        self.measured: list[int] = []

    def hook(self, arguments: dict[str, Any]) -> None:
        self.block = arguments["BLOCK"]

    def __call__(self, run: Callable[[], None], quantiles: Sequence[float]) -> list[float]:
        run()
        run()
        self.measured.append(self.block)
        return [self.cost(self.block)] * len(quantiles)

    def tune(self, **options: Any) -> Autotuner:
        configs = [Config({"BLOCK": block}, pre_hook=self.hook) for block in BLOCKS]
        return autotune(configs, key=["n"], do_bench=self, **options)(increment)


def grid(meta: Any) -> tuple[int]:
    return (tl.cdiv(meta["n"], meta["BLOCK"]),)


def test_the_fastest_is_chosen_once_for_each_key() -> None:
    clock = Clock(lambda block: abs(block - 4))
    tuned = clock.tune()
    x = np.zeros(10, np.float32)
    for n in (10, 10, 7, 10):
        tuned[grid](x, n)
    assert clock.measured == [*BLOCKS, *BLOCKS]
    assert tuned.best_config is not None
    assert tuned.best_config.kwargs == {"BLOCK": 4}
    assert [config.kwargs["BLOCK"] for config in tuned.cache.values()] == [4, 4]
    assert list(tuned.configs_timings.values()) == [[abs(block - 4)] * 3 for block in BLOCKS]
    np.testing.assert_array_equal(x, [4] * 7 + [3] * 3)


def test_dtypes_are_part_of_the_key() -> None:
    clock = Clock(float)
    configs = [Config({"BLOCK": block}, pre_hook=clock.hook) for block in BLOCKS]

    @autotune(configs, key=[], do_bench=clock)
    @kernel
    def fill(x, BLOCK: constexpr):
        tl.store(x + tl.arange(0, BLOCK), 1)

    for dtype in (np.float32, np.int32, np.float32):
        fill[(1,)](np.zeros(8, dtype))
    assert len(clock.measured) == 2 * len(BLOCKS)


def test_early_prune_and_perf_model() -> None:
    seen: dict[str, Any] = {}

    def early(configs: list[Config], named: Any, **arguments: Any) -> list[Config]:
        seen.update(arguments)
        return [config for config in configs if config.kwargs["BLOCK"] > 1]

    def model(BLOCK: int, n: int, num_stages: int, **rest: Any) -> float:
        assert (n, num_stages) == (10, 3)
        return -BLOCK

    clock = Clock(float)
    by = {"early_config_prune": early, "perf_model": model, "top_k": 2}
    tuned = clock.tune(prune_configs_by=by)
    tuned[grid](np.zeros(10, np.float32), n=10)
    assert clock.measured == [8, 4]
    assert seen["n"] == 10
    clock = Clock(float)
    clock.tune(prune_configs_by={"perf_model": model, "top_k": 0.5})[grid](
        np.zeros(10, np.float32), 10
    )
    assert clock.measured == [8, 4]


def test_pruning_that_leaves_nothing() -> None:
    tuned = Clock(float).tune(prune_configs_by={"early_config_prune": lambda *a, **k: []})
    with pytest.raises(AutotunerError, match="left no configuration"):
        tuned[grid](np.zeros(4, np.float32), 4)
    with pytest.raises(KernelError, match="prune_configs_by takes no 'prune'"):
        autotune(CONFIGS, key=[], prune_configs_by={"prune": early_nothing})
    assert Pruning().choose(CONFIGS, {}) == CONFIGS


def early_nothing(*args: Any, **kwargs: Any) -> list[Config]:
    return []


def test_one_that_does_not_compile_is_passed_over() -> None:
    configs = [Config({"BLOCK": 3, "GOOD": False}), Config({"BLOCK": 4, "GOOD": True})]

    @autotune(configs, key=["n"])
    @kernel
    def picky(x, n, BLOCK: constexpr, GOOD: constexpr):
        tl.static_assert(GOOD, "this one is bad")
        i = tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i) + 1)

    x = np.zeros(4, np.float32)
    picky[(1,)](x, 4)
    assert picky.best_config is configs[1]
    assert picky.configs_timings[configs[0]] == [float("inf")] * 3
    np.testing.assert_array_equal(x, 1)
    picky.configs = configs[:1] * 2
    with pytest.raises(
        AutotunerError, match="no configuration of picky compiles and runs"
    ) as caught:
        picky[(1,)](x, 5)
    assert "this one is bad" in str(caught.value)
    np.testing.assert_array_equal(x, 1)


def test_trials_leave_no_trace_and_reset_comes_before_each_launch() -> None:
    @autotune(CONFIGS, key=["n"], reset_to_zero=["total"], restore_value=["x"], warmup=1, rep=1)
    @kernel
    def count(x, pair, desc, total, n, BLOCK: constexpr):
        for start in range(0, n, BLOCK):
            i = start + tl.arange(0, BLOCK)
            value = tl.load(x + i, mask=i < n)
            tl.store(x + i, value + 1, mask=i < n)
            tl.store(pair[1], tl.load(pair[1]) + tl.sum(value, 0))
        desc.store([0], desc.load([0]) * 2)
        tl.store(total, tl.load(total) + 1)

    x, pair = np.ones(6, np.float32), (None, np.zeros(1, np.float32))
    described, total = np.ones(4, np.float32), np.zeros(1, np.float32)
    for launch in range(1, 3):
        count[(1,)](x, pair, TensorDescriptor.from_tensor(described, [4]), total, 6)
        np.testing.assert_array_equal(x, 1 + launch)
        np.testing.assert_array_equal(described, 2**launch)
        assert total[0] == 1
    assert pair[1][0] == 6 * 1 + 6 * 2


def test_hooks_of_trials() -> None:
    events: list[Any] = []
    clock = Clock(float)
    tuned = clock.tune(
        pre_hook=lambda named, reset_only: events.append(("before", named["n"], reset_only)),
        post_hook=lambda named, exception: events.append(("after", exception)),
    )
    tuned[grid](np.zeros(4, np.float32), 4)
    assert events == [("before", 4, False), ("after", None)] * (2 * len(BLOCKS))


def test_choices_are_kept_on_disk(native: Path) -> None:
    def tuned() -> Autotuner:
        return autotune(CONFIGS, key=["n"], cache_results=True, warmup=1, rep=1)(increment)

    x = np.zeros(10, np.float32)
    first = tuned()
    first[grid](x, 10)
    (file,) = (native / "tune").glob("*.json")
    record = json.loads(file.read_text())
    assert CONFIGS[record["best"]] == first.best_config
    assert set(record["ms"]) == {f"BLOCK: {block}" for block in BLOCKS}
    second = tuned()
    file.write_text(json.dumps({**record, "best": (record["best"] + 1) % len(BLOCKS)}))
    second[grid](x, 10)
    assert second.best_config is CONFIGS[(record["best"] + 1) % len(BLOCKS)]
    assert not second.configs_timings
    for damaged in ("{", "[]", '{"best": 99}', '{"best": "0"}'):
        file.write_text(damaged)
        third = tuned()
        third[grid](x, 10)
        assert third.configs_timings
    np.testing.assert_array_equal(x, 6)


def test_the_environment_keeps_and_prints_choices(
    native: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.zeros(4, np.float32)
    autotune(CONFIGS, key=["n"], warmup=1, rep=1)(increment)[grid](x, 4)
    assert not (native / "tune").exists()
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("TEENY_TUNE", "1")
    monkeypatch.setenv("TEENY_PRINT_AUTOTUNING", "1")
    autotune(CONFIGS, key=["n"], warmup=1, rep=1)(increment)[grid](x, 4)
    assert len(list((native / "tune").iterdir())) == 1
    assert capsys.readouterr().out.startswith("autotuning increment for (")


def test_a_folder_that_cannot_be_written_costs_a_warning(
    native: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (native / "tune").write_text("a file where the folder should be")
    tuned = autotune(CONFIGS, key=["n"], cache_results=True, warmup=1, rep=1)(increment)
    x = np.zeros(4, np.float32)
    with pytest.warns(RuntimeWarning, match="tuning: cannot write"):
        tuned[grid](x, 4)
    np.testing.assert_array_equal(x, 1)


def test_heuristics_on_either_side() -> None:
    even = {"EVEN": lambda args: args["n"] % args["BLOCK"] == 0}

    def fill(x, n, BLOCK: constexpr, EVEN: constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, 1.0 if EVEN else 2.0, mask=i < n)

    inside = autotune(CONFIGS[2:3], key=["n"])(heuristics(even)(kernel(fill)))
    outside = heuristics({"EVEN": lambda args: args["n"] % 4 == 0})(
        autotune(CONFIGS[2:3], key=["n"])(kernel(fill))
    )
    for tuned in (inside, outside):
        x = np.zeros(8, np.float32)
        tuned[grid](x, 8)
        assert (x == 1).all()
        tuned[grid](x, n=7)
        assert (x[:7] == 2).all()
        assert tuned.fn is not None
        assert tuned.arg_names == ["x", "n", "BLOCK", "EVEN"]


def test_wrong_arguments() -> None:
    with pytest.raises(KernelError, match="increment has no parameter `m`, named in key"):
        autotune(CONFIGS, key=["m"])(increment)
    with pytest.raises(KernelError, match="named in reset_to_zero of autotune"):
        autotune(CONFIGS, key=["n"], reset_to_zero=["y"])(increment)
    tuned = autotune(CONFIGS, key=["n"])(increment)
    x = np.zeros(4, np.float32)
    with pytest.raises(AutotunerError, match="`BLOCK` is an argument of the launch of increment"):
        tuned[(1,)](x, 4, BLOCK=4)
    with pytest.raises(KernelError, match="too many positional arguments"):
        tuned[(1,)](x, 4, 4, 4)
    with pytest.raises(KernelError, match="multiple values for argument 'n'"):
        tuned[(1,)](x, 4, n=4)


def test_warmup_compiles_each_configuration() -> None:
    tuned = autotune(CONFIGS, key=["n"])(increment)
    compiled = tuned.warmup(np.dtype(np.float32), 4, grid=(1,))
    assert [each.constants["BLOCK"] for each in compiled] == list(BLOCKS)
    assert tuned.best_config is None


def test_configurations_compare_by_what_they_say() -> None:
    config = Config({"BLOCK": 4}, num_warps=8, maxnreg=32)
    assert config == Config({"BLOCK": 4}, num_warps=8, maxnreg=32)
    assert len({config, Config({"BLOCK": 4}, num_warps=8, maxnreg=32), Config({"BLOCK": 4})}) == 2
    assert config.all_kwargs() == {
        "BLOCK": 4,
        "num_warps": 8,
        "num_ctas": 1,
        "num_stages": 3,
        "maxnreg": 32,
    }
