"""U-Net, for a class for each pixel."""

from __future__ import annotations

from teeny_core import AnyTensor, concat, nn


class UNet(nn.Layer[[AnyTensor], AnyTensor]):
    """Encoder, decoder, and what the first saw at each size: (N, 3, H, W) → (N, classes, H, W).

    Each of `depth` levels halves the image and doubles the channels, of which the first has
    `width`. H and W are multiples of 2^depth.

    Source: Ronneberger, Fischer and Brox, *U-Net: Convolutional networks for biomedical image
    segmentation* (2015), with batch normalisation and images that keep their size.
    """

    def __init__(self, classes: int = 2, width: int = 32, depth: int = 3) -> None:
        widths = [width << level for level in range(depth + 1)]
        inputs = [3, *widths[:-1]]
        self.down = nn.LayerList(_twice(a, b) for a, b in zip(inputs, widths, strict=True))
        pairs = [(widths[level + 1], widths[level]) for level in reversed(range(depth))]
        self.grow = nn.LayerList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairs)
        self.up = nn.LayerList(_twice(2 * b, b) for _, b in pairs)
        self.head = nn.Conv2d(width, classes, 1)

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the logits of each pixel."""
        seen = []
        for layer in self.down[:-1]:
            x = layer(x)
            seen.append(x)
            x = x.max_pool2d(2)
        x = self.down[-1](x)
        for grow, layer, before in zip(self.grow, self.up, reversed(seen), strict=True):
            x = layer(concat([before, grow(x)], 1))
        return self.head(x)


def _twice(channels: int, outputs: int) -> nn.Sequential:
    """Convolve, normalise and cut at zero, two times."""
    return nn.Sequential(
        nn.Conv2d(channels, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )
