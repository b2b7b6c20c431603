"""What `teeny compile` takes for a model."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import teeny_core as tn
from teeny_core import ConfigError
from teeny_triton import Kernel
from teeny_vision import mnist

from teeny_cli.check import read_values

GRAPH, TILE = "graph", "tile"
IMAGES = "f32[n, 1, 28, 28]"  # what the models for MNIST take
TYPE = re.compile(r"(?P<dtype>\w+)\s*\[(?P<shape>\s*(\w+\s*(,\s*\w+\s*)*)?)\]")


@dataclass(frozen=True)
class Source:
    """A layer, or another function of tensors, and the types of its inputs."""

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    first: ClassVar[str] = GRAPH

    def emit(self, stage: str, device: str | None) -> str:
        """Return the text of a stage of its compilation; tracing alone gives the graph."""
        graph = self.graph(device)
        return str(graph) if stage == GRAPH else tn.compile(graph, device=device).emit(stage)

    def graph(self, device: str | None) -> tn.Graph:
        """Return its graph, once it is clear that there is such a device."""
        tn.device(device)
        handles = [parse_type(text, f"x{index}") for index, text in enumerate(self.inputs)]
        return tn.trace(self.function, *handles)


@dataclass(frozen=True)
class KernelSource:
    """A kernel, and what is known of its parameters: types, or values of constants."""

    kernel: Kernel
    parameters: Mapping[str, Any]
    first: ClassVar[str] = TILE

    def emit(self, stage: str, device: str | None) -> str:
        """Return the text of a stage of its compilation; reading alone gives the tile IR."""
        target = tn.device(device)
        function = self.kernel.function(**self.parameters)
        return str(function) if stage == TILE else target.compile_kernel(function).emit(stage)

    def graph(self, device: str | None) -> tn.Graph:
        """Refuse: a kernel has no graph."""
        raise ConfigError(
            f"{self.kernel.__name__} is a kernel, not a model",
            hint="give a function or class that returns a layer",
        )


def find(text: str, inputs: Sequence[str], given: Sequence[str] = ()) -> Source | KernelSource:
    """Return the model or kernel that `text` names.

    Args:
        text: the name of a model for MNIST, a checkpoint of one, MODULE:FACTORY or MODULE:KERNEL.
        inputs: the types of its inputs, such as `f32[n, 1, 28, 28]`; those of MNIST if empty.
        given: NAME=VALUE for parameters of a kernel.

    Raises:
        ConfigError: there is no such model.
        LoadError: the file is no checkpoint.
    """
    types = tuple(inputs) or (IMAGES,)
    if text in mnist.MODELS:
        return Source(mnist.build(text), types)
    if Path(text).exists() or text.endswith(".safetensors"):
        return Source(mnist.load_model(text), types)
    module, colon, name = text.partition(":")
    if not colon:
        raise ConfigError(
            f"no model is called {text!r}",
            hint=f"one of {', '.join(mnist.MODELS)}, a .safetensors file, or MODULE:FACTORY",
        )
    found = _imported(module, name)
    if isinstance(found, Kernel):
        return KernelSource(found, _single(read_values(given)))
    if not inputs:
        raise ConfigError(
            f"the inputs of {text} are not known", hint=f"give the type of each: --input '{IMAGES}'"
        )
    return Source(_made(found, f"{module}:{name}"), types)


def parse_type(text: str, name: str) -> tn.SymTensor:
    """Return a tensor of the type in `text`, a dtype and extents; a word is a symbolic extent.

    Raises:
        ConfigError: the text is not of that form.
        DTypeError: there is no such dtype.
    """
    match = TYPE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is not the type of an input", hint=f"write it like {IMAGES}")
    extents = re.findall(r"\w+", match["shape"])
    shape = tuple(int(extent) if extent.isdigit() else extent for extent in extents)
    return tn.SymTensor.input(tn.dtype(match["dtype"]), shape, name=name)


def _single(values: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    several = next((name for name, items in values.items() if len(items) > 1), None)
    if several is not None:
        raise ConfigError(f"--set {several} has several values", hint="a kernel is shown for one")
    return {name: items[0] for name, items in values.items()}


def _imported(module: str, name: str) -> Any:
    """Import an object, from the working folder too."""
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return getattr(importlib.import_module(module), name)
    except tn.TeenyError:
        raise
    except Exception as error:  # the module may raise anything
        raise ConfigError(
            f"{module}:{name} cannot be imported: {error}",
            hint="give MODULE:FACTORY as in `from MODULE import FACTORY`",
        ) from error


def _made(factory: Any, name: str) -> Callable[..., Any]:
    try:
        inspect.signature(factory).bind()
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{name} cannot be called without arguments: {error}",
            hint="name a function that takes none and returns the layer",
        ) from error
    made = factory()
    if not callable(made):
        raise ConfigError(
            f"{name} returns a {type(made).__name__}, which is no function of tensors",
            hint="return a layer from it",
        )
    return made  # type: ignore[no-any-return]
