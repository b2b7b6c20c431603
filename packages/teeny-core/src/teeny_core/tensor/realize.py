"""Realising lazy tensors: pending nodes become a graph, compiled once for each structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from teeny_core import ops
from teeny_core.context import current_trace
from teeny_core.device.base import Device, Program
from teeny_core.device.discovery import device as get_device
from teeny_core.dtype import bool_, u32
from teeny_core.errors import DTypeError, ShapeError, TraceError
from teeny_core.evaluate import evaluate
from teeny_core.graph import Graph, Node, rebuild, topological
from teeny_core.shape import numel, symbol
from teeny_core.storage import Storage
from teeny_core.tensor import core

if TYPE_CHECKING:
    from teeny_core.tensor.concrete import Tensor
    from teeny_core.tensor.core import Operand

PROGRAMS = 512
"""Most programs of lazy tensors kept in memory; the oldest goes first."""

MANY = 1 << 16
"""Random numbers from which the device makes them: the host takes ten times as long for each, but
no time to get ready."""

_pending: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
_views: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
_values: WeakKeyDictionary[Node, Storage] = WeakKeyDictionary()
_programs: dict[tuple[str, str], Program] = {}


def pending(tensor: Tensor) -> None:
    """Remember a tensor that was made from a node: it has no value yet, or that of another."""
    (_views if tensor.node.op == "data" else _pending)[id(tensor)] = tensor


def settle() -> None:
    """Make every tensor independent of buffers that are about to be written.

    Those without a value are computed, those that share the value of another get their own copy.
    """
    waiting = list(_pending.values())
    if waiting:
        realize(*(tensor for tensor in waiting if not _is_traced(tensor.node)))
    for tensor in list(_views.values()):
        own(tensor)


def own(tensor: Tensor) -> None:
    """Compute the value, and copy it where it is shared: the buffer is the tensor's own then."""
    realize(tensor)
    if _views.pop(id(tensor), None) is not None:
        tensor._node = ops.data(Storage.of(tensor.node.attrs["handle"].array().copy()))


def realize(*tensors: Tensor) -> None:
    """Compute the values of tensors, together.

    Raises:
        TraceError: when one depends on an input of a function that is being traced.
    """
    lazy = {id(tensor): tensor for tensor in tensors if tensor.node.op != "data"}
    if not lazy:
        return
    for key in lazy:  # no longer waiting: a program that settles does not come back here
        _pending.pop(key, None)
    nodes = [tensor.node for tensor in lazy.values()]
    owned = {node for node in nodes if node in _values}
    try:
        values = _compute(nodes)
    except BaseException:
        _pending.update(lazy)
        raise
    for tensor, node, value in zip(lazy.values(), nodes, values, strict=True):
        tensor._node = ops.data(value)
        if node in owned:
            pending(tensor)
        owned.add(node)


def assign(tensor: Tensor, value: Operand) -> None:
    """Give a tensor another value: now, in its buffer, or as an update of the graph traced."""
    node = _fitted(tensor, value)
    trace = current_trace()
    if trace is not None:
        trace.update(tensor, node)
        return
    settle()
    (new,) = _compute([node])
    tensor.storage.buffer.write(new.array())


def _fitted(tensor: Tensor, value: Operand) -> Node:
    operand = tensor._operand(value)
    if not isinstance(operand, core.Core):
        return core.expand(core.scalar(operand, tensor.dtype), tensor.shape)
    wrong = f"assign {operand.type} to a tensor of {tensor.type}"
    if operand.dtype != tensor.dtype:
        raise DTypeError(wrong, hint=f"cast it: value.cast(tn.{tensor.dtype})")
    if core.broadcast_shapes(tensor.shape, operand.shape) != tensor.shape:
        raise ShapeError(wrong, hint="reshape the value")
    return core.expand(operand.node, tensor.shape)


def _compute(nodes: Sequence[Node]) -> list[Storage]:
    """Return the values of nodes; those that were made before are not made again."""
    missing = [node for node in dict.fromkeys(nodes) if node.op != "data" and node not in _values]
    if missing:
        _values.update(zip(missing, _run(missing), strict=True))
    return [_stored(node) for node in nodes]


def _stored(node: Node) -> Storage:
    return node.attrs["handle"] if node.op == "data" else _values[node]


def _run(nodes: Sequence[Node]) -> list[Storage]:
    order = topological(nodes, stop=_values)
    if any(node.op == "input" for node in order):
        raise TraceError(
            "a traced function asked for a value that depends on its inputs",
            hint="values are known only when the program runs: return it as an output",
        )
    leaves = {node: _stored(node) for node in order if node.op == "data" or node in _values}
    # Constants and random numbers are made on the host: no data, nothing worth compiling.
    on_host = all(storage.is_random_state for storage in leaves.values())
    if on_host:
        leaves.update((node, _random_bits(node)) for node in order if _are_many(node))
    inputs = {
        storage: ops.input(f"x{i}", storage.type.shape, storage.type.dtype)
        for i, storage in enumerate(dict.fromkeys(leaves.values()))
    }
    new = rebuild(nodes, {node: inputs[storage] for node, storage in leaves.items()})
    graph = Graph("lazy", tuple(inputs.values()), (), tuple(new[node] for node in nodes))
    if on_host:
        arrays = evaluate(graph, [storage.array() for storage in inputs])
        return [Storage.of(array) for array in arrays]
    device = get_device()
    program = _program(graph, device)
    return [Storage(buffer) for buffer in program.run(*(s.place(device) for s in inputs))]


def _are_many(node: Node) -> bool:
    """Whether a node is random bits, of a state that is known, that the device should make."""
    if node.op != "random_bits" or node.inputs[0].op != "data":
        return False
    return numel(node.shape) >= MANY and get_device().computes  # type: ignore[operator]


def _random_bits(node: Node) -> Storage:
    """Make random bits by a program that serves any number of them."""
    device = get_device()
    count = symbol("n")
    state = ops.input("state", (4,), u32)
    sized = ops.input("sized", (count,), bool_)  # whose values nobody reads
    bits = ops.random_bits(state, shape=(count,), site=node.attrs["site"])
    program = _program(Graph("random_bits", (state, sized), (), (bits,)), device)
    memory = device.allocate((numel(node.shape),), bool_)  # type: ignore[arg-type]
    (made,) = program.run(_stored(node.inputs[0]).place(device), memory)
    return Storage.of(made.numpy().reshape(node.shape))


def _program(graph: Graph, device: Device) -> Program:
    key = device.name, graph.structural_hash()
    found = _programs.get(key)
    if found is None:
        while len(_programs) >= PROGRAMS:
            _programs.pop(next(iter(_programs)))
        found = _programs[key] = device.compile(graph, {})
    return found


def _is_traced(node: Node) -> bool:
    return any(leaf.op == "input" for leaf in topological([node], stop=_values))
