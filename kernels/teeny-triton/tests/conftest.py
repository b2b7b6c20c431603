from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_core import dtype
from teeny_triton import Ptr, Tile, build_function, interpret, parse, verify

Body = Callable[..., Any]
Run = Callable[..., Any]


def _tile(pointer: Tile, shape: tuple[int, ...]) -> Tile:
    size = int(np.prod(shape))
    if not shape:
        return tl.load(pointer)
    return tl.load(pointer + tl.arange(0, size).reshape(shape))


def _results(value: Any) -> tuple[Tile, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.fixture
def run() -> Run:
    """Run a function of tiles on arrays through the verifier, the parser and the interpreter."""

    def call(body: Body, *arrays: Any) -> Any:
        inputs = [np.asarray(array) for array in arrays]
        specs = [(f"x{i}", Ptr[dtype(x.dtype)]) for i, x in enumerate(inputs)]
        with build_function("types", specs) as f:
            tiles = [_tile(p, x.shape) for p, x in zip(f.arguments, inputs, strict=True)]
            kinds = [tl.cast(r, r.dtype).type for r in _results(body(*tiles))]
        outputs = [np.zeros(kind.shape, kind.element.numpy) for kind in kinds]
        specs += [(f"y{i}", Ptr[kind.element]) for i, kind in enumerate(kinds)]
        with build_function("run", specs) as f:
            pointers = f.arguments
            tiles = [_tile(p, x.shape) for p, x in zip(pointers, inputs, strict=False)]
            for p, r in zip(pointers[len(inputs) :], _results(body(*tiles)), strict=True):
                size = int(np.prod(r.shape))
                offsets = tl.arange(0, size).reshape(r.shape) if r.shape else 0
                tl.store(p + offsets, r)
        verify(f.function)
        again = parse(str(f.function))
        assert str(again) == str(f.function)
        interpret(verify(again), (1,), [*inputs, *outputs])
        return outputs[0] if len(outputs) == 1 else outputs

    return call


@pytest.fixture(scope="session")
def code_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder for machine code of the session."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(params=["interpreted", "native"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, code_cache: str) -> str:
    """Launch kernels in the interpreter, then on the CPU."""
    monkeypatch.setenv("TEENY_INTERPRET", "1" if request.param == "interpreted" else "0")
    if request.param == "native":
        pytest.importorskip("teeny_cpu")
        monkeypatch.setenv("TEENY_DEVICE", "cpu")
        monkeypatch.setenv("TEENY_CACHE_DIR", code_cache)
    return str(request.param)
