"""LLVM through llvmlite: text to verified module, optimised module, object, assembly, addresses.

Kernels arrive as vector code without common subexpressions and with loop-invariant code outside of
loops, so that little is left to LLVM but code generation.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from llvmlite import binding
from teeny_core import CompileError
from teeny_triton import Target

from teeny_compiler.codegen import object_code
from teeny_compiler.codegen.object_code import Machine

_lock = threading.Lock()


def is_x86(triple: str) -> bool:
    """Whether a triple names a 32- or 64-bit x86 machine."""
    return triple.partition("-")[0] in ("x86_64", "amd64", "i386", "i686")


def machine_of(target: Target) -> Machine:
    """Return what LLVM is told of a target.

    On x86 the instruction set is the baseline plus `target.features` and nothing that the name
    of the CPU implies: a virtual machine may hide features of its CPU. The CPU then only tunes,
    by the attribute `tune-cpu` of each function (see `function_attributes`).
    """
    base = {"x86_64": "x86-64", "amd64": "x86-64"}.get(target.triple.partition("-")[0], target.cpu)
    return Machine(target.triple, base, tuple(sorted(target.features)))


def target_machine(target: Target) -> Any:
    """Make an LLVM target machine.

    Raises:
        CompileError: LLVM does not know the triple.
    """
    try:
        return machine_of(target).target_machine()
    except RuntimeError as error:
        raise CompileError(
            f"LLVM has no target {target.triple!r}: {error}", hint="write it as arch-vendor-os"
        ) from error


def function_attributes(target: Target) -> str:
    """Return the attributes that every function for `target` carries."""
    attributes = ["nounwind"]
    if target.vector_bits:
        attributes.append(f'"prefer-vector-width"="{target.vector_bits}"')
    if is_x86(target.triple) and target.cpu:
        attributes.append(f'"tune-cpu"="{target.cpu}"')
    return " ".join(attributes)


def refused(reason: str) -> CompileError:
    """Return the error for a module that LLVM does not take."""
    return CompileError(
        f"LLVM refuses the generated code: {reason}",
        hint="this is a defect of the code generator: report it with the kernel",
    )


def parse(text: str) -> Any:
    """Parse and verify LLVM IR.

    Raises:
        CompileError: the text is not valid LLVM IR.
    """
    try:
        return object_code.parse(text)
    except RuntimeError as error:
        raise refused(str(error)) from error


def compile_object(text: str, target: Target) -> bytes:
    """Compile LLVM IR to an object file in this process, which LLVM may end: see `workers`.

    Raises:
        CompileError: the text is not valid LLVM IR, or LLVM does not know the triple.
    """
    machine = target_machine(target)
    return object_code.emit_object(parse(text), machine)


def assembly(text: str, target: Target) -> str:
    """Compile LLVM IR to assembly with comments in this process, which LLVM may end: see `workers`.

    Raises:
        CompileError: the text is not valid LLVM IR, or LLVM does not know the triple.
    """
    machine = target_machine(target)
    return object_code.emit_assembly(parse(text), machine)


@dataclass(frozen=True, eq=False)
class Library:
    """Code loaded into this process; its functions live as long as this value."""

    _engine: Any = field(repr=False)

    def address(self, name: str) -> int:
        """Return the address of a function.

        Raises:
            CompileError: there is no such function.
        """
        found = int(self._engine.get_function_address(name))
        if not found:
            raise CompileError(f"the loaded code has no function {name!r}")
        return found


def load_object(data: bytes, target: Target) -> Library:
    """Load an object file for the machine of this process."""
    with _lock:
        machine = target_machine(target)
        engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        engine.add_object_file(binding.ObjectFileRef.from_data(data))
        engine.finalize_object()
    return Library(engine)


def jit(text: str, target: Target) -> Library:
    """Compile LLVM IR for the machine of this process and load it."""
    return load_object(compile_object(text, target), target)
