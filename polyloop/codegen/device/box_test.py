"""The box test: copies of a statement that a copy engine can do, a box of an array at a time.

The elements that a statement copies are, for each value of the loops around, those of a box of the array, in the order
in which the engine copies them.  Where a copy to shared memory stores zeros, the engine does; where a copy to the array
stores nothing, the engine stores nothing.  It does so beyond the extents that the description of the array gives, which
are bounds of the domain.

::

    for x, y:  tile[slot, x, y] = a[i + x, k + y], or zero from i + x = m or k + y = p on
    for x, y:  a[i + x, k + y] = tile[x, y] if i + x < m and k + y < p
    ->
    the box of a at (k, i), of as many elements, with the extents p and m
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, TypeAlias

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.device.shared_operands import GROUP_BYTES, ROW_BYTES, names_in, own_value, row_swizzle
from polyloop.errors import CodegenError
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import substitute
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg
from polyloop.mapping.contiguity import known_factor
from polyloop.poly.affine import Affine, Floor, affine_of, to_expression
from polyloop.poly.residues import Divisibility
from polyloop.poly.sets import constant_bounds, map_from_forms, parametric_interval, project_onto, rows_of, sample_set
from polyloop.schedule.copy_engine import Pieces, StartBox, StoreBox, TensorMap
from polyloop.schedule.plan import Assignment, Statement
from polyloop.schedule.storage import Storage, Strided

__all__ = ["OTHERWISE", "PIECE_BYTES", "PLAIN", "TILE_BYTES", "BoxTest", "box_of"]

_SET: Final = isl.dim_type.set
_PARAM: Final = isl.dim_type.param
PIECE_BYTES: Final = 16
_MOST_ALONG: Final = 256
_MOST_AXES: Final = 5
"""CUDA Driver API, "Tensor Map Object Management": strides and boxes in units of 16 bytes, 256 elements, 5 axes."""
_MOST_SLOTS: Final = 32
TILE_BYTES: Final = 128
"""Alignment of a box in shared memory that is not swizzled."""
OTHERWISE: Final = "fetch by via='cp.async', whose copies are of single elements"
PLAIN: Final = "leave out the tag 'box': threads store the elements"
Refuse: TypeAlias = Callable[[Statement, str, str, str, str], CodegenError]


def box_of(statement: Statement) -> frozenset[str]:
    """Return the dimensions of the box that a statement copies."""
    action = statement.action
    return action.box if isinstance(action, Assignment) else frozenset()


@dataclass(frozen=True)
class _Axis:
    """An axis of the array: its number, the first subscript without other variables, and the elements of the box."""

    number: int
    low: int
    extent: int


class BoxTest:
    """The box test of one statement.  Axes are in the order of the engine: from the contiguous one on."""

    def __init__(
        self, statement: Statement, storage: Storage, array: ArrayArg, known: Divisibility, refuse: Refuse
    ) -> None:
        self.statement, self.storage, self.array, self.known = statement, storage, array, known
        self.stores = array_name(statement.lhs) == array.name
        self._refuse = refuse
        self.size = storage.dtype.itemsize
        self.box = [x for x in statement.dims if x in box_of(statement)]
        self.outer = tuple(x for x in statement.dims if x not in self.box)
        domain = project_onto(statement.domain, statement.dims, self.box)
        self.points = domain.project_out(_PARAM, 0, domain.dim(_PARAM)).coalesce()
        self.low, self.grid = self._points()
        sides = (statement.rhs, statement.lhs)
        element, self.element = reversed(sides) if self.stores else sides
        self.indices, self.places = self._forms(element), self._forms(self.element)
        self.plain = [self._without_data(form) for form in self.indices]
        if not self.stores:
            self._check_slot()
        self.axes = self._axes()
        self.row = self._row()
        self._check_order()
        self._check_alignment()
        self.exact = statement.domain if statement.copied is None else statement.copied
        self._check_first()
        self.extents = self._extents()
        self._check_edges()

    def refuse(self, code: str, message: str, note: str, hint: str = "") -> CodegenError:
        """Return the error for the statement; a hint that ends with ``or`` goes on with the copies of threads."""
        otherwise = PLAIN if self.stores else OTHERWISE
        hint = f"{hint} {otherwise}" if hint.endswith(" or") else hint
        return self._refuse(self.statement, code, message, note, hint or otherwise)

    def _points(self) -> tuple[dict[str, int], dict[str, Any]]:
        """Return the least value of each dimension of the box, and their values at all points."""
        if self.statement.predicates or self.statement.bounds:
            raise self.refuse("not-a-box", "copies no box", "data decides what it copies")
        points = self.points
        bounds = [constant_bounds(points, number) for number in range(len(self.box))]
        for x, (low, high) in zip(self.box, bounds, strict=True):
            if low is None or high is None:
                raise self.refuse("not-a-box", "copies no box", f"the extent of '{x}' is not constant", "split it")
        ranges = [np.arange(low, high + 1) for low, high in bounds if low is not None and high is not None]
        meshes = [mesh.ravel() for mesh in np.meshgrid(*ranges, indexing="ij")]
        inside = np.zeros(prod(map(len, ranges)), np.bool_)
        for basic in points.compute_divs().get_basic_sets():
            own = np.ones_like(inside)
            for form, is_equality in rows_of(basic, self.box):
                value = _value(form, self.box, meshes)
                own &= value == 0 if is_equality else value >= 0
            inside |= own
        grid = {x: mesh[inside] for x, mesh in zip(self.box, meshes, strict=True)}
        return {x: int(mesh.min()) for x, mesh in grid.items()}, grid

    def _forms(self, element: Expression) -> list[Affine]:
        """Return the subscripts of an element as forms, none of which mixes the box with others in a division."""
        assert isinstance(element, p.Subscript), "an array has subscripts"
        found = []
        for index in element.index_tuple:
            form = affine_of(index)
            if form is None or any(names_in(x) & {*self.box} and names_in(x) - {*self.box} for x, _ in form.terms):
                raise self.refuse("not-a-box", "copies no box", f"a subscript of '{array_name(element)}' is not affine")
            found.append(form)
        return found

    def _without_data(self, form: Affine) -> Affine:
        """Return a subscript of the array without scalars that the program has read: boxes begin there, too."""
        dims, domain = self.statement.dims, self.statement.domain
        known = {*dims, *domain.get_var_names(_PARAM)}
        if form.names() <= known:
            return form
        return Affine(tuple(term for term in form.terms if names_in(term[0]) <= known), form.const)

    def _check_slot(self) -> None:
        """Raise an error unless the first subscript of the tile alone says which slot of a ring a box has."""
        if not 1 < self.storage.shape[0] <= _MOST_SLOTS:
            raise self.refuse("not-a-box", "copies no box", f"a ring has 2 to {_MOST_SLOTS} slots", "change the stages")
        slot, *others = self.places
        if slot.names() & {*self.box} or any(form.names() - {*self.box} for form in others):
            note = f"which part of '{self.storage.name}' it fills, its first subscript alone does not say"
            raise self.refuse("not-a-box", "copies no box", note, "leave its axes, and window, as pipeline makes them")

    def _along(self, form: Affine) -> Any:  # noqa: ANN401 - an array
        """Return the part of a form that the dimensions of the box decide, at all points."""
        return np.zeros(len(next(iter(self.grid.values()), [0])), np.int64) + own_value(form, self.grid)

    def _axes(self) -> list[_Axis]:
        strides = self.array.strides or ()
        order = [number for number, stride in enumerate(strides) if stride == 1]
        if not order:
            hint = "tag its axes so that the last one is contiguous, or"
            raise self.refuse("not-a-box", "copies no box", f"no axis of '{self.array.name}' is contiguous", hint)
        order = [order[-1], *(n for n in reversed(range(len(strides))) if n != order[-1])]
        if len(order) > _MOST_AXES:
            note = f"'{self.array.name}' has {len(order)} axes, and copy engines know {_MOST_AXES}"
            raise self.refuse("not-a-box", "copies no box", note)
        found = []
        for number in order:
            values = self._along(self.indices[number])
            found.append(_Axis(number, int(values.min()), int(values.max() - values.min()) + 1))
        places = self._linear([(axis, axis.extent) for axis in found])
        if not np.array_equal(np.sort(places), np.arange(prod(axis.extent for axis in found))):
            axis = next((axis for axis in found if self._has_gaps(axis)), None)
            note = f"it copies {len(places)} elements of a box of {' x '.join(str(a.extent) for a in found)}"
            if axis is not None:
                note = f"along axis {axis.number} of '{self.array.name}' neighbours are some elements apart"
            raise self.refuse("not-a-box", "copies no box", note)
        return found

    def _has_gaps(self, axis: _Axis) -> bool:
        return len(np.unique(self._along(self.indices[axis.number]))) < axis.extent

    def _linear(self, axes: Sequence[tuple[_Axis, int]]) -> Any:  # noqa: ANN401 - an array
        """Return the number of each point in a box of some extents, the first axis fastest."""
        total, step = 0, 1
        for axis, extent in axes:
            total = total + (self._along(self.indices[axis.number]) - axis.low) * step
            step *= extent
        return total

    def _row(self) -> int:
        """Return the elements of a row of the tile, which one operation copies at most along the contiguous axis."""
        first, swizzle = self.axes[0], self.storage.swizzle
        row = first.extent if swizzle is None else ROW_BYTES // self.size
        name = self.storage.name
        if isinstance(self.storage.layout, Strided):
            raise self.refuse("not-a-box", "copies no box", f"'{name}' has strides", "let its axes be nested")
        if swizzle is not None and (swizzle != row_swizzle(self.size) or first.extent % row):
            wanted = row_swizzle(self.size)
            swizzle_text = f"pl.swizzle(knl, '{name}', bits=3, base={wanted.base}, shift=3)"
            note = f"'{name}' is swizzled in another way than the engine's"
            hint = f"let rows have {row} elements, and call {swizzle_text}"
            raise self.refuse("not-a-box", "copies no box", note, hint)
        if row * self.size % PIECE_BYTES:
            note = f"its rows have {row * self.size} bytes, which is no multiple of {PIECE_BYTES}"
            raise self.refuse("box-unaligned", "copies a box that no engine copies", note, "fetch longer rows")
        if any(extent > _MOST_ALONG for extent in (row, *(axis.extent for axis in self.axes[1:]))):
            note = f"an axis has more than {_MOST_ALONG} elements"
            raise self.refuse("not-a-box", "copies a box that no engine copies", note, "fetch a smaller tile")
        return row

    def _check_order(self) -> None:
        """Raise an error unless the elements of each piece lie in the tile as the engine stores them."""
        distances = self.storage.distances
        place = sum(self._along(form) * step for form, step in zip(self.places, distances, strict=True))
        first = self._along(self.indices[self.axes[0].number]) - self.axes[0].low
        inside = self._linear([(axis, axis.extent) for axis in self.axes])
        expected = first % self.row + self.row * (inside // self.axes[0].extent)
        for piece in range(self.axes[0].extent // self.row):
            own = first // self.row == piece
            apart = (place - expected)[own]
            if (apart != apart[0]).any():
                note = f"the elements of '{self.storage.name}' are in another order than in '{self.array.name}'"
                hint = "order its axes so: pl.tag_array_axes; rows of 128 bytes are panels: pl.split_array_axis"
                raise self.refuse("not-a-box", "copies no box", note, hint)

    def _check_alignment(self) -> None:
        """Raise an error unless all pieces begin at multiples of what the engine asks for."""
        unit = TILE_BYTES if self.storage.swizzle is None else GROUP_BYTES
        steps = [
            number * step * self.size
            for form, step in zip(self.places, self.storage.distances, strict=True)
            for number in (form.const, *(n for x, n in form.terms if not names_in(x) & {*self.box}))
        ]
        steps += [int(place) * self.size for _, place in self._begins()]
        if any(step % unit for step in steps):
            note = f"boxes in '{self.storage.name}' do not begin at multiples of {unit} bytes"
            raise self.refuse("box-unaligned", "copies a box that no engine copies", note, "fetch a larger tile")
        for axis in self.axes[1:]:
            stride = (self.array.strides or ())[axis.number]
            if known_factor(stride, self.known) * self.size % PIECE_BYTES:
                note = f"{self.size} bytes times {stride}, the stride of axis {axis.number} of '{self.array.name}', "
                note += f"are not known to be a multiple of {PIECE_BYTES}"
                hint = f"assume it, or pad the rows: pl.assume(knl, '.. mod {PIECE_BYTES // self.size} = 0')"
                raise self.refuse("box-unaligned", "copies a box that no engine copies", note, hint)
        if self.array.offset != 0:
            raise self.refuse("box-unaligned", "copies no box", f"'{self.array.name}' begins at an offset")

    def _check_first(self) -> None:
        """Raise an error unless all boxes begin at multiples of 16 bytes of a row."""
        axis, unit = self.axes[0], PIECE_BYTES // self.size
        form = self.plain[axis.number]
        if form != self.indices[axis.number]:
            note = f"data decides at which element of a row of '{self.array.name}' it begins"
            raise self.refuse("box-unaligned", "copies a box that no engine copies", note)
        outer = tuple((x, n) for x, n in form.terms if not names_in(x) & {*self.box})
        begins = Affine(outer, form.const + axis.low)
        rest = Affine((*outer, (Floor(begins.terms, begins.const, unit), -unit)), begins.const)
        remainders = map_from_forms(self.exact, self.statement.dims, [rest])
        beside = remainders.intersect_range(_from(remainders, 1)).domain()
        if not beside.is_empty():
            sample = sample_set(beside, self.statement.dims) or {}
            at = f"element {begins.evaluate(sample)} of a row of '{self.array.name}'"
            note = f"one begins at {at}, which is no multiple of {unit}"
            hint = f"let tiles begin at multiples of {unit} elements, also those with neighbours; or"
            raise self.refuse("box-unaligned", "copies a box that no engine copies", note, hint)

    def _begins(self) -> Iterator[tuple[int, int]]:
        """Yield the number of each piece with the place of its first element, the box alone being counted."""
        place = sum(self._along(form) * step for form, step in zip(self.places, self.storage.distances, strict=True))
        first = self._along(self.indices[self.axes[0].number]) - self.axes[0].low
        for piece in range(self.axes[0].extent // self.row):
            yield piece, int(np.asarray(place)[first // self.row == piece].min())

    def _extents(self) -> tuple[Affine, ...]:
        """Return the extents from which on the engine stores zeros: those of the elements that are copied."""
        found = []
        for axis in self.axes:
            form = self.plain[axis.number]
            values = map_from_forms(self.exact, self.statement.dims, [form]).range().coalesce()
            is_data = form != self.indices[axis.number]
            interval = None if is_data else parametric_interval(values, 0, ("x'",))
            shape = affine_of((self.array.shape or ())[axis.number])
            if interval is not None and not interval[0].names() - {*values.get_var_names(_PARAM)}:
                found.append(interval[0].add(interval[1]))
            elif shape is not None:
                found.append(shape)
            else:
                note = f"no form gives the end of what is copied along axis {axis.number} of '{self.array.name}'"
                raise self.refuse("box-edge", "copies a box with an edge that is no form", note)
        return tuple(found)

    def _check_edges(self) -> None:
        """Raise an error unless the engine stores in each place what the statement does."""
        dims, domain = self.statement.dims, self.statement.domain
        events = project_onto(self.exact, dims, self.outer)
        to_outer = map_from_forms(isl.Set.universe(domain.get_space()), dims, [Affine.variable(x) for x in self.outer])
        whole = to_outer.intersect_range(_unnamed(events)).domain()
        to_box = map_from_forms(isl.Set.universe(domain.get_space()), dims, [Affine.variable(x) for x in self.box])
        whole = whole.intersect(to_box.intersect_range(_unnamed(self.points)).domain())
        inside = whole
        to_source = map_from_forms(whole, dims, [self.plain[axis.number] for axis in self.axes])
        for axis, extent in zip(self.axes, self.extents, strict=True):
            beyond = map_from_forms(whole, dims, [self.plain[axis.number].add(extent, -1)])
            inside = inside.intersect(beyond.intersect_range(_up_to(beyond, -1)).domain())
        inside = inside.intersect(to_source.intersect_range(_from(to_source, 0)).domain())
        others = inside.subtract(self.exact)
        others = others if self.stores else others.union(whole.subtract(domain))
        lost = self.exact.subtract(inside)
        if others.is_empty() and lost.is_empty():
            return
        note = "the box has {}, which the program does not copy" if lost.is_empty() else "the box would have no {}"
        element = self._element(others if lost.is_empty() else lost)
        hint = "let the box end with the array, or"
        raise self.refuse("box-edge", "does not copy a whole box", note.format(element), hint)

    def _element(self, instances: isl.Set) -> str:
        """Return the element that one of some instances copies, with the sizes for which it does."""
        dims = self.statement.dims
        sample = sample_set(instances, dims) or {}
        sizes = [name for name in sample if name not in dims]
        indices = [str(form.evaluate(sample)) for form in self.plain]
        where = f" for {', '.join(f'{name} = {sample[name]}' for name in sizes)}" if sizes else ""
        return f"{self.array.name}[{', '.join(indices)}]{where}"

    @property
    def _pieces(self) -> tuple[int, ...]:
        """Elements along each axis that one operation copies."""
        return (self.row, *(axis.extent for axis in self.axes[1:]))

    def key(self, *, rounds: bool) -> tuple[object, ...]:
        """Return the key of the description of the array: equal ones are one."""
        return self.array.name, self.extents, self._pieces, self.storage.swizzle is None, rounds

    def map(self, name: str, *, rounds: bool) -> TensorMap:
        """Return the description of the array."""
        strides = self.array.strides or ()
        return TensorMap(
            name, self.array.name, self.storage.dtype, tuple(map(to_expression, self.extents)),
            tuple(strides[axis.number] for axis in self.axes), self._pieces,
            0 if self.storage.swizzle is None else ROW_BYTES, rounds,
        )  # fmt: skip

    def _operations(self) -> Pieces:
        """Return, for each operation, the first element of the tile and its subscripts in the array."""
        first = self._along(self.indices[self.axes[0].number]) - self.axes[0].low
        inside = self._linear([(axis, axis.extent) for axis in self.axes])
        found = []
        for number in range(self.axes[0].extent // self.row):
            own = np.flatnonzero((first // self.row == number) & (inside // self.axes[0].extent == 0))
            at = own[np.argmin(first[own])]
            values = {x: int(points[at]) for x, points in self.grid.items()}
            forms = [self.indices[axis.number].substitute({x: Affine((), n) for x, n in values.items()})
                     for axis in self.axes]  # fmt: skip
            found.append((substitute(self.element, values), tuple(forms)))
        return tuple(found)

    def started(self, described: TensorMap, ring: str) -> Statement:
        """Return the start of the copies of the box to the tile, in place of the statement."""
        assert isinstance(self.element, p.Subscript), "a tile has subscripts"
        count = prod(axis.extent for axis in self.axes) * self.size
        return self._whole(StartBox(described, ring, self.element.index_tuple[0], count, self._operations()))

    def stored(self, described: TensorMap) -> Statement:
        """Return the copies of the box to the array, in place of the statement."""
        subscripts = map_from_forms(self.exact, self.statement.dims, self.indices)
        return self._whole(StoreBox(described, self._operations(), bool(subscripts.is_injective())))

    def _whole(self, action: StartBox | StoreBox) -> Statement:
        """Return the statement with *action* in place of the elements of the box."""
        statement, low = self.statement, {x: self.low[x] for x in self.box}
        domain = project_onto(self.exact, statement.dims, self.outer)
        return replace(
            statement, dims=self.outer, domain=domain, lhs=substitute(statement.lhs, low),
            rhs=substitute(statement.rhs, low), action=action,
        )  # fmt: skip


def _value(form: Affine, names: Sequence[str], values: Sequence[Any]) -> Any:  # noqa: ANN401 - an array
    """Return the values of a form, given those of *names*."""
    total: Any = form.const
    for x, c in form.terms:
        own = values[names.index(x)] if isinstance(x, str) else _value(Affine(x.terms, x.const), names, values) // x.den
        total = total + c * own
    return total


def _unnamed(domain: isl.Set) -> isl.Set:
    """Return *domain* as the range of a map from forms."""
    return domain.reset_tuple_id()


def _up_to(given: isl.Map, most: int) -> isl.Set:
    return isl.Set.universe(given.range().get_space()).upper_bound_val(_SET, 0, most)


def _from(given: isl.Map, least: int) -> isl.Set:
    found = isl.Set.universe(given.range().get_space())
    for number in range(found.dim(_SET)):
        found = found.lower_bound_val(_SET, number, least)
    return found
