import io

import numpy as np
from rich.console import Console
from teeny_cli.digit import render

IMAGE = np.array([[0, 0, 255, 255], [0, 255, 0, 255]], np.float32)


def printed(image: np.ndarray, colours: bool) -> str:
    console = Console(file=io.StringIO(), color_system="truecolor" if colours else None)
    console.print(render(image, colours), end="")
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_two_pixels_a_cell_without_colours() -> None:
    assert printed(IMAGE, colours=False) == " ▄▀█\n"


def test_grey_levels_with_colours() -> None:
    console = Console(file=io.StringIO(), color_system="truecolor", force_terminal=True)
    console.print(render(np.array([[0.0], [128.4]], np.float32), True), end="")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text == "\x1b[38;2;0;0;0;48;2;128;128;128m▀\x1b[0m\n"


def test_a_whole_digit_takes_half_its_height() -> None:
    lines = printed(np.zeros((28, 28), np.float32), colours=False).splitlines()
    assert [len(line) for line in lines] == [28] * 14
