"""Regions: the elements that each rank owns, reads and writes, for given sizes.

Sets have no parameters: sizes are numbers, and ranks are dimensions, so that one relation holds for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from typing import Final, TypeAlias

import islpy as isl

from polyloop.distributed.deep import Deep, Reach
from polyloop.distributed.division import Axes, bad_distribution, refuse
from polyloop.distributed.fields import Field, Halo, Storage, kind_of, uses
from polyloop.distributed.homes import Homes
from polyloop.distributed.phases import Phase
from polyloop.kernel.domains import fixed_set
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.sets import Row, add_rows, map_from_forms, parameter_space, project_onto, universe
from polyloop.program.lower import Access, Lowered

__all__ = ["Box", "Coordinates", "Regions", "box_size", "boxes_of", "hull_of", "set_of"]

Coordinates: TypeAlias = "tuple[int, ...]"
"""Position of a rank in the mesh."""

Box: TypeAlias = "tuple[tuple[int, int], ...]"
"""For each axis the first index and the one behind the last."""

_SET = isl.dim_type.set
_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


def box_size(box: Box) -> int:
    """Return the number of elements of a box."""
    total = 1
    for low, high in box:
        total *= max(0, high - low)
    return total


def hull_of(elements: isl.Set) -> Box | None:
    """Return the smallest box around a finite set, None around an empty one."""
    if elements.is_empty():
        return None
    return tuple((elements.dim_min_val(place).to_python(), elements.dim_max_val(place).to_python() + 1)
                 for place in range(elements.dim(_SET)))


def boxes_of(elements: isl.Set) -> list[Box]:
    """Return disjoint boxes that cover a finite set: exactly, if a few do and save a third; else the one around it.

    Ranks find the same boxes of one set in whichever form ISL has it, as what one sends another one awaits.
    """
    hull = hull_of(elements)
    if hull is None:
        return []
    found = _slabs(elements.reset_tuple_id())
    if found is None or 2*box_size(hull) <= 3*sum(map(box_size, found)):
        return [hull]
    return found


_MOST_BOXES: Final = 8


def _slabs(elements: isl.Set) -> list[Box] | None:
    """Return boxes of a set, along the first axis where what is behind a coordinate changes; None for too many."""
    hull = hull_of(elements)
    if hull is None:
        return []
    if set_of(hull).is_equal(elements):
        return [hull]
    found: list[Box] = []
    left = elements
    while not left.is_empty():
        first = left.dim_min_val(0).to_python()
        behind = left.fix_val(_SET, 0, first).project_out(_SET, 0, 1)
        same = behind.insert_dims(_SET, 0, 1).lower_bound_val(_SET, 0, first).upper_bound_val(_SET, 0, hull[0][1] - 1)
        other = same.subtract(left).union(left.subtract(same))
        end = hull[0][1] if other.is_empty() else other.dim_min_val(0).to_python()
        inner: list[Box] | None = _slabs(behind) if len(hull) > 1 else [()]
        if inner is None or len(found) + len(inner) > _MOST_BOXES:
            return None
        found += [((first, end), *box) for box in inner]
        left = left.lower_bound_val(_SET, 0, end)
    return found


def set_of(box: Box) -> isl.Set:
    """Return the elements of a box."""
    dims = [f"e{place}" for place in range(len(box))]
    rows = []
    for name, (low, high) in zip(dims, box, strict=True):
        variable = Affine.variable(name)
        rows += [Row(variable.add(Affine((), -low))), Row(variable.scale(-1).add(Affine((), high - 1)))]
    return add_rows(universe(parameter_space(()), dims), dims, rows).reset_tuple_id()


@dataclass(frozen=True, eq=False)
class Regions:
    """The elements of ranks.

    Attributes
    ----------
    mesh
        Number of ranks along each axis of the mesh.
    sizes
        Values of the program's parameters.
    """

    homes: Homes
    mesh: Coordinates
    sizes: Mapping[str, int]
    halos: Mapping[str, Halo]
    deep: Deep | None = None

    # -- blocks

    @cached_property
    def ranks(self) -> tuple[Coordinates, ...]:
        """Positions of all ranks, in their order."""
        return tuple(product(*map(range, self.mesh)))

    def number(self, position: Coordinates) -> int:
        """Return the number of the rank at a position."""
        result = 0
        for own, count in zip(position, self.mesh, strict=True):
            result = result*count + own
        return result

    def shape(self, array: str) -> tuple[int, ...]:
        """Return the shape of an array of the program [elements]."""
        entry = self.homes.kernel.arrays()[array]
        found = []
        for extent in entry.shape or (1,):
            form = affine_of(extent)
            if form is None or not form.names() <= self.sizes.keys():
                refuse(self.homes.kernel, bad_distribution(
                    f"no affine form of the sizes is the extent of '{array}'", str(extent), hint="declare its shape"))
            found.append(form.evaluate(self.sizes))
        return tuple(found)

    @cached_property
    def extents(self) -> Coordinates:
        """Number of coordinates along each axis of the mesh: the greatest extent of what is divided over it."""
        found = [0] * len(self.mesh)
        for array, axes in self.homes.division.arrays.items():
            for extent, axis in zip(self.shape(array), axes, strict=False):
                if axis is not None:
                    found[axis] = max(found[axis], extent)
        for statement in self._statements():
            for axis, form in enumerate(self.homes.of(statement)):
                if form is None:
                    continue
                values = map_from_forms(self.domain(statement), statement.inames, [self.fixed(form)]).range()
                if (hull := hull_of(values)) is not None:
                    if hull[0][0] < 0:
                        refuse(self.homes.kernel, bad_distribution(
                            f"'{statement.instruction.id}' runs at coordinate {hull[0][0]} of mesh.{axis}",
                            hint="let divided inames begin at 0 or above"))
                    found[axis] = max(found[axis], hull[0][1])
        return tuple(found)

    @cached_property
    def blocks(self) -> Coordinates:
        """Length of a block along each axis of the mesh; the last ones may be shorter or empty."""
        return tuple(max(1, -(-extent // count)) for extent, count in zip(self.extents, self.mesh, strict=True))

    def block(self, position: Coordinates, axis: int) -> tuple[int, int]:
        """Return the coordinates of a rank along an axis of the mesh: the first, and the one behind the last."""
        extent = self.extents[axis]
        low = position[axis] * self.blocks[axis]
        return min(low, extent), min(low + self.blocks[axis], extent)

    def owned(self, position: Coordinates, array: str, axes: Axes | None = None) -> Box:
        """Return the elements of an array that a rank owns, or would own if it were divided over *axes*."""
        box = []
        for extent, axis in zip(self.shape(array), self.axes(array) if axes is None else axes, strict=True):
            low, high = (0, extent) if axis is None else self.block(position, axis)
            box.append((min(low, extent), min(high, extent)))
        return tuple(box)

    def stored(self, position: Coordinates, array: str) -> Box:
        """Return the box of an array that a rank stores: its block with the halo, which may reach over the edge."""
        box = []
        for place, ((low, high), axis) in enumerate(zip(self.owned(position, array), self.axes(array), strict=True)):
            if axis is None:
                box.append((low, high))
            else:
                below, above = self.halos[array][place]
                first = self.block(position, axis)[0]
                box.append((first - below, max(first, high) + above))
        return tuple(box)

    def axes(self, array: str) -> tuple[int | None, ...]:
        """Return the axis of the mesh that each axis of an array is divided over."""
        return self.homes.division.axes(array) or (None,) * len(self.shape(array))

    # -- relations

    @cached_property
    def rank_dims(self) -> tuple[str, ...]:
        """Names of the dimensions for the position of a rank."""
        return tuple(f"rank{axis}'" for axis in range(len(self.mesh)))

    def fixed(self, form: Affine) -> Affine:
        """Return a form with sizes as numbers."""
        return form.substitute({name: Affine((), value) for name, value in self.sizes.items()})

    def domain(self, statement: Lowered) -> isl.Set:
        """Return the instances of a statement, without parameters."""
        domain = fixed_set(statement.domain, self.sizes)
        return domain.project_out(isl.dim_type.param, 0, domain.dim(isl.dim_type.param)).reset_tuple_id()

    @cached_property
    def first(self) -> int:
        """First iteration of the loop with deep halos."""
        assert self.deep is not None, "there is one"
        found = [hull[0][0] for statement in self._statements() if self.deep.iname in statement.inames
                 and (hull := hull_of(project_onto(self.domain(statement), statement.inames, (self.deep.iname,))))]
        return min(found, default=0)

    def reach(self, phase: int, hosts: Mapping[str, int]) -> Reach:
        """Return the reach of a phase in an iteration of the loops around."""
        if self.deep is None or phase not in self.deep.reach:
            return ((0, 0),) * len(self.mesh)
        return self.deep.reach[phase][(hosts[self.deep.iname] - self.first) % self.deep.every]

    def is_between(self, around: Sequence[str], hosts: Mapping[str, int]) -> bool:
        """Return whether an iteration of the loops *around* is one between exchanges of deep halos."""
        deep = self.deep
        if deep is None or tuple(around) != (deep.iname,):
            return False
        return (hosts[deep.iname] - self.first) % deep.every != 0

    def chunk(self, relation: isl.Map, turn: int) -> isl.Map:
        """Return ``{ [rank, t] -> element }`` in the iterations *turn* behind an exchange, whose ``t`` it has then."""
        assert self.deep is not None, "there is a loop with deep halos"
        ranks = ", ".join(f"r{axis}" for axis in range(len(self.mesh)))
        where = f"(t - {self.first + turn}) mod {self.deep.every} = 0"
        back = isl.Map(f"{{ [{ranks}, t] -> [{ranks}, t - {turn}] : {where} }}")
        return relation.apply_domain(back)

    def placed(
        self, statement: Lowered, home: Sequence[Affine | None], reach: Reach | None = None
    ) -> tuple[isl.Set, tuple[str, ...]]:
        """Return the instances of a statement with the ranks that run them, and the names of the dimensions."""
        dims = (*self.rank_dims, *statement.inames)
        domain = self.domain(statement).insert_dims(_SET, 0, len(self.mesh))
        for place, name in enumerate(dims):
            domain = domain.set_dim_name(_SET, place, name)
        return add_rows(domain, dims, self._rows(home, reach)), dims

    def _rows(self, home: Sequence[Affine | None], reach: Reach | None = None) -> Iterator[Row]:
        for axis, form in enumerate(home):
            below, above = (0, 0) if reach is None else reach[axis]
            rank, length = Affine.variable(self.rank_dims[axis]), self.blocks[axis]
            yield Row(rank)
            yield Row(rank.scale(-1).add(Affine((), self.mesh[axis] - 1)))
            if form is not None:
                offset = self.fixed(form).add(rank, -length)
                yield Row(offset.add(Affine((), below)))
                yield Row(offset.scale(-1).add(Affine((), length - 1 + above)))

    def elements(
        self, phase: Phase, statement: Lowered, access: Access, home: Sequence[Affine | None]
    ) -> isl.Map:
        """Return ``{ [rank, hosts] -> element }`` of an access in a phase."""
        instances, dims = self.placed(statement, home)
        if self.deep is not None and phase.number in self.deep.reach:
            instances = self._redundant(phase, statement, home)
        hosts = [host for host in phase.hosts if host in statement.inames]
        assert len(hosts) == len(phase.hosts), "a statement is in the loops of the host around its phase"
        keep = [Affine.variable(name) for name in (*self.rank_dims, *hosts)]
        indices = [None if form is None else self.fixed(form) for form in access.indices] or [Affine((), 0)]
        found = map_from_forms(instances, dims, [*keep, *indices]).range()
        found = found.intersect(self._array_box(access.array, len(keep)))
        return isl.Map.from_range(found).move_dims(_IN, 0, _OUT, 0, len(keep))

    def _redundant(self, phase: Phase, statement: Lowered, home: Sequence[Affine | None]) -> isl.Set:
        """Return the instances of a statement with all ranks that run them, between exchanges also for others."""
        assert self.deep is not None, "there is a loop with deep halos"
        parts = []
        for turn, reach in enumerate(self.deep.reach[phase.number]):
            instances, dims = self.placed(statement, home, reach)
            place = dims.index(self.deep.iname)
            own = isl.Set(f"{{ [t] : (t - {self.first + turn}) mod {self.deep.every} = 0 }}")
            own = own.insert_dims(_SET, 0, place).insert_dims(_SET, place + 1, len(dims) - place - 1)
            parts.append(instances.intersect(own))
        return reduce(isl.Set.union, parts)

    def _array_box(self, array: str, before: int) -> isl.Set:
        box = set_of(tuple((0, extent) for extent in self.shape(array)))
        return box.insert_dims(_SET, 0, before).reset_tuple_id()

    def reads(self, phase: Phase, field: Field) -> isl.Map:
        """Return ``{ [rank, hosts] -> element }`` of what a phase reads through a field."""
        return self._united(phase, field, False)

    def writes(self, phase: Phase, array: str) -> isl.Map:
        """Return ``{ [rank, hosts] -> element }`` of what a phase writes of an array."""
        result = self._nothing(phase, array)
        for statement, access, storage in uses(self.homes, phase):
            if access.array == array and statement.is_write(access):
                if storage is Storage.SHARE:
                    result = result.union(self._everything(phase, array))
                else:
                    result = result.union(self.elements(phase, statement, access, self.homes.of(statement)))
        return result.coalesce()

    def _united(self, phase: Phase, field: Field, is_write: bool) -> isl.Map:
        result = self._nothing(phase, field.array)
        for statement, access, storage in uses(self.homes, phase):
            own = access.array == field.array and storage is field.storage
            if own and statement.is_write(access) is is_write:
                result = result.union(self.elements(phase, statement, access, self.homes.of(statement)))
        return result.coalesce()

    def _nothing(self, phase: Phase, array: str) -> isl.Map:
        return self._everything(phase, array).subtract(self._everything(phase, array))

    def _everything(self, phase: Phase, array: str) -> isl.Map:
        count = len(self.mesh) + len(phase.hosts)
        return isl.Map.from_range(self._array_box(array, count)).move_dims(_IN, 0, _OUT, 0, count)

    def own(self, array: str, hosts: int = 0, axes: Axes | None = None) -> isl.Map:
        """Return ``{ [rank, hosts] -> element }`` of the elements that each rank owns, whatever the loops.

        With *axes*, those that it would own if the array were divided over these axes of the mesh.
        """
        elements = [f"e{place}'" for place in range(len(self.shape(array)))]
        free = [f"host{place}'" for place in range(hosts)]
        dims = (*self.rank_dims, *free, *elements)
        home: list[Affine | None] = [None] * len(self.mesh)
        for name, axis in zip(elements, self.axes(array) if axes is None else axes, strict=True):
            if axis is not None:
                home[axis] = Affine.variable(name)
        found = add_rows(universe(parameter_space(()), dims), dims, self._rows(home)).reset_tuple_id()
        found = found.intersect(self._array_box(array, len(dims) - len(elements)))
        return isl.Map.from_range(found).move_dims(_IN, 0, _OUT, 0, len(dims) - len(elements))

    def _statements(self) -> Iterator[Lowered]:
        for instruction in self.homes.kernel.instructions:
            yield from self.homes.statements(instruction.id)

    def coordinates(self, phase: Phase, field: Field | None = None, remote: isl.Map | None = None) -> isl.Map:
        """Return ``{ [rank, hosts] -> coordinates }`` of the instances of a phase that have a home on each axis.

        With *field* and *remote*, those that read a remote element through the field.
        """
        count = len(self.mesh) + len(phase.hosts)
        space = universe(parameter_space(()), [f"x{place}" for place in range(count + len(self.mesh))]).reset_tuple_id()
        result = isl.Set.empty(space.get_space())
        for name in phase.instructions:
            for statement in self.homes.statements(name):
                home = self.homes.of(statement)
                forms = [self.fixed(form) for form in home if form is not None]
                if len(forms) < len(home):
                    continue
                instances, dims = self.placed(statement, home)
                around = [Affine.variable(dim) for dim in (*self.rank_dims, *phase.hosts)]
                if field is None or remote is None:
                    result = result.union(map_from_forms(instances, dims, [*around, *forms]).range())
                    continue
                for access in statement.reads:
                    if access.array != field.array or kind_of(self.homes, statement, access) is not field.storage:
                        continue
                    indices = [None if form is None else self.fixed(form) for form in access.indices]
                    where = map_from_forms(instances, dims, [*around, *indices])
                    reading = where.intersect_range(remote.wrap().flatten()).domain()
                    result = result.union(map_from_forms(reading, dims, [*around, *forms]).range())
        return isl.Map.from_range(result.coalesce()).move_dims(_IN, 0, _OUT, 0, count)
