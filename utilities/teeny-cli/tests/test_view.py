import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from teeny_cli.view import Bar, Json, Lines, View, figures, view


@dataclass(frozen=True)
class Step:
    """What a step of training reports, as teeny_vision.mnist.Progress does."""

    epoch: int = 2
    batch: int = 469
    batches: int = 938
    loss: float = 0.12345
    accuracy: float = 0.98765
    images_per_s: float = 12345.6
    seconds: float = 4.86

    @property
    def ends_epoch(self) -> bool:
        return self.batch == self.batches


HALF, END = Step(), Step(batch=938)


def run(shown: View) -> None:
    with shown:
        shown.step(HALF)  # type: ignore[arg-type]
        shown.step(END)  # type: ignore[arg-type]
    shown.finished(0.98765, Path("model [1].safetensors"))


def test_figures_have_a_fixed_width() -> None:
    assert figures(HALF) == "loss 0.1235  accuracy 98.77%   12,346 images/s"  # type: ignore[arg-type]
    assert len(figures(Step(accuracy=0.1, images_per_s=999.4))) == len(figures(HALF))  # type: ignore[arg-type]


def test_json_has_an_object_for_each_epoch_and_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(Json())
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {
            "epoch": 2,
            "loss": 0.12345,
            "accuracy": 0.98765,
            "images_per_s": 12345.6,
            "seconds": 4.86,
        },
        {"test_accuracy": 0.98765, "file": "model [1].safetensors"},
    ]


def test_json_of_an_interruption(capsys: pytest.CaptureFixture[str]) -> None:
    Json().interrupted(Path("a.checkpoint.safetensors"), "teeny train mnist --resume a")
    assert json.loads(capsys.readouterr().out) == {
        "interrupted": True,
        "checkpoint": "a.checkpoint.safetensors",
        "resume": "teeny train mnist --resume a",
    }


def test_a_line_for_each_epoch() -> None:
    console = Console(file=io.StringIO(), width=40)
    lines = Lines(3, console)
    run(lines)
    lines.interrupted(Path("x" * 60), "teeny train mnist --resume " + "x" * 60)
    assert console.file.getvalue().splitlines()[-4:] == [  # type: ignore[attr-defined]
        "test accuracy 98.77%",
        "saved model [1].safetensors",
        "interrupted; saved " + "x" * 60,
        "go on with: teeny train mnist --resume " + "x" * 60,
    ]


def test_a_line_of_figures() -> None:
    console = Console(file=io.StringIO(), width=100)
    run(Lines(3, console))
    assert console.file.getvalue().splitlines()[0] == (  # type: ignore[attr-defined]
        "epoch 2/3  loss 0.1235  accuracy 98.77%   12,346 images/s  4.9 s"
    )


def test_the_bar_goes_away_and_leaves_the_lines() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
    run(Bar(3, console))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "938/938" in text
    assert text.count("epoch 2/3  loss") == 1
    assert text.endswith("test accuracy 98.77%\nsaved model [1].safetensors\n")


def test_the_view_of_standard_output() -> None:
    assert isinstance(view(True, 3), Json)
    assert type(view(False, 3)) is Lines  # under pytest it is no terminal
