"""ResNet-18; names of tensors are torchvision's."""

from __future__ import annotations

from teeny_core import AnyTensor, nn


class BasicBlock(nn.Layer[[AnyTensor], AnyTensor]):
    """Two 3 x 3 convolutions, added to the input: (N, C, H, W) → (N, O, H/stride, W/stride)."""

    def __init__(self, channels: int, outputs: int, stride: int = 1) -> None:
        self.conv1 = nn.Conv2d(channels, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = (
            None
            if stride == 1 and channels == outputs
            else nn.Sequential(
                nn.Conv2d(channels, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
        )

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the features of the block."""
        near = x if self.downsample is None else self.downsample(x)
        x = self.bn1(self.conv1(x)).relu()
        return (self.bn2(self.conv2(x)) + near).relu()


class ResNet18(nn.Layer[[AnyTensor], AnyTensor]):
    """Residual network of 18 layers: images (N, 3, H, W) → logits (N, classes).

    `width` is the number of channels of the first of four stages, each twice as wide as the one
    before. 11,689,512 parameters for 64 and 1000 classes.

    Source: He, Zhang, Ren and Sun, *Deep residual learning for image recognition* (2016).
    """

    def __init__(self, classes: int = 1000, width: int = 64) -> None:
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = _stage(width, width, 1)
        self.layer2 = _stage(width, 2 * width, 2)
        self.layer3 = _stage(2 * width, 4 * width, 2)
        self.layer4 = _stage(4 * width, 8 * width, 2)
        self.fc = nn.Linear(8 * width, classes)

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the logits of a batch of images."""
        x = self.bn1(self.conv1(x)).relu().max_pool2d(3, 2, 1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(x.mean((2, 3)))


def _stage(channels: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(BasicBlock(channels, outputs, stride), BasicBlock(outputs, outputs))
