"""Compiling a function over example arrays, on the CPU device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import teeny_core as tn


def program(function: Callable[..., Any], *examples: np.ndarray) -> tn.Program:
    """Trace `function` over tensors shaped like `examples` and compile it for the CPU."""
    handles = [tn.SymTensor.input(tn.dtype(array.dtype), array.shape) for array in examples]
    return tn.compile(tn.trace(function, *handles), device="cpu")


def outputs(result: Any) -> list[np.ndarray]:
    """Return what a program or a torch function returned as a list of NumPy arrays."""
    many = result if isinstance(result, (list, tuple)) else [result]
    return [
        array.detach().numpy() if hasattr(array, "detach") else np.asarray(array) for array in many
    ]


def pair(
    ours: Callable[..., Any], theirs: Callable[..., Any], arrays: list[np.ndarray]
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return two argument-less calls, ours over NumPy arrays and the peer's over tensors."""
    from teeny_bench.peers import torch_module

    torch = torch_module()
    tensors = [torch.from_numpy(array) for array in arrays]
    compiled = program(ours, *arrays)

    def run_peer() -> Any:
        with torch.inference_mode():
            return theirs(*tensors)

    return (lambda: compiled(*arrays)), run_peer
