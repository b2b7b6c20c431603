"""The pipeline and its cache: stages, warm starts, names, damaged entries."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import teeny_core as tn
from teeny_compiler import FXGraph, explain, observe, pipeline
from teeny_compiler.artifact import Artifact
from teeny_compiler.codegen.workers import Workers
from teeny_compiler.pipeline import STAGES, CompileOptions, compile_graph, emit
from teeny_compiler.target import host_target
from teeny_core import CompileError, ConfigError, Graph, SymTensor, nn
from teeny_core.shape import maximum, minimum, symbol
from teeny_triton import Target


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEENY_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def graph(batch: str = "n", first: str = "x", factor: float = 2.0) -> Graph:
    weight = tn.Tensor(np.ones((4,), np.float32))

    def scores(x: tn.AnyTensor, y: tn.AnyTensor) -> tn.AnyTensor:
        return (x * factor + weight).exp().sum(axis=1) + y

    x = SymTensor.input(tn.f32, (batch, 4), name=first)
    return tn.trace(scores, x, SymTensor.input(tn.f32, (batch,)))


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the stages that ran, in order."""
    ran: list[str] = []

    def watched(stage: pipeline.Stage) -> pipeline.Stage:
        def run(value: object, context: pipeline.Context) -> object:
            ran.append(stage.name)
            return stage.run(value, context)

        return replace(stage, run=run)

    monkeypatch.setattr(pipeline, "STAGES", tuple(map(watched, STAGES)))
    return ran


def test_a_warm_start_runs_no_stage(compilations: list[str]) -> None:
    cold = compile_graph(graph())
    assert compilations[-1] == "object"
    compilations.clear()
    assert compile_graph(graph()) == cold
    assert compilations == []


ONE_CALL = """
import sys
import numpy as np
import teeny_core as tn
layer = tn.nn.Linear(4, 3)
tn.compile(tn.trace(layer, tn.SymTensor.input(tn.f32, (2, 4))), "cpu")(np.ones((2, 4), np.float32))
stages = {"egglog", "subprocess", "importlib.metadata", "ml_dtypes", "teeny_triton.ir"}
stages |= {f"teeny_compiler.{n}" for n in ("fxgraph", "optimise", "schedule", "lower", "profile")}
print(sorted(stages & set(sys.modules)))
"""


def test_a_warm_start_imports_no_stage() -> None:
    for start in ("cold", "warm"):
        command = [sys.executable, "-c", ONE_CALL]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        assert (out == "[]") == (start == "warm"), out


@pytest.mark.parametrize(
    "other",
    [
        lambda: compile_graph(graph(factor=3.0)),
        lambda: compile_graph(graph(), options=CompileOptions(optimise=False)),
        lambda: compile_graph(graph(), replace(host_target(), vector_bits=128)),
    ],
)
def test_what_changes_the_code_is_part_of_the_key(other: object, compilations: list[str]) -> None:
    compile_graph(graph())
    compilations.clear()
    other()  # type: ignore[operator]
    assert "object" in compilations


def test_a_cached_program_takes_the_names_of_its_graph(compilations: list[str]) -> None:
    compile_graph(graph("n", "x"))
    compilations.clear()
    found = compile_graph(graph("batch", "images"))
    assert compilations == []
    assert found.symbols == ("batch",)
    assert [port.name for port in found.ports[:2]] == ["images", "y"]
    assert found.ports[0].shape == (symbol("batch"), 4)


def test_symbols_may_change_places(compilations: list[str]) -> None:
    def swapped(n: str, m: str) -> Graph:
        x, y = SymTensor.input(tn.f32, (n, 3)), SymTensor.input(tn.f32, (m, n))
        return tn.trace(lambda x, y: y @ x, x, y)

    compile_graph(swapped("n", "m"))
    compilations.clear()
    found = compile_graph(swapped("m", "n"))
    assert compilations == []
    assert found.ports[-1].shape == (symbol("n"), 3)
    assert found.symbols == ("m", "n")


def test_a_damaged_entry_is_compiled_again(cache_folder: Path, compilations: list[str]) -> None:
    cold = compile_graph(graph())
    for path in cache_folder.glob("??/*.entry"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
    compilations.clear()
    assert compile_graph(graph()) == cold
    assert "object" in compilations


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the modules that LLVM compiled, in order."""
    names: list[str] = []
    original = Workers.compile

    def watched(workers: Workers, texts: Mapping[str, str], target: Target) -> dict[str, bytes]:
        names.extend(texts)
        return original(workers, texts, target)

    monkeypatch.setattr(Workers, "compile", watched)
    return names


def test_equal_kernels_are_compiled_once(compiled: list[str]) -> None:
    def power(x: tn.AnyTensor) -> tn.AnyTensor:
        return ((x @ x) @ x) @ x @ x

    artifact = compile_graph(tn.trace(power, SymTensor.input(tn.f32, (64, 64))))
    assert artifact.kernels >= 4
    assert len(compiled) == len(set(compiled)) < artifact.kernels


def test_the_kernels_of_another_program_are_found_again(compiled: list[str]) -> None:
    first = compile_graph(graph())
    compiled.clear()
    second = compile_graph(graph(), options=CompileOptions(optimise=False))
    assert compiled == []
    assert second.objects == first.objects


@pytest.mark.parametrize("stage", [stage.name for stage in STAGES])
def test_every_stage_prints(stage: str) -> None:
    text = emit(graph(), stage)
    marks = {
        "graph": "graph scores(",
        "fxgraph": "fxgraph scores(",
        "optimised": "fxgraph scores(",
        "schedule": "schedule scores(n)",
        "tile": "func @",
        "llvm": "define i32 @teeny_program",
        "asm": "teeny_program:",
        "object": "program scores(n)",
    }
    assert marks[stage] in text


def test_an_unknown_stage_lists_the_known() -> None:
    with pytest.raises(CompileError, match="hint: stages are graph, fxgraph, optimised, schedule"):
        emit(graph(), "ptx9")


def test_debug_verifies_and_times_every_stage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TEENY_DEBUG", "1")
    compile_graph(graph())
    printed = capsys.readouterr().err
    for stage in STAGES:
        assert f"teeny: scores: {stage.name} " in printed
    compile_graph(graph())
    assert "teeny: scores: found in the cache" in capsys.readouterr().err


@pytest.mark.parametrize("level", range(8))
def test_each_level_of_debugging_shows_more(
    level: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = {
        1: "teeny: scores: schedule ",
        3: " over [n",
        4: "func @",
        5: "define i32 @teeny_program",
        6: "teeny_program:",
        7: "e-graph of ",
    }
    compile_graph(graph())
    monkeypatch.setenv("TEENY_DEBUG", str(level))
    compile_graph(graph())  # what is printed does not depend on the cache
    printed = capsys.readouterr().err.replace("found in the cache", "schedule ")
    shown = {mark for mark, text in marks.items() if text in printed}
    assert shown == {mark for mark in marks if mark <= level}


def test_the_e_graph_names_the_nodes_of_the_graph_by_class() -> None:
    x = SymTensor.input(tn.f32, ("n", 4))
    report = explain(FXGraph.from_graph(tn.trace(lambda x: (x * 1.0).exp(), x)))
    lines = observe.search(report).splitlines()
    assert lines[0].startswith("cost ")
    assert any(line.endswith(" x x o neutral -> x") for line in lines)
    found = next(line for line in lines if "In(0)" in line)
    assert "Bin(mul, " in found  # x * 1 is in the class of x


def test_options_are_read_by_name() -> None:
    assert CompileOptions.of(None) == CompileOptions(optimise=True)
    assert CompileOptions.of({"optimise": "off"}) == CompileOptions(optimise=False)
    both = CompileOptions(fast=True, frozen=True)
    assert CompileOptions.of({"fast": "on", "frozen": "on"}) == both
    with pytest.raises(ConfigError, match="no option optimise=maybe"):
        CompileOptions.of({"optimise": "maybe"})


def test_batch_normalisation_folds_when_weights_are_frozen() -> None:
    layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
    traced = tn.trace(layers, SymTensor.input(tn.f32, ("n", 3, 12, 12)))
    plain = compile_graph(traced)
    folded = compile_graph(traced, options=CompileOptions(fast=True, frozen=True))
    assert folded != plain


def test_an_artifact_survives_writing() -> None:
    artifact = compile_graph(graph())
    n = symbol("n")
    sizes = maximum(n // 3, minimum(7, n % 4)) * n * n - 2 * n + 64
    artifact = replace(artifact, arena=sizes)
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
    artifact.verify()


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d + b"x", lambda d: b"", lambda d: b"\0" * 40]
)
def test_foreign_bytes_are_no_artifact(damage: object) -> None:
    data = compile_graph(graph()).to_bytes()
    with pytest.raises(CompileError, match="not a compiled program"):
        Artifact.from_bytes(damage(data))  # type: ignore[operator]
