"""Tuning, where kernel authors look for it."""

from teeny_triton.errors import AutotunerError as AutotunerError
from teeny_triton.errors import OutOfResources as OutOfResources
from teeny_triton.tune import Autotuner as Autotuner
from teeny_triton.tune import Config as Config
from teeny_triton.tune import Heuristics as Heuristics
from teeny_triton.tune import autotune as autotune
from teeny_triton.tune import heuristics as heuristics
