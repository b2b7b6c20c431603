"""The sanitizer: the interpreter with every access checked, also against other programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from teeny_triton.errors import KernelError
from teeny_triton.interpreter import Environment, Program, run_grid
from teeny_triton.ir import Function, Op, Pointer, Value
from teeny_triton.memory import AddressSpace, Array, Region, foreign, stray
from teeny_triton.sanitizer.findings import Finding, SanitizerError
from teeny_triton.sanitizer.overflow import MOVES, offset_ops, overflows
from teeny_triton.sanitizer.shadow import (
    ATOMIC,
    READ,
    WRITE,
    Access,
    Accesses,
    Block,
    Clock,
    blocks,
    physical,
)
from teeny_triton.sanitizer.tensor import Tensor

LIMIT = 10
"""Most findings of one run; it stops at the last."""

_KINDS: Mapping[str, str] = {
    "load": READ,
    "store": WRITE,
    "atomic_rmw": ATOMIC,
    "atomic_cas": ATOMIC,
}
_MASKS: Mapping[str, int] = {"load": 1, "store": 2, "atomic_rmw": 2}
_VERBS: Mapping[str, str] = {READ: "reads", WRITE: "writes", ATOMIC: "updates"}
_PAST: Mapping[str, str] = {READ: "has read", WRITE: "has written", ATOMIC: "has updated"}


def sanitize(
    function: Function,
    grid: Sequence[int],
    arguments: Sequence[Any] | Mapping[str, Any],
    limit: int = LIMIT,
) -> None:
    """Run `function` as `interpret` does, and go on after a defect to find others.

    A bad access reads zero, or writes nothing. One op has one finding of a kind for
    each tensor, that of the first program and lane.

    Raises:
        SanitizerError: the findings, `limit` of them at most.
        KernelError: wrong arguments.
    """
    run = _Run(function, grid, limit)
    try:
        run_grid(function, grid, arguments, AddressSpace(), run.start)
    except SanitizerError:
        raise
    except KernelError as error:
        if not run.findings:
            raise
        run.report(Finding("error", error.message, None, run.program, hint=error.hint))
    if run.findings:
        raise run.error()


class _Run:
    """What the programs of one run share."""

    def __init__(self, function: Function, grid: Sequence[int], limit: int) -> None:
        self.name = function.name
        self.offset_ops = offset_ops(function)
        self.programs = prod(grid)
        self.findings: dict[object, Finding] = {}
        self.accesses = Accesses()
        self.released: dict[int, Array] = {}
        self.blocks: dict[Region, Block] | None = None
        self._tensors: dict[Region, Tensor] = {}
        self.program = (0, 0, 0)
        self._limit = limit
        self._latest: dict[object, int] = {}
        self._started = 0

    def start(
        self, index: tuple[int, int, int], grid: tuple[int, ...], space: AddressSpace
    ) -> _Program:
        """Make the next program."""
        if self.blocks is None:
            self.blocks = blocks([region for region in space.regions if region.elements.size])
        self.program = index
        self._started += 1
        return _Program(self, index, grid, space)

    @property
    def number(self) -> int:
        """The number of the program that runs."""
        return self._started - 1

    def tensor(self, region: Region) -> Tensor:
        """Return what lies in a region."""
        if region.array is None:
            return Tensor(region)
        if region not in self._tensors:
            self._tensors[region] = Tensor(region)
        return self._tensors[region]

    def index_of(self, number: int, grid: tuple[int, ...]) -> tuple[int, int, int]:
        """Return the place in the grid of a program."""
        return number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])

    def report(self, finding: Finding, op: Op | None = None) -> None:
        """Add a finding, or count it, and stop when there are enough."""
        key = (finding.kind, op, finding.tensor)
        known = self.findings.get(key)
        if known is None:
            self.findings[key] = finding
            self._latest[key] = self.number
            if len(self.findings) == self._limit:
                raise self.error()
        elif self._latest[key] != self.number:
            self._latest[key] = self.number
            self.findings[key] = replace(known, count=known.count + 1)

    def error(self) -> SanitizerError:
        """Return the error that tells the findings."""
        return SanitizerError(self.name, list(self.findings.values()), self._limit)


class _Lanes:
    """The active lanes of one access in one tensor, flat: their numbers, and byte offsets."""

    def __init__(self, tensor: Tensor, numbers: Array, offsets: Array, size: int) -> None:
        self.tensor = tensor
        self.region = tensor.region
        self.numbers = numbers
        self.offsets = offsets
        self.size = size

    def keep(self, good: Array) -> _Lanes:
        """Return some of the lanes."""
        return _Lanes(self.tensor, self.numbers[good], self.offsets[good], self.size)

    @cached_property
    def elements(self) -> Array:
        """The element that each lane begins in."""
        return self.offsets // self.region.elements.itemsize


class _Program(Program):
    """A program whose accesses are checked before they are made."""

    def __init__(
        self, run: _Run, index: tuple[int, int, int], grid: tuple[int, ...], space: AddressSpace
    ) -> None:
        super().__init__(index, grid, space)
        self.shared = run
        self.clock = Clock(run.number, run.programs)
        self.written: dict[Region, Array] = {}
        # lanes that have overflowed and where, by the identity of the array, which they keep alive
        self.overflown: dict[int, tuple[Array, Array, Op]] = {}

    def execute(self, op: Op, env: Environment) -> tuple[Array, ...]:
        """Check an op, and run it on what is right of it."""
        if op.opcode in _KINDS:
            return super().execute(op, self.checked(op, env))
        if op.opcode == "device_assert":
            return self.asserted(op, env)
        results = super().execute(op, env)
        if op in self.shared.offset_ops:
            self.follow(op, [env[operand] for operand in op.operands], results)
        return results

    # -- assertions and overflow

    def asserted(self, op: Op, env: Environment) -> tuple[Array, ...]:
        """Report a failed assertion."""
        failed = np.flatnonzero(~env[op.operands[0]])
        if failed.size:
            text = op.attrs["message"]
            message = f"device_assert failed: {text}" if text else "device_assert failed"
            self.report(op, "assertion", message, int(failed[0]))
        return ()

    def follow(self, op: Op, operands: Sequence[Array], results: Sequence[Array]) -> None:
        """Find lanes that overflow, and follow those that have."""
        lost = overflows(op, operands, results[0]) if len(results) == 1 else None
        if lost is not None and lost.any():
            self.overflown[id(results[0])] = results[0], lost, op
            return
        known = [self.overflown.get(id(operand)) for operand in operands]
        origin = next((entry[2] for entry in known if entry is not None), None)
        if origin is None:
            return
        lanes = [
            np.zeros(operand.shape, np.bool_) if entry is None else entry[1]
            for operand, entry in zip(operands, known, strict=True)
        ]
        for result, lost in zip(results, self.moved(op, operands, lanes), strict=True):
            self.overflown[id(result)] = result, lost, origin

    def moved(self, op: Op, operands: Sequence[Array], lanes: Sequence[Array]) -> tuple[Array, ...]:
        """Return which lanes of the results derive from `lanes` of the operands."""
        if op.opcode in MOVES:
            return self.compute(op, tuple(lanes))
        if op.opcode == "where":
            return (np.where(operands[0], lanes[1], lanes[2]),)
        return (np.logical_or.reduce(np.broadcast_arrays(*lanes)),)

    # -- accesses

    def checked(self, op: Op, env: Environment) -> Environment:
        """Check an access; return the values that it is to run on, bad lanes led astray."""
        addresses = env[op.operands[0]]
        given = _mask(op)
        mask = np.ones(addresses.shape, np.bool_) if given is None else env[given]
        bad = np.zeros(addresses.size, np.bool_)
        overflown = self.overflown.get(id(addresses))
        if overflown is not None:
            mask = self.without_overflow(op, overflown[1] & mask, overflown[2], mask, bad)
        for lanes in self.split(op, addresses, mask, bad):
            self.check(op, lanes, bad, env)
        if not bad.any():
            return env
        element = op.operands[0].type.element
        assert isinstance(element, Pointer)
        sink = self.space.add(Region("nothing", np.zeros(1, element.pointee.numpy)))
        redirected = np.where(bad.reshape(addresses.shape), sink, addresses)
        return {**env, op.operands[0]: redirected}

    def without_overflow(self, op: Op, lost: Array, origin: Op, mask: Array, bad: Array) -> Array:
        """Report lanes whose offset has overflowed; return the mask of the others."""
        if not lost.any():
            return mask
        kind = origin.result.type.element
        bad |= lost.ravel()
        self.report(
            origin,
            "overflow",
            f"{origin.opcode} overflows {kind} in an offset of a {op.opcode}",
            int(np.flatnonzero(lost)[0]),
            hint="compute it in 64 bits: tl.program_id(0).to(tl.int64) * stride",
            access=op,
        )
        return mask & ~lost

    def split(self, op: Op, addresses: Array, mask: Array, bad: Array) -> Iterator[_Lanes]:
        """Split the active lanes by region; report those that are in none.

        Addresses that the kernel has found in memory are of tensors unknown, and not checked.
        """
        element = op.operands[0].type.element
        assert isinstance(element, Pointer)
        numbers = np.arange(addresses.size).reshape(addresses.shape)
        for region, lanes, offsets in self.space.split(addresses, mask):
            found = numbers[lanes]
            if region is not None:
                yield _Lanes(self.shared.tensor(region), found, offsets, element.pointee.itemsize)
                continue
            strays = ~foreign(offsets)
            bad[found[strays]] = True
            if strays.any():
                first = int(np.argmax(strays))
                message = f"{op.opcode} {_VERBS[_KINDS[op.opcode]]} {stray(int(offsets[first]))}"
                self.report(op, "pointer", message, int(found[first]))

    def check(self, op: Op, lanes: _Lanes, bad: Array, env: Environment) -> None:
        """Check the lanes in one region, from what is worst to what is least."""
        for test in (_misaligned, _outside, _between):
            wrong, kind, text, hint = test(op, lanes)
            if wrong.any():
                bad[lanes.numbers[wrong]] = True
                first = int(np.argmax(wrong))
                self.report(
                    op,
                    kind,
                    f"{op.opcode} {_VERBS[_KINDS[op.opcode]]} {_named(lanes, first)}, {text}",
                    int(lanes.numbers[first]),
                    lanes,
                    first,
                    hint,
                )
                lanes = lanes.keep(~wrong)
        if not lanes.numbers.size:
            return
        if lanes.region.array is None:
            self.check_written(op, lanes)
        else:
            self.check_races(op, lanes, env)

    def check_written(self, op: Op, lanes: _Lanes) -> None:
        """Report reads of scratch memory that nothing has written."""
        region = lanes.region
        if region not in self.written:
            self.written[region] = np.zeros(region.elements.size, np.bool_)
        written = self.written[region]
        if _KINDS[op.opcode] != WRITE and not written[lanes.elements].all():
            first = int(np.argmin(written[lanes.elements]))
            self.report(
                op,
                "uninitialised",
                f"{op.opcode} reads {_named(lanes, first)} before it is written",
                int(lanes.numbers[first]),
                lanes,
                first,
            )
        if _KINDS[op.opcode] != READ:
            written[lanes.elements] = True

    def check_races(self, op: Op, lanes: _Lanes, env: Environment) -> None:
        """Report an element that this and another program touch in no order."""
        assert self.shared.blocks is not None
        block, kind = self.shared.blocks[lanes.region], _KINDS[op.opcode]
        starts = physical(lanes.region) + lanes.offsets
        access = Access(self.shared.number, self.clock.epoch, op)
        if kind == ATOMIC and not op.operands[0].type.shape:
            self.clock.meet(self.shared.released, int(starts[0]), op.attrs["sem"])
        granules = lanes.size // block.granule
        places = ((starts - block.start) // block.granule)[:, None] + np.arange(granules)
        race = block.touch(kind, places.ravel(), access, self.shared.accesses, self.clock)
        if race is None:
            return
        first, other = race[0] // granules, race[1]
        message = f"{op.opcode} {_VERBS[kind]} {_named(lanes, first)}, which program "
        message += (
            f"{self.shared.index_of(other.program, self.grid)} {_PAST[_KINDS[other.op.opcode]]}"
        )
        if other.op is not op and other.op.location is not None:
            message += f" in line {other.op.location.line}"
        if kind == WRITE and _KINDS[other.op.opcode] == WRITE:
            message += _agreement(op, lanes, first, env)
        self.report(
            op,
            "race",
            message,
            int(lanes.numbers[first]),
            lanes,
            first,
            "give each program elements of its own, or use tl.atomic_add and its kin",
        )

    def report(
        self,
        op: Op,
        kind: str,
        message: str,
        lane: int,
        lanes: _Lanes | None = None,
        position: int = 0,
        hint: str | None = None,
        access: Op | None = None,
    ) -> None:
        """Report what `op` does in a lane, given flat, and to which element; the lane is one of
        `access`, if that is another op.
        """
        shape = (access or op).operands[0].type.shape
        where = tuple(int(i) for i in np.unravel_index(lane, shape)) if shape else ()
        tensor = None if lanes is None else lanes.region.name
        index = None if lanes is None else lanes.tensor.index(int(lanes.elements[position]))
        self.shared.report(
            Finding(kind, message, op.location, self.index, tensor, index, where, hint), op
        )


def _mask(op: Op) -> Value | None:
    place = _MASKS.get(op.opcode)
    return op.operands[place] if place is not None and len(op.operands) > place else None


_Verdict = tuple[Array, str, str, str | None]


def _misaligned(op: Op, lanes: _Lanes) -> _Verdict:
    wrong = (physical(lanes.region) + lanes.offsets) % lanes.size != 0
    text = f"but not at a multiple of its {lanes.size} bytes"
    return wrong, "alignment", text, None


def _outside(op: Op, lanes: _Lanes) -> _Verdict:
    end = lanes.region.elements.nbytes
    wrong = (lanes.offsets < 0) | (lanes.offsets + lanes.size > end)
    unmasked = _mask(op) is None
    hint = "mask the access: mask=offset < n" if unmasked else "its mask lets the lane through"
    return wrong, "bounds", f"outside of {lanes.tensor.extent}", hint


def _between(op: Op, lanes: _Lanes) -> _Verdict:
    wrong = ~lanes.tensor.owns(lanes.elements)
    hint = "are the strides of the tensor passed, and used?"
    return wrong, "gap", "which lies between the elements of the tensor", hint


def _named(lanes: _Lanes, position: int) -> str:
    return lanes.tensor.name(int(lanes.elements[position]))


def _agreement(op: Op, lanes: _Lanes, position: int, env: Environment) -> str:
    old = lanes.region.elements[int(lanes.elements[position])]
    new = env[op.operands[1]].ravel()[int(lanes.numbers[position])]
    return " (the same value)" if old.tobytes() == new.tobytes() else ""
