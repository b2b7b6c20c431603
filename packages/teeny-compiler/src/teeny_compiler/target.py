"""The machine that this process runs on, as a `Target`."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path

from teeny_triton import Target

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@cache
def host_target() -> Target:
    """Describe the machine that this process runs on."""
    from llvmlite import binding

    triple = binding.get_process_triple()
    available = binding.get_host_cpu_features()
    features = frozenset(name for name, present in available.items() if present)
    bits, registers = vector_unit(triple, features)
    caches = _cache_sizes(_CACHES)
    defaults = Target(triple, "", features, bits, registers)
    return Target(
        triple=triple,
        cpu=binding.get_host_cpu_name(),
        features=features,
        vector_bits=bits,
        vector_registers=registers,
        l1_bytes=caches.get(1, defaults.l1_bytes),
        l2_bytes=caches.get(2, defaults.l2_bytes),
        l3_bytes=caches.get(3, defaults.l3_bytes),
    )


def vector_unit(triple: str, features: AbstractSet[str]) -> tuple[int, int]:
    """Return the width in bits and the number of the vector registers of a CPU."""
    architecture = triple.partition("-")[0]
    if architecture in ("aarch64", "arm64"):
        return 128, 32
    for feature, bits, registers in (("avx512f", 512, 32), ("avx", 256, 16), ("sse2", 128, 16)):
        if feature in features:
            return bits, registers
    if architecture.startswith("wasm") and "simd128" in features:
        return 128, 16
    return (128, 16) if architecture == "x86_64" else (0, 16)


def _cache_sizes(folder: Path) -> dict[int, int]:
    """Read {level: bytes} of the data caches; empty where the system does not tell."""
    sizes: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            level = int((index / "level").read_text())
            text = (index / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and text:
            sizes[level] = _bytes(text)
    return sizes


def _bytes(text: str) -> int:
    unit = _UNITS.get(text[-1], 1)
    return int(text.rstrip("KMG")) * unit
