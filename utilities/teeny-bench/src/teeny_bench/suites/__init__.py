"""The suites by name."""

from collections.abc import Mapping

from teeny_bench.case import Suite
from teeny_bench.suites import attention, conv, gemm, kernels, mnist, rows

SUITES: Mapping[str, Suite] = {
    "gemm": gemm.cases,
    "pointwise": rows.pointwise,
    "softmax": rows.softmax,
    "layernorm": rows.layernorm,
    "attention": attention.cases,
    "kernels": kernels.cases,
    "conv": conv.cases,
    "mnist": mnist.cases,
}
