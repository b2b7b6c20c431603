"""A kernel for arguments of given types, compiled: what launches and `warmup` return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from teeny_triton.ir import Function

if TYPE_CHECKING:
    from teeny_triton.decorator import Kernel
    from teeny_triton.grid import Grid

REGISTERS = 32
"""What `n_regs` says: vector registers, none of which programs share."""


class DeviceKernel(Protocol):
    """What `Device.compile_kernel(function)` returns.

    A call runs the whole grid (three extents; the first axis runs fastest) and returns when it is
    done. `arguments` follow the function's parameters: an address for a pointer, else a number.
    """

    def __call__(self, grid: tuple[int, int, int], arguments: Sequence[int | float]) -> None:
        """Launch."""

    def emit(self, stage: str) -> str:
        """Return the text of a stage of compilation, such as `llvm` and `asm`."""
        ...


@dataclass(frozen=True)
class Metadata:
    """What is known of a compiled kernel. `shared` is the scratch memory of a program, in bytes.

    It is at least 1, for kernels written for GPUs divide by it.
    """

    name: str
    hash: str
    shared: int
    num_warps: int = 1
    num_stages: int = 1
    num_ctas: int = 1


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """A kernel compiled for arguments of given types.

    `compiled[grid](...)` launches it with the kernel's arguments, of which its constants may be
    left out; other types are compiled for in turn. `function` is its tile IR.
    """

    kernel: Kernel
    function: Function = field(repr=False)  # thousands of characters, of which a prompt is spared
    constants: Mapping[str, Any]
    metadata: Metadata
    n_regs: int = REGISTERS
    n_spills: int = 0

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.name

    @property
    def hash(self) -> str:
        """A digest of what the function does."""
        return self.metadata.hash

    @property
    def asm(self) -> Mapping[str, str]:
        """The text of each stage that is kept: the tile IR, as `ttir`."""
        return {"ttir": str(self.function)}

    def _init_handles(self) -> None:
        """Load the code, as Triton's does when it is first asked for; here it is loaded."""

    def __getitem__(self, grid: Grid) -> Callable[..., CompiledKernel]:
        """Return what launches the kernel over `grid`."""

        def launch(*args: Any, **kwargs: Any) -> CompiledKernel:
            names = self.kernel.arg_names
            if len(args) == len(names) - len(self.constants):
                open_names = [name for name in names if name not in self.constants]
                kwargs = {**self.constants, **dict(zip(open_names, args, strict=True)), **kwargs}
                args = ()
            return self.kernel.run(*args, grid=grid, **kwargs)

        return launch
