"""Models of images."""

from __future__ import annotations

from teeny_core import AnyTensor, nn

from teeny_vision.mobilenet import MobileNetV2 as MobileNetV2
from teeny_vision.resnet import ResNet18 as ResNet18
from teeny_vision.unet import UNet as UNet
from teeny_vision.vit import VisionTransformer as VisionTransformer


class LeNet5(nn.Layer[[AnyTensor], AnyTensor]):
    """LeNet-5 with ReLU and max pooling: images (N, 1, 28, 28) → logits (N, classes).

    Source: LeCun, Bottou, Bengio and Haffner, *Gradient-based learning applied to document
    recognition* (1998), with today's activations and pooling; 61,706 parameters for ten classes.
    """

    def __init__(self, classes: int = 10) -> None:
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, classes),
        )

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the logits of a batch of images."""
        x = self.conv1(x).relu().max_pool2d(2)
        x = self.conv2(x).relu().max_pool2d(2)
        return self.head(x)


class Mlp(nn.Sequential):
    """A perceptron with hidden layers of ReLU: inputs (N, ...) → logits (N, classes)."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], classes: int = 10) -> None:
        widths = (inputs, *hidden)
        layers = [
            layer
            for width, following in zip(widths, hidden, strict=False)
            for layer in (nn.Linear(width, following), nn.ReLU())
        ]
        super().__init__(nn.Flatten(), *layers, nn.Linear(widths[-1], classes))
