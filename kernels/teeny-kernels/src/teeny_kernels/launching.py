"""From a kernel and what is known of one use of it to a launch.

Sizes that are numbers become constants of the kernel, symbolic ones parameters; the epilogue is a
function that the kernel calls while it is built. Equal uses share one function, so that it is
compiled once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from teeny_core import Dim, DType, i64
from teeny_triton import Facts, Kernel, Tile, specialise
from teeny_triton.ir import Function, Pointer
from teeny_triton.launch import BufferArg, Epilogue, Launch, Operand, ScalarArg

Argument = BufferArg | ScalarArg


@dataclass(frozen=True)
class Buffer:
    """A pointer argument: where it comes from and what it points at."""

    argument: BufferArg
    dtype: DType


@dataclass(frozen=True)
class Work:
    """What a launch costs: floating-point operations, and bytes moved to and from memory."""

    flops: Dim = 0
    bytes: Dim = 0


def buffer(kind: str, index: int, dtype: DType) -> Buffer:
    """Return a pointer argument: input, output or temp number `index`."""
    return Buffer(BufferArg(kind, index), dtype)


def operand_buffer(index: int, operand: Operand) -> Buffer:
    """Return the pointer argument for an input; for one that is made, to the first of its own."""
    if operand.prologue is not None:
        return buffer("made", 0, operand.prologue.operands[0].dtype)
    return buffer("input", index, operand.dtype)


def output_buffer(output: Operand, epilogue: Epilogue | None) -> Buffer:
    """Return the pointer argument for the output."""
    return buffer("output", 0, epilogue.dtype if epilogue else output.dtype)


@dataclass(frozen=True)
class Hook:
    """What a kernel calls on a block of results before it stores it, and the arguments that takes.

    Made of an `Epilogue`, alone or with work of the template's own before it.
    """

    apply: Callable[[Tile, Sequence[Tile], Tile | None, Sequence[Tile]], Tile]
    arguments: tuple[Argument, ...] = ()
    kinds: tuple[DType | Pointer, ...] = ()
    key: str = ""

    @classmethod
    def of(cls, epilogue: Epilogue | None) -> Hook:
        """Return an epilogue as a hook."""
        if epilogue is None:
            return cls(identity)
        pointers = tuple(Pointer(operand.dtype) for operand in epilogue.operands)
        kinds: tuple[DType | Pointer, ...] = pointers
        kinds += tuple(scalar.dtype for scalar in epilogue.scalars)
        return cls(epilogue.apply, epilogue.arguments, kinds, epilogue.key)


def identity(tile: Tile, index: Sequence[Tile], mask: Tile | None, extra: Sequence[Tile]) -> Tile:
    """Store results as they are: the epilogue of a request that has none."""
    return tile


@dataclass(frozen=True)
class Source:
    """How a kernel makes elements of an operand, if it does, and the arguments that takes.

    `apply(index, mask, made)` returns them; None: they lie in memory. Made of a `Prologue`.
    """

    apply: Callable[[Sequence[Tile], Tile | None, Sequence[Tile]], Tile] | None = None
    arguments: tuple[Argument, ...] = ()
    kinds: tuple[DType | Pointer, ...] = ()
    key: str = ""

    @classmethod
    def of(cls, operand: Operand) -> Source:
        """Return the source of an operand."""
        prologue = operand.prologue
        if prologue is None:
            return cls()
        kinds: tuple[DType | Pointer, ...] = tuple(Pointer(x.dtype) for x in prologue.operands)
        kinds += tuple(scalar.dtype for scalar in prologue.scalars)
        return cls(prologue.apply, prologue.arguments, kinds, prologue.key)


def launch(
    kernel: Kernel,
    grid: Sequence[Dim],
    buffers: Mapping[str, Buffer],
    *,
    sizes: Mapping[str, Dim | tuple[Dim, ...]] | None = None,
    constants: Mapping[str, Any] | None = None,
    hook: Hook | None = None,
    source: Source | None = None,
    work: Work = Work(),
) -> Launch:
    """Return a launch of `kernel`, specialised.

    Args:
        kernel: takes the buffers, the sizes and the constants by name.
        grid: one to three extents.
        buffers: pointer arguments by name.
        sizes: integers, or tuples of them, by name: constants where they are numbers, i64
            parameters where not.
        constants: Python values by name; their `repr` tells them apart.
        hook: for a kernel that has one; it takes a last parameter `extra`, a tuple, and a constant
            `EPILOGUE`.
        source: for a kernel that can make an operand; it takes a parameter `made`, a tuple, and a
            constant `PROLOGUE`.
        work: the cost of the whole launch.
    """
    arguments: dict[str, tuple[Argument, ...]] = {n: (b.argument,) for n, b in buffers.items()}
    signature: dict[str, Any] = {name: Pointer(b.dtype) for name, b in buffers.items()}
    known: dict[str, Any] = dict(constants or {})
    for name, size in (sizes or {}).items():
        several = size if isinstance(size, tuple) else (size,)
        if all(isinstance(number, int) for number in several):
            known[name] = size
        else:
            signature[name] = (i64,) * len(several) if isinstance(size, tuple) else i64
            arguments[name] = tuple(ScalarArg(number, i64) for number in several)
    if hook is not None:
        signature["extra"], known["EPILOGUE"] = hook.kinds, hook.apply
    if source is not None:
        signature["made"], known["PROLOGUE"] = source.kinds, source.apply
        arguments["made"] = source.arguments
    outputs = [name for name, b in buffers.items() if b.argument.kind == "output"]
    keys = (hook.key if hook else "", source.key if source else "")
    function = _specialised(kernel, signature, known, keys, outputs)
    names = [name for name in kernel.signature.parameters if name in arguments]
    ordered = tuple(argument for name in names for argument in arguments[name])
    ordered += hook.arguments if hook else ()
    return Launch(function, tuple(grid), ordered, work.flops, work.bytes)


_functions: OrderedDict[str, Function] = OrderedDict()
_MOST_FUNCTIONS = 1024
FUNCTIONS = ("EPILOGUE", "PROLOGUE")
"""Constants that their keys tell apart."""


def _specialised(
    kernel: Kernel,
    signature: Mapping[str, Any],
    known: Mapping[str, Any],
    keys: tuple[str, str],
    outputs: Sequence[str],
) -> Function:
    plain = {name: value for name, value in known.items() if name not in FUNCTIONS}
    types = {name: str(kind) for name, kind in signature.items()}
    names = (kernel.__module__, kernel.__qualname__)
    use = repr((names, sorted(types.items()), sorted(plain.items()), keys, outputs))
    if use not in _functions:
        facts = _facts(signature, outputs)
        _functions[use] = specialise(kernel, signature, known, facts)
        while len(_functions) > _MOST_FUNCTIONS:
            _functions.popitem(last=False)
    _functions.move_to_end(use)
    return _functions[use]


def _facts(signature: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Facts]:
    """Say that outputs may lie where an operand of the epilogue does, which is then overwritten."""
    extra = signature.get("extra", ())
    names = [f"extra_{i}" for i, kind in enumerate(extra) if isinstance(kind, Pointer)]
    return dict.fromkeys((*names, *outputs), Facts(noalias=False)) if names else {}
