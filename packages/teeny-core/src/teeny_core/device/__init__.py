"""Devices: where programs run and buffers live.

A driver package subclasses `Device`, `Buffer` and `Program` and names its device in the entry
point group `teeny.devices`.
"""

from teeny_core.device.base import Buffer as Buffer
from teeny_core.device.base import Device as Device
from teeny_core.device.base import Event as Event
from teeny_core.device.base import HostBuffer as HostBuffer
from teeny_core.device.base import Options as Options
from teeny_core.device.base import Program as Program
from teeny_core.device.base import Stream as Stream
from teeny_core.device.discovery import default_device as default_device
from teeny_core.device.discovery import device as device
from teeny_core.device.discovery import device_names as device_names
