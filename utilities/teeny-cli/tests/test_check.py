import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Teeny = Callable[..., Any]

GOOD = """
    import teeny_triton.language as tl
    from teeny_triton import Ptr, TypeVar, bf16, constexpr, f32, i32, kernel

    T = TypeVar("T", f32, bf16)


    @kernel(check={"BLOCK": (16, 32)})
    def double(x: Ptr[T], n: i32, BLOCK: constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
"""
BAD = """
    import triton
    import triton.language as tl


    @triton.jit
    def total(x_ptr, y_ptr, BLOCK: tl.constexpr = 16):
        total = tl.zeros((BLOCK,), tl.bfloat16)
        for i in range(4):
            total += tl.load(x_ptr + i * BLOCK + tl.arange(0, BLOCK))
        tl.store(y_ptr + tl.arange(0, BLOCK), total)


    @triton.jit
    def unknown(x_ptr, BLOCK: tl.constexpr):
        tl.store(x_ptr + tl.arange(0, BLOCK), 0.0)
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in (("good.py", GOOD), ("bad.py", BAD)):
        (tmp_path / name).write_text(textwrap.dedent(text))
    return tmp_path


@pytest.mark.usefixtures("files")
def test_good_kernels_pass(teeny: Teeny) -> None:
    result = teeny("check", "good.py")
    assert (result.code, result.err) == (0, "")
    assert result.out == ("good.py:8 double  ok, 4 cases\n1 file, 1 kernel, 4 cases: no errors\n")


@pytest.mark.usefixtures("files")
def test_an_error_shows_a_caret_and_its_cases(teeny: Teeny) -> None:
    result = teeny("check", "bad.py")
    assert result.code == 1
    wrong = "tile<16xbf16>, but an iteration leaves tile<16xf16>"
    cases = ("x_ptr: ptr<f16>, y_ptr: ptr<f16>", "x_ptr: ptr<f32>, y_ptr: ptr<f32>")
    lines = result.out.splitlines()
    assert lines[:4] == [
        "bad.py:6 total  error",
        f"  bad.py:10:9: `total` enters the loop as {wrong}",
        "      total += tl.load(x_ptr + i * BLOCK + tl.arange(0, BLOCK))",
        "      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    ]
    assert "  hint: keep its type with .to(...), or start from the type that it gets" in lines
    assert lines[-6:] == [
        f"  in 2 of 3: {', BLOCK=16; '.join(cases)}, BLOCK=16",
        "  not annotated, so taken for pointers to f16, bf16, f32 or for i32: x_ptr, y_ptr",
        "bad.py:14 unknown  not checked",
        "  unknown is not checked: no value of its constant `BLOCK` is known",
        '  hint: give some: @kernel(check={"BLOCK": (64, 128)}), or a default',
        "1 file, 2 kernels, 3 cases: 1 error, 1 not checked",
    ]


@pytest.mark.usefixtures("files")
def test_values_from_the_command_line(teeny: Teeny) -> None:
    result = teeny("check", "bad.py", "--set", "BLOCK=8,16", "--set", "x_ptr=*bf16", "--json")
    assert result.code == 0
    total, unknown, tally = map(json.loads, result.out.splitlines())
    assert (total["kernel"], total["status"], total["cases"]) == ("total", "ok", 6)
    assert (unknown["kernel"], unknown["status"], unknown["cases"]) == ("unknown", "ok", 2)
    assert tally == {"files": 1, "kernels": 2, "cases": 8, "errors": 0, "unchecked": 0}


@pytest.mark.usefixtures("files")
def test_json_names_the_place(teeny: Teeny) -> None:
    result = teeny("check", "good.py", "bad.py", "--json")
    assert result.code == 1
    *kernels, tally = map(json.loads, result.out.splitlines())
    statuses = [(line["kernel"], line["status"]) for line in kernels]
    assert statuses == [("double", "ok"), ("total", "error"), ("unknown", "unchecked")]
    (error,) = kernels[1]["errors"]
    assert (Path(error["file"]).name, error["line"], error["column"]) == ("bad.py", 10, 9)
    assert error["message"].startswith("`total` enters the loop as tile<16xbf16>")
    assert len(error["cases"]) == 2
    assert (tally["files"], tally["errors"], tally["unchecked"]) == (2, 1, 1)


def test_strict_fails_for_what_cannot_be_checked(teeny: Teeny, files: Path) -> None:
    source = (files / "bad.py").read_text().replace("bfloat16", "float32")
    (files / "bad.py").write_text(source)
    assert teeny("check", "bad.py").code == 0
    assert teeny("check", "bad.py", "--strict").code == 1


def test_a_file_that_cannot_be_imported(teeny: Teeny, files: Path) -> None:
    (files / "broken.py").write_text("import nothing_of_this_name\n")
    result = teeny("check", "broken.py", "good.py")
    assert result.code == 1
    assert "broken.py  error\n" in result.out
    assert "No module named 'nothing_of_this_name'" in result.out
    assert "double  ok" in result.out


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.py"], "error: there is no file nothing.py"),
        (["good.py", "--set", "BLOCK"], "error: --set BLOCK has no value"),
        (["good.py", "--set", "NO=1"], "error: no kernel has a parameter 'NO'"),
        ([], "error: Missing argument"),
    ],
)
def test_wrong_command_lines(teeny: Teeny, arguments: list[str], message: str) -> None:
    result = teeny("check", *arguments)
    assert result.code == 2
    assert result.err.startswith(message)
