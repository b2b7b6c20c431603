"""MobileNetV2; names of tensors are torchvision's."""

from __future__ import annotations

from teeny_core import AnyTensor, nn

# expansion, channels, blocks, stride of the first: table 2 of the paper
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
FIRST, LAST = 32, 1280


class InvertedResidual(nn.Layer[[AnyTensor], AnyTensor]):
    """Widen, filter each channel apart, narrow; added to the input where the shapes agree."""

    def __init__(self, channels: int, outputs: int, stride: int, expansion: int) -> None:
        wide = channels * expansion
        widened = [_filtered(channels, wide, 1)] if expansion != 1 else []
        self.conv = nn.Sequential(
            *widened,
            _filtered(wide, wide, 3, stride, groups=wide),
            nn.Conv2d(wide, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.adds = stride == 1 and channels == outputs

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the features of the block."""
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNetV2(nn.Layer[[AnyTensor], AnyTensor]):
    """Inverted residuals with linear bottlenecks: images (N, 3, H, W) → logits (N, classes).

    `stages` are (expansion, channels, blocks, stride); `last` is the number of features.
    3,504,872 parameters for the paper's stages and 1000 classes.

    Source: Sandler et al., *MobileNetV2: Inverted residuals and linear bottlenecks* (2018).
    """

    def __init__(
        self,
        classes: int = 1000,
        stages: tuple[tuple[int, int, int, int], ...] = STAGES,
        last: int = LAST,
        dropout: float = 0.2,
    ) -> None:
        layers: list[nn.Layer[[AnyTensor], AnyTensor]] = [_filtered(3, FIRST, 3, 2)]
        channels = FIRST
        for expansion, outputs, blocks, stride in stages:
            for block in range(blocks):
                step = stride if block == 0 else 1
                layers.append(InvertedResidual(channels, outputs, step, expansion))
                channels = outputs
        self.features = nn.Sequential(*layers, _filtered(channels, last, 1))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, classes))

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the logits of a batch of images."""
        return self.classifier(self.features(x).mean((2, 3)))


def _filtered(
    channels: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Convolve, normalise and limit to [0, 6]."""
    return nn.Sequential(
        nn.Conv2d(channels, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )
