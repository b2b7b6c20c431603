from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import teeny_mnist
from PIL import Image
from teeny_cli.main import app
from teeny_vision import mnist
from teeny_vision.mnist import idx
from typer.testing import CliRunner

TRAIN, TEST = 160, 50


@dataclass(frozen=True)
class Result:
    """What a command wrote, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compile cache of these tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def teeny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, programs: Path) -> Callable[..., Result]:
    """Run `teeny` with some arguments in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEENY_CACHE_DIR", str(programs))
    for name in ("TEENY_DEVICE", "TEENY_DEBUG", "TEENY_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return Result(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture(scope="session")
def digits() -> mnist.Mnist:
    """The first few images of MNIST."""
    whole = mnist.load()
    return mnist.Mnist(
        whole.x_train[:TRAIN], whole.y_train[:TRAIN], whole.x_test[:TEST], whole.y_test[:TEST]
    )


@pytest.fixture(scope="session")
def data(digits: mnist.Mnist, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with those images as idx files."""
    folder = tmp_path_factory.mktemp("idx")
    for field, file in teeny_mnist.FILES.items():
        array = np.ascontiguousarray(getattr(digits, field))
        (folder / file.name).write_bytes(idx.encode(array))
    return folder


@pytest.fixture(scope="session")
def seven(digits: mnist.Mnist, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture of a seven."""
    path = tmp_path_factory.mktemp("images") / "seven.png"
    Image.fromarray(digits.x_test[0]).save(path)
    return path
