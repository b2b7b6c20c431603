"""A graph compiled to native code of this process.

A call checks its inputs, fills a frame (a table of arrays, and scratch memory) and enters the code
once; the interpreter lock is free while it runs. What depends on the shapes alone is computed
at the first call with them. Parameters are read and written in the tensors' own memory.
"""

from __future__ import annotations

import ctypes
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from teeny_compiler.internal import Compiled, CompileOptions, compile_timed, emit, show
from teeny_core import Graph, Tensor, substitute
from teeny_core.device import Buffer, Program
from teeny_core.internal import Tree, check_arguments, check_parameters, settle

from teeny_cpu.memory import Array, CpuBuffer, address, dense, empty, maker
from teeny_cpu.runtime import load, pool

if TYPE_CHECKING:
    from teeny_compiler import Schedule
    from teeny_compiler.internal import Profile

    from teeny_cpu.device import CpuDevice
    from teeny_cpu.profiling import Recorder

SHAPES = 1024
"""Most sets of input shapes that a program remembers; the oldest goes first."""

WATCHED_RUNS = 5
"""Runs of a profile that nobody asked for by name."""

ENTRY, DIMS, ARENA, POOL, COUNT, EXPECTED, ARRAYS = range(7)
"""The words of a call, see `enter.ll`."""

_BYTE = np.dtype(np.uint8)
_buffer_of = attrgetter("buffer")


class Frame:
    """What one running call needs: the words that `enter.ll` describes, and memory."""

    __slots__ = ("address", "binding", "expected", "memory", "placement", "words")

    def __init__(self, entry: int, ports: int) -> None:
        self.words = (ctypes.c_int64 * (ARRAYS + 2 * ports))()
        self.address = ctypes.addressof(self.words)
        self.words[ENTRY] = entry
        self.words[POOL] = pool().address
        self.words[COUNT] = ports
        self.memory = empty((0,), _BYTE)
        self.expected = 0
        self.binding: Binding | None = None
        self.placement: Placement | None = None

    def bind(self, binding: Binding) -> None:
        """Take the sizes of a call, and make the arena as long as they want it."""
        if self.memory.size < binding.arena:
            self.memory = empty((binding.arena,), _BYTE)
        self.words[DIMS] = ctypes.addressof(binding.dims)
        self.words[ARENA] = address(self.memory)
        self.expected = ctypes.addressof(binding.expected)
        self.binding = binding

    def move(self, placement: Placement) -> None:
        """Take the parameters from where they lie now."""
        for slot, array in placement.arrays.items():
            self.words[ARRAYS + slot] = id(array)
        self.placement = placement


@dataclass(frozen=True, eq=False)
class Placement:
    """Where the parameters lie; valid while their storages keep these buffers.

    `arrays` are, by port, the parameters and the arrays that the program computes once from
    parameters that never change. `written` are the (start, end) addresses of the parameters that
    it writes, sorted.
    """

    buffers: list[Buffer]
    arrays: Mapping[int, Array]
    written: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Binding:
    """What is known once the input shapes are: sizes, and how to make the outputs.

    `expected` is what `enter.ll` compares the inputs of the next call with.
    """

    sizes: Mapping[str, int]
    dims: ctypes.Array[ctypes.c_int64]
    expected: ctypes.Array[ctypes.c_int64]
    outputs: tuple[tuple[Callable[..., Array], tuple[int, ...], np.dtype[Any]], ...]
    arena: int


class CpuProgram(Program):
    """Native code, the storages of its parameters, and the memory that its calls reuse."""

    def __init__(
        self,
        device: CpuDevice,
        graph: Graph,
        parameters: Mapping[str, Tensor],
        compiled: Compiled,
        options: CompileOptions,
    ) -> None:
        check_parameters(graph, parameters)
        artifact = compiled.artifact
        self._device = device
        self._graph = graph
        self._parameters = parameters
        self._options = options
        self._artifact = artifact
        self._compiled = compiled
        self._library = load(artifact.objects)
        self._entry = self._library.address("teeny_program")
        self._enter = pool().enter
        self._prepared_for: Placement | None = None
        self._count = len(graph.inputs)
        self._types = tuple(node.dtype.numpy for node in graph.inputs)
        self._storages = tuple(parameters[node.attrs["name"]].storage for node in graph.parameters)
        self._placement: Placement | None = None
        self._bindings: dict[tuple[tuple[int, ...], ...], Binding] = {}
        self._last: Binding | None = None
        self._frames: list[Frame] = []
        self._lock = threading.RLock()
        self._writes = any(port.written for port in artifact.ports if port.kind == "parameter")
        made = [slot for slot, port in enumerate(artifact.ports) if port.kind == "output"]
        self._first_output = ARRAYS + (made[0] if made else 0)
        self._returns_made = list(artifact.outputs) == made
        self._calls = 0
        self._watched: set[tuple[tuple[int, ...], ...]] | None = None

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
        values = self._graph.flat(arguments)
        if self._watched is not None:
            self._show(arguments, values)
        return self._graph.packed(self._execute(values))

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
        """Return figures about the program; sizes are in bytes.

        `kernels` are the launches of a call, `flops` and `bytes` what they compute and move.
        `arena_bytes` is the scratch memory that calls hold now; of it `arena_planned` is for what
        lives between launches, at least `arena_bound` for any plan (`arena_ratio` is their
        quotient). `parameters`, `constants` and `object_bytes` are sizes of what stays.
        `compile_seconds` are by stage, `cached` whether the program was found in the cache. What
        depends on symbolic sizes is given for those of the last call; before it, as expressions.
        """
        artifact = self._artifact
        sizes = self._last.sizes if self._last is not None else {}
        flops, traffic, planned, bound, constants = substitute(artifact.work.figures, sizes)
        known = isinstance(planned, int) and isinstance(bound, int)
        return {
            "kernels": artifact.kernels,
            "calls": self._calls,
            "flops": flops,
            "bytes": traffic,
            "arena_bytes": max((frame.memory.size for frame in self._frames), default=0),
            "arena_planned": planned,
            "arena_bound": bound,
            "arena_ratio": (planned / bound if bound else 1.0) if known else None,
            "parameters": sum(buffer.numpy().nbytes for buffer in self._place().buffers),
            "constants": constants,
            "object_bytes": sum(map(len, artifact.objects)),
            "compile_seconds": dict(self._compiled.seconds),
            "cached": self._compiled.cached,
        }

    def profile(self, *arguments: Tree, runs: int = 20) -> Profile:
        """Run on arguments as a call takes them, and say where the time goes, kernel by kernel.

        Another program, compiled to take its times, runs in place of this one, which therefore
        loses nothing by it. Parameters have afterwards the values that they had before.

        Args:
            arguments: the arguments of a call.
            runs: how often it is measured.

        Raises:
            ShapeError, DTypeError: as for a call.
            ConfigError: for no runs.
        """
        from teeny_cpu.profiling import measure

        values = self._graph.flat(arguments)
        _, sizes = check_arguments(self._graph, values)
        with self._lock:
            program, recorder, schedule = self._timed
            kept = [(array, array.copy()) for array in self._written()]
            try:
                return measure(lambda: program._execute(values), recorder, schedule, sizes, runs)
            finally:
                for array, before in kept:
                    array[...] = before

    @cached_property
    def _timed(self) -> tuple[CpuProgram, Recorder, Schedule]:
        """The program that takes its times, where it writes them, and what it runs."""
        from teeny_cpu.profiling import Recorder

        device = self._device
        schedule, artifact = compile_timed(self._graph, device.target, self._options, device.choose)
        compiled = Compiled(artifact, {}, cached=False)
        timed = CpuProgram(device, self._graph, self._parameters, compiled, self._options)
        return timed, Recorder(timed._library.address("teeny_record")), schedule

    def watch(self) -> None:
        """Print a profile on standard error when a call brings new shapes."""
        self._watched = set()

    def _show(self, arguments: tuple[Tree, ...], values: Sequence[ArrayLike]) -> None:
        shapes = tuple(map(np.shape, values))
        if self._watched is not None and shapes not in self._watched:
            self._watched.add(shapes)
            show(self._graph.name, "kernels", str(self.profile(*arguments, runs=WATCHED_RUNS)))

    def _written(self) -> list[Array]:
        """Return the parameters that a call changes."""
        ports = self._artifact.ports
        arrays = self._place().arrays
        return [array for slot, array in arrays.items() if ports[slot].written]

    # --- a call ---------------------------------------------------------------------------------

    def _execute(self, values: Sequence[ArrayLike]) -> list[Array]:
        if self._writes:
            settle()
            with self._lock:
                placement = self._place()
                binding, arrays = self._match(values)
                self._last = binding
                _separate(arrays, placement.written)
                return self._run(binding, placement, arrays)
        placement, last = self._place(), self._last
        if last is not None and len(values) == self._count and self._prepared_for is placement:
            outputs = [make(shape, dtype) for make, shape, dtype in last.outputs]
            if self._launch(last, placement, values, outputs, check=True):  # as most calls are
                return outputs if self._returns_made else self._given(outputs, values, placement)
        binding, arrays = self._match(values)
        self._last = binding
        return self._run(binding, placement, arrays)

    def _run(self, binding: Binding, placement: Placement, arrays: list[Array]) -> list[Array]:
        """Run on arrays that fit; return what the graph gives out."""
        outputs = [make(shape, dtype) for make, shape, dtype in binding.outputs]
        self._launch(binding, placement, arrays, outputs, check=False)
        return outputs if self._returns_made else self._given(outputs, arrays, placement)

    def _launch(
        self,
        binding: Binding,
        placement: Placement,
        inputs: Sequence[Any],
        outputs: list[Array],
        *,
        check: bool,
    ) -> bool:
        """Run the code from inputs to outputs; with `check`, say whether the inputs fit at all."""
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = Frame(self._entry, len(self._artifact.ports))
        if frame.placement is not placement:
            frame.move(placement)
        if frame.binding is not binding:
            frame.bind(binding)
        words = frame.words
        for word, array in enumerate(inputs, ARRAYS):
            words[word] = id(array)
        for word, array in enumerate(outputs, self._first_output):
            words[word] = id(array)
        if self._prepared_for is not placement:
            self._prepare(placement, frame)
        words[EXPECTED] = frame.expected if check else 0
        ran = self._enter(frame.address)
        self._frames.append(frame)
        self._calls += ran
        return bool(ran)

    def _prepare(self, placement: Placement, frame: Frame) -> None:
        """Compute what depends only on parameters that never change."""
        with self._lock:
            if self._prepared_for is not placement:
                if self._artifact.prepares:
                    frame.words[ENTRY] = self._library.address("teeny_prepare")
                    frame.words[EXPECTED] = 0
                    self._enter(frame.address)
                    frame.words[ENTRY] = self._entry
                self._prepared_for = placement

    def _match(self, values: Sequence[ArrayLike]) -> tuple[Binding, list[Array]]:
        """Return the binding of the inputs' shapes, and the inputs as dense arrays."""
        arrays = [v if type(v) is np.ndarray else np.asarray(v) for v in values]
        binding = self._bindings.get(tuple([array.shape for array in arrays]))
        if binding is None:
            return self._bind(arrays)
        for array, dtype in zip(arrays, self._types, strict=True):
            if not (array.dtype == dtype and array.flags.carray):
                return self._bind(arrays)  # which takes read-only ones, too
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
                self._bindings[key] = self._new_binding(sizes, key)
            return self._bindings[key], arrays

    def _new_binding(self, sizes: Mapping[str, int], shapes: Sequence[tuple[int, ...]]) -> Binding:
        artifact = self._artifact
        values = [sizes[name] for name in artifact.symbols]
        outputs = []
        for port in artifact.ports:
            if port.kind == "output":
                shape = substitute(port.shape, sizes)
                outputs.append((maker(shape, port.dtype.numpy), shape, port.dtype.numpy))
        dims = (ctypes.c_int64 * max(1, len(values)))(*values)
        inputs = zip(self._types, shapes, strict=True)
        wanted = [word for dtype, shape in inputs for word in (id(dtype), len(shape), *shape)]
        expected = (ctypes.c_int64 * (len(wanted) + 2))(id(np.ndarray), *wanted, 0)
        return Binding(sizes, dims, expected, tuple(outputs), substitute(artifact.arena, sizes))

    def _given(
        self, outputs: list[Array], inputs: Sequence[Any], placement: Placement
    ) -> list[Array]:
        """Return what the graph gives out, where that may be an input or come twice."""
        made = dict(enumerate(outputs, self._first_output - ARRAYS))
        leaves = {**placement.arrays, **dict(enumerate(inputs))}
        return [
            made[slot] if slot in made else leaves[slot].copy() for slot in self._artifact.outputs
        ]

    # --- parameters -----------------------------------------------------------------------------

    def _place(self) -> Placement:
        """Return where the parameters lie; they move only when another device used them."""
        placement = self._placement
        if placement is None or [*map(_buffer_of, self._storages)] != placement.buffers:
            with self._lock:
                self._placement = placement = self._new_placement()
        return placement

    def _new_placement(self) -> Placement:
        ports = self._artifact.ports
        first = len(self._graph.inputs)
        buffers = [storage.place(self._device) for storage in self._storages]
        arrays = {slot: buffer.numpy() for slot, buffer in enumerate(buffers, first)}
        written = [
            (address(array), address(array) + array.nbytes)
            for slot, array in arrays.items()
            if ports[slot].written
        ]
        for slot, port in enumerate(ports):
            if port.kind == "prepared":
                arrays[slot] = empty(substitute(port.shape, {}), port.dtype.numpy)
        return Placement(buffers, arrays, tuple(sorted(written)))


def _separate(arrays: list[Array], written: Sequence[tuple[int, int]]) -> None:
    """Copy the arrays that share memory with a parameter that the program writes."""
    for slot, array in enumerate(arrays):
        start = address(array)
        before = bisect_left(written, (start + array.nbytes, 0)) - 1
        if before >= 0 and written[before][1] > start:
            arrays[slot] = array.copy()
