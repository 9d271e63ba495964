"""The launcher of a program: functions in C that check arguments, and start the launches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, groupby
from typing import Final

import numpy as np

from polyloop.codegen.program import DeviceLaunch, LaunchLoop
from polyloop.exporting.conditions import DEFINITIONS, Inexpressible, as_c, bare
from polyloop.exporting.interface import Interface
from polyloop.expr.nodes import Expression
from polyloop.expr.records import struct_alignment
from polyloop.kernel.arrays import ArrayArg

__all__ = ["Launcher"]

_STATIC_SHARED: Final = 48 * 1024
"""Dynamic shared memory [bytes] up to which no attribute is needed (CUDA C++ Programming Guide, "Shared Memory")."""
_ALIGNMENT: Final = 256
_STEP: Final = "    "


@dataclass(frozen=True, eq=False)
class Launcher:
    """Functions of an interface, as text behind that of the program."""

    interface: Interface

    def text(self) -> str:
        """Return the text."""
        own, count = self.interface, len(self.interface.statuses)
        linkage = 'extern "C" ' if own.is_cuda else ""
        parts = [f'#include "{own.name}.h"', DEFINITIONS]
        messages = (f'{_STEP}"{_quoted(message)}",' for _, message in own.statuses)
        end = f'return 0 <= status && status < {count} ? messages[status] : "unknown status";'
        body = ["static const char *const messages[] = {", *messages, "};", end]
        parts.append(_function(linkage + own.message_head, body))
        if own.program.workspace:
            body = [*self._sizes(), *self._sizes_of_workspace(), f"return (size_t){own.local('end')};"]
            parts.append(_function(linkage + own.workspace_head, body))
        launches = self._launches(own.program.launches, 0)
        ok = f"return {own.status('OK')};"
        body = [*self._sizes(), *self._checks(), *self._overlaps(), *self._places(), *launches, ok]
        parts.append(_function(linkage + own.run_head, body))
        return "\n".join(parts)

    @cached_property
    def _exact(self) -> Mapping[str, str]:
        """Numbers of the sizes and of the loops of the host, as exact ones."""
        own = self.interface
        sizes = {scalar.name: own.local(f"exact_{own.names[scalar.name]}") for scalar in own.sizes}
        loops = {loop.iname for launch in own.program.launches for loop in launch.around}
        return sizes | {iname: f"(polyloop_exact){iname}" for iname in loops}

    def _sizes(self) -> Iterator[str]:
        for scalar in self.interface.sizes:
            yield f"const polyloop_exact {self._exact[scalar.name]} = {self.interface.names[scalar.name]};"
        for scalar in self.interface.scalars:  # a condition may need none of them
            yield f"(void){self._exact.get(scalar.name, self.interface.names[scalar.name])};"

    def _c(self, expression: Expression) -> str:
        try:
            return as_c(expression, self._exact)
        except Inexpressible as found:
            raise self.interface.refused(str(found), "the library evaluates it at a call") from None

    def _unless(self, condition: str, status: str, note: str = "") -> Iterator[str]:
        """Yield a test that returns a status if *condition* does not hold."""
        yield f"if (!({bare(condition)})){note}"
        yield f"{_STEP}return {self.interface.status(status)};"

    def _checks(self) -> Iterator[str]:
        own = self.interface
        extents = dict.fromkeys(extent for array in own.arrays for extent in array.shape or ())
        for extent in extents:
            if not isinstance(extent, int | np.integer):
                yield from self._unless(f"{self._c(extent)} >= 0", "EXTENT")
        for number, check in enumerate((*own.program.checks, *own.program.index_checks), 1):
            yield from self._unless(self._c(check.condition), f"CONDITION_{number}", f"  // {check.message}")
        alignments = dict(own.program.alignments)
        for array in own.arrays:
            name, filled = own.names[array.name], self._filled(array)
            assert array.dtype is not None, f"'{array.name}' has no type"
            conditions = " && ".join(f"{self._c(extent)} > 0" for extent in array.shape or ()) or "true"
            yield f"const bool {filled} = {conditions};"
            yield from self._unless(f"{name} != NULL || !{filled}", "NULL")
            least = max(struct_alignment(array.dtype, wide=own.is_cuda), array.alignment or 1)
            if (least := max(least, alignments.get(array.name, 1))) > 1:
                yield from self._unless(f"(uintptr_t){name} % {least} == 0", "ALIGNMENT")

    def _filled(self, array: ArrayArg) -> str:
        """Return the name of the variable that says whether an array has elements."""
        return self.interface.local(f"has_{self.interface.names[array.name]}")

    def _ends(self, array: ArrayArg) -> tuple[str, str]:
        """Return the names of the variables with the addresses of the first byte of an array, and behind its last."""
        name = self.interface.names[array.name]
        return self.interface.local(f"first_{name}"), self.interface.local(f"end_{name}")

    def _overlaps(self) -> Iterator[str]:
        """Yield tests that no array that is written shares bytes with another one."""
        pairs = [pair for pair in combinations(self.interface.arrays, 2) if any(array.is_output for array in pair)]
        for array in dict.fromkeys(array for pair in pairs for array in pair):
            yield from self._span(array)
        for one, other in pairs:
            (first, end), (other_first, other_end) = self._ends(one), self._ends(other)
            empty = f"!{self._filled(one)} || !{self._filled(other)}"
            yield from self._unless(f"{empty} || {end} <= {other_first} || {other_end} <= {first}", "OVERLAP")

    def _span(self, array: ArrayArg) -> Iterator[str]:
        assert array.dtype is not None, f"'{array.name}' has no type"
        (first, end), size = self._ends(array), array.dtype.itemsize
        axes = zip(array.shape or (), array.strides or (), strict=True)
        steps = [f"({self._c(extent)} - 1) * {self._c(stride)}" for extent, stride in axes]
        start = f"(polyloop_exact)(uintptr_t){self.interface.names[array.name]}"
        start += f" + {size} * {self._c(array.offset)}" if array.offset != 0 else ""
        low = " + ".join(f"polyloop_least(0, {step})" for step in steps) or "0"
        high = " + ".join(["1", *(f"polyloop_greatest(0, {step})" for step in steps)])
        yield f"const polyloop_exact {first} = {start} + {size} * ({low});"
        yield f"const polyloop_exact {end} = {start} + {size} * ({high});"

    def _sizes_of_workspace(self) -> Iterator[str]:
        """Yield the places of arrays in the workspace [bytes], each after the one before."""
        own, end = self.interface, self.interface.local("end")
        yield f"polyloop_exact {end} = 0;"
        for array in own.program.workspace:
            assert array.dtype is not None, f"'{array.name}' has no type"
            place, size = own.local(f"at_{own.names[array.name]}"), array.dtype.itemsize
            count = " * ".join(f"polyloop_greatest(0, {self._c(extent)})" for extent in array.shape or ()) or "1"
            yield f"const polyloop_exact {place} = {end};"
            yield f"(void){place};"
            yield f"{end} += ({size} * {count} + {_ALIGNMENT - 1}) / {_ALIGNMENT} * {_ALIGNMENT};"

    def _places(self) -> Iterator[str]:
        own = self.interface
        if not own.program.workspace:
            return
        end, workspace = own.local("end"), own.local("workspace")
        yield from self._sizes_of_workspace()
        yield from self._unless(f"{workspace} != NULL || {end} == 0", "NULL")
        yield from self._unless(f"(uintptr_t){workspace} % {_ALIGNMENT} == 0", "ALIGNMENT")
        for array in own.program.workspace:
            name = own.names[array.name]
            yield f"void *const {name} = (char *){workspace} + (size_t){own.local(f'at_{name}')};"

    def _launches(self, launches: Sequence[DeviceLaunch], depth: int) -> Iterator[str]:
        """Yield the launches, in the loops of the host around them from *depth* on."""
        for loops, group in groupby(launches, key=lambda launch: launch.around[depth : depth + 1]):
            if loops:
                yield from self._loop(loops[0], self._launches([*group], depth + 1))
                continue
            for launch in group:
                yield from self._launch(launch) if self.interface.is_cuda else (self._call(launch),)

    def _loop(self, loop: LaunchLoop, body: Iterable[str]) -> Iterator[str]:
        bits, name, index = self.interface.program.index_bits, loop.iname, self._index(loop.iname)
        start, test = f"int64_t {name} = (int64_t){self._c(loop.lower)}", f"{name} < {bare(self._c(loop.upper))}"
        yield f"for ({start}; {test}; {name} += {loop.step}) {{"
        yield f"{_STEP}const int{bits}_t {index} = (int{bits}_t){name};"
        yield f"{_STEP}(void){index};"
        yield from _indented(body)
        yield "}"

    def _index(self, iname: str) -> str:
        return self.interface.local(f"{iname}_index")

    def _call(self, launch: DeviceLaunch) -> str:
        """Return the call of the one function of a program for a host."""
        return f"{launch.name}({', '.join(self.interface.names[name] for name in launch.arguments)});"

    def _launch(self, launch: DeviceLaunch) -> Iterator[str]:
        x, y, z = (self.interface.local(f"blocks_{axis}") for axis in "xyz")
        extents = (bare(self._c(extent)) for extent in launch.grid)
        parts = ", ".join(f"{name} = {extent}" for name, extent in zip((x, y, z), extents, strict=True))
        yield "{"
        yield f"{_STEP}const polyloop_exact {parts};"
        yield f"{_STEP}if ({x} > 0 && {y} > 0 && {z} > 0) {{"
        yield from _indented(_indented(self._start(launch, (x, y, z))))
        yield f"{_STEP}}}"
        yield "}"

    def _start(self, launch: DeviceLaunch, blocks: tuple[str, str, str]) -> Iterator[str]:
        inames, names, local = {loop.iname for loop in launch.around}, self.interface.names, self.interface.local
        function, shared = f"(const void *){launch.name}", launch.dynamic_shared_bytes
        if launch.max_grid is not None:
            within = " && ".join(f"{count} <= {most}" for count, most in zip(blocks, launch.max_grid, strict=True))
            yield from self._unless(within, "GRID")
        if shared > _STATIC_SHARED:
            attribute = f"cudaFuncSetAttribute({function}, cudaFuncAttributeMaxDynamicSharedMemorySize, {shared})"
            yield from self._unless(f"{attribute} == cudaSuccess", "DEVICE")
        passed = ", ".join(f"&{self._index(name) if name in inames else names[name]}" for name in launch.arguments)
        yield f"const void *{local('arguments')}[] = {{{passed or 'NULL'}}};"
        yield f"const dim3 {local('grid')}({', '.join(f'(unsigned int){count}' for count in blocks)});"
        yield f"const dim3 {local('block')}({', '.join(map(str, launch.block))});"
        given = f"{local('grid')}, {local('block')}, (void **){local('arguments')}, {shared}"
        call = f"cudaLaunchKernel({function}, {given}, (cudaStream_t){local('stream')})"
        yield from self._unless(f"{call} == cudaSuccess", "DEVICE")


def _function(head: str, body: Iterable[str]) -> str:
    return "\n".join([head, "{", *_indented(body), "}", ""])


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"{_STEP}{line}" for line in lines)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
