"""Functions and control flow built from plain Python, without any AST.

with build_function("scale", [("x", Ptr[f32]), ("n", i32)]) as f:
    x, n = f.arguments
    (total,) = for_(0, n, 1, (0.0,), lambda i, total: total + load(x + i))
    store(x, total)
function = f.function
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, TypeAlias

from teeny_core import DType, config, i32, i64

from teeny_triton.builder import Builder, current
from teeny_triton.errors import KernelError
from teeny_triton.ir import Block, Function, Parameter, Pointer, Type, Value
from teeny_triton.language import semantic
from teeny_triton.language.tile import Operand, Tile, raw, tile
from teeny_triton.passes import simplify, written
from teeny_triton.signs import needless_checks
from teeny_triton.verifier import verify


@dataclass(frozen=True)
class Facts:
    """What a launch guarantees of a parameter; see `ir.Parameter`."""

    alignment: int = 0
    divisibility: int = 1
    noalias: bool = True


ParameterSpec: TypeAlias = tuple[str, DType | Pointer] | tuple[str, DType | Pointer, Facts]


class build_function(AbstractContextManager["build_function"]):  # noqa: N801 - used as a statement
    """Build a function: `arguments` are its parameters, `function` the result after the block.

    What it assumes is believed, or checked as it runs where not `trusting`.
    """

    def __init__(
        self, name: str, parameters: Sequence[ParameterSpec], *, trusting: bool = True
    ) -> None:
        self.name = name
        self.parameters = tuple(_parameter(*spec) for spec in parameters)
        self.arguments = tuple(Tile(p.value) for p in self.parameters)
        self._body = Block()
        self.builder = Builder(self._body, trusting=trusting)
        self._scope = ExitStack()
        self._function: Function | None = None

    @property
    def function(self) -> Function:
        """The finished function.

        Raises:
            KernelError: inside the `with` block.
        """
        if self._function is None:
            raise KernelError(f"function {self.name} is not finished", hint="leave the `with`")
        return self._function

    def __enter__(self) -> build_function:
        self._scope.enter_context(self.builder.active())
        self._scope.enter_context(self.builder.inside(self._body))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._scope.close()
        if error is None:
            self._function = self._finish()

    def _finish(self) -> Function:
        """Simplify the body and note which pointers it writes through."""
        needless = needless_checks(self._body, self.builder.checks, self.builder.assumptions)
        simple = simplify(self._body, needless)
        stored = written(simple, [p.value for p in self.parameters if p.value.type.is_pointer])
        marked = tuple(replace(p, written=p.value in stored) for p in self.parameters)
        function = Function(self.name, marked, simple)
        return verify(function) if config.get().debug else function


def _parameter(name: str, kind: DType | Pointer, facts: Facts | None = None) -> Parameter:
    facts = facts or Facts()
    value = Value(Type((), kind), name)
    return Parameter(value, name, facts.alignment, facts.divisibility, facts.noalias)


class loop(AbstractContextManager[tuple[Tile, tuple[Tile, ...]]]):  # noqa: N801
    """A counted loop: `with (l := loop(0, n, 1, [x])) as (i, (x,)): ... yield_(x)`; `l.results`.

    The bounds are integers; `carried` values go in, `yield_` hands on the next ones, and their
    types stay.
    """

    def __init__(
        self, lower: Operand, upper: Operand, step: Operand = 1, carried: Sequence[Operand] = ()
    ) -> None:
        self._bounds = bounds(lower, upper, step)
        self._inits = tuple(tile(x).value for x in carried)
        self._body = Block()
        self._scope = ExitStack()
        self.results: tuple[Tile, ...] = ()

    def __enter__(self) -> tuple[Tile, tuple[Tile, ...]]:
        induction = Value(self._bounds[0].type, "i")
        arguments = tuple(Value(x.type, x.name) for x in self._inits)
        self._body = Block((induction, *arguments))
        self._scope.enter_context(current().inside(self._body))
        return Tile(induction), tuple(map(Tile, arguments))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._scope:
            if error is None and not self._inits and not _yields(self._body):
                yield_()
        if error is None:
            types = tuple(x.type for x in self._inits)
            check_yield(self._body, types, "loop")
            operands = (*self._bounds, *self._inits)
            results = current().emit("for", operands, {}, types, (self._body,))
            self.results = tuple(map(Tile, results))


def yield_(*values: Operand) -> None:
    """End a region, handing its values on."""
    current().emit("yield", tuple(tile(x).value for x in values))


def for_(
    lower: Operand,
    upper: Operand,
    step: Operand,
    carried: Sequence[Operand],
    body: Callable[..., Any],
) -> tuple[Tile, ...]:
    """Run `body(i, *carried)`, which returns the next carried values; returns the last ones."""
    counted = loop(lower, upper, step, carried)
    with counted as (induction, arguments):
        values = as_results(body(induction, *arguments))
        yield_(*like(values, [x.type for x in arguments], "loop"))
    return counted.results


def while_(
    carried: Sequence[Operand],
    condition: Callable[..., Operand],
    body: Callable[..., Any],
) -> tuple[Tile, ...]:
    """Run `body(*carried)` as long as `condition(*carried)` holds; returns the last values."""
    inits = tuple(tile(x).value for x in carried)
    types = tuple(x.type for x in inits)
    test = Block(tuple(Value(x.type, x.name) for x in inits))
    step = Block(tuple(Value(x.type, x.name) for x in inits))
    with current().inside(test):
        yield_(semantic.truth(raw(condition(*map(Tile, test.arguments)))))
    with current().inside(step):
        values = as_results(body(*map(Tile, step.arguments)))
        yield_(*like(values, types, "loop"))
    results = current().emit("while", inits, {}, types, (test, step))
    return tuple(map(Tile, results))


def if_(
    condition: Operand,
    then: Callable[[], Any],
    otherwise: Callable[[], Any] | None = None,
) -> tuple[Tile, ...]:
    """Run one of two functions without arguments; both return values of the same types."""
    blocks = (Block(), Block())
    returned = []
    for block, branch in zip(blocks, (then, otherwise), strict=True):
        with current().inside(block):
            returned.append(as_results(branch() if branch else None))
    return tuple(map(Tile, emit_if(condition, blocks, returned)))


def emit_if(
    condition: Operand, blocks: tuple[Block, Block], returned: Sequence[Sequence[Operand]]
) -> tuple[Value, ...]:
    """Emit an `if` of two built blocks, after their values are brought to common types."""
    yes, no = returned
    if len(yes) != len(no):
        raise KernelError(f"the branches give {len(yes)} and {len(no)} values")
    types = tuple(merged_type(raw(a), raw(b)) for a, b in zip(yes, no, strict=True))
    for block, values in zip(blocks, returned, strict=True):
        with current().inside(block):
            yield_(*like(values, types, "branch"))
    test = semantic.truth(raw(condition))
    return current().emit("if", (test,), {}, types, blocks)


def merged_type(a: semantic.Raw, b: semantic.Raw) -> Type:
    """Return the type of a value that is `a` or `b`; a Python number follows the other.

    Raises:
        KernelError: two tiles differ in type.
    """
    if isinstance(a, Value) and isinstance(b, Value):
        if a.type != b.type:
            raise KernelError(f"the branches give {a.type} and {b.type}")
        return a.type
    if isinstance(a, Value) or isinstance(b, Value):
        return a.type if isinstance(a, Value) else b.type  # type: ignore[union-attr]
    return Type((), semantic.common_dtype(a, b))


def like(values: Sequence[Operand], types: Sequence[Type], what: str) -> list[Tile]:
    """Turn Python numbers into constants of the wanted types, and check the tiles' types."""
    if len(values) != len(types):
        raise KernelError(f"the {what} gives {len(values)} values instead of {len(types)}")
    result = []
    for x, kind in zip(values, types, strict=True):
        value = raw(x)
        if not isinstance(value, Value) and isinstance(kind.element, DType):
            value = semantic.broadcast_to(semantic.value(value, kind.element), kind.shape)
        value = semantic.value(value)
        if value.type != kind:
            raise KernelError(f"the {what} gives {value.type} where {kind} is carried")
        result.append(Tile(value))
    return result


def as_results(values: Any) -> tuple[Operand, ...]:
    """Accept None, one value, or a sequence of values from a body."""
    if values is None:
        return ()
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def bounds(lower: Operand, upper: Operand, step: Operand) -> tuple[Value, Value, Value]:
    """Bring loop bounds to i32, or to i64 if any of them needs it."""
    values = [semantic.offset_of(raw(x)) for x in (lower, upper, step)]
    kind = i64 if any(x.type.element == i64 for x in values) else i32
    if any(x.type.shape for x in values):
        raise KernelError("the bounds of a loop must be scalars")
    start, stop, stride = (semantic.cast(x, kind) for x in values)
    return start, stop, stride


def check_yield(block: Block, types: Sequence[Type], what: str) -> None:
    """Raise KernelError unless `block` ends by yielding values of `types`."""
    if not _yields(block):
        raise KernelError(f"the {what} ends without yield_", hint="call tl.yield_(...) last")
    found = [x.type for x in block.ops[-1].operands]
    if found != list(types):
        raise KernelError(
            f"the {what} carries ({', '.join(map(str, types))}) "
            f"but yields ({', '.join(map(str, found))})"
        )


def _yields(block: Block) -> bool:
    return bool(block.ops) and block.ops[-1].opcode == "yield"


@dataclass(frozen=True, init=False)
class range:  # noqa: N801 - the name of the built-in that it stands for
    """The bounds of a loop that runs in the kernel: `for i in tl.range(0, n, 32)`.

    Only a @kernel can iterate over it; plain Python uses `loop` or `for_`. Scheduling hints such
    as `num_stages` are accepted.
    """

    start: Operand
    stop: Operand
    step: Operand

    def __init__(
        self, start: Operand, stop: Operand | None = None, step: Operand = 1, **hints: object
    ) -> None:
        lower, upper = (0, start) if stop is None else (start, stop)
        for name, value in (("start", lower), ("stop", upper), ("step", step)):
            object.__setattr__(self, name, value)

    def __iter__(self) -> Iterator[Any]:
        raise KernelError("tl.range runs in a @kernel only", hint="use tl.loop or tl.for_")


def static_range(start: int, stop: int | None = None, step: int = 1) -> Iterator[int]:
    """Count in Python, as `range` does: the body is unrolled.

    Raises:
        KernelError: a bound is no Python integer.
    """
    lower, upper = (0, start) if stop is None else (start, stop)
    for bound in (lower, upper, step):
        if not isinstance(bound, int):
            raise KernelError(
                f"static_range takes Python integers, not {bound!r}",
                hint="declare the parameter as tl.constexpr, or use tl.range",
            )
    return iter(builtins.range(lower, upper, step))
