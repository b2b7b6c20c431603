"""Template ops: which kernel computes them, and how it is asked.

A library's template is asked first, with the epilogue; when it does not take that, without, and
the epilogue becomes a kernel of its own. What no library serves is computed by a plain loop nest
(`nest.bodies`), which takes any epilogue, or by a serial kernel (`serial`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from teeny_core import CompileError, Dim, DType, Node, TensorType, numel
from teeny_core.internal import entry_points
from teeny_triton.launch import (
    BufferArg,
    Choose,
    Epilogue,
    Operand,
    Plan,
    Request,
    ScalarArg,
    Template,
    launches_once,
    plans,
    prologues,
)
from teeny_triton.target import Target

from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.lower.call import Call, Calls, Place, StorageArg, TempArg
from teeny_compiler.lower.epilogue import extra_operands, make_epilogue, make_prologue
from teeny_compiler.lower.kernels import NestKernels
from teeny_compiler.lower.serial import SERIAL
from teeny_compiler.nest.bodies import body_of
from teeny_compiler.nest.group import Group
from teeny_compiler.nest.moves import operand_view, template_bases
from teeny_compiler.nest.nest import Nest, Store
from teeny_compiler.nest.read import InexpressibleError, Storages, read_group
from teeny_compiler.nest.view import View, row_major

GROUP = "teeny.kernels"
RAW = -1
"""The storage, a task's own memory, in which a template's result waits for a separate epilogue."""


@cache
def installed_templates() -> tuple[Template, ...]:
    """Return the templates of all installed kernel libraries, by entry point.

    An entry point names a template or a sequence of them.

    Raises:
        CompileError: when two entry points share a name, or one cannot be loaded.
    """
    found: list[Template] = []
    names: dict[str, str] = {}
    for point in sorted(entry_points(GROUP), key=lambda point: point.name):
        other = names.setdefault(point.name, point.value)
        if other != point.value:
            raise CompileError(
                f"two packages give kernels named {point.name!r}: {other} and {point.value}",
                hint="uninstall one of them",
            )
        try:
            loaded = point.load()
        except (ImportError, AttributeError) as error:
            raise CompileError(
                f"the kernels {point.name!r} cannot be loaded: {error}",
                hint=f"reinstall the package that provides {point.value}",
            ) from error
        found += loaded if isinstance(loaded, Sequence) else [loaded]
    return tuple(found)


def serves(node: Node, target: Target, templates: Sequence[Template] | None = None) -> bool:
    """Say whether a library computes an op on row-major operands by a kernel of its own."""
    types = tuple(x.type for x in (*node.inputs, node))
    known = installed_templates() if templates is None else templates
    return offers(known, target, node.op, node.attrs, types)


def offers(
    templates: Sequence[Template],
    target: Target,
    op: str,
    attrs: Mapping[str, Any],
    types: Sequence[TensorType],
    made: Set[int] = frozenset(),
) -> bool:
    """Say whether any of some templates computes an op on row-major operands.

    `types` are those of the operands and, last, of the result; operands by the numbers `made` would
    be made by a prologue.
    """
    templates = [template for template in templates if made <= prologues(template)]
    if not any(op in template.ops for template in templates):
        return False
    *inputs, output = (Operand(x.shape, row_major(x.shape), x.dtype) for x in types)
    request = Request(op, dict(attrs), tuple(inputs), output)
    return not _is_empty(*inputs, output) and any(
        op in t.ops and t.plan(request, target) is not None for t in templates
    )


@dataclass(frozen=True)
class TemplateLowering:
    """Lowers groups with a template for a machine, by the templates of some libraries."""

    graph: FXGraph
    target: Target
    templates: Sequence[Template]
    kernels: NestKernels
    fixed: Set[int] = frozenset()
    choose: Choose | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def lower(self, group: Group, storages: Storages, label: str) -> Calls:
        """Return the launches that compute a group.

        Raises:
            CompileError: when nothing computes the template's op.
        """
        calls = self._fused(group, storages, label) or self._apart(group, storages, label)
        if calls is not None:
            return calls
        number = _template(group)
        body = body_of(self.graph, number)
        if body is not None:
            nest = read_group(self.graph, group, storages, body)
            return Calls((self.kernels.call(nest, label),))
        calls = self._apart(group, storages, label, in_order=True)
        if calls is not None:
            return calls
        node = self.graph.nodes[number]
        raise CompileError(
            f"no kernel computes {node.op} of type {node.type}",
            hint="install teeny-kernels, or cast to another type",
        )

    def _fused(self, group: Group, storages: Storages, label: str) -> Calls | None:
        """Ask the libraries for the template with everything after it as its epilogue."""
        targets = storages.targets(_template(group))
        if not group.roots and len(targets) == 1:
            output = StorageArg(targets[0])
            return self._ask((*self.templates, *SERIAL), group, storages, output, label)
        try:
            nest = read_group(self.graph, group, storages)
        except InexpressibleError:
            return None
        main = _own_store(nest)
        if main is None:
            return None
        view = main.view.reaxed(nest.axes)
        if view.flat_strides() is None:
            return None
        result = _operand(view, nest.dtypes[main.operand])
        output = StorageArg(nest.operands[main.operand], view.offset)
        if len(nest.instructions) == len(nest.stores) == 1:  # moved, but not changed
            return self._ask(self.templates, group, storages, output, label, result)
        shape = self.graph.nodes[_template(group)].shape
        epilogue = make_epilogue(nest, nest.axes, main.operand, shape)
        extra = tuple(nest.operands[i] for i in extra_operands(nest, main.operand))
        return self._ask(self.templates, group, storages, output, label, result, epilogue, extra)

    def _apart(
        self, group: Group, storages: Storages, label: str, *, in_order: bool = False
    ) -> Calls | None:
        """Ask for the template alone, and compute what follows it by a kernel of its own.

        With `in_order` the template gets copies of those operands that do not lie row-major.
        """
        number = _template(group)
        node = self.graph.nodes[number]
        copies = self._copies(number, storages, label) if in_order else {}
        places = {operand: TempArg(-2 - k) for k, operand in enumerate(copies)}
        calls = self._ask(
            (*self.templates, *SERIAL), group, storages, TempArg(RAW), label, copied=places
        )
        if calls is None:
            return None
        rest = group
        if not group.roots:
            rest = Group((number,), node.shape, stored=group.stored, copy=True)

        def home(i: int) -> int | None:
            return RAW if i == number else storages.home(i)

        nest = read_group(self.graph, rest, Storages(home, storages.targets))
        after = self.kernels.call(nest, f"{label}, apart", {RAW: TempArg(RAW)})
        own = [RAW, *(place.temp for place in places.values())]
        temps = [number, *copies]
        first = len(calls.temps)
        placed: dict[Place | ScalarArg, Place] = {
            TempArg(temp): TempArg(first + k) for k, temp in enumerate(own)
        }
        all_calls = tuple(
            replace(c, arguments=tuple(placed.get(a, a) for a in c.arguments))
            for c in (*copies.values(), *calls.calls, after)
        )
        kinds = [self.graph.nodes[i].type for i in temps]
        return Calls(
            all_calls, (*calls.temps, *((numel(kind.shape), kind.dtype) for kind in kinds))
        )

    def _copies(self, number: int, storages: Storages, label: str) -> dict[int, Call]:
        """Return, for each operand that does not lie row-major, the call that copies it."""
        copies: dict[int, Call] = {}
        bases = template_bases(self.graph, number)
        for operand, base in zip(self.graph.nodes[number].inputs, bases, strict=True):
            shape = self.graph.nodes[operand].shape
            view = operand_view(self.graph, operand, base)
            if operand in copies or view == View.contiguous(shape).simplified():
                continue
            temp = -2 - len(copies)
            group = Group((operand,), shape, stored=frozenset((operand,)))
            nest = read_group(self.graph, group, Storages(storages.home, _only(temp)))
            copies[operand] = self.kernels.call(nest, f"{label}, copy", {temp: TempArg(temp)})
        return copies

    def _ask(
        self,
        templates: Sequence[Template],
        group: Group,
        storages: Storages,
        output: Place,
        label: str,
        result: Operand | None = None,
        epilogue: Epilogue | None = None,
        extra: Sequence[int] = (),
        copied: Mapping[int, Place] | None = None,
    ) -> Calls | None:
        """Return the launches of the first template that serves the node of a group."""
        number = _template(group)
        node = self.graph.nodes[number]
        attrs: dict[str, Any] = dict(node.attrs)
        operands: list[Operand] = []
        places: dict[BufferArg, Place] = {BufferArg("output"): output}
        bases = template_bases(self.graph, number)
        for i, operand in enumerate(node.inputs):
            base = bases[i]
            if base in group.made:
                made, sources = self._made(operand, base, storages)
                operands.append(made)
                places.update({BufferArg("made", k): StorageArg(s) for k, s in enumerate(sources)})
                continue
            home = storages.home(base)
            assert home is not None, f"%{base} is read by a template but in no memory"
            view = operand_view(self.graph, operand, base)
            if copied and operand in copied:
                shape = self.graph.nodes[operand].shape
                operands.append(_operand(View.contiguous(shape), self.graph.nodes[operand].dtype))
                places[BufferArg("input", i)] = copied[operand]
                continue
            described = _operand(view, self.graph.nodes[operand].dtype)
            operands.append(replace(described, constant=base in self.fixed))
            places[BufferArg("input", i)] = StorageArg(home, view.offset)
        if node.op in ("matmul", "matmul_integer"):
            operands = [
                _row_major(operand, attrs, name)
                for operand, name in zip(operands, ("transpose_a", "transpose_b"), strict=True)
            ]
        places.update({BufferArg("extra", i): StorageArg(s) for i, s in enumerate(extra)})
        in_order = Operand(node.shape, row_major(node.shape), node.dtype)
        to = result or in_order
        request = Request(node.op, attrs, tuple(operands), to, epilogue, self.options)
        if _is_empty(*operands, in_order):
            templates = SERIAL
        choice = self._choice(templates, request)
        if choice is None:
            return None
        template, plan = choice
        once = launches_once(plan, request)
        return _resolve(plan, places, f"{label} by {template.name}", once)

    def _made(self, number: int, base: int, storages: Storages) -> tuple[Operand, Sequence[int]]:
        """Describe an operand that is made where it is read, with the storages that takes."""
        node = self.graph.nodes[number]
        group = Group((number,), node.shape, stored=frozenset((number,)))
        nest = read_group(self.graph, group, Storages(storages.home, _only(RAW)), by_axis=True)
        sources = tuple(storage for storage in nest.operands if storage != RAW)
        described = _operand(operand_view(self.graph, number, base), node.dtype)
        return replace(described, prologue=make_prologue(nest, node.shape)), sources

    def _choice(
        self, templates: Sequence[Template], request: Request
    ) -> tuple[Template, Plan] | None:
        """Return the first way to serve a request, or of a library's ways the one to choose."""
        made = {i for i, operand in enumerate(request.inputs) if operand.prologue is not None}
        templates = [template for template in templates if made <= prologues(template)]
        tuned = self.choose is not None and not made
        known = [template for template in templates if template not in SERIAL] if tuned else []
        ways = [(t, plan) for t in known for plan in plans(t, request, self.target)]
        if self.choose is not None and ways:
            return ways[self.choose(request, [plan for _, plan in ways])]
        for template in templates:
            plan = template.plan(request, self.target) if request.op in template.ops else None
            if plan is not None:
                return template, plan
        return None


def _is_empty(*operands: Operand) -> bool:
    """Say whether an operand has no elements: libraries are not asked for what is no work."""
    return any(0 in operand.shape for operand in operands)


def _only(storage: int) -> Callable[[int], Sequence[int]]:
    return lambda node: (storage,)


def _template(group: Group) -> int:
    assert group.template is not None
    return group.template


def _resolve(plan: Plan, places: Mapping[BufferArg, Place], label: str, once: Set[int]) -> Calls:
    """Put storages in the place of the operands that a plan names."""

    def place(argument: BufferArg | ScalarArg) -> Place | ScalarArg:
        if isinstance(argument, ScalarArg):
            return argument
        return TempArg(argument.index) if argument.kind == "temp" else places[argument]

    calls = tuple(
        Call(
            label,
            launch.function,
            launch.grid,
            tuple(map(place, launch.arguments)),
            launch.flops,
            launch.bytes,
            number in once,
        )
        for number, launch in enumerate(plan.launches)
    )
    return Calls(calls, tuple((temp.size, temp.dtype) for temp in plan.temps))


def _own_store(nest: Nest) -> Store | None:
    """The store that a template does itself: to an operand that the epilogue does not read."""
    read = {instruction.operand for instruction in nest.instructions}
    return next((store for store in nest.stores if store.operand not in read), nest.stores[0])


def _operand(view: View, dtype: DType) -> Operand:
    """Describe a strided view; an axis of extent 1 gets the stride that continues the next one."""
    strides = view.flat_strides()
    assert strides is not None
    filled: list[Dim] = []
    inner: Dim = 1
    for extent, stride in zip(reversed(view.shape), reversed(strides), strict=True):
        filled.append(inner if extent == 1 else stride)
        inner = filled[-1] * extent
    return Operand(view.shape, tuple(reversed(filled)), dtype)


def _row_major(operand: Operand, attrs: dict[str, Any], flag: str) -> Operand:
    """Turn strides that transpose a matrix into the flag that says so."""
    *batch, row, column = operand.strides
    if row != 1 or column == 1:
        return operand
    attrs[flag] = not attrs[flag]
    *outer, rows, columns = operand.shape
    made = None if operand.prologue is None else operand.prologue.swapped
    shape, strides = (*outer, columns, rows), (*batch, column, row)
    return replace(operand, shape=shape, strides=strides, prologue=made)
