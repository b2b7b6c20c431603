"""Running code that says `import triton`."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from types import ModuleType

ALIAS = "triton"
_ROOT = __name__.partition(".")[0]


class compatible:  # noqa: N801 - called like a function, and a context
    """Let `import triton` give teeny_triton, and `import triton.language` its `language`.

    From the call on, or in a `with` block, after which everything is as before:

        with teeny_triton.compatible():
            import kernels_written_for_triton
    """

    def __init__(self) -> None:
        self._before = {name: sys.modules.pop(name) for name in _aliases()}
        for name, module in _modules().items():
            sys.modules[ALIAS + name.removeprefix(_ROOT)] = module

    def __enter__(self) -> compatible:
        return self

    def __exit__(self, *exception: object) -> None:
        for name in _aliases():
            del sys.modules[name]
        sys.modules.update(self._before)


def _aliases() -> list[str]:
    return [name for name in sys.modules if name == ALIAS or name.startswith(ALIAS + ".")]


def _modules() -> dict[str, ModuleType]:
    """Import this package with all in it, and return the modules by name."""
    root = sys.modules[_ROOT]
    names = (found.name for found in pkgutil.walk_packages(root.__path__, _ROOT + "."))
    wanted = [name for name in names if not name.endswith(".__main__")]
    return {_ROOT: root, **{name: importlib.import_module(name) for name in wanted}}
