"""The suites by name, and those of steps of training."""

from collections.abc import Mapping

from teeny_bench.case import Suite
from teeny_bench.suites import attention, conv, gemm, kernels, mnist, models, rows

SUITES: Mapping[str, Suite] = {
    "gemm": gemm.cases,
    "pointwise": rows.pointwise,
    "softmax": rows.softmax,
    "layernorm": rows.layernorm,
    "attention": attention.cases,
    "kernels": kernels.cases,
    "conv": conv.cases,
    "mnist": mnist.cases,
    "models": models.cases,
}

TRAINING: Mapping[str, Suite] = {"models": models.training}
