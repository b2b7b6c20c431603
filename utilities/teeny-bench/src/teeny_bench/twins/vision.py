"""Convolutional networks and the perceptron, in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Mlp(nn.Sequential):  # type: ignore[misc]
    """The twin of `teeny_vision.models.Mlp`."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], classes: int = 10) -> None:
        layers: list[Any] = [nn.Flatten()]
        for width in hidden:
            layers += [nn.Linear(inputs, width), nn.ReLU()]
            inputs = width
        super().__init__(*layers, nn.Linear(inputs, classes))


class LeNet5(nn.Module):  # type: ignore[misc]
    """The twin of `teeny_vision.models.LeNet5`."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
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

    def forward(self, x: Any) -> Any:
        """Return the logits."""
        x = functional.max_pool2d(self.conv1(x).relu(), 2)
        return self.head(functional.max_pool2d(self.conv2(x).relu(), 2))


class BasicBlock(nn.Module):  # type: ignore[misc]
    """The twin of `teeny_vision.resnet.BasicBlock`."""

    def __init__(self, channels: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or channels != outputs:
            shortcut = nn.Conv2d(channels, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        """Return the features."""
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):  # type: ignore[misc]
    """The twin of `teeny_vision.models.ResNet18`."""

    def __init__(self, classes: int = 1000, width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        for stage in range(4):
            outputs = width << stage
            first = BasicBlock(channels, outputs, 1 if stage == 0 else 2)
            block = nn.Sequential(first, BasicBlock(outputs, outputs, 1))
            setattr(self, f"layer{stage + 1}", block)
            channels = outputs
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Any) -> Any:
        """Return the logits."""
        x = functional.relu(self.bn1(self.conv1(x)))
        x = functional.max_pool2d(x, 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def _filtered(channels: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> Any:
    conv = nn.Conv2d(channels, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU6())


class InvertedResidual(nn.Module):  # type: ignore[misc]
    """The twin of `teeny_vision.mobilenet.InvertedResidual`."""

    def __init__(self, channels: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels * expansion
        layers = [_filtered(channels, wide, 1)] if expansion > 1 else []
        layers.append(_filtered(wide, wide, 3, stride, wide))
        layers += [nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.conv = nn.Sequential(*layers)
        self.adds = stride == 1 and channels == outputs

    def forward(self, x: Any) -> Any:
        """Return the features."""
        y = self.conv(x)
        return x + y if self.adds else y


class MobileNetV2(nn.Module):  # type: ignore[misc]
    """The twin of `teeny_vision.models.MobileNetV2`."""

    def __init__(self, classes: int, stages: Any, last: int, dropout: float) -> None:
        super().__init__()
        layers = [_filtered(3, 32, 3, 2)]
        channels = 32
        for expansion, outputs, blocks, stride in stages:
            for block in range(blocks):
                step = 1 if block else stride
                layers.append(InvertedResidual(channels, outputs, step, expansion))
                channels = outputs
        self.features = nn.Sequential(*layers, _filtered(channels, last, 1))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, classes))

    def forward(self, x: Any) -> Any:
        """Return the logits."""
        return self.classifier(self.features(x).mean((2, 3)))


class UNet(nn.Module):  # type: ignore[misc]
    """The twin of `teeny_vision.models.UNet`."""

    def __init__(self, classes: int, width: int, depth: int) -> None:
        super().__init__()
        widths = [3, *(width << level for level in range(depth + 1))]
        self.down = nn.ModuleList(
            self._twice(widths[level], widths[level + 1]) for level in range(depth + 1)
        )
        self.grow, self.up = nn.ModuleList(), nn.ModuleList()
        for level in range(depth, 0, -1):
            self.grow.append(nn.ConvTranspose2d(widths[level + 1], widths[level], 2, 2))
            self.up.append(self._twice(2 * widths[level], widths[level]))
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _twice(channels: int, outputs: int) -> Any:
        layers = []
        for inputs in (channels, outputs):
            layers.append(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False))
            layers += [nn.BatchNorm2d(outputs), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        """Return the logits of each pixel."""
        seen = []
        for level, layer in enumerate(self.down):
            x = layer(x if level == 0 else functional.max_pool2d(x, 2))
            seen.append(x)
        seen.pop()
        for grow, layer in zip(self.grow, self.up, strict=True):
            x = layer(torch.cat([seen.pop(), grow(x)], 1))
        return self.head(x)
