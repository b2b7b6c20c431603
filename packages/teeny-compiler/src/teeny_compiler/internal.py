"""What drivers use of the compiler: semi-public, and stable only among packages of one release.

What a program found in the cache does without is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from teeny_compiler.artifact import Artifact as Artifact
from teeny_compiler.artifact import Port as Port
from teeny_compiler.cache import Cache as Cache
from teeny_compiler.cache import CacheInfo as CacheInfo
from teeny_compiler.cache import compiler_key as compiler_key
from teeny_compiler.cache import default_cache as default_cache
from teeny_compiler.cache import digest as digest
from teeny_compiler.codegen.llvm import Library as Library
from teeny_compiler.codegen.llvm import compile_object as compile_object
from teeny_compiler.codegen.llvm import target_machine as target_machine
from teeny_compiler.observe import KERNELS as KERNELS
from teeny_compiler.observe import show as show
from teeny_compiler.pipeline import Compiled as Compiled
from teeny_compiler.pipeline import CompiledKernel as CompiledKernel
from teeny_compiler.pipeline import CompileOptions as CompileOptions
from teeny_compiler.pipeline import compile_function as compile_function
from teeny_compiler.pipeline import compile_graph as compile_graph
from teeny_compiler.pipeline import compile_timed as compile_timed
from teeny_compiler.pipeline import compile_watched as compile_watched
from teeny_compiler.pipeline import emit as emit
from teeny_compiler.pipeline import emit_function as emit_function
from teeny_compiler.pool import emit_pool as emit_pool
from teeny_compiler.target import host_target as host_target

if TYPE_CHECKING:
    from teeny_compiler.codegen.workers import WORKERS as WORKERS
    from teeny_compiler.profile import EVENT_WORDS as EVENT_WORDS
    from teeny_compiler.profile import HEAD_WORDS as HEAD_WORDS
    from teeny_compiler.profile import Profile as Profile
    from teeny_compiler.profile import Row as Row
    from teeny_compiler.profile import Span as Span

_LATE = {
    "EVENT_WORDS": "profile",
    "HEAD_WORDS": "profile",
    "Profile": "profile",
    "Row": "profile",
    "Span": "profile",
    "WORKERS": "codegen.workers",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"teeny_compiler.{_LATE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
