"""Channels that are filtered by themselves: the window slides over each plane, in registers."""

from __future__ import annotations

from dataclasses import dataclass

from teeny_core import DType, ceildiv
from teeny_triton import Target
from teeny_triton.launch import Launch

from teeny_kernels.kernels.correlation import Correlation
from teeny_kernels.kernels.sliding import Sliding, sliding
from teeny_kernels.launching import launch
from teeny_kernels.templates.conv_cut import Cut, Use, work

PLANE_WORK = 200_000
"""Products of a program."""
MOST_ROWS = 7
"""Rows of a block, at most."""
MOST_UNROLLED = 25
"""Largest window: it is unrolled."""


def choose(of: Correlation, dtype: DType, target: Target) -> Cut | None:
    """Return the cut, None where filters see several channels or a channel has several filters."""
    window = of.kernel[0] * of.kernel[1]
    alone = of.groups > 1 and of.channels == of.filters == 1
    return _Planes(target, of, dtype) if alone and window <= MOST_UNROLLED else None


@dataclass(frozen=True)
class _Planes(Cut):
    of: Correlation
    dtype: DType

    @property
    def cycles(self) -> float:
        return self.of.rows * self.of.columns * self.of.taps / self.target.lanes(self.dtype)

    def launches(self, use: Use) -> tuple[Launch, ...]:
        of = self.of
        accumulator = use.x.dtype.accumulator
        blocks = max(1, -(-of.rows // MOST_ROWS))
        planes = max(1, PLANE_WORK // max(1, of.rows * of.columns * of.taps))
        lanes = self.target.lanes(accumulator)
        t = Sliding(of, "filter", True, accumulator, lanes, -(-of.rows // blocks), planes)
        planar = launch(
            sliding,
            (ceildiv(use.images * of.groups, planes),),
            {"x": use.x, "w": use.w, "y": use.y},
            sizes={"images": use.images},
            constants={"t": t},
            hook=use.hook,
            work=work(of, use.images, use.x.dtype),
        )
        return (planar,)
