"""Prints, assertions, breakpoints and stages of native kernels."""

from __future__ import annotations

import inspect
import threading

import numpy as np
import pytest
import teeny_core as tn
import teeny_triton.language as tl
from teeny_core import CompileError, KernelError
from teeny_cpu.runtime import num_threads, set_num_threads
from teeny_triton import Ptr, constexpr, f16, f32, f64, i8, i32, interpret, kernel, u8


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_DEVICE", "cpu")


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@kernel
def printing(x: Ptr[f32], y: Ptr[f64], n: i32, BLOCK: constexpr):
    value = tl.load(x + tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))
    print("value", value, n)
    tl.device_print("100%", value.to(f16), tl.load(y), value > 1, n.to(i8), n.to(u8))
    tl.device_print("bits", value, value.to(f16), tl.load(y), value > 1, n.to(i8), n, hex=True)
    tl.device_print("nothing")


def test_prints_are_those_of_the_interpreter(capfd: pytest.CaptureFixture[str]) -> None:
    x, y = floats(0, -0.0, 1e9, 1 / 3, np.inf, np.nan), np.array([-np.pi])
    interpret(printing.function(BLOCK=3), (1, 2), [x, y, -5])
    expected = capfd.readouterr().out
    assert expected.count("\n") == 8
    threads = num_threads()
    set_num_threads(1)  # so that programs run in order
    try:
        print("before")
        printing[(1, 2)](x, y, -5, BLOCK=3)
    finally:
        set_num_threads(threads)
    assert capfd.readouterr().out == f"before\n{expected}"


@kernel
def printing_much(x: Ptr[f32], BLOCK: constexpr):
    value = tl.load(x + tl.arange(0, BLOCK)[:, None] * 3 + tl.arange(0, 3)[None, :])
    tl.device_print("100% ä", value, tl.program_id(0), value.to(i8))
    tl.device_print("", value, hex=True)


@pytest.mark.parametrize("block", [1, 5, 6, 100])
def test_large_tiles_are_lines_too(block: int, capfd: pytest.CaptureFixture[str]) -> None:
    x = np.linspace(-1e-20, 1, 3 * block, dtype=np.float32) * np.float32(-1e20)
    interpret(printing_much.function(BLOCK=block), (2,), [x])
    expected = sorted(capfd.readouterr().out.splitlines())
    assert len(expected) == 4
    printing_much[(2,)](x, BLOCK=block)  # on all threads: lines in any order, but whole
    assert sorted(capfd.readouterr().out.splitlines()) == expected


@kernel
def checking(x: Ptr[f32], out: Ptr[f32], BLOCK: constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    tl.device_assert(value >= 0, "100% negative")
    tl.store(out + offsets, tl.sqrt(value))


@pytest.mark.parametrize("block", [1, 4, 16, 2048])
def test_a_failed_assertion_is_an_error_with_its_place(block: int) -> None:
    x, out = np.arange(2 * block, dtype=np.float32), np.zeros(2 * block, np.float32)
    checking[(2,)](x, out, BLOCK=block)
    np.testing.assert_allclose(out, np.sqrt(x), rtol=1e-6)
    x[-1] = -1
    with pytest.raises(KernelError) as caught:
        checking[(2,)](x, out, BLOCK=block)
    with pytest.raises(KernelError) as expected:
        interpret(checking.function(BLOCK=block), (2,), [x, out])
    assert str(caught.value) == str(expected.value)
    lines, first = inspect.getsourcelines(checking.fn)
    line = first + next(i for i, text in enumerate(lines) if "device_assert" in text)
    assert f"{__file__}:{line}:5: program (1, 0, 0): device_assert failed: 100% negative\n" in str(
        caught.value
    )
    x[-1] = 0  # a failure is not remembered
    checking[(2,)](x, out, BLOCK=block)


def test_no_program_stores_what_it_has_refused() -> None:
    x, out = -np.ones(64, np.float32), np.zeros(64, np.float32)
    with pytest.raises(KernelError, match=r"program \(\d+, 0, 0\): device_assert failed: 100%"):
        checking[(16,)](x, out, BLOCK=4)
    assert not out.any()


@kernel
def in_a_loop(x: Ptr[f32], n: i32):
    for i in range(n):
        if i > 2:
            assert tl.load(x + i) < 5
    tl.device_assert(n < 100, mask=n > 200)


def test_assertions_within_control_flow() -> None:
    x = np.arange(9, dtype=np.float32)
    in_a_loop[(1,)](x, 5)
    with pytest.raises(KernelError, match=r"program \(0, 0, 0\): device_assert failed\n"):
        in_a_loop[(1,)](x, 9)


def test_launches_of_several_threads_fail_for_themselves() -> None:
    good, bad = np.ones(4096, np.float32), -np.ones(4096, np.float32)
    outcomes: dict[int, list[bool]] = {0: [], 1: []}

    def launch(which: int) -> None:
        for _ in range(20):
            try:
                checking[(64,)](bad if which else good, np.empty_like(good), BLOCK=64)
            except KernelError:
                outcomes[which].append(False)
            else:
                outcomes[which].append(True)

    threads = [threading.Thread(target=launch, args=(which,)) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {0: [True] * 20, 1: [False] * 20}


@kernel
def stopping(x: Ptr[f32], BLOCK: constexpr):
    value = tl.load(x + tl.arange(0, BLOCK))
    squared = value * value  # noqa: F841
    breakpoint()
    tl.store(x + tl.arange(0, BLOCK), value + 1)


@pytest.mark.parametrize("block", [4, 4096])
def test_breakpoints_are_nothing_in_native_code(block: int) -> None:
    x = np.arange(block, dtype=np.float32)
    with pytest.warns(UserWarning, match="breakpoint.. does nothing in native code of stopping"):
        stopping[(1,)](x, BLOCK=block)
    np.testing.assert_array_equal(x, np.arange(block) + 1)


def test_stages_of_a_kernel_are_shown() -> None:
    assert stopping.emit("tile", BLOCK=8) == str(stopping.function(BLOCK=8))
    assert "define void @stopping(" in stopping.emit("llvm", BLOCK=8)
    assert "checking:" in checking.emit("asm", BLOCK=8)
    native = tn.device("cpu").compile_kernel(checking.function(BLOCK=8))
    assert native.emit("asm") == checking.emit("asm", BLOCK=8)
    with pytest.raises(CompileError, match="no stage of a kernel is named 'schedule'"):
        checking.emit("schedule", BLOCK=8)
