"""One kernel, launched over a grid; `teeny_triton` checks and converts the arguments."""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from teeny_compiler.internal import compile_function, emit_function
from teeny_core import DType, f32, f64
from teeny_triton.errors import assertion_failed
from teeny_triton.guards import Guards, Relaunch
from teeny_triton.ir import Function, Location, Pointer, walk

from teeny_cpu.memory import NO_SCRATCH, give_back, take_scratch
from teeny_cpu.relaunch import encode, layout
from teeny_cpu.runtime import load, pool

HEAD, GUARDED_HEAD = "=QQqQq3q", "=QQqQQq3q"
"""The words of a launch before its arguments, see `enter.ll` and `relaunch.ll`; the last three are
the grid."""


class CpuKernel:
    """Native code of a tile-IR function."""

    def __init__(self, function: Function) -> None:
        compiled = compile_function(function)
        self._function = function
        self._library = load([compiled.code])
        self._address = self._library.address(compiled.symbol)
        self._scratch_bytes = compiled.scratch
        self._pool, self._launch = pool().address, pool().launch
        opcodes = {op.opcode for op in walk(function.body)}
        self._prints = "device_print" in opcodes
        self._failure: _Failure | None = None
        if "device_assert" in opcodes:
            self._failure = _Failure(self._library.address(f"{compiled.symbol}.listen"))
        elements = [parameter.value.type.element for parameter in function.parameters]
        self._elements = elements
        self._pack = struct.Struct(HEAD + "".join(map(_code, elements))).pack
        self._floats = [
            (place, _CONVERTERS.get(element) or partial(_bits, element))
            for place, element in enumerate(elements)
            if isinstance(element, DType) and element.is_float and element != f64
        ]

    @property
    def scratch_bytes(self) -> int:
        """The memory that a thread needs while it runs programs."""
        return self._scratch_bytes

    def __call__(self, grid: tuple[int, int, int], arguments: Sequence[int | float]) -> None:
        """Run all programs of a grid, on all threads; returns when they are done.

        A thread that meets a failed device_assert leaves its programs; the others go on.

        Args:
            grid: three extents.
            arguments: an address for each pointer parameter, a number for each scalar.

        Raises:
            KernelError: a device_assert has failed; with its place and program.
        """
        if self._floats:
            words: list[Any] = [*arguments]
            for place, bits in self._floats:
                words[place] = bits(words[place])
            arguments = words
        x, y, z = grid
        size = self._scratch_bytes
        scratch = take_scratch(size)
        own = scratch.place
        launch = self._pack(self._pool, self._address, x * y * z, own, size, x, y, z, *arguments)
        self._enter(self._launch, launch)
        give_back(scratch)

    def guarded(self, guards: Guards) -> Relaunch:
        """Return what runs all programs of a grid where guards hold for a block of words."""
        table = encode(guards, self._elements)
        pack = struct.Struct(GUARDED_HEAD + layout(guards)).pack
        head = self._pool, self._address, self._scratch_bytes, ctypes.addressof(table)
        seen = self._prints or self._failure is not None
        enter = partial(self._enter, pool().relaunch) if seen else pool().relaunch
        size = self._scratch_bytes
        needed = self, guards, table  # by native code: they live as long as the function

        def relaunch(
            grid: tuple[int, int, int], words: Sequence[int | float], _: object = needed
        ) -> bool:
            x, y, z = grid
            scratch = take_scratch(size) if size else NO_SCRATCH
            ran: int = enter(pack(*head, scratch.place, x * y * z, x, y, z, *words))
            give_back(scratch)
            return ran != 0

        return relaunch

    def _enter(self, way: Callable[[bytes], Any], launch: bytes) -> Any:
        """Go into native code by one of the ways of the pool."""
        if self._prints:
            sys.stdout.flush()  # what Python has printed comes first
        if self._failure is None:
            return way(launch)
        with self._failure:
            return way(launch)

    def emit(self, stage: str) -> str:
        """Return the text of a stage of compilation: tile, llvm or asm.

        Raises:
            CompileError: there is no such stage.
        """
        return emit_function(self._function, stage)


class _Failure:
    """The record in which a kernel notes that an assertion fails; for one launch at a time."""

    def __init__(self, listen: int) -> None:
        self._record = (ctypes.c_uint64 * 5)()  # whether, the address of the text, the program
        self._lock = threading.Lock()
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(listen)(ctypes.addressof(self._record))

    def __enter__(self) -> None:
        self._lock.acquire()
        self._record[0] = 0

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        failed, text, x, y, z = self._record
        self._lock.release()
        if failed and kind is None:
            place, _, message = ctypes.string_at(text).decode().partition("\n")
            raise assertion_failed(message, Location.parse(place) if place else None, (x, y, z))


def _code(element: DType | Pointer) -> str:
    """Return what `struct` calls the slot of a parameter; of floats but f64 it takes the bits."""
    if element == f64:
        return "d"
    return "q" if isinstance(element, DType) and element.is_signed else "Q"


def _single(value: float) -> int:
    return ctypes.c_uint32.from_buffer(ctypes.c_float(value)).value


def _bits(dtype: DType, value: float) -> int:
    return int.from_bytes(np.array(value).astype(dtype.numpy).tobytes(), "little")


_CONVERTERS: Mapping[object, Callable[[float], int]] = {f32: _single}
