"""The CPU driver of teeny: native programs, a thread pool and asynchronous runs."""

from teeny_cpu.device import CpuDevice as CpuDevice
from teeny_cpu.runtime import num_threads as num_threads
from teeny_cpu.runtime import set_num_threads as set_num_threads
