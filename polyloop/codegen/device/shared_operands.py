"""Tiles in shared memory that matrix instructions read: rows of 128 bytes, swizzled, that a descriptor describes.

The elements of a tile lie in rows of 128 bytes, eight of which are a group of 1024 bytes.  A row runs along k, or along
the other subscript (16-bit elements only).  Pieces of 16 bytes are permuted by the number of the row, as
``pl.swizzle(knl, tile, bits=3, base=log2(16/size), shift=3)`` does it.  PTX ISA, "Matrix Layout in Shared Memory".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.device.tensors import Operand
from polyloop.expr.rewrite import substitute
from polyloop.kernel.swizzle import Swizzle
from polyloop.poly.affine import Affine, Floor, affine_of
from polyloop.poly.sets import constant_bounds
from polyloop.schedule.plan import Statement
from polyloop.schedule.storage import Storage

__all__ = [
    "GROUP_BYTES", "ROW_BYTES", "SharedTile", "at_zero", "distance", "names_in", "own_value", "row_swizzle",
    "shared_tile",
]  # fmt: skip

ROW_BYTES: Final = 128
_PIECE_BYTES: Final = 16
_ROWS: Final = 8
GROUP_BYTES: Final = ROW_BYTES * _ROWS
"""Bytes of eight rows; a tile begins at a multiple of them."""

_Values = Mapping[str, Any]


@dataclass(frozen=True)
class SharedTile:
    """Layout of an operand in shared memory.

    Attributes
    ----------
    along
        Subscript of the intrinsic along which a row runs.
    panels
        Distance from one panel, of columns as wide as a row, to the next [bytes].
    rows
        Distance from eight rows to the next eight [bytes].
    """

    along: str
    panels: int
    rows: int


def shared_tile(operand: Operand, storage: Storage) -> SharedTile | tuple[str, str]:
    """Return the layout of an operand of a matrix instruction in *storage*; a problem and a hint if it has no such."""
    size, name = storage.dtype.itemsize, operand.array
    wanted = row_swizzle(size)
    swizzle = f"pl.swizzle(knl, '{name}', bits=3, base={wanted.base}, shift=3)"
    hint = f"let rows have {ROW_BYTES // size} elements, and call {swizzle}"
    if storage.swizzle != wanted:
        return f"'{name}' is not swizzled, and it reads rows of {ROW_BYTES} bytes that are", hint
    address = _address(operand, storage)
    if address is None:
        return f"a subscript of '{name}' is not affine", "fetch its elements in order: pl.add_prefetch"
    rank, depth = ("i" if operand.name == "a" else "j"), "k"
    extents = operand.extents
    one, two = np.meshgrid(np.arange(extents[rank]), np.arange(extents[depth]), indexing="ij")
    offsets = address.at(operand, {rank: one, depth: two})
    row = ROW_BYTES // size
    for along, across in ((depth, rank), (rank, depth)):
        fast, slow = (two, one) if along == depth else (one, two)
        panels = _distance(offsets, along == rank, row)
        groups = _distance(offsets, across == rank, _ROWS)
        expected = fast % row + fast // row * panels + slow % _ROWS * row + slow // _ROWS * groups
        if np.array_equal(offsets - offsets[0, 0], expected):
            break
    else:
        return f"the elements of '{name}' are not in rows of {ROW_BYTES} bytes", hint
    if along == rank and size != 2:
        text = f"rows of '{name}' run along {rank}, and it reads elements of {8 * size} bits by rows of k"
        return text, "let the array of that operand be stored by rows of k, as in a[i, k]*b[j, k]"
    steps = [panels * size if extents[along] > row else 0, groups * size if extents[across] > _ROWS else GROUP_BYTES]
    if any(step % GROUP_BYTES for step in steps):
        return f"groups of eight rows of '{name}' do not begin at multiples of {GROUP_BYTES} bytes", hint
    for bytes_apart, is_in_row in address.steps(size):
        if bytes_apart % (_PIECE_BYTES if is_in_row and along == depth else GROUP_BYTES):
            return f"a tile of '{name}' begins {bytes_apart} bytes after another, inside of a group of rows", hint
    return SharedTile(along, *steps)


def distance(element: p.Subscript, storage: Storage, loops: Sequence[str]) -> Affine | None:
    """Return the distance of an element of a tile from that in the first iterations of *loops* [16 bytes].

    None if it is the same in all of them, or no such sum.
    """
    bytes_apart = dict[str, int]()
    for index, stride in zip(element.index_tuple, storage.distances, strict=True):
        form = affine_of(index)
        if form is None:
            return None
        for var, coefficient in form.terms:
            if isinstance(var, str) and var in loops:
                bytes_apart[var] = bytes_apart.get(var, 0) + coefficient * stride * storage.dtype.itemsize
            elif not names_in(var).isdisjoint(loops):
                return None
    if any(number % _PIECE_BYTES for number in bytes_apart.values()):
        return None
    return Affine.make([(var, number // _PIECE_BYTES) for var, number in bytes_apart.items()]) if bytes_apart else None


def at_zero(element: p.Subscript, further: Affine) -> p.Subscript:
    """Return an element for the first iterations of the loops in *further*."""
    found = substitute(element, {str(var): 0 for var, _ in further.terms})
    assert isinstance(found, p.Subscript), "an element stays one"
    return found


def row_swizzle(size: int) -> Swizzle:
    """Return the permutation of pieces of 16 bytes in rows of 128 bytes, for elements of some bytes."""
    return Swizzle(3, (_PIECE_BYTES // size).bit_length() - 1, 3)


def _distance(offsets: np.ndarray[Any, Any], is_first: bool, number: int) -> int:
    """Return the distance from an element to that *number* elements on, along the first or second axis; 0 if none."""
    along = offsets[:, 0] if is_first else offsets[0, :]
    return int(along[number] - along[0]) if len(along) > number else 0


@dataclass(frozen=True)
class _Address:
    """Address of an element without its swizzle, as forms and their strides [elements]."""

    parts: tuple[tuple[Affine, int], ...]
    own: frozenset[str]
    """The dimensions of the tile."""
    fixed: Mapping[str, Affine]
    """Other dimensions of one value."""

    def at(self, operand: Operand, subscripts: _Values) -> np.ndarray[Any, Any]:
        """Return the address of elements of the tile, all other variables being 0."""
        values: dict[str, Any] = {}
        for axis, numbers in subscripts.items():
            pairs = operand.axes[axis]
            for dim, stride in pairs:
                above = min((c for _, c in pairs if c > stride), default=None)
                values[dim] = numbers // stride if above is None else numbers // stride % (above // stride)
        total = sum((own_value(form, values) * stride for form, stride in self.parts), np.zeros(()))
        return np.asarray(total, dtype=np.int64)

    def steps(self, size: int) -> list[tuple[int, bool]]:
        """Return the distances [bytes] by which other variables, and constants, move the tile; True if along a row."""
        found = []
        for given, stride in self.parts:
            form = given.substitute(self.fixed)
            numbers = [form.const, *(c for var, c in form.terms if not names_in(var) & self.own)]
            found += [(number * stride * size, stride == 1) for number in numbers if number]
        return found


def _address(operand: Operand, storage: Storage) -> _Address | None:
    """Return the address of an operand's element; None if a subscript mixes the tile's with others."""
    own = frozenset(dim for pairs in operand.axes.values() for dim, _ in pairs)
    parts = []
    for index, stride in zip(operand.element.index_tuple, storage.distances, strict=True):
        form = affine_of(index)
        if form is None or any(names_in(var) & own and names_in(var) - own for var, _ in form.terms):
            return None
        parts.append((form, stride))
    others = [dim for dim in operand.statement.dims if dim not in own]
    fixed = {dim: Affine((), value) for dim in others if (value := _one_value(operand.statement, dim)) is not None}
    return _Address(tuple(parts), own, fixed)


def _one_value(statement: Statement, dim: str) -> int | None:
    low, high = constant_bounds(statement.domain, statement.dims.index(dim))
    return low if low == high else None


def names_in(var: str | Floor) -> frozenset[str]:
    """Return the names in a variable of a form."""
    return frozenset((var,)) if isinstance(var, str) else frozenset(Affine(var.terms, var.const).names())


def own_value(form: Affine, values: _Values) -> Any:  # noqa: ANN401 - numbers, or an array of them
    """Return the value of a form without its constant and its terms of other variables."""
    total: Any = 0
    for var, coefficient in form.terms:
        if not names_in(var) & values.keys():
            continue
        if isinstance(var, str):
            total = total + coefficient * values[var]
        else:
            total = total + coefficient * ((own_value(Affine(var.terms, 0), values) + var.const) // var.den)
    return total
