"""What public Triton kernels write, read unchanged: each kernel leaves numbers that are known."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
import pytest
import teeny_triton as triton
import teeny_triton.language as tl
from teeny_triton import KernelError

GLOBAL_INT = 5
GLOBAL_CONST = tl.constexpr(6)
GLOBAL_ANNOTATED: tl.constexpr = 7
NEGATIVE = tl.constexpr(float("-inf"))

Pair = namedtuple("Pair", ["a", "b"])


class State(NamedTuple):
    largest: tl.tensor
    total: tl.tensor


@pytest.fixture(autouse=True)
def modes(mode: str) -> None:
    """Run every test interpreted and native."""


def run(kernel: Any, *args: Any, size: int = 8, dtype: Any = np.float32, **kwargs: Any) -> list:
    """Launch on an array of zeros, and return what is in it."""
    out = np.zeros(size, dtype)
    kernel[(1,)](out, *args, **kwargs)
    return out.tolist()


@triton.jit
def questions(x, n, B: tl.core.constexpr, h):
    t: tl.constexpr = x.dtype.element_ty
    tl.static_assert(t == tl.float32)
    tl.static_assert(x.type.element_ty == tl.float32, "pointee")
    tl.static_assert(t.is_floating() and not t.is_int() and t.primitive_bitwidth == 32)
    tl.static_assert(t.is_fp32() and not (t.is_fp16() or t.is_bf16() or t.is_fp8() or t.is_fp64()))
    tl.static_assert(n.dtype.is_int() and n.dtype.is_int_signed() and n.dtype.is_int32())
    tl.static_assert(not n.dtype.is_int_unsigned() and n.dtype.int_bitwidth == 32)
    tl.static_assert(h.dtype.element_ty.is_fp8e5() and h.dtype.element_ty.is_fp8())
    tl.static_assert(not h.dtype.element_ty.is_standard_floating())
    v = tl.zeros((2, 4), t)
    tl.static_assert(v.type.scalar == tl.float32 and v.type.element_ty == tl.float32)
    tl.static_assert(x.type.is_ptr() and x.dtype.is_ptr() and not v.dtype.is_ptr())
    tl.static_assert(v.type.is_block() and not x.type.is_block())
    tl.static_assert((x + tl.arange(0, 4)).dtype.element_ty == tl.float32)
    tl.static_assert(v.numel == 8 and v.shape[0] == 2 and v.T.shape[0] == 4)
    tl.static_assert(B.value == 4 and isinstance(B, tl.constexpr))
    tl.static_assert(isinstance(n, tl.tensor) and not isinstance(n, tl.constexpr))
    tl.static_assert(isinstance(x.dtype, tl.pointer_type) and not isinstance(t, tl.pointer_type))
    tl.static_assert(t != tl.float16 and n is not None and x != None)  # noqa: E711
    if t.is_floating():
        tl.store(x, t.primitive_bitwidth + B)
    else:
        tl.static_assert(False, "unreachable")


def test_types_answer_by_the_names_of_triton() -> None:
    f8 = np.zeros(1, tl.float8e5.numpy)
    assert run(questions, 5, 4, f8)[0] == 36


@triton.jit
def hints(x, n):
    o = tl.multiple_of(tl.arange(0, 8), 8)
    o = tl.max_contiguous(tl.multiple_of(o, [8]), 8)
    o = tl.max_constancy(o, [1])
    x = tl.multiple_of(x, (16,))
    n = tl.multiple_of(n, 1)
    tl.assume(n > 0)
    tl.debug_barrier()
    tl.static_print("read with", f"{GLOBAL_CONST}")
    tl.static_assert(GLOBAL_CONST == 6)
    tl.device_assert(n > 0, "positive", mask=n > -1)
    tl.device_assert(o >= 0)
    assert n > 0, "positive"
    tl.store(x + o, o * n, cache_modifier=".wb", eviction_policy="evict_first")
    v = tl.load(x + o, o < 4, 7.0, cache_modifier=".cg", eviction_policy="evict_last")
    tl.store(x + o, v)


def test_hints_and_checks() -> None:
    assert run(hints, 3) == [0, 3, 6, 9, 7, 7, 7, 7]


@triton.jit
def loops(x, n):
    total = 0
    for i in tl.range(
        0, n, 1, num_stages=3, loop_unroll_factor=2, disallow_acc_multi_buffer=True, flatten=True,
        warp_specialize=True, disable_licm=True,
    ):  # fmt: skip
        total += i
    tl.store(x, total)
    for j in tl.range(n, num_stages=1):
        total += j
    tl.store(x + 1, total)
    for j in tl.static_range(0, 4, 2):
        total += j
    tl.store(x + 2, total)
    places = 0
    for j in range(n, 0, -1):
        places = places * 10 + j
    tl.store(x + 3, places)
    places = 0
    for j in range(9, n - 5, -2):
        places = places * 10 + j
    tl.store(x + 4, places)
    for j in range(0, n, -1):
        total += j
    for _ in range(n - 5, n, 3):
        total += 1000
    tl.store(x + 5, total)


def test_loops() -> None:
    assert run(loops, 5, dtype=np.int32)[:6] == [10, 20, 22, 54321, 97531, 2022]


@triton.jit
def booleans(x, n, FLAG: tl.constexpr, M: tl.constexpr = None):
    """A docstring."""
    if FLAG and M is None:
        tl.store(x, 1)
    if not FLAG or (M is not None and M > 3):
        tl.store(x, 2)
    if (n > 0 and n < 10) or n == 5:
        tl.store(x + 1, 3)
    if 0 < n <= 5:
        tl.store(x + 2, 4)
    if not n > 3:
        tl.store(x + 2, 5)
    if FLAG in (1, 2) and "a" not in ("b",):
        pass
    a = b = c = n + 1
    a += 2
    b -= 1
    c *= 2
    d = a if n > 2 else b
    e = 1.0 if FLAG else c
    if M:
        z = 1  # noqa: F841
    else:
        y = 2
    tl.store(x + 3, y)
    del a
    """A string that does nothing."""
    ...
    x1: tl.constexpr = 4
    x2: tl.int32 = 9
    tl.store(x + 4, tl.where(d > 1, x1, x2))
    tl.store(x + 5, d * 100 + e * 10 + b)
    s = M or 4
    tl.store(x + 6, s + (not M))
    HAS = M is not None
    if HAS:
        tl.store(x + 7, 1)


def test_booleans_and_branches() -> None:
    assert run(booleans, 5, True) == [1, 3, 4, 2, 4, 815, 5, 0]
    assert run(booleans, 2, False) == [2, 3, 5, 2, 4, 262, 5, 0]


@triton.jit
def doubled_if_large(a):
    if a > 3:
        return a * 2
    return a


@triton.jit
def clamped(a):
    if a > 3:
        return a, 3
    else:
        b = a + 1
        return b, a


@triton.jit
def marked(x, n):
    if n > 3:
        return
    tl.store(x + 2, 1.0)


@triton.jit
def found(n):
    for i in tl.static_range(4):
        if i == 2:
            return n + i
    return n


@triton.jit
def returns(x, n):
    if n > 100:
        return
    pid = tl.program_id(0)
    if pid * 10 >= n:
        return
    marked(x, n)
    if n == 1:
        tl.store(x, 1.0)
        return
    else:
        tl.store(x, 2.0)
    a, b = clamped(n)
    tl.store(x + 1, doubled_if_large(n) * 100 + a * 10 + b + found(n) * 1000)
    return


@pytest.mark.parametrize(
    ("n", "expected"), [(101, [0, 0, 0]), (0, [0, 0, 0]), (1, [1, 0, 1]), (2, [2, 4232, 1]),
    (5, [2, 8053, 0])]
)  # fmt: skip
def test_early_returns(n: int, expected: list[float]) -> None:
    assert run(returns, n)[:3] == expected


@triton.jit
def sum_and_difference(a, b):
    return a + b, a - b


@triton.jit
def as_state(t):
    return State(t[0], t[1])


@triton.jit
def three(a, b, c):
    return a * 100 + b * 10 + c


@triton.jit
def tuples(x, n):
    a, b = sum_and_difference(n, 1)
    t = sum_and_difference(a, b)
    (d, e), h = sum_and_difference(t[-1], n), 3
    state = as_state(t)
    for i in range(n):
        state = State(state.largest + i, state.total)
    s = 0
    for v in tl.static_range(2):
        s += t[v]
    for v in t:
        s += v
    pair = tuple(range(1, 3))
    q = pair + t
    tl.static_assert(len(q) == 4 and q[1:3][0] == 2)
    r = tl.tuple([a, b])
    p = Pair(b=r[0], a=r[1])
    tl.store(x, s)
    tl.store(x + 1, state.largest * 10 + state.total)
    tl.store(x + 2, d + e * h + p.a * 10 + p.b)
    tl.store(x + 3, three(*q[:2], c=n))
    lo, hi = (0, n) if n > 3 else (1, 2)
    tl.store(x + 4, lo * 10 + hi)


def test_tuples() -> None:  # t = (2n, 2)
    assert run(tuples, 5)[:5] == [24, 202, 7 - 9 + 40 + 6, 125, 5]
    assert run(tuples, 2)[:5] == [12, 52, 4 + 0 + 10 + 3, 122, 12]


@triton.jit
def add(a, b=2, /, *rest, c: tl.constexpr = 3):
    total = a + b * c
    for value in rest:
        total += value
    return total


@triton.jit
def functions(x, n, ACTIVATION: tl.constexpr, scale=2.0, *, shift=1):
    def inner(v, by=n):
        return v * by

    v = inner(tl.arange(0, 4))
    double = lambda v: v * 2  # noqa: E731
    r = tl.reduce(v, 0, combined)
    if ACTIVATION == "relu":
        r = tl.maximum(r, 0)
    elif ACTIVATION == "negate":
        r = -r
    tl.store(x, r)
    tl.store(x + 1, add(n, c=1) + add(n, n) + add(n, 1, 10, 20, c=0))
    tl.store(x + 2, double(n) * scale + shift)


@triton.jit
def combined(a, b):
    return a + b


def test_functions_and_parameters() -> None:
    assert run(functions, 5, "relu")[:3] == [30, 7 + 20 + 35, 21]
    assert run(functions, 5, "negate", scale=0.5, shift=3)[:3] == [-30, 62, 8]


@triton.jit
def constants(x, n, B: tl.constexpr, C: tl.constexpr = 3):
    D: tl.constexpr = B // C if B > C else 1
    E: tl.constexpr = min(B, C) + max(B, 1) + abs(-C) + int(2.5) + len((1, 2)) + 2**3
    F: tl.constexpr = triton.cdiv(B, C) + tl.cdiv(B, 2) + triton.next_power_of_2(5)
    tl.store(x + tl.arange(0, triton.next_power_of_2(C)), D)
    tl.store(x + 4, E)
    tl.store(x + 5, F)
    tl.store(x + 6, GLOBAL_INT * 100 + GLOBAL_CONST * 10 + GLOBAL_ANNOTATED)
    v = tl.full((4,), NEGATIVE, tl.float32)
    shape: tl.constexpr = [4]
    w = tl.zeros(shape, dtype=tl.float32) - float("inf")
    tl.store(x + 7, tl.sum(tl.where(v > w, v, -2.0)) + float(n) + min(n, 3, B) + max(n, 9))


def test_constants() -> None:
    assert run(constants, 5, 8) == [2, 2, 2, 2, 3 + 8 + 3 + 2 + 2 + 8, 15, 567, -8 + 5 + 3 + 9]


@triton.jit
def indexing(x, n):
    a = tl.arange(0, 2)
    b = a[:, None] * 2 + a[None, :]
    c = b[None, :, :, None] + tl.zeros((3, 2, 2, 1), tl.int32)
    tl.static_assert(c[..., None].shape[4] == 1 and b[:, :, None].shape[1] == 2)
    tl.store(x + b, tl.sum(c, axis=0).reshape(2, 2) + n)


def test_indexing() -> None:
    assert run(indexing, 1)[:4] == [1, 4, 7, 10]


@triton.jit
def online(x, values, n, BLOCK: tl.constexpr, BIAS: tl.constexpr):
    """Python numbers before a loop take the types that its body gives them."""
    if BIAS:
        bias = tl.load(values)
    largest = -float("inf")
    total = 0.0
    p = values
    i = 0
    while i < n:
        v = tl.load(p + tl.arange(0, BLOCK))
        if BIAS:
            v += bias
        new = tl.maximum(largest, tl.max(v, 0))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(v - new), 0)
        largest = new
        p += BLOCK
        i += BLOCK
    tl.store(x, largest + tl.log(total))
    acc = tl.zeros((4,), tl.float32)
    for i in range(0, n):
        if i % 2 == 0:
            acc += i
        elif i > 3:
            acc -= 1
        else:
            t = acc * 2
            acc = t
        for j in range(i):
            if j > 1:
                acc += j
    tl.store(x + 1 + tl.arange(0, 4), acc)


@pytest.mark.parametrize("bias", [False, True])
def test_carried_numbers_and_tiles(bias: bool) -> None:
    values = np.random.default_rng(0).standard_normal(8).astype(np.float32)
    found = run(online, values, 8, BLOCK=4, BIAS=bias)
    wide = values.astype(np.float64) + (values[0] if bias else 0.0)
    assert found[0] == pytest.approx(np.log(np.exp(wide).sum()), rel=1e-5)
    acc = 0
    for i in range(8):
        acc = acc + i if i % 2 == 0 else acc - 1 if i > 3 else acc * 2
        acc += sum(range(2, i))
    assert found[1:5] == [acc] * 4


@triton.jit
def printing(x, n, B: tl.constexpr):
    print(f"B={B}")
    tl.static_print(f"x={x.dtype.element_ty}", B, sep="|")
    tl.store(x, n)


def test_prints_while_reading(capsys: pytest.CaptureFixture[str]) -> None:
    printing.function(x=tl.pointer_type(tl.float32), n=tl.int32, B=8)
    assert capsys.readouterr().out == "B=8\nx=f32|8\n"


def test_assembly_is_refused() -> None:
    @triton.jit
    def assembly(x, n):
        tl.store(x, tl.inline_asm_elementwise("add", "=r", [n], dtype=tl.int32, is_pure=True))

    with pytest.raises(KernelError, match="inline assembly is written for one kind of machine"):
        run(assembly, 5)


@triton.jit
def annotated(x: "*fp32", n: "i32", h: "*fp8e5", m: tl.int64, t: tl.tensor, bias: "*bf16" = None):  # noqa: F722, F821, UP037
    tl.static_assert(h.dtype.element_ty == tl.float8e5 and n.dtype == tl.int32)
    tl.static_assert(m.dtype == tl.int64 and bias is None)
    tl.store(x, n + m + t)


def test_types_in_annotations() -> None:
    f8 = np.zeros(1, tl.float8e5.numpy)
    assert run(annotated, 2, f8, 3, 4.5)[0] == 9.5
    with pytest.raises(KernelError, match=r"argument `h` must be ptr<f8e5m2>, not ptr<f32>"):
        run(annotated, 2, np.zeros(1, np.float32), 3, 4.5)


@triton.constexpr_function
def doubled(n, by=2):
    return n * by


@tl.constexpr_function
def width_of(dtype):
    return tl.constexpr(dtype.itemsize * 8)


@triton.jit
def static_functions(x, n, B: tl.constexpr):
    C: tl.constexpr = doubled(B) + width_of(x.dtype.element_ty)
    tl.store(x, tl.full((C,), doubled(B, by=3), tl.float32).sum())


def test_functions_of_python_values() -> None:
    assert run(static_functions, 5, 4)[0] == (8 + 32) * 12

    @triton.jit
    def of_a_tile(x, n):
        tl.store(x, doubled(n))

    with pytest.raises(KernelError, match="doubled takes Python values, not i32"):
        run(of_a_tile, 5)


def test_kinds_of_errors() -> None:
    from teeny_triton.errors import CompileTimeAssertionFailure, UnsupportedLanguageConstruct

    @triton.jit
    def asserting(x, n):
        tl.static_assert(n is None, "n is given")

    @triton.jit
    def trying(x, n):
        with n:
            tl.store(x, n)

    with pytest.raises(CompileTimeAssertionFailure, match="n is given"):
        run(asserting, 5)
    with pytest.raises(UnsupportedLanguageConstruct, match="With is not part"):
        run(trying, 5)
