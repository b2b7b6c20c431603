"""Runs of kernels that check every access: bounds, races, overflow, scratch memory, assertions."""

from teeny_triton.sanitizer.checker import LIMIT as LIMIT
from teeny_triton.sanitizer.checker import sanitize as sanitize
from teeny_triton.sanitizer.findings import Finding as Finding
from teeny_triton.sanitizer.findings import SanitizerError as SanitizerError
