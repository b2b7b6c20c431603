"""Kernels and launches pass a strict type checker."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

GOOD = """
    from typing import Literal

    import numpy as np
    import teeny_triton as triton
    import teeny_triton.language as tl
    from teeny_triton import Config, Ptr, TypeVar, autotune, bf16, constexpr, contiguous, f32
    from teeny_triton import heuristics, i32, kernel

    T = TypeVar("T", f32, bf16)


    @autotune([Config({"BLOCK": 64})], key=["n"])
    @heuristics({"EVEN": lambda arguments: arguments["n"] % 2 == 0})
    @kernel
    def double(
        x: Ptr[T, contiguous],
        y: Ptr[f32],
        scale: T,
        n: i32,
        BLOCK: constexpr[int],
        EVEN: constexpr[bool],
        mode: constexpr[Literal["add", "mul"]],
    ) -> None:
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n).to(f32) * 2, mask=i < n)


    MODE: constexpr = constexpr("add")


    @kernel(check={"BLOCK": (64, 128)}, do_not_specialize=["n"])
    def fill(
        x: Ptr[f32],
        bias: Ptr[f32] | None,
        n: i32,
        BLOCK: constexpr = 64,
        STEPS: constexpr[int | None] = None,
        mode: constexpr[Literal["add", "mul"]] = "add",
    ) -> None:
        i = tl.arange(0, BLOCK)
        if bias is not None and mode == MODE:
            tl.store(x + i, tl.load(bias + i) + n, mask=i < n)
        for _ in tl.static_range(STEPS or 1):
            tl.store(x, n)


    x = np.zeros(3)
    double[(1,)](x, x, 1.0, 3, mode="add")
    fill[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, None, 3, BLOCK=64)
    print(fill.warmup(x, x, 3, grid=(1,)))
"""


@pytest.mark.slow
def test_mypy_takes_annotations_of_kernels(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(textwrap.dedent(GOOD))
    cache = ["--cache-dir", str(tmp_path / "cache")]
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *cache, str(file)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert result.stdout == "Success: no issues found in 1 source file\n"
