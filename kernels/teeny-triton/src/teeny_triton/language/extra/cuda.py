"""libdevice where kernels for NVIDIA GPUs import it from."""

from teeny_triton.language.extra import libdevice as libdevice
