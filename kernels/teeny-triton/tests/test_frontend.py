"""What the front end reads: one small kernel for each feature, run in the interpreter."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_triton import (
    Kernel,
    KernelError,
    Ptr,
    TypeVar,
    bf16,
    constexpr,
    f16,
    f32,
    i32,
    i64,
    interpret,
    ir,
    kernel,
    specialise,
    verify,
)

T = TypeVar("T", f32, f16)
WIDTH = tl.constexpr(4)
OFFSET = 3


def run(k: Kernel, out: Any, *values: Any, grid: tuple[int, ...] = (1,), **parameters: Any) -> Any:
    """Specialise, run on `out` and the other run-time values, and return `out`."""
    function = verify(k.function(**parameters))
    interpret(function, grid, [out, *values])
    return out


def floats(n: int) -> np.ndarray:
    return np.zeros(n, np.float32)


def opcodes(function: ir.Function) -> list[str]:
    return [op.opcode for op in ir.walk(function.body)]


# --- values known while reading ---


@kernel
def static_values(out: Ptr[f32], n: constexpr, mode: constexpr):
    """A docstring."""
    width: tl.constexpr = WIDTH * 2
    first, (second, *rest) = 1, (2, 3, 4)
    table = {"a": 10, "b": 20}
    squares = [i * i for i in range(n) if i != 1]
    total = sum(i for i in squares)
    if (mode == "fast" and n > 2) or not n:
        value = width + first + second + sum(rest) + table["a"] + total + OFFSET
    elif mode is None:
        value = -1
    else:
        value = math.floor(2.5) if 1 < n <= 3 else 0
    name = f"{mode!r:>8}|{n:03d}"
    tl.static_assert(len(name) == 12, f"bad {name}")
    assert n in (3, 4), "n"
    tl.store(out, float(value))
    tl.store(out + 1, len(rest) if (m := n + 1) == 4 else m)


def test_static_values() -> None:
    assert run(static_values, floats(2), n=3, mode="fast").tolist() == [35.0, 2.0]
    assert run(static_values, floats(2), n=3, mode=None).tolist() == [-1.0, 2.0]
    assert run(static_values, floats(2), n=3, mode="slow").tolist() == [2.0, 2.0]


def test_dead_branches_leave_nothing() -> None:
    function = static_values.function(n=3, mode="slow")
    assert set(opcodes(function)) <= {"const", "addptr", "store"}


# --- branches ---


@kernel
def branches(out: Ptr[f32], n: i32, x: f32):
    y = x
    pair = (0.0, n)
    if n > 0 and x < 10:
        y = x * 2
        pair = (1.0, n + 1)
    elif n == 0:
        y = -x
    y = y + 1 if n != 5 else y - 1
    tl.store(out, y)
    tl.store(out + 1, pair[0])
    tl.store(out + 2, pair[1])
    low, high = min(n, 3), max(n, 3, 4)
    tl.store(out + 3, low + 10 * high)
    tl.store(out + 4, not n)
    tl.store(out + 5, 0 < n < 5)
    tl.store(out + 6, n > 100 or x > 1)


@pytest.mark.parametrize("n", [-2, 0, 1, 5])
@pytest.mark.parametrize("x", [1.5, 20.0])
def test_branches(n: int, x: float) -> None:
    y, pair = x, (0.0, n)
    if n > 0 and x < 10:
        y, pair = x * 2, (1.0, n + 1)
    elif n == 0:
        y = -x
    y = y + 1 if n != 5 else y - 1
    tail = [min(n, 3) + 10 * max(n, 3, 4), not n, 0 < n < 5, n > 100 or x > 1]
    got = run(branches, floats(7), n, x)
    np.testing.assert_array_equal(got, np.float32([y, *pair, *tail]))


@kernel
def early(out: Ptr[f32], n: i32, flag: constexpr):
    if flag:
        return
    if n < 0:
        tl.store(out, -1)
        return
    if n > 10:
        if n > 100:
            return
        tl.store(out, 10)
    else:
        tl.store(out, n)
    tl.store(out + 1, 1)


@pytest.mark.parametrize(
    ("n", "expected"), [(-3, [-1, 0]), (4, [4, 1]), (50, [10, 1]), (500, [0, 0])]
)
def test_early_return(n: int, expected: list[float]) -> None:
    assert run(early, floats(2), n, flag=False).tolist() == expected
    assert opcodes(early.function(flag=True)) == []


@kernel
def magnitude(x):
    if x < 0:
        return -x
    return x


@kernel
def sign_and_magnitude(x, eager: constexpr):
    if eager:
        return (1.0, x)
    if x < 0:
        return -1.0, magnitude(x)
    return 1.0, x


@kernel
def returns(out: Ptr[f32], x: f32):
    sign, size = sign_and_magnitude(x, eager=False)
    tl.store(out, sign)
    tl.store(out + 1, size)
    tl.store(out + 2, sign_and_magnitude(x, True)[0])


@pytest.mark.parametrize("x", [-2.5, 2.5])
def test_helpers_return_from_branches(x: float) -> None:
    assert run(returns, floats(3), x).tolist() == [math.copysign(1, x), abs(x), 1]


# --- loops ---


@kernel
def loops(out: Ptr[f32], n: i32, block: constexpr):
    total = 0.0
    tile = 0
    previous, current = 0, 1
    for i in range(n):
        total += i * 0.5
        tile += tl.arange(0, block) * i
        previous, current = current, previous + current
        for _ in tl.range(2, n, 2):
            total = total - 1
    tl.store(out, total)
    tl.store(out + 1, current)
    tl.store(out + 2 + tl.arange(0, block), tile)


def test_loops() -> None:
    total, previous, current = 0.0, 0, 1
    for i in range(6):
        total += i * 0.5 - 2
        previous, current = current, previous + current
    expected = [total, current, 0, 15, 30, 45]
    assert run(loops, floats(6), 6, block=4).tolist() == expected
    assert run(loops, floats(6), 0, block=4).tolist() == [0, 1, 0, 0, 0, 0]


@kernel
def unrolled(out: Ptr[f32], n: i32, count: constexpr):
    total = 0
    for i in tl.static_range(count):
        if i == 1:
            continue
        if i == 4:
            break
        for name, weight in (("a", 1), ("b", 2)):
            if name == "b":
                total += weight * i
    else:
        total = -1
    k = 1
    while k < 100:
        k *= 3
    rest = 0
    while rest < n:
        rest += 2
    tl.store(out, total)
    tl.store(out + 1, k)
    tl.store(out + 2, rest)


def test_unrolled_loops() -> None:
    assert run(unrolled, floats(3), 5, count=6).tolist() == [10, 243, 6]
    assert run(unrolled, floats(3), 0, count=2).tolist() == [-1, 243, 0]
    assert opcodes(unrolled.function(count=6)).count("while") == 1


@kernel
def nested_state(out: Ptr[f32], n: i32):
    state = (0, (1.0, tl.zeros((2,), f32)))
    mask = None
    for i in range(n):
        mask = i > 1
        count, (product, tile) = state
        if mask:
            count += 1
        state = (count, (product * 2, tile + i))
    tl.store(out, state[0])
    tl.store(out + 1, state[1][0])
    tl.store(out + 2 + tl.arange(0, 2), state[1][1])


def test_tuples_are_carried() -> None:
    assert run(nested_state, floats(4), 4).tolist() == [2, 16, 6, 6]


@kernel
def local_types(out: Ptr[f32], n: i32):
    x = tl.zeros((4,), f32)
    for i in range(n):
        x = tl.arange(0, 2) + i  # a new x for each iteration, of another type
        tl.store(out + x, 1.0)


def test_names_reused_with_another_type() -> None:
    assert run(local_types, floats(4), 2).tolist() == [1, 1, 1, 0]


@kernel
def pointers(out: Ptr[f32], x: Ptr[f32], n: i32):
    p = x
    total = 0.0
    while tl.load(p) > 0:
        total += tl.load(p)
        p += 1
    tl.store(out, total)
    for i in range(n - 1, n):
        tl.store(out + 1, tl.load(x + i))


def test_pointers_are_carried() -> None:
    assert run(pointers, floats(2), np.float32([1, 2, 3, -1, 9]), 5).tolist() == [6, 9]


# --- functions ---


@kernel
def scale(x, factor: constexpr = 2.0, *, shift=0):
    return x * factor + shift


def python_epilogue(tile: tl.Tile) -> tl.Tile:
    return tl.maximum(tile, 0) + OFFSET


@kernel
def functions(out: Ptr[f32], x: f32, epilogue: constexpr, inputs: tuple[Ptr[f32], ...]):
    def square(y, times=1):
        result = y
        for _ in tl.static_range(times):
            result = result * y
        return result

    cube = lambda y: square(y, times=2) + x  # noqa: E731
    total = cube(x)
    for pointer in inputs:
        total += tl.load(pointer)
    pairs = [(i, p) for i, p in enumerate(inputs)]
    for i, pointer in pairs:
        total += i * tl.load(pointer)
    if epilogue is not None:
        total = epilogue(total)
    tl.store(out, scale(total))
    tl.store(out + 1, scale(total, shift=1.0, factor=3))
    tl.store(out + 2, len(inputs))


def test_functions_and_tuples() -> None:
    inputs = {"inputs": (Ptr[f32], Ptr[f32])}
    a, b = np.float32([10]), np.float32([100])
    total = 2.0**3 + 2 + 10 + 100 + 100
    function = functions.function(epilogue=None, **inputs)
    assert [p.name for p in function.parameters] == ["out", "x", "inputs_0", "inputs_1"]
    got = run(functions, floats(3), 2.0, a, b, epilogue=None, **inputs)
    assert got.tolist() == [2 * total, 3 * total + 1, 2]
    got = run(functions, floats(3), -9.0, a, b, epilogue=python_epilogue, **inputs)
    assert got.tolist() == [6, 10, 2]


@kernel
def variadic(out: Ptr[f32], *xs: Ptr[T]):
    total = 0.0
    for x in xs:
        total += tl.load(x)
    tl.store(out, total)


def test_star_parameters() -> None:
    halves = [np.float16([v]) for v in (1, 2, 3)]
    got = run(variadic, floats(1), *halves, xs=(Ptr[f16],) * 3)
    assert got == 6
    with pytest.raises(KernelError, match=r"`xs_1` must be ptr<T> where T is f32, not ptr<f16>"):
        variadic.function(xs=(Ptr[f32], Ptr[f16]))


def test_lambdas_reach_python_functions() -> None:
    @kernel
    def k(out: Ptr[f32], x: Ptr[f32]):
        tile = tl.load(x + tl.arange(0, 8))
        tl.store(out, tl.reduce(tile, 0, lambda a, b: a + 2 * b))

    x = np.arange(8, dtype=np.float32)

    assert run(k, floats(1), x) == 2 * x.sum() - x[0]  # from the first element on


# --- specialisation ---


@kernel
def typed(out: Ptr[T], x: Ptr[T], alpha: T, n: i64, free, size: constexpr = 2):
    offsets = tl.arange(0, size)
    tl.store(out + offsets, alpha * tl.load(x + offsets) + free.to(out.dtype.pointee) + n)


def test_type_variables() -> None:
    function = specialise(typed, {"out": "*f16", "x": "ptr<f16>", "alpha": f16, "free": "i32"})
    assert [str(p.value.type) for p in function.parameters] == [
        "ptr<f16>",
        "ptr<f16>",
        "f16",
        "i64",
        "i32",
    ]
    with pytest.raises(KernelError, match="`x` must be ptr<T> where T is f32, not ptr<f16>"):
        typed.function(out=Ptr[f32], x=Ptr[f16], alpha=f32, free=i32)
    with pytest.raises(KernelError, match="`out` must be ptr<T> where T is f32 or f16"):
        typed.function(out=Ptr[bf16], x=Ptr[bf16], alpha=bf16, free=i32)


def test_parameters_may_be_constants() -> None:
    function = typed.function(out=Ptr[f32], x=Ptr[f32], alpha=2.0, n=1, free=3, size=1)
    assert [p.name for p in function.parameters] == ["out", "x"]
    out = floats(1)
    interpret(function, (1,), [out, np.float32([5])])
    assert out == 14


def test_specialise_refuses() -> None:
    with pytest.raises(
        KernelError, match="typed has no parameter `y`\nhint: its parameters are out"
    ):
        specialise(typed, {"y": f32})
    with pytest.raises(KernelError, match="typed needs a type for its parameter `out`"):
        specialise(typed, {})
    with pytest.raises(KernelError, match="needs a constexpr value for its parameter `n`"):
        specialise(static_values, {}, {"mode": 1})
    with pytest.raises(KernelError, match="`n` must be i64, not i32"):
        typed.function(out=Ptr[f32], x=Ptr[f32], alpha=f32, n=i32, free=i32)


def test_keys_are_stable_and_tell_apart() -> None:
    def key(size: int) -> str:
        return typed.function(out=Ptr[f32], x=Ptr[f32], alpha=f32, free=i32, size=size).key

    assert key(2) == key(2) != key(4)


def test_locations_are_recorded() -> None:
    function = early.function(flag=False)
    lines = {op.location.line for op in ir.walk(function.body) if op.location}
    first = early.source.first_line
    assert lines <= set(range(first, first + len(early.source.lines)))
    assert all(op.location and op.location.file == __file__ for op in ir.walk(function.body))


def test_values_are_named() -> None:
    text = str(loops.function(block=4))
    for name in ("%total", "%tile", "%previous", "%current", "%i"):
        assert name in text


def methods() -> list[Callable[[Any], Any]]:
    return [lambda x: x.to(tl.int32), lambda x: x.T]


@kernel
def attributes(out: Ptr[f32], n, block: constexpr):
    tile = tl.zeros((block, 2), tl.float32) + n.to(tl.float32)
    tl.static_assert(tile.shape == (block, 2))
    tl.static_assert(tile.dtype == tl.float32 and tile.T.shape[1] == block)
    tl.store(out, tl.sum(tile))


def test_attributes_of_tiles_and_of_specialised_numbers() -> None:
    assert run(attributes, floats(1), 3, n=i32, block=4) == 24
    assert run(attributes, floats(1), n=1, block=4) == 8


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    @kernel
    def k(out: Ptr[f32], n: constexpr):
        print("static", n)
        tl.static_print("also", n)
        print("value", tl.load(out))
        tl.device_print("again", n)

    function = k.function(n=3)
    assert capsys.readouterr().out == "static 3\nalso 3\n"
    interpret(function, (1,), [np.float32([7])])
    assert capsys.readouterr().out == "pid (0, 0, 0) value 7\npid (0, 0, 0) again 3\n"


def test_device_assert_names_the_line() -> None:
    @kernel
    def k(out: Ptr[f32]):
        x = tl.load(out)
        assert x > 0, "x must be positive"
        tl.store(out, 1)

    function = k.function()
    interpret(function, (1,), [np.float32([2])])
    with pytest.raises(KernelError, match=r"test_frontend.py:\d+:9: program \(0, 0, 0\)"):
        interpret(function, (1,), [np.float32([-2])])
