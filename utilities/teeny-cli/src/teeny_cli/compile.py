"""`teeny compile MODEL --emit STAGE` and `teeny compile MODEL --explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from teeny_cli.help import examples
from teeny_cli.options import InputTypes

EXAMPLES = examples(
    "teeny compile lenet5 --emit graph",
    "teeny compile lenet5 --explain",
    "teeny compile mnist-lenet5.safetensors --emit llvm -o lenet5.ll",
    "teeny compile package.module:Model --input 'f32[n, 3, 224, 224]' --emit tile",
    "teeny compile package.module:kernel --set x=*f32 --set BLOCK=64 --emit asm",
)


def compile_model(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="The name of a model (lenet5, mlp), a .safetensors file that `teeny train` wrote, "
            "MODULE:FACTORY, a function or class that returns a layer, or MODULE:KERNEL.",
        ),
    ],
    emit: Annotated[
        str | None,
        typer.Option(
            metavar="STAGE",
            help="graph, fxgraph, optimised, schedule, tile, llvm, asm or object; depends on the "
            "device. The first, if it is not given; of a kernel it is tile.",
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Show the rules by which the optimiser rewrote the model, the cost before and "
            "after, and why others did not fire.",
        ),
    ] = False,
    inputs: InputTypes = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="The type or the value of a parameter of MODULE:KERNEL, such as x=*f32, BLOCK=64.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="The device to compile for; see `teeny devices`.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Write the text here.")
    ] = None,
) -> None:
    """Compile a model and show a stage of its compilation."""
    from teeny_core import ConfigError

    from teeny_cli.files import require_writable, write_file
    from teeny_cli.source import find

    if out is not None:
        require_writable(out)
    if explain and emit is not None:
        raise ConfigError("--explain shows no stage", hint="give either --emit or --explain")
    source = find(model, inputs or [], given or [])
    text = source.emit("explain" if explain else emit or source.first, device)
    if out is None:
        typer.echo(text, nl=not text.endswith("\n"))
    else:
        write_file(out, text.encode())
