"""Kernels, where kernel authors look for them."""

from teeny_triton.arguments import MockTensor as MockTensor
from teeny_triton.arguments import TensorWrapper as TensorWrapper
from teeny_triton.arguments import reinterpret as reinterpret
from teeny_triton.decorator import Kernel as JITFunction
from teeny_triton.decorator import KernelInterface as KernelInterface
from teeny_triton.decorator import jit as jit
from teeny_triton.functions import constexpr_function as constexpr_function
from teeny_triton.functions import must_use_result as must_use_result

__all__ = ["JITFunction"]
