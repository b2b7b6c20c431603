"""Which parameters without annotation are pointers: those that end in an address."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from teeny_triton.frontend import KernelFunction

ADDRESSED = frozenset(
    {
        "load",
        "store",
        "prefetch",
        "make_block_ptr",
        "make_tensor_descriptor",
        "atomic_add",
        "atomic_and",
        "atomic_cas",
        "atomic_max",
        "atomic_min",
        "atomic_or",
        "atomic_xchg",
        "atomic_xor",
    }
)
"""Functions whose first argument is an address."""

_KEYWORDS = frozenset({"pointer", "base", "ptr"})


def pointers(kernel: KernelFunction, within: tuple[KernelFunction, ...] = ()) -> frozenset[str]:
    """Return the parameters of `kernel` from which it makes addresses, itself or in helpers."""
    nodes = list(ast.walk(kernel.source.tree))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Call):
            for address in _addresses(kernel, node, within):
                found.update(_roots(address))
    assignments = [node for node in nodes if isinstance(node, ast.Assign)]
    count = -1
    while len(found) > count:
        count = len(found)
        for node in assignments:
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id in found:
                    found.update(_roots(node.value))
    return frozenset(found & kernel.signature.parameters.keys())


def called(kernel: KernelFunction) -> Iterator[KernelFunction]:
    """Yield the kernels that `kernel` inlines by name."""
    for node in ast.walk(kernel.source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            _, callee = kernel.find(node.func.id)
            if isinstance(callee, KernelFunction):
                yield callee


def returns_value(kernel: KernelFunction) -> bool:
    """Whether a kernel returns something, as only helpers of other kernels do."""
    work: list[ast.AST] = list(kernel.source.tree.body)
    while work:
        node = work.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            work.extend(ast.iter_child_nodes(node))
    return False


def _addresses(
    kernel: KernelFunction, call: ast.Call, within: tuple[KernelFunction, ...]
) -> Iterator[ast.expr]:
    """Yield the arguments of a call that are addresses."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in ADDRESSED:
        yield from call.args[:1]
        yield from (given.value for given in call.keywords if given.arg in _KEYWORDS)
    elif isinstance(call.func, ast.Name):
        _, callee = kernel.find(call.func.id)
        if isinstance(callee, KernelFunction) and callee not in within:
            wanted = pointers(callee, (*within, kernel))
            given = zip(callee.signature.parameters, call.args, strict=False)
            yield from (value for name, value in given if name in wanted)
            yield from (item.value for item in call.keywords if item.arg in wanted)


def _roots(expression: ast.expr) -> Iterator[str]:
    """Yield the names that an address is counted from: `x` of `x + row * stride + columns`."""
    if isinstance(expression, ast.Name):
        yield expression.id
    elif isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Add | ast.Sub):
        left = list(_roots(expression.left))
        yield from left or _roots(expression.right)
    elif isinstance(expression, ast.IfExp):
        yield from _roots(expression.body)
        yield from _roots(expression.orelse)
