"""Compile kernels for several vector widths and run them in this process."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from teeny_compiler.codegen import llvm
from teeny_compiler.codegen.cpu import emit_kernel, scratch_bytes
from teeny_compiler.target import host_target
from teeny_triton import Target, interpret
from teeny_triton.ir import Function, Pointer

HOST = host_target()
SSE2 = {"64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2"}
AVX2 = SSE2 | {
    "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "fma", "f16c", "bmi", "bmi2",
    "lzcnt", "movbe",
}  # fmt: skip


def _narrower() -> dict[str, Target]:
    """The vector widths that a processor of this kind can run besides its own."""
    targets = {"host": HOST}
    if llvm.is_x86(HOST.triple):
        generic = replace(HOST, cpu="x86-64")
        if HOST.features >= AVX2:
            targets["avx2"] = replace(
                generic, features=frozenset(AVX2), vector_bits=256, vector_registers=16
            )
        targets["sse2"] = replace(
            generic, features=frozenset(SSE2), vector_bits=128, vector_registers=16
        )
        targets["scalar"] = replace(generic, features=frozenset(SSE2), vector_bits=0)
    else:
        targets["scalar"] = replace(HOST, vector_bits=0)
    return targets


TARGETS = _narrower()


class Compiled:
    """A kernel loaded into this process."""

    def __init__(self, function: Function, target: Target) -> None:
        self.function = function
        self.text = emit_kernel(function, target)
        self.library = llvm.jit(self.text, target)
        kind = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
        )
        self.entry = kind(self.library.address(function.name))
        self.arena = np.zeros(scratch_bytes(function, target) + 64, np.uint8)

    def __call__(
        self,
        grid: Sequence[int],
        arguments: Sequence[Any],
        programs: tuple[int, int] | None = None,
    ) -> None:
        """Run programs [lo, hi) of a grid, all of them by default."""
        extents = (*grid, 1, 1, 1)[:3]
        slots = b"".join(struct.pack("<q", extent) for extent in extents)
        for parameter, value in zip(self.function.parameters, arguments, strict=True):
            element = parameter.value.type.element
            if isinstance(element, Pointer):
                slots += struct.pack("<Q", value.ctypes.data)
            else:
                slots += np.asarray(value).astype(element.numpy).tobytes().ljust(8, b"\0")
        packed = ctypes.create_string_buffer(slots, len(slots))
        scratch = (self.arena.ctypes.data + 63) // 64 * 64
        low, high = programs or (0, int(np.prod(extents)))
        self.entry(ctypes.addressof(packed), low, high, scratch)


Check = Callable[..., None]


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    """Each vector width in turn."""
    return TARGETS[request.param]


@pytest.fixture(params=[name for name in ("host", "scalar") if name in TARGETS])
def extreme(request: pytest.FixtureRequest) -> Target:
    """The widest vectors and none; the latter without any extension of the instruction set."""
    return TARGETS[request.param]


@pytest.fixture
def host() -> Target:
    """The machine itself."""
    return HOST


@pytest.fixture
def load() -> Callable[[Function, Target], Compiled]:
    """Compile a function and load it."""
    return Compiled


@pytest.fixture
def agree() -> Check:
    """Check that compiled code leaves in every array what the interpreter leaves there."""

    def check(
        function: Function,
        target: Target,
        grid: Sequence[int],
        arguments: Sequence[Any],
        ulps: float = 0,
    ) -> None:
        wanted = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        found = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        interpret(function, grid, wanted)
        Compiled(function, target)(grid, found)
        for parameter, x, y in zip(function.parameters, found, wanted, strict=True):
            if isinstance(x, np.ndarray):
                close(x, y, ulps, parameter.name)

    return check


def close(found: np.ndarray, wanted: np.ndarray, ulps: float, name: str = "") -> None:
    """Check equality, of floats up to a number of units in the last place of `wanted`."""
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, wanted, err_msg=name)
        return
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    if ulps:
        with np.errstate(all="ignore"):
            distance = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
            unit = np.abs(np.spacing(wanted)).astype(np.float64)
            same |= distance <= ulps * unit
    if not same.all():
        at = np.argwhere(~same)[0]
        x, y = found[tuple(at)], wanted[tuple(at)]
        pytest.fail(f"{name}{at.tolist()}: found {x}, wanted {y}; {(~same).sum()} differ")


@pytest.fixture(name="close")
def close_fixture() -> Check:
    """The comparison of arrays."""
    return close
