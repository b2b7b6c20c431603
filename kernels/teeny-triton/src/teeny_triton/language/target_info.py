"""What kernels for GPUs ask of the machine that they are compiled for: it is none of theirs."""

from __future__ import annotations


def is_cuda() -> bool:
    """Whether this is a GPU of NVIDIA."""
    return False


def is_hip() -> bool:
    """Whether this is a GPU of AMD."""
    return False


def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Whether this is a GPU of NVIDIA of a compute capability or a later one."""
    return False
