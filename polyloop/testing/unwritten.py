"""Reads of elements that nothing has written, which a program may make where data decides.

Affine reads of such elements are refused as a kernel is made (``read-before-write``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from polyloop.errors import ArgumentError
from polyloop.kernel.kernel import LoopKernel
from polyloop.program.lower import lower
from polyloop.target.interpreter import POISON, interpret_with

__all__ = ["reads_unwritten"]

_OTHERS: Final = (0x00, 0x7F)
"""Zeros, and large positive numbers, which no argument of a fuzzer's kernel is."""


def reads_unwritten(kernel: LoopKernel, arguments: Mapping[str, Any]) -> bool:
    """Return whether the results of the program depend on what its temporaries held before."""
    assert kernel.reference is not None, "a reference program has no reference"
    program = kernel.reference.kernel
    statements = lower(program).statements.values()
    if all(s.is_unconditional(a) for s in statements for a in s.accesses if a.array in program.temporaries):
        return False
    first = _results(kernel, arguments, POISON)
    return any(_results(kernel, arguments, poison) != first for poison in _OTHERS)


def _results(kernel: LoopKernel, arguments: Mapping[str, Any], poison: int) -> tuple[bytes, ...] | None:
    """Return the bits of all outputs; None if the program stops, as where it takes a subscript from such an element."""
    try:
        found = interpret_with(kernel, arguments, poison=poison)
    except ArgumentError:
        return None
    return tuple(array.tobytes() for array in found.values())
