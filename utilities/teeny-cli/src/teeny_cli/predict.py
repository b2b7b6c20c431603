"""`teeny predict MODEL IMAGE…`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teeny_cli.help import examples

if TYPE_CHECKING:
    from teeny_vision.mnist import Prediction

EXAMPLES = examples(
    "teeny predict mnist-lenet5.safetensors digit.png",
    "teeny predict mnist-lenet5.safetensors *.png --json",
)


def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL.safetensors", help="What `teeny train mnist` saved.")
    ],
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGE...", help="Pictures of one digit each.")
    ],
    device: Annotated[str | None, typer.Option(help="See `teeny devices`.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Say which digit each image shows, and how probable that is.

    Ink may be dark on light or light on dark. A picture that is not 28 x 28 is
    cropped to the digit and scaled as MNIST's were.
    """
    from teeny_vision.mnist import Classifier, load_model, read_digit

    _require_values(device)
    trained = load_model(model)
    digits = [read_digit(image) for image in images]
    predictions = Classifier(trained, device)(digits)
    if as_json:
        _print_json(images, predictions)
        return
    from rich.console import Console

    from teeny_cli.digit import render

    console = Console()
    for image, digit, prediction in zip(images, digits, predictions, strict=True):
        console.print(render(digit, colours=console.color_system is not None), end="")
        typer.echo(f"{image}: {prediction.label}  ({prediction.probability:.2%})")


def _require_values(device: str | None) -> None:
    """Refuse a device that only checks programs: its digits would be made up."""
    import teeny_core as tn

    chosen = tn.device(device)
    if not chosen.computes:
        raise tn.DeviceError(
            f"the device {chosen.name!r} computes nothing, so it predicts nothing",
            hint="pass --device cpu, or unset TEENY_DEVICE; see `teeny devices`",
        )


def _print_json(images: list[Path], predictions: list[Prediction]) -> None:
    from teeny_cli import jsonl

    for image, prediction in zip(images, predictions, strict=True):
        line = jsonl.line(
            image=str(image),
            label=prediction.label,
            probability=prediction.probability,
            probabilities=prediction.probabilities,
        )
        typer.echo(line)
