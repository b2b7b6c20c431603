"""The CPU driver of teeny: native programs, a thread pool and asynchronous runs.

What measures the machine is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from teeny_cpu.device import CpuDevice as CpuDevice
from teeny_cpu.runtime import num_threads as num_threads
from teeny_cpu.runtime import set_num_threads as set_num_threads

if TYPE_CHECKING:
    from teeny_cpu.peaks import copy_bandwidth as copy_bandwidth
    from teeny_cpu.peaks import fma_peak as fma_peak

_MEASURED = ("copy_bandwidth", "fma_peak")


def __getattr__(name: str) -> Any:
    if name not in _MEASURED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.peaks"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MEASURED})
