"""A layered layout of a directed graph without cycles.

Nodes lie in layers, each below all that it reads from; a long edge bends at a point in every layer
that it crosses. Layers are ordered by barycentres, then placed so that neighbours are near one
another. (K. Sugiyama, S. Tagawa, M. Toda: "Methods for visual understanding of hierarchical system
structures", IEEE Transactions on Systems, Man, and Cybernetics 11(2), 1981.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SWEEPS = 8
"""Passes over the layers, down and up in turn: of the order, and again of the places."""
GAP, LEVEL_GAP = 24.0, 44.0
"""Space between neighbours in a layer, and between layers."""
BEND_GAP = 10.0
"""Space that an edge takes which crosses a layer."""
STRAIGHTNESS = 8.0
"""How much more a bend pulls its neighbours than a node does."""


@dataclass(frozen=True)
class Placed:
    """Centres of the nodes, the points that each edge passes, and the size of the whole."""

    centres: tuple[tuple[float, float], ...]
    edges: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


def layout(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Placed:
    """Place nodes of some widths and heights.

    Args:
        sizes: (width, height) of each node, nodes before those that they lead to.
        edges: (from, to) by number, each once.
    """
    work = _Layout(sizes, edges)
    work.order()
    return work.placed()


class _Layout:
    """Nodes and, behind them, the bends of long edges; `chains` are the nodes of each edge."""

    def __init__(
        self, sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]
    ) -> None:
        self.count = len(sizes)
        self.sizes = list(sizes)
        self.level = _levels(len(sizes), edges)
        self.chains = [self._chain(start, end) for start, end in edges]
        self.above: list[list[int]] = [[] for _ in self.sizes]
        self.below: list[list[int]] = [[] for _ in self.sizes]
        for chain in self.chains:
            for upper, lower in pairwise(chain):
                self.below[upper].append(lower)
                self.above[lower].append(upper)
        self.layers: list[list[int]] = [[] for _ in range(max(self.level, default=-1) + 1)]
        for node, level in enumerate(self.level):
            self.layers[level].append(node)

    def _chain(self, start: int, end: int) -> list[int]:
        """Return the nodes of an edge, with new bends in the layers between its ends."""
        bends = []
        for level in range(self.level[start] + 1, self.level[end]):
            bends.append(len(self.sizes))
            self.sizes.append((0.0, 0.0))
            self.level.append(level)
        return [start, *bends, end]

    def order(self) -> None:
        """Order each layer by the mean places of what lies above, then below, and so on."""
        place = {node: float(k) for layer in self.layers for k, node in enumerate(layer)}
        for sweep in range(SWEEPS):
            near, layers = (
                (self.above, self.layers) if sweep % 2 == 0 else (self.below, self.layers[::-1])
            )
            for layer in layers:
                means = {
                    node: sum(place[i] for i in near[node]) / len(near[node])
                    if near[node]
                    else place[node]
                    for node in layer
                }
                layer.sort(key=means.__getitem__)
                place.update((node, float(k)) for k, node in enumerate(layer))

    def placed(self) -> Placed:
        """Return all places, the leftmost edge and the top at 0."""
        x = [0.0] * len(self.sizes)
        for layer in self.layers:
            self._put(layer, dict.fromkeys(layer, 0.0), x)
        for sweep in range(2 * SWEEPS + 1):
            near, layers = (
                (self.above, self.layers) if sweep % 2 == 0 else (self.below, self.layers[::-1])
            )
            for layer in layers:
                self._put(layer, {node: self._pull(node, near[node], x) for node in layer}, x)
        left = min((x[i] - self.sizes[i][0] / 2 for i in range(len(x))), default=0.0)
        right = max((x[i] + self.sizes[i][0] / 2 for i in range(len(x))), default=0.0)
        middles, halves = self._levels_down()
        points = [(x[i] - left, middles[level]) for i, level in enumerate(self.level)]

        def stops(node: int) -> tuple[tuple[float, float], ...]:
            """Return where an edge passes: the middle of a node, a bend's upper and lower end."""
            across, down = points[node]
            half = halves[self.level[node]]
            return (
                (points[node],)
                if node < self.count
                else ((across, down - half), (across, down + half))
            )

        edges = tuple(tuple(p for node in chain for p in stops(node)) for chain in self.chains)
        height = middles[-1] + halves[-1] if middles else 0.0
        return Placed(tuple(points[: self.count]), edges, right - left, height)

    def _pull(self, node: int, near: Sequence[int], x: Sequence[float]) -> float:
        """Where the neighbours of a node want it; bends pull bends most."""
        if not near:
            return x[node]
        straight = node >= self.count
        weights = [STRAIGHTNESS if straight and i >= self.count else 1.0 for i in near]
        return sum(w * x[i] for w, i in zip(weights, near, strict=True)) / sum(weights)

    def _put(self, layer: Sequence[int], wanted: dict[int, float], x: list[float]) -> None:
        """Place a layer in its order as near as possible to where its nodes want to be.

        Least squares under distances is isotonic regression, by pooling adjacent violators.
        """
        start, starts = 0.0, []
        for before, node in zip((None, *layer), layer, strict=False):
            start += 0.0 if before is None else self._distance(before, node)
            starts.append(start)
        pools: list[tuple[float, int]] = []  # mean and number
        for node, offset in zip(layer, starts, strict=True):
            mean, count = wanted[node] - offset, 1
            while pools and pools[-1][0] >= mean:
                other, more = pools.pop()
                mean = (mean * count + other * more) / (count + more)
                count += more
            pools.append((mean, count))
        means = [mean for mean, count in pools for _ in range(count)]
        for node, offset, mean in zip(layer, starts, means, strict=True):
            x[node] = mean + offset

    def _distance(self, left: int, right: int) -> float:
        gap = GAP if left < self.count and right < self.count else BEND_GAP
        return (self.sizes[left][0] + self.sizes[right][0]) / 2 + gap

    def _levels_down(self) -> tuple[list[float], list[float]]:
        """Return the middle of each layer, and half of its height."""
        middles, halves, top = [], [], 0.0
        for layer in self.layers:
            half = max(self.sizes[node][1] for node in layer) / 2
            middles.append(top + half)
            halves.append(half)
            top += 2 * half + LEVEL_GAP
        return middles, halves


def _levels(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each node; one that reads nothing lies right above its first reader."""
    level = [0] * count
    below: list[list[int]] = [[] for _ in range(count)]
    reads = [False] * count
    for start, end in sorted(edges, key=lambda edge: edge[1]):
        level[end] = max(level[end], level[start] + 1)
        below[start].append(end)
        reads[end] = True
    for node in range(count):
        if not reads[node] and below[node]:
            level[node] = min(level[end] for end in below[node]) - 1
    return level
