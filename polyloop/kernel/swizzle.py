"""XOR swizzles: the row number permutes the elements of a row, so that a column is spread over the banks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from polyloop.expr.nodes import Expression

__all__ = ["Swizzle", "swizzle_problem"]

_Addresses = TypeVar("_Addresses", int, npt.NDArray[np.int64])


@dataclass(frozen=True)
class Swizzle:
    """Bits ``base + shift`` and up of an address, ``bits`` of them, are XORed into bits ``base`` and up [elements].

    The low ``base`` bits stay: so many elements in a row, ``2**base``, move together.  With ``bits``, ``base`` and
    ``shift`` this is CUTLASS's ``Swizzle<B, M, S>``.
    """

    bits: int
    base: int
    shift: int

    def __str__(self) -> str:
        return f"swizzle({self.bits}, {self.base}, {self.shift})"

    def moved(self, address: _Addresses) -> _Addresses:
        """Return the address after the swizzle of the element that would be at *address* without it, or of several."""
        return address ^ ((address >> self.shift) & (((1 << self.bits) - 1) << self.base))

    @property
    def period(self) -> int:
        """Addresses that differ by multiples of this number move alike [elements]."""
        return 1 << (self.base + self.shift + self.bits)

    def keeps(self, elements: int) -> bool:
        """Return whether a vector of *elements* that begins at a multiple of them stays together."""
        return (1 << self.base) % elements == 0


def swizzle_problem(swizzle: Swizzle, row: Expression, nesting: Sequence[int] | None) -> str:
    """Return the reason why an array with rows of length *row* cannot have this swizzle, "" if it can."""
    if nesting is None:
        return "its axes have strides, and only packed rows can be swizzled"
    if len(nesting) < 2:
        return "it has one axis, and no rows"
    if not isinstance(row, int) or row < 1 or row & (row - 1):
        return f"its rows have {row} elements, which is no power of two"
    length = row.bit_length() - 1
    if swizzle.base + swizzle.bits > length:
        return f"its rows have {row} elements, and places up to {2 ** (swizzle.base + swizzle.bits)} would change"
    if swizzle.base + swizzle.shift < length:
        return f"the places would be changed by bit {swizzle.base + swizzle.shift} of the address, inside of a row"
    return ""
