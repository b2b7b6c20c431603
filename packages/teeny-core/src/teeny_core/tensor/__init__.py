"""Tensors: lazy concrete ones, and symbolic handles while tracing, with one set of methods."""

from teeny_core.tensor.base import AnyTensor as AnyTensor
from teeny_core.tensor.base import Operand as Operand
from teeny_core.tensor.concrete import Tensor as Tensor
from teeny_core.tensor.realize import realize as realize
from teeny_core.tensor.realize import settle as settle
from teeny_core.tensor.symbolic import SymTensor as SymTensor
