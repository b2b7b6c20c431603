"""Expressions of a kernel: Python values are computed, tile values become ops."""

from __future__ import annotations

import ast
import inspect
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, TypeAlias

from teeny_core import TeenyError

from teeny_triton.builder import current
from teeny_triton.errors import CompilationError, Frame, KernelError, Unsupported, located
from teeny_triton.frontend.attributes import attribute
from teeny_triton.frontend.builtins import replacement
from teeny_triton.frontend.function import KernelFunction
from teeny_triton.frontend.scope import Scope, Unavailable, fill, merge
from teeny_triton.frontend.source import Source
from teeny_triton.ir import Block
from teeny_triton.language import control, debug, semantic
from teeny_triton.language import math as tl_math
from teeny_triton.language.constants import constexpr
from teeny_triton.language.tile import Operand, Tile

MAX_DEPTH = 64
"""Deepest nesting of inlined calls."""

DIFFERENT_PATHS = "give both the same type with .to(...) or tl.broadcast_to(...)"

_callers: ContextVar[tuple[tuple[Source, ast.AST], ...]] = ContextVar(
    "teeny_triton_callers", default=()
)


class Expressions(ABC):
    """Evaluates expressions of one function in a scope."""

    def __init__(self, source: Source, scope: Scope) -> None:
        self.source = source
        self.scope = scope

    @abstractmethod
    def closure(self, node: ast.Lambda | ast.FunctionDef) -> Callable[..., Any]:
        """Return the function that `node` defines, inlined where it is called."""

    @abstractmethod
    def inline(self, function: KernelFunction, args: Sequence[Any], kwargs: Any) -> Any:
        """Read the body of a helper in place and return what it returns."""

    @abstractmethod
    def body(self, statements: Sequence[ast.stmt]) -> ast.stmt | None:
        """Run the body of a run-time loop; return the statement that leaves it, if one does."""

    def at(self, node: ast.AST) -> AbstractContextManager[None]:
        """Stamp ops with the place of `node`, and point errors without a place at it."""
        return _At(self, node)

    def error(
        self,
        node: ast.AST,
        reason: str,
        hint: str | None = None,
        related: Sequence[tuple[str, ast.AST | None]] = (),
    ) -> CompilationError:
        """Return an error that points at `node`, and at `related` places of the same function."""
        others = [(what, self.source.frame(place)) for what, place in related if place is not None]
        return CompilationError(reason, self.frames(node), hint=hint, related=others)

    def frames(self, node: ast.AST) -> tuple[Frame, ...]:
        """Return the place of `node`, and those of the calls that led to it."""
        return tuple(s.frame(n) for s, n in ((self.source, node), *_callers.get()))

    def evaluate(self, node: ast.expr) -> Any:
        """Return the value of an expression."""
        if isinstance(node, ast.Constant):
            return node.value
        builder = current()  # what follows is `at`, written out: most of the time is spent here
        outer, builder.location = builder.location, self.source.location(node)
        visitor: Visitor = _VISITORS.get(type(node), _unsupported)
        try:
            return visitor(self, node)
        except CompilationError:
            raise
        except TeenyError as error:
            raise located(error, self.frames(node)) from error
        finally:
            builder.location = outer

    def compute(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call an operator; its exceptions become errors of the kernel."""
        try:
            return function(*args)
        except TeenyError:
            raise
        except Exception as error:
            raise KernelError(f"{type(error).__name__}: {error}") from error

    def apply(self, node: ast.AST, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a Python function; its exceptions become errors of the kernel."""
        token = _callers.set(((self.source, node), *_callers.get()))
        try:
            if len(_callers.get()) > MAX_DEPTH:
                raise KernelError(f"calls nest deeper than {MAX_DEPTH}", hint="avoid recursion")
            if isinstance(function, KernelFunction):
                return self.inline(function, args, kwargs)
            return function(*args, **kwargs)
        except TeenyError:
            raise
        except Exception as error:
            raise KernelError(f"{type(error).__name__}: {error}") from error
        finally:
            _callers.reset(token)

    def choose(
        self, test: Operand, blocks: tuple[Block, Block], choices: Sequence[tuple[str, Any, Any]]
    ) -> list[Any]:
        """Emit the `if` of two blocks and return what each choice (label, yes, no) becomes."""
        pairs: list[tuple[Any, Any]] = []
        merged = []
        for label, yes, no in choices:
            start = len(pairs)
            merged.append(merge(yes, no, pairs))
            for a, b in pairs[start:]:
                self._check_branches(label, a, b)
        yeses, noes = [a for a, _ in pairs], [b for _, b in pairs]
        results = [Tile(value) for value in control.emit_if(test, blocks, (yeses, noes))]
        return [fill(value, results) for value in merged]

    @staticmethod
    def _check_branches(label: str, a: Any, b: Any) -> None:
        if isinstance(a, Tile) and isinstance(b, Tile) and a.type != b.type:
            raise KernelError(
                f"{label} is {a.type} on one path and {b.type} on the other",
                hint=DIFFERENT_PATHS,
            )

    def condition(self, test: Any) -> bool | Tile:
        """Return a truth value that is known now, or the scalar that decides at run time.

        Raises:
            KernelError: the value is a tile of several elements.
        """
        if not isinstance(test, Tile):
            return bool(test)
        if test.shape:
            raise KernelError(
                f"a branch needs one truth value, not {test.type}",
                hint="choose elementwise with tl.where(condition, a, b)",
            )
        known = current().constant_of(test.value)
        return Tile(semantic.truth(test.value)) if known is None else bool(known)


class _At:
    """What `Expressions.at` enters; a class, for it is entered for every expression read."""

    __slots__ = ("builder", "node", "outer", "reader")

    def __init__(self, reader: Expressions, node: ast.AST) -> None:
        self.reader, self.node = reader, node
        self.builder = current()

    def __enter__(self) -> None:
        self.outer = self.builder.location
        self.builder.location = self.reader.source.location(self.node)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.builder.location = self.outer
        if isinstance(error, TeenyError) and not isinstance(error, CompilationError):
            raise located(error, self.reader.frames(self.node)) from error


Visitor: TypeAlias = Callable[[Expressions, Any], Any]


def _unsupported(self: Expressions, node: ast.expr) -> Any:
    raise Unsupported(f"{type(node).__name__} is not part of the kernel language")


def _name(self: Expressions, node: ast.Name) -> Any:
    found, value = self.scope.lookup(node.id)
    if not found:
        raise KernelError(f"`{node.id}` is not defined")
    return value.value if isinstance(value, constexpr) else value


def _attribute(self: Expressions, node: ast.Attribute) -> Any:
    return attribute(self.evaluate(node.value), node.attr)


def _tuple(self: Expressions, node: ast.Tuple) -> tuple[Any, ...]:
    return tuple(_spread(self, node.elts))


def _list(self: Expressions, node: ast.List) -> list[Any]:
    return list(_spread(self, node.elts))


def _spread(self: Expressions, nodes: Sequence[ast.expr]) -> Iterator[Any]:
    for node in nodes:
        if isinstance(node, ast.Starred):
            yield from self.evaluate(node.value)
        else:
            yield self.evaluate(node)


def _dict(self: Expressions, node: ast.Dict) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            result.update(self.evaluate(value))
        else:
            result[self.evaluate(key)] = self.evaluate(value)
    return result


def _slice(self: Expressions, node: ast.Slice) -> slice:
    bounds = (node.lower, node.upper, node.step)
    return slice(*(None if bound is None else self.evaluate(bound) for bound in bounds))


def _subscript(self: Expressions, node: ast.Subscript) -> Any:
    owner, index = self.evaluate(node.value), self.evaluate(node.slice)
    return self.apply(node, operator.getitem, owner, index)


def _binary(self: Expressions, node: ast.BinOp) -> Any:
    left, right = self.evaluate(node.left), self.evaluate(node.right)
    return self.compute(BINARY[type(node.op)], left, right)


def _unary(self: Expressions, node: ast.UnaryOp) -> Any:
    value = self.evaluate(node.operand)
    if isinstance(node.op, ast.Not) and isinstance(value, Tile):
        return tl_math.logical_not(value)
    return self.compute(UNARY[type(node.op)], value)


def _compare(self: Expressions, node: ast.Compare) -> Any:
    left, result = self.evaluate(node.left), True
    for comparison, right_node in zip(node.ops, node.comparators, strict=True):
        if result is False:
            return False
        right = self.evaluate(right_node)
        test = self.compute(COMPARE[type(comparison)], left, right)
        result, left = _and(result, test), right
    return result


def _boolean(self: Expressions, node: ast.BoolOp) -> Any:
    """Python values short-circuit; tiles are all evaluated."""
    is_and = isinstance(node.op, ast.And)
    combine, decisive = (_and, False) if is_and else (_or, True)
    result: Any = is_and
    for operand in node.values:
        value = self.evaluate(operand)
        if not isinstance(value, Tile) and bool(value) is decisive:
            return value if not isinstance(result, Tile) else decisive
        result = combine(result, value)
    return result


def _and(a: Any, b: Any) -> Any:
    if isinstance(a, Tile) and isinstance(b, Tile):
        return tl_math.logical_and(a, b)
    return b if not isinstance(a, Tile) else a


def _or(a: Any, b: Any) -> Any:
    if isinstance(a, Tile) and isinstance(b, Tile):
        return tl_math.logical_or(a, b)
    return b if not isinstance(a, Tile) else a


def _choice(self: Expressions, node: ast.IfExp) -> Any:
    test = self.condition(self.evaluate(node.test))
    if isinstance(test, bool):
        return self.evaluate(node.body if test else node.orelse)
    blocks, values = (Block(), Block()), []
    for block, branch in zip(blocks, (node.body, node.orelse), strict=True):
        with current().inside(block):
            values.append(self.evaluate(branch))
    (result,) = self.choose(test, blocks, [("the expression", values[0], values[1])])
    if isinstance(result, Unavailable):
        raise KernelError("the two values cannot be chosen between when the kernel runs")
    return result


def _call(self: Expressions, node: ast.Call) -> Any:
    callee = replacement(self.evaluate(node.func))
    if callee is breakpoint:
        return debug.stop(self.source.tree.name, self.scope.names)
    args = list(_spread(self, node.args))
    kwargs: dict[str, Any] = {}
    for keyword in node.keywords:
        value = self.evaluate(keyword.value)
        kwargs.update(value if keyword.arg is None else {keyword.arg: value})
    if not callable(callee):
        raise KernelError(f"{callee!r} is not callable")
    result = self.apply(node, callee, *args, **kwargs)
    return result.value if isinstance(result, constexpr) else result


def _lambda(self: Expressions, node: ast.Lambda) -> Any:
    return self.closure(node)


def _joined(self: Expressions, node: ast.JoinedStr) -> str:
    return "".join(str(self.evaluate(part)) for part in node.values)


def _formatted(self: Expressions, node: ast.FormattedValue) -> str:
    value = self.evaluate(node.value)
    spec = self.evaluate(node.format_spec) if node.format_spec else ""
    convert = _CONVERSIONS.get(node.conversion)
    return format(convert(value) if convert else value, spec)


_CONVERSIONS: Mapping[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}


def _comprehension(self: Expressions, node: ast.ListComp | ast.GeneratorExp) -> list[Any]:
    results: list[Any] = []
    outer = self.scope
    self.scope = Scope(outer.lookup)
    try:
        _generate(self, node.elt, node.generators, results)
    finally:
        self.scope = outer
    return results


def _generate(
    self: Expressions,
    element: ast.expr,
    generators: Sequence[ast.comprehension],
    results: list[Any],
) -> None:
    if not generators:
        results.append(self.evaluate(element))
        return
    first, *rest = generators
    for item in static_items(self.evaluate(first.iter)):
        bind(self, first.target, item)
        if all(self.evaluate(test) for test in first.ifs):
            _generate(self, element, rest, results)


def _walrus(self: Expressions, node: ast.NamedExpr) -> Any:
    value = self.evaluate(node.value)
    bind(self, node.target, value)
    return value


def static_items(iterable: Any) -> Iterator[Any]:
    """Iterate while the kernel is read; a range must have Python bounds."""
    if isinstance(iterable, control.range):
        iterable = control.static_range(iterable.start, iterable.stop, iterable.step)  # type: ignore[arg-type]
    return iter(iterable)


def bind(self: Expressions, target: ast.expr, value: Any) -> None:
    """Assign `value` to a name, to names in a tuple, or to an item of a Python container."""
    if isinstance(target, ast.Name):
        if isinstance(value, Tile) and not value.value.name:
            value.value.name = target.id
        self.scope.names[target.id] = value
        self.scope.places[target.id] = target
    elif isinstance(target, ast.Tuple | ast.List):
        with self.at(target):
            _unpack(self, target.elts, value)
    elif isinstance(target, ast.Subscript):
        owner, index = self.evaluate(target.value), self.evaluate(target.slice)
        with self.at(target):
            if isinstance(owner, Tile):
                raise KernelError("tiles are immutable", hint="write memory with tl.store")
            self.apply(target, operator.setitem, owner, index, value)
    else:
        raise self.error(target, "a kernel assigns to names only")


def _unpack(self: Expressions, targets: Sequence[ast.expr], value: Any) -> None:
    items = list(value)
    starred = [i for i, target in enumerate(targets) if isinstance(target, ast.Starred)]
    if starred:
        place, extra = starred[0], len(items) - len(targets) + 1
        items[place : place + extra] = [items[place : place + extra]]
    if len(items) != len(targets):
        raise KernelError(f"cannot unpack {len(items)} values into {len(targets)} names")
    for target, item in zip(targets, items, strict=True):
        bind(self, target.value if isinstance(target, ast.Starred) else target, item)


def signature_of(self: Expressions, arguments: ast.arguments) -> inspect.Signature:
    """Return the signature of a nested function, its defaults evaluated now."""
    kinds = inspect.Parameter
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = [kinds.empty] * (len(positional) - len(arguments.defaults))
    defaults = [*missing, *(self.evaluate(node) for node in arguments.defaults)]
    result = []
    for i, (item, default) in enumerate(zip(positional, defaults, strict=True)):
        only = i < len(arguments.posonlyargs)
        kind = kinds.POSITIONAL_ONLY if only else kinds.POSITIONAL_OR_KEYWORD
        result.append(kinds(item.arg, kind, default=default))
    if arguments.vararg:
        result.append(kinds(arguments.vararg.arg, kinds.VAR_POSITIONAL))
    for item, node in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        default = kinds.empty if node is None else self.evaluate(node)
        result.append(kinds(item.arg, kinds.KEYWORD_ONLY, default=default))
    if arguments.kwarg:
        result.append(kinds(arguments.kwarg.arg, kinds.VAR_KEYWORD))
    return inspect.Signature(result)


BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}

UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}


def _equal(a: Any, b: Any) -> Any:
    """No tile is None, and none need be compared to know."""
    return a is b if a is None or b is None else a == b


COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: _equal,
    ast.NotEq: lambda a, b: a is not b if a is None or b is None else a != b,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}

_VISITORS: Mapping[type[ast.expr], Visitor] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Dict: _dict,
    ast.Slice: _slice,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _boolean,
    ast.IfExp: _choice,
    ast.Call: _call,
    ast.Lambda: _lambda,
    ast.JoinedStr: _joined,
    ast.FormattedValue: _formatted,
    ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.NamedExpr: _walrus,
}
