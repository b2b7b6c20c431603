"""Kernels of the kernel language, launched on the CPU."""

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import KernelError
from teeny_triton import Ptr, constexpr, f16, f32, f64, i32, i64, kernel, u8
from teeny_triton import language as tl


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_DEVICE", "cpu")


@kernel
def scale(out: Ptr[f32], x: Ptr[f32], factor: f32, n: i32, BLOCK: constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) * factor, mask=inside)


@kernel
def where_am_i(out: Ptr[i64]):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    place = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(out + place, (x * 10000 + y * 100 + z).to(i64))


@kernel
def scalars(out: Ptr[f64], a: i64, b: u8, c: f64, d: f16):
    tl.store(out, a.to(f64))
    tl.store(out + 1, b.to(f64))
    tl.store(out + 2, c)
    tl.store(out + 3, d.to(f64))


@pytest.mark.parametrize("n", [0, 1, 63, 64, 1000, 300_000])
def test_a_kernel_runs_over_its_grid(n: int) -> None:
    x = np.linspace(-1, 1, n, dtype=np.float32)
    out = np.full(n + 100, 7, np.float32)
    scale[tl.cdiv(n, 64)](out, x, 3.0, n, BLOCK=64)
    np.testing.assert_array_equal(out[:n], x * np.float32(3))
    assert (out[n:] == 7).all()


def test_grids_of_three_axes() -> None:
    out = np.zeros((3, 4, 5), np.int64)
    where_am_i[5, 4, 3](out)
    z, y, x = np.indices((3, 4, 5))
    np.testing.assert_array_equal(out, x * 10000 + y * 100 + z)


def test_scalars_of_every_kind_arrive() -> None:
    out = np.zeros(4)
    scalars[(1,)](out, -(1 << 40), 255, 0.1, 0.1)
    assert out.tolist() == [-(1 << 40), 255, 0.1, float(np.float16(0.1))]


def test_tensors_are_read_in_place() -> None:
    out = np.zeros(3, np.float32)
    scale[(1,)](out, tn.Tensor([1.0, 2.0, 3.0]), 2.0, 3, BLOCK=16)
    assert out.tolist() == [2, 4, 6]


def test_read_only_memory_is_not_written() -> None:
    out = np.zeros(3, np.float32)
    out.flags.writeable = False
    with pytest.raises(KernelError, match="read-only"):
        scale[(1,)](out, np.ones(3, np.float32), 2.0, 3, BLOCK=16)
