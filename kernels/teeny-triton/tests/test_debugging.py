"""Prints, assertions and stops of running kernels, interpreted; teeny-cpu tests them natively."""

from __future__ import annotations

import bdb
import ctypes
import inspect
import sys
from types import FrameType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_triton import KernelError, Ptr, constexpr, f32, i32, interpret, ir, kernel, parse, verify
from teeny_triton.debugging import printed
from teeny_triton.expand import expand

Stops = list[tuple[str, int, dict[str, Any]]]


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def line_of(k: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(k.fn)
    return first + next(i for i, line in enumerate(lines) if text in line)


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> Stops:
    """Where `breakpoint()` has stopped: the frame's name and line, and a copy of its variables."""
    found: Stops = []

    def hook() -> None:
        frame = sys._getframe(1)
        found.append((frame.f_code.co_name, frame.f_lineno, dict(frame.f_locals)))
        assert frame.f_code.co_filename == __file__

    monkeypatch.setattr(sys, "breakpointhook", hook)
    return found


@kernel
def stopping(x: Ptr[f32], n: i32, BLOCK: constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = x + offsets
    pair = (n, offsets < n)
    value = tl.load(place, mask=pair[1])
    other = value  # noqa: F841
    breakpoint()
    value = value + 1
    tl.store(place, value, mask=pair[1])


def test_a_breakpoint_stops_with_the_variables_as_numpy_arrays(stops: Stops) -> None:
    x = floats(0, 1, 2, 3, 4, 5)
    function = stopping.function(BLOCK=4)
    interpret(verify(parse(str(function))), (2,), [x.copy(), 6])  # without source it goes on
    assert not stops
    interpret(function, (2,), [x, 6])
    assert [(name, line) for name, line, _ in stops] == [
        ("stopping", line_of(stopping, "breakpoint()"))
    ] * 2
    first, second = (variables for *_, variables in stops)
    assert first["program"] == (0, 0, 0)
    assert second["program"] == (1, 0, 0)
    assert (second["n"], second["BLOCK"], second["pair_0"]) == (6, 4, 6)
    np.testing.assert_array_equal(second["offsets"], [4, 5, 6, 7])
    np.testing.assert_array_equal(second["place"], [4, 5, 6, 7])
    np.testing.assert_array_equal(second["pair_1"], [True, True, False, False])
    np.testing.assert_array_equal(second["value"], [4, 5, 0, 0])
    np.testing.assert_array_equal(second["other"], second["value"])
    assert second["x"] is x
    np.testing.assert_array_equal(x, [1, 2, 3, 4, 5, 6])


def test_breakpoints_in_loops_branches_and_helpers(stops: Stops) -> None:
    @kernel
    def helper(x):
        y = x * 2
        breakpoint()
        return y

    @kernel
    def k(out: Ptr[f32], n: i32):
        total = 0
        for i in range(n):
            if i == 1:
                breakpoint()
            total += helper(i)
        tl.store(out, total)

    out = floats(0)
    interpret(k.function(), (1,), [out, 3])
    assert out == 6
    inside = [(name, v.get("y"), v.get("total")) for name, _, v in stops]
    assert inside == [
        ("helper", 0, None),
        ("k", None, 0),
        ("helper", 2, None),
        ("helper", 4, None),
    ]


def test_a_breakpoint_changes_nothing_of_the_function() -> None:
    def with_stop(x: Ptr[f32]):
        value = tl.load(x) + 1
        unused = value * 2  # noqa: F841
        breakpoint()
        tl.store(x, value)

    function = kernel(with_stop).function()
    assert sum(op.opcode == "breakpoint" for op in function.body.ops) == 1
    left = [op.opcode for op in expand(function).body.ops]
    assert left == ["load", "const", "add", "store"]  # and nothing of what only it has seen


class Debugger(bdb.Bdb):
    """Stops at breakpoints, notes the line and some variables, and goes on."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names
        self.seen: list[tuple[int, list[Any]]] = []

    def user_line(self, frame: FrameType) -> None:
        if frame.f_code.co_filename == __file__:
            shown = [frame.f_locals.get(name) for name in self.names]
            self.seen.append((frame.f_lineno, shown))
        self.set_continue()


def test_debuggers_stop_at_lines_of_a_kernel() -> None:
    debugger = Debugger("value", "program")
    line = line_of(stopping, "value = value + 1")
    assert debugger.set_break(__file__, line) is None
    before, hook = sys.gettrace(), sys.breakpointhook
    sys.breakpointhook = lambda: None
    try:
        function = stopping.function(BLOCK=2)
        debugger.runcall(interpret, function, (2,), [floats(5, 6, 7), 3])
    finally:
        sys.settrace(before)
        sys.breakpointhook = hook
    at_line = [shown for number, shown in debugger.seen if number == line]
    assert [program for _, program in at_line] == [(0, 0, 0), (1, 0, 0)]
    np.testing.assert_array_equal(at_line[0][0], [5, 6])
    np.testing.assert_array_equal(at_line[1][0], [7, 0])


# --- prints and assertions ---


@kernel
def printing(x: Ptr[f32], n: i32, BLOCK: constexpr):
    value = tl.load(x + tl.arange(0, BLOCK))
    tl.device_print("values: 100%", value, n)
    tl.device_print("bits", value.to(tl.bfloat16), n, value > 0, n.to(tl.uint8), hex=True)
    print("compared", value > 0, n)


def test_prints(capsys: pytest.CaptureFixture[str]) -> None:
    interpret(printing.function(BLOCK=3), (2,), [floats(1, -0.0, 1e-7 / 3), -2])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        line
        for program in (0, 1)
        for line in (
            f"pid ({program}, 0, 0) values: 100% 1 -0 3.33333e-08 -2",
            f"pid ({program}, 0, 0) bits 0x3f80 0x8000 0x330f 0xfffffffe 0x01 0x00 0x01 0xfe",
            f"pid ({program}, 0, 0) compared 1 0 1 -2",
        )
    ]


def _c_printf(form: str, value: float) -> str:
    buffer = ctypes.create_string_buffer(64)
    ctypes.CDLL(None).snprintf(buffer, 64, form.encode(), ctypes.c_double(value))
    return buffer.value.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="other C libraries write NaN otherwise")
def test_floats_are_printed_as_c_does() -> None:
    values = [0.0, -0.0, 1.0, 1 / 3, 1e20, -1e-20, 123456789, 1e5, 1e6, np.inf, -np.inf, np.nan]
    x = np.array([*values, -np.nan])
    assert printed(x) == [_c_printf("%g", value) for value in x.tolist()]
    narrow = x.astype(ml_dtypes.bfloat16)
    assert printed(narrow) == [_c_printf("%g", float(value)) for value in narrow]


def test_failed_assertions_show_the_source() -> None:
    @kernel
    def k(x: Ptr[f32]):
        value = tl.load(x + tl.program_id(0))
        tl.device_assert(value > 0, "positive")

    interpret(k.function(), (2,), [floats(1, 2)])
    with pytest.raises(KernelError) as caught:
        interpret(k.function(), (2,), [floats(1, -2)])
    line = line_of(k, "device_assert")
    assert str(caught.value) == (
        f"{__file__}:{line}:9: program (1, 0, 0): device_assert failed: positive\n"
        '    tl.device_assert(value > 0, "positive")\n'
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
    )


@pytest.mark.parametrize("file", ["kernel.py", "C:\\kernels\\a.py", "/a b/c:d.py"])
def test_places_are_written_and_read(file: str) -> None:
    place = ir.Location(file, 12, 4, 7)
    assert ir.Location.parse(str(place)) == place


# --- stages ---


def test_tile_ir_is_shown() -> None:
    assert printing.emit("tile", BLOCK=4) == str(printing.function(BLOCK=4))
