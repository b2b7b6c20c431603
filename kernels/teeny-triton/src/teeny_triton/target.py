"""What a kernel may know of the machine it is compiled for."""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass

from teeny_core import DType


@dataclass(frozen=True)
class Target:
    """A machine for code generation, with a stable hash that keys compile caches.

    `vector_bits` is the widest vector worth using (0 for a scalar machine), `vector_registers` the
    number of such registers; cache sizes are bytes for one core (`l3_bytes`: shared).
    """

    triple: str
    cpu: str
    features: frozenset[str]
    vector_bits: int
    vector_registers: int
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 512 * 1024
    l3_bytes: int = 8 * 1024 * 1024
    cache_line: int = 64
    pointer_bits: int = 64

    def lanes(self, dtype: DType) -> int:
        """Number of `dtype` elements in a vector register, at least 1."""
        return max(1, self.vector_bits // dtype.bits)

    def has(self, feature: str) -> bool:
        """Whether the machine has an LLVM feature such as `avx512f`."""
        return feature in self.features

    @property
    def key(self) -> str:
        """A stable hexadecimal digest of all fields."""
        fields = tuple(sorted(f) if isinstance(f, frozenset) else f for f in astuple(self))
        return hashlib.sha256(repr(fields).encode()).hexdigest()[:16]
