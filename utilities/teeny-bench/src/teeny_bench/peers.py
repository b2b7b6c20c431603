"""The peers: PyTorch eager and PyTorch's Inductor, with the same number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from teeny_core import TeenyError

PEERS = ("torch", "inductor")


class PeerError(TeenyError):
    """A peer is not installed or not known."""


def torch_module() -> Any:
    """Import torch, or say how to get it."""
    try:
        import torch
    except ImportError:
        raise PeerError(
            "the peer 'torch' is not installed",
            hint="scripts/install-torch puts the CPU build into this environment",
        ) from None
    return torch


def prepare(peer: str, threads: int) -> None:
    """Check that `peer` is there and give it `threads` threads."""
    if peer not in PEERS:
        raise PeerError(f"unknown peer {peer!r}", hint=f"one of {', '.join(PEERS)}")
    torch_module().set_num_threads(threads)


def compiled(peer: str, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return `function` as the peer runs it best: as it is, or through Inductor."""
    if peer == "torch":
        return function
    compiled_function: Callable[..., Any] = torch_module().compile(function, **options)
    return compiled_function
