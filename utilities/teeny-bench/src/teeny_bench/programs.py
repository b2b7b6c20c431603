"""The same function in teeny and in the peer, over the same arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import teeny_core as tn
import teeny_cpu
from numpy.typing import NDArray

from teeny_bench.case import Sides
from teeny_bench.peers import SERIAL, Function, compiled, torch_module

DEVICE = "cpu"

CONSTANT = {"frozen": "on", "fast": "on"}
"""Options for weights that never change, as Inductor's "freezing" takes them: they are prepared
once, and normalisations folded into them."""


def pair(peer: str, ours: Function, theirs: Function, arrays: Sequence[NDArray[Any]]) -> Sides:
    """Compile a function of traced tensors for the CPU, and the same of torch tensors for `peer`.

    Both take `arrays`, which torch sees without a copy. The peer `serial` is the same program.
    """
    program = program_of(ours, arrays)
    if peer == SERIAL:
        threads = teeny_cpu.num_threads()
        return sides(
            lambda: _on_threads(threads, program, arrays), lambda: _on_threads(1, program, arrays)
        )
    return sides(lambda: program(*arrays), peer_call(compiled(peer, theirs), arrays))


def _on_threads(threads: int, program: tn.Program, arrays: Sequence[NDArray[Any]]) -> Any:
    if teeny_cpu.num_threads() != threads:
        teeny_cpu.set_num_threads(threads)
    return program(*arrays)


def sides(ours: Callable[[], Any], theirs: Callable[[], Any]) -> Sides:
    """Make two sides whose results are the values to compare."""
    return Sides(ours, theirs, lambda: (outputs(ours()), outputs(theirs())))


def program_of(
    function: Function,
    examples: Sequence[NDArray[Any]],
    options: Mapping[str, str] | None = None,
) -> tn.Program:
    """Trace `function` over tensors shaped like `examples` and compile it for the CPU."""
    handles = [tn.SymTensor.input(tn.dtype(array.dtype), array.shape) for array in examples]
    return tn.compile(tn.trace(function, *handles), device=DEVICE, options=options)


def peer_call(function: Function, arrays: Sequence[NDArray[Any]]) -> Callable[[], Any]:
    """Bind `function` to torch tensors that share the memory of `arrays`, without gradients."""
    torch = torch_module()
    tensors = [torch.from_numpy(array) for array in arrays]

    def call() -> Any:
        with torch.inference_mode():
            return function(*tensors)

    return call


def outputs(result: Any) -> list[NDArray[Any]]:
    """Return what a program or a torch function returned as a list of NumPy arrays."""
    many = result if isinstance(result, (list, tuple)) else [result]
    return [
        array.detach().numpy() if hasattr(array, "detach") else np.asarray(array) for array in many
    ]


def normal(seed: int, *shapes: tuple[int, ...]) -> list[NDArray[np.float32]]:
    """Return arrays of standard normal numbers."""
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape, np.float32) for shape in shapes]
