"""Generated programs: text, launches, and the checks that a caller must make."""

from __future__ import annotations

from dataclasses import dataclass

from polyloop.codegen.tree.registers import IndexedArray
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression
from polyloop.kernel.arrays import Argument, ArrayArg
from polyloop.proof.obligation import Proof

__all__ = ["DeviceLaunch", "GeneratedProgram", "LaunchCheck", "SplitArray"]


@dataclass(frozen=True)
class DeviceLaunch:
    """One launch of one device kernel.

    Attributes
    ----------
    name
        Name of the ``extern "C"`` function.
    grid
        Blocks along x, y, z: pymbolic expressions in the integer parameters (or ints).
        Any of them may be 0 or negative for an empty problem: then nothing is launched.
    block
        Threads along x, y, z.
    shared_bytes
        Shared memory of a block [bytes].
    arguments
        Names of the arguments, in the order of the function's parameters.
    dynamic_shared_bytes
        What of it the launch has to ask for, because the text does not declare its size [bytes].
    max_grid
        How many blocks along x, y, z a device can have, if that is limited.
    """

    name: str
    grid: tuple[Expression, Expression, Expression]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[str, ...]
    dynamic_shared_bytes: int = 0
    max_grid: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class LaunchCheck:
    """A condition on the integer parameters that the caller must fulfil.

    ``condition`` is a pymbolic comparison or logical expression; it is evaluated in exact integers.  ``hint`` says
    what to do where it is false.
    """

    condition: Expression
    message: str
    code: str = "assumption-violated"
    hint: str = "pass sizes that the kernel was made for, or make a kernel without the assumption"


@dataclass(frozen=True)
class SplitArray:
    """An array of the kernel that functions take in parts.

    Attributes
    ----------
    parts
        The arguments that stand for it: one for each index along the axis ``separate``, otherwise one of its name.
    separate
        The axis whose indices are arguments of their own, if there is one.
    vector
        The last axis, if it holds the components of vectors.
    array
        The array as the kernel sees it.
    """

    name: str
    parts: tuple[str, ...]
    separate: int | None
    vector: int | None
    array: ArrayArg


@dataclass(frozen=True)
class GeneratedProgram:
    """Source text for one target and what is needed to run it.

    Attributes
    ----------
    kernel
        Name of the kernel.
    target
        ``"c"`` or ``"cuda"``.
    device_code
        The whole source file.
    launches
        In order of execution.  For the C target: one entry, the host function.
    arguments
        All arguments of the kernel, in the user's order, with dtypes and shapes filled in.
    checks
        Conditions on the integer parameters, from ``assumptions`` and from proofs.
    workspace
        Arrays that are no arguments of the kernel and that the caller allocates for the length of a call: temporaries
        in global memory.  Functions take them after the arguments.
    split
        Arrays of the kernel that stand among the arguments in parts.
    alignments
        Arrays, and what their addresses must be multiples of [bytes], where their elements ask for less.
    notes
        Where the program is not as fast as the kernel asks for, by instruction.
    indexed
        Arrays of each thread that may not be held in registers.
    index_checks
        Conditions under which 32-bit index arithmetic is exact; where one fails the program
        must be generated again with ``index_bits=64``.
    renamed
        Names of the kernel that mean something else in the text, and what they are there.
    proofs
        What had to be proven of the text itself.
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

    @property
    def grid(self) -> tuple[Expression, Expression, Expression]:
        """Grid of the first launch."""
        return self.launches[0].grid

    @property
    def block(self) -> tuple[int, int, int]:
        """Block of the first launch."""
        return self.launches[0].block

    def __str__(self) -> str:
        return self.device_code
