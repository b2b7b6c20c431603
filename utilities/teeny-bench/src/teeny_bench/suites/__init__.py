"""The suites by name."""

from collections.abc import Mapping

from teeny_bench.case import Suite
from teeny_bench.suites.attention import attention
from teeny_bench.suites.conv import conv
from teeny_bench.suites.gemm import gemm
from teeny_bench.suites.mnist import mnist
from teeny_bench.suites.rows import layernorm, pointwise, softmax

SUITES: Mapping[str, Suite] = {
    "gemm": gemm,
    "pointwise": pointwise,
    "softmax": softmax,
    "layernorm": layernorm,
    "attention": attention,
    "conv": conv,
    "mnist": mnist,
}
