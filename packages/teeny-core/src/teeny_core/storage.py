"""Storage: the place of a realised value, which may move between devices."""

from __future__ import annotations

from teeny_core.device.base import Buffer, Device, HostBuffer
from teeny_core.op import Array, TensorType


class Storage:
    """A realised value. Its buffer moves to the device whose program uses it."""

    def __init__(self, buffer: Buffer, *, is_random_state: bool = False) -> None:
        self.buffer = buffer
        self.type = TensorType(buffer.shape, buffer.dtype)
        self.is_random_state = is_random_state

    @staticmethod
    def of(array: Array) -> Storage:
        """Return a storage that holds `array`, without a copy."""
        return Storage(HostBuffer(array))

    def array(self) -> Array:
        """Return the value in host memory, a view without a copy where the device can."""
        return self.buffer.numpy()

    def place(self, device: Device) -> Buffer:
        """Move the value to `device` where it is not there yet, and return its buffer."""
        if not device.owns(self.buffer):
            moved = device.allocate(self.buffer.shape, self.buffer.dtype)
            moved.write(self.buffer.numpy())
            self.buffer = moved
        return self.buffer
