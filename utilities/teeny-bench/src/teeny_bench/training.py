"""A step of training in teeny and in the peer: forward, backward and AdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import teeny_core as tn
from teeny_core import nn, optim

from teeny_bench.peers import compiled, torch_module
from teeny_bench.programs import DEVICE

LEARNING_RATE = 2e-3

Step = Callable[..., Any]
"""`step(*inputs, target)` returns the loss before the update."""


def our_step(model: nn.Layer[..., Any], loss: str) -> tn.TrainStep:
    """Return the step of a model and a loss of `teeny_core.nn`."""
    optimizer = optim.AdamW(lr=LEARNING_RATE)
    return tn.train_step(model, getattr(nn, loss)(), optimizer, device=DEVICE)


def peer_step(peer: str, model: Any, loss: str) -> Step:
    """Return the step of a torch module and a loss of `torch.nn`.

    The peer compiles the model and the loss; the optimiser is the fused AdamW.
    """
    torch = torch_module()
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=LEARNING_RATE, fused=True)
    criterion = getattr(torch.nn, loss)()
    whole = not any(isinstance(module, torch.nn.RNNBase) for module in model.modules())
    loss_of = compiled(peer, lambda *batch: criterion(model(*batch[:-1]), batch[-1]), whole=whole)

    def step(*batch: Any) -> Any:
        optimizer.zero_grad(set_to_none=True)
        value = loss_of(*batch)
        value.backward()
        optimizer.step()
        return value.detach()

    return step
