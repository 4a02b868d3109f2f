"""The attributes of ``.nv.info`` sections: what a cubin states about its kernels' resources.

NVIDIA does not document the format. An attribute is a form byte, an attribute byte and two
bytes that are the value, or its size where the form says so. The numbers below were read
off nvdisasm, which prints an attribute's name (``EIATTR_…``) for its number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

MAX_BYTES = 1 << 23  # of a section that are read; what follows is no cubin's

MAX_THREADS = 0x05  # x, y, z of .maxntid
REQUIRED_THREADS = 0x10  # x, y, z of .reqntid
FRAME_SIZE = 0x11  # symbol, bytes
MIN_STACK_SIZE = 0x12  # symbol, bytes
KPARAM_INFO = 0x17
REGCOUNT = 0x2F  # symbol, registers
KPARAM_INFO_V2 = 0x45
NUM_BARRIERS = 0x4C

_NO_VALUE, _BYTE, _HALF, _SIZED = 1, 2, 3, 4  # forms: EIFMT_NVAL, BVAL, HVAL, SVAL


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: its position, and its offset and size in bytes among the parameters."""

    ordinal: int
    offset: int
    size: int


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The (attribute, value) pairs of a section, up to one that the section cuts off."""
    at = 0
    while at + 4 <= min(len(data), MAX_BYTES):
        form, attribute, value = data[at], data[at + 1], data[at + 2 : at + 4]
        at += 4
        if form == _SIZED:
            size = int.from_bytes(value, "little")
            if at + size > len(data):
                return
            yield attribute, data[at : at + size]
            at += size + -size % 4
        elif form in (_NO_VALUE, _BYTE, _HALF):
            yield attribute, value
        else:
            return


def parameter(attribute: int, value: bytes) -> Parameter | None:
    """The parameter that an attribute states, if it states one.

    KPARAM_INFO packs alignment, space and bank below the size, which takes bits 18 to 31. ptxas
    writes KPARAM_INFO_V2, with the size alone, for kernels with more than 4 KiB of parameters.
    """
    if attribute not in (KPARAM_INFO, KPARAM_INFO_V2) or len(value) < 12:
        return None
    _, ordinal, offset, packed = struct.unpack_from("<IHHI", value)
    return Parameter(ordinal, offset, packed >> 18 if attribute == KPARAM_INFO else packed & 0xFFFF)


def threads(value: bytes) -> int | None:
    """The threads of a block that an attribute of three dimensions allows."""
    if len(value) < 12:
        return None
    x, y, z = struct.unpack_from("<III", value)
    return int(x * y * z)
