"""How convolutions with the taps of a row of the window in the lanes are cut."""

from __future__ import annotations

from dataclasses import dataclass, replace

from teeny_core import DType
from teeny_triton import Target
from teeny_triton.launch import Launch

from teeny_kernels.kernels.conv_taps import Taps, conv_taps, pack_taps
from teeny_kernels.kernels.correlation import Correlation
from teeny_kernels.launching import Work, launch
from teeny_kernels.registers import LATENCY, PORTS, SPARE, load_cycles
from teeny_kernels.templates import conv_cut
from teeny_kernels.templates.conv_cut import Cut, Use

MOST_TAPS = 32
"""Taps of a row of the window, by filters."""
MOST_VECTORS = 2
"""Registers of taps of a block."""
MOST_FILTERS = 8
"""Filters whose rows are added up in registers."""
TURNING, SHIFTED = 3.5, 2.0
"""Cycles to turn a register of sums round and store it, and to read one shifted and add it."""


@dataclass(frozen=True)
class TapsCut(Cut):
    """A cut with the taps of a row of the window in the lanes."""

    t: Taps

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of the packed filters."""
        return (self.t.packed_size,)

    @property
    def cycles(self) -> float:
        """The cycles for an image and group: steps of blocks, and what follows them."""
        t, of = self.t, self.t.of
        load = load_cycles(self.target, self.t.packed_size * t.accumulator.itemsize)
        total = 0.0
        for vectors, repeats in conv_cut.blocks(t.width // t.lanes, t.vectors):
            for count, times in conv_cut.blocks(of.width, t.columns):
                loads = (count + vectors) * load
                step = max(count * vectors / PORTS, loads, LATENCY)
                steps = of.channels * of.kernel[0] * conv_cut.seen(of, 1)
                stores = conv_cut.stores(count, t.lanes, self.target)
                turning = vectors * t.lanes * stores * TURNING
                total += repeats * times * (steps * step + turning)
        return of.rows * (total + t.taps * t.across / t.lanes * SHIFTED)

    def launches(self, use: Use) -> tuple[Launch, ...]:
        """Return the launches, in order."""
        t, of = self.t, self.t.of
        (packed,) = use.temps
        pack = launch(
            pack_taps,
            (of.channels, of.groups),
            {"w": use.w, "packed": packed},
            constants={"t": replace(t, run=0)},
            work=Work(0, 2 * t.packed_size * packed.dtype.itemsize),
        )
        main = launch(
            conv_taps,
            (-(-of.rows // t.run), use.images, of.groups),
            {"x": use.x, "w": packed, "y": use.y},
            constants={"t": t},
            hook=use.hook,
            work=conv_cut.work(of, use.images, use.x.dtype),
        )
        return pack, main


def choose(of: Correlation, dtype: DType, target: Target) -> TapsCut | None:
    """Return the best cut, None where there are too many taps and filters."""
    accumulator = dtype.accumulator
    lanes = target.lanes(accumulator)
    taps = of.filters * of.kernel[1]
    fits = 0 < taps <= MOST_TAPS and of.filters <= MOST_FILTERS and of.stride[1] == 1
    if not fits or min(of.width, of.rows) == 0:
        return None
    run = conv_cut.run(of, 1, conv_cut.parts(of), accumulator, target)
    cuts = []
    for vectors in range(1, min(MOST_VECTORS, -(-taps // lanes)) + 1):
        most = (target.vector_registers - SPARE) // vectors - 1
        pieces = -(-of.width // max(1, most))
        t = Taps(of, accumulator, lanes, vectors, -(-of.width // pieces), run)
        cuts.append(TapsCut(target, t))
    return min(cuts, key=lambda cut: cut.cycles)
