"""Launches like one before, recalled by a look-up and one call of native code.

`reading` tells in Python what a launch specialises. The next launch of the same kernel mostly has
arguments of the same Python types, which the same holds for: guards of the device check that it
does (see `guards`). Where they do not hold, or arguments are of kinds that none are made for, the
launch is read in full.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from teeny_core import Device, Tensor

from teeny_triton.arguments import Span, as_array
from teeny_triton.compiler.kernel import CompiledKernel, DeviceKernel
from teeny_triton.frontend import Constexpr, KernelFunction, Read
from teeny_triton.guards import (
    MOST_PIECES,
    Guard,
    Guards,
    Number,
    Relaunch,
    relaunch,
)
from teeny_triton.reading import COMPOUND, Key, Reader, is_foreign, overlapping, reach

Values: TypeAlias = Sequence[Any]

MOST_WAYS = 8
"""Most ways that are kept for one tuple of Python types: of other dtypes, alignments, overlaps."""


@dataclass(frozen=True)
class Prepared:
    """A kernel ready to run for all arguments of one key, while `reads` hold."""

    compiled: CompiledKernel
    native: DeviceKernel
    reads: Sequence[Read]

    def is_current(self) -> bool:
        """Whether what the kernel took from outside is as it was."""
        return all(read.is_current() for read in self.reads)


@dataclass(frozen=True)
class Foreign:
    """A tensor of another library among the arguments, and what is asked of it in Python."""

    place: int
    dtype: Any
    dense: bool


@dataclass(frozen=True)
class Way:
    """How to launch for some arguments.

    Attributes:
        device: where.
        prepared: what.
        relaunch: does it, if the guards hold for a block of words: those of arrays, of numbers, and
            of tensors, in this order.
        arrays: picks the arrays of NumPy and the tensors of teeny.
        tensors: whether there are any of teeny among them.
        numbers: picks the numbers.
        foreign: the tensors of other libraries.
    """

    device: Device
    prepared: Prepared
    relaunch: Relaunch
    arrays: Callable[[Values], Values]
    tensors: bool
    numbers: Callable[[Values], Values]
    foreign: Sequence[Foreign]

    def launch(self, extents: tuple[int, int, int], values: Values) -> bool:
        """Launch if the arguments read as those that the way was made for, and say whether."""
        arrays = self.arrays(values)
        if self.tensors:
            arrays = [as_array("", array) for array in arrays]
        words = [*map(id, arrays), *self.numbers(values)]
        if self.foreign and not self._add_foreign(words, values):
            return False
        if self.prepared.reads and not self.prepared.is_current():
            return False
        try:
            return self.relaunch(extents, words)
        except (struct.error, OverflowError):  # an integer of more than 64 bits
            return False

    def _add_foreign(self, words: list[Number], values: Values) -> bool:
        """Add the words of tensors, and say whether these are what they were."""
        for foreign in self.foreign:
            tensor = values[foreign.place]
            if tensor.dtype != foreign.dtype or not tensor.is_cpu:
                return False
            if tensor.is_contiguous():
                words += tensor.data_ptr(), tensor.nbytes
                continue
            low, high = reach(tensor)
            if foreign.dense or low:  # strides may be negative
                return False
            words += tensor.data_ptr(), high
        return True


class Memory:
    """The launches of one kernel that can be recalled."""

    def __init__(self, kernel: KernelFunction, reader: Reader) -> None:
        self._names = tuple(kernel.specs)
        self._readers = reader.parameters
        constant = [isinstance(spec, Constexpr) for spec in kernel.specs.values()]
        self._constant = constant
        places = [place for place, is_one in enumerate(constant) if is_one]
        self._constants = itemgetter(*places) if places else _nothing
        self._ways: dict[Key, list[Way]] = {}
        self._refused: set[Key] = set()

    def recall(
        self, device: Device, extents: tuple[int, int, int], values: Values
    ) -> CompiledKernel | None:
        """Launch as before and return what ran; None where that is not known to be right.

        Args:
            device: where to launch.
            extents: the grid.
            values: a value for each parameter, in their order.
        """
        try:
            ways = self._ways.get((tuple(map(type, values)), self._constants(values)), ())
        except TypeError:  # a constant without a hash
            return None
        for way in ways:
            if way.device is device and way.launch(extents, values):
                return way.prepared.compiled
        return None

    def remember(self, device: Device, prepared: Prepared, values: Values) -> None:
        """Note a launch that was read in full, so that it can be recalled."""
        try:
            key = tuple(map(type, values)), self._constants(values)
            ways = [way for way in self._ways.get(key, ()) if way.prepared.is_current()]
        except TypeError:
            return
        if key in self._refused or len(ways) == MOST_WAYS:
            return
        way = self._way(device, prepared, values)
        if way is None:
            self._refused.add(key)
        else:
            self._ways[key] = [way, *ways]

    def _way(self, device: Device, prepared: Prepared, values: Values) -> Way | None:
        """Return how to launch for arguments like these; None where no guards tell them."""
        sorts = [self._sort(place, value) for place, value in enumerate(values)]
        if None in sorts:
            return None
        arrays, numbers, foreign = (
            [place for place, sort in enumerate(sorts) if sort == wanted]
            for wanted in ("array", "number", "foreign")
        )
        words = [*range(len(arrays) + len(numbers))]
        words += [len(words) + 2 * number for number in range(len(foreign))]
        guards: list[Guard] = []
        spans: list[Span] = []
        parameters = {p.name: (n, p) for n, p in enumerate(prepared.compiled.function.parameters)}
        for place, word in zip((*arrays, *numbers, *foreign), words, strict=True):
            number, parameter = parameters.get(self._names[place], (None, None))
            element = None if parameter is None else parameter.value.type.element
            guard = self._readers[place].guard(values[place], word, number, element)
            if guard is None:
                return None
            guards.append(guard)
            self._readers[place].argument(values[place], [], spans)
        if len(spans) > MOST_PIECES:
            return None
        ready = relaunch(prepared.native, Guards(tuple(guards), frozenset(overlapping(spans))))
        if ready is None:
            return None
        return Way(
            device=device,
            prepared=prepared,
            relaunch=ready,
            arrays=picker(arrays),
            tensors=any(type(values[place]) is Tensor for place in arrays),
            numbers=picker(numbers),
            foreign=[
                Foreign(place, values[place].dtype, self._readers[place].contiguous)
                for place in foreign
            ],
        )

    def _sort(self, place: int, value: Any) -> str | None:
        """Return how an argument is looked at: as a constant, array, number or foreign tensor."""
        kind = type(value)
        if self._constant[place]:
            return "constant" if kind not in COMPOUND or (kind is float and value) else None
        if value is None:
            return "constant"
        if kind is np.ndarray or kind is Tensor:
            return "array"
        if is_foreign(kind):
            return "foreign"
        return "number" if kind in (int, float, bool) else None


def _nothing(values: Values) -> None:
    """Pick none."""


def picker(places: Sequence[int]) -> Callable[[Values], Values]:
    """Return what picks the items at some places of a sequence."""
    if len(places) > 1:
        return itemgetter(*places)
    if places:
        return lambda values: (values[places[0]],)
    return lambda values: ()
