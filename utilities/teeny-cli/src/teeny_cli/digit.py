"""Grey images in a terminal: two pixels a character cell, by half blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

HALVES = " ▄▀█"  # nothing, lower half, upper half, both
INK = 96  # level from which a pixel counts as set where there are no colours


def render(image: Any, colours: bool) -> Text:
    """Draw `image`, an array (H, W) of 0 (black) to 255 (white) with an even H."""
    from rich.text import Text

    text = Text()
    for upper, lower in zip(image[::2], image[1::2], strict=True):
        for top, bottom in zip(upper, lower, strict=True):
            if colours:
                text.append("▀", f"rgb({_grey(top)}) on rgb({_grey(bottom)})")
            else:
                text.append(HALVES[2 * (top >= INK) + (bottom >= INK)])
        text.append("\n")
    return text


def _grey(level: float) -> str:
    return ",".join([str(int(level))] * 3)
