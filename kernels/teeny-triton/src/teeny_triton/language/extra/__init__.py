"""What Triton keeps beside the language: `from teeny_triton.language.extra import libdevice`."""

from teeny_triton.language.extra import cuda as cuda
from teeny_triton.language.extra import libdevice as libdevice
