"""LeNet-5 on MNIST: an epoch of training at batch 64, and inference at batch 1 and 256."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import teeny_core as tn
from numpy.typing import NDArray
from teeny_core import nn
from teeny_vision import mnist as data

from teeny_bench.case import Case, Sides
from teeny_bench.peers import compiled, torch_module
from teeny_bench.programs import CONSTANT, DEVICE, peer_call, sides
from teeny_bench.training import Step, our_step, peer_step

BATCH = 64
EPOCH_STEPS = 937  # whole batches of the 60,000 training images
CHECKED_STEPS = 4
LOSS = "CrossEntropyLoss"
INFERENCE_BATCHES = (1, 256)


def cases(peer: str) -> Iterator[Case]:
    """Yield training and inference."""
    training = partial(_training, peer)
    yield Case(f"train epoch, batch {BATCH}", training, tolerance=1e-3)
    for batch in INFERENCE_BATCHES:
        yield Case(f"infer batch {batch}", partial(_inference, peer, batch))


def _training(peer: str) -> Sides:
    """Train through the epoch in file order: forward, backward and AdamW, each step in full."""
    images, labels = _images(EPOCH_STEPS * BATCH)
    torch = torch_module()
    tensors = torch.from_numpy(images), torch.from_numpy(labels)
    ours, theirs = _our_step(), _peer_step(peer)
    return Sides(
        lambda: _losses(ours, images, labels, EPOCH_STEPS),
        lambda: _losses(theirs, *tensors, EPOCH_STEPS),
        lambda: (
            [_losses(_our_step(), images, labels, CHECKED_STEPS)],
            [_losses(_peer_step(peer), *tensors, CHECKED_STEPS)],
        ),
    )


def _losses(step: Step, images: Any, labels: Any, count: int) -> NDArray[np.float64]:
    """Take `count` steps over consecutive batches and return their losses."""
    batches = [slice(index * BATCH, (index + 1) * BATCH) for index in range(count)]
    return np.array([float(step(images[rows], labels[rows])) for rows in batches])


def _our_step() -> Step:
    return our_step(_models()[0], LOSS)


def _peer_step(peer: str) -> Step:
    return peer_step(peer, _models()[1], LOSS)


def _inference(peer: str, batch: int) -> Sides:
    """Run one forward pass; ours is one program for any batch size."""
    images, _ = _images(batch)
    model, peer_model = _models()
    handle = tn.SymTensor.input(tn.f32, (None, *images.shape[1:]))
    program = tn.compile(tn.trace(model, handle), device=DEVICE, options=CONSTANT)
    frozen = compiled(peer, peer_model.eval(), constant=True)
    return sides(lambda: program(images), peer_call(frozen, [images]))


def _images(count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    digits = data.load(verify=False)
    return data.normalise(digits.x_train[:count]), digits.y_train[:count].astype(np.int64)


def _models() -> tuple[nn.Layer[Any, Any], Any]:
    """Return our model and the peer's with equal weights."""
    torch_module().manual_seed(0)
    from teeny_bench.twins import LeNet5

    theirs = LeNet5()
    ours = data.mnist_lenet5()
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    return ours, theirs
