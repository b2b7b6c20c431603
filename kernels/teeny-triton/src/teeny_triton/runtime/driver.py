"""What there is to run on, asked as kernels for GPUs ask: `driver.active`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from teeny_core import device as get_device

L2_BYTES = 1 << 20
REGISTERS = 1 << 16
"""Registers do not limit how many programs wait for a thread, so there seem to be many."""


@dataclass(frozen=True)
class GPUTarget:
    """What code is generated for."""

    backend: str
    arch: str
    warp_size: int = 1


class Utils:
    """Questions about a device."""

    def get_device_properties(self, device: int = 0) -> Mapping[str, int]:
        """Return what kernels for GPUs divide their work by.

        `multiprocessor_count` is the number of threads, `max_shared_mem` the bytes of a core's
        own cache, a warp one program.
        """
        target = getattr(get_device(), "target", None)
        return {
            "multiprocessor_count": int(get_device().properties().get("threads", 1)),
            "max_shared_mem": getattr(target, "l2_bytes", 0) or L2_BYTES,
            "max_num_regs": REGISTERS,
            "warpSize": 1,
        }


class Driver:
    """The default device of teeny, always device 0 with one stream."""

    utils = Utils()

    def get_current_device(self) -> int:
        """Return the number of the device."""
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        """Return the number of the stream: launches run in order, and are done on return."""
        return 0

    def get_current_target(self) -> GPUTarget:
        """Return what code is generated for."""
        device = get_device()
        return GPUTarget(device.name, str(getattr(getattr(device, "target", None), "cpu", "")))

    def get_active_torch_device(self) -> Any:
        """Return PyTorch's device for tensors that kernels take; whoever asks has PyTorch."""
        return import_module("torch").device("cpu")

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return what measures functions."""
        from teeny_triton.testing import do_bench

        return do_bench


active = Driver()
