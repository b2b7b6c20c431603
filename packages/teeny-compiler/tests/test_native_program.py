"""Schedules as native functions: sizes, addresses, grids and arguments against Python's values."""

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_compiler.codegen.cpu.program import Kernel, arena_bytes, emit_program
from teeny_compiler.codegen.llvm import assembly, compile_object, jit
from teeny_compiler.pool import emit_pool
from teeny_compiler.schedule.plan import Buffer, BufferRef, Schedule, Step
from teeny_compiler.target import host_target
from teeny_core import Dim, DType, bf16, bool_, f16, f32, f64, i8, i32, i64, symbol, u8, u64
from teeny_core.shape import maximum, minimum, substitute
from teeny_triton.ir import Block, Function, Parameter, Pointer, Type, Value
from teeny_triton.launch import ScalarArg

N, M = symbol("n"), symbol("m")
TARGET = host_target()

# put(out, value): out[0] = the slot of `value`
PUT = """
define void @put(ptr %args, i64 %lo, i64 %hi, ptr %scratch) {
  %out.p = getelementptr i64, ptr %args, i64 3
  %out = load ptr, ptr %out.p
  %value.p = getelementptr i64, ptr %args, i64 4
  %value = load i64, ptr %value.p
  store i64 %value, ptr %out
  ret void
}
"""

# fill(out): out[pid] += 1, and the grid and the first byte of scratch are written behind the end
FILL = """
define void @fill(ptr %args, i64 %lo, i64 %hi, ptr %scratch) {
entry:
  %out.p = getelementptr i64, ptr %args, i64 3
  %out = load ptr, ptr %out.p
  %x = load i64, ptr %args
  %y.p = getelementptr i64, ptr %args, i64 1
  %y = load i64, ptr %y.p
  %z.p = getelementptr i64, ptr %args, i64 2
  %z = load i64, ptr %z.p
  %xy = mul i64 %x, %y
  %xyz = mul i64 %xy, %z
  %end = getelementptr i64, ptr %out, i64 %xyz
  store i64 %x, ptr %end
  %end.1 = getelementptr i64, ptr %end, i64 1
  store i64 %y, ptr %end.1
  %end.2 = getelementptr i64, ptr %end, i64 2
  store i64 %z, ptr %end.2
  store i8 7, ptr %scratch
  br label %loop
loop:
  %i = phi i64 [ %lo, %entry ], [ %next, %loop ]
  %place = getelementptr i64, ptr %out, i64 %i
  %old = load i64, ptr %place
  %new = add i64 %old, 1
  store i64 %new, ptr %place
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %hi
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

# copy(out, in): out[0] = in[0]
COPY = """
define void @copy(ptr %args, i64 %lo, i64 %hi, ptr %scratch) {
  %out.p = getelementptr i64, ptr %args, i64 3
  %out = load ptr, ptr %out.p
  %in.p = getelementptr i64, ptr %args, i64 4
  %in = load ptr, ptr %in.p
  %value = load i64, ptr %in
  store i64 %value, ptr %out
  ret void
}
"""


def function(name: str, *elements: DType | Pointer) -> Function:
    parameters = (
        Parameter(Value(Type((), element)), f"a{i}", written=i == 0)
        for i, element in enumerate(elements)
    )
    return Function(name, tuple(parameters), Block())


@dataclass
class Native:
    """A compiled schedule, called with arrays and the values of its symbols."""

    schedule: Schedule
    kernels: dict[Function, Kernel]

    def __post_init__(self) -> None:
        text = emit_program(self.schedule, self.kernels, TARGET)
        runtime = emit_pool(TARGET).split("\n", 1)[1]
        for name, definition in (("put", PUT), ("fill", FILL), ("copy", COPY)):
            text = text.replace(f"declare void @{name}(ptr, i64, i64, ptr)", definition)
        text = text.replace(
            "declare void @teeny_parallel_for(ptr, ptr, ptr, i64, i64, ptr, i64)", ""
        )
        for line in ("smax.i64", "smin.i64", "umax.i64"):
            runtime = runtime.replace(f"declare i64 @llvm.{line}(i64, i64)\n", "")
        self.library = jit(text + runtime, TARGET)
        create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32)
        self.pool = create(self.library.address("teeny_pool_create"))(2)
        self.destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
            self.library.address("teeny_pool_destroy")
        )

    def __call__(
        self, arrays: Sequence[np.ndarray], dims: Sequence[int] = (), name: str = "teeny_program"
    ) -> int:
        pointers = np.array([a.ctypes.data for a in arrays], np.int64)
        values = np.array([*dims, 0], np.int64)
        env = dict(zip(self.schedule.symbols, dims, strict=True))
        size = substitute(arena_bytes(self.schedule, self.kernels), env)
        arena = np.zeros(size + 128, np.uint8)
        start = arena.ctypes.data + (-arena.ctypes.data) % 64
        run = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(self.library.address(name))
        code = run(pointers.ctypes.data, values.ctypes.data, start, self.pool)
        assert not arena[start - arena.ctypes.data + size :].any()
        self.destroy(self.pool)
        return code


def output(shape: tuple[Dim, ...] = (), dtype: DType = i64) -> Buffer:
    return Buffer("out", "output", shape, dtype)


def put_step(put: Function, argument: ScalarArg, index: int) -> Step:
    return Step("put", put, (1,), (BufferRef(0, index), argument), (), (0,))


def dims() -> st.SearchStrategy[Dim]:
    def extend(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
        divisor = st.one_of(st.integers(1, 40), st.just(N + 1))
        return st.one_of(
            st.builds(lambda a, b: a + b, inner, inner),
            st.builds(lambda a, b: a - b, inner, inner),
            st.builds(lambda a, b: a * b, inner, inner),
            st.builds(lambda a, b: a // b, inner, divisor),
            st.builds(lambda a, b: a % b, inner, divisor),
            st.builds(maximum, inner, inner),
            st.builds(minimum, inner, inner),
        )

    return st.recursive(
        st.one_of(st.integers(-20, 20), st.just(N), st.just(M)), extend, max_leaves=7
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(dims(), min_size=8, max_size=20), st.integers(0, 50), st.integers(0, 7))
def test_dimensions_have_pythons_values(expressions: list[Dim], n: int, m: int) -> None:
    put = function("put", Pointer(i64), i64)
    steps = [put_step(put, ScalarArg(e, i64), i) for i, e in enumerate(expressions)]
    schedule = Schedule("dims", ("n", "m"), (output((len(steps),)),), tuple(steps), (0,))
    found = np.zeros(len(steps), np.int64)
    assert Native(schedule, {put: Kernel("put")})([found], [n, m]) == 0
    expected = [substitute(e, {"n": n, "m": m}) for e in expressions]
    assert found.tolist() == expected


SCALARS = [
    (True, bool_), (-3, i8), (-70000, i32), (-(1 << 62), i64), (200, u8), ((1 << 64) - 1, u64),
    (0.1, f64), (0.1, f32), (0.1, f16), (0.1, bf16), (float("-inf"), f32), (5, f32),
]  # fmt: skip


def test_scalars_have_the_bits_of_their_dtype() -> None:
    functions = {dtype: function("put", Pointer(i64), dtype) for _, dtype in SCALARS}
    steps = [put_step(functions[d], ScalarArg(v, d), i) for i, (v, d) in enumerate(SCALARS)]
    schedule = Schedule("scalars", (), (output((len(steps),)),), tuple(steps), (0,))
    found = np.zeros(len(steps), np.int64)
    Native(schedule, {f: Kernel("put") for f in functions.values()})([found])
    for row, (value, dtype) in zip(found, SCALARS, strict=True):
        bits = row.tobytes()[: dtype.itemsize]
        assert bits == np.array(value).astype(dtype.numpy).tobytes()


FLOATS = (f16, bf16, f32, f64)


def float_sizes() -> tuple[Schedule, dict[Function, Kernel]]:
    """Three times `n` as a scalar of each floating dtype."""
    functions = {dtype: function("put", Pointer(i64), dtype) for dtype in FLOATS}
    steps = [put_step(functions[d], ScalarArg(N * 3, d), i) for i, d in enumerate(FLOATS)]
    schedule = Schedule("floats", ("n",), (output((4,)),), tuple(steps), (0,))
    return schedule, {f: Kernel("put") for f in functions.values()}


@pytest.mark.parametrize("size", [0, 5, 1366, 43690, 10**9 + 7])
def test_symbolic_sizes_become_floating_scalars(size: int) -> None:
    found = np.zeros(4, np.int64)
    Native(*float_sizes())([found], [size])
    for row, dtype in zip(found, FLOATS, strict=True):
        with np.errstate(over="ignore"):
            expected = np.array(3 * size).astype(dtype.numpy)
        assert row.tobytes()[: dtype.itemsize] == expected.tobytes()


@pytest.mark.parametrize("features", [(), ("avx2", "f16c"), ("avx512f", "avx512bf16")])
def test_floating_sizes_call_no_library(features: tuple[str, ...]) -> None:
    target = replace(TARGET, triple="x86_64-unknown-linux-gnu", features=frozenset(features))
    text = assembly(emit_program(*float_sizes(), target), target)
    called = set(re.findall(r"\bcall\w*\s+(\S+)", text))
    assert not {name for name in called if name.startswith("__")}


@pytest.mark.parametrize("n", [0, 1, 3, 1000])
@pytest.mark.parametrize("flops", [0, 1_000_000])
def test_grids_run_once_and_empty_ones_not_at_all(n: int, flops: int) -> None:
    fill = function("fill", Pointer(i64))
    grid = (N, M, 2)
    step = Step("fill", fill, grid, (BufferRef(0),), (), (0,), flops=N * flops, bytes=N * 8)
    schedule = Schedule("grid", ("n", "m"), (output((N * M * 2 + 3,)),), (step,), (0,))
    size = n * 5 * 2
    found = np.zeros(size + 3, np.int64)
    Native(schedule, {fill: Kernel("fill", scratch=100)})([found], [n, 5])
    assert (found[:size] == 1).all()
    assert found[size:].tolist() == ([n, 5, 2] if n else [0, 0, 0])


@pytest.mark.parametrize("flops", [0, 10_000_000_000])
def test_static_grids_run_once(flops: int) -> None:
    fill = function("fill", Pointer(i64))
    step = Step("fill", fill, (40, 25), (BufferRef(0),), (), (0,), flops=flops)
    empty = Step("never", fill, (0, 7), (BufferRef(0),), (), (0,))
    schedule = Schedule("grid", (), (output((1003,)),), (step, empty), (0,))
    found = np.zeros(1003, np.int64)
    Native(schedule, {fill: Kernel("fill", scratch=64)})([found])
    assert (found[:1000] == 1).all()
    assert found[1000:].tolist() == [40, 25, 1]


def test_heavy_steps_go_to_the_pool_and_light_ones_do_not() -> None:
    fill = function("fill", Pointer(i64))

    def text(flops: Dim) -> str:
        step = Step("fill", fill, (100,), (BufferRef(0),), (), (0,), flops=flops)
        schedule = Schedule("grain", ("n",), (output((103,)),), (step,), (0,))
        return emit_program(schedule, {fill: Kernel("fill")}, TARGET)

    assert "call void @teeny_parallel_for" not in text(1000)
    assert "call void @teeny_parallel_for" in text(10_000_000_000)
    assert "call void @teeny_parallel_for" in text(N)


def test_arena_slices_constants_and_offsets() -> None:
    copy = function("copy", Pointer(i64), Pointer(i64))
    data = np.arange(100, 104, dtype=np.int64).tobytes()
    buffers = (
        Buffer("x", "input", (N,), i64),
        output((3,)),
        Buffer("c", "constant", (4,), i64, data=data),
        Buffer("t", "arena", (N,), i64, offset=0),
        Buffer("u", "arena", (2,), i64, offset=(N * 8 + 63) // 64 * 64),
    )

    def move(to: BufferRef, source: BufferRef) -> Step:
        return Step("copy", copy, (1,), (to, source), (source.buffer,), (to.buffer,))

    steps = (
        move(BufferRef(3, N - 1), BufferRef(0, N - 1)),
        move(BufferRef(4, 1), BufferRef(2, 2)),
        move(BufferRef(1, 0), BufferRef(3, N - 1)),
        move(BufferRef(1, 1), BufferRef(4, 1)),
        move(BufferRef(1, 2), BufferRef(2, 3)),
    )
    schedule = Schedule("arena", ("n",), buffers, steps, (1,), arena=(N * 8 + 63) // 64 * 64 + 16)
    schedule.verify()
    x, found = np.arange(40, 57, dtype=np.int64), np.zeros(3, np.int64)
    Native(schedule, {copy: Kernel("copy", scratch=256)})([x, found], [17])
    assert found.tolist() == [56, 102, 103]


def test_prepare_is_a_function_of_its_own() -> None:
    copy = function("copy", Pointer(i64), Pointer(i64))
    buffers = (
        Buffer("w", "parameter", (1,), i64),
        output((1,)),
        Buffer("packed", "prepared", (1,), i64),
    )
    prepare = Step("pack", copy, (1,), (BufferRef(2), BufferRef(0)), (0,), (2,))
    step = Step("use", copy, (1,), (BufferRef(1), BufferRef(2)), (2,), (1,))
    schedule = Schedule("prepared", (), buffers, (step,), (1,), prepare=(prepare,))
    schedule.verify()
    arrays = [np.array([5]), np.array([0]), np.array([0])]
    Native(schedule, {copy: Kernel("copy")})(arrays, name="teeny_prepare")
    assert arrays[2].tolist() == [5]
    Native(schedule, {copy: Kernel("copy")})(arrays)
    assert arrays[1].tolist() == [5]


def test_the_program_compiles_alone() -> None:
    fill = function("fill", Pointer(i64))
    step = Step("fill", fill, (N,), (BufferRef(0),), (), (0,), flops=N * 10)
    schedule = Schedule("alone", ("n",), (output((N,)),), (step,), (0,))
    text = emit_program(schedule, {fill: Kernel("fill")}, TARGET)
    assert b"teeny_program" in compile_object(text, TARGET)
