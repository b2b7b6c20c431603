"""Arguments of launches: numbers and memory of every kind, annotations, and what is refused."""

from __future__ import annotations

import enum
import warnings
from collections import namedtuple
from typing import Any, Literal, NamedTuple, Optional

import ml_dtypes
import numpy as np
import pytest
import teeny_triton as triton
import teeny_triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_core import dtype as to_dtype
from teeny_core import f64, u8
from teeny_triton import KernelError, Ptr, TypeVar, bf16, constexpr, contiguous, f32, i32, kernel

T = TypeVar("T", f32, bf16)
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
)  # fmt: skip


@kernel
def copy(x, y, n, stride_x, stride_y, BLOCK: constexpr = 8):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(y + i * stride_y, tl.load(x + i * stride_x, mask=inside), mask=inside)


@kernel
def head(out, n, value):
    tl.store(out, n + value)


# --- memory ---


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_numpy_of_every_dtype(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = np.arange(20).astype(kind)
    y = np.zeros(20, kind)
    copy[(3,)](x[::-2], y[1::2], 10, -2, 2)
    np.testing.assert_array_equal(y[1::2].astype(np.float64), x[::-2].astype(np.float64))
    assert not y[::2].astype(np.float64).any()


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "bool"]
)
def test_torch_of_every_dtype(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    x = torch.arange(24).reshape(6, 4).to(kind)
    y = torch.zeros(6, dtype=kind)
    copy[(1,)](x[:, 1], y, 6, x.stride(0), 1)
    assert torch.equal(y.float(), x[:, 1].float())
    transposed = x.t()
    copy[(1,)](transposed[1], y, 6, transposed.stride(1), y.stride(0))
    assert torch.equal(y.float(), transposed[1].float())


@pytest.mark.usefixtures("mode")
def test_torch_with_gradients_and_of_no_axes() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.arange(4.0))
    out = torch.zeros(4)
    copy[(1,)](weight, out, 4, 1, 1)
    assert torch.equal(out, torch.arange(4.0))
    number, result = torch.tensor(3.0), torch.zeros(())
    copy[(1,)](number, result, 1, 0, 0)
    assert result.item() == 3
    with pytest.raises(KernelError, match="argument `x` of type Tensor cannot be passed"):
        copy[(1,)](torch.zeros(4, device="meta"), out, 4, 1, 1)


@pytest.mark.usefixtures("mode")
def test_the_same_key_again_runs_on_other_memory() -> None:
    outs = [np.zeros(6, np.float32) for _ in range(4)]
    for value, out in enumerate(outs):
        copy[(1,)](np.full(6, value, np.float32), out, 6, 1, 1)
    assert [out.tolist() for out in outs] == [[float(value)] * 6 for value in range(4)]


@pytest.mark.usefixtures("mode")
def test_read_only_memory_is_refused_each_time() -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    y.flags.writeable = False
    for _ in range(2):
        with pytest.raises(KernelError, match="argument `y` is written, but its memory"):
            copy[(1,)](x, y, 4, 1, 1)
    copy[(1,)](y, x, 4, 1, 1)
    assert (x == 0).all()


@pytest.mark.usefixtures("mode")
def test_memory_that_no_kernel_can_use() -> None:
    y = np.zeros(2, np.float32)
    odd = np.zeros(9, np.uint8)[1:].view(np.float32)
    for wrong, message in [
        (odd, "its elements begin between the addresses that suit their type"),
        (np.zeros(2, ">f4"), "its bytes are in the order of another machine"),
        (np.zeros(2, complex), "is no element type"),
        (np.array(["text"]), "is no element type"),
    ]:
        with pytest.raises(KernelError, match=message):
            copy[(1,)](wrong, y, 2, 1, 1)


@pytest.mark.usefixtures("mode")
def test_reinterpret() -> None:
    x = np.float32([1.0, -2.0, 0.5])
    bits = np.zeros(3, np.int32)
    wrapped = triton.reinterpret(x, tl.int32)
    copy[(1,)](wrapped, bits, 3, 1, 1)
    np.testing.assert_array_equal(bits, x.view(np.int32))
    assert (wrapped.stride(), wrapped.shape, wrapped.numel()) == ((1,), (3,), 3)
    assert wrapped.data_ptr() == x.ctypes.data
    again = triton.reinterpret(wrapped, tl.float32)
    assert isinstance(again, triton.TensorWrapper)
    assert again.base is x
    with pytest.raises(KernelError, match="elements of 4 bytes cannot be read as f16"):
        triton.reinterpret(x, tl.float16)


@pytest.mark.usefixtures("mode")
def test_reinterpret_bytes_as_eight_bit_floats() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([0x38, 0xB8, 0x40], dtype=torch.uint8)  # 1, -1 and 2 in OCP's E4M3
    out = torch.zeros(3)

    @kernel
    def widen(x, y, n: constexpr):
        i = tl.arange(0, n)
        tl.store(y + i, tl.load(x + i).to(f32))

    widen[(1,)](triton.reinterpret(x, tl.float8e4nv), out, 3)
    assert out.tolist() == [1, -1, 2]


# --- numbers ---


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (7, "i32"),
        (-(2**31), "i32"),
        (2**31, "i64"),
        (-(2**31) - 1, "i64"),
        (2**63, "u64"),
        (2**64 - 1, "u64"),
        (True, "bool"),
        (0.1, "f32"),
        (1e300, "f32"),
        (np.int8(-3), "i8"),
        (np.uint16(65535), "u16"),
        (np.float64(0.1), "f64"),
        (np.float16(0.1), "f16"),
        (ml_dtypes.bfloat16(0.1), "bf16"),
        (np.bool_(True), "bool"),
    ],
)
def test_types_of_numbers(value: Any, kind: str) -> None:
    @kernel
    def keep(out, value):
        tl.store(out, value)

    dtype = to_dtype(kind).numpy
    out = np.zeros(1, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # 1e300 is infinite in f32
        expected = np.asarray(value).astype(dtype)
        compiled = keep[(1,)](out, value)
    assert str(compiled.function.parameters[1].value.type) == kind
    assert out[0] == expected


@pytest.mark.usefixtures("mode")
def test_one_is_a_constant_of_its_own() -> None:
    out = np.zeros(1, np.float32)
    for n, value, parameters in [(1, 2, 2), (16, 2, 3), (1, True, 2), (3, 1, 2), (1, 1, 1)]:
        compiled = head[(1,)](out, n, value)
        assert out[0] == n + value
        assert len(compiled.function.parameters) == parameters


@pytest.mark.usefixtures("mode")
@given(
    numbers=st.lists(
        st.one_of(st.integers(-(2**63), 2**63 - 1), st.just(1), st.booleans(), st.floats(width=32)),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=15, deadline=None)
def test_numbers_in_tuples_arrive(numbers: list[Any]) -> None:
    out = np.zeros(len(numbers), np.float64)
    spread[(1,)](out, tuple(numbers))
    np.testing.assert_array_equal(out, np.float64(numbers))


@kernel
def spread(out, values):
    for i, value in enumerate(values):
        tl.store(out + i, value)


class Size(enum.IntEnum):
    SMALL = 3


@pytest.mark.usefixtures("mode")
def test_subclasses_of_numbers_are_numbers() -> None:
    out = np.zeros(1, np.float32)
    head[(1,)](out, Size.SMALL, np.float32(0.5))
    assert out[0] == 3.5


@pytest.mark.usefixtures("mode")
def test_constants_of_each_value() -> None:
    @kernel
    def sign(out, value: constexpr):
        tl.store(out, 1.0 / value)

    out = np.zeros(1, np.float32)
    found = []
    for value in (1, 1.0, True, 2.0, 4):
        sign[(1,)](out, value)
        found.append(out[0])
    assert found == [1, 1, 1, 0.5, 0.25]


@pytest.mark.usefixtures("mode")
def test_zeros_of_both_signs_differ() -> None:
    @kernel
    def keep(out, value: constexpr):
        tl.store(out, value)

    out = np.zeros(1, np.float32)
    for value in (0.0, -0.0, float("nan"), float("inf")):
        keep[(1,)](out, value)
        np.testing.assert_array_equal(np.signbit(out), [np.signbit(np.float32(value))])


Pair = namedtuple("Pair", ["array", "factor"])


@pytest.mark.usefixtures("mode")
def test_named_tuples_keep_their_names() -> None:
    @kernel
    def scale(out, pair):
        tl.store(out, tl.load(pair.array) * pair.factor)

    out = np.zeros(1, np.float32)
    for factor in (1, 3, 0.5):
        scale[(1,)](out, Pair(np.float32([4]), factor))
        assert out[0] == 4 * factor


class Vector(NamedTuple):
    array: Ptr[f32] | None
    n: Any
    BLOCK: constexpr


@kernel
def total(vector: Vector, more, out):
    i = tl.arange(0, vector.BLOCK)
    value = tl.full((), 0.5, f32)
    if vector.array is not None:
        value += tl.sum(tl.load(vector.array + i, mask=i < vector.n, other=0.0))
    for each in tl.static_range(more.BLOCK):
        value += each
    tl.store(out, value)


@pytest.mark.usefixtures("mode")
def test_named_tuples_with_fields_that_are_constants() -> None:
    x, out = np.arange(10, dtype=np.float32), np.zeros(1, np.float32)
    constant = constexpr(4)  # says it where no annotation does
    for vector, expected in ((Vector(x, 5, 8), 16.5), (Vector(x, 9, 16), 42.5)):
        total[(1,)](vector, Vector(None, None, constant), out)
        assert out[0] == expected
    total[(1,)](Vector(None, 5, 8), Vector(x, 1, constexpr(0)), out)
    assert out[0] == 0.5
    with pytest.raises(KernelError, match="argument `vector_0` must be ptr<f32>, not ptr<f64>"):
        total[(1,)](Vector(x.astype(np.float64), 5, 8), Vector(None, None, constant), out)


def test_user_classes_of_tiles_are_refused() -> None:
    with pytest.raises(KernelError, match="`Queue` cannot become a type of kernels") as caught:

        @tl.core._aggregate
        class Queue:
            pass

    assert caught.value.hint == "make it a NamedTuple"


# --- annotations ---


@kernel
def typed(
    x: Ptr[T, contiguous], out: Ptr[f32], n: i32, scale: f64, kind: constexpr[Literal["a", "b"]]
):
    i = tl.arange(0, 4)
    tl.store(out + i, (tl.load(x + i, mask=i < n) * scale).to(f32), mask=i < n)


@kernel
def sized(out: Ptr[f32, contiguous], flag: constexpr[bool], n: constexpr[int] = 3):
    tl.store(out, n)


@pytest.mark.usefixtures("mode")
def test_contiguous_memory_is_taken() -> None:
    out = np.zeros(4, np.float32)
    square = np.arange(16, dtype=np.float32).reshape(4, 4)
    typed[(1,)](square, out, 4, 2.0, "a")
    np.testing.assert_array_equal(out, [0, 2, 4, 6])
    typed[(1,)](square[1:2], out, 4, 2.0, "b")
    np.testing.assert_array_equal(out, [8, 10, 12, 14])
    sized[(1,)](out, True)
    assert out[0] == 3


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize(
    ("changed", "message", "hint"),
    [
        (
            {"x": np.zeros((4, 4), np.float32).T},
            r"`x` must be contiguous, not of shape \(4, 4\) and strides \(1, 4\)",
            "pass a contiguous copy of it",
        ),
        (
            {"x": np.zeros(4)},
            r"`x` must be ptr<T, contiguous> where T is f32 or bf16, not ptr<f64>",
            "",
        ),
        ({"out": np.zeros(4, np.float16)}, r"`out` must be ptr<f32>, not ptr<f16>", ""),
        ({"n": 2.5}, "`n` must be i32, not 2.5", ""),
        ({"n": 2**40}, "`n` must be i32, not 1099511627776", ""),
        ({"n": True}, "`n` must be i32, not True", ""),
        ({"n": None}, "`n` must be i32, not None", ""),
        ({"n": np.zeros(4, np.int32)}, r"`n` must be i32, not ptr<i32>", ""),
        ({"x": 3}, r"`x` must be ptr<T, contiguous> where T is f32 or bf16, not i32", ""),
        ({"kind": "c"}, "`kind` must be one of 'a', 'b', not 'c'", ""),
        (
            {"kind": np.zeros(1)},
            "`kind` must be a Python value, not ndarray",
            "declared as constexpr",
        ),
        (
            {"more": 1},
            "typed: got an unexpected keyword argument 'more'",
            "its parameters are x, out",
        ),
    ],
)
def test_arguments_that_do_not_fit(changed: dict[str, Any], message: str, hint: str) -> None:
    good = {
        "x": np.ones(4, np.float32),
        "out": np.zeros(4, np.float32),
        "n": 4,
        "scale": 2.0,
        "kind": "a",
    }
    typed[(1,)](**good)
    assert good["out"].tolist() == [2] * 4
    good["out"][:] = 0
    with pytest.raises(KernelError, match=message) as caught:
        typed[(1,)](**{**good, **changed})
    assert hint in (caught.value.hint or "")
    assert "\n" not in caught.value.message
    assert not good["out"].any()


@kernel
def maybe(out: Ptr[f32], bias: Ptr[f32] = None, n: i32 = 2):
    value = 0.0 if bias is None else tl.load(bias)
    tl.store(out, value + n)


@pytest.mark.usefixtures("mode")
def test_a_default_needs_not_be_of_the_type_declared() -> None:
    out = np.zeros(1, np.float32)
    maybe[(1,)](out)
    assert out[0] == 2
    maybe[(1,)](out, None, 3)
    assert out[0] == 3
    maybe[(1,)](out, np.float32([0.5]))
    assert out[0] == 2.5
    for wrong in ({"bias": "text"}, {"bias": 3}, {"n": None}, {"n": "2"}):
        with pytest.raises(KernelError, match="must be"):
            maybe[(1,)](out, **wrong)


@kernel
def optional(
    x: Ptr[T] | None,
    out: Ptr[f32],
    n: i32 | None,
    more: Optional[Ptr[f32, contiguous]],  # noqa: UP045 - others say so
    k: constexpr[int] | None = None,
):
    value = tl.full((), 0.25 if k is None else k, f32)
    if x is not None:
        value += tl.load(x).to(f32)
    if n is not None:
        value += n
    tl.store(out, value if more is None else value + tl.load(more))


@pytest.mark.usefixtures("mode")
def test_none_where_the_annotation_says_so() -> None:
    assert str(optional.specs["x"]) == "ptr<T> or None"
    x, out = np.float32([3]), np.zeros(1, np.float32)
    given = {(None, None, None): 0.25, (x.tobytes(), None, None): 3.25, (None, 5, None): 5.25,
             (None, 7, x.tobytes()): 10.25}  # fmt: skip
    for (first, n, more), expected in given.items():
        arrays = [None if each is None else x for each in (first, more)]
        optional[(1,)](arrays[0], out, n, arrays[1])
        assert out[0] == expected
    optional[(1,)](x, out, 1, x, 2)
    assert out[0] == 9
    pair = np.float32([[1, 2], [3, 4]])
    wrong: list[tuple[Any, ...]] = [
        (x, None, 1, None), (np.float64([3]), out, 1, None), (3, out, 1, None),
        (x, out, 0.5, None), (x, out, "1", None), (x, out, 1, pair.T), (x, out, 1, None, 0.5),
    ]  # fmt: skip
    for arguments in wrong:
        with pytest.raises(KernelError, match="must be"):
            optional[(1,)](*arguments)


def test_a_union_that_holds_for_no_pointer() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        Ptr[f32] | Ptr[bf16]
    assert Optional[Ptr[f32]] == (None | Ptr[f32])  # noqa: UP045


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"flag": 1}, "`flag` must be bool, not 1"),
        ({"flag": True, "n": True}, "`n` must be int, not True"),
        ({"flag": True, "n": "3"}, "`n` must be int, not '3'"),
        ({"flag": True, "n": [1, 2]}, r"`n` must be int, not \[1, 2\]"),
        ({}, "sized: missing a required argument: 'flag'"),
    ],
)
def test_constants_of_the_wrong_kind(arguments: dict[str, Any], message: str) -> None:
    out = np.zeros(1, np.float32)
    with pytest.raises(KernelError, match=message):
        sized[(1,)](out, **arguments)
    assert out[0] == 0


def test_constants_without_a_hash() -> None:
    out = np.zeros(1, np.float32)

    @kernel
    def k(out, table: constexpr):
        tl.store(out, 1.0)

    with pytest.raises(KernelError, match="cannot be a constant of a kernel"):
        k[(1,)](out, {"a": 1})


def test_annotations_that_mean_nothing() -> None:
    for item in (3, (f32, 2), (f32, contiguous, contiguous), "f32"):
        with pytest.raises(KernelError, match="a pointer cannot point at"):
            Ptr[item]


S = TypeVar("S", u8, f32)


@kernel
def fill(out: Ptr[S], value: S):
    tl.store(out, value)


@pytest.mark.usefixtures("mode")
def test_small_integers_by_type_variable() -> None:
    out = np.zeros(1, np.uint8)
    fill[(1,)](out, 255)
    assert out[0] == 255
    for wrong in (256, -1, 0.5):
        with pytest.raises(KernelError, match="argument `value` must be u8"):
            fill[(1,)](out, wrong)
    wide = np.zeros(1, np.float32)
    fill[(1,)](wide, 256)
    assert wide[0] == 256
