"""What lowering a task gives: kernel calls over storages, before memory is planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from teeny_core import Dim, DType
from teeny_triton.ir import Function
from teeny_triton.launch import ScalarArg


@dataclass(frozen=True)
class StorageArg:
    """The address of element `offset` of a storage."""

    storage: int
    offset: Dim = 0


@dataclass(frozen=True)
class TempArg:
    """The address of a task's own memory, number `temp`."""

    temp: int


Place: TypeAlias = StorageArg | TempArg


@dataclass(frozen=True)
class Call:
    """One launch; the pointer parameters that the function writes are written, others read.

    It happens `once`, before the first run, when it reads fixed values only; the task's own memory
    that it writes is then kept from run to run.
    """

    label: str
    function: Function
    grid: tuple[Dim, ...]
    arguments: tuple[Place | ScalarArg, ...]
    flops: Dim = 0
    bytes: Dim = 0
    once: bool = False


@dataclass(frozen=True)
class Calls:
    """The launches of a task in order, and the (size in elements, dtype) of its own memory."""

    calls: tuple[Call, ...]
    temps: tuple[tuple[Dim, DType], ...] = ()

    @property
    def kept(self) -> frozenset[int]:
        """The numbers of the temps that calls before the first run write."""
        return frozenset(
            argument.temp
            for call in self.calls
            if call.once
            for argument in call.arguments
            if isinstance(argument, TempArg)
        )
