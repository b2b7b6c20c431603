"""Typed errors of teeny.

Every error is one readable message; where something can be done about it the text ends with a
line `hint: ...`. Classes also derive from the built-in that Python code expects in their place.
"""

from __future__ import annotations


class TeenyError(Exception):
    """Root of all errors that teeny raises on purpose.

    `message` is one readable text; `hint` says what can be done, or is None. `str` gives both.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class ShapeError(TeenyError, ValueError):
    """Shapes, axes or extents that do not fit together."""


class IndexingError(ShapeError, IndexError):
    """An index out of its axis, or a form of indexing that does not exist."""


class DTypeError(TeenyError, TypeError):
    """Element types that an operation does not take, or that do not promote."""


class OpError(TeenyError, ValueError):
    """An unknown operation, or one with wrong operands or attributes."""


class GraphError(TeenyError, ValueError):
    """A graph that breaks its own rules: what `Graph.verify` finds."""


class TraceError(TeenyError, RuntimeError):
    """A function that cannot be traced, or a value asked of a symbolic tensor."""


class GradientError(TeenyError, RuntimeError):
    """A gradient that does not exist: of integers, or of a result that is no scalar."""


class DeviceError(TeenyError, RuntimeError):
    """An unknown device, or one that cannot do what was asked."""


class ConfigError(TeenyError, ValueError):
    """A setting, option or argument of a command with a value outside its valid ones."""


class LoadError(TeenyError, ValueError):
    """A file that is damaged, foreign, or does not fit the model."""


class DataError(TeenyError, ValueError):
    """Input data that is missing or damaged: a file of images, a picture."""


class CompileError(TeenyError, RuntimeError):
    """A graph that the compiler cannot lower, or a stage that it does not have."""


class KernelError(TeenyError, ValueError):
    """A kernel that does not type-check, compile or launch."""
