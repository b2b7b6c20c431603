"""Tensors, graphs, autodiff, layers and optimisers of teeny.

What only training and files need is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from teeny_core import config as config
from teeny_core import nn as nn
from teeny_core import ops as ops
from teeny_core import shape as shape
from teeny_core.autodiff import backward as backward
from teeny_core.autodiff import grad as grad
from teeny_core.autodiff import gradients as gradients
from teeny_core.autodiff import value_and_grad as value_and_grad
from teeny_core.autodiff import vjp as vjp
from teeny_core.checkpoint import checkpoint as checkpoint
from teeny_core.context import is_training as is_training
from teeny_core.context import training as training
from teeny_core.creation import arange as arange
from teeny_core.creation import eye as eye
from teeny_core.creation import from_dlpack as from_dlpack
from teeny_core.creation import full as full
from teeny_core.creation import full_like as full_like
from teeny_core.creation import linspace as linspace
from teeny_core.creation import one_hot as one_hot
from teeny_core.creation import ones as ones
from teeny_core.creation import ones_like as ones_like
from teeny_core.creation import tensor as tensor
from teeny_core.creation import tril as tril
from teeny_core.creation import triu as triu
from teeny_core.creation import zeros as zeros
from teeny_core.creation import zeros_like as zeros_like
from teeny_core.device import Buffer as Buffer
from teeny_core.device import Device as Device
from teeny_core.device import Event as Event
from teeny_core.device import HostBuffer as HostBuffer
from teeny_core.device import Program as Program
from teeny_core.device import Stream as Stream
from teeny_core.device import default_device as default_device
from teeny_core.device import device as device
from teeny_core.device import device_names as device_names
from teeny_core.dtype import DType as DType
from teeny_core.dtype import bf16 as bf16
from teeny_core.dtype import bool_ as bool_
from teeny_core.dtype import dtype as dtype
from teeny_core.dtype import f8e4m3 as f8e4m3
from teeny_core.dtype import f8e5m2 as f8e5m2
from teeny_core.dtype import f16 as f16
from teeny_core.dtype import f32 as f32
from teeny_core.dtype import f64 as f64
from teeny_core.dtype import i8 as i8
from teeny_core.dtype import i16 as i16
from teeny_core.dtype import i32 as i32
from teeny_core.dtype import i64 as i64
from teeny_core.dtype import promote as promote
from teeny_core.dtype import u8 as u8
from teeny_core.dtype import u16 as u16
from teeny_core.dtype import u32 as u32
from teeny_core.dtype import u64 as u64
from teeny_core.einsum import einsum as einsum
from teeny_core.errors import CompileError as CompileError
from teeny_core.errors import ConfigError as ConfigError
from teeny_core.errors import DataError as DataError
from teeny_core.errors import DeviceError as DeviceError
from teeny_core.errors import DTypeError as DTypeError
from teeny_core.errors import GradientError as GradientError
from teeny_core.errors import GraphError as GraphError
from teeny_core.errors import IndexingError as IndexingError
from teeny_core.errors import KernelError as KernelError
from teeny_core.errors import LoadError as LoadError
from teeny_core.errors import OpError as OpError
from teeny_core.errors import ShapeError as ShapeError
from teeny_core.errors import TeenyError as TeenyError
from teeny_core.errors import TraceError as TraceError
from teeny_core.evaluate import evaluate as evaluate
from teeny_core.functions import as_tensor as as_tensor
from teeny_core.functions import cat as cat
from teeny_core.functions import concat as concat
from teeny_core.functions import conv2d as conv2d
from teeny_core.functions import matmul as matmul
from teeny_core.functions import maximum as maximum
from teeny_core.functions import minimum as minimum
from teeny_core.functions import stack as stack
from teeny_core.functions import where as where
from teeny_core.graph import Graph as Graph
from teeny_core.graph import Guard as Guard
from teeny_core.graph import Node as Node
from teeny_core.name_scope import name_scope as name_scope
from teeny_core.op import Attrs as Attrs
from teeny_core.op import OpDef as OpDef
from teeny_core.op import TensorType as TensorType
from teeny_core.random import bernoulli as bernoulli
from teeny_core.random import manual_seed as manual_seed
from teeny_core.random import normal as normal
from teeny_core.random import rand as rand
from teeny_core.random import randint as randint
from teeny_core.random import randn as randn
from teeny_core.random import uniform as uniform
from teeny_core.shape import Dim as Dim
from teeny_core.shape import Expr as Expr
from teeny_core.shape import Shape as Shape
from teeny_core.shape import bounds as bounds
from teeny_core.shape import ceildiv as ceildiv
from teeny_core.shape import divides as divides
from teeny_core.shape import equal as equal
from teeny_core.shape import fresh as fresh
from teeny_core.shape import numel as numel
from teeny_core.shape import substitute as substitute
from teeny_core.shape import symbol as symbol
from teeny_core.shape import symbols_of as symbols_of
from teeny_core.tensor import AnyTensor as AnyTensor
from teeny_core.tensor import SymTensor as SymTensor
from teeny_core.tensor import Tensor as Tensor
from teeny_core.tensor import realize as realize
from teeny_core.trace import compile as compile
from teeny_core.trace import trace as trace

if TYPE_CHECKING:
    from teeny_core import optim as optim
    from teeny_core import state as state
    from teeny_core.state import LoadReport as LoadReport
    from teeny_core.train import TrainStep as TrainStep
    from teeny_core.train import train_step as train_step

_LATE = {
    "LoadReport": "state",
    "TrainStep": "train",
    "optim": "optim",
    "state": "state",
    "train_step": "train",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_LATE[name]}")
    found = module if name == _LATE[name] else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
