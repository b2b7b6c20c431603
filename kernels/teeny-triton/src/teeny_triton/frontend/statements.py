"""Statements of a kernel: straight code, branches, and functions inlined where they are called."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from teeny_triton.builder import current
from teeny_triton.errors import KernelError, Unsupported
from teeny_triton.frontend.annotations import Constexpr, Maybe, Spec, Tuple, match
from teeny_triton.frontend.expressions import (
    BINARY,
    DIFFERENT_PATHS,
    Expressions,
    bind,
    signature_of,
    static_items,
)
from teeny_triton.frontend.function import KernelFunction
from teeny_triton.frontend.loops import runtime_for, runtime_while
from teeny_triton.frontend.scope import Scope, Unavailable, contains_return
from teeny_triton.ir import Block
from teeny_triton.language import control, debug
from teeny_triton.language.constants import constexpr
from teeny_triton.language.tile import Tile

MAX_UNROLLED = 10_000
"""Most iterations of a `while` whose condition is known while the kernel is read."""


@dataclass(frozen=True)
class Return:
    """The function has returned."""

    value: Any
    node: ast.stmt


@dataclass(frozen=True)
class Jump:
    """`break` or `continue`, which end an iteration of an unrolled loop."""

    node: ast.Break | ast.Continue


Completion: TypeAlias = Return | Jump | None


class Evaluator(Expressions):
    """Reads the body of one function and emits what it does."""

    def __init__(self, source: Any, scope: Scope) -> None:
        super().__init__(source, scope)
        self.loops = 0

    def call(self, body: Sequence[ast.stmt]) -> Any:
        """Run a whole body and return what it returns."""
        completion = self.run(body)
        return completion.value if isinstance(completion, Return) else None

    def run(self, statements: Sequence[ast.stmt]) -> Completion:
        """Run statements up to a return or jump.

        A branch that is decided now is spliced in; one that is decided when the kernel runs and
        may return takes all that follows into its two sides.
        """
        work = list(statements)
        while work:
            statement = work.pop(0)
            if isinstance(statement, ast.If):
                test = self.test(statement.test)
                if isinstance(test, bool):
                    work[:0] = statement.body if test else statement.orelse
                elif contains_return([statement]):
                    return self.diverge(test, statement, work)
                else:
                    self.branch(test, statement)
                continue
            completion = self.statement(statement)
            if completion is not None:
                return completion
        return None

    def statement(self, node: ast.stmt) -> Completion:
        """Run one statement."""
        runner = _RUNNERS.get(type(node), _unknown)
        with self.at(node):
            return runner(self, node)

    def test(self, node: ast.expr) -> bool | Tile:
        """Evaluate a condition."""
        value = self.evaluate(node)
        with self.at(node):
            return self.condition(value)

    def branch(self, test: Tile, node: ast.If) -> None:
        """Emit an `if` whose sides both go on, and merge what they assign."""
        before, earlier = self.scope.names, dict(self.scope.places)
        blocks, sides, places = (Block(), Block()), [], []
        for block, statements in zip(blocks, (node.body, node.orelse), strict=True):
            self.scope.names, self.scope.places = dict(before), dict(earlier)
            with current().inside(block):
                completion = self.run(statements)
            if isinstance(completion, Jump):
                raise self.error(completion.node, "a run-time branch cannot leave a loop")
            sides.append(self.scope.names)
            places.append(self.scope.places)
        self.scope.names = before
        absent = Unavailable("has a value on one path only")
        names = dict.fromkeys([*sides[0], *sides[1]])
        choices = [(name, *(side.get(name, absent) for side in sides)) for name in names]
        for name, yes, no in choices:
            self._check_sides(node, name, (yes, no), [place.get(name) for place in places])
        with self.at(node):
            labelled = [(f"`{name}`", yes, no) for name, yes, no in choices]
            merged = self.choose(test, blocks, labelled)
        before.update(zip(names, merged, strict=True))

    def _check_sides(
        self, node: ast.If, name: str, values: tuple[Any, Any], places: Sequence[ast.AST | None]
    ) -> None:
        """Refuse a name of two types, and show where it gets them."""
        yes, no = values
        if isinstance(yes, Tile) and isinstance(no, Tile) and yes.type != no.type:
            raise self.error(
                node,
                f"`{name}` is {yes.type} on one path and {no.type} on the other",
                DIFFERENT_PATHS,
                [(f"it becomes {x.type}", place) for x, place in zip(values, places, strict=True)],
            )

    def diverge(self, test: Tile, node: ast.If, rest: Sequence[ast.stmt]) -> Return:
        """Emit an `if` of which a side returns: each side runs to the end of the function."""
        if self.loops:
            raise self.error(
                node, "a loop cannot return under a run-time condition", "use masks or tl.where"
            )
        before = self.scope.names
        blocks, values = (Block(), Block()), []
        for block, statements in zip(blocks, (node.body, node.orelse), strict=True):
            self.scope.names = dict(before)
            with current().inside(block):
                values.append(self.call([*statements, *rest]))
        with self.at(node):
            (value,) = self.choose(test, blocks, [("the result", values[0], values[1])])
            if isinstance(value, Unavailable):
                raise KernelError("the paths of the function return different things")
        return Return(value, node)

    def body(self, statements: Sequence[ast.stmt]) -> ast.stmt | None:
        """Run the body of a run-time loop; return the statement that leaves it, if one does."""
        completion = _iteration(self, statements)
        return None if completion is None else completion.node

    def inline(self, function: KernelFunction, args: Sequence[Any], kwargs: Any) -> Any:
        """Read the body of a helper in place and return what it returns."""
        return inline(function, args, kwargs)

    def closure(self, node: ast.Lambda | ast.FunctionDef) -> Callable[..., Any]:
        """Return the function that `node` defines, inlined where it is called."""
        signature = signature_of(self, node.args)
        source, outer = self.source, self.scope

        def run(*args: Any, **kwargs: Any) -> Any:
            scope = Scope(outer.lookup, _bound(signature, args, kwargs))
            inner = Evaluator(source, scope)
            if isinstance(node, ast.Lambda):
                return inner.evaluate(node.body)
            return inner.call(node.body)

        return run


def inline(function: KernelFunction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Read the body of a helper into the function being built, and return what it returns."""
    names = _bound(function.signature, args, kwargs)
    for name, spec in function.specs.items():
        names[name] = check_argument(name, spec, names[name])
    return Evaluator(function.source, Scope(function.lookup, names)).call(function.source.tree.body)


def check_argument(name: str, spec: Spec, value: Any) -> Any:
    """Hold an argument of a helper against its annotation; numbers fit any scalar."""
    if isinstance(value, constexpr):
        value = value.value
    if isinstance(spec, Maybe):
        spec = spec.something
    if isinstance(spec, Tuple) and isinstance(value, tuple):
        items = spec.items * len(value) if spec.repeats else spec.items
        pairs = zip(items, value, strict=False)
        return tuple(check_argument(f"{name}[{i}]", *pair) for i, pair in enumerate(pairs))
    if isinstance(value, Tile) and (isinstance(spec, Constexpr) or not isinstance(spec, Tuple)):
        match(name, spec, value.dtype, {})
    return value


def _bound(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


# --- one function for each kind of statement ---

Runner: TypeAlias = Callable[[Evaluator, Any], Completion]


def _assign(self: Evaluator, node: ast.Assign) -> Completion:
    value = self.evaluate(node.value)
    for target in node.targets:
        bind(self, target, value)
    return None


def _annotated(self: Evaluator, node: ast.AnnAssign) -> Completion:
    if node.value is not None:
        bind(self, node.target, self.evaluate(node.value))
    return None


def _augmented(self: Evaluator, node: ast.AugAssign) -> Completion:
    load = ast.copy_location(_as_load(node.target), node.target)
    left, right = self.evaluate(load), self.evaluate(node.value)
    bind(self, node.target, self.apply(node, BINARY[type(node.op)], left, right))
    return None


def _as_load(target: ast.Name | ast.Attribute | ast.Subscript) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Subscript):
        return ast.Subscript(target.value, target.slice, ast.Load())
    return ast.Attribute(target.value, target.attr, ast.Load())


def _expression(self: Evaluator, node: ast.Expr) -> Completion:
    self.evaluate(node.value)
    return None


def _return(self: Evaluator, node: ast.Return) -> Completion:
    return Return(None if node.value is None else self.evaluate(node.value), node)


def _unknown(self: Evaluator, node: ast.stmt) -> Completion:
    raise Unsupported(f"{type(node).__name__} is not part of the kernel language")


def _pass(self: Evaluator, node: ast.Pass) -> Completion:
    return None


def _delete(self: Evaluator, node: ast.Delete) -> Completion:
    for target in node.targets:
        if not isinstance(target, ast.Name):
            raise self.error(target, "a kernel deletes names only")
        if self.scope.names.pop(target.id, None) is None:
            raise self.error(target, f"`{target.id}` is not defined")
    return None


def _jump(self: Evaluator, node: ast.Break | ast.Continue) -> Completion:
    return Jump(node)


def _assert(self: Evaluator, node: ast.Assert) -> Completion:
    test = self.evaluate(node.test)
    message = "" if node.msg is None else str(self.evaluate(node.msg))
    if isinstance(test, Tile):
        debug.device_assert(test, message)
    else:
        debug.static_assert(test, message)
    return None


def _raise(self: Evaluator, node: ast.Raise) -> Completion:
    raise KernelError(str(None if node.exc is None else self.evaluate(node.exc)))


def _define(self: Evaluator, node: ast.FunctionDef) -> Completion:
    self.scope.names[node.name] = self.closure(node)
    return None


def _for(self: Evaluator, node: ast.For) -> Completion:
    iterable = self.evaluate(node.iter)
    if isinstance(iterable, control.range):
        runtime_for(self, node, iterable)
        return None
    with self.at(node.iter):
        items = self.apply(node.iter, static_items, iterable)
    for item in items:
        bind(self, node.target, item)
        completion = _iteration(self, node.body)
        if isinstance(completion, Return):
            return completion
        if completion is not None and isinstance(completion.node, ast.Break):
            return None
    return self.run(node.orelse)


def _while(self: Evaluator, node: ast.While) -> Completion:
    """Unroll while the condition is known; from where it is not, loop when the kernel runs."""
    for _ in range(MAX_UNROLLED):
        with current().inside(Block()):
            test = self.test(node.test)
        if isinstance(test, Tile):
            runtime_while(self, node)
            return None
        if not test:
            return self.run(node.orelse)
        completion = _iteration(self, node.body)
        if isinstance(completion, Return):
            return completion
        if completion is not None and isinstance(completion.node, ast.Break):
            return None
    raise KernelError(
        f"the loop runs more than {MAX_UNROLLED} times while the kernel is read",
        hint="its condition depends on Python values only; use tl.range",
    )


def _iteration(self: Evaluator, body: Sequence[ast.stmt]) -> Completion:
    self.loops += 1
    try:
        return self.run(body)
    finally:
        self.loops -= 1


_RUNNERS: Mapping[type[ast.stmt], Runner] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.Return: _return,
    ast.Pass: _pass,
    ast.Delete: _delete,
    ast.Break: _jump,
    ast.Continue: _jump,
    ast.Assert: _assert,
    ast.Raise: _raise,
    ast.FunctionDef: _define,
    ast.For: _for,
    ast.While: _while,
}
