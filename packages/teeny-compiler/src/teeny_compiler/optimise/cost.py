"""What an e-node costs, in cycles of one core, about: arithmetic, memory and launches.

Arithmetic is taken at the peak of the machine, see `Peaks`. Memory is as fast as one core streams
it, which in cycles is much the same on all machines.

Elementwise work is taken to be fused, so that only a part of its traffic counts. What depends on
frozen values of fixed shape costs nothing: it is computed once, before the first run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from teeny_core import DType, TensorType
from teeny_triton.target import Target

from teeny_compiler.nest.estimate import estimate
from teeny_compiler.nest.moves import MOVEMENT
from teeny_compiler.nest.nest import COSTS, REDUCTIONS
from teeny_compiler.optimise.encode import CAUSAL, Facts
from teeny_compiler.optimise.engine import Enode, Snapshot

BYTE = 0.35
FUSED = 0.25
"""Share of elementwise traffic that reaches memory after fusion."""

LAUNCH = 700.0
FUSED_LAUNCH = 7.0
FREE = frozenset({"In", "K", "Op0", "Cons", "Nil"})
UNKNOWN = float("inf")


@dataclass(frozen=True)
class Peaks:
    """What a core does in a cycle, with two units for vectors, as most have.

    Attributes:
        vector_bits: size of a vector register.
        fused: whether a product and a sum are one operation.
    """

    vector_bits: int = 256
    fused: bool = True

    @staticmethod
    def of(target: Target) -> Peaks:
        """Return those of a machine; only processors of x86 may lack fused operations."""
        fused = target.has("fma") or not target.triple.startswith("x86_64")
        return Peaks(target.vector_bits, fused)

    def operation(self, dtype: DType) -> float:
        """Return the cycles of a cheap operation on one element."""
        return 0.5 / max(1, self.vector_bits // max(8, dtype.bits))

    def product(self, dtype: DType) -> float:
        """Return the cycles of a product that is added to a sum."""
        return self.operation(dtype.accumulator) * (1 if self.fused else 2)


class CostModel:
    """The cost of every e-node of a snapshot."""

    def __init__(self, facts: Facts, snapshot: Snapshot, peaks: Peaks) -> None:
        self.peaks = peaks
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
                return FUSED_LAUNCH + self._work(node.cls)
            case "Un" | "Bin" | "Sel" | "Cast":
                name = str(node.attrs[0]) if node.op in ("Un", "Bin") else node.op.lower()
                work = COSTS.get(name, 1) * self._work(node.cls)
                return FUSED_LAUNCH + work + FUSED * BYTE * self.nbytes(node.cls)
            case "Mm":
                return self._contraction(node, self._inner(node))
            case "Att":
                return self._attention(node)
            case "Conv":
                return self._contraction(node, self._window(node))
        return self._other(node)

    def _contraction(self, node: Enode, depth: int) -> float:
        work = self.peaks.product(self._types[node.cls].dtype) * self.size(node.cls) * depth
        return LAUNCH + work + BYTE * self._traffic((*node.inputs, node.cls))

    def _attention(self, node: Enode) -> float:
        """Two products and a softmax, of which nothing but the operands is in memory."""
        q, k, v = (self._types[cls].shape for cls in node.inputs[:3])
        scores = self.size(node.inputs[0]) / max(estimate(q[-1]), 1) * estimate(k[-2])
        dtype = self._types[node.cls].dtype
        products = self.peaks.product(dtype) * (estimate(q[-1]) + estimate(v[-1]))
        softmax = self.peaks.operation(dtype.accumulator) * COSTS.get("exp", 1)
        seen = 0.5 if int(node.attrs[0]) & CAUSAL else 1.0  # type: ignore[arg-type]
        work = seen * scores * (products + softmax)
        return LAUNCH + work + BYTE * self._traffic((*node.inputs, node.cls))

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
        return LAUNCH + share * BYTE * traffic + self._work(node.cls)

    def _work(self, cls: int) -> float:
        """Return the cycles of a cheap operation on each element of a class."""
        return self.peaks.operation(self._types[cls].dtype) * self.size(cls)

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
