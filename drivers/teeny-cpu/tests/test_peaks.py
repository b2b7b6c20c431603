from dataclasses import replace

import pytest
from teeny_compiler.codegen import cpu, llvm
from teeny_core import f32, i64
from teeny_cpu import peaks
from teeny_triton import Target, specialise
from teeny_triton.ir import Pointer

FEATURES = {256: "avx2 fma", 512: "avx512f avx2 fma"}
BASE = Target("x86_64-unknown-linux-gnu", "x86-64", frozenset(), 0, 16)


@pytest.mark.parametrize("bits", FEATURES)
def test_chains_of_multiply_adds_stay_in_registers(bits: int) -> None:
    registers = 32 if bits == 512 else 16
    features = frozenset(FEATURES[bits].split())
    target = replace(BASE, features=features, vector_bits=bits, vector_registers=registers)
    signature = {"x": Pointer(f32), "steps": i64}
    size = peaks.chain_lanes(target)
    function = specialise(peaks.fma_chains, signature, {"SIZE": size})
    code = llvm.assembly(cpu.emit_kernel(function, target), target)
    assert "Spill" not in code
    assert code.count("vfmadd") == size // target.lanes(f32) >= 12


def test_the_peak_is_a_rate() -> None:
    assert peaks.fma_peak(1) > 0
