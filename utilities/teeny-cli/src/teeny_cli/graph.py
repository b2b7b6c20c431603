"""`teeny graph MODEL -o FILE.svg`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from teeny_cli.help import examples
from teeny_cli.options import InputTypes

EXAMPLES = examples(
    "teeny graph lenet5 -o lenet5.svg",
    "teeny graph lenet5 --stage optimised -o lenet5-optimised.svg",
    "teeny graph package.module:Model --input 'f32[n, 3, 224, 224]' -o model.svg",
)


def draw_model(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A model, as `teeny compile` takes it."),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="Write the SVG here.")],
    stage: Annotated[
        str,
        typer.Option(metavar="STAGE", help="graph, fxgraph, optimised or schedule."),
    ] = "schedule",
    inputs: InputTypes = None,
    device: Annotated[str | None, typer.Option(help="See `teeny devices`.")] = None,
) -> None:
    """Draw a stage of a model's compilation: boxes with shapes and bytes, for any browser."""
    import teeny_core as tn

    from teeny_cli.files import require_writable, write_file
    from teeny_cli.source import find

    require_writable(out)
    graph = find(model, inputs or []).graph(device)
    write_file(out, tn.compile(graph, device=device).to_svg(stage).encode())
