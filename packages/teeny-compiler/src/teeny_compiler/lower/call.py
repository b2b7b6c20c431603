"""What lowering a task gives: kernel calls over storages, before memory is planned."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Call:
    """One launch. The parameters that the function writes are the storages that it writes."""

    label: str
    function: Function
    grid: tuple[Dim, ...]
    arguments: tuple[StorageArg | TempArg | ScalarArg, ...]
    flops: Dim = 0
    bytes: Dim = 0


@dataclass(frozen=True)
class Calls:
    """The launches of a task in order, and the (size in elements, dtype) of its memory."""

    calls: tuple[Call, ...]
    temps: tuple[tuple[Dim, DType], ...] = ()
