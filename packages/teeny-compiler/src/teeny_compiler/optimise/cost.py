"""What an e-node costs, in nanoseconds of one core, about: arithmetic, memory and launches.

Elementwise work is taken to be fused, so that only a part of its traffic counts. What depends on
frozen values of fixed shape costs nothing: it is computed once, before the first run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from teeny_core import TensorType

from teeny_compiler.nest.estimate import estimate
from teeny_compiler.nest.moves import MOVEMENT
from teeny_compiler.nest.nest import COSTS, REDUCTIONS
from teeny_compiler.optimise.encode import CAUSAL, Facts
from teeny_compiler.optimise.engine import Enode, Snapshot

OPERATION = 0.02
"""A cheap operation on one element, vectorised."""

BYTE = 0.1
FUSED = 0.25
"""Share of elementwise traffic that reaches memory after fusion."""

LAUNCH = 200.0
FUSED_LAUNCH = 2.0
FREE = frozenset({"In", "K", "Op0", "Cons", "Nil"})
UNKNOWN = float("inf")


class CostModel:
    """The cost of every e-node of a snapshot."""

    def __init__(self, facts: Facts, snapshot: Snapshot) -> None:
        self.facts = facts
        self.snapshot = snapshot
        self._types: dict[int, TensorType] = {
            cls: facts.real_type(signature) for cls, signature in snapshot.signatures.items()
        }

    @cached_property
    def costs(self) -> list[float]:
        """The cost of each e-node."""
        return [self.cost(node) for node in self.snapshot.nodes]

    def cost(self, node: Enode) -> float:
        """Return the cost of computing one e-node from its operands."""
        if node.op in FREE:
            return 0.0
        if node.cls not in self._types:
            return UNKNOWN
        if node.cls in self.snapshot.frozen and self._is_fixed(node.cls):
            return 0.0
        match node.op:
            case "Rs" | "Bc":
                return FUSED_LAUNCH / 4
            case "Tr":
                return FUSED_LAUNCH + OPERATION * self.size(node.cls)
            case "Un" | "Bin" | "Sel" | "Cast":
                name = str(node.attrs[0]) if node.op in ("Un", "Bin") else node.op.lower()
                work = COSTS.get(name, 1) * OPERATION * self.size(node.cls)
                return FUSED_LAUNCH + work + FUSED * BYTE * self.nbytes(node.cls)
            case "Mm":
                return self._contraction(node, self._inner(node))
            case "Att":
                return self._attention(node)
            case "Conv":
                return self._contraction(node, self._window(node))
        return self._other(node)

    def _contraction(self, node: Enode, depth: int) -> float:
        work = 2 * OPERATION * self.size(node.cls) * depth
        return LAUNCH + work + BYTE * self._traffic((*node.inputs, node.cls))

    def _attention(self, node: Enode) -> float:
        """Two products and a softmax, of which nothing but the operands is in memory."""
        q, k, v = (self._types[cls].shape for cls in node.inputs[:3])
        scores = self.size(node.inputs[0]) / max(estimate(q[-1]), 1) * estimate(k[-2])
        depth = 2 * (estimate(q[-1]) + estimate(v[-1])) + COSTS.get("exp", 1)
        seen = 0.5 if int(node.attrs[0]) & CAUSAL else 1.0  # type: ignore[arg-type]
        return (
            LAUNCH
            + OPERATION * seen * scores * depth
            + BYTE * self._traffic((*node.inputs, node.cls))
        )

    def _inner(self, node: Enode) -> int:
        shape = self._types[node.inputs[0]].shape
        return estimate(shape[-2] if node.attrs[0] else shape[-1])

    def _window(self, node: Enode) -> int:
        _, channels, height, width = self._types[node.inputs[1]].shape
        return estimate(channels) * estimate(height) * estimate(width)

    def _other(self, node: Enode) -> float:
        name, _ = self.facts.key(int(node.attrs[0]))  # type: ignore[arg-type]
        traffic = self._traffic((*node.inputs, node.cls))
        if name in MOVEMENT:
            return FUSED_LAUNCH + FUSED * BYTE * traffic
        share = FUSED if name in REDUCTIONS else 1.0
        return LAUNCH + share * BYTE * traffic + OPERATION * self.size(node.cls)

    def _traffic(self, classes: Sequence[int]) -> float:
        return sum(self.nbytes(cls) for cls in classes if cls in self._types)

    def size(self, cls: int) -> float:
        """Return the number of elements of a class, as estimated."""
        count = 1.0
        for extent in self._types[cls].shape:
            count *= estimate(extent)
        return count

    def nbytes(self, cls: int) -> float:
        """Return the size of a class in bytes, as estimated."""
        return self.size(cls) * self._types[cls].dtype.itemsize

    def _is_fixed(self, cls: int) -> bool:
        return all(isinstance(extent, int) for extent in self._types[cls].shape)
