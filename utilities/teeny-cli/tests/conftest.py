from collections.abc import Callable
from pathlib import Path

import pytest
from teeny_cli.main import app
from typer.testing import CliRunner


class Result:
    """What a command wrote, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err


Teeny = Callable[..., Result]


@pytest.fixture
def teeny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Teeny:
    """Run `teeny` with some arguments in this process, in an empty folder with an empty cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEENY_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("TEENY_DEVICE", "TEENY_DEBUG", "TEENY_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return Result(result.exit_code, result.stdout, result.stderr)

    return run
