"""The native module of egglog, without the Python package around it.

The package imports what it needs to show e-graphs, such as a formatter and a tracer: half a second,
and nothing of it is used here.
"""

from __future__ import annotations

import sys
import threading
from importlib import util
from importlib.machinery import PathFinder
from types import ModuleType

NAME = "egglog.bindings"

_lock = threading.Lock()


def bindings() -> ModuleType:
    """Return `egglog.bindings`.

    Raises:
        ImportError: egglog is not installed.
    """
    with _lock:
        return sys.modules.get(NAME) or _load()


def _load() -> ModuleType:
    package = util.find_spec("egglog")  # finds it, but does not run it
    folders = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec(NAME, folders)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"no module named {NAME!r}", name=NAME)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[NAME] = module  # for those who import the package, too
    return module
