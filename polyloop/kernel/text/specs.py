"""Entries of ``kernel_data`` as the user writes them: several names at once, shapes as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.display import Shown, brief
from polyloop.edge.checks import EXPLAINED
from polyloop.edge.words import spelt
from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.dtypes import find_dtype, to_dtype
from polyloop.expr.names import check_identifier, too_many_axes
from polyloop.expr.nodes import Expression
from polyloop.expr.parser import parse_expression
from polyloop.expr.source import Source, split_outside_brackets
from polyloop.kernel import arrays
from polyloop.kernel.arrays import AddressSpace, ArrayArg
from polyloop.kernel.layout import (
    Auto,
    DimTag,
    Strided,
    apart_axes,
    auto,
    auto_axes,
    order_tags,
    packed,
    parse_dim_tags,
    strides_of,
)
from polyloop.kernel.text.logical_lines import match_bracket

__all__ = [
    "ConstantArg",
    "Defaults",
    "GlobalArg",
    "TemporaryVariable",
    "ValueArg",
    "auto",
    "check_order",
    "expand_data",
    "read_offset",
]

Shape: TypeAlias = "str | int | Sequence[object] | Auto | None"


@dataclass(frozen=True)
class GlobalArg(Shown):
    """One or several array arguments in global memory.

    Parameters
    ----------
    name
        ``"a"``, or ``"a, b, c"`` for several with the same facts.
    dtype
        Element type: NumPy type, its name, or None to infer it.
    shape
        Extents [elements]: ``"n, n"``, ``(n, 16)``, or ``auto``, also as text (the default), to take the smallest
        shape that holds every access. None: those of the array passed, which the kernel only reads; it may be larger.
    strides
        Distances along each axis [elements]; by default packed as *order* says.  ``auto``, for one axis or for all,
        takes them from the array passed: the generated function gets arguments ``a_stride0``, ``a_stride1``, ..
    order
        ``"C"`` (last axis contiguous) or ``"F"``; by default the kernel's ``default_order``.
    offset
        Offset of the first element from the pointer that the generated function is passed [elements]; ``auto`` makes it
        an argument ``a_offset``, for views of larger arrays.  By default the kernel's ``default_offset``.
    dim_tags
        How each axis is stored, instead of *strides* and *order*: ``"N1,N0"`` (packed, N0 the fastest; with padding
        ``"N1,N0(pad=16)"``), ``"stride:16"``, ``"stride:auto"``, ``"C"``, ``"F"``; as text or as a list.
        ``"sep,N0"`` makes each index along the first axis an argument of its own, ``a_s0``, ``a_s1``, ..: a call takes
        these, or one array ``a``, or a list.  ``"N0,vec"`` makes the last axis, of 2 to 4 elements, the components of a
        vector type such as ``float4``.  Both need subscripts that are constants, or inames tagged ``unr``.
    alignment
        The address of the first element is a multiple of this [bytes], a power of two; checked at each call.
    is_input, is_output
        Intended use of the array; checked against the instructions.  None: found out.
    for_atomic
        Accepted so that Loopy scripts run; has no effect: any array can be updated atomically.
    """

    name: str
    dtype: object = None
    shape: Shape = auto
    strides: Shape = None
    order: str | None = None
    is_input: bool | None = None
    is_output: bool | None = None
    offset: object = None
    dim_tags: Annotated[str | Sequence[str] | None, EXPLAINED] = None
    alignment: int | None = None
    for_atomic: bool = False

    __repr__ = brief


@dataclass(frozen=True)
class ConstantArg(GlobalArg):
    """One or several array arguments that the kernel only reads.

    The parameters are those of :class:`GlobalArg`.  Writing such an array is refused.  On CUDA it is a ``const
    __restrict__`` pointer, as loads through the read-only cache require.
    """

    __repr__ = brief


@dataclass(frozen=True)
class ValueArg(Shown):
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

    __repr__ = brief


@dataclass(frozen=True)
class TemporaryVariable(Shown):
    """One or several variables that live only while the kernel runs.

    Parameters
    ----------
    name
        ``"t"``, or ``"t, u"`` for several with the same facts.
    dtype
        NumPy type or its name; None infers it.
    shape
        Extents [elements] as for :class:`GlobalArg`, by default as accesses say; ``()`` is a scalar.
    address_space
        Where it lives: an ``AddressSpace`` or its name; ``"auto"`` takes the narrowest that its readers allow.
    padding
        Extra elements at the end of each row: other addresses, same meaning.
    initializer
        The values that it has when the kernel starts: a NumPy array, or a number.  It says shape and type.  If no
        instruction writes the temporary, the values become a constant table in the program text.
    read_only
        True: instructions that write it are refused; needs an initializer.
    base_storage
        Name of storage that temporaries in shared memory share, one after the other: a value in one of them is lost as
        soon as another is written, and a kernel that needs it later is refused.  Private ones share registers without
        being told, and global ones have memory of their own.
    order, dim_tags, strides
        How the elements are stored, as for :class:`GlobalArg`; strides are numbers [elements].  Other addresses, same
        meaning.
    """

    name: str
    dtype: object = None
    shape: Shape = auto
    address_space: AddressSpace | str = AddressSpace.AUTO
    padding: int = 0
    initializer: object = field(default=None, compare=False)
    read_only: bool = False
    base_storage: str | None = None
    order: str | None = None
    dim_tags: Annotated[str | Sequence[str] | None, EXPLAINED] = None
    strides: Shape = None

    __repr__ = brief


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


def _shape(entry: GlobalArg | TemporaryVariable) -> tuple[Expression, ...] | None:
    """Return the extents that an array is declared with, None where they are left open."""
    shape = _extents(entry.shape)
    if shape is not None and (problem := too_many_axes(entry.name, len(shape))):
        raise KernelError("make_kernel", None, [problem])
    return shape


def _extents(what: Shape) -> tuple[Expression, ...] | None:
    if what is None or isinstance(what, Auto) or what == "auto":
        return None
    if isinstance(what, str):
        return _parsed_extents(what)
    if isinstance(what, int):
        return (what,)
    return tuple(_extent(entry) for entry in what)


@lru_cache(maxsize=256)
def _parsed_extents(text: str) -> tuple[Expression, ...]:
    if text.strip().startswith("(") and match_bracket(text, text.find("(")) == len(text.rstrip()) - 1:
        text = text.strip()[1:-1]
    parts = (part.text.strip() for part in split_outside_brackets(Source.of(text), ","))
    return tuple(parse_expression(part) for part in parts if part)


def _extent(entry: object, what: str = "an extent of a shape") -> Expression:
    if isinstance(entry, str):
        return parse_expression(entry)
    if isinstance(entry, int | np.integer):
        return int(entry)
    if isinstance(entry, p.ExpressionNode):
        return entry
    problem = Diagnostic(
        "bad-shape",
        f"{what} cannot be {spelt(entry)}",
        hints=("write shapes as text such as \"n, n\", or as a tuple of integers and names",),
    )
    raise KernelError("make_kernel", None, [problem])


def _address_space(given: AddressSpace | str) -> AddressSpace:
    if isinstance(given, AddressSpace):
        return given
    if given in {space.value for space in AddressSpace}:
        return AddressSpace(given)
    hints = ("one of auto, private, local, cluster, global",)
    problem = Diagnostic("bad-address-space", f"no address space '{given}'", hints=hints)
    raise KernelError("make_kernel", None, [problem])


@dataclass(frozen=True)
class Defaults:
    """Default layout of arrays: an order, ``"C"`` or ``"F"``, and an offset [elements]."""

    order: str = "C"
    offset: object = 0


def expand_data(entry: object, defaults: Defaults | None = None) -> Iterator[Declared]:
    """Yield one value for each name in *entry*."""
    if isinstance(entry, GlobalArg):
        layout = _Layout(entry, defaults or Defaults())
        for name in _split(entry.name):
            yield layout.array(name)
    elif isinstance(entry, ValueArg):
        for name in _split(entry.name):
            yield arrays.ValueArg(name, _dtype(entry.dtype))
    elif isinstance(entry, TemporaryVariable):
        for name in _split(entry.name):
            yield _temporary(entry, name)
    else:
        problem = Diagnostic(
            "bad-kernel-data",
            f"kernel_data cannot hold {spelt(entry)}",
            hints=("use pl.GlobalArg, pl.ConstantArg, pl.ValueArg, pl.TemporaryVariable or ...",),
        )
        raise KernelError("make_kernel", None, [problem])


def _temporary(entry: TemporaryVariable, name: str) -> arrays.TemporaryVariable:
    """Return the temporary called *name* that *entry* declares."""
    if entry.read_only and entry.initializer is None:
        raise _bad("bad-initializer", f"'{name}' is read-only and has no initializer", "pass initializer=np.array(..)")
    space, dtype, shape = _address_space(entry.address_space), _dtype(entry.dtype), _shape(entry)
    tags = _temporary_tags(entry, name, shape)
    pool = _base_storage(entry, name, space)
    if entry.initializer is None:
        return arrays.TemporaryVariable(name, dtype, shape, space, entry.padding, dim_tags=tags, base_storage=pool)
    if tags is not None:
        hint = "drop order, dim_tags and strides: a table is stored as its initializer is written"
        raise _bad("bad-layout", f"temporary '{name}' has an initializer and a layout", hint)
    values = np.asarray(entry.initializer)
    if find_dtype(values.dtype) is None:
        raise _bad("bad-initializer", f"the initializer of '{name}' cannot have the type {values.dtype}")
    values = values.astype(values.dtype.newbyteorder("="))
    if dtype is not None and values.dtype != dtype:
        if isinstance(entry.initializer, np.ndarray | np.generic):
            hint = f"pass initializer=values.astype(np.{dtype})"
            raise _bad("bad-initializer", f"'{name}' is {dtype}, and its initializer is {values.dtype}", hint)
        values = values.astype(dtype)
    if shape not in (None, ()) and shape != values.shape:
        raise _bad("bad-initializer", f"'{name}' has another shape than its initializer, {values.shape}", "drop shape=")
    table = arrays.Table.of(values)
    return arrays.TemporaryVariable(name, values.dtype, values.shape, space, entry.padding, table, entry.read_only)


def _temporary_tags(
    entry: TemporaryVariable, name: str, shape: tuple[Expression, ...] | None
) -> tuple[DimTag, ...] | None:
    """Return the storage tags of the axes of a temporary, None for C order."""
    tags: tuple[DimTag, ...] | None = None
    if sum(given is not None for given in (entry.order, entry.dim_tags, entry.strides)) > 1:
        raise _bad("bad-layout", f"'{name}' has more than one of order, dim_tags and strides", "give one of them")
    given: Any = entry.initializer
    rank = len(shape) if shape is not None else None if given is None else np.ndim(given)
    order = entry.order
    if isinstance(entry.dim_tags, str) and entry.dim_tags.strip().upper() in {"C", "F"} and rank != 1:
        order = entry.dim_tags.strip().upper()
    elif entry.dim_tags is not None:
        tags = parse_dim_tags(entry.dim_tags)
    if entry.strides is not None and not isinstance(entry.strides, Auto):
        tags = tuple(_strided(part) for part in _entries(entry.strides))
    if order is not None and check_order(order) == "F":
        if rank is None:
            raise _bad("bad-layout", f"'{name}' has order 'F' and no shape", "give its shape")
        tags = order_tags(rank, "F")
    _check_temporary(entry, name, tags, rank)
    return tags


def _check_temporary(
    entry: TemporaryVariable, name: str, tags: tuple[DimTag, ...] | None, rank: int | None
) -> None:
    if apart_axes(tags):
        hint = "only arguments can have one; use N0, N1, .."
        raise _bad("bad-layout", f"temporary '{name}' has an axis tagged sep or vec", hint)
    strides = [tag.stride for tag in tags or () if isinstance(tag, Strided)]
    if isinstance(entry.strides, Auto) or not all(isinstance(stride, int) and stride > 0 for stride in strides):
        message = f"the strides of temporary '{name}' are no positive numbers"
        raise _bad("bad-layout", message, "give numbers, such as strides=(17, 1)")
    if tags is not None and rank is not None and len(tags) != rank:
        message = f"'{name}' has {rank} axes and {len(tags)} strides or dim_tags"
        raise _bad("bad-layout", message, "give one for each axis")
    if strides and entry.padding:
        raise _bad("bad-layout", f"'{name}' has strides and a padding", "the strides say where the padding is")


def _base_storage(entry: TemporaryVariable, name: str, space: AddressSpace) -> str | None:
    """Return the name of the storage that a temporary shares with others, if it is in shared memory."""
    if entry.base_storage is None:
        return None
    problem = check_identifier(entry.base_storage)
    if problem is not None:
        raise KernelError("make_kernel", None, [problem])
    if space in (AddressSpace.PRIVATE, AddressSpace.GLOBAL):
        return None
    if entry.initializer is not None:
        hint = "drop base_storage, or assign the values where they are needed"
        raise _bad("bad-storage", f"'{name}' has an initializer and cannot share '{entry.base_storage}'", hint)
    return entry.base_storage


class _Layout:
    """The layout that an array argument is declared with, checked."""

    def __init__(self, entry: GlobalArg, defaults: Defaults) -> None:
        self.entry = entry
        self.dtype = _dtype(entry.dtype)
        self.order = check_order(defaults.order if entry.order is None else entry.order)
        self.shape = _shape(entry)
        self.tags = self._tags()
        self.strides = self._strides()
        self.offset = read_offset(defaults.offset if entry.offset is None else entry.offset)
        alignment = entry.alignment
        if alignment is not None and (type(alignment) is not int or alignment < 1 or alignment & (alignment - 1)):
            hint = "give it in bytes, such as alignment=16"
            raise _bad("bad-layout", f"the alignment of '{entry.name}' is no power of two: {spelt(alignment)}", hint)

    def _tags(self) -> tuple[DimTag, ...] | Auto | None:
        """Return the layout that strides and dim_tags give, None if they give none."""
        name, strides, tags = self.entry.name, self.entry.strides, self.entry.dim_tags
        if strides is not None and tags is not None:
            raise _bad("bad-layout", f"'{name}' has both strides and dim_tags", "give one of them")
        rank = None if self.shape is None else len(self.shape)
        found: tuple[DimTag, ...] | Auto | None = None
        if isinstance(strides, Auto):
            found = auto if rank is None else (Strided(None),) * rank
        elif strides is not None:
            found = tuple(_strided(part) for part in _entries(strides))
        elif tags is not None:
            if isinstance(tags, str) and tags.strip().upper() in {"C", "F"} and rank != 1:
                self.order = tags.strip().upper()
                return None
            found = parse_dim_tags(tags)
        if isinstance(found, tuple) and rank is not None and len(found) != rank:
            what = f"{len(found)} {'strides' if tags is None else 'dim_tags'}"
            raise _bad("bad-layout", f"'{name}' has {rank} axes and {what}", "give one for each axis")
        return found

    def _strides(self) -> tuple[Expression, ...] | None:
        """Return the strides, None if they are left open."""
        if self.shape is not None and self.tags is None:
            return packed(self.shape, self.order)
        if self.shape is not None and isinstance(self.tags, tuple) and not auto_axes(self.tags):
            return strides_of(self.shape, self.tags, ())
        return None

    def array(self, name: str) -> ArrayArg:
        """Return the argument called *name*."""
        entry = self.entry
        return ArrayArg(
            name, self.dtype, self.shape, self.strides, self.order, entry.is_input is not False,
            entry.is_output is True, self.tags, self.offset, entry.alignment, isinstance(entry, ConstantArg),
        )  # fmt: skip


def check_order(order: object) -> str:
    """Return *order*, which must be ``"C"`` or ``"F"``."""
    if order not in {"C", "F"}:
        raise _bad("bad-order", f"order is 'C' or 'F', not {spelt(order)}")
    return str(order)


def read_offset(given: object) -> Expression | Auto:
    """Return the parsed offset: an expression in the parameters [elements], or ``auto``."""
    if isinstance(given, Auto):
        return given
    offset = _extent(given, "an offset")
    if isinstance(offset, int) and offset < 0:
        raise _bad("bad-layout", f"an offset cannot be {offset}", "offsets count elements from the start of the memory")
    return offset


def _entries(what: object) -> list[object]:
    """Return the entries of strides, which are text, a number or a sequence."""
    if isinstance(what, str):
        return [part.text.strip() for part in split_outside_brackets(Source.of(what), ",") if part.text.strip()]
    if isinstance(what, Sequence):
        return list(what)
    return [what]


def _strided(part: object) -> Strided:
    return Strided(None if isinstance(part, Auto) or part == "auto" else _extent(part, "a stride"))


def _bad(code: str, message: str, *hints: str) -> KernelError:
    return KernelError("make_kernel", None, [Diagnostic(code, message, hints=hints)])
