"""Statuses that an exported function returns, each with its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from polyloop.export.interface import Array, Interface

__all__ = ["DEVICE", "KIND", "Status", "statuses"]

KIND: Final = 1000
"""A status divided by this is its kind."""
DEVICE: Final = 10
_KINDS: Final = (
    "null_pointer", "misaligned", "bad_size", "overlapping_arguments", "overlapping_elements", "assumption",
    "index_overflow", "grid_too_large", "no_memory", "device_error",
)  # fmt: skip


@dataclass(frozen=True)
class Status:
    """A status, of one of the kinds; ``about`` is the number of the argument, check or launch that it is about."""

    kind: str
    about: int
    text: str

    @property
    def value(self) -> int:
        """The number of the status."""
        return KIND * (1 + _KINDS.index(self.kind)) + self.about

    def name(self, prefix: str) -> str:
        """Return the name of the enumerator in C."""
        return f"{prefix}_{self.kind}".upper() + (f"_{self.about}" if self.about else "")


def statuses(interface: Interface) -> tuple[Status, ...]:
    """Return all statuses of a function but success, by their values."""
    return tuple(sorted(_statuses(interface), key=lambda status: status.value))


def _statuses(interface: Interface) -> Iterator[Status]:
    program = interface.program
    for number, array in enumerate(interface.parameters, 1):
        if not isinstance(array, Array):
            continue
        yield Status("null_pointer", number, f"'{array.name}' is a null pointer")
        if array.alignment > 1 and not interface.is_opencl:
            multiple = f"a multiple of {array.alignment} bytes"
            yield Status("misaligned", number, f"'{array.name}' does not begin at {multiple}")
        yield Status("bad_size", number, f"an extent of '{array.name}' is negative")
        if array.is_written:
            yield Status("overlapping_arguments", number, f"'{array.name}' is written and overlaps another array")
            yield Status("overlapping_elements", number,
                         f"'{array.name}' is written, and two of its elements may have one address")
    for number, check in enumerate(program.checks, 1):
        yield Status("assumption", number, check.message)
    yield Status("index_overflow", 0, "an expression in the sizes does not fit into 64 bits")
    for number, check in enumerate(program.index_checks, 1):
        yield Status("index_overflow", number, check.message)
    if interface.is_cuda or interface.is_opencl:
        for number, launch in enumerate(program.launches, 1):
            yield Status("grid_too_large", number, f"launch '{launch.name}' has more blocks than a device can have")
        who = "CUDA runtime" if interface.is_cuda else "OpenCL driver"
        yield Status("device_error", 0, f"the {who} reports an error")
    if interface.workspace:
        yield Status("no_memory", 0, "temporary arrays cannot be allocated")
