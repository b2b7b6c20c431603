"""Errors of running and tuning kernels."""

from teeny_triton.errors import AutotunerError as AutotunerError
from teeny_triton.errors import InterpreterError as InterpreterError
from teeny_triton.errors import OutOfResources as OutOfResources
from teeny_triton.errors import PTXASError as PTXASError
from teeny_triton.errors import TritonError as TritonError
