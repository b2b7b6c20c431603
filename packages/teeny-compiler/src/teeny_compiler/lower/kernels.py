"""Nests → calls of generated kernels, each distinct nest generated once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from teeny_core import i64
from teeny_triton.launch import ScalarArg
from teeny_triton.target import Target

from teeny_compiler.lower.call import Call, Place, StorageArg
from teeny_compiler.lower.generate import Kernel, generate
from teeny_compiler.nest.nest import REDUCTIONS, Nest

NAME_LENGTH = 48


class NestKernels:
    """The generated kernels of a program for a machine."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._known: dict[Nest, Kernel] = {}

    def call(self, nest: Nest, label: str, places: Mapping[int, Place] | None = None) -> Call:
        """Return the call that computes a nest over storages, or over `places` that stand in."""
        key = replace(nest, operands=())
        if key not in self._known:
            self._known[key] = generate(nest, self.target, kernel_name(nest))
        kernel = self._known[key]
        stand_in = places or {}
        operands = tuple(stand_in.get(s, StorageArg(s)) for s in nest.operands)
        scalars = tuple(ScalarArg(dim, i64) for dim in kernel.scalars)
        return Call(
            label, kernel.function, kernel.grid, (*operands, *scalars), nest.flops, nest.traffic
        )


def kernel_name(nest: Nest) -> str:
    """Return a symbol that says what a nest does: its kind and its ops."""
    kind = "reduce" if any(i.op in REDUCTIONS for i in nest.instructions) else "pointwise"
    silent = ("load", "constant", "index", "inside", "size", "where", "cast")
    ops = [i.op for i in nest.instructions if i.op not in silent]
    name = "_".join((kind, *dict.fromkeys(ops))) if ops else "copy"
    return re.sub(r"\W", "_", name)[:NAME_LENGTH].rstrip("_")
