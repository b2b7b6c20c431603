"""The device `cpu`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from teeny_compiler.internal import KERNELS, CompileOptions, compile_watched, host_target
from teeny_core import DType, Graph, Tensor, config
from teeny_core.device import Buffer, Device, Options

from teeny_cpu.memory import CpuBuffer, empty
from teeny_cpu.program import CpuProgram
from teeny_cpu.runtime import num_threads

if TYPE_CHECKING:
    from teeny_triton.ir import Function
    from teeny_triton.launch import Plan, Request
    from teeny_triton.target import Target

    from teeny_cpu.kernel import CpuKernel


class CpuDevice(Device):
    """The processor that Python runs on: native code, threads, and the memory of the process."""

    @property
    def name(self) -> str:
        """The name, cpu."""
        return "cpu"

    @property
    def target(self) -> Target:
        """What code is generated for."""
        return host_target()

    def compile(
        self, graph: Graph, parameters: Mapping[str, Tensor], options: Options | None = None
    ) -> CpuProgram:
        """Compile a graph, or find it in the cache, and load it.

        Raises:
            CompileError: when the graph cannot be lowered.
            ConfigError: for an option that does not exist.
        """
        settings = CompileOptions.of(options)
        compiled = compile_watched(graph, self.target, settings, self.choose)
        program = CpuProgram(self, graph, parameters, compiled, settings)
        if config.get().debug >= KERNELS:
            program.watch()
        return program

    def choose(self, request: Request, plans: Sequence[Plan]) -> int:
        """Return which of several plans for an op is fastest, see `tuning`."""
        from teeny_cpu.tuning import choose

        return choose(request, plans)

    def allocate(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        """Return memory that begins at a cache line."""
        return CpuBuffer(empty(shape, dtype.numpy), dtype)

    def compile_kernel(self, function: Function, options: Options | None = None) -> CpuKernel:
        """Compile a tile-IR function, or find it in the cache, and load it.

        Raises:
            CompileError: an op that the processor does not support.
        """
        from teeny_cpu.kernel import CpuKernel  # programs have no use for the kernel language

        return CpuKernel(function)

    def properties(self) -> Mapping[str, str]:
        """Describe the processor as far as code generation knows it."""
        target = self.target
        caches = (target.l1_bytes, target.l2_bytes, target.l3_bytes)
        return {
            "processor": f"{target.cpu} ({target.triple})",
            "vectors": f"{target.vector_bits} bits, {target.vector_registers} registers",
            "caches": " / ".join(_size(size) for size in caches),
            "threads": str(num_threads()),
        }


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"
