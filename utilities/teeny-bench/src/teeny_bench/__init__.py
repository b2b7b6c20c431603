"""Benchmarks of teeny against its peers, in one process, alternating, as ratios."""

from teeny_bench.measure import Timing as Timing
from teeny_bench.measure import alternate as alternate
from teeny_bench.report import Row as Row
