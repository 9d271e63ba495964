"""Arguments and temporaries of a kernel: data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.display import Shown
from polyloop.edge.words import Choice
from polyloop.expr.dtypes import dtype_name
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.frozen import quick
from polyloop.kernel.layout import Auto, DimTag, Nested, apart_axes, order_tags, packed, strides_of
from polyloop.kernel.swizzle import Swizzle

__all__ = ["AddressSpace", "Argument", "ArrayArg", "Table", "TemporaryVariable", "ValueArg"]


class AddressSpace(Choice):
    """Address space of a temporary, which decides the threads that see it.

    ``LOCAL`` is the shared memory of a block.  In ``CLUSTER``, the first axis is that of the blocks of a cluster: each
    has the elements with its own position in shared memory, and all of the cluster see all.
    """

    AUTO = "auto"
    PRIVATE = "private"
    LOCAL = "local"
    CLUSTER = "cluster"
    GLOBAL = "global"

    __hash__ = object.__hash__  # each is one object

    def __str__(self) -> str:
        return self.value


@quick
@dataclass(frozen=True)
class ArrayArg(Shown):
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
    dim_tags
        How each axis is stored, where that is not by ``order``.
    offset
        Offset of the first element from the pointer that the generated function is passed [elements].
    alignment
        Alignment of the first element [bytes]; None asks for that of the type.
    is_constant
        Whether no instruction may write it.
    dim_names
        Names of the axes, by which transforms may be told about them.
    is_used_once
        Whether caches need not keep its elements: it is only read, each about once, or only written.
    """

    name: str
    dtype: np.dtype[np.generic] | None = None
    shape: tuple[Expression, ...] | None = None
    strides: tuple[Expression, ...] | None = None
    order: str = "C"
    is_input: bool = True
    is_output: bool = False
    dim_tags: tuple[DimTag, ...] | Auto | None = None
    offset: Expression | Auto = 0
    alignment: int | None = None
    is_constant: bool = False
    dim_names: tuple[str, ...] | None = None
    is_used_once: bool = False

    @property
    def is_packed(self) -> bool:
        """True if the array is stored in ``order`` without gaps."""
        return self.shape is None or self.strides == packed(self.shape, self.order)

    def shown(self) -> str:
        """Return name, type, shape, layout and use as text for people."""
        use = " and ".join(word for word, holds in (("in", self.is_input), ("out", self.is_output)) if holds)
        use = f" ({use})" if use else ""
        return f"{self.name}: {_type(self.dtype)}[{_extents(self.shape)}]{self._layout()}{use}"

    def _layout(self) -> str:
        """Return the parts of the layout that are not the default, as text."""
        parts = []
        if isinstance(self.dim_tags, tuple) and apart_axes(self.dim_tags):
            parts.append(f"stored as {','.join(map(str, self.dim_tags))}")
        elif self.is_packed:
            parts += [] if self.order == "C" or len(self.shape or ()) < 2 else [f"order {self.order}"]
        elif self.strides is not None:
            parts.append(f"strides ({_extents(self.strides)})")
        if not isinstance(self.offset, int) or self.offset:
            parts.append(f"offset {'auto' if isinstance(self.offset, Auto) else show(self.offset)}")
        if self.alignment is not None:
            parts.append(f"aligned to {self.alignment} bytes")
        return "".join(f", {part}" for part in parts)


@quick
@dataclass(frozen=True)
class ValueArg(Shown):
    """A scalar argument passed by value; integer ones may be parameters of the domains.

    ``layout_of`` names the array whose stride or offset it is: its value is read off the array that is passed, and
    its type is that of the index arithmetic.
    """

    name: str
    dtype: np.dtype[np.generic] | None = None
    layout_of: str | None = None

    def shown(self) -> str:
        """Return name and type as text for people."""
        return f"{self.name}: {_type(self.dtype) if self.layout_of is None else f'index (of {self.layout_of})'}"


@dataclass(frozen=True)
class Table:
    """The values of an array, which do not change."""

    data: bytes
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]

    @staticmethod
    def of(values: np.ndarray[Any, Any]) -> Table:
        """Return the values of an array."""
        return Table(values.tobytes(), values.dtype, values.shape)

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The values, read-only."""
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)


@quick
@dataclass(frozen=True)
class TemporaryVariable(Shown):
    """A variable that lives only while the kernel runs.

    ``shape`` [elements] is ``()`` for a scalar.  ``padding`` is the number of extra elements at the end of each row
    (last axis), which changes addresses but not meaning.  With an ``initializer`` it is a constant table that no
    instruction writes; ``is_constant`` says that none may.  ``dim_tags`` say how each axis is stored, where that is not
    in C order; then the padding ends the axis that is stored contiguously.  Temporaries with one ``base_storage`` share
    one address.  With a ``swizzle`` the elements of each row change places in shared memory.  ``dim_names`` are names
    of the axes.  Where ``is_shuffled``, targets with shuffles keep each element in a register of its thread.
    """

    name: str
    dtype: np.dtype[np.generic] | None = None
    shape: tuple[Expression, ...] | None = ()
    address_space: AddressSpace = AddressSpace.AUTO
    padding: int = 0
    initializer: Table | None = None
    is_constant: bool = False
    dim_tags: tuple[DimTag, ...] | None = None
    base_storage: str | None = None
    swizzle: Swizzle | None = None
    dim_names: tuple[str, ...] | None = None
    is_shuffled: bool = False

    def strides(self) -> tuple[Expression, ...]:
        """Return the distance between neighbours along each axis [elements]; the shape must be known."""
        assert self.shape is not None, f"the shape of '{self.name}' is unknown"
        tags = self.dim_tags or order_tags(len(self.shape), "C")
        extents = [
            _longer(extent, self.padding) if isinstance(tag, Nested) and tag.level == 0 else extent
            for tag, extent in zip(tags, self.shape, strict=True)
        ]
        return strides_of(extents, tags, ("",) * len(tags))

    def nesting(self) -> tuple[int, ...] | None:
        """Return the axes from the slowest to the fastest, None if the strides say more than that."""
        assert self.shape is not None, f"the shape of '{self.name}' is unknown"
        tags = self.dim_tags or order_tags(len(self.shape), "C")
        levels = {tag.level: axis for axis, tag in enumerate(tags) if isinstance(tag, Nested) and tag.pad == 1}
        if len(levels) < len(tags):
            return None
        return tuple(levels[level] for level in sorted(levels, reverse=True))

    def row(self) -> Expression:
        """Return the length of a row: the axis that is stored contiguously, with its padding [elements]."""
        nesting = self.nesting()
        return _longer((self.shape or (1,))[nesting[-1] if nesting else -1], self.padding)

    def shown(self) -> str:
        """Return name, type, shape, address space and layout as text for people."""
        shape = _extents(self.shape)
        where = self.address_space if self.initializer is None else "table"
        layout = "" if self.swizzle is None else f", {self.swizzle}"
        layout += ", exchanged by shuffles" if self.is_shuffled else ""
        return f"{self.name}: {_type(self.dtype)}" + (f"[{shape}]" if shape else "") + f" ({where}{layout})"


def _type(dtype: np.dtype[np.generic] | None) -> str:
    return "?" if dtype is None else dtype_name(dtype)


def _extents(extents: tuple[Expression, ...] | None) -> str:
    return "?" if extents is None else ", ".join(map(show, extents))


def _longer(extent: Expression, count: int) -> Expression:
    if not count:
        return extent
    return extent + count if isinstance(extent, int) else p.Sum((extent, count))


Argument: TypeAlias = ArrayArg | ValueArg
