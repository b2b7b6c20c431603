"""The zoo: models as they are in use, with sizes, inputs, targets and losses.

Each model has a twin in PyTorch, in `teeny_bench.twins` under the same name, with the same
arguments and the same names of tensors; weights are random but fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from teeny_core import nn
from teeny_vision import models as vision
from teeny_vision.mobilenet import LAST, STAGES

from teeny_bench import models
from teeny_bench.peers import torch_module

AnyArray = NDArray[Any]
SEED = 0


@dataclass(frozen=True)
class Input:
    """Random arrays (batch, *shape): normal, whole numbers below `classes`, or shares of 1."""

    shape: tuple[int, ...] = ()
    classes: int = 0
    shares: bool = False

    def array(self, random: np.random.Generator, batch: int) -> AnyArray:
        """Draw an array."""
        shape = (batch, *self.shape)
        if self.classes:
            return random.integers(0, self.classes, shape)
        if self.shares:
            return random.random(shape, np.float32)
        return random.standard_normal(shape, np.float32)


@dataclass(frozen=True)
class Size:
    """How large a model is, what goes in, and what should come out.

    Attributes:
        arguments: of the model, and of its twin.
        inputs: what it takes.
        target: what its loss takes besides the output.
        batch: of inference.
        train_batch: of training.
    """

    arguments: Mapping[str, Any]
    inputs: tuple[Input, ...]
    target: Input
    batch: int = 1
    train_batch: int = 4

    def batch_of(self, count: int, seed: int = SEED) -> tuple[list[AnyArray], AnyArray]:
        """Draw inputs and a target for `count` samples."""
        random = np.random.default_rng(seed)
        inputs = [given.array(random, count) for given in self.inputs]
        return inputs, self.target.array(random, count)


@dataclass(frozen=True)
class Entry:
    """A model of the zoo.

    Attributes:
        name: what people call it.
        make: its class.
        loss: the name of the loss, in `teeny_core.nn` and in `torch.nn`.
        usual: the size that is measured.
        small: one for tests.
    """

    name: str
    make: Callable[..., nn.Layer[..., Any]]
    loss: str
    usual: Size
    small: Size

    def pair(self, size: Size) -> tuple[nn.Layer[..., Any], Any]:
        """Return the model and its twin, with the same fixed random weights."""
        torch = torch_module()
        from teeny_bench import twins

        torch.manual_seed(SEED)
        theirs = getattr(twins, self.make.__name__)(**size.arguments)
        with torch.no_grad():
            for name, statistic in theirs.named_buffers():
                if name.endswith("running_mean"):
                    statistic.normal_(0.0, 0.1)
                elif name.endswith("running_var"):
                    statistic.uniform_(0.5, 1.5)
        ours = self.make(**size.arguments)
        ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
        return ours, theirs


def _features(length: int, width: int, **arguments: Any) -> Size:
    """Features in, and features out of the same shape."""
    features = Input((length, width))
    return Size({"width": width, **arguments}, (features,), features, train_batch=1)


def _llama(length: int, width: int, **arguments: Any) -> Size:
    size = _features(length, width, **arguments)
    return replace(size, arguments={"length": length, **size.arguments})


def _tokens(length: int, width: int, **arguments: Any) -> Size:
    tokens = Input((length,), arguments["vocabulary"])
    return Size({"length": length, "width": width, **arguments}, (tokens,), Input((length, width)))


def _bags(batch: int, bag: int, **arguments: Any) -> Size:
    numbers = Input((arguments["dense"],))
    categories = Input((arguments["tables"], bag), arguments["rows"])
    return Size(arguments, (numbers, categories), Input((1,), shares=True), batch, batch)


def _image(side: int, classes: int, train_batch: int = 4, **arguments: Any) -> Size:
    images, labels = Input((3, side, side)), Input((), classes)
    return Size({"classes": classes, **arguments}, (images,), labels, train_batch=train_batch)


def _patches(side: int, classes: int, **arguments: Any) -> Size:
    size = _image(side, classes, **arguments)
    return replace(size, arguments={"side": side, **size.arguments})


def _digits(side: int, batch: int, train_batch: int, **arguments: Any) -> Size:
    return Size(arguments, (Input((1, side, side)),), Input((), 10), batch, train_batch)


def _segments(side: int, classes: int, **arguments: Any) -> Size:
    size = _image(side, classes, 2, **arguments)
    return replace(size, target=Input((side, side), classes))


def _steps(batch: int, length: int, **arguments: Any) -> Size:
    given, labels = Input((length, arguments["inputs"])), Input((), arguments["classes"])
    return Size(arguments, (given,), labels, batch, batch)


CROSS, SQUARES, ODDS = "CrossEntropyLoss", "MSELoss", "BCEWithLogitsLoss"

ZOO = (
    Entry(
        "MLP",
        vision.Mlp,
        CROSS,
        _digits(28, 16, 64, inputs=784, hidden=(1024, 1024)),
        _digits(8, 3, 4, inputs=64, hidden=(32, 16)),
    ),
    Entry("LeNet-5", vision.LeNet5, CROSS, _digits(28, 1, 64), _digits(28, 2, 3)),
    Entry(
        "ResNet-18",
        vision.ResNet18,
        CROSS,
        _image(224, 1000),
        _image(48, 10, width=8),
    ),
    Entry(
        "MobileNetV2",
        vision.MobileNetV2,
        CROSS,
        _image(224, 1000, stages=STAGES, last=LAST, dropout=0.0),
        _image(24, 10, stages=((1, 8, 1, 1), (3, 12, 2, 2)), last=32, dropout=0.0),
    ),
    Entry(
        "U-Net",
        vision.UNet,
        CROSS,
        _segments(128, 4, width=32, depth=3),
        _segments(16, 3, width=8, depth=2),
    ),
    Entry(
        "ViT-tiny",
        vision.VisionTransformer,
        CROSS,
        _patches(224, 1000, patch=16, width=192, depth=12, heads=3),
        _patches(16, 10, patch=4, width=24, depth=2, heads=3),
    ),
    Entry(
        "BERT-mini",
        models.BertEncoder,
        SQUARES,
        _tokens(128, 256, vocabulary=8192, depth=4, heads=4),
        _tokens(6, 16, vocabulary=50, depth=2, heads=2),
    ),
    Entry(
        "GPT-2 blocks",
        models.Gpt2Blocks,
        SQUARES,
        _features(128, 768, depth=4, heads=12),
        _features(6, 24, depth=2, heads=3),
    ),
    Entry(
        "Llama blocks",
        models.LlamaBlocks,
        SQUARES,
        _llama(128, 512, depth=4, heads=8, kv_heads=2, hidden=1408),
        _llama(6, 32, depth=2, heads=4, kv_heads=2, hidden=40),
    ),
    Entry(
        "LSTM",
        models.LstmClassifier,
        CROSS,
        _steps(16, 32, inputs=64, hidden=128, classes=10),
        _steps(2, 4, inputs=5, hidden=6, classes=4),
    ),
    Entry(
        "DLRM",
        models.Dlrm,
        ODDS,
        _bags(128, 4, dense=13, tables=8, rows=10_000, width=32, hidden=(256, 128)),
        _bags(3, 2, dense=5, tables=3, rows=20, width=4, hidden=(8, 6)),
    ),
)
