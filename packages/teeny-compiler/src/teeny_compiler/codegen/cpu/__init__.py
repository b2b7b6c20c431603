"""Tile IR to LLVM IR for CPUs of any vector width."""

from __future__ import annotations

from functools import lru_cache

from teeny_triton import Target
from teeny_triton.expand import expand
from teeny_triton.ir import Function

from teeny_compiler.codegen.block import block
from teeny_compiler.codegen.cpu import kernel as _kernel

NATIVE = frozenset({"flip"})
"""The opcodes that are lowered here though `expand` could rewrite them."""


@lru_cache(maxsize=64)
def _emitted(function: Function, target: Target) -> _kernel.Kernel:
    lanes = _kernel.lanes_of(function, target)
    primitive = expand(function, lanes, NATIVE)
    return _kernel.emit(block(primitive, target, lanes), target, lanes)


def emit_kernel(function: Function, target: Target) -> str:
    """Lower a function to LLVM IR text.

    The text defines `void @NAME(ptr args, i64 lo, i64 hi, ptr scratch)`, which runs programs
    [lo, hi) of the grid. `args` points at 8-byte slots: the three extents of the grid (i64), then a
    slot for each parameter. `scratch` is thread-private memory, 64-byte aligned, of at least
    `scratch_bytes(function, target)` bytes.

    Raises:
        CompileError: an op that CPUs do not support.
    """
    return _emitted(function, target).text


def scratch_bytes(function: Function, target: Target) -> int:
    """Return the bytes of scratch memory that a thread must give to the emitted function."""
    return _emitted(function, target).scratch_bytes
