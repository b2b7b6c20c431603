"""The kernel library of teeny, offered to the compiler by the entry point group `teeny.kernels`."""

from teeny_kernels.templates import TEMPLATES as TEMPLATES
