"""Messages of errors: the operation, the types, what is wrong, and a hint."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
import teeny_core as tn

X = tn.zeros(2, 3)
IMAGE = tn.zeros(1, 4, 8, 8)
FILTERS = tn.zeros(6, 4, 3, 3)

CASES: list[tuple[Callable[[], object], type[tn.TeenyError], str]] = [
    (lambda: X @ X, tn.ShapeError, "matmul(f32[2, 3], f32[2, 3]): inner extents differ, 3 and 2"),
    (
        lambda: tn.ops.matmul_integer(
            tn.ops.input("a", (2, 3), tn.f32), tn.ops.input("b", (3, 2), tn.i8)
        ),
        tn.DTypeError,
        "matmul_integer(f32[2, 3], i8[3, 2]): takes i8 or u8",
    ),
    (lambda: X + tn.zeros(2), tn.ShapeError, "cannot broadcast [2, 3] and [2]: 3 and 2 on axis -1"),
    (lambda: X.sum(2), tn.ShapeError, "axis 2 does not exist, the rank is 2"),
    (lambda: X.sum((0, 0)), tn.ShapeError, "an axis is named twice in (0, 0)"),
    (lambda: X.reshape(4, 2), tn.ShapeError, "reshape(f32[2, 3]): 6 elements do not fill [4, 2]"),
    (lambda: X.reshape(-1, 4), tn.ShapeError, "cannot infer -1 in reshape of [2, 3] to [-1, 4]"),
    (lambda: X.reshape(-1, -1), tn.ShapeError, "cannot infer -1"),
    (lambda: X.permute(0, 0), tn.ShapeError, "(0, 0) is no permutation of the axes"),
    (lambda: X.permute(1), tn.ShapeError, "(1,) is no permutation of the axes"),
    (lambda: X.broadcast_to(4, 3), tn.ShapeError, "cannot repeat [2, 3] to [4, 3]"),
    (lambda: X.pad([(1, 1)]), tn.ShapeError, "pad got 1 pairs for f32[2, 3]"),
    (lambda: X.pad([(0, 0), (-1, 0)]), tn.ShapeError, "negative padding"),
    (lambda: X.squeeze(0), tn.ShapeError, "squeeze(0) of f32[2, 3]: the extent is not 1"),
    (lambda: X.split([1, 2], 1) and X.split([1, 1], 1), tn.ShapeError, "do not add up to 3"),
    (lambda: X.cast("i32").softmax(), tn.DTypeError, "softmax takes floats, got i32[2, 3]"),
    (lambda: X | 1, tn.DTypeError, "bitwise_or(f32[2, 3], f32[2, 3]): takes integers or bools"),
    (lambda: -(X > 0), tn.DTypeError, "neg(bool[2, 3]): takes numbers, got bool"),
    (lambda: X.bitcast("f64"), tn.DTypeError, "cannot read f32 as f64"),
    (lambda: tn.zeros(2, dtype="u8") + 300, tn.OpError, "300 is outside of u8, 0 to 255"),
    (lambda: tn.Tensor(1.0) @ X, tn.ShapeError, "a scalar is no matrix"),
    (lambda: tn.Tensor([[1], [1, 2]]), tn.ShapeError, "cannot make a tensor"),
    (lambda: tn.Tensor(["a"]), tn.DTypeError, "is no element type"),
    (lambda: tn.concat([]), tn.ShapeError, "concat of no tensors"),
    (lambda: tn.arange(3, 9, 0), tn.OpError, "arange with step 0"),
    (lambda: tn.tril(tn.zeros(3)), tn.ShapeError, "a triangle of f32[3]"),
    # each argument of a convolution and of pooling that has no meaning
    (lambda: IMAGE.conv2d(FILTERS, dilation=-1), tn.ShapeError, "dilation = (-1, -1)"),
    (lambda: IMAGE.conv2d(FILTERS, stride=0), tn.ShapeError, "stride = (0, 0)"),
    (lambda: IMAGE.conv2d(FILTERS, padding=-1), tn.ShapeError, "padding = ((-1, -1), (-1, -1))"),
    (lambda: IMAGE.conv2d(FILTERS, groups=3), tn.ShapeError, "groups = 3 does not divide"),
    (lambda: IMAGE.conv2d(FILTERS, groups=0), tn.ShapeError, "groups = 0"),
    (lambda: IMAGE.conv2d(FILTERS, groups=2), tn.ShapeError, "filters of 4 channels in 2 groups"),
    (lambda: IMAGE.conv2d(FILTERS, stride=(1, 2, 3)), tn.ShapeError, "stride = (1, 2, 3)"),
    (lambda: IMAGE.conv2d(FILTERS, padding="full"), tn.ShapeError, "padding = 'full'"),
    (lambda: IMAGE.conv2d(FILTERS, padding="same", stride=2), tn.ShapeError, "padding 'same' with"),
    (lambda: IMAGE[..., :2].conv2d(FILTERS), tn.ShapeError, "a window of 3 is larger"),
    (lambda: IMAGE[0].conv2d(FILTERS), tn.ShapeError, "operands have four axes"),
    (lambda: IMAGE.cast("i32").conv2d(FILTERS.cast("i32")), tn.DTypeError, "takes floats, got i32"),
    (lambda: IMAGE.max_pool2d(0), tn.ShapeError, "kernel = (0, 0)"),
    (lambda: IMAGE.max_pool2d(2, 0), tn.ShapeError, "stride = (0, 0)"),
    (lambda: IMAGE.max_pool2d(2, padding=2), tn.ShapeError, "is more than half of the window"),
    (lambda: IMAGE.avg_pool2d(9), tn.ShapeError, "a window of 9 is larger"),
    (lambda: IMAGE.avg_pool2d(2, padding=-1), tn.ShapeError, "padding = "),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[2][:40])
def test_messages(case: tuple[Callable[[], object], type[tn.TeenyError], str]) -> None:
    function, kind, message = case
    with pytest.raises(kind) as caught:
        function()
    text = str(caught.value)
    assert message in text
    first, last = text.rsplit("\n", 1)
    assert "\n" not in first
    assert last.startswith("hint: ")
    assert last == f"hint: {caught.value.hint}"


def test_errors_are_those_that_python_expects() -> None:
    assert issubclass(tn.ShapeError, ValueError)
    assert issubclass(tn.DTypeError, TypeError)
    assert issubclass(tn.IndexingError, IndexError)
    assert issubclass(tn.ConfigError, ValueError)


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(tn.ShapeError("wrong", hint="right")))
    assert str(error) == "wrong\nhint: right"
    assert str(tn.TeenyError("plain")) == "plain"
