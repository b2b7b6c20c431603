"""The pipeline: ordered, named stages from a graph to object code, each printable.

    graph -> fxgraph -> optimised -> schedule -> tile -> llvm -> asm -> object

Every stage is a pure function of the value before it. Under TEENY_DEBUG each value is verified, the
seconds of each stage are printed, and more of what happens (see `observe`). `compile_graph` looks
into the cache first: a program that was compiled before costs a hash of its graph and one file, so
the modules of the stages are imported only where a stage runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from teeny_core import CompileError, ConfigError, Graph, config, ops

from teeny_compiler import observe
from teeny_compiler.artifact import Artifact
from teeny_compiler.cache import compiler_key, default_cache, digest
from teeny_compiler.collect import collection_paused
from teeny_compiler.target import host_target

if TYPE_CHECKING:
    from teeny_triton.ir import Function
    from teeny_triton.launch import Choose
    from teeny_triton.target import Target

    from teeny_compiler.codegen.cpu.program import Kernel
    from teeny_compiler.codegen.objects import Objects
    from teeny_compiler.fxgraph import FXGraph
    from teeny_compiler.optimise import Policy
    from teeny_compiler.schedule import Schedule

LARGE = 64
"""Nodes of a graph from which several processes are started to compile it."""


@dataclass(frozen=True)
class CompileOptions:
    """Settings of a compilation.

    `optimise` runs the e-graph; without it the graph is scheduled as it was traced. `fast` allows
    rules and kernels that keep the value over the real numbers but round elsewhere. `frozen`
    promises that parameters which the program does not write never change, so that work on them
    alone may be done once; with `fast` it folds batch normalisation into weights. `tune` measures
    the ways that kernel libraries know to compute an op, where they are several, and takes the
    fastest. `direct` computes convolutions by their definition, never by Winograd's transforms,
    whatever `fast` says.
    """

    optimise: bool = True
    fast: bool = False
    frozen: bool = False
    tune: bool = False
    direct: bool = False

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
        given = {"tune": "on" if config.get().tune else "off", **(options or {})}
        return cls(**{name: value == "on" for name, value in given.items()})


@dataclass(frozen=True)
class Context:
    """What stages know besides the value that they work on.

    With `objects` modules are compiled as soon as they are made.
    """

    target: Target
    options: CompileOptions
    choose: Choose | None = None
    objects: Objects | None = None


@dataclass(frozen=True)
class Modules:
    """LLVM IR: a module for each distinct kernel by its symbol, then that of the program."""

    schedule: Schedule
    kernels: Mapping[Function, Kernel]
    texts: Mapping[str, str]

    def verify(self) -> None:
        """Have LLVM parse and verify every module."""
        from teeny_compiler.codegen.llvm import parse

        for text in self.texts.values():
            parse(text)


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
    from teeny_compiler.fxgraph import FXGraph
    from teeny_compiler.lower.templates import serves

    return FXGraph.from_graph(graph, lambda node: serves(node, context.target))


def _served(graph: FXGraph, context: Context) -> FXGraph:
    """Spell composites out again that were recognised and that no kernel computes."""
    composites = any(ops.get(node.op).expand is not None for node in graph.nodes)
    return _fxgraph(graph.to_graph(), context) if composites else graph


def _optimised(graph: FXGraph, context: Context) -> FXGraph:
    if not context.options.optimise:
        return graph
    from teeny_compiler.optimise import optimise

    return _served(optimise(graph, _policy(context)), context)


def _policy(context: Context) -> Policy:
    from teeny_compiler.optimise import Peaks, Policy

    options, peaks = context.options, Peaks.of(context.target)
    default = Policy(frozen=options.frozen, composites=True, peaks=peaks)
    return replace(default, safety=default.safety | {"fast"}) if options.fast else default


def _schedule(graph: FXGraph, context: Context) -> Schedule:
    from teeny_compiler.schedule import make_schedule

    options = context.options
    asked = {"fast": options.fast, "direct": options.direct}
    return make_schedule(
        graph, context.target, frozen=options.frozen, choose=context.choose, options=asked
    )


def _tiles(schedule: Schedule, context: Context) -> str:
    return "\n".join(str(function) for function in schedule.functions)


def _modules(schedule: Schedule, context: Context) -> Modules:
    from teeny_compiler.codegen.cpu.program import emit_program

    kernels: dict[Function, Kernel] = {}
    texts: dict[str, str] = {}
    for function in schedule.functions:
        symbol = kernel_symbol(function)
        kernels[function], texts[symbol] = _lower(function, symbol, context.target)
        if context.objects is not None:
            context.objects.want(symbol, texts[symbol])
    texts["teeny_program"] = emit_program(schedule, kernels, context.target)
    return Modules(schedule, kernels, texts)


def _lower(function: Function, symbol: str, target: Target) -> tuple[Kernel, str]:
    """Return a kernel and its LLVM IR, which defines `symbol`."""
    from teeny_compiler.codegen.cpu import emit_kernel, scratch_bytes
    from teeny_compiler.codegen.cpu.program import Kernel

    named = replace(function, name=symbol)
    return Kernel(symbol, scratch_bytes(named, target)), emit_kernel(named, target)


def _llvm(modules: Modules, context: Context) -> str:
    return "\n".join(modules.texts.values())


def _assembly(modules: Modules, context: Context) -> str:
    from teeny_compiler.codegen.workers import WORKERS

    texts = modules.texts.items()
    return "\n".join(WORKERS.assembly(name, text, context.target) for name, text in texts)


def _artifact(modules: Modules, context: Context) -> Artifact:
    from teeny_compiler.codegen.cpu.program import arena_bytes

    assert context.objects is not None
    objects = context.objects.all_of(modules.texts)
    return Artifact.of(modules.schedule, arena_bytes(modules.schedule, modules.kernels), objects)


STAGES = (
    Stage("graph", _same, _plain),
    Stage("fxgraph", _fxgraph, _plain),
    Stage("optimised", _optimised, _plain),
    Stage("schedule", _schedule, _plain),
    Stage("tile", _same, _tiles),
    Stage("llvm", _modules, _llvm),
    Stage("asm", _same, _assembly),
    Stage("object", _artifact, _plain),
)


EXPLAIN = "explain"
"""No stage, but printed like one: what the optimiser did."""

DRAWN = ".svg"
GRAPHS = ("graph", "fxgraph", "optimised", "schedule")
"""The stages that can be drawn: `graph.svg` and so on."""


# --- running it -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compiled:
    """A program, the seconds of each stage that made it, and whether it was found in the cache."""

    artifact: Artifact
    seconds: Mapping[str, float]
    cached: bool


def compile_graph(
    graph: Graph, target: Target | None = None, options: CompileOptions | None = None
) -> Artifact:
    """Compile a graph for a machine, the one of this process unless another is given.

    Raises:
        CompileError: when the graph cannot be lowered.
        ConfigError: when the cache folder cannot be written.
    """
    return compile_watched(graph, target or host_target(), options or CompileOptions()).artifact


def compile_watched(
    graph: Graph, target: Target, options: CompileOptions, choose: Choose | None = None
) -> Compiled:
    """Compile a graph as `compile_graph` does, and say how it went; `choose` serves `tune`."""
    start = time.perf_counter()
    cache, debug = default_cache(), config.get().debug
    key = digest("program", compiler_key(), target.key, repr(options), graph.structural_hash())
    found = cache.get(key) if debug < observe.FIRST_TEXT else None
    if found is not None:
        artifact = Artifact.from_bytes(found).renamed(graph)
        seconds = {"cache": time.perf_counter() - start}
        if debug >= observe.TIMES:
            observe.say(graph.name, f"found in the cache, {seconds['cache']:.3f} s")
        return Compiled(artifact, seconds, cached=True)
    from teeny_compiler.codegen.objects import compiling
    from teeny_compiler.codegen.workers import WORKERS, processors

    WORKERS.start(processors() if len(graph.nodes) >= LARGE else 1)
    times: dict[str, float] = {}
    with compiling(target) as objects:
        context = Context(target, options, choose if options.tune else None, objects)
        artifact = _run(graph, context, STAGES[-1].name, debug, times)
    cache.put(key, artifact.anonymous(graph).to_bytes())
    return Compiled(artifact, times, cached=False)


def compile_timed(
    graph: Graph, target: Target, options: CompileOptions, choose: Choose | None = None
) -> tuple[Schedule, Artifact]:
    """Compile a graph to a program that takes its times, see `codegen.cpu.timed`.

    Raises:
        CompileError: when the graph cannot be lowered, or the system has no known clock.
    """
    from teeny_compiler.codegen.cpu.timed import emit_timed
    from teeny_compiler.codegen.objects import compiling

    with compiling(target) as objects:
        context = Context(target, options, choose if options.tune else None, objects)
        modules: Modules = _run(graph, context, "llvm", debug=0)
        program = emit_timed(modules.schedule, modules.kernels, target)
        timed = replace(modules, texts={**modules.texts, "teeny_program": program})
        return modules.schedule, _artifact(timed, context)


def emit(
    graph: Graph,
    stage: str,
    target: Target | None = None,
    options: CompileOptions | None = None,
) -> str:
    """Return the text of a stage of the compilation of `graph`, or what the optimiser did.

    With `.svg` behind its name, a stage that is a graph is drawn.

    Raises:
        CompileError: when there is no such stage, or the graph cannot be lowered.
    """
    from teeny_compiler.codegen.objects import compiling

    if stage == EXPLAIN:
        return _explained(graph, Context(target or host_target(), options or CompileOptions()))
    name = stage.removesuffix(DRAWN)
    if name != stage and name not in GRAPHS:
        raise CompileError(
            f"there is no picture of a stage {name!r}", hint=f"drawn are {', '.join(GRAPHS)}"
        )
    found = {item.name: item for item in STAGES}.get(name)
    if found is None:
        names = ", ".join((*(item.name for item in STAGES), *(n + DRAWN for n in GRAPHS), EXPLAIN))
        raise CompileError(f"no stage is named {stage!r}", hint=f"stages are {names}")
    machine = target or host_target()
    with compiling(machine) as objects:
        wanted = objects if found is STAGES[-1] else None
        context = Context(machine, options or CompileOptions(), objects=wanted)
        value = _run(graph, context, name, config.get().debug)
        return found.text(value, context) if name == stage else _drawn(value)


def _drawn(value: Any) -> str:
    from teeny_compiler.draw import picture, svg

    return svg(picture(value))


def _explained(graph: Graph, context: Context) -> str:
    """Return the rules that fired, the cost before and after, and what nearly fired."""
    from teeny_compiler.optimise import explain

    return str(explain(_fxgraph(graph, context), _policy(context)))


@collection_paused()
def _run(
    graph: Graph, context: Context, last: str, debug: int, times: dict[str, float] | None = None
) -> Any:
    """Run the stages up to `last`; return its value, and note the seconds of each in `times`."""
    value: Any = graph
    for stage in STAGES:
        start = time.perf_counter()
        before, value = value, stage.run(value, context)
        if debug >= observe.TIMES:
            value.verify()
        seconds = time.perf_counter() - start
        if times is not None:
            times[stage.name] = seconds
        if debug >= observe.TIMES:
            observe.say(graph.name, f"{stage.name} {seconds:.3f} s")
        if debug >= observe.EGRAPH and stage.name == "optimised" and context.options.optimise:
            from teeny_compiler.optimise import explain

            report = explain(before, _policy(context))
            observe.show(graph.name, "e-graph", observe.search(report))
        if debug >= observe.LEVELS.get(stage.name, debug + 1):
            observe.show(graph.name, stage.name, stage.text(value, context))
        if stage.name == last:
            break
    return value


# --- kernels --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompiledKernel:
    """Object code of one kernel, its symbol, and the bytes of scratch that a thread gives it."""

    symbol: str
    scratch: int
    code: bytes


def _kernel_llvm(function: Function, target: Target) -> str:
    return _lower(function, function.name, target)[1]


def _kernel_assembly(function: Function, target: Target) -> str:
    from teeny_compiler.codegen.workers import WORKERS

    return WORKERS.assembly(function.name, _kernel_llvm(function, target), target)


KERNEL_STAGES: Mapping[str, Callable[[Function, Target], str]] = {
    "tile": lambda function, target: str(function),
    "llvm": _kernel_llvm,
    "asm": _kernel_assembly,
}
"""The stages of the compilation of one kernel."""


def emit_function(function: Function, stage: str, target: Target | None = None) -> str:
    """Return the text of a stage of the compilation of one kernel.

    Raises:
        CompileError: when there is no such stage, or the machine does not support an op.
    """
    if stage not in KERNEL_STAGES:
        names = ", ".join(KERNEL_STAGES)
        raise CompileError(f"no stage of a kernel is named {stage!r}", hint=f"stages are {names}")
    return KERNEL_STAGES[stage](function, target or host_target())


def kernel_symbol(function: Function) -> str:
    """Return the symbol of a kernel: equal for equal functions, else different."""
    return f"{function.name}_{function.key}"


def compile_function(function: Function, target: Target | None = None) -> CompiledKernel:
    """Compile one kernel, or find it in the cache.

    Raises:
        CompileError: an op that the machine does not support.
    """
    machine = target or host_target()
    symbol = kernel_symbol(function)
    cache = default_cache()
    key = digest("kernel", compiler_key(), machine.key, str(function))
    found = cache.get(key)
    if found is not None:
        return CompiledKernel(symbol, int.from_bytes(found[:8], "little"), found[8:])
    from teeny_compiler.codegen.workers import WORKERS

    WORKERS.start(1)
    kernel, text = _lower(function, symbol, machine)
    code = WORKERS.compile({symbol: text}, machine)[symbol]
    cache.put(key, kernel.scratch.to_bytes(8, "little") + code)
    return CompiledKernel(symbol, kernel.scratch, code)
