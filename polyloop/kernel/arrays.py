"""Arguments and temporaries of a kernel: data only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np

from polyloop.expr.nodes import Expression

__all__ = ["AddressSpace", "Argument", "ArrayArg", "TemporaryVariable", "ValueArg"]


class AddressSpace(Enum):
    """Where a temporary lives, and so which threads see it."""

    AUTO = "auto"
    PRIVATE = "private"
    LOCAL = "local"
    GLOBAL = "global"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class ArrayArg:
    """An array argument in global memory.

    Attributes
    ----------
    dtype
        Element type, or None while it is unknown.
    shape
        Extents [elements], expressions in the integer parameters; None while unknown.
    strides
        Distance between neighbours along each axis [elements].  Row-major for ``order="C"``.
    order
        ``"C"`` or ``"F"``; which of the two filled in ``strides``.
    """

    name: str
    dtype: np.dtype[np.generic] | None = None
    shape: tuple[Expression, ...] | None = None
    strides: tuple[Expression, ...] | None = None
    order: str = "C"
    is_input: bool = True
    is_output: bool = False


@dataclass(frozen=True)
class ValueArg:
    """A scalar argument passed by value; integer ones may be parameters of the domains."""

    name: str
    dtype: np.dtype[np.generic] | None = None


@dataclass(frozen=True)
class TemporaryVariable:
    """A variable that lives only while the kernel runs.

    ``shape`` [elements] is ``()`` for a scalar.  ``padding`` is the number of extra elements at
    the end of each row (last axis), which changes addresses but not meaning.
    """

    name: str
    dtype: np.dtype[np.generic] | None = None
    shape: tuple[Expression, ...] | None = ()
    address_space: AddressSpace = AddressSpace.AUTO
    padding: int = 0


Argument: TypeAlias = ArrayArg | ValueArg
