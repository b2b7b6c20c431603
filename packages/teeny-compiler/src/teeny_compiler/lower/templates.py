"""Template ops: which kernel computes them, and how it is asked.

A library's template is asked first, with the epilogue; when it does not take that, without, and
the epilogue becomes a kernel of its own. What no library serves is computed by a plain loop nest
(`bodies`), which takes any epilogue, or by a serial kernel (`serial`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points

from teeny_core import CompileError
from teeny_triton.launch import Template

GROUP = "teeny.kernels"


@cache
def installed_templates() -> tuple[Template, ...]:
    """Return the templates of all installed kernel libraries, by entry point.

    An entry point names a template or a sequence of them.

    Raises:
        CompileError: when two entry points share a name, or one cannot be loaded.
    """
    found: list[Template] = []
    names: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        other = names.setdefault(point.name, point.value)
        if other != point.value:
            raise CompileError(
                f"two packages give kernels named {point.name!r}: {other} and {point.value}",
                hint="uninstall one of them",
            )
        try:
            loaded = point.load()
        except (ImportError, AttributeError) as error:
            raise CompileError(
                f"the kernels {point.name!r} cannot be loaded: {error}",
                hint=f"reinstall the package that provides {point.value}",
            ) from error
        found += loaded if isinstance(loaded, Sequence) else [loaded]
    return tuple(found)
