"""Type rules: for each opcode, the result types that follow from its operands and attributes.

The builder asks for the result types of an op that it makes, the verifier for those of an op that
it meets: one table serves both. A result that the operands do not determine (`const`, `splat`,
`reshape`, `cast`…) is given as `wanted`, and the rule says whether it is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping

from teeny_triton.errors import KernelError
from teeny_triton.ir import BINARY, COMPARISONS, UNARY, Type
from teeny_triton.rules import axes, control, elements, memory, products, shapes
from teeny_triton.rules.products import accumulator as accumulator
from teeny_triton.rules.signature import NARROW_FLOATS as NARROW_FLOATS
from teeny_triton.rules.signature import Rule
from teeny_triton.rules.signature import Signature as Signature

RULES: Mapping[str, Rule] = {
    **elements.RULES,
    **shapes.RULES,
    **memory.RULES,
    **axes.RULES,
    **products.RULES,
    **control.RULES,
}


def result_types(signature: Signature) -> tuple[Type, ...]:
    """Return the result types of an op.

    Raises:
        KernelError: the opcode is unknown, or an operand, attribute or wanted type is not allowed.
    """
    rule = RULES.get(signature.opcode)
    if rule is None:
        raise KernelError(f"unknown opcode {signature.opcode!r}")
    types = rule(signature)
    if signature.wanted and types != signature.wanted:
        found = ", ".join(map(str, signature.wanted))
        signature.require(False, f"gives {', '.join(map(str, types)) or 'nothing'}, not {found}")
    return types


_HINTS = frozenset({"cache", "eviction", "volatile"})

ATTRIBUTES: Mapping[str, frozenset[str]] = {
    "const": frozenset({"value"}),
    "program_id": frozenset({"axis"}),
    "num_programs": frozenset({"axis"}),
    "arange": frozenset({"start", "end"}),
    "expand_dims": frozenset({"axis"}),
    "trans": frozenset({"order"}),
    "cat": frozenset({"axis"}),
    "load": _HINTS,
    "store": _HINTS,
    "atomic_rmw": frozenset({"kind", "sem"}),
    "atomic_cas": frozenset({"sem"}),
    "prefetch": frozenset({"level", "write"}),
    "scratch": frozenset({"size"}),
    "reduce": frozenset({"kind", "axis"}),
    "reduce_by": frozenset({"axis"}),
    "scan": frozenset({"axis", "reverse"}),
    "sort": frozenset({"axis", "descending", "keep"}),
    "gather": frozenset({"axis"}),
    "flip": frozenset({"axis"}),
    "dot_words": frozenset({"left", "right"}),
    "device_assert": frozenset({"message", "place"}),
    "device_print": frozenset({"prefix", "hex"}),
    "breakpoint": frozenset({"names", "function"}),
}
"""The attributes that each opcode may have; those not listed have none."""

COMBINING = frozenset(
    {*UNARY, *BINARY, *COMPARISONS, "fma", "where", "cast", "bitcast", "const", "yield"}
)
"""The opcodes that may stand in the region of `reduce_by` and `scan`."""
