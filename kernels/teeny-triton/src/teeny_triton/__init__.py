"""The typed, Triton-like kernel language of teeny: tile IR, front end and interpreter.

The names below are loaded when they are first used: to run a compiled program takes few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teeny_triton import compiler as compiler
    from teeny_triton import ir as ir
    from teeny_triton import language as language
    from teeny_triton import runtime as runtime
    from teeny_triton import testing as testing
    from teeny_triton import tools as tools
    from teeny_triton.arguments import MockTensor as MockTensor
    from teeny_triton.arguments import TensorWrapper as TensorWrapper
    from teeny_triton.arguments import reinterpret as reinterpret
    from teeny_triton.builder import Builder as Builder
    from teeny_triton.compatibility import compatible as compatible
    from teeny_triton.compiler import CompiledKernel as CompiledKernel
    from teeny_triton.compiler.kernel import DeviceKernel as DeviceKernel
    from teeny_triton.decorator import Kernel as Kernel
    from teeny_triton.decorator import KernelInterface as KernelInterface
    from teeny_triton.decorator import jit as jit
    from teeny_triton.decorator import kernel as kernel
    from teeny_triton.errors import AutotunerError as AutotunerError
    from teeny_triton.errors import CompilationError as CompilationError
    from teeny_triton.errors import InterpreterError as InterpreterError
    from teeny_triton.errors import KernelError as KernelError
    from teeny_triton.errors import OutOfResources as OutOfResources
    from teeny_triton.errors import TritonError as TritonError
    from teeny_triton.frontend.specialise import specialise as specialise
    from teeny_triton.functions import constexpr_function as constexpr_function
    from teeny_triton.functions import knobs as knobs
    from teeny_triton.functions import must_use_result as must_use_result
    from teeny_triton.functions import set_allocator as set_allocator
    from teeny_triton.interpreter import interpret as interpret
    from teeny_triton.language import Ptr as Ptr
    from teeny_triton.language import Tile as Tile
    from teeny_triton.language import TypeVar as TypeVar
    from teeny_triton.language import bf16 as bf16
    from teeny_triton.language import bool_ as bool_
    from teeny_triton.language import build_function as build_function
    from teeny_triton.language import cdiv as cdiv
    from teeny_triton.language import constexpr as constexpr
    from teeny_triton.language import contiguous as contiguous
    from teeny_triton.language import f8e4m3 as f8e4m3
    from teeny_triton.language import f8e5m2 as f8e5m2
    from teeny_triton.language import f16 as f16
    from teeny_triton.language import f32 as f32
    from teeny_triton.language import f64 as f64
    from teeny_triton.language import for_ as for_
    from teeny_triton.language import i8 as i8
    from teeny_triton.language import i16 as i16
    from teeny_triton.language import i32 as i32
    from teeny_triton.language import i64 as i64
    from teeny_triton.language import if_ as if_
    from teeny_triton.language import loop as loop
    from teeny_triton.language import next_power_of_2 as next_power_of_2
    from teeny_triton.language import u8 as u8
    from teeny_triton.language import u16 as u16
    from teeny_triton.language import u32 as u32
    from teeny_triton.language import u64 as u64
    from teeny_triton.language import while_ as while_
    from teeny_triton.language import yield_ as yield_
    from teeny_triton.language.control import Facts as Facts
    from teeny_triton.parser import parse as parse
    from teeny_triton.runtime import JITFunction as JITFunction
    from teeny_triton.sanitizer import Finding as Finding
    from teeny_triton.sanitizer import SanitizerError as SanitizerError
    from teeny_triton.sanitizer import sanitize as sanitize
    from teeny_triton.target import Target as Target
    from teeny_triton.tune import Config as Config
    from teeny_triton.tune import autotune as autotune
    from teeny_triton.tune import heuristics as heuristics
    from teeny_triton.verifier import verify as verify

__version__ = "3.4.0"
"""The version of Triton whose language this is; teeny's own is in the package's metadata."""

_PLACES = {
    "AutotunerError": "errors",
    "Builder": "builder",
    "CompilationError": "errors",
    "CompiledKernel": "compiler",
    "Config": "tune",
    "DeviceKernel": "compiler.kernel",
    "Facts": "language.control",
    "Finding": "sanitizer",
    "InterpreterError": "errors",
    "JITFunction": "runtime",
    "Kernel": "decorator",
    "KernelError": "errors",
    "KernelInterface": "decorator",
    "MockTensor": "arguments",
    "OutOfResources": "errors",
    "Ptr": "language",
    "SanitizerError": "sanitizer",
    "Target": "target",
    "TensorWrapper": "arguments",
    "Tile": "language",
    "TritonError": "errors",
    "TypeVar": "language",
    "autotune": "tune",
    "bf16": "language",
    "bool_": "language",
    "build_function": "language",
    "cdiv": "language",
    "compatible": "compatibility",
    "compiler": "compiler",
    "constexpr": "language",
    "constexpr_function": "functions",
    "contiguous": "language",
    "f16": "language",
    "f32": "language",
    "f64": "language",
    "f8e4m3": "language",
    "f8e5m2": "language",
    "for_": "language",
    "heuristics": "tune",
    "i16": "language",
    "i32": "language",
    "i64": "language",
    "i8": "language",
    "if_": "language",
    "interpret": "interpreter",
    "ir": "ir",
    "jit": "decorator",
    "kernel": "decorator",
    "knobs": "functions",
    "language": "language",
    "loop": "language",
    "must_use_result": "functions",
    "next_power_of_2": "language",
    "parse": "parser",
    "reinterpret": "arguments",
    "runtime": "runtime",
    "sanitize": "sanitizer",
    "set_allocator": "functions",
    "specialise": "frontend.specialise",
    "testing": "testing",
    "tools": "tools",
    "u16": "language",
    "u32": "language",
    "u64": "language",
    "u8": "language",
    "verify": "verifier",
    "while_": "language",
    "yield_": "language",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = _PLACES[name]
    module = import_module(f"{__name__}.{place}")
    found = module if place == name else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
