"""What the user writes in ``kernel_data``: several names at once, shapes as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.dtypes import to_dtype
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import Expression
from polyloop.expr.parser import parse_expression
from polyloop.expr.source import Source, split_outside_brackets
from polyloop.kernel import arrays
from polyloop.kernel.arrays import AddressSpace, ArrayArg

__all__ = ["GlobalArg", "TemporaryVariable", "ValueArg", "auto", "expand_data", "row_major"]


class _Auto:
    """The type of :data:`auto`."""

    def __repr__(self) -> str:
        return "auto"


auto: Final = _Auto()
"""Find this out: a shape from the footprint of the accesses, a type by inference."""

Shape: TypeAlias = "str | int | Sequence[object] | _Auto | None"


@dataclass(frozen=True)
class GlobalArg:
    """One or several array arguments in global memory.

    Parameters
    ----------
    name
        ``"a"``, or ``"a, b, c"`` for several with the same facts.
    dtype
        Element type: NumPy type, its name, or None to infer it.
    shape
        Extents [elements]: ``"n, n"``, ``(n, 16)``, or ``auto`` (the default) to take the smallest
        shape that holds every access.
    strides
        Distances along each axis [elements]; by default packed as *order* says.
    order
        ``"C"`` (last axis contiguous, the default) or ``"F"``.
    is_input, is_output
        What the array is meant to be; checked against what the instructions do.  None: found out.
    """

    name: str
    dtype: object = None
    shape: Shape = auto
    strides: Shape = auto
    order: str = "C"
    is_input: bool | None = None
    is_output: bool | None = None


@dataclass(frozen=True)
class ValueArg:
    """One or several scalar arguments, passed by value.

    Parameters
    ----------
    name
        ``"n"``, or ``"n, m"`` for several of one type.
    dtype
        NumPy type or its name; None infers it (int32 for parameters of the domains).
    """

    name: str
    dtype: object = None


@dataclass(frozen=True)
class TemporaryVariable:
    """One or several variables that live only while the kernel runs.

    Parameters
    ----------
    name
        ``"t"``, or ``"t, u"`` for several with the same facts.
    dtype
        NumPy type or its name; None infers it.
    shape
        Extents [elements] as for :class:`GlobalArg`; ``()`` (the default) is a scalar.
    address_space
        Where it lives: an ``AddressSpace`` or its name; ``"auto"`` takes the narrowest that its readers allow.
    padding
        Extra elements at the end of each row: other addresses, same meaning.
    """

    name: str
    dtype: object = None
    shape: Shape = ()
    address_space: AddressSpace | str = AddressSpace.AUTO
    padding: int = 0


Declared: TypeAlias = ArrayArg | arrays.ValueArg | arrays.TemporaryVariable


def _split(names: str) -> list[str]:
    found = [name.strip() for name in names.split(",") if name.strip()]
    for name in found:
        problem = check_identifier(name)
        if problem is not None:
            raise KernelError("make_kernel", None, [problem])
    return found


def _dtype(given: object) -> np.dtype[np.generic] | None:
    return None if given is None else to_dtype(given)


def _extents(what: Shape) -> tuple[Expression, ...] | None:
    if what is None or isinstance(what, _Auto):
        return None
    if isinstance(what, str):
        parts = (part.text.strip() for part in split_outside_brackets(Source.of(what), ","))
        return tuple(parse_expression(part) for part in parts if part)
    if isinstance(what, int):
        return (what,)
    return tuple(_extent(entry) for entry in what)


def _extent(entry: object) -> Expression:
    if isinstance(entry, str):
        return parse_expression(entry)
    if isinstance(entry, int | np.integer):
        return int(entry)
    if isinstance(entry, p.ExpressionNode):
        return entry
    problem = Diagnostic(
        "bad-shape",
        f"an extent of a shape cannot be {entry!r}",
        hints=("write shapes as text such as \"n, n\", or as a tuple of integers and names",),
    )
    raise KernelError("make_kernel", None, [problem])


def row_major(shape: Sequence[Expression], order: str = "C") -> tuple[Expression, ...]:
    """Return the strides [elements] of a packed array of *shape*."""
    strides: list[Expression] = []
    step: Expression = 1
    for extent in reversed(shape) if order == "C" else shape:
        strides.append(step)
        if isinstance(step, int) and isinstance(extent, int):
            step = step * extent
        elif isinstance(step, int) and step == 1:
            step = extent
        else:
            factors = (*(step.children if isinstance(step, p.Product) else (step,)), extent)
            step = p.Product(factors)
    return tuple(reversed(strides)) if order == "C" else tuple(strides)


def _address_space(given: AddressSpace | str) -> AddressSpace:
    if isinstance(given, AddressSpace):
        return given
    if given in {space.value for space in AddressSpace}:
        return AddressSpace(given)
    hints = ("one of auto, private, local, global",)
    problem = Diagnostic("bad-address-space", f"no address space '{given}'", hints=hints)
    raise KernelError("make_kernel", None, [problem])


def expand_data(entry: object) -> Iterator[Declared]:
    """Yield one value for each name in *entry*."""
    if isinstance(entry, GlobalArg):
        if entry.order not in {"C", "F"}:
            problem = Diagnostic("bad-order", f"order is 'C' or 'F', not {entry.order!r}")
            raise KernelError("make_kernel", None, [problem])
        shape = _extents(entry.shape)
        strides = _extents(entry.strides)
        if strides is None and shape is not None:
            strides = row_major(shape, entry.order)
        for name in _split(entry.name):
            directions = (entry.is_input is not False, entry.is_output is True)
            yield ArrayArg(name, _dtype(entry.dtype), shape, strides, entry.order, *directions)
    elif isinstance(entry, ValueArg):
        for name in _split(entry.name):
            yield arrays.ValueArg(name, _dtype(entry.dtype))
    elif isinstance(entry, TemporaryVariable):
        for name in _split(entry.name):
            space = _address_space(entry.address_space)
            yield arrays.TemporaryVariable(name, _dtype(entry.dtype), _extents(entry.shape), space, entry.padding)
    else:
        problem = Diagnostic(
            "bad-kernel-data",
            f"kernel_data cannot hold {entry!r}",
            hints=("use pl.GlobalArg, pl.ValueArg, pl.TemporaryVariable or ...",),
        )
        raise KernelError("make_kernel", None, [problem])
