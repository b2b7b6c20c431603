"""The pipeline: ordered, named stages from a graph to object code, each printable.

    graph -> fxgraph -> optimised -> schedule -> tile -> llvm -> asm -> object

Every stage is a pure function of the value before it. Under TEENY_DEBUG each value is verified and
the seconds of each stage are printed. `compile_graph` looks into the cache first: a program that
was compiled before costs a hash of its graph and one file, so the modules of the stages are
imported only where a stage runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from teeny_core import CompileError, ConfigError, Graph, config
from teeny_triton.ir import Function
from teeny_triton.target import Target

from teeny_compiler.artifact import Artifact
from teeny_compiler.cache import compiler_key, default_cache, digest
from teeny_compiler.codegen.llvm import assembly, compile_object
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.target import host_target

if TYPE_CHECKING:
    from teeny_compiler.codegen.cpu.program import Kernel
    from teeny_compiler.schedule import Schedule


@dataclass(frozen=True)
class CompileOptions:
    """Settings of a compilation.

    `optimise` runs the e-graph; without it the graph is scheduled as it was traced.
    """

    optimise: bool = True

    @classmethod
    def of(cls, options: Mapping[str, str] | None) -> CompileOptions:
        """Read options by name, each `on` or `off`.

        Raises:
            ConfigError: for a name or a value that does not exist.
        """
        known = [field.name for field in fields(cls)]
        for name, value in (options or {}).items():
            if name not in known or value not in ("on", "off"):
                raise ConfigError(
                    f"the compiler has no option {name}={value}",
                    hint=f"options are {', '.join(f'{name}=on|off' for name in known)}",
                )
        return cls(**{name: value == "on" for name, value in (options or {}).items()})


@dataclass(frozen=True)
class Context:
    """What stages know besides the value that they work on."""

    target: Target
    options: CompileOptions


# --- values of the last stages --------------------------------------------------------------------


@dataclass(frozen=True)
class Modules:
    """LLVM IR: a module for each distinct kernel, by its symbol, and that of the program."""

    schedule: Schedule
    kernels: Mapping[Function, Kernel]
    functions: Mapping[str, Function]
    program: str

    def verify(self) -> None:
        """Have LLVM parse and verify the program's module; kernels are when they are compiled."""
        from teeny_compiler.codegen.llvm import parse

        parse(self.program)


@dataclass(frozen=True)
class Stage:
    """A step of the pipeline: `run` makes its value from the one before, `text` prints it."""

    name: str
    run: Callable[[Any, Context], Any]
    text: Callable[[Any, Context], str]


def _same(value: Any, context: Context) -> Any:
    return value


def _plain(value: Any, context: Context) -> str:
    return str(value)


def _fxgraph(graph: Graph, context: Context) -> FXGraph:
    return FXGraph.from_graph(graph)


def _optimised(graph: FXGraph, context: Context) -> FXGraph:
    if not context.options.optimise:
        return graph
    from teeny_compiler.optimise import optimise

    return optimise(graph)


def _schedule(graph: FXGraph, context: Context) -> Schedule:
    from teeny_compiler.schedule import make_schedule

    return make_schedule(graph, context.target)


def _tiles(schedule: Schedule, context: Context) -> str:
    return "\n".join(str(function) for function in schedule.functions)


def _modules(schedule: Schedule, context: Context) -> Modules:
    from teeny_compiler.codegen.cpu import scratch_bytes
    from teeny_compiler.codegen.cpu.program import Kernel, emit_program

    functions: dict[str, Function] = {}
    kernels: dict[Function, Kernel] = {}
    for function in schedule.functions:
        symbol = kernel_symbol(function)
        named = functions.setdefault(symbol, replace(function, name=symbol))
        kernels[function] = Kernel(symbol, scratch_bytes(named, context.target))
    return Modules(schedule, kernels, functions, emit_program(schedule, kernels, context.target))


def _llvm(modules: Modules, context: Context) -> str:
    from teeny_compiler.codegen.cpu import emit_kernel

    kernels = [emit_kernel(function, context.target) for function in modules.functions.values()]
    return "\n".join((*kernels, modules.program))


def _assembly(modules: Modules, context: Context) -> str:
    from teeny_compiler.codegen.cpu import emit_kernel

    kernels = [emit_kernel(function, context.target) for function in modules.functions.values()]
    return "\n".join(assembly(text, context.target) for text in (*kernels, modules.program))


def _object(modules: Modules, context: Context) -> Artifact:
    from teeny_compiler.codegen.cpu.program import arena_bytes

    objects = [_kernel_object(f, context.target) for f in modules.functions.values()]
    objects.append(compile_object(modules.program, context.target))
    return Artifact.of(modules.schedule, arena_bytes(modules.schedule, modules.kernels), objects)


STAGES = (
    Stage("graph", _same, _plain),
    Stage("fxgraph", _fxgraph, _plain),
    Stage("optimised", _optimised, _plain),
    Stage("schedule", _schedule, _plain),
    Stage("tile", _same, _tiles),
    Stage("llvm", _modules, _llvm),
    Stage("asm", _same, _assembly),
    Stage("object", _object, _plain),
)


# --- running it -----------------------------------------------------------------------------------


def compile_graph(
    graph: Graph, target: Target | None = None, options: CompileOptions | None = None
) -> Artifact:
    """Compile a graph for a machine, the one of this process unless another is given.

    Raises:
        CompileError: when the graph cannot be lowered.
        ConfigError: when the cache folder cannot be written.
    """
    context = Context(target or host_target(), options or CompileOptions())
    cache = default_cache()
    key = digest(
        "program",
        compiler_key(),
        context.target.key,
        repr(context.options),
        graph.structural_hash(),
    )
    found = cache.get(key)
    if found is not None:
        return Artifact.from_bytes(found).renamed(graph)
    artifact: Artifact = _run(graph, context, STAGES[-1].name)
    cache.put(key, artifact.to_bytes())
    return artifact


def emit(
    graph: Graph,
    stage: str,
    target: Target | None = None,
    options: CompileOptions | None = None,
) -> str:
    """Return the text of a stage of the compilation of `graph`.

    Raises:
        CompileError: when there is no such stage, or the graph cannot be lowered.
    """
    context = Context(target or host_target(), options or CompileOptions())
    found = {item.name: item for item in STAGES}.get(stage)
    if found is None:
        names = ", ".join(item.name for item in STAGES)
        raise CompileError(f"no stage is named {stage!r}", hint=f"stages are {names}")
    return found.text(_run(graph, context, stage), context)


def _run(graph: Graph, context: Context, last: str) -> Any:
    """Run the stages up to `last`; return its value."""
    debug = config.get().debug
    value: Any = graph
    for stage in STAGES:
        start = time.perf_counter()
        value = stage.run(value, context)
        if debug:
            value.verify()
            seconds = time.perf_counter() - start
            print(f"teeny: {graph.name}: {stage.name} {seconds:.3f} s", file=sys.stderr)
        if stage.name == last:
            break
    return value


# --- kernels --------------------------------------------------------------------------------------


def kernel_symbol(function: Function) -> str:
    """Return the symbol of a kernel: equal for equal functions, else different."""
    return f"{function.name}_{function.key}"


def compile_function(function: Function, target: Target | None = None) -> tuple[bytes, str, int]:
    """Compile one kernel; return its object code, its symbol and its bytes of scratch.

    Raises:
        CompileError: an op that the machine does not support.
    """
    from teeny_compiler.codegen.cpu import scratch_bytes

    machine = target or host_target()
    named = replace(function, name=kernel_symbol(function))
    return _kernel_object(named, machine), named.name, scratch_bytes(named, machine)


def _kernel_object(function: Function, target: Target) -> bytes:
    cache = default_cache()
    key = digest("kernel", compiler_key(), target.key, str(function))
    found = cache.get(key)
    if found is None:
        from teeny_compiler.codegen.cpu import emit_kernel

        found = compile_object(emit_kernel(function, target), target)
        cache.put(key, found)
    return found
