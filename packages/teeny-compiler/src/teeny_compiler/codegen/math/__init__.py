"""Elementary functions as LLVM IR: polynomials that run on any target and any vector width.

No function of a C library is called. Infinities, NaN, signed zeros and subnormal numbers give what
IEEE 754 and C99 say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from teeny_triton import Target

from teeny_compiler.codegen.builder import Builder, Operand
from teeny_compiler.codegen.math.error_function import erf
from teeny_compiler.codegen.math.exponential import exp, exp2, expm1, sigmoid, tanh
from teeny_compiler.codegen.math.logarithm import log, log1p, log2
from teeny_compiler.codegen.math.power import power as _power
from teeny_compiler.codegen.math.real import Real
from teeny_compiler.codegen.math.trigonometric import cos, sin, tan

_UNARY: Mapping[str, Callable[[Real], Real]] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log2": log2,
    "log1p": log1p,
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "erf": erf,
}


def unary(name: str, b: Builder, target: Target, x: Operand) -> Operand:
    """Return an elementary function of an operand of float or double."""
    return _UNARY[name](Real(b, target, x)).operand


def power(b: Builder, target: Target, x: Operand, y: Operand) -> Operand:
    """Return x to the power y."""
    return _power(Real(b, target, x), Real(b, target, y)).operand
