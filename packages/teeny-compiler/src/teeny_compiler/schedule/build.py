"""FXGraph → Schedule: fuse, order, lower, and plan the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from teeny_triton.launch import Choose, ScalarArg, Template
from teeny_triton.target import Target

from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.lower.call import Call, Calls, Place, StorageArg
from teeny_compiler.lower.kernels import NestKernels
from teeny_compiler.lower.templates import TemplateLowering, installed_templates, offers
from teeny_compiler.nest.estimate import estimate
from teeny_compiler.nest.read import placed, read_group
from teeny_compiler.schedule.fixed import fixed_values
from teeny_compiler.schedule.fuse import describe, fuse
from teeny_compiler.schedule.horizontal import Launch, horizontal
from teeny_compiler.schedule.inplace import with_reuse
from teeny_compiler.schedule.memory import Arena, Lifetime, pack
from teeny_compiler.schedule.plan import EXTERNAL, Buffer, BufferKind, BufferRef, Schedule, Step
from teeny_compiler.schedule.prepare import prepare
from teeny_compiler.schedule.tasks import Plan, Task, plan_tasks

_RANKS = (*EXTERNAL, "constant", "arena")


def make_schedule(
    graph: FXGraph,
    target: Target,
    templates: Sequence[Template] | None = None,
    *,
    frozen: bool = False,
    choose: Choose | None = None,
    options: Mapping[str, bool] | None = None,
) -> Schedule:
    """Return the kernel launches that compute a graph on a machine.

    Args:
        graph: what to compute.
        target: the machine.
        templates: kernels of libraries; None: those of the installed ones.
        frozen: whether parameters that the graph does not update never change: what depends on
            them alone is then computed once.
        choose: decides where a library knows several ways; None: its first one.
        options: what libraries may and may not do, by name: `fast` and `direct`.

    Raises:
        CompileError: when the graph holds an op that nothing computes.
    """
    known = installed_templates() if templates is None else templates
    ready = prepare(graph, partial(offers, known, target))
    fixed = fixed_values(ready, frozen=frozen)

    def makes(template: int, operand: int) -> bool:
        node = ready.nodes[template]
        types = (*(ready.nodes[i].type for i in node.inputs), node.type)
        flat = all(len(kind.shape) == 2 for kind in types)
        return flat and offers(known, target, node.op, node.attrs, types, {operand})

    plan = with_reuse(plan_tasks(fuse(ready, fixed, makes)))
    kernels = NestKernels(target)
    lowering = TemplateLowering(ready, target, known, kernels, fixed, choose, options or {})
    lowered = [_lower(plan, task, kernels, lowering) for task in plan.tasks]
    return _Assembly(plan, lowered).schedule()


def _lower(plan: Plan, task: Task, kernels: NestKernels, lowering: TemplateLowering) -> Calls:
    label = describe(plan.fusion.graph, task.group)
    places = plan.places(task)
    if task.group.template is not None:
        return lowering.lower(task.group, places, label)
    fusion = plan.fusion
    if task.group.copy:
        nest = read_group(fusion.graph, task.group, places)
    else:
        nest = placed(fusion.nest(task.group), places)
    return Calls((kernels.call(nest, label),))


class _Assembly:
    """Puts the calls of all tasks together: buffers, their places in the arena, and steps."""

    def __init__(self, plan: Plan, lowered: Sequence[Calls]) -> None:
        self.plan = plan
        self.buffers = [
            Buffer(s.name, s.kind, s.shape, s.dtype, data=s.data) for s in plan.storages
        ]
        launches: list[Launch] = []
        once: list[bool] = []
        for number, calls in enumerate(lowered):
            whole = plan.tasks[number].once
            once += [whole or call.once for call in calls.calls]
            first = len(self.buffers)
            for k, (size, dtype) in enumerate(calls.temps):
                kind: BufferKind = "prepared" if k in calls.kept and not whole else "arena"
                self.buffers.append(Buffer(f"t{number}_{k}", kind, (size,), dtype))
            launches += [self.launch(call, first) for call in calls.calls]
        before = [launch for launch, is_once in zip(launches, once, strict=True) if is_once]
        rest = [launch for launch, is_once in zip(launches, once, strict=True) if not is_once]
        self.before, self.run = before, horizontal(rest)

    def launch(self, call: Call, first_temp: int) -> Launch:
        """Return a launch over numbers of buffers."""
        found = Launch(call, tuple(_buffer(a, first_temp) for a in call.arguments))
        written = (self.buffers[i] for i in found.writes)
        made = sum(estimate(buffer.nbytes) for buffer in written if buffer.kind == "arena")
        return replace(found, made=made)

    def schedule(self) -> Schedule:
        """Return the finished schedule."""
        arena, placed = self.place()
        order = sorted(range(len(self.buffers)), key=lambda i: _RANKS.index(self.buffers[i].kind))
        launches = (*self.before, *self.run)
        used = {i for launch in launches for i in launch.buffers if i is not None}
        order = [i for i in order if self.buffers[i].kind != "arena" or i in used]
        new = {old: number for number, old in enumerate(order)}
        buffers = []
        for i in order:
            buffer = self.buffers[i]
            offset = arena.offsets[placed.index(i)] if i in placed else 0
            buffers.append(
                Buffer(buffer.name, buffer.kind, buffer.shape, buffer.dtype, offset, buffer.data)
            )
        return Schedule(
            self.plan.fusion.graph.name,
            self.plan.fusion.graph.symbols,
            tuple(buffers),
            tuple(_step(launch, new) for launch in self.run),
            tuple(new[i] for i in self.plan.outputs),
            arena.size,
            arena.bound,
            tuple(_step(launch, new) for launch in self.before),
        )

    def place(self) -> tuple[Arena, list[int]]:
        """Pack the buffers of the arena by the steps that use them."""
        spans: dict[int, tuple[int, int]] = {}
        for step, launch in enumerate((*self.before, *self.run)):
            for i in launch.buffers:
                if i is not None and self.buffers[i].kind == "arena":
                    spans[i] = (spans.get(i, (step, step))[0], step)
        placed = sorted(spans)
        lifetimes = [Lifetime(self.buffers[i].nbytes, *spans[i]) for i in placed]
        return pack(lifetimes), placed


def _buffer(argument: Place | ScalarArg, first_temp: int) -> int | None:
    if isinstance(argument, ScalarArg):
        return None
    return argument.storage if isinstance(argument, StorageArg) else first_temp + argument.temp


def _step(launch: Launch, new: Mapping[int, int]) -> Step:
    call = launch.call
    resolved: list[BufferRef | ScalarArg] = []
    reads: dict[int, None] = {}
    writes: dict[int, None] = {}
    for parameter, argument, number in zip(
        call.function.parameters, call.arguments, launch.buffers, strict=True
    ):
        if isinstance(argument, ScalarArg) or number is None:
            assert isinstance(argument, ScalarArg)
            resolved.append(argument)
            continue
        offset = argument.offset if isinstance(argument, StorageArg) else 0
        resolved.append(BufferRef(new[number], offset))
        (writes if parameter.written else reads)[new[number]] = None
    return Step(
        call.label,
        call.function,
        call.grid,
        tuple(resolved),
        tuple(reads),
        tuple(writes),
        call.flops,
        call.bytes,
    )
