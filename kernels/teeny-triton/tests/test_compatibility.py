"""Names of Triton, scripts that import it, and what its decorators take."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import teeny_triton as triton
import teeny_triton.language as tl
from teeny_triton import KernelError, compatible, constexpr, f32, i32, kernel

SCRIPT = """
    import sys

    import numpy as np
    import triton
    import triton.language as tl
    from triton.compiler.errors import CompilationError
    from triton.runtime import driver
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.errors import OutOfResources
    from triton.tools.tensor_descriptor import TensorDescriptor


    @triton.autotune([triton.Config({"BLOCK": 8}, num_warps=2)], key=["n"])
    @triton.jit
    def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, total, mask=mask)


    x = np.arange(20, dtype=np.float32)
    out = np.zeros_like(x)
    add[lambda meta: (triton.cdiv(20, meta["BLOCK"]),)](x, x, out, 20)
    assert (out == 2 * x).all()
    assert isinstance(add, Autotuner)
    assert triton.next_power_of_2(20) == 32
    assert driver.active.utils.get_device_properties(0)["multiprocessor_count"] >= 1
    print(__name__, sys.argv[1:], triton.__name__)
"""


def run(script: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "teeny_triton", *([str(script)] if script.name else []), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environ},
    )


@pytest.mark.parametrize("interpret", ["0", "1"])
def test_a_script_for_triton_runs_unchanged(tmp_path: Path, interpret: str) -> None:
    pytest.importorskip("teeny_cpu")
    script = tmp_path / "add.py"
    script.write_text(textwrap.dedent(SCRIPT))
    result = run(script, "one", TEENY_INTERPRET=interpret, TEENY_CACHE_DIR=str(tmp_path))
    assert result.stderr == ""
    assert result.stdout == "__main__ ['one'] teeny_triton\n"


def test_command_line_of_the_module(tmp_path: Path) -> None:
    assert run(Path(), "--help").stdout.startswith("usage: python -m teeny_triton SCRIPT")
    result = run(tmp_path / "nothing.py")
    assert result.returncode == 2
    assert result.stderr.startswith("error: there is no file")


def test_compatible_is_undone() -> None:
    before = {name for name in sys.modules if name.partition(".")[0] == "triton"}
    with compatible():
        import triton.language.math
        import triton.testing as testing
        from triton.compiler import errors

        assert sys.modules["triton"] is triton
        assert sys.modules["triton.language"] is tl
        assert testing is triton.testing
        assert errors.CompilationError is triton.CompilationError
    after = {name for name in sys.modules if name.partition(".")[0] == "triton"}
    assert after == before


@pytest.mark.parametrize(
    "path",
    """
    cdiv next_power_of_2 jit autotune heuristics Config reinterpret TensorWrapper MockTensor
    JITFunction KernelInterface constexpr_function must_use_result set_allocator knobs
    testing.do_bench testing.do_bench_cudagraph testing.assert_close testing.perf_report
    testing.Benchmark testing.Mark runtime.JITFunction runtime.Autotuner runtime.Heuristics
    runtime.Config runtime.KernelInterface runtime.driver.active.get_current_device
    runtime.driver.active.get_current_stream runtime.driver.active.get_current_target
    runtime.driver.active.utils.get_device_properties runtime.errors.OutOfResources
    runtime.errors.PTXASError runtime.errors.InterpreterError runtime.errors.AutotunerError
    runtime.autotuner.autotune runtime.jit.JITFunction runtime.cache.default_cache_dir
    compiler.CompiledKernel compiler.errors.CompilationError
    compiler.errors.CompileTimeAssertionFailure compiler.errors.UnsupportedLanguageConstruct
    tools.tensor_descriptor.TensorDescriptor language.constexpr language.math.exp
    """.split(),  # noqa: SIM905 - a list of words reads better
)
def test_names_stand_where_triton_has_them(path: str) -> None:
    value: Any = triton
    for name in path.split("."):
        value = getattr(value, name)
    assert value is not None


def test_errors_are_typed() -> None:
    errors = triton.runtime.errors
    for error in (errors.OutOfResources(9, 4, "shared memory"), errors.PTXASError("x")):
        assert isinstance(error, KernelError)
    assert str(errors.OutOfResources(9, 4, "shared memory")).startswith(
        "out of shared memory: 9 are needed, there are 4"
    )


# --- the decorator ---


@pytest.mark.usefixtures("mode")
def test_options_of_the_decorator_and_of_launches() -> None:
    @triton.jit(
        version=3,
        repr=lambda parts: f"fill-{dict(parts.constants)['BLOCK']}",
        launch_metadata=lambda *args: {},
        do_not_specialize=["n"],
        do_not_specialize_on_alignment=[0],
        debug=True,
        noinline=True,
    )
    def fill(x, n, BLOCK: constexpr):
        tl.store(x + tl.arange(0, BLOCK), n)

    x = np.zeros(4, np.float32)
    compiled = fill[(1,)](x, 16, BLOCK=4, num_warps=8, num_stages=2, num_ctas=1, maxnreg=None)
    assert (x == 16).all()
    (pointer, number) = compiled.function.parameters
    assert (pointer.alignment, number.divisibility) == (4, 1)
    assert compiled.name == "fill_4"
    with pytest.raises(KernelError, match="unexpected keyword argument 'num_warp'"):
        fill[(1,)](x, 16, BLOCK=4, num_warp=8)


@pytest.mark.usefixtures("mode")
def test_an_option_may_be_a_parameter() -> None:
    @kernel
    def stages(x, num_stages: constexpr):
        tl.store(x, num_stages)

    x = np.zeros(1, np.float32)
    stages[(1,)](x, num_stages=5)
    assert x[0] == 5


def test_what_a_kernel_says_of_itself() -> None:
    @kernel(version=1)
    def scale(x, factor=2.0, n: i32 = 4):
        """Scale."""
        tl.store(x, tl.load(x) * factor)

    assert scale.arg_names == ["x", "factor", "n"]
    assert scale.src.startswith("def scale(x, factor=2.0, n: i32 = 4):\n")
    assert scale.fn.__name__ == scale.__name__ == "scale"
    assert scale.__doc__ == "Scale."
    assert [param.has_default for param in scale.params] == [False, True, True]
    assert len(scale.cache_key) == 64
    assert kernel(version=2)(scale.fn).cache_key != scale.cache_key


@pytest.mark.usefixtures("mode")
def test_defaults_keywords_and_hooks() -> None:
    @kernel
    def scale(x, factor=2.0, n: constexpr = 4):
        i = tl.arange(0, n)
        tl.store(x + i, tl.load(x + i) * factor)

    seen: list[Any] = []
    scale.add_pre_run_hook(lambda *args, **kwargs: seen.append(kwargs))
    x = np.ones(4, np.float32)
    scale[1](x)
    scale[[1, 1]](x, n=2)
    scale[lambda meta: (meta["n"] // 4,)](factor=0.5, x=x)
    scale.run(x, 3.0, grid=(1,), warmup=False)
    assert x.tolist() == [6, 6, 3, 3]
    assert [sorted(kwargs) for kwargs in seen] == [[], ["n"], ["factor", "x"], []]


@pytest.mark.usefixtures("mode")
def test_warmup_compiles_and_does_not_run() -> None:
    @kernel
    def fill(x, n, BLOCK: constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, 1.0, mask=i < n)

    x = np.zeros(8, np.float32)
    compiled = fill.warmup(x, 8, BLOCK=8, grid=(1,), num_warps=4)
    assert not x.any()
    assert "store" in compiled.asm["ttir"]
    assert (compiled.n_regs > 0, compiled.n_spills, compiled.metadata.shared > 0) == (True, 0, True)
    compiled._init_handles()
    compiled[(1,)](x, 4)
    compiled[(1, 1, 1)](x[4:], 4, 8)
    assert (x == 1).all()
    mocked = fill.warmup(triton.MockTensor(f32, (8,)), 8, BLOCK=8)
    assert mocked.function.parameters[0].alignment == 64
    with pytest.raises(KernelError, match="a MockTensor has no memory to run on"):
        fill[(1,)](triton.MockTensor(f32), 8, BLOCK=8)


def test_warmup_from_dtypes_of_torch() -> None:
    torch = pytest.importorskip("torch")

    @kernel
    def fill(x, n, BLOCK: constexpr):
        tl.store(x + tl.arange(0, BLOCK), n)

    compiled = fill.warmup(torch.bfloat16, 3, BLOCK=8, grid=(1,))
    assert str(compiled.function.parameters[0].value.type) == "ptr<bf16>"


def test_functions_of_constants() -> None:
    @triton.constexpr_function
    def doubled(n):
        return 2 * n

    @triton.must_use_result
    def tripled(n):
        return 3 * n

    @kernel
    def fill(x, n: constexpr, wrong: constexpr = False):
        tl.store(x, doubled(n) + tripled(n))
        if wrong:
            doubled(tl.load(x))

    x = np.zeros(1, np.float32)
    fill[(1,)](x, 2)
    assert x[0] == 10
    assert doubled(constexpr(4)) == 8
    with pytest.raises(KernelError, match="doubled takes Python values, not f32"):
        fill[(1,)](x, 2, True)


def test_properties_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("teeny_cpu")
    monkeypatch.setenv("TEENY_DEVICE", "cpu")
    active = triton.runtime.driver.active
    properties = active.utils.get_device_properties(active.get_current_device())
    assert properties["multiprocessor_count"] >= 1
    assert properties["max_shared_mem"] >= 1 << 12
    assert active.get_current_target().backend == "cpu"
    assert active.get_current_stream() == 0
    assert active.get_benchmarker() is triton.testing.do_bench
    monkeypatch.setenv("TEENY_DEVICE", "null")
    assert active.utils.get_device_properties(0)["multiprocessor_count"] == 1
