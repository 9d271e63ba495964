"""Generated programs: text, launches, and the checks that a caller must make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from polyloop.codegen.tree.registers import IndexedArray
from polyloop.display import Shown, brief
from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import is_integer
from polyloop.expr.nodes import Expression
from polyloop.kernel.arrays import Argument, ArrayArg
from polyloop.proof.obligation import Proof
from polyloop.schedule.copy_engine import TensorMap
from polyloop.serial.value import Value

__all__ = ["AskedElement", "BuildOptions", "DeviceCode", "DeviceLaunch", "GeneratedProgram", "HostCondition",
           "HostPart", "LaunchCheck", "LaunchLoop", "SplitArray", "listed_inames", "listed_loops"]


@dataclass(frozen=True)
class AskedElement:
    """An element of memory in a condition of the host.

    Attributes
    ----------
    name
        The variable that stands for it in the condition.
    place
        Its distance from the pointer that functions take [elements].
    """

    name: str
    array: str
    place: int
    dtype: np.dtype[np.generic]


@dataclass(frozen=True)
class HostCondition:
    """A condition that the host decides.

    Attributes
    ----------
    condition
        In scalar arguments, inames of loops of the host, and variables for elements of memory.
    text
        The same in C, with the elements themselves.
    types
        The type of each of its variables.
    """

    condition: Expression
    text: str
    types: tuple[tuple[str, np.dtype[np.generic]], ...]
    elements: tuple[AskedElement, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if all variables are integers that are passed, or inames: then it is evaluated in exact integers."""
        return not self.elements and all(is_integer(dtype) for _, dtype in self.types)


@dataclass(frozen=True)
class LaunchLoop:
    """A loop of the host around launches: ``iname`` takes the values from ``lower`` to below ``upper``.

    Attributes
    ----------
    place
        Position in the loop around, or in the program: neighbouring launches with equal loops share them.
    lower, upper
        Expressions in the integer parameters and the inames of the loops around.
    test
        Where an iteration begins; the loop ends where it does not hold.  If it has elements of memory, threads ask for
        it, too, so that a host may also run all iterations.
    """

    place: int
    iname: str
    lower: Expression
    upper: Expression
    step: int = 1
    test: HostCondition | None = None


@dataclass(frozen=True)
class HostPart:
    """Part of the host in a launch.

    Attributes
    ----------
    around
        Loops of the host around the launch, outermost first.
    condition
        Where the launch runs; it has no elements of memory.
    """

    around: tuple[LaunchLoop, ...] = ()
    condition: HostCondition | None = None


_PLAIN: Final = HostPart()


@dataclass(frozen=True)
class DeviceLaunch(Shown):
    """One launch of one device kernel, or one for each iteration of the loops ``around``.

    Attributes
    ----------
    name
        Name of the ``extern "C"`` function.
    grid
        Blocks along x, y, z: pymbolic expressions in the integer parameters and the inames of ``around`` (or ints).
        Any of them may be 0 or negative for an empty problem: then nothing is launched.
    block
        Threads along x, y, z.
    shared_bytes
        Shared memory of a block [bytes].
    arguments
        Names of the arguments, in the order of the function's parameters.
    dynamic_shared_bytes
        Dynamic part of it, which the launch has to request [bytes].
    max_grid
        Limits on the blocks along x, y, z, if the device has any.
    maps
        Descriptions of arrays for a copy engine, which are among the arguments: the caller makes them with the address
        of the array, and ``extents`` and ``strides`` of this call (``cuTensorMapEncodeTiled``).
    host
        Loops of the host around the launch, and its condition; inames of the loops may be among the arguments, as
        integers of the width of indices.
    turns
        Blocks that one block of the launch executes at most, one after the other.
    """

    name: str
    grid: tuple[Expression, Expression, Expression]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[str, ...]
    dynamic_shared_bytes: int = 0
    max_grid: tuple[int, int, int] | None = None
    maps: tuple[TensorMap, ...] = ()
    host: HostPart = _PLAIN
    turns: Expression = 1

    __repr__ = brief

    @property
    def around(self) -> tuple[LaunchLoop, ...]:
        """Loops of the host around the launch, outermost first."""
        return self.host.around

    @property
    def condition(self) -> HostCondition | None:
        """Condition under which the launch runs, None if it always does."""
        return self.host.condition


def listed_inames(launches: Sequence[DeviceLaunch]) -> tuple[str, ...]:
    """Return the inames of loops of the host that a list of launches has, in its order.

    Those are arguments of launches, or in conditions of loops inside.
    """
    asked = {name for loop in listed_loops(launches) if loop.test is not None for name, _ in loop.test.types}
    found = (loop.iname for launch in launches for loop in launch.around
             if loop.iname in launch.arguments or loop.iname in asked)
    return tuple(dict.fromkeys(found))


def listed_loops(launches: Iterable[DeviceLaunch]) -> tuple[LaunchLoop, ...]:
    """Return the loops of the host that go on while elements of memory say so, in the order of their numbers."""
    found = (loop for launch in launches for loop in launch.around if loop.test is not None and loop.test.elements)
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class LaunchCheck(Shown):
    """A condition on the integer parameters that the caller must fulfil.

    ``condition`` is a pymbolic comparison or logical expression; it is evaluated in exact integers.  ``hint`` is the
    remedy if it is false.
    """

    condition: Expression
    message: str
    code: str = "assumption-violated"
    hint: str = "pass sizes that the kernel was made for, or make a kernel without the assumption"

    __repr__ = brief


@dataclass(frozen=True)
class SplitArray:
    """An array of the kernel that functions take in parts.

    Attributes
    ----------
    parts
        The arguments: one for each index along the axis ``separate``, otherwise one with the array's name.
    separate
        The axis whose indices are arguments of their own, if there is one.
    vector
        The last axis, if it holds the components of vectors.
    array
        The array in the kernel.
    """

    name: str
    parts: tuple[str, ...]
    separate: int | None
    vector: int | None
    array: ArrayArg

    __repr__ = brief


@dataclass(frozen=True)
class DeviceCode:
    """Machine code, PTX or LTO-IR of another compiler, that a program is linked with.

    Attributes
    ----------
    name
        Name of its file, for messages.
    """

    name: str
    data: bytes

    def __repr__(self) -> str:
        return f"<{len(self.data)} bytes of '{self.name}'>"


@dataclass(frozen=True)
class BuildOptions:
    """Choices of the user's for the CUDA compiler and linker.

    Attributes
    ----------
    options
        Options of NVRTC.
    std
        Version of C++, such as ``"c++20"``; empty: the one that generated text needs.
    lineinfo
        Whether machine code tells the line of the user's that it comes from.
    linked
        Device code that defines functions which the program calls.
    """

    options: tuple[str, ...] = ()
    std: str = ""
    lineinfo: bool = False
    linked: tuple[DeviceCode, ...] = ()


@dataclass(frozen=True, eq=False)
class GeneratedProgram(Value, Shown):
    """Source text for one target, with the data that running it needs.

    Attributes
    ----------
    kernel
        Name of the kernel.
    target
        ``"c"``, ``"cuda"``, ``"hip"`` or ``"opencl"``.
    device_code
        The whole source file.
    launches
        In order of execution.  For the C target: one entry, the host function.
    arguments
        All arguments of the kernel, in the user's order, with dtypes and shapes filled in.
    checks
        Conditions on the integer parameters, from ``assumptions`` and from proofs.
    workspace
        Temporaries in global memory, which are no arguments of the kernel: the caller allocates them for each call.
        Functions take them after the arguments.
    split
        Arrays of the kernel that functions take in parts.
    alignments
        Arrays with the required alignment of their addresses [bytes], if it is more than that of an element.
    notes
        Notes on code that is slower than the kernel asks for, by instruction.
    indexed
        Private arrays that may not be held in registers.
    index_checks
        Conditions under which 32-bit index arithmetic is exact; if one fails, the program must be generated again with
        ``index_bits=64``.
    renamed
        Names of the kernel that are different in the text, with their names there.
    proofs
        Proofs about the text itself.
    build
        What the target says of compiling it.
    instructions
        For each line of ``device_code`` the instruction of its statement; empty for lines of none.
    """

    kernel: str
    target: str
    device_code: str
    launches: tuple[DeviceLaunch, ...]
    arguments: tuple[Argument, ...]
    checks: tuple[LaunchCheck, ...] = ()
    index_checks: tuple[LaunchCheck, ...] = ()
    index_bits: int = 32
    workspace: tuple[ArrayArg, ...] = ()
    split: tuple[SplitArray, ...] = ()
    alignments: tuple[tuple[str, int], ...] = ()
    notes: tuple[tuple[str, Diagnostic], ...] = ()
    indexed: tuple[IndexedArray, ...] = ()
    proofs: tuple[Proof, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    build: BuildOptions = BuildOptions()
    instructions: tuple[str, ...] = field(default=(), repr=False)

    @property
    def grid(self) -> tuple[Expression, Expression, Expression]:
        """Grid of the first launch; it may depend on inames of loops of the host."""
        return self.launches[0].grid

    @property
    def block(self) -> tuple[int, int, int]:
        """Block of the first launch."""
        return self.launches[0].block

    def __repr__(self) -> str:
        lines, launches = self.device_code.count("\n"), len(self.launches)
        size = f"{launches} launch{'es' * (launches != 1)}, {lines} line{'s' * (lines != 1)}"
        return f"<GeneratedProgram '{self.kernel}' for {self.target}: {size}>"

    def __str__(self) -> str:
        return self.device_code
