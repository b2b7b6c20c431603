"""The graph and kernel compiler of teeny: e-graph optimiser, scheduler and LLVM back end.

The names below are loaded when they are first used: a program found in the cache needs none.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teeny_compiler.fxgraph import FXGraph as FXGraph
    from teeny_compiler.ndarray import NdarrayDevice as NdarrayDevice
    from teeny_compiler.optimise import Policy as Policy
    from teeny_compiler.optimise import Report as Report
    from teeny_compiler.optimise import explain as explain
    from teeny_compiler.schedule import Schedule as Schedule
    from teeny_compiler.schedule import make_schedule as make_schedule
    from teeny_compiler.schedule.run import run_schedule as run_schedule

_PLACES = {
    "FXGraph": "fxgraph",
    "NdarrayDevice": "ndarray",
    "Policy": "optimise",
    "Report": "optimise",
    "Schedule": "schedule",
    "explain": "optimise",
    "make_schedule": "schedule",
    "run_schedule": "schedule.run",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
