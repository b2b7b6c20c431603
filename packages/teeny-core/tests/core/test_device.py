"""Devices, settings, interchange with other libraries, and the weight of importing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import config
from teeny_core.device import Device, HostBuffer
from teeny_core.device.discovery import unique
from teeny_core.installed import EntryPoint


def test_null_device_checks_everything_and_returns_zeros() -> None:
    def f(x: Any) -> Any:
        return x.exp(), x.sum(1).cast("i32")

    graph = tn.trace(f, tn.SymTensor.input("f32", ("n", 3)))
    program = tn.compile(graph, "null")
    first, second = program(np.ones((5, 3), np.float32))
    np.testing.assert_array_equal(first, np.zeros((5, 3), np.float32))
    assert (second.shape, second.dtype) == ((5,), np.int32)
    with pytest.raises(tn.ShapeError):
        program(np.ones((5, 4), np.float32))
    assert program.emit("graph") == str(graph)
    with pytest.raises(tn.DeviceError, match="no stage is named 'asm'"):
        program.emit("asm")
    broken = tn.Graph("g", (), (), graph.outputs)
    with pytest.raises(tn.GraphError):
        tn.compile(broken, "null")


def test_lazy_tensors_on_the_null_device() -> None:
    with tn.default_device("null"):
        assert (tn.Tensor([1.0, 2.0]) * 2).tolist() == [0.0, 0.0]


def test_programs_run_without_blocking() -> None:
    program = tn.compile(tn.trace(lambda x: x * 2, tn.SymTensor.input("f32", (2,))))

    async def both() -> list[Any]:
        x = np.ones(2, np.float32)
        return await asyncio.gather(program.run_async(x), program.run_async(x * 3))

    first, second = asyncio.run(both())
    np.testing.assert_array_equal(first, [2, 2])
    np.testing.assert_array_equal(second, [6, 6])


def test_discovery() -> None:
    assert "null" in tn.device_names()
    null = tn.device("null")
    assert tn.device("null") is null
    assert tn.device(null) is null
    assert null.properties()
    with pytest.raises(
        tn.DeviceError, match=r"no device is named 'abacus'\nhint: installed .*null"
    ):
        tn.device("abacus")
    with pytest.raises(tn.DeviceError, match="compiles no kernels"):
        null.compile_kernel(None)


def test_duplicate_devices_are_refused() -> None:
    points = [EntryPoint("fast", value) for value in ("a:A", "b:B")]
    with pytest.raises(
        tn.DeviceError, match="two packages give a device named 'fast': a:A and b:B"
    ):
        unique(points)
    assert list(unique([points[0], points[0]])) == ["fast"]


def test_default_device(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tn.device() is device
    with tn.default_device("null") as chosen:
        assert tn.device() is chosen is tn.device("null")
    assert tn.device() is device


# --- settings -----------------------------------------------------------------------------------


def test_settings() -> None:
    plain = config.get({})
    assert plain.device is None
    assert plain.num_threads is None
    assert plain.cache_size == 2 << 30
    assert not plain.debug
    full = config.get(
        {
            "TEENY_DEVICE": "null",
            "TEENY_NUM_THREADS": "3",
            "TEENY_CACHE_DIR": "/somewhere",
            "TEENY_CACHE_SIZE": "256m",
            "TEENY_DEBUG": "1",
            "TEENY_INTERPRET": "off",
            "TEENY_SANITIZE": "on",
            "TEENY_TUNE": "yes",
        }
    )
    folder = Path("/somewhere")
    assert full == config.Config("null", 3, folder, 256 << 20, 1, False, True, True, False)
    levels = {"": 0, "off": 0, "0": 0, "on": 1, "TRUE": 1, "1": 1, "2": 2, "7": 7}
    assert {text: config.get({"TEENY_DEBUG": text}).debug for text in levels} == levels
    assert not config.interpreting({"TEENY_INTERPRET": "0"})
    assert config.interpreting({"TEENY_INTERPRET": "1"})
    assert config.device_name({"TEENY_DEVICE": ""}) is None
    assert config.get({"XDG_CACHE_HOME": "/cache"}).cache_dir == Path("/cache/teeny")


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        ("TEENY_NUM_THREADS", "abc", "a whole number from 1"),
        ("TEENY_NUM_THREADS", "0", "a whole number from 1"),
        ("TEENY_NUM_THREADS", "-2", "a whole number from 1"),
        ("TEENY_NUM_THREADS", "²", "a whole number from 1"),
        ("TEENY_CACHE_SIZE", "lots", "256M or 1G"),
        ("TEENY_CACHE_SIZE", "1X", "256M or 1G"),
        ("TEENY_CACHE_SIZE", "G", "256M or 1G"),
        ("TEENY_DEBUG", "maybe", "from 0 to 7"),
        ("TEENY_DEBUG", "8", "from 0 to 7"),
        ("TEENY_TUNE", "maybe", "1 or 0"),
    ],
)
def test_wrong_settings_list_the_valid_ones(name: str, value: str, valid: str) -> None:
    with pytest.raises(tn.ConfigError) as caught:
        config.get({name: value})
    first, hint = str(caught.value).split("\n")
    assert first == f"{name}={value} is not valid"
    assert valid in hint


# --- interchange --------------------------------------------------------------------------------


def test_numpy() -> None:
    x = tn.Tensor([[1.0, 2.0]])
    np.testing.assert_array_equal(np.asarray(x), [[1, 2]])
    np.testing.assert_array_equal(np.asarray(x, dtype=np.float64), [[1, 2]])
    assert np.array(x).flags.writeable
    assert isinstance(np.ones(2, np.float32) + x, tn.Tensor)
    assert isinstance(np.float32(2) * x, tn.Tensor)
    assert (np.array([[5.0]], np.float32) > x).tolist() == [[True, True]]
    assert tn.Tensor(np.arange(4, dtype=">i4")).tolist() == [0, 1, 2, 3]
    assert tn.Tensor(np.ones((2, 3)).T).numpy().flags.c_contiguous


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64", "u8", "f16", "bool"])
def test_dlpack(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    x = tn.Tensor([[0, 1], [1, 1]], dtype)
    peer = torch.from_dlpack(x)
    assert peer.tolist() == x.tolist()
    np.testing.assert_array_equal(np.from_dlpack(x), x.numpy())
    assert tn.Tensor(peer).tolist() == x.tolist()
    assert tn.Tensor(peer).dtype is x.dtype
    shared = tn.from_dlpack(torch.ones(3))
    assert shared.tolist() == [1.0, 1.0, 1.0]


def test_results_go_to_torch() -> None:
    torch = pytest.importorskip("torch")
    y = tn.Tensor([1.0, 2.0]) * 2
    assert torch.from_dlpack(y).tolist() == [2.0, 4.0]


def test_buffers() -> None:
    buffer = HostBuffer(np.zeros((2, 3), np.int32))
    buffer.write(np.ones((2, 3), np.int32))
    assert (buffer.shape, buffer.dtype, buffer.device_name) == ((2, 3), tn.i32, "host")
    assert buffer.numpy().sum() == 6


# --- weight -------------------------------------------------------------------------------------


def test_importing_pulls_in_nothing_heavy() -> None:
    heavy = {"torch", "llvmlite", "egglog", "asyncio", "safetensors", "scipy", "matplotlib"}
    heavy |= {"importlib.metadata", "ml_dtypes", "teeny_core.optim", "teeny_core.state"}
    code = f"import sys, teeny_core; print(sorted({heavy} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
