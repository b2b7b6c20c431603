"""Launching: arguments of any library, what is specialised, devices, and tuning."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import teeny_core as tn
import teeny_triton.language as tl
from teeny_core import DeviceError
from teeny_triton import (
    Config,
    DeviceKernel,
    KernelError,
    Ptr,
    TypeVar,
    autotune,
    bf16,
    constexpr,
    decorator,
    f32,
    heuristics,
    i32,
    interpret,
    ir,
    jit,
    kernel,
)

T = TypeVar("T")
FACTOR = 2
SHIFT = constexpr(0)


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_INTERPRET", "1")


@kernel
def double(x: Ptr[T], y: Ptr[T], n: i32, block: constexpr = 8):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def functions(k: Any) -> list[ir.Function]:
    return [function for function, _ in k._functions.values()]


# --- memory of any library ---


@pytest.mark.usefixtures("interpreted")
def test_numpy() -> None:
    for dtype in (np.float32, np.int8, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2):
        x = np.arange(10).astype(dtype)
        y = np.zeros_like(x)
        if np.dtype(dtype).itemsize > 1:
            double[(2,)](x, y, 10)
            np.testing.assert_array_equal(y.astype(np.float32), 2 * x.astype(np.float32))
    double[2](x=np.ones(9, np.float32), n=9, y=(out := np.zeros(9, np.float32)), block=8)
    assert (out == 2).all()


@pytest.mark.usefixtures("interpreted")
def test_torch() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
        x = torch.arange(10).to(dtype)
        y = torch.zeros_like(x)
        double[(2,)](x, y, 10)
        assert torch.equal(y, x * 2)
    weights = torch.nn.Parameter(torch.arange(6.0))
    out = torch.zeros(12)[::2]

    @kernel
    def strided(x, y, stride, n: constexpr):
        i = tl.arange(0, n)
        tl.store(y + i * stride, tl.load(x + i))

    strided[(1,)](weights, out, out.stride(0), n=6)
    assert torch.equal(out, weights.detach())
    double[(1,)](torch.zeros(0), torch.zeros(0), 0)
    with pytest.raises(KernelError, match="argument `x` of type Tensor cannot be passed"):
        double[(1,)](torch.zeros(4, device="meta"), out, 4)


@pytest.mark.usefixtures("interpreted")
def test_teeny_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("teeny_compiler.ndarray")
    monkeypatch.setenv("TEENY_DEVICE", "ndarray")
    x, y = tn.Tensor([1.0, 2.0, 3.0]), tn.Tensor([0.0, 0.0, 0.0])
    lazy = y + 1  # recorded before the launch, so it sees the zeros
    double[(1,)](x, y, 3)
    np.testing.assert_array_equal(y.numpy(), [2, 4, 6])
    np.testing.assert_array_equal(lazy.numpy(), [1, 1, 1])


@pytest.mark.usefixtures("interpreted")
def test_array_interface_and_dlpack() -> None:
    class Interface:
        def __init__(self, array: np.ndarray) -> None:
            self.__array_interface__ = array.__array_interface__
            self.keep = array

    class Packed:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    y = np.zeros(4, np.float32)
    double[(1,)](Packed(np.float32([1, 2, 3, 4])), Interface(y), 4)
    np.testing.assert_array_equal(y, [2, 4, 6, 8])


@pytest.mark.usefixtures("interpreted")
def test_refused_arguments() -> None:
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    frozen = y.copy()
    frozen.flags.writeable = False
    for args, message in [
        ((x, y), "double: missing a required argument: 'n'"),
        ((x, y, 4, 8, 9), "double: too many positional arguments"),
        ((x, y.astype(np.float64), 4), "`y` must be ptr<T> where T is f32, not ptr<f64>"),
        ((x, y, 4.5), "argument `n` must be i32, not 4.5"),
        ((x, y, 2**31), "argument `n` must be i32, not 2147483648"),
        ((x, frozen, 4), "argument `y` is written, but its memory is read-only"),
        ((x, y.astype("M8[s]"), 4), "argument `y` of type ndarray cannot be passed"),
    ]:
        with pytest.raises(KernelError, match=message):
            double[(1,)](*args)
    for grid in ((), (1, 1, 1, 1), (-1,), (1.5,), "2"):
        with pytest.raises(KernelError, match="a grid has one to three integer extents"):
            double[grid](x, y, 4)
    double[(0,)](x, y, 4)
    double[lambda arguments: (arguments["n"] // arguments["block"] + 1, 1)](x, y, 4)


# --- what is specialised ---


@pytest.mark.usefixtures("interpreted")
def test_facts_and_types_of_arguments() -> None:
    @kernel
    def k(x, n, alpha, flag, extra, block: constexpr):
        if flag:
            tl.store(x, alpha + n)

    x = np.zeros(64, np.float32)
    start = (64 - x.ctypes.data % 64) % 64 // 4
    aligned = x[start : start + 16]
    k[(1,)](aligned, 32, 0.5, True, None, 1)
    k[(1,)](aligned, 48, 1.5, False, None, 1)
    assert len(functions(k)) == 1
    text = str(functions(k)[0]).split("\n")[0]
    assert text == (
        "func @k(%x: ptr<f32> {alignment = 64, written = true}, %n: i32 {divisibility = 16}, "
        "%alpha: f32, %flag: bool) {"
    )
    k[(1,)](aligned[1:], 33, 0.5, True, None, 1)
    k[(1,)](aligned[4:], 1, 0.5, True, "text", 1)
    k[(1,)](aligned, 2**40, np.float64(0.5), True, None, 1)
    heads = [str(f).split("\n")[0] for f in functions(k)[1:]]
    assert heads == [
        "func @k(%x: ptr<f32> {alignment = 4, written = true}, %n: i32, "
        "%alpha: f32, %flag: bool) {",
        "func @k(%x: ptr<f32> {alignment = 16, written = true}, %alpha: f32, %flag: bool) {",
        "func @k(%x: ptr<f32> {alignment = 64, written = true}, %n: i64 {divisibility = 16}, "
        "%alpha: f64, %flag: bool) {",
    ]


@pytest.mark.usefixtures("interpreted")
def test_do_not_specialize() -> None:
    @jit(do_not_specialize=["n", 2])
    def k(x, n, m):
        tl.store(x, n + m)

    x = np.zeros(4, np.float32)
    for n, m in ((1, 16), (7, 1), (32, 3)):
        k[(1,)](x, n, m)
        assert x[0] == n + m
    assert len(functions(k)) == 1


@pytest.mark.usefixtures("interpreted")
def test_overlap_withdraws_noalias() -> None:
    @kernel
    def k(x, y, n: constexpr):
        i = tl.arange(0, n)
        tl.store(y + i, tl.load(x + i) + 1)

    x = np.zeros(8, np.float32)
    k[(1,)](x, x, 4)
    k[(1,)](x[:4], x[4:], 4)
    assert [[p.noalias for p in f.parameters] for f in functions(k)] == [[False] * 2, [True] * 2]
    np.testing.assert_array_equal(x, [1, 1, 1, 1, 2, 2, 2, 2])


@pytest.mark.usefixtures("interpreted")
def test_constants_differ_by_type() -> None:
    @kernel
    def k(x, value: constexpr):
        tl.store(x, 10 if value is True else value)

    x = np.zeros(1, np.float32)
    for value, expected in ((1, 1), (True, 10), (1.0, 1)):
        k[(1,)](x, value)
        assert x[0] == expected
    assert len(functions(k)) == 3


@pytest.mark.usefixtures("interpreted")
def test_a_changed_global_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    @kernel
    def helper(x):
        return x * FACTOR

    @kernel
    def k(x):
        tl.store(x, helper(3) + SHIFT)

    x = np.zeros(1, np.float32)
    k[(1,)](x)
    before = functions(k)
    k[(1,)](x)
    assert functions(k)[0] is before[0]
    assert x[0] == 6
    monkeypatch.setitem(globals(), "FACTOR", 5)
    k[(1,)](x)
    assert x[0] == 15
    monkeypatch.setitem(globals(), "SHIFT", constexpr(1))
    k[(1,)](x)
    assert x[0] == 16


@pytest.mark.usefixtures("interpreted")
def test_tuples_of_arrays() -> None:
    @kernel
    def total(out, inputs, weights: constexpr, *more):
        result = 0.0
        for p, w in zip(inputs, weights):  # noqa: B905 - what users write
            result += tl.load(p) * w
        for p in more:
            result += tl.load(p)
        tl.store(out, result)

    a, b, c, out = (np.float32([v]) for v in (1, 2, 3, 0))
    total[(1,)](out, (a, b), (10, 100), c)
    assert out[0] == 213


# --- devices ---


class FakeDevice:
    """Runs kernels from addresses and numbers, as a driver does."""

    name = "fake"

    def __init__(self) -> None:
        self.compiled: list[ir.Function] = []

    def compile_kernel(self, function: ir.Function) -> DeviceKernel:
        self.compiled.append(function)

        def run(grid: tuple[int, int, int], arguments: Sequence[int | float]) -> None:
            values: list[Any] = []
            for parameter, value in zip(function.parameters, arguments, strict=True):
                element = parameter.value.type.element
                if isinstance(element, ir.Pointer):
                    size = 4 * element.pointee.itemsize
                    buffer = (ctypes.c_char * size).from_address(int(value))
                    values.append(np.frombuffer(buffer, element.pointee.numpy))
                else:
                    values.append(value)
            interpret(function, grid, values)

        return run


def test_launch_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEENY_INTERPRET", raising=False)
    device = FakeDevice()
    monkeypatch.setattr(decorator, "get_device", lambda: device)

    @kernel
    def k(x: Ptr[f32], y: Ptr[f32], n: i32, alpha: f32):
        i = tl.arange(0, 4)
        tl.store(y + i, tl.load(x + i, mask=i < n) * alpha, mask=i < n)

    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    for _ in range(2):
        k[(1,)](x, y, 3, 2)
    np.testing.assert_array_equal(y, [0, 2, 4, 0])
    k[(1,)](x, y, np.int32(4), np.float32(0.5))
    np.testing.assert_array_equal(y, [0, 0.5, 1, 1.5])
    assert len(device.compiled) == 1


def test_a_device_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEENY_INTERPRET", raising=False)
    monkeypatch.setenv("TEENY_DEVICE", "null")
    x = np.zeros(4, np.float32)
    with pytest.raises(DeviceError, match=r"compiles no kernels\nhint: .* TEENY_INTERPRET=1"):
        double[(1,)](x, x.copy(), 4)


# --- tuning ---


@heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@kernel
def fill(x, n, BLOCK: constexpr, EVEN: constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x + i, 1.0)
    else:
        tl.store(x + i, 2.0, mask=i < n)


@pytest.mark.usefixtures("interpreted")
def test_heuristics() -> None:
    x = np.zeros(8, np.float32)
    fill[(2,)](x, 8, BLOCK=4)
    assert (x == 1).all()
    fill[(2,)](x, 7, BLOCK=4, num_warps=2)
    assert (x[:7] == 2).all()


def test_autotune_measures_once_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEENY_INTERPRET", raising=False)
    device = FakeDevice()
    monkeypatch.setattr(decorator, "get_device", lambda: device)
    hooked = []

    @autotune(
        [
            Config({"BLOCK": 1}),
            Config({"BLOCK": 4}, num_warps=8, pre_hook=lambda a: hooked.append(a["BLOCK"])),
        ],
        key=["n"],
    )
    @heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    @kernel
    def increment(x, n, BLOCK: constexpr, EVEN: constexpr):
        for start in range(0, n, BLOCK):
            i = start + tl.arange(0, BLOCK)
            tl.store(x + i, tl.load(x + i) + 1)

    x = np.zeros(4, np.float32)
    increment[(1,)](x, 4)
    np.testing.assert_array_equal(x, 1)
    trials = len(device.compiled)
    assert trials == 2
    increment[(1,)](x, 4)
    np.testing.assert_array_equal(x, 2)
    assert len(device.compiled) == trials
    assert set(hooked) == {4}
    assert str(increment.configs[0]) == "BLOCK: 1"


@pytest.mark.usefixtures("interpreted")
def test_autotune_takes_the_first_when_interpreted() -> None:
    @autotune([Config({"BLOCK": 2}), Config({"BLOCK": 4})], key=[], reset_to_zero=["x"])
    @kernel
    def k(x, BLOCK: constexpr):
        tl.store(x + tl.arange(0, BLOCK), BLOCK)

    x = np.ones(4, np.float32)
    k[(1,)](x)
    np.testing.assert_array_equal(x, [2, 2, 0, 0])
    with pytest.raises(KernelError, match="at least one Config"):
        autotune([], key=[])


def test_a_kernel_needs_a_grid() -> None:
    with pytest.raises(KernelError, match=r"launch it by double\[\(programs,\)\]"):
        double(1, 2, 3)


def test_kernels_read_like_functions() -> None:
    assert double.__name__ == "double"
    assert double.__module__ == __name__
    assert repr(double) == "<kernel double>"
    assert double.fn.__name__ == "double"
    assert bf16.name == "bf16"
