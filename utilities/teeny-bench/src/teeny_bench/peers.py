"""The peers: PyTorch eager and PyTorch's Inductor, with the same number of threads as teeny.

And teeny itself on one thread, which shows what further threads bring.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from teeny_core import TeenyError

Function: TypeAlias = Callable[..., Any]


class PeerError(TeenyError):
    """A peer that is unknown, not installed, or does not work here."""


def torch_module() -> Any:
    """Import torch.

    Raises:
        PeerError: it is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise PeerError(
            "the peer needs torch, which is not installed",
            hint="scripts/install-torch, or: pip install torch "
            "--index-url https://download.pytorch.org/whl/cpu",
        ) from error
    return torch


def _eager(function: Function, constant: bool, whole: bool) -> Function:
    return function


def _inductor(function: Function, constant: bool, whole: bool) -> Function:
    """Compile for exactly the shapes of the first call."""
    torch = torch_module()
    torch._dynamo.config.allow_rnn = constant
    options = {"options": {"freezing": True}} if constant else {}
    compiled_function: Function = torch.compile(function, fullgraph=whole, dynamic=False, **options)
    return compiled_function


PEERS: Mapping[str, Callable[[Function, bool, bool], Function]] = {
    "torch": _eager,
    "inductor": _inductor,
}


SERIAL = "serial"
"""The peer that is teeny on one thread."""


def compiled(
    peer: str, function: Function, *, constant: bool = False, whole: bool = True
) -> Function:
    """Return `function`, over torch tensors, as the peer runs it: as it is, or through Inductor.

    Args:
        peer: which one.
        function: what to run.
        constant: whether its weights never change, which lets Inductor prepare them ("freezing").
        whole: whether a break in Inductor's graph is an error. Recurrent modules of PyTorch break
            it in training, and run as they are.

    Raises:
        PeerError: the peer runs no functions of torch.
    """
    if peer not in PEERS:
        raise PeerError(
            f"this row has no peer {peer!r}",
            hint=f"one of {', '.join(PEERS)}; {SERIAL} is a peer of gemm, pointwise, softmax, "
            "layernorm, attention",
        )
    return PEERS[peer](function, constant, whole)


def prepare(peer: str, threads: int) -> None:
    """Give `peer` so many threads, and see that it works.

    Raises:
        PeerError: it is unknown, not installed, or cannot compile.
    """
    if peer == SERIAL:
        return
    if peer not in PEERS:
        raise PeerError(f"no peer is called {peer!r}", hint=f"one of {', '.join((*PEERS, SERIAL))}")
    torch = torch_module()
    torch.set_num_threads(threads)
    probe = compiled(peer, lambda x: x.sin() + 1)
    try:
        probe(torch.zeros(64))
    except Exception as error:  # Inductor's many types: of the compiler, the linker, the loader
        reason = str(error).strip().partition("\n")[0]
        raise PeerError(
            f"the peer {peer!r} does not work here: {reason}",
            hint="Inductor needs a C++ compiler: install g++ or clang++, "
            "or name one in the environment variable CXX",
        ) from error


def forget() -> None:
    """Drop what the peer compiled.

    Functions that share their source, as those of one suite do, would otherwise count as
    recompilations of one another, and beyond a small number of them run uncompiled.
    """
    torch_module().compiler.reset()
