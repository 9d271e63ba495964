"""Resource usage of a CUDA kernel, read from its cubin without a GPU, and its occupancy.

The section names and attribute numbers are those of NVIDIA's ELF flavour; a test compares the results with ``ptxas
-v``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from polyloop.cost.occupancy import Occupancy, occupancy
from polyloop.display import brief

__all__ = ["KernelImage", "Occupancy", "Resources", "occupancy", "read_cubin", "resources"]

_REGCOUNT: Final = 0x2F
_FRAME_SIZE: Final = 0x11
_KPARAM_INFO: Final = 0x17
_FORMAT_SIZED: Final = 0x04
_SYMTAB: Final = 2
_IS_ENTRY: Final = 0x10  # STO_CUDA_ENTRY, in the visibility of a symbol
_RESERVED_SHARED: Final = 1024  # counted in .nv.shared.* where the cubin has .nv.shared.reserved.0


@dataclass(frozen=True, slots=True)
class Resources:
    """Resource usage of one kernel.

    Attributes
    ----------
    registers
        Per thread.
    shared_bytes
        Static shared memory per block.
    local_bytes
        Stack per thread: spilled registers and arrays that are indexed dynamically.
    occupancy
        None where the block size or the limits of the architecture are not known.
    """

    registers: int
    shared_bytes: int
    local_bytes: int
    occupancy: Occupancy | None = None

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class KernelImage:
    """One kernel in a cubin; ``parameters`` are (offset, size) [bytes] in the launch buffer."""

    name: str
    registers: int
    shared_bytes: int
    local_bytes: int
    parameters: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    link: int
    data: bytes
    size: int


def _text(table: bytes, offset: int) -> str:
    return table[offset:table.index(b"\0", offset)].decode()


def _sections(cubin: bytes) -> list[_Section]:
    assert cubin[:6] == b"\x7fELF\x02\x01", "a cubin is a 64-bit little-endian ELF file"
    (start,) = struct.unpack_from("<Q", cubin, 40)
    entry_size, count, names_at = struct.unpack_from("<HHH", cubin, 58)
    raw = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + k * entry_size) for k in range(count)]
    names = cubin[raw[names_at][4]:raw[names_at][4] + raw[names_at][5]]
    nobits = 8
    return [_Section(_text(names, h[0]), h[1], h[6], b"" if h[1] == nobits else cubin[h[4]:h[4] + h[5]], h[5])
            for h in raw]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (attribute, payload) of an ``.nv.info`` section."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, short = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _FORMAT_SIZED:
            yield attribute, data[at:at + short]
            at += short


def architecture(cubin: bytes) -> int:
    """Return the compute capability in the header of *cubin*, such as 90."""
    (flags,) = struct.unpack_from("<I", cubin, 48)
    newer_layout = cubin[7] == 0x41  # OS/ABI byte
    return int(flags >> 8 if newer_layout else flags) & 0xFF


def read_cubin(cubin: bytes) -> dict[str, KernelImage]:
    """Return the resource usage of each kernel in *cubin*, by name."""
    sections = _sections(cubin)
    by_name = {s.name: s for s in sections}
    table = next(s for s in sections if s.kind == _SYMTAB)
    strings = sections[table.link].data
    entries = [struct.unpack_from("<IBB", table.data, at) for at in range(0, len(table.data), 24)]
    symbols = [_text(strings, name) for name, _, _ in entries]
    kernels = {symbol for symbol, (_, _, other) in zip(symbols, entries, strict=True) if other & _IS_ENTRY}
    registers: dict[str, int] = {}
    frames: dict[str, int] = {}
    for attribute, payload in _attributes(by_name[".nv.info"].data if ".nv.info" in by_name else b""):
        if attribute in (_REGCOUNT, _FRAME_SIZE):
            index, value = struct.unpack_from("<II", payload)
            (registers if attribute == _REGCOUNT else frames)[symbols[index]] = value
    reserved = _RESERVED_SHARED if ".nv.shared.reserved.0" in by_name else 0
    found = {}
    for name in sorted(registers):
        info = by_name.get(f".nv.info.{name}")
        if info is None or name not in kernels:  # a device function
            continue
        shared = by_name.get(f".nv.shared.{name}")
        found[name] = KernelImage(name, registers[name], max(0, shared.size - reserved) if shared else 0,
                                  frames.get(name, 0), _parameters(info.data))
    return found


def _parameters(data: bytes) -> tuple[tuple[int, int], ...]:
    found = {}
    for attribute, payload in _attributes(data):
        if attribute == _KPARAM_INFO:
            _, ordinal, offset, packed = struct.unpack_from("<IHHI", payload)
            found[ordinal] = (offset, packed >> 18)
    return tuple(found[k] for k in sorted(found))


def resources(cubin: bytes, threads: Mapping[str, int] | None = None,
              dynamic_shared: Mapping[str, int] | None = None) -> dict[str, Resources]:
    """Return registers, shared memory, stack and occupancy of each kernel in *cubin*.

    Parameters
    ----------
    threads
        Threads per block of each kernel; without it the occupancy is None.
    dynamic_shared
        Shared memory that the launch adds [bytes].
    """
    found = {}
    for name, image in read_cubin(cubin).items():
        block = (threads or {}).get(name, 0)
        shared = image.shared_bytes + (dynamic_shared or {}).get(name, 0)
        found[name] = Resources(image.registers, image.shared_bytes, image.local_bytes,
                                occupancy(architecture(cubin), block, image.registers, shared))
    return found
