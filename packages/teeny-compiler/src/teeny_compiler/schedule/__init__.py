"""Fusion of a canonical graph into kernel launches over planned buffers."""

from teeny_compiler.schedule.build import make_schedule as make_schedule
from teeny_compiler.schedule.plan import Buffer as Buffer
from teeny_compiler.schedule.plan import BufferRef as BufferRef
from teeny_compiler.schedule.plan import Schedule as Schedule
from teeny_compiler.schedule.plan import Step as Step
