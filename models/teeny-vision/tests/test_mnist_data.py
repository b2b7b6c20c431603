import gzip
from pathlib import Path

import numpy as np
import pytest
import teeny_mnist
from teeny_core import DataError
from teeny_vision.mnist import Mnist, idx, load, normalise

FILES = teeny_mnist.FILES


@pytest.fixture(scope="module")
def mnist() -> Mnist:
    return load()


def own_data() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        name: random.integers(0, 10, (5, *file.shape[1:]), np.uint8) for name, file in FILES.items()
    }


def write(folder: Path, arrays: dict[str, np.ndarray], *, dotted: bool, compress: bool) -> None:
    for name, array in arrays.items():
        stem = FILES[name].name.replace("-idx", ".idx") if dotted else FILES[name].name
        data = idx.encode(array)
        path = folder / (f"{stem}.gz" if compress else stem)
        path.write_bytes(gzip.compress(data, 1) if compress else data)


def test_the_shipped_data_is_mnist(mnist: Mnist) -> None:
    for name, file in FILES.items():
        array = getattr(mnist, name)
        assert (array.shape, array.dtype) == (file.shape, np.uint8)
    assert mnist.y_train[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]


@pytest.mark.parametrize("dotted", [False, True])
@pytest.mark.parametrize("compress", [False, True])
def test_load_reads_a_folder(tmp_path: Path, mnist: Mnist, dotted: bool, compress: bool) -> None:
    write(tmp_path, vars(mnist), dotted=dotted, compress=compress)
    loaded = load(str(tmp_path))
    for name, array in vars(mnist).items():
        np.testing.assert_array_equal(getattr(loaded, name), array)


def test_another_checksum_is_refused_unless_told(tmp_path: Path) -> None:
    arrays = own_data()
    write(tmp_path, arrays, dotted=False, compress=True)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz is not the published"):
        load(tmp_path)
    loaded = load(tmp_path, verify=False)
    for name, array in arrays.items():
        np.testing.assert_array_equal(getattr(loaded, name), array)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    arrays = own_data()
    del arrays[name]
    write(tmp_path, arrays, dotted=False, compress=False)
    with pytest.raises(DataError, match=f"holds none of {FILES[name].name}, .*\nhint: "):
        load(tmp_path, verify=False)


def test_swapped_files_are_refused(tmp_path: Path) -> None:
    arrays = own_data()
    arrays["x_train"], arrays["y_train"] = arrays["y_train"], arrays["x_train"]
    write(tmp_path, arrays, dotted=False, compress=False)
    with pytest.raises(DataError, match="magic number 00000801"):
        load(tmp_path, verify=False)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("x_test", (5, 32, 32), r"test images have the shape \(5, 32, 32\)"),
        ("y_train", (4,), r"5 train images come with labels of shape \(4,\)"),
    ],
)
def test_other_shapes_are_refused(
    tmp_path: Path, name: str, shape: tuple[int, ...], message: str
) -> None:
    write(tmp_path, own_data() | {name: np.zeros(shape, np.uint8)}, dotted=False, compress=False)
    with pytest.raises(DataError, match=message):
        load(tmp_path, verify=False)


def test_normalise_gives_the_training_images_mean_0_and_deviation_1(mnist: Mnist) -> None:
    scaled = normalise(mnist.x_train)
    assert (scaled.shape, scaled.dtype) == ((60_000, 1, 28, 28), np.float32)
    assert abs(scaled.mean(dtype=np.float64)) < 1e-3
    assert abs(scaled.std(dtype=np.float64) - 1) < 1e-3


def test_normalise_is_the_formula() -> None:
    images = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    expected = (images / 255 - 0.1307) / 0.3081
    np.testing.assert_allclose(normalise(images)[:, 0], expected, rtol=1e-5, atol=1e-6)
