from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from teeny_core import DataError
from teeny_vision.mnist import load, read_digit


@pytest.fixture(scope="module")
def seven() -> np.ndarray:
    return load().x_test[0]


def saved(
    folder: Path, pixels: np.ndarray, name: str = "digit.png", mode: str | None = None
) -> Path:
    image = Image.fromarray(pixels)
    (image if mode is None else image.convert(mode)).save(folder / name)
    return folder / name


def test_an_image_of_mnist_stays_as_it_is(seven: np.ndarray, tmp_path: Path) -> None:
    found = read_digit(saved(tmp_path, seven))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, seven)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "LA"])
def test_dark_ink_on_a_light_ground_in_any_mode(
    seven: np.ndarray, tmp_path: Path, mode: str
) -> None:
    found = read_digit(saved(tmp_path, 255 - seven, mode=mode))
    np.testing.assert_allclose(found, seven, atol=1)


def test_sixteen_bits(seven: np.ndarray, tmp_path: Path) -> None:
    found = read_digit(saved(tmp_path, seven.astype(np.uint16) * 257))
    np.testing.assert_allclose(found, seven, atol=1e-3)


def test_what_is_transparent_is_paper(seven: np.ndarray, tmp_path: Path) -> None:
    pixels = np.zeros((28, 28, 4), np.uint8)
    pixels[..., 3] = seven
    np.testing.assert_allclose(read_digit(saved(tmp_path, pixels)), seven, atol=1)


@pytest.mark.parametrize(("height", "width"), [(300, 300), (100, 400), (15, 13)])
def test_a_larger_picture_is_cut_scaled_and_centred(
    tmp_path: Path, height: int, width: int
) -> None:
    pixels = np.full((height, width), 255, np.uint8)
    pixels[height // 3 : height // 3 + 10, 2:10] = 0
    found = read_digit(saved(tmp_path, pixels))
    rows, columns = np.nonzero(found > 128)
    assert rows.max() - rows.min() + 1 == 20
    assert columns.max() - columns.min() + 1 == 16
    grid = np.arange(28)
    centre = [(found.sum(axis) @ grid) / found.sum() for axis in (1, 0)]
    np.testing.assert_allclose(centre, 14, atol=0.5)  # where it lies in MNIST's own images
    assert found.max() == 255


def test_a_picture_of_mnist_made_large_comes_back_much_as_it_was(
    seven: np.ndarray, tmp_path: Path
) -> None:
    large = Image.fromarray(255 - seven).resize((280, 280), Image.Resampling.NEAREST)
    large.save(tmp_path / "large.png")
    found = read_digit(tmp_path / "large.png")
    assert np.corrcoef(found.ravel(), seven.ravel())[0, 1] > 0.95


@pytest.mark.parametrize(
    ("contents", "text"),
    [
        (b"", r"digit\.png is no image that can be read: unknown format"),
        (b"not a picture", r"digit\.png is no image that can be read: unknown format"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), r"digit\.png is no image that can be read: "),
    ],
)
def test_files_that_are_no_images(tmp_path: Path, contents: bytes, text: str) -> None:
    (tmp_path / "digit.png").write_bytes(contents)
    with pytest.raises(DataError, match=text):
        read_digit(tmp_path / "digit.png")


def test_a_truncated_image(seven: np.ndarray, tmp_path: Path) -> None:
    path = saved(tmp_path, seven)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="is no image that can be read"):
        read_digit(path)


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file\nhint: check the path"):
        read_digit(tmp_path / "none.png")
    with pytest.raises(DataError, match="is no image that can be read"):
        read_digit(tmp_path)


@pytest.mark.parametrize("side", [28, 50])
@pytest.mark.parametrize("level", [0, 100, 255])
def test_a_blank_picture(tmp_path: Path, level: int, side: int) -> None:
    with pytest.raises(DataError, match="is blank\nhint: give a picture that shows one digit"):
        read_digit(saved(tmp_path, np.full((side, side), level, np.uint8)))


def test_a_picture_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teeny_vision.mnist.image.MAX_PIXELS", 1000)
    with pytest.raises(DataError, match="has 50 x 50 pixels\nhint: scale it down first"):
        read_digit(saved(tmp_path, np.zeros((50, 50), np.uint8)))
