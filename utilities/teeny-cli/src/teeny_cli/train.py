"""`teeny train mnist`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teeny_cli.failure import INTERRUPTED
from teeny_cli.help import examples

if TYPE_CHECKING:
    from teeny_vision.mnist import Training

    from teeny_cli.checkpoint import Checkpoint
    from teeny_cli.view import View

app = typer.Typer(help="Train a model on the data that it is known for.")

EXAMPLES = examples(
    "teeny train mnist",
    "teeny train mnist --model mlp --epochs 5 --lr 2e-3 --out mlp.safetensors",
    "teeny train mnist --resume mnist-lenet5.checkpoint.safetensors",
)


@app.callback()
def train() -> None:
    """Train a model on the data that it is known for."""


def _option(text: str, default: str, metavar: str | None = None) -> Any:
    """Declare an option whose default is None, so as to tell whether the user gave it."""
    return typer.Option(help=rf"{text} [dim]\[default: {default}][/]", metavar=metavar)


# The defaults shown are those of teeny_vision.mnist.Recipe.
@app.command(epilog=EXAMPLES)
def mnist(
    model: Annotated[str | None, _option("lenet5 or mlp.", "lenet5")] = None,
    epochs: Annotated[int | None, _option("Passes over the training images.", "3")] = None,
    batch_size: Annotated[int | None, _option("Images of one step.", "64")] = None,
    lr: Annotated[
        float | None, _option("Highest learning rate of the one-cycle schedule.", "0.003")
    ] = None,
    seed: Annotated[int | None, _option("Of weights, order and augmentation.", "0")] = None,
    augment: Annotated[
        bool | None,
        typer.Option("--augment", help="Rotate and shift the images at random."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="See `teeny devices`.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Train on the four idx files in this folder instead of MNIST's."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        _option("Save here.", "mnist-MODEL.safetensors, or beside --resume's file", metavar="FILE"),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Go on from the checkpoint that ctrl-C or a crash left."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object an epoch, and one at the end.")
    ] = False,
) -> None:
    """Train on MNIST, report the accuracy on its test images, and save the model.

    Ctrl-C saves a checkpoint; --resume goes on from it to the very weights that
    the run would have had without it. One seed always gives the same weights.
    """
    from teeny_cli.checkpoint import Checkpoint, save
    from teeny_cli.files import require_writable
    from teeny_cli.view import view

    chosen = {
        "model": model,
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": lr,
        "seed": seed,
        "augment": augment,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    if out is not None:
        require_writable(out)
    training = _start(given, resume, data, device)
    target = out or _target(resume, training.recipe.model)
    require_writable(target)

    checkpoint = Checkpoint(training, target, resume)
    with view(as_json, training.recipe.epochs) as shown:
        if _run(training, shown, checkpoint):
            save(training.save_model, target, "the weights are", checkpoint.kept)
            checkpoint.discard()
            shown.finished(training.test_accuracy(), target)
            return
    save(training.save, checkpoint.path, "the checkpoint is", checkpoint.kept)
    shown.interrupted(checkpoint.path, _command(checkpoint.path, target, data, device))
    raise typer.Exit(INTERRUPTED)


def _target(resume: Path | None, model: str) -> Path:
    """Return where to save unless the user says it: where the run that goes on would have."""
    if resume is None:
        return Path(f"mnist-{model}.safetensors")
    return resume.with_name(resume.stem.removesuffix(".checkpoint") + resume.suffix)


def _start(
    given: Mapping[str, Any], resume: Path | None, folder: Path | None, device: str | None
) -> Training:
    """Begin a run of the recipe that the user gave, or go on with a checkpoint's."""
    from teeny_vision.mnist import Recipe, Training, load

    if resume is None:
        return Training(Recipe(**given), load(folder, verify=folder is None), device)
    training = Training.resume(resume, load(folder, verify=folder is None), device)
    _require_same(given, training, resume)
    return training


def _require_same(given: Mapping[str, Any], training: Training, checkpoint: Path) -> None:
    """Raise ConfigError where the user gave a setting other than the checkpoint's."""
    from teeny_core import ConfigError

    for name, value in given.items():
        held = getattr(training.recipe, name)
        if value != held:
            option = name.replace("_", "-")
            raise ConfigError(
                f"{checkpoint} is of a run with --{option} {held}, not {value}",
                hint=f"leave --{option} out, or start anew without --resume",
            )


def _run(training: Training, shown: View, checkpoint: Checkpoint) -> bool:
    """Train to the end, or until ctrl-C after at least one step; tell whether it is the end.

    Epochs that end on the way leave a checkpoint, lest the process dies. Before the first step
    there is nothing to save, and ctrl-C ends the command at once.
    """
    from teeny_cli.interrupt import Interrupt

    interrupt = Interrupt()
    with closing(iter(training)) as steps, interrupt:
        for progress in steps:
            interrupt.defer()
            shown.step(progress)
            if interrupt.requested:
                return False
            if progress.ends_epoch and progress.epoch < training.recipe.epochs:
                checkpoint.keep()
    return True


def _command(checkpoint: Path, out: Path, data: Path | None, device: str | None) -> str:
    """Return the command that goes on from `checkpoint`."""
    import shlex

    words = ["teeny", "train", "mnist", "--resume", str(checkpoint), "--out", str(out)]
    for option, value in (("--data", data), ("--device", device)):
        if value is not None:
            words += [option, str(value)]
    return shlex.join(words)
