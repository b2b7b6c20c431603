"""Every template as machine code, for every vector width that this processor runs.

Operands lie between pages that may not be touched, at their end or at their start.
"""

import ctypes
import mmap
import struct
from dataclasses import replace

import numpy as np
import pytest
from teeny_core import f32, f64
from teeny_core.op import Attrs, get
from teeny_kernels import TEMPLATES
from teeny_kernels.templates import conv_winograd
from teeny_kernels.testing import operand, run
from teeny_triton.ir import Pointer, walk
from teeny_triton.launch import Request

compiler = pytest.importorskip("teeny_compiler.codegen.cpu", exc_type=ImportError)

from teeny_compiler.codegen import llvm  # noqa: E402 - after the check above
from teeny_compiler.target import host_target  # noqa: E402

PAGE = mmap.PAGESIZE
HOST = host_target()
AVX2 = {
    "64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2",
    "popcnt", "avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe",
}  # fmt: skip
TARGETS = {"host": HOST}
if HOST.features >= AVX2:
    TARGETS["avx2"] = replace(
        HOST, cpu="x86-64", features=frozenset(AVX2), vector_bits=256, vector_registers=16
    )
TARGETS["narrow"] = replace(HOST, vector_bits=128, vector_registers=16)

NONE = ((0, 0), (0, 0))


def sliding(stride=1, padding=0, dilation=1, groups=1, **more):
    sides = ((padding, padding), (padding, padding))
    pairs = {"stride": (stride, stride), "padding": sides, "dilation": (dilation, dilation)}
    return {**pairs, "groups": groups, **more}


def pooling(kernel, stride, padding=0, **more):
    sides = ((padding, padding), (padding, padding))
    return {"kernel": (kernel, kernel), "stride": (stride, stride), "padding": sides, **more}


def transposed(a, b):
    return {"transpose_a": a, "transpose_b": b}


def attending(causal=False):
    return {"causal": causal, "safe": False, "scale": 0.3}


AVERAGE = {"count_include_pad": False}
CASES = {
    "matmul": ("matmul", transposed(False, False), (50, 33), (33, 70)),
    "matmul with B transposed": ("matmul", transposed(False, True), (50, 33), (71, 33)),
    "matmul with A transposed": ("matmul", transposed(True, False), (33, 47), (33, 300)),
    "matmul of one row": ("matmul", transposed(False, True), (1, 33), (23, 33)),
    "matmul of a row and large B": ("matmul", transposed(False, False), (1, 257), (257, 300)),
    "matmul of few rows and large B": ("matmul", transposed(False, False), (17, 257), (257, 300)),
    "matmul of batches": ("matmul", transposed(False, False), (3, 5, 7), (3, 7, 19)),
    "convolution by rows": ("conv2d", sliding(padding=2), (3, 1, 13, 13), (6, 1, 5, 5)),
    "convolution by channels": ("conv2d", sliding(), (3, 6, 9, 9), (19, 6, 3, 3)),
    "convolution by parts of channels": ("conv2d", sliding(), (2, 70, 7, 6), (43, 70, 3, 3)),
    "strided convolution": ("conv2d", sliding(2, 1), (2, 5, 11, 12), (18, 5, 3, 3)),
    "strided convolution by rows": ("conv2d", sliding(2, 2), (3, 1, 12, 37), (5, 1, 5, 5)),
    "pointwise convolution": ("conv2d", sliding(), (2, 20, 5, 7), (40, 20, 1, 1)),
    "depthwise": ("conv2d", sliding(padding=1, groups=5), (2, 5, 9, 35), (5, 1, 3, 3)),
    "strided depthwise": ("conv2d", sliding(2, 1, groups=5), (2, 5, 9, 75), (5, 1, 3, 3)),
    "dX by rows": (
        "conv2d_grad_input", sliding(input_shape=(2, 6, 9, 9)), (2, 16, 5, 5), (16, 6, 5, 5),
    ),
    "dX by taps": (
        "conv2d_grad_input", sliding(input_shape=(2, 6, 14, 14)), (2, 16, 10, 10), (16, 6, 5, 5),
    ),
    "dX with stride": (
        "conv2d_grad_input", sliding(2, 1, input_shape=(2, 18, 9, 10)), (2, 5, 5, 5), (5, 18, 3, 3),
    ),
    "dW by filters": (
        "conv2d_grad_weight", sliding(weight_shape=(19, 6, 3, 3)), (10, 6, 7, 7), (10, 19, 5, 5),
    ),
    "dW by columns": (
        "conv2d_grad_weight",
        sliding(padding=2, weight_shape=(6, 1, 5, 5)), (9, 1, 19, 19), (9, 6, 19, 19),
    ),
    "many channels": ("conv2d", sliding(padding=1), (1, 64, 14, 15), (67, 64, 3, 3)),
    "dX of many channels": (
        "conv2d_grad_input", sliding(input_shape=(2, 64, 15, 16)), (2, 65, 13, 14), (65, 64, 3, 3),
    ),
    "large windows": ("conv2d", sliding(2, 3), (1, 3, 20, 20), (20, 3, 7, 7)),
    "dW of large windows": (
        "conv2d_grad_weight",
        sliding(2, 3, weight_shape=(20, 3, 7, 7)), (1, 3, 20, 20), (1, 20, 10, 10),
    ),
    "dX of wide images": (
        "conv2d_grad_input", sliding(input_shape=(1, 2, 6, 90)), (1, 24, 2, 86), (24, 2, 5, 5),
    ),
    "largest of squares": ("max_pool2d", pooling(2, 2), (2, 3, 6, 43)),
    "largest of windows": ("max_pool2d", pooling(3, 2, 1), (2, 3, 11, 70)),
    "gradient of squares": ("max_pool2d_grad", pooling(2, 2), (2, 3, 6, 43), (2, 3, 3, 21)),
    "gradient of windows": ("max_pool2d_grad", pooling(3, 2, 1), (2, 3, 9, 41), (2, 3, 5, 21)),
    "means": ("avg_pool2d", pooling(3, 2, 1, **AVERAGE), (2, 3, 11, 70)),
    "gradient of means": (
        "avg_pool2d_grad", pooling(3, 2, 1, **AVERAGE, input_shape=(2, 3, 9, 41)), (2, 3, 5, 21),
    ),
    "attention": ("attention", attending(), *((2, 3, 37, 20),) * 3),
    "causal attention": ("attention", attending(causal=True), *((2, 21, 8),) * 3),
    "attention with shared heads and a bias": (
        "attention", attending(causal=True), (2, 4, 21, 8), (2, 2, 19, 8), (2, 2, 19, 8), (4, 1, 19)
    ),
}  # fmt: skip

libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Memory:
    """Copies of arrays between pages that may not be touched."""

    def __init__(self, at_end: bool) -> None:
        self.at_end = at_end
        self.maps: list[mmap.mmap] = []

    def copy(self, array):
        length = -(-array.nbytes // PAGE) * PAGE
        memory = mmap.mmap(-1, length + 2 * PAGE)
        self.maps.append(memory)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for page in (start, start + PAGE + length):
            assert libc.mprotect(page, PAGE, 0) == 0
        offset = PAGE + (length - array.nbytes if self.at_end else 0)
        copied = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
        copied[...] = array
        return copied


PLACES = [(name, True) for name in TARGETS] + [("host", False)]


@pytest.fixture(params=PLACES, ids=lambda place: f"{place[0]}-{'end' if place[1] else 'start'}")
def place(request):
    """A machine, and whether arrays end at a border or start there."""
    return TARGETS[request.param[0]], request.param[1]


@pytest.fixture
def machine(place):
    return place[0]


@pytest.fixture
def execute(place, machine):
    """Compile a function and run it over a grid, as `interpret` does."""
    return native(machine, at_end=place[1])


def native(machine, at_end=True):
    """Return what compiles a function and runs it over a grid."""

    def run_native(function, grid, arguments):
        library = llvm.jit(compiler.emit_kernel(function, machine), machine)
        kind = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
        )
        memory = Memory(at_end=at_end)
        extents = (*grid, 1, 1, 1)[:3]
        slots = struct.pack("<3q", *extents)
        copies = []
        for parameter, value in zip(function.parameters, arguments, strict=True):
            element = parameter.value.type.element
            if isinstance(element, Pointer):
                copied = memory.copy(value)
                copies.append((value, copied))
                slots += struct.pack("<Q", copied.ctypes.data)
            else:
                slots += np.asarray(value).astype(element.numpy).tobytes().ljust(8, b"\0")
        packed = ctypes.create_string_buffer(slots, len(slots))
        arena = np.zeros(compiler.scratch_bytes(function, machine) + 64, np.uint8)
        scratch = -(-arena.ctypes.data // 64) * 64
        kind(library.address(function.name))(
            ctypes.addressof(packed), 0, int(np.prod(extents)), scratch
        )
        for value, copied in copies:
            value[...] = copied

    return run_native


def plan_of(op, attrs, inputs, out, machine):
    request = Request(op, attrs, tuple(map(operand, inputs)), operand(out))
    plans = (t.plan(request, machine) for t in TEMPLATES if op in t.ops)
    return next(plan for plan in plans if plan is not None)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", TARGETS)
def test_tiles_fit_the_registers(name, width):
    """Larger ones are cut by the compiler, which knows less of them than the kernels do."""
    op, attrs, *shapes = CASES[name]
    inputs = [np.zeros(shape, np.float32) for shape in shapes]
    out = np.zeros(get(op).reference(Attrs(attrs), *inputs).shape, np.float32)
    target = TARGETS[width]
    most = target.vector_registers * target.lanes(f32)
    for launch in plan_of(op, attrs, inputs, out, target).launches:
        for step in walk(launch.function.body):
            assert all(x.type.size <= most for x in (*step.operands, *step.results)), step


@pytest.mark.parametrize("name", CASES)
def test_against_the_reference(machine, execute, name):
    op, attrs, *shapes = CASES[name]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(f32.numpy) for shape in shapes]
    exact = [a.astype(f64.numpy) for a in inputs]
    reference = get(op).reference(Attrs(attrs), *exact)
    out = np.full(reference.shape, np.nan, np.float32)
    run(plan_of(op, attrs, inputs, out, machine), inputs, out, execute=execute)
    np.testing.assert_allclose(out, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("dtype", "side"), [(f32, 2), (f64, 2), (f32, 4), (f64, 4)])
def test_accuracy_of_winograd(machine, execute, monkeypatch, dtype, side):
    """By tiles of 2 x 2 it errs less than a direct sum of as many products may."""
    monkeypatch.setattr(conv_winograd, "sides", lambda options: (side,))
    monkeypatch.setattr(conv_winograd.WinogradCut, "cycles", 0.0)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 64, 14, 15)).astype(dtype.numpy)
    w = (rng.standard_normal((67, 64, 3, 3)) / 24).astype(dtype.numpy)
    attrs = sliding(padding=1)
    exact = get("conv2d").reference(Attrs(attrs), x.astype(f64.numpy), w.astype(f64.numpy))
    out = np.full(exact.shape, np.nan, dtype.numpy)
    plan = plan_of("conv2d", attrs, (x, w), out, machine)
    assert plan.launches[-1].function.name == "conv_winograd"
    run(plan, (x, w), out, execute=execute)
    error = np.sqrt(np.mean((out - exact) ** 2))  # of results of variance 1
    digits = 1.0 if dtype == f32 else 2.0**-29
    assert error < {2: 4.4e-7, 4: 2e-6}[side] * digits
    assert np.abs(out - exact).max() < {2: 3e-6, 4: 1.2e-5}[side] * digits


REACHED_BY_NAN = (
    "largest of squares", "largest of windows", "gradient of squares", "gradient of windows",
    "attention", "causal attention", "matmul", "means",
)  # fmt: skip


@pytest.mark.parametrize("name", REACHED_BY_NAN)
def test_nan_reaches_the_result(name):
    """As in PyTorch: the larger of NaN and a number is NaN, in all lanes and at all borders."""
    op, attrs, *shapes = CASES[name]
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(shape).astype(f32.numpy) for shape in shapes]
    inputs[0].reshape(-1)[rng.integers(0, inputs[0].size, 5)] = np.nan
    reference = get(op).reference(Attrs(attrs), *(a.astype(f64.numpy) for a in inputs))
    assert np.isnan(reference).any() or op.endswith("grad")
    assert not np.isnan(reference).all()
    for target in TARGETS.values():
        out = np.zeros(reference.shape, np.float32)
        plan = plan_of(op, attrs, inputs, out, target)
        run(plan, inputs, out, execute=native(target))
        np.testing.assert_allclose(out, reference, rtol=1e-4, atol=1e-4)


FUSED = [name for name in CASES if name.startswith(("matmul", "convolution", "dX by", "strided"))]


@pytest.mark.skipif("avx2" not in TARGETS, reason="another kind of processor")
@pytest.mark.parametrize("name", FUSED)
def test_products_and_sums_are_fused_where_the_machine_can(name):
    """And nowhere emulated: a machine without fused instructions multiplies, then adds."""
    op, attrs, *shapes = CASES[name]
    inputs = [np.zeros(shape, np.float32) for shape in shapes]
    out = np.zeros(get(op).reference(Attrs(attrs), *inputs).shape, np.float32)
    old = frozenset({"64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2"})
    sse2 = replace(TARGETS["narrow"], cpu="x86-64", features=old)
    found = {}
    for key, target in (("avx2", TARGETS["avx2"]), ("sse2", sse2)):
        functions = [launch.function for launch in plan_of(op, attrs, inputs, out, target).launches]
        texts = [llvm.assembly(compiler.emit_kernel(f, target), target) for f in functions]
        found[key] = "\n".join(texts)
    assert "vfmadd" in found["avx2"]
    assert "vmulps" not in found["avx2"]
    assert "mulps" in found["sse2"]
    assert "cvtps2pd" not in found["sse2"]
