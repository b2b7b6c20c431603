"""Optimisers and learning-rate schedules."""

from teeny_core.optim.adam import Adam as Adam
from teeny_core.optim.adam import AdamW as AdamW
from teeny_core.optim.base import Optimizer as Optimizer
from teeny_core.optim.base import clip_by_global_norm as clip_by_global_norm
from teeny_core.optim.schedule import Chained as Chained
from teeny_core.optim.schedule import Constant as Constant
from teeny_core.optim.schedule import Cosine as Cosine
from teeny_core.optim.schedule import Linear as Linear
from teeny_core.optim.schedule import OneCycle as OneCycle
from teeny_core.optim.schedule import Schedule as Schedule
from teeny_core.optim.schedule import Sequential as Sequential
from teeny_core.optim.schedule import Step as Step
from teeny_core.optim.schedule import warmup as warmup
from teeny_core.optim.sgd import SGD as SGD
