"""How a run of training is shown: as JSON, as lines, or as lines with a live progress bar."""

from __future__ import annotations

import time
from abc import abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from teeny_cli import jsonl

if TYPE_CHECKING:
    from teeny_vision.mnist import Progress as Step

REFRESH_SECONDS = 0.1


class View(AbstractContextManager["View"]):
    """What a run tells the user; its context spans the training."""

    def __exit__(self, *error: object) -> None:
        """Do nothing."""

    @abstractmethod
    def step(self, step: Step) -> None:
        """Show the progress after a step."""

    @abstractmethod
    def finished(self, accuracy: float, file: Path) -> None:
        """Show the end: the accuracy on the test images, and where the model was saved."""

    @abstractmethod
    def interrupted(self, checkpoint: Path, command: str) -> None:
        """Show that the run was interrupted, and the command that goes on from `checkpoint`."""


class Json(View):
    """One JSON object a line."""

    def step(self, step: Step) -> None:
        """Print the figures of an epoch when it ends."""
        if step.ends_epoch:
            self._print(
                epoch=step.epoch,
                loss=step.loss,
                accuracy=step.accuracy,
                images_per_s=step.images_per_s,
                seconds=step.seconds,
            )

    def finished(self, accuracy: float, file: Path) -> None:
        """Print the accuracy on the test images."""
        self._print(test_accuracy=accuracy, file=str(file))

    def interrupted(self, checkpoint: Path, command: str) -> None:
        """Print where the checkpoint is."""
        self._print(interrupted=True, checkpoint=str(checkpoint), resume=command)

    def _print(self, **fields: Any) -> None:
        print(jsonl.line(**fields), flush=True)


class Lines(View):
    """A line an epoch."""

    def __init__(self, epochs: int, console: Console) -> None:
        self._epochs = epochs
        self._console = console

    def step(self, step: Step) -> None:
        """Print the figures of an epoch when it ends."""
        if step.ends_epoch:
            self._console.print(
                f"epoch {step.epoch}/{self._epochs}  {figures(step)}  {step.seconds:.1f} s",
                highlight=False,
            )

    def finished(self, accuracy: float, file: Path) -> None:
        """Print the accuracy on the test images."""
        self._console.print(f"test accuracy [bold]{accuracy:.2%}[/]", highlight=False)
        self._print_path("saved", str(file))

    def interrupted(self, checkpoint: Path, command: str) -> None:
        """Print the command that goes on."""
        self._print_path("interrupted; saved", str(checkpoint))
        self._print_path("go on with:", command)

    def _print_path(self, words: str, path: str) -> None:
        # Not folded, so that it can be copied.
        self._console.print(f"{words} [bold]{escape(path)}[/]", highlight=False, soft_wrap=True)


class Bar(Lines):
    """A line an epoch, and below it a bar for the epoch at work."""

    def __init__(self, epochs: int, console: Console) -> None:
        super().__init__(epochs, console)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("compiling", total=None, figures="")
        self._shown = 0.0

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def step(self, step: Step) -> None:
        """Move the bar, a few times a second."""
        super().step(step)
        now = time.monotonic()
        if now - self._shown >= REFRESH_SECONDS or step.ends_epoch:
            self._shown = now
            self._bar.update(
                self._task,
                description=f"epoch {step.epoch}/{self._epochs}",
                completed=step.batch,
                total=step.batches,
                figures=figures(step),
            )


def figures(step: Step) -> str:
    """Return what a step reports, of fixed width."""
    return (
        f"loss {step.loss:.4f}  accuracy {step.accuracy:6.2%}  {step.images_per_s:7,.0f} images/s"
    )


def view(as_json: bool, epochs: int) -> View:
    """Return the view for standard output."""
    if as_json:
        return Json()
    console = Console()
    return (Bar if console.is_terminal else Lines)(epochs, console)
