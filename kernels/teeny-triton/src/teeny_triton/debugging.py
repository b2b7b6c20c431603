"""What a person sees of a running kernel: printed elements, and stops in a Python debugger.

A stop happens in a frame that bears the kernel's file, line and name, and whose variables are the
kernel's: tiles as NumPy arrays. So `breakpoint()` in a kernel, and breakpoints that are set on its
lines in a debugger, show the source and the values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from teeny_triton.ir import Location
from teeny_triton.memory import Array


def printed(x: Array, hexadecimal: bool = False) -> list[str]:
    """Return each element as C's printf writes it: by %g, %lld, or as its bits in hexadecimal."""
    if hexadecimal:
        digits = 2 * x.itemsize
        return [f"0x{bits:0{digits}x}" for bits in x.ravel().view(f"u{x.itemsize}").tolist()]
    if x.dtype.kind in "biu":
        return [str(int(element)) for element in x.ravel()]
    wide = x.ravel().astype(np.float64)
    return ["-" * (math.isnan(e) and math.copysign(1, e) < 0) + f"{e:g}" for e in wide.tolist()]


def visit(place: Location, kernel: str, variables: Mapping[str, Any], statement: str) -> None:
    """Run a Python statement as if it stood at a place of a kernel, with its variables."""
    code = compile("\n" * (place.line - 1) + statement, place.file, "exec")
    exec(code.replace(co_name=kernel, co_qualname=kernel), {"__name__": kernel, **variables})
