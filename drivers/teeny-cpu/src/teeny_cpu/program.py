"""A graph compiled to native code of this process.

A call checks its inputs, fills a frame (a table of addresses, and scratch memory) and enters the
code once; the interpreter lock is free while it runs. What depends on the shapes alone is computed
at the first call with them. Parameters are read and written in the tensors' own memory.
"""

from __future__ import annotations

import ctypes
import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from teeny_compiler.internal import Artifact, CompileOptions, emit
from teeny_core import Graph, Tensor, substitute
from teeny_core.device import Buffer, Device, Program
from teeny_core.internal import Tree, check_arguments, check_parameters, settle

from teeny_cpu.memory import Array, CpuBuffer, address, dense, empty, result
from teeny_cpu.runtime import load, pool

SHAPES = 1024
"""Most sets of input shapes that a program remembers; the oldest goes first."""

_Entry = ctypes.CFUNCTYPE(ctypes.c_int32, *(ctypes.c_void_p,) * 4)
_BYTE = np.dtype(np.uint8)


class Frame:
    """What one running call needs besides its arrays: a table of addresses, and memory."""

    __slots__ = ("address", "arena", "memory", "placement", "table")

    def __init__(self, ports: int) -> None:
        self.table = (ctypes.c_int64 * max(1, ports))()
        self.address = ctypes.addressof(self.table)
        self.placement: Placement | None = None
        self.reserve(0)

    def reserve(self, size: int) -> None:
        """Make the arena `size` bytes long."""
        self.memory = empty((size,), _BYTE)
        self.arena = address(self.memory)


@dataclass(frozen=True, eq=False)
class Placement:
    """Where the parameters lie; valid while their storages keep these buffers.

    `table` are (slot, address) of the parameters and of `prepared`, the arrays that the program
    computes once from parameters that never change. `written` are the (start, end) addresses of
    the parameters that it writes, sorted.
    """

    buffers: tuple[Buffer, ...]
    table: tuple[tuple[int, int], ...]
    written: tuple[tuple[int, int], ...]
    prepared: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class Binding:
    """What is known once the input shapes are: the symbols' values and the sizes in memory."""

    dims: ctypes.Array[ctypes.c_int64]
    address: int
    outputs: tuple[tuple[int, tuple[int, ...], np.dtype[Any]], ...]
    arena: int


class CpuProgram(Program):
    """Native code, the storages of its parameters, and the memory that its calls reuse."""

    def __init__(
        self,
        device: Device,
        graph: Graph,
        parameters: Mapping[str, Tensor],
        artifact: Artifact,
        options: CompileOptions,
    ) -> None:
        check_parameters(graph, parameters)
        self._device = device
        self._graph = graph
        self._options = options
        self._artifact = artifact
        self._library = load(artifact.objects)
        self._enter = _Entry(self._library.address("teeny_program"))
        self._enter_prepare = (
            _Entry(self._library.address("teeny_prepare")) if artifact.prepares else None
        )
        self._prepared_for: Placement | None = None
        self._pool = pool().address
        self._types = tuple(node.dtype.numpy for node in graph.inputs)
        self._storages = tuple(parameters[node.attrs["name"]].storage for node in graph.parameters)
        self._placement: Placement | None = None
        self._bindings: dict[tuple[tuple[int, ...], ...], Binding] = {}
        self._frames: list[Frame] = []
        self._lock = threading.RLock()
        self._writes = any(port.written for port in artifact.ports if port.kind == "parameter")
        self._turn: AbstractContextManager[Any] = self._lock if self._writes else nullcontext()
        self._calls = 0

    @property
    def graph(self) -> Graph:
        """The graph that was compiled."""
        return self._graph

    def __call__(self, *arguments: Tree) -> Tree:
        """Run on trees of arrays as the traced function's; return one like its.

        Arrays are read where they lie when they are dense and in row-major order, else copied.
        Calls from several threads run at the same time, unless the program writes parameters.

        Raises:
            ShapeError: a wrong number of arrays, or a shape that does not fit.
            DTypeError: an array of another element type.
        """
        return self._graph.packed(self._execute(self._graph.flat(arguments)))

    def run(self, *buffers: Buffer) -> tuple[Buffer, ...]:
        """Run from buffers to buffers."""
        outputs = self._execute([buffer.numpy() for buffer in buffers])
        nodes = self._graph.outputs
        return tuple(CpuBuffer(a, node.dtype) for a, node in zip(outputs, nodes, strict=True))

    def emit(self, stage: str) -> str:
        """Return the text of a stage of compilation.

        Raises:
            CompileError: when there is no stage of that name.
        """
        return emit(self._graph, stage, options=self._options)

    def stats(self) -> Mapping[str, Any]:
        """Return the number of kernels and of calls, and sizes in bytes."""
        return {
            "kernels": self._artifact.kernels,
            "object_bytes": sum(map(len, self._artifact.objects)),
            "arena_bytes": max((frame.memory.size for frame in self._frames), default=0),
            "calls": self._calls,
        }

    # --- a call ---------------------------------------------------------------------------------

    def _execute(self, values: Sequence[ArrayLike]) -> list[Array]:
        binding, arrays = self._match(values)
        if self._writes:
            settle()
        with self._turn:
            placement = self._place()
            frame = self._take_frame(binding.arena)
            outputs = self._fill(frame, binding, placement, arrays)
            arguments = (frame.address, binding.address, frame.arena, self._pool)
            if self._prepared_for is not placement:
                self._prepare(placement, arguments)
            self._enter(*arguments)
            self._calls += 1
            self._frames.append(frame)
        return outputs

    def _take_frame(self, arena: int) -> Frame:
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = Frame(len(self._artifact.ports))
        if frame.memory.size < arena:
            frame.reserve(arena)
        return frame

    def _prepare(self, placement: Placement, arguments: tuple[int, ...]) -> None:
        """Compute what depends only on parameters that never change."""
        with self._lock:
            if self._prepared_for is not placement:
                if self._enter_prepare is not None:
                    self._enter_prepare(*arguments)
                self._prepared_for = placement

    def _match(self, values: Sequence[ArrayLike]) -> tuple[Binding, list[Array]]:
        """Return the binding of the inputs' shapes, and the inputs as dense arrays."""
        arrays = [v if type(v) is np.ndarray else np.asarray(v) for v in values]
        binding = self._bindings.get(tuple([array.shape for array in arrays]))
        if binding is None:
            return self._bind(arrays)
        for array, dtype in zip(arrays, self._types, strict=True):
            flags = array.flags
            if not (array.dtype == dtype and flags.c_contiguous and flags.aligned):
                return self._bind(arrays)
        return binding, arrays

    def _bind(self, values: Sequence[Array]) -> tuple[Binding, list[Array]]:
        """Check inputs of new shapes, or not dense, in full."""
        given, sizes = check_arguments(self._graph, values)
        arrays = [dense(array, dtype) for array, dtype in zip(given, self._types, strict=True)]
        key = tuple(array.shape for array in arrays)
        with self._lock:
            if key not in self._bindings:
                while len(self._bindings) >= SHAPES:
                    del self._bindings[next(iter(self._bindings))]
                self._bindings[key] = self._new_binding(sizes)
            return self._bindings[key], arrays

    def _new_binding(self, sizes: Mapping[str, int]) -> Binding:
        artifact = self._artifact
        values = [sizes[name] for name in artifact.symbols]
        outputs = []
        for slot, port in enumerate(artifact.ports):
            if port.kind == "output":
                shape = substitute(port.shape, sizes)
                outputs.append((slot, shape, port.dtype.numpy))
        dims = (ctypes.c_int64 * max(1, len(values)))(*values)
        arena = substitute(artifact.arena, sizes)
        return Binding(dims, ctypes.addressof(dims), tuple(outputs), arena)

    def _fill(
        self, frame: Frame, binding: Binding, placement: Placement, arrays: list[Array]
    ) -> list[Array]:
        """Write the addresses of one call into its frame; return the arrays of its outputs."""
        table = frame.table
        if frame.placement is not placement:
            for slot, place in placement.table:
                table[slot] = place
            frame.placement = placement
        if placement.written:
            _separate(arrays, placement.written)
        for slot, array in enumerate(arrays):
            table[slot] = address(array)
        made: dict[int, Array] = {}
        for slot, shape, dtype in binding.outputs:
            made[slot] = array = result(shape, dtype)
            table[slot] = address(array)
        return [
            made[slot] if slot in made else self._leaf(slot, arrays, placement).copy()
            for slot in self._artifact.outputs
        ]

    def _leaf(self, slot: int, arrays: Sequence[Array], placement: Placement) -> Array:
        """Return the input or parameter that the graph gives out as it is."""
        if slot < len(arrays):
            return arrays[slot]
        return placement.buffers[slot - len(arrays)].numpy()

    # --- parameters -----------------------------------------------------------------------------

    def _place(self) -> Placement:
        """Return where the parameters lie; they move only when another device used them."""
        placement = self._placement
        if placement is not None:
            for storage, buffer in zip(self._storages, placement.buffers, strict=True):
                if storage.buffer is not buffer:
                    break
            else:
                return placement
        with self._lock:
            self._placement = self._new_placement()
            return self._placement

    def _new_placement(self) -> Placement:
        ports = self._artifact.ports
        first = len(self._graph.inputs)
        buffers = tuple(storage.place(self._device) for storage in self._storages)
        table = [(slot, address(buffer.numpy())) for slot, buffer in enumerate(buffers, first)]
        written = [
            (place, place + buffer.numpy().nbytes)
            for (slot, place), buffer in zip(table, buffers, strict=True)
            if ports[slot].written
        ]
        prepared = {
            slot: empty(substitute(port.shape, {}), port.dtype.numpy)
            for slot, port in enumerate(ports)
            if port.kind == "prepared"
        }
        table += [(slot, address(array)) for slot, array in prepared.items()]
        return Placement(buffers, tuple(table), tuple(sorted(written)), tuple(prepared.values()))


def _separate(arrays: list[Array], written: Sequence[tuple[int, int]]) -> None:
    """Copy the arrays that share memory with a parameter that the program writes."""
    for slot, array in enumerate(arrays):
        start = address(array)
        before = bisect_left(written, (start + array.nbytes, 0)) - 1
        if before >= 0 and written[before][1] > start:
            arrays[slot] = array.copy()
