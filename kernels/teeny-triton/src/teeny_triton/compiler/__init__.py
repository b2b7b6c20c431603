"""What kernel authors import from `triton.compiler`."""

from teeny_triton.compiler import errors as errors
from teeny_triton.compiler.kernel import CompiledKernel as CompiledKernel
from teeny_triton.compiler.kernel import Metadata as Metadata
from teeny_triton.errors import CompilationError as CompilationError
