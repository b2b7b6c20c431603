"""A NumPy executor of tile IR: the reference that every kernel and back end is tested against.

Programs of the grid run one after the other; each op runs once for its whole tile by the
functions of `semantics`. It is exact and slow, and it checks what compiled code may assume:
bounds of every access, divisibility and aliasing of parameters.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from teeny_core import DType, bool_, i64

from teeny_triton import semantics
from teeny_triton.debugging import printed, visit
from teeny_triton.errors import KernelError, assertion_failed, in_program
from teeny_triton.ir import Block, Function, Op, Parameter, Pointer, Type, Value
from teeny_triton.memory import AddressSpace, Array, Region, flat, poisoned

Environment: TypeAlias = dict[Value, Array]


def interpret(
    function: Function, grid: Sequence[int], arguments: Sequence[Any] | Mapping[str, Any]
) -> None:
    """Run `function` once for each program of `grid` (one to three extents).

    Pointer parameters take NumPy arrays of the pointee's dtype and any strides, which are
    written in place; scalars take numbers.

    Raises:
        KernelError: a wrong argument, an access out of bounds or a failed device_assert, with
            the source line of the op where it is known.
    """
    start = Program if sys.gettrace() is None else partial(_Stepped, function.name)
    run_grid(function, grid, arguments, AddressSpace(), start)


def run_grid(
    function: Function,
    grid: Sequence[int],
    arguments: Sequence[Any] | Mapping[str, Any],
    space: AddressSpace,
    start: Callable[[tuple[int, int, int], tuple[int, ...], AddressSpace], Program],
) -> None:
    """Do as `interpret`, in memory `space` and with programs that `start` makes."""
    extents = (*grid, 1, 1, 1)[:3]
    if not 1 <= len(grid) <= 3 or min(extents) < 0:
        raise KernelError(f"a grid has one to three extents of at least 0, not {tuple(grid)}")
    environment = _bind(function, arguments, space)
    fixed = len(space)
    axes = [range(extent) for extent in reversed(extents)]
    for z, y, x in itertools.product(*axes):
        start((x, y, z), extents, space).run(function.body, dict(environment))
        space.truncate(fixed)


def _bind(
    function: Function, arguments: Sequence[Any] | Mapping[str, Any], space: AddressSpace
) -> Environment:
    values = _by_name(function, arguments)
    arrays: dict[str, Array] = {}
    environment: Environment = {}
    for parameter in function.parameters:
        element, given = parameter.value.type.element, values[parameter.name]
        if isinstance(element, Pointer):
            array = _check_array(parameter.name, given, element.pointee)
            arrays[parameter.name] = array
            elements, origin = flat(array)
            address = space.add(Region(parameter.name, elements, origin, array))
            environment[parameter.value] = np.asarray(address, np.int64)
        else:
            environment[parameter.value] = _check_scalar(parameter, given, element)
    _check_aliases(function.parameters, arrays)
    return environment


def _by_name(function: Function, arguments: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    names = [parameter.name for parameter in function.parameters]
    if not isinstance(arguments, Mapping):
        if len(arguments) != len(names):
            raise KernelError(
                f"{function.name} takes {len(names)} arguments "
                f"({', '.join(names)}), not {len(arguments)}"
            )
        return dict(zip(names, arguments, strict=True))
    if set(arguments) != set(names):
        wrong = sorted(set(arguments) ^ set(names))
        raise KernelError(f"{function.name} takes {', '.join(names)}; wrong: {', '.join(wrong)}")
    return dict(arguments)


def _check_array(name: str, given: Any, dtype: DType) -> Array:
    if not isinstance(given, np.ndarray) or given.dtype != dtype.numpy:
        found = given.dtype if isinstance(given, np.ndarray) else type(given).__name__
        raise KernelError(f"argument {name} must be an array of {dtype}, not {found}")
    return given


def _check_scalar(parameter: Parameter, given: Any, dtype: DType) -> Array:
    try:
        value = np.asarray(given).astype(dtype.numpy)
    except (TypeError, ValueError, OverflowError) as error:
        raise KernelError(f"argument {parameter.name} must be {dtype}, not {given!r}") from error
    if value.shape != () or (not dtype.is_float and value != given):
        raise KernelError(f"argument {parameter.name} must be {dtype}, not {given!r}")
    if parameter.divisibility > 1 and int(value) % parameter.divisibility:
        raise KernelError(
            f"argument {parameter.name} must be a multiple of {parameter.divisibility}, not {given}"
        )
    return value


def _check_aliases(parameters: Sequence[Parameter], arrays: Mapping[str, Array]) -> None:
    facts = {p.name: p for p in parameters}
    for a, b in itertools.combinations(arrays, 2):
        relevant = facts[a].written or facts[b].written
        promised = facts[a].noalias or facts[b].noalias
        if relevant and promised and np.may_share_memory(arrays[a], arrays[b]):
            raise KernelError(
                f"arguments {a} and {b} overlap, but the kernel may assume that they do not",
                hint="specialise it with Facts(noalias=False) for both",
            )


class Program:
    """One program instance: its place in the grid, and its private memory."""

    def __init__(
        self, index: tuple[int, int, int], grid: tuple[int, ...], space: AddressSpace
    ) -> None:
        self.index = index
        self.grid = grid
        self.space = space
        self.scratch: dict[Op, Array] = {}

    def run(self, block: Block, env: Environment) -> tuple[Array, ...]:
        """Execute a block and return what it yields."""
        for op in block.ops:
            if op.opcode == "yield":
                return tuple(env[operand] for operand in op.operands)
            for result, value in zip(op.results, self.execute(op, env), strict=True):
                env[result] = value
        return ()

    def execute(self, op: Op, env: Environment) -> tuple[Array, ...]:
        """Return the results of one op."""
        operands = tuple(env[operand] for operand in op.operands)
        if op.opcode in semantics.ELEMENTWISE:
            return (semantics.elementwise(op.opcode, *operands),)
        if op.opcode in _CONTROL:
            return _CONTROL[op.opcode](self, op, operands, env)
        return self.compute(op, operands)

    def visit(
        self, op: Op, name: str, variables: Mapping[str, tuple[Value, Array]], statement: str
    ) -> None:
        """Run a Python statement in the place of `op`, with variables of the kernel."""
        if op.location is not None:
            shown = {key: self.shown(value, x) for key, (value, x) in variables.items()}
            visit(op.location, name, {"program": self.index, **shown}, statement)

    def shown(self, value: Value, x: Array) -> Any:
        """Return a value as a person wants to see it: numbers, tiles, and for an address the array
        that it is of, for addresses the numbers of the elements.
        """
        if not value.type.is_pointer:
            return x if value.type.shape else x.item()
        return self.space.shown(x)

    def compute(self, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return the results of an op without regions that is not elementwise, from its operands.

        Raises:
            KernelError: at the place of the op.
        """
        try:
            return _EXECUTORS[op.opcode](self, op, operands)
        except KernelError as error:
            raise _located(error, op, self.index) from error


class _Stepped(Program):
    """A program under a debugger, which sees a line of Python for each line of the kernel."""

    def __init__(self, name: str, *place: Any) -> None:
        super().__init__(*place)
        self._name = name
        self._line: tuple[str, int] | None = None

    def execute(self, op: Op, env: Environment) -> tuple[Array, ...]:
        """Pass the line of the op, then return its results."""
        if op.location is not None and (op.location.file, op.location.line) != self._line:
            self._line = op.location.file, op.location.line
            names = {value.name: value for value in env if value.name}
            self.visit(op, self._name, {name: (v, env[v]) for name, v in names.items()}, "pass")
        return super().execute(op, env)


Executor: TypeAlias = Callable[[Program, Op, tuple[Array, ...]], tuple[Array, ...]]
Control: TypeAlias = Callable[[Program, Op, tuple[Array, ...], Environment], tuple[Array, ...]]


def _located(error: KernelError, op: Op, index: tuple[int, int, int]) -> KernelError:
    message = in_program(f"{op.opcode} {error.message}", op.location, index)
    return KernelError(message, hint=error.hint)


def _element(kind: Type) -> DType:
    assert isinstance(kind.element, DType)
    return kind.element


def _const(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    dtype = _element(op.result.type)
    return (np.asarray(op.attrs["value"]).astype(dtype.numpy),)


def _program_id(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return (np.asarray(program.index[op.attrs["axis"]], np.int32),)


def _num_programs(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return (np.asarray(program.grid[op.attrs["axis"]], np.int32),)


def _arange(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return (np.arange(op.attrs["start"], op.attrs["end"], dtype=np.int32),)


def _broadcast(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return (np.broadcast_to(operands[0], op.result.type.shape).copy(),)


def _expand_dims(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return (np.expand_dims(operands[0], op.attrs["axis"]),)


def _trans(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return (np.ascontiguousarray(operands[0].transpose(op.attrs["order"])),)


def _reshape(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return (operands[0].reshape(op.result.type.shape),)


def _join(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return (np.stack(operands, axis=-1),)


def _split(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return (operands[0][..., 0].copy(), operands[0][..., 1].copy())


def _cat(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return (np.concatenate(operands, axis=op.attrs["axis"]),)


def _cast(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return (semantics.cast(operands[0], _element(op.result.type)),)


def _bitcast(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    dtype = i64 if op.result.type.is_pointer else _element(op.result.type)
    return (semantics.bitcast(operands[0], dtype),)


def _reduce(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return (semantics.reduce(op.attrs["kind"], operands[0], op.attrs["axis"]),)


def _sort(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    axis, keep, descending = (op.attrs[name] for name in ("axis", "keep", "descending"))
    return (semantics.sort(operands[0], axis, keep, descending=descending),)


def _gather(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    (x, index), axis = operands, op.attrs["axis"]
    wrong = (index < 0) | (index >= x.shape[axis])
    if wrong.any():
        found = int(index[wrong][0])
        raise KernelError(f"reads index {found}, outside the {x.shape[axis]} elements of its axis")
    return (semantics.gather(x, index, axis),)


def _flip(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return (np.flip(operands[0], op.attrs["axis"]).copy(),)


def _histogram(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    (bins,) = op.result.type.shape
    return (semantics.histogram(operands[0], bins, _mask(operands, 1)),)


def _dot(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return (semantics.dot(*operands),)


def _dot_words(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    a, b, acc = operands
    return (semantics.dot_words(a, b, acc, op.attrs["left"], op.attrs["right"]),)


def _addptr(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    element = op.result.type.element
    assert isinstance(element, Pointer)
    pointer, offset = operands
    return (np.asarray(pointer + offset.astype(np.int64) * element.pointee.itemsize),)


def _mask(operands: tuple[Array, ...], index: int) -> Array:
    shape = operands[0].shape
    return operands[index] if len(operands) > index else np.ones(shape, bool_.numpy)


def _load(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    zero = np.zeros(op.result.type.shape, _element(op.result.type).numpy)
    other = operands[2] if len(operands) == 3 else zero
    return (program.space.read(operands[0], _mask(operands, 1), other),)


def _store(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    program.space.write(operands[0], operands[1], _mask(operands, 2))
    return ()


def _atomic_rmw(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    kind = op.attrs["kind"]

    def change(old: Array, value: Array) -> Array:
        return semantics.atomic(kind, old, value)

    return (_atomically(program, operands[:2], _mask(operands, 2), change),)


def _atomic_cas(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    mask = np.ones(operands[0].shape, bool_.numpy)

    def swap(old: Array, expected: Array, value: Array) -> Array:
        return np.where(semantics.same_bits(old, expected), value, old)

    return (_atomically(program, operands, mask, swap),)


def _atomically(
    program: Program, operands: tuple[Array, ...], mask: Array, change: Callable[..., Array]
) -> Array:
    """Change elements one by one, because lanes may share an address; return the old ones."""
    addresses, *values = operands
    old = np.zeros_like(values[0])
    active = np.asarray(True)
    for lane in map(tuple, np.argwhere(mask)):
        place = np.asarray(addresses[lane])
        here = program.space.read(place, active, np.asarray(old[lane]))
        program.space.write(place, change(here, *(np.asarray(x[lane]) for x in values)), active)
        old[lane] = here
    return old


def _prefetch(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return ()


def _breakpoint(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    pairs = zip(op.operands, operands, strict=True)
    variables = dict(zip(op.attrs["names"].split(), pairs, strict=True))
    program.visit(op, op.attrs["function"], variables, "breakpoint()")
    return ()


def _scratch(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    if op not in program.scratch:
        element = op.result.type.element
        assert isinstance(element, Pointer)
        region = Region("scratch", poisoned(op.attrs["size"], element.pointee))
        program.scratch[op] = np.asarray(program.space.add(region), np.int64)
    return (program.scratch[op],)


def _assert(
    program: Program, op: Op, operands: tuple[Array, ...], env: Environment
) -> tuple[Array, ...]:
    if not operands[0].all():
        raise assertion_failed(op.attrs["message"], op.location, program.index)
    return ()


def _print(program: Program, op: Op, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    pointers = [x.type.is_pointer for x in op.operands]
    hexadecimal = op.attrs.get("hex", False)
    texts = [
        printed(x, hexadecimal or pointer) for x, pointer in zip(operands, pointers, strict=True)
    ]
    print(f"pid {program.index} {op.attrs['prefix']}", *itertools.chain(*texts))
    return ()


def _fold(
    program: Program, op: Op, operands: tuple[Array, ...], env: Environment
) -> list[tuple[Array, ...]]:
    """Combine elements along the axis from the first one on; return all partial results."""
    (body,), axis = op.regions, op.attrs["axis"]
    slices = list(zip(*(np.moveaxis(x, axis, 0) for x in operands), strict=True))
    if op.attrs.get("reverse"):
        slices.reverse()
    partial = [slices[0]]
    for following in slices[1:]:
        combined = program.run(body, _enter(env, body, (*partial[-1], *following)))
        shapes = (x.shape for x in following)
        partial.append(tuple(map(np.broadcast_to, combined, shapes)))
    return partial


def _reduce_by(
    program: Program, op: Op, operands: tuple[Array, ...], env: Environment
) -> tuple[Array, ...]:
    return tuple(x.copy() for x in _fold(program, op, operands, env)[-1])


def _scan(
    program: Program, op: Op, operands: tuple[Array, ...], env: Environment
) -> tuple[Array, ...]:
    partial = _fold(program, op, operands, env)
    if op.attrs["reverse"]:
        partial.reverse()
    return tuple(np.stack(part, axis=op.attrs["axis"]) for part in zip(*partial, strict=True))


def _for(
    program: Program, op: Op, operands: tuple[Array, ...], env: Environment
) -> tuple[Array, ...]:
    lower, upper, step = (int(x) for x in operands[:3])
    if step <= 0:
        raise _located(KernelError(f"steps by {step}, not forwards"), op, program.index)
    carried = operands[3:]
    (body,) = op.regions
    for i in range(lower, upper, step):
        induction = np.asarray(i).astype(operands[0].dtype)
        carried = program.run(body, _enter(env, body, (induction, *carried)))
    return carried


def _while(
    program: Program, op: Op, operands: tuple[Array, ...], env: Environment
) -> tuple[Array, ...]:
    test, body = op.regions
    carried = operands
    while program.run(test, _enter(env, test, carried))[0]:
        carried = program.run(body, _enter(env, body, carried))
    return carried


def _if(
    program: Program, op: Op, operands: tuple[Array, ...], env: Environment
) -> tuple[Array, ...]:
    yes, no = op.regions
    return program.run(yes if operands[0] else no, env)


def _enter(env: Environment, block: Block, arguments: Sequence[Array]) -> Environment:
    env.update(zip(block.arguments, arguments, strict=True))
    return env


_CONTROL: Mapping[str, Control] = {
    "device_assert": _assert,
    "for": _for,
    "while": _while,
    "if": _if,
    "reduce_by": _reduce_by,
    "scan": _scan,
}

_EXECUTORS: Mapping[str, Executor] = {
    "const": _const,
    "program_id": _program_id,
    "num_programs": _num_programs,
    "arange": _arange,
    "splat": _broadcast,
    "broadcast": _broadcast,
    "expand_dims": _expand_dims,
    "trans": _trans,
    "reshape": _reshape,
    "join": _join,
    "split": _split,
    "cat": _cat,
    "cast": _cast,
    "bitcast": _bitcast,
    "addptr": _addptr,
    "load": _load,
    "store": _store,
    "atomic_rmw": _atomic_rmw,
    "atomic_cas": _atomic_cas,
    "prefetch": _prefetch,
    "scratch": _scratch,
    "reduce": _reduce,
    "sort": _sort,
    "gather": _gather,
    "flip": _flip,
    "histogram": _histogram,
    "dot": _dot,
    "dot_words": _dot_words,
    "device_print": _print,
    "breakpoint": _breakpoint,
}
