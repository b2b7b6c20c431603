"""LeNet-5 on MNIST: training steps at batch 64 and inference at batch 1 and 256."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import teeny_core as tn
from teeny_core import nn, optim
from teeny_vision import mnist as data

from teeny_bench.case import Case
from teeny_bench.peers import compiled, torch_module
from teeny_bench.programs import outputs

BATCH = 64
STEPS = 94  # a tenth of an epoch: 60,000 images make 938 batches
CHECKED_STEPS = 4
LEARNING_RATE = 2e-3
INFERENCE_BATCHES = (1, 256)


def peer_lenet() -> Any:
    """Build the same model in torch, with the same parameter names."""
    torch = torch_module()

    class LeNet5(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            layers = torch.nn
            self.conv1 = layers.Conv2d(1, 6, 5, padding=2)
            self.conv2 = layers.Conv2d(6, 16, 5)
            self.head = layers.Sequential(
                layers.Flatten(),
                layers.Linear(400, 120),
                layers.ReLU(),
                layers.Linear(120, 84),
                layers.ReLU(),
                layers.Linear(84, 10),
            )

        def forward(self, x: Any) -> Any:
            pool = torch.nn.functional.max_pool2d
            x = pool(self.conv1(x).relu(), 2)
            x = pool(self.conv2(x).relu(), 2)
            return self.head(x)

    return LeNet5()


def models() -> tuple[nn.Layer[Any, Any], Any]:
    """Return our model and the peer's with equal weights."""
    torch_module().manual_seed(0)
    theirs = peer_lenet()
    ours = data.mnist_lenet5()
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    return ours, theirs


def mnist(peer: str, threads: int) -> Iterator[Case]:
    """Yield training and inference."""
    images, labels = data.load().normalised_train()
    yield training(peer, images, labels)
    for batch in INFERENCE_BATCHES:
        yield inference(peer, images[:batch])


def training(peer: str, images: np.ndarray, labels: np.ndarray) -> Case:
    """Build the case of `STEPS` training steps: forward, backward and AdamW."""
    torch = torch_module()

    def our_step() -> Any:
        model, _ = models()
        return tn.train_step(model, nn.CrossEntropyLoss(), optim.AdamW(lr=LEARNING_RATE))

    def their_step() -> Any:
        _, model = models()
        optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
        forward = compiled(peer, model)
        loss_function = torch.nn.CrossEntropyLoss()

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad(set_to_none=True)
            loss = loss_function(forward(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    def run(step: Any, x: Any, y: Any, steps: int) -> list[Any]:
        batches = [slice(k * BATCH, (k + 1) * BATCH) for k in range(steps)]
        return [step(x[rows], y[rows]) for rows in batches]

    tensors = torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64))

    def values() -> tuple[list[np.ndarray], list[np.ndarray]]:
        ours = run(our_step(), images, labels, CHECKED_STEPS)
        theirs = run(their_step(), *tensors, CHECKED_STEPS)
        return [np.array(list(map(float, ours)))], [np.array(list(map(float, theirs)))]

    step, peer_step = our_step(), their_step()
    return Case(
        f"train {STEPS} steps of {BATCH}",
        lambda: run(step, images, labels, STEPS),
        lambda: run(peer_step, *tensors, STEPS),
        values,
        tolerance=1e-3,
    )


def inference(peer: str, images: np.ndarray) -> Case:
    """Build the case of one forward pass."""
    torch = torch_module()
    model, peer_model = models()
    handle = tn.SymTensor.input(tn.f32, (None, *images.shape[1:]))
    program = tn.compile(tn.trace(model, handle), device="cpu")
    forward = compiled(peer, peer_model.eval())
    tensor = torch.from_numpy(images)

    def theirs() -> Any:
        with torch.inference_mode():
            return forward(tensor)

    return Case(
        f"infer batch {len(images)}",
        lambda: program(images),
        theirs,
        lambda: (outputs(program(images)), outputs(theirs())),
        tolerance=1e-4,
    )
