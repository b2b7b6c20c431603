"""Object code from LLVM IR: what a process that compiles for others needs, and nothing more.

Run as a script it serves: each request on its standard input is answered on its output. It imports
llvmlite alone, so that it is ready in about a tenth of a second.

Frames on the pipes: eight bytes of length, then the bytes. A request is whether assembly is wanted,
and a machine, both in JSON, a zero byte, and LLVM IR; an answer begins with `DONE` or `ERROR`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import IO, Any, NamedTuple

from llvmlite import binding

DONE, ERROR = b"d", b"e"
PREFIX = 8

_lock = threading.Lock()
_ready = False


class Machine(NamedTuple):
    """What LLVM is told of a machine: the CPU chooses a baseline, to which features are added."""

    triple: str
    cpu: str
    features: tuple[str, ...]

    def target_machine(self) -> Any:
        """Make an LLVM target machine; RuntimeError for an unknown triple."""
        initialise()
        family = binding.Target.from_triple(self.triple)
        features = ",".join(f"+{name}" for name in self.features)
        return family.create_target_machine(
            cpu=self.cpu, features=features, opt=2, reloc="pic", codemodel="default"
        )


def initialise() -> None:
    """Make LLVM know its targets."""
    global _ready
    with _lock:
        if not _ready:
            binding.initialize_all_targets()
            binding.initialize_all_asmprinters()
            _ready = True


def parse(text: str) -> Any:
    """Parse and verify LLVM IR; RuntimeError when it is not valid."""
    initialise()
    module = binding.parse_assembly(text)
    module.verify()
    return module


def optimise(module: Any, machine: Any) -> None:
    """Run the passes that pay: simplification of instructions and of control flow.

    LLVM's larger pipelines made no kernel faster, and compiling two to three times as long.
    """
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options())
    passes = binding.create_new_module_pass_manager()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.run(module, builder)


def emit_object(module: Any, machine: Any) -> bytes:
    """Return the object file of a module for an LLVM target machine."""
    optimise(module, machine)
    return bytes(machine.emit_object(module))


def emit_assembly(module: Any, machine: Any) -> str:
    """Return the assembly of a module with comments (spills and reloads are marked)."""
    machine.set_asm_verbosity(True)
    optimise(module, machine)
    return str(machine.emit_assembly(module))


# --- the service ----------------------------------------------------------------------------------


def write(stream: IO[bytes], data: bytes) -> None:
    """Write a frame."""
    stream.write(len(data).to_bytes(PREFIX, "little") + data)
    stream.flush()


def read(stream: IO[bytes]) -> bytes | None:
    """Return the next frame, None at the end of the stream or within a torn frame."""
    prefix = stream.read(PREFIX)
    size = int.from_bytes(prefix, "little")
    data = stream.read(size) if len(prefix) == PREFIX else b""
    return data if len(prefix) == PREFIX and len(data) == size else None


def request(text: str, machine: Machine, readable: bool = False) -> bytes:
    """Return the frame that asks for the object code of a module, or for its assembly."""
    return json.dumps([readable, *machine]).encode() + b"\0" + text.encode()


def serve() -> None:
    """Answer requests until the input ends."""
    source = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what LLVM prints must not mix with the answers
    while (frame := read(source)) is not None:
        described, _, text = frame.partition(b"\0")
        readable, triple, cpu, features = json.loads(described)
        try:
            machine = Machine(triple, cpu, tuple(features)).target_machine()
            module = parse(text.decode())
            if readable:
                answer = DONE + emit_assembly(module, machine).encode()
            else:
                answer = DONE + emit_object(module, machine)
        except RuntimeError as error:
            answer = ERROR + str(error).encode()
        write(answers, answer)


if __name__ == "__main__":
    serve()
