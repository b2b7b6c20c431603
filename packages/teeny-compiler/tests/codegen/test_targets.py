"""Machines that are not this one: kernels compile for them, and call no function of a C library."""

from __future__ import annotations

import re

import pytest
import teeny_triton.language as tl
from teeny_compiler.codegen import llvm
from teeny_compiler.codegen.cpu import emit_kernel
from teeny_compiler.target import host_target, vector_unit
from teeny_core import DType, bf16, f16, f32, f64, i32, i64
from teeny_core.errors import CompileError
from teeny_triton import Ptr, Target, build_function
from teeny_triton.ir import UNARY_FLOAT, Function

SSE2 = frozenset({"sse", "sse2", "cmov", "cx8", "fxsr"})
NEON = frozenset({"neon", "fp-armv8"})
MACHINES = {
    "avx512": Target(
        "x86_64-unknown-linux-gnu",
        "skylake-avx512",
        SSE2 | {"avx", "avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512bw", "avx512dq"},
        512,
        32,
    ),
    "sse2": Target("x86_64-unknown-linux-gnu", "x86-64", SSE2, 128, 16),
    "neon": Target("aarch64-unknown-linux-gnu", "generic", NEON, 128, 32),
    "scalar": Target("x86_64-unknown-linux-gnu", "x86-64", SSE2, 0, 16),
    "apple": Target("arm64-apple-macosx13", "apple-m1", NEON, 128, 32),
}


def everything(dtype: DType) -> Function:
    with build_function("all", [("x", Ptr[dtype]), ("o", Ptr[dtype]), ("n", i32)]) as f:
        x, o, n = f.arguments
        lane = tl.arange(0, 8)
        v = tl.load(x + lane, lane < n)
        for k, name in enumerate(UNARY_FLOAT):
            tl.store(o + k * 8 + lane, tl.Tile(f.builder.op(name, v.value)), lane < n)
        for k, name in enumerate(("div", "mod", "floordiv", "pow", "maximum")):
            result = tl.Tile(f.builder.op(name, v.value, (v + 1.0).value))
            tl.store(o + 200 + k * 8 + lane, result, lane < n)
        tl.store(o + 300, tl.sum(v, 0) + tl.max(v, 0))
        tl.store(o + 304 + lane, tl.fma(v, v, v))
        for k, other in enumerate((f16, bf16, f32, f64, i32, i64)):
            tl.store(o + 400 + k * 8 + lane, (v + 2.0).to(other).to(dtype))
    return f.function


@pytest.mark.parametrize(
    ("machine", "dtype"),
    [*((name, f32) for name in MACHINES), ("sse2", f16), ("neon", f16), ("avx512", f64)],
)
def test_no_library_calls(machine, dtype):
    target = MACHINES[machine]
    text = llvm.assembly(emit_kernel(everything(dtype), target), target)
    calls = re.findall(r"^\s+(?:callq?|bl)\s+(\S+)", text, re.MULTILINE)
    assert {name.lstrip("_") for name in calls} <= {"all.body"}


def micro_kernel(rows: int, columns: int) -> Function:
    parameters = [("a", Ptr[f32]), ("b", Ptr[f32]), ("c", Ptr[f32]), ("lda", i32), ("k", i32)]
    with build_function("micro", parameters) as f:
        a, b, c, lda, depth = f.arguments
        row, column = tl.arange(0, rows), tl.arange(0, columns)

        def step(k, acc):
            left = tl.load(a + row * lda + k)[:, None].broadcast_to(rows, columns)
            right = tl.load(b + k * columns + column)[None, :].broadcast_to(rows, columns)
            return tl.fma(left, right, acc)

        (acc,) = tl.for_(0, depth, 1, (tl.zeros((rows, columns)),), step)
        tl.store(c + row[:, None] * columns + column[None, :], acc)
    return f.function


@pytest.mark.parametrize(
    ("machine", "rows", "columns", "fused", "register"),
    [("avx512", 14, 32, "vfmadd231ps", "zmm"), ("neon", 8, 8, "fmla", r"v\d+.4s")],
)
def test_micro_kernel_stays_in_registers(machine, rows, columns, fused, register):
    """The inner loop is multiply-adds on whole registers, and nothing in it is spilled."""
    target = MACHINES[machine]
    text = llvm.assembly(emit_kernel(micro_kernel(rows, columns), target), target)
    lanes = target.lanes(f32)
    lines = text.splitlines()
    at = [n for n, line in enumerate(lines) if fused in line and re.search(register, line)]
    assert len(at) == rows * columns // lanes
    inner = "\n".join(lines[at[0] : at[-1]])
    assert "Spill" not in inner
    assert "Reload" not in inner


def test_vector_units():
    assert vector_unit("x86_64-unknown-linux-gnu", {"sse2", "avx", "avx512f"}) == (512, 32)
    assert vector_unit("x86_64-unknown-linux-gnu", {"sse2", "avx"}) == (256, 16)
    assert vector_unit("x86_64-unknown-linux-gnu", set()) == (128, 16)
    assert vector_unit("aarch64-apple-macosx13", set()) == (128, 32)
    assert vector_unit("thumbv7em-unknown-none-eabihf", set())[0] == 0


def test_host_target_describes_this_machine():
    target = host_target()
    assert target is host_target()
    assert target.triple
    assert target.vector_bits >= 128
    assert target.l1_bytes < target.l2_bytes


def test_unknown_triple():
    with pytest.raises(CompileError, match="no target"):
        llvm.target_machine(Target("abc-def", "", frozenset(), 0, 8))


def test_invalid_text():
    with pytest.raises(CompileError, match="refuses"):
        llvm.parse("define void @f() { ret i32 0 }")


def test_missing_function():
    library = llvm.jit("define void @f() { ret void }", host_target())
    assert library.address("f")
    with pytest.raises(CompileError, match="no function"):
        library.address("g")
