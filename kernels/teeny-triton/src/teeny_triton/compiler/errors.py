"""Errors of kernels that do not compile."""

from teeny_triton.errors import CompilationError as CompilationError
from teeny_triton.errors import CompileTimeAssertionFailure as CompileTimeAssertionFailure
from teeny_triton.errors import UnsupportedLanguageConstruct as UnsupportedLanguageConstruct
