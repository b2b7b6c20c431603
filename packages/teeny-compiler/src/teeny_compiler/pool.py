"""The thread pool that native programs call, as LLVM IR.

The text is in `pool.ll`; a prologue adds what differs between machines: the instruction that
eases a spinning core, and two constants of the operating system's headers.
"""

from __future__ import annotations

from teeny_core import CompileError
from teeny_triton.target import Target

# architecture -> the body that tells the core of a spin
PAUSES = {
    "x86_64": "call void @llvm.x86.sse2.pause()",
    "i686": "call void @llvm.x86.sse2.pause()",
    "aarch64": "call void @llvm.aarch64.hint(i32 1)",
    "arm64": "call void @llvm.aarch64.hint(i32 1)",
}

# operating system -> (CLOCK_MONOTONIC, SIG_SETMASK) of its C headers
CONSTANTS = {"linux": (1, 2), "darwin": (6, 3), "macosx": (6, 3)}


def system_constants(target: Target) -> tuple[int, int]:
    """Return CLOCK_MONOTONIC and SIG_SETMASK of a target's operating system.

    Raises:
        CompileError: the target's operating system has no POSIX threads that we know of.
    """
    system = target.triple.partition("-")[2]
    constants = next((pair for name, pair in CONSTANTS.items() if name in system), None)
    if constants is None or target.pointer_bits != 64:
        raise CompileError(
            f"no thread pool for {target.triple}",
            hint="compile for a 64-bit Linux or macOS machine",
        )
    return constants


def emit_pool(target: Target) -> str:
    """Return a module that defines `teeny_pool_create` and `teeny_parallel_for` and their kin.

    Raises:
        CompileError: the target's operating system has no POSIX threads that we know of.
    """
    from importlib import resources

    architecture = target.triple.partition("-")[0]
    clock, set_mask = system_constants(target)
    body = resources.files(__package__).joinpath("pool.ll").read_text(encoding="utf-8")
    prologue = (
        f'target triple = "{target.triple}"',
        f"@CLOCK_MONOTONIC = internal constant i32 {clock}",
        f"@SIG_SETMASK = internal constant i32 {set_mask}",
        "define internal void @pause() nounwind alwaysinline {",
        *(f"  {line}" for line in (PAUSES.get(architecture), "ret void") if line),
        "}",
    )
    return "\n".join(prologue) + "\n\n" + body
