import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import teeny_core as tn
from teeny_cli.source import parse_type
from teeny_core import ConfigError, DTypeError, state
from teeny_vision import mnist

Teeny = Callable[..., Any]
FACTORIES = """
from teeny_core import nn

class Double(nn.Layer):
    def call(self, x, y):
        return x + 2.0 * y

def number():
    return 3

def sized(width):
    return Double()
"""
KERNELS = """
import teeny_triton.language as tl
from teeny_triton import Ptr, TypeVar, bf16, constexpr, f32, i32, kernel

T = TypeVar("T", f32, bf16)

@kernel
def double(x: Ptr[T], n: i32, BLOCK: constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
"""


@pytest.fixture
def factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the working folder."""
    (tmp_path / "factories_here.py").write_text(FACTORIES)
    (tmp_path / "kernels_here.py").write_text(KERNELS)
    (tmp_path / "wrong_here.py").write_text("1 / 0")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "factories_here", raising=False)
    monkeypatch.delitem(sys.modules, "kernels_here", raising=False)


@pytest.mark.parametrize("model", ["lenet5", "mlp"])
def test_models_by_name(teeny: Teeny, model: str) -> None:
    result = teeny("compile", model, "--emit", "graph")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("graph ")
    assert "f32[n, 1, 28, 28]) -> (f32[n, 10])" in result.out


def test_what_the_optimiser_did(teeny: Teeny) -> None:
    result = teeny("compile", "lenet5", "--explain", "--device", "cpu")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("cost ")
    result = teeny("compile", "lenet5", "--explain", "--emit", "tile")
    assert result.code != 0
    assert "either --emit or --explain" in result.err


def test_the_graph_is_the_default_and_goes_to_a_file(teeny: Teeny, tmp_path: Path) -> None:
    shown = teeny("compile", "mlp").out
    result = teeny("compile", "mlp", "-o", "mlp.graph")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert (tmp_path / "mlp.graph").read_text().rstrip("\n") == shown.rstrip("\n")


def test_a_checkpoint(teeny: Teeny) -> None:
    state.save("model.st", mnist.build("mlp"))
    assert teeny("compile", "model.st").out == teeny("compile", "mlp").out


@pytest.mark.usefixtures("factories")
def test_a_factory_with_the_types_of_its_inputs(teeny: Teeny) -> None:
    types = ("--input", "f32[n, 3]", "--input", "f32[n,3]")
    result = teeny("compile", "factories_here:Double", *types)
    assert (result.code, result.err) == (0, "")
    assert "f32[n, 3]) -> (f32[n, 3])" in result.out


@pytest.mark.usefixtures("factories")
def test_a_kernel_with_its_parameters(teeny: Teeny) -> None:
    given = ("--set", "x=*bf16", "--set", "BLOCK=64")
    result = teeny("compile", "kernels_here:double", *given)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("func @double(%x: ptr<bf16> {written = true}, %n: i32) {")
    result = teeny("compile", "kernels_here:double", *given, "--emit", "llvm", "--device", "cpu")
    assert (result.code, result.err) == (0, "")
    assert "define void @double(" in result.out


@pytest.mark.usefixtures("factories")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["vgg"], "no model is called 'vgg'"),
        (["factories_here:Double"], "the inputs of factories_here:Double are not known"),
        (
            ["factories_here:none", "--input", "f32[n]"],
            "factories_here:none cannot be imported: "
            "module 'factories_here' has no attribute 'none'",
        ),
        (
            ["nowhere:none", "--input", "f32[n]"],
            "nowhere:none cannot be imported: No module named 'nowhere'",
        ),
        (
            ["factories_here:number", "--input", "f32[n]"],
            "factories_here:number returns a int, which is no function of tensors",
        ),
        (
            ["factories_here:sized", "--input", "f32[n]"],
            "factories_here:sized cannot be called without arguments: "
            "missing a required argument: 'width'",
        ),
        (
            ["wrong_here:none", "--input", "f32[n]"],
            "wrong_here:none cannot be imported: division by zero",
        ),
        (["kernels_here:double", "--set", "BLOCK"], "--set BLOCK has no value"),
        (["kernels_here:double", "--set", "BLOCK=1,2"], "--set BLOCK has several values"),
        (
            [
                "kernels_here:double",
                "--set",
                "x=*f32",
                "--set",
                "BLOCK=8",
                "--emit",
                "graph",
                "--device",
                "cpu",
            ],
            "no stage of a kernel is named 'graph'",
        ),
        (["mlp", "--input", "f32[n"], "'f32[n' is not the type of an input"),
        (["mlp", "--emit", "poetry", "--device", "null"], "no stage is named 'poetry'"),
        (["mlp", "--device", "gpu"], "no device is named 'gpu'"),
        (["mlp", "-o", "missing/a"], "cannot write missing/a: No such file or directory"),
    ],
)
def test_bad_input(teeny: Teeny, arguments: list[str], error: str) -> None:
    result = teeny("compile", *arguments)
    assert (result.code, result.out) == (2, "")
    first, second = result.err.splitlines()
    assert first == f"error: {error}"
    assert second.startswith("hint: ")


@pytest.mark.parametrize(
    ("text", "dtype", "shape"),
    [
        ("f32[2, 3]", tn.f32, (2, 3)),
        (" i64[n,3] ", tn.i64, (tn.symbol("n"), 3)),
        ("bf16 []", tn.bf16, ()),
    ],
)
def test_types(text: str, dtype: tn.DType, shape: tuple[object, ...]) -> None:
    tensor = parse_type(text, "x")
    assert (tensor.dtype, tensor.shape) == (dtype, shape)


@pytest.mark.parametrize(
    "text", ["f32", "f32[2", "f32[,]", "f32[2,]", "f32[-1]", "[2]", "f32[a b]"]
)
def test_no_types(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is not the type of an input\nhint: write it like f32"):
        parse_type(text, "x")


def test_no_dtype() -> None:
    with pytest.raises(DTypeError):
        parse_type("f33[2]", "x")
