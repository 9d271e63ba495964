"""One C function of a kernel that runs batches: arrays of more axes in front, which are broadcast.

It goes through all places of the leading axes, and calls the launcher of the exported kernel at each, with all its
checks. An array of which a leading axis has one place stays where it is along it; nothing is copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from polyloop.export.header import header_text, parameter_text
from polyloop.export.interface import Array, Interface, Number, interface_of
from polyloop.export.launcher import launcher_text
from polyloop.interop.operands import Operands

__all__ = ["Native"]

_BATCHES: Final = """
/* data: the first element of each parameter; steps: bytes between places, by parameter and leading axis */
int @_batches(int64_t axes, const int64_t *shape, char *const *data, const int64_t *steps, const int64_t *sizes)
{
    int64_t total = 1, number, rest, axis;
    int each;
    (void)sizes;
    for (axis = 0; axis < axes; ++axis)
        total *= shape[axis];
    for (number = 0; number < total; ++number) {
        char *at[#];
        int status;
        for (each = 0; each < #; ++each)
            at[each] = data[each];
        for (rest = number, axis = axes - 1; axis >= 0; rest /= shape[axis], --axis)
            for (each = 0; each < #; ++each)
                if (at[each] != NULL)
                    at[each] += rest % shape[axis] * steps[each * axes + axis];
        status = !;
        if (status != 0)
            return status;
    }
    return 0;
}
"""


@dataclass(frozen=True)
class Native:
    """The text of a kernel's function for batches; see the module."""

    operands: Operands
    last: tuple[str, ...] = ()
    """Arguments of the launcher behind those of the kernel: for CUDA, the stream."""

    @cached_property
    def interface(self) -> Interface:
        """Parameters of the function for one place."""
        return interface_of(self.operands.program, f"{self.operands.kernel.name}_checked")

    @cached_property
    def parameters(self) -> tuple[Array | Number, ...]:
        """Parameters that have data; the others are sizes."""
        free = {number.name for number in self.operands.numbers}
        return tuple(e for e in self.interface.parameters if isinstance(e, Array) or e.name in free)

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """Names of the sizes, in the order in which they are passed."""
        return tuple(e.name for e in self.interface.parameters if e not in self.parameters)

    @cached_property
    def text(self) -> str:
        """The source: the kernel, its launcher, and the function for batches."""
        interface, file = self.interface, "kernel.inc"
        launcher = launcher_text(interface, file)
        launcher = launcher.replace(f'#include "{interface.prefix}.h"', header_text(interface), 1)
        launcher = launcher.replace(f'#include "{file}"', self.operands.program.device_code, 1)
        found = _BATCHES.replace("status = !;", f"status = {self._call()};")
        return launcher + found.replace("@", interface.prefix).replace("#", str(max(1, len(self.parameters))))

    def _call(self) -> str:
        """Return the call for one place."""
        passed = []
        for entry in self.interface.parameters:
            if entry not in self.parameters:
                passed.append(f"({entry.ctype})sizes[{self.sizes.index(entry.name)}]")
                continue
            place = self.parameters.index(entry)
            kind = parameter_text(self.interface, entry).rpartition(entry.spelling)[0].strip()
            passed.append(f"({kind})at[{place}]" if isinstance(entry, Array) else f"*(const {kind} *)at[{place}]")
        return f"{self.interface.prefix}({', '.join([*passed, *self.last])})"
