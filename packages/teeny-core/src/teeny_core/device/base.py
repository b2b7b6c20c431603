"""What a device is, in the abstract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from teeny_core.dtype import DType
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import DeviceError
from teeny_core.op import Array
from teeny_core.tree import Tree, leaves

if TYPE_CHECKING:
    from teeny_core.graph import Graph, Guard
    from teeny_core.tensor import Tensor

Options: TypeAlias = Mapping[str, str]


class Buffer(ABC):
    """Memory of one dense row-major tensor on a device."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""

    @property
    @abstractmethod
    def dtype(self) -> DType:
        """Element type of the tensor."""

    @property
    @abstractmethod
    def device_name(self) -> str:
        """Name of the device that owns the memory; "host" for NumPy's own."""

    @abstractmethod
    def numpy(self) -> Array:
        """Return the contents, a view without a copy where the device can."""

    @abstractmethod
    def write(self, array: Array) -> None:
        """Overwrite the contents with an array of the same shape and type."""


class HostBuffer(Buffer):
    """A buffer in NumPy's memory."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self._shape: tuple[int, ...] = array.shape
        self._dtype = to_dtype(array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """Element type of the array."""
        return self._dtype

    @property
    def device_name(self) -> str:
        """The host."""
        return "host"

    def numpy(self) -> Array:
        """Return the array itself."""
        return self._array

    def write(self, array: Array) -> None:
        """Copy `array` into the buffer."""
        self._array[...] = array


class Event(ABC):
    """A point in the work of a stream."""

    @abstractmethod
    def wait(self) -> None:
        """Block until the work before the event has run."""


class Stream(ABC):
    """A queue of work on a device."""

    @abstractmethod
    def record(self) -> Event:
        """Return an event after the work queued so far."""

    @abstractmethod
    def synchronize(self) -> None:
        """Block until the queue is empty."""


class Program(ABC):
    """A graph compiled for a device.

    A program keeps no copy of the parameters: it holds their buffers. One that writes parameters
    calls `teeny_core.internal.settle` first, so that lazy tensors see the values from before.
    """

    @property
    @abstractmethod
    def graph(self) -> Graph:
        """The graph that was compiled."""

    @property
    def guards(self) -> tuple[Guard, ...]:
        """What the sizes of inputs must fulfil at a call, beyond what is proven of all sizes."""
        return self.graph.guards

    @abstractmethod
    def __call__(self, *arguments: Tree) -> Tree:
        """Run on trees of arrays in the structure of the traced function's; return one like its.

        A graph that was not traced takes arrays in the order of its inputs, and gives one output
        alone, several as a tuple.

        Raises:
            TeenyError: when an array does not fit its input.
        """

    async def run_async(self, *arguments: Tree) -> Tree:
        """Run without blocking the event loop."""
        import asyncio  # takes a tenth of the time of importing this package

        return await asyncio.to_thread(self, *arguments)

    def run(self, *buffers: Buffer) -> tuple[Buffer, ...]:
        """Run from buffers in the order of the graph's inputs to buffers in that of its outputs.

        A device with memory of its own keeps the data there.
        """
        arrays: Tree = tuple(buffer.numpy() for buffer in buffers)
        structure = self.graph.arguments
        outputs = self(*(arrays if structure is None else structure.tree(iter(arrays))))
        return tuple(HostBuffer(array) for array in leaves(outputs))

    def emit(self, stage: str) -> str:
        """Return the text of a stage of compilation.

        Raises:
            DeviceError: when there is no stage of that name.
        """
        if stage == "graph":
            return str(self.graph)
        raise DeviceError(f"no stage is named {stage!r}", hint="this program has: graph")

    def to_svg(self, stage: str = "schedule") -> str:
        """Draw a stage of compilation that is a graph: graph, fxgraph, optimised or schedule.

        Raises:
            TeenyError: when the device does not draw a stage of that name.
        """
        return self.emit(f"{stage}.svg")

    def profile(self, *arguments: Tree, runs: int = 20) -> Any:
        """Run several times and return where the time goes; what it knows depends on the device.

        Raises:
            DeviceError: when programs of the device do not take their times.
        """
        raise DeviceError(
            f"{type(self).__name__} does not take the times of its kernels",
            hint="compile for the device 'cpu'",
        )

    def stats(self) -> Mapping[str, Any]:
        """Return figures about the program: memory, kernels, times; what the device knows."""
        return {}


class Device(ABC):
    """Something that compiles graphs and runs them."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which users ask for it."""

    @abstractmethod
    def compile(
        self, graph: Graph, parameters: Mapping[str, Tensor], options: Options | None = None
    ) -> Program:
        """Compile a graph, binding its parameters to tensors by name.

        Raises:
            CompileError: when the graph cannot be lowered.
        """

    @abstractmethod
    def allocate(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        """Return a buffer with undefined contents."""

    def properties(self) -> Mapping[str, str]:
        """Return what is known about the hardware, for people."""
        return {}

    @property
    def computes(self) -> bool:
        """Whether its programs give values; else only shapes and types are right."""
        return True

    def owns(self, buffer: Buffer) -> bool:
        """Whether programs of this device can use a buffer as it is."""
        return buffer.device_name == self.name

    def compile_kernel(self, function: Any, options: Options | None = None) -> Any:
        """Compile a tile-IR function to something that can be launched.

        Raises:
            DeviceError: when the device runs no kernels of its own.
        """
        raise DeviceError(
            f"the device {self.name!r} compiles no kernels", hint="use the device 'cpu'"
        )
