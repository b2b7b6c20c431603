"""Checking kernels for all that their annotations admit."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from teeny_triton import KernelError
from teeny_triton.check import Checked, check, load
from teeny_triton.inference import pointers

Found = dict[str, Checked]
HEAD = """
from typing import Literal

import triton
import triton.language as tl
from triton import Config, Ptr, TypeVar, autotune, bf16, constexpr, contiguous, f16, f32, f64
from triton import heuristics, i32, i64, kernel

T = TypeVar("T", f16, f32)
U = TypeVar("U")


class Shape: ...
"""


@pytest.fixture
def found(tmp_path: Path) -> Callable[..., Found]:
    """Check the kernels of a text."""

    def run(text: str, **values: Any) -> Found:
        path = tmp_path / "kernels.py"
        path.write_text(HEAD + textwrap.dedent(text))
        return {each.kernel.__name__: each for each in check(load(path), values)}

    return run


def cases(checked: Checked) -> int:
    assert checked.unchecked is None
    assert not checked.problems
    return checked.cases


@pytest.mark.parametrize(
    ("parameters", "count"),
    [
        ("x: Ptr[f32]", 1),
        ("x: Ptr[T]", 2),
        ("x: Ptr[T], y: Ptr[T, contiguous], a: T", 2),
        ("x: Ptr[T], y: Ptr[U]", 6),
        ("x: Ptr[f32, contiguous], n: i64", 1),
        ("x: Ptr[T], flag: constexpr[bool]", 4),
        ("x: Ptr[f32], kind: constexpr[Literal['a', 'b', 'c']]", 3),
        ("x: Ptr[f32], kind: constexpr[Literal['a', 'b']] = 'a'", 2),
        ("x: Ptr[f32], n: constexpr[int] = 4", 1),
        ("x: Ptr[T], more: tuple[Ptr[f32], ...]", 2),
        ("x: Ptr[T], more: tuple[Ptr[f32], i32]", 2),
        ("x: Ptr[f32], more: tuple[Ptr[T], U]", 6),
        ("x: Ptr[T], *more: Ptr[T]", 2),
        ("x, bias=None", 3),
        ("x: Ptr[f32], bias: Ptr[T] | None", 3),
        ("x: Ptr[T], bias: Ptr[T] | None, n: i32 | None = None", 8),
        ("x, n, *rest", 3),
    ],
)
def test_cases_by_annotation(found: Callable[..., Found], parameters: str, count: int) -> None:
    checked = found(f"""
        @kernel
        def k({parameters}):
            tl.store(x, tl.load(x))
    """)
    assert cases(checked["k"]) == count


def test_constants_from_check_configs_and_heuristics(found: Callable[..., Found]) -> None:
    checked = found("""
        @kernel(check={"BLOCK": (16, 32), "x": (Ptr[f32], Ptr[f64]), "n": i64})
        def explicit(x, n, BLOCK: constexpr):
            tl.store(x + n + tl.arange(0, BLOCK), 0.0)

        @autotune([Config({"BLOCK": b, "STEP": 1}) for b in (4, 8, 16)], key=["n"])
        @heuristics({"EVEN": lambda a: a["n"] % a["BLOCK"] == 0, "W": lambda a: a["BLOCK"] * 2})
        @kernel
        def tuned(x: Ptr[T], n: i32, BLOCK: constexpr, STEP: constexpr, EVEN: constexpr,
                  W: constexpr):
            tl.static_assert(W == 2 * BLOCK)
            tl.store(x + tl.arange(0, BLOCK), 1.0 if EVEN else 0.0)
    """)
    assert cases(checked["explicit"]) == 4
    assert cases(checked["tuned"]) == 2 * (3 + 1)  # 1000 is no multiple of 16


def test_values_that_are_given_go_first(found: Callable[..., Found]) -> None:
    text = """
        @kernel(check={"BLOCK": (16, 32)})
        def k(x: Ptr[T], BLOCK: constexpr = 8):
            tl.store(x + tl.arange(0, BLOCK), 0.0)
    """
    assert cases(found(text)["k"]) == 4
    assert cases(found(text, BLOCK=[4, 8, 12])["k"]) == 6


def test_one_error_for_each_place(found: Callable[..., Found]) -> None:
    checked = found("""
        @kernel(check={"BLOCK": (4, 8)})
        def k(x: Ptr[T], BLOCK: constexpr):
            acc = tl.zeros((BLOCK,), f16)
            for i in range(4):
                acc += tl.load(x + i * BLOCK + tl.arange(0, BLOCK))
            tl.store(x + tl.arange(0, BLOCK), acc)
    """)["k"]
    (problem,) = checked.problems
    assert (checked.cases, len(problem.cases)) == (4, 2)
    assert str(problem.cases[0]) == "x: ptr<f32>, BLOCK=4"
    assert problem.place is not None
    assert problem.place[1:] == (HEAD.count("\n") + 6, 9)
    assert "`acc` enters the loop as tile<4xf16>" in str(problem.error)


def test_errors_inside_helpers_show_the_chain(found: Callable[..., Found]) -> None:
    checked = found("""
        @kernel
        def helper(a, b):
            return a.no_such_method(b)

        @kernel
        def stores(pointer, value):
            tl.store(pointer, value)

        @kernel
        def k(x: Ptr[f32]):
            stores(x, helper(tl.load(x), 2))
    """)
    assert checked["helper"].helper
    assert checked["stores"].helper
    (problem,) = checked["k"].problems
    assert "inlined at" in str(problem.error)


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("k(x: Ptr[f32], BLOCK: constexpr)", "no value of its constant `BLOCK` is known"),
        ("k(x: Ptr[f32], BLOCK: constexpr[int])", "no value of its constant `BLOCK` is known"),
        ("k(x: Ptr[f32], more: tuple[object, ...])", "what `more` may be is not known"),
        ("k(x: Ptr[f32], shape: Shape)", "what `shape` may be is not known"),
    ],
)
def test_what_is_not_known(found: Callable[..., Found], definition: str, reason: str) -> None:
    checked = found(f"""
        @kernel
        def {definition}:
            tl.store(x, 0.0)
    """)["k"]
    assert checked.unchecked is not None
    assert reason in checked.unchecked.message
    assert checked.unchecked.hint is not None
    assert checked.cases == 0


def test_a_helper_of_other_files(found: Callable[..., Found]) -> None:
    checked = found("""
        @kernel
        def put(pointer, value):
            tl.store(pointer, value.to(f32).no_method())

        @kernel
        def wrong(pointer: Ptr[f32], value):
            tl.store(pointer, value.no_method())
    """)
    assert "nothing is annotated" in str(checked["put"].unchecked)
    assert checked["wrong"].problems


def test_checks_that_fit_no_parameter_and_heuristics_that_fail(
    found: Callable[..., Found],
) -> None:
    checked = found("""
        @kernel(check={"SIZE": 3})
        def named(x: Ptr[f32]):
            tl.store(x, 0.0)

        @heuristics({"EVEN": lambda a: a["nothing"]})
        @kernel
        def failing(x: Ptr[f32], EVEN: constexpr):
            tl.store(x, 0.0)
    """)
    assert "named has no parameter `SIZE`" in str(checked["named"].unchecked)
    assert "the heuristic of `EVEN` fails" in str(checked["failing"].unchecked)


def test_addresses_tell_pointers(found: Callable[..., Found]) -> None:
    checked = found("""
        @kernel
        def write(at, value):
            tl.store(at, value)

        @kernel
        def k(a, b, c_ptr, d, desc, n, stride, eps, BLOCK: constexpr = 8):
            i = tl.arange(0, BLOCK)
            rows = a + i * stride
            shifted = rows + n
            x = tl.load(shifted) + tl.load(pointer=b)
            write(c_ptr + i, x)
            p = tl.make_block_ptr(d, (n,), (1,), (0,), (BLOCK,), (0,))
            tl.store(p, tl.load(p))
            tl.atomic_add(desc + i, x, mask=i < n)
    """)
    assert pointers(checked["k"].kernel) == {"a", "b", "c_ptr", "d", "desc"}
    assert checked["k"].assumed == ("a", "b", "c_ptr", "d", "desc", "n", "stride", "eps")
    assert cases(checked["k"]) == 3


def test_nothing_runs(found: Callable[..., Found], capsys: pytest.CaptureFixture[str]) -> None:
    found("""
        print("imported")

        @kernel
        def k(x: Ptr[f32]):
            tl.static_print("read")
            tl.device_print("ran", tl.load(x))
    """)
    assert capsys.readouterr().out == ""


def test_files_of_a_package_import_their_siblings(tmp_path: Path) -> None:
    folder = tmp_path / "package_of_kernels"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "common.py").write_text(
        "from teeny_triton import kernel\n\n\n@kernel\ndef twice(x):\n    return x + x\n"
    )
    (folder / "main.py").write_text(
        HEAD + "from .common import twice\n\n\n@kernel\ndef k(x: Ptr[T]):\n"
        "    tl.store(x, twice(tl.load(x)))\n"
    )
    (checked,) = check(load(folder / "main.py"))
    assert cases(checked) == 2


def test_a_file_that_cannot_be_imported(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    for text, message in [("1 / 0", "ZeroDivisionError"), ("def", "SyntaxError")]:
        path.write_text(text)
        with pytest.raises(KernelError, match=f"cannot be imported: {message}"):
            load(path)
