"""The uses that tools measure are such as the library serves."""

import pytest
from teeny_core.op import Attrs, TensorType, get
from teeny_kernels.uses import USES, Use

OPS = [use for use in USES if isinstance(use, Use) and use.op != "conv2d_relu_max_pool2d"]


@pytest.mark.parametrize("use", OPS, ids=lambda use: use.name)
def test_results_are_what_the_op_gives(use):
    operands = [TensorType(shape, use.dtype) for shape in use.shapes]
    result = get(use.op).infer(operands, Attrs(use.attrs))
    assert result == TensorType(use.output, use.result or use.dtype)


def test_uses_have_kernels(wide):
    wanted = ("matmul NN 64", "max pool 2 dX", "conv+relu+pool lenet conv1", "adam")
    found = [use.functions(wide) for use in USES if use.name in wanted]
    names = [function.name for functions in found for function in functions]
    assert names == ["matmul", "conv_rows", "max_pool_squares_grad", "adam"]
