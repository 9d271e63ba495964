"""The kernel of a phase: what a rank runs between two exchanges, as an ordinary kernel over its own arrays.

::

    for i in [0, n):  v[i] = u[i - 1] + u[i + 1]         blocks over mesh.0, a halo of 1
    ->
    for i in [0, n0), where the program has i + lo0:
        v[i + at0] = u[i + at0] + u[i + at0 + 2]

``lo0`` is the first coordinate along ``mesh.0`` of the box that a call computes, ``n0`` the number of coordinates, and
``at0`` the distance of its beginning from that of the block.  So one kernel computes a whole block, its inner part and
the strips around it.  ``u_n0`` is the length of the rank's part of ``u`` along axis 0, with its halo.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import islpy as isl
import pymbolic.primitives as p

from polyloop.creation.create import complete_kernel
from polyloop.distributed.deep import Deep
from polyloop.distributed.fields import Field, Halo, Storage, fields_of, is_near, reading_home, uses
from polyloop.distributed.homes import Home, Homes
from polyloop.distributed.packs import Pack, buffers, with_packs
from polyloop.distributed.phases import Phase
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import children, rebuild_changed, variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import Argument, ArrayArg, TemporaryVariable, ValueArg
from polyloop.kernel.domains import align
from polyloop.kernel.instruction import Copy, Instruction, Term
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.sets import Row, add_rows, map_from_forms, parameter_space, preimage, project_onto

__all__ = ["Local", "Names", "iname_domains", "local_kernel", "over_parameters"]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param


@dataclass(frozen=True)
class Names:
    """Names of the parameters that kernels of ranks have beside those of the program.

    ``low``, ``count`` and ``at`` have one for each axis of the mesh.
    """

    low: tuple[str, ...]
    count: tuple[str, ...]
    at: tuple[str, ...]

    @staticmethod
    def of(kernel: LoopKernel, rank: int) -> Names:
        """Return names that *kernel* does not use."""
        low, count, at = (tuple(kernel.fresh(f"{word}{axis}") for axis in range(rank)) for word in ("lo", "n", "at"))
        return Names(low, count, at)

    def all(self) -> tuple[str, ...]:
        """Return all of them."""
        return (*self.low, *self.count, *self.at)


@dataclass(frozen=True, eq=False)
class Local:
    """The kernel of a phase.

    Attributes
    ----------
    phase
        The phase.
    kernel
        Its kernel, the same for all ranks.
    fields
        Its arrays.
    extents, origins
        ``(name of a field, axis)`` -> the parameter that has its length, or the first index of a window.
    active
        Axis of the mesh -> the coordinates at which the phase has instances, as a set over loops of the host; boxes of
        calls lie in them.  Axes are missing along which instructions run that every rank has, even in an empty box.
    packs
        Buffers of messages that the kernel fills or empties.
    """

    phase: Phase
    kernel: LoopKernel
    fields: tuple[Field, ...]
    extents: Mapping[tuple[str, int], str]
    origins: Mapping[tuple[str, int], str]
    active: Mapping[int, isl.Set]
    packs: tuple[Pack, ...] = ()

    def deciding(self, is_deep: bool) -> tuple[str, ...]:
        """Return the loops of the host that decide at which coordinates the phase has instances."""
        involved = {name for coordinates in self.active.values() for name in _involved(coordinates)}
        return tuple(name for name in self.phase.hosts if is_deep or name in involved)


def local_kernel(
    homes: Homes, phase: Phase, halos: Mapping[str, Halo], kept: Collection[str], names: Names, wish: str,
    fields: Sequence[Field] | None = None, deep: Deep | None = None, packs: Sequence[Pack] = (),
) -> Local:  # fmt: skip
    """Return the kernel of a phase.

    Parameters
    ----------
    kept
        Temporaries that live from one phase to another, which are arguments.
    wish
        Name of the kernel.
    """
    found = fields_of(homes, phase) if fields is None else tuple(fields)
    return _Localizing(homes, phase, halos, frozenset(kept), names, found, deep, tuple(packs)).result(wish)


@dataclass(eq=False)
class _Localizing:
    homes: Homes
    phase: Phase
    halos: Mapping[str, Halo]
    kept: frozenset[str]
    names: Names
    fields: tuple[Field, ...]
    deep: Deep | None = None
    packs: tuple[Pack, ...] = ()
    extents: dict[tuple[str, int], str] = field(default_factory=dict)
    origins: dict[tuple[str, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shared: str | None = None  # the array whose updates the instruction at hand collects
        kernel = self.homes.kernel
        for entry in self.fields:
            if entry.storage not in (Storage.BLOCK, Storage.WINDOW):
                continue
            for place, axis in enumerate(entry.axes):
                if axis is not None:
                    taken = (*self.names.all(), *self.extents.values(), *self.origins.values())
                    if entry.array not in kernel.temporaries or entry.array in self.kept:
                        self.extents[entry.name, place] = kernel.fresh(f"{entry.name}_n{place}", taken)
                    if entry.storage is Storage.WINDOW and entry.around[place] is None:
                        self.origins[entry.name, place] = kernel.fresh(f"{entry.name}_lo{place}", taken)
        new = (*self.names.all(), *self.extents.values(), *self.origins.values(),
               *(name for pack in self.packs for name in (*pack.starts, *pack.extents)))
        self.parameters = tuple(dict.fromkeys((*kernel.parameters, *self.phase.hosts, *new)))
        bounds = {name for entry in self.instructions() for domain in (entry.domain, *(t.domain for t in entry.terms))
                  for name in _involved(domain)}
        self.bounds = tuple(sorted(bounds & kernel.temporaries.keys()))  # read from memory
        self.space = parameter_space((*self.parameters, *self.bounds))
        self.active = {axis: found for axis in range(len(self.names.low)) if (found := self.coordinates(axis))}

    def instructions(self) -> Iterator[Instruction]:
        """Yield the instructions of the phase, in the program."""
        return (entry for entry in self.homes.kernel.instructions if entry.id in self.phase.instructions)

    def coordinates(self, axis: int) -> isl.Set | None:
        """Return the coordinates with instances along an axis of the mesh; None if some run on all ranks."""
        result: isl.Set | None = None
        for name in self.phase.instructions:
            for statement in self.homes.statements(name):
                form = self.homes.of(statement)[axis]
                if form is None:
                    return None
                domain = self.unbounded(align(statement.domain, self.space))
                domain = self.unhosted(map_from_forms(domain, statement.inames, [
                    *(Affine.variable(host) for host in self.phase.hosts if host in statement.inames), form]).range(),
                    [host for host in self.phase.hosts if host in statement.inames])
                result = domain if result is None else result.union(domain)
        return None if result is None else result.coalesce()

    def unbounded(self, domain: isl.Set) -> isl.Set:
        """Return *domain* for all values of the bounds that are read from memory."""
        for name in self.bounds:
            domain = domain.project_out(_PARAM, domain.find_dim_by_name(_PARAM, name), 1)
        return align(domain, self.space)

    def unhosted(self, domain: isl.Set, hosts: Sequence[str]) -> isl.Set:
        """Return *domain*, whose first dimensions are *hosts*, with these as parameters."""
        count = domain.dim(_SET)
        dims = [*(f"{host}'" for host in hosts), *(f"x{place}'" for place in range(count - len(hosts)))]
        rows = [Row(Affine.variable(f"{host}'").add(Affine.variable(host), -1), True) for host in hosts]
        domain = add_rows(_renamed(domain.reset_tuple_id(), dims), dims, rows)
        return domain.project_out(_SET, 0, len(hosts))

    def result(self, wish: str) -> Local:
        program = self.homes.kernel
        by_id = {entry.id: entry for entry in program.instructions}
        instructions = tuple(with_packs([self.instruction(by_id[name]) for name in self.phase.instructions], self.packs,
                                        lambda domain: align(domain, self.space)))
        used = frozenset[str]().union(*(_names(entry) for entry in instructions))
        sets = [*(entry.domain for entry in instructions),
                *(term.domain for entry in instructions for term in entry.terms)]
        arrays = [*self.arrays(), *buffers(self.packs, program.arrays())]
        for array in arrays:
            used |= frozenset(name for extent in (array.shape or ()) for name in variables(extent))
        used |= frozenset(name for domain in sets for name in _involved(domain))
        own = tuple(name for name in self.parameters if name in used)
        assumptions = self.assumptions(own)
        used -= self.idle(instructions, align(assumptions, parameter_space((*own, *self.bounds))))
        scalars: list[Argument] = [entry for entry in program.arguments
                                   if isinstance(entry, ValueArg) and entry.name in used]
        known = {entry.name for entry in scalars}
        own = tuple(name for name in self.parameters if name in used)
        scalars += [ValueArg(name, program.index_dtype) for name in own if name not in known]
        temporaries = {name: self.temporary(entry) for name, entry in program.temporaries.items()
                       if name in used and name not in self.kept}
        kernel = LoopKernel(
            name=wish, parameters=own, assumptions=over_parameters(assumptions, parameter_space(own)).coalesce(),
            domains=(), instructions=instructions, arguments=(*arrays, *scalars),
            temporaries=temporaries, fixed=program.fixed, foreign=program.foreign, index_dtype=program.index_dtype,
            silenced_warnings=("*",), preambles=program.preambles, target=program.target, fast=program.fast,
            waivers=program.waivers)
        known_to_all = align(kernel.assumptions, parameter_space((*own, *self.bounds)))
        kernel = replace(kernel, instructions=tuple(_within(entry, known_to_all) for entry in instructions))
        kernel = replace(kernel, domains=tuple(iname_domains(kernel.instructions)))
        return Local(self.phase, complete_kernel(kernel, None), self.fields, self.extents, self.origins,
                     self.active, self.packs)

    def idle(self, instructions: Sequence[Instruction], known: isl.Set) -> frozenset[str]:
        """Return the loops of the host with which nothing in the kernel changes: it has no parameters for them."""
        written = frozenset[str]().union(*map(_names, instructions))
        left = {name for entry in instructions for domain in (entry.domain, *(term.domain for term in entry.terms))
                for name in _involved(over_parameters(domain, known).gist_params(known).coalesce())}
        return frozenset(self.phase.hosts) - written - left

    # -- arrays

    def arrays(self) -> Iterator[ArrayArg]:
        program = self.homes.kernel
        for entry in self.fields:
            old = program.arrays()[entry.array]
            if isinstance(old, TemporaryVariable) and entry.array not in self.kept:
                continue
            assert old.shape is not None, "a completed kernel has shapes"
            shape = tuple(p.Variable(self.extents[entry.name, place]) if (entry.name, place) in self.extents else extent
                          for place, extent in enumerate(old.shape or (1,)))
            order = old.order if isinstance(old, ArrayArg) else "C"
            is_unpacked = any(pack.is_received and pack.array == entry.name for pack in self.packs)
            yield ArrayArg(entry.name, old.dtype, shape, order=order, is_input=True,
                           is_output=entry.is_written or is_unpacked, dim_names=old.dim_names if old.shape else None)

    def temporary(self, old: TemporaryVariable) -> TemporaryVariable:
        """Return a temporary of the phase alone: one in blocks has elements for the box that a call computes."""
        axes = self.homes.division.axes(old.name)
        shape = old.shape or ()
        if not axes:
            return old
        return replace(old, shape=tuple(extent if axis is None else p.Variable(self.names.count[axis])
                                        for axis, extent in zip(axes, shape, strict=True)))

    # -- instructions

    def instruction(self, old: Instruction) -> Instruction:
        write, read = self.homes.instructions[old.id], reading_home(self.homes, old.id)
        combined = self.homes.combined.get(old.id)
        self.shared = combined.array if combined is not None and combined.is_update else None
        inames = tuple(name for name in old.inames if name not in self.phase.hosts)
        shifts = self.shifts(read, (*old.inames, *(name for term in old.terms for name in term.inames)))
        domain = self.restricted(old.domain, old.inames, write, self.shifts(write, old.inames))
        terms = tuple(Term(tuple(name for name in term.inames if name not in self.phase.hosts),
                           self.restricted(term.domain, term.inames, read, shifts)) for term in old.terms)
        assignee = self.expression(old.assignee, write, shifts)
        value = self.expression(old.expression, read, shifts)
        predicates = tuple(self.expression(entry, read, shifts) for entry in old.predicates)
        every = dict.fromkeys((*inames, *(name for term in terms for name in term.inames)))
        new = replace(
            old, inames=inames, domain=domain, terms=terms, assignee=assignee, expression=value, predicates=predicates,
            origin=Copy(old.id, {name: Affine.variable(name) for name in every}),
            depends_on=old.depends_on & frozenset(self.phase.instructions),
            blocks=tuple(entry for entry in old.blocks if entry[0] not in self.phase.hosts),
            nosync=frozenset(), groups=frozenset(), conflicts=frozenset())
        return replace(new, reads=_names(new) - {*every} - {array_name(assignee)} | _self_read(new)
                       | {name for entry in (domain, *(term.domain for term in terms)) for name in _involved(entry)
                          if name in self.bounds})

    def shifts(self, home: Home, inames: Collection[str]) -> dict[str, Affine]:
        """Return the inames whose values begin at 0 in the box of a call, with what they are in the program."""
        found = {}
        for axis, form in enumerate(home):
            if form is None:
                continue
            own = [name for name, factor in form.terms if factor == 1 and name in inames
                   and isinstance(name, str) and name not in self.phase.hosts]
            if len(own) == 1 and own[0] not in found:
                rest = form.add(Affine.variable(own[0]), -1)
                if rest.names().isdisjoint({*inames} - {*self.phase.hosts}):
                    variable = Affine.variable(own[0])
                    found[own[0]] = variable.add(Affine.variable(self.names.low[axis])).add(rest, -1)
        return found

    def restricted(
        self, domain: isl.Set, inames: Sequence[str], home: Home, shifts: Mapping[str, Affine]
    ) -> isl.Set:
        """Return the instances in the box of a call, with shifted inames, and loops of the host as parameters."""
        domain = align(domain, self.space)
        rows = []
        for axis, form in enumerate(home):
            if form is not None and form.names() <= {*inames, *self.parameters}:
                low, count = Affine.variable(self.names.low[axis]), Affine.variable(self.names.count[axis])
                rows += [Row(form.add(low, -1)), Row(low.add(count).add(form, -1).add(Affine((), -1)))]
        free = [f"{name}'" if name in self.phase.hosts else name for name in inames]
        forms = [shifts.get(name) or Affine.variable(name) for name in inames]
        hosts = self.phase.hosts
        domain = add_rows(_renamed(domain, free), free, [Row(_primed(row.form, hosts, inames)) for row in rows])
        domain = preimage(domain, free, [_primed(form, self.phase.hosts, inames) if name in self.phase.hosts else form
                                         for name, form in zip(inames, forms, strict=True)])
        for name in self.phase.hosts:
            if name in inames:
                domain = add_rows(domain, free, [Row(Affine.variable(f"{name}'").add(Affine.variable(name), -1), True)])
        return project_onto(domain, free, [name for name in inames if name not in self.phase.hosts])

    def expression(self, expr: Expression, home: Home, shifts: Mapping[str, Affine]) -> Expression:
        """Return an expression over the fields of the phase."""
        new = {iname: to_expression(form) for iname, form in shifts.items()}

        def visit(node: Expression) -> Expression:
            if isinstance(node, p.Variable):
                if node.name in self.kept and not self.homes.kernel.temporaries[node.name].shape:
                    return p.Subscript(node, 0)
                return new.get(node.name, node)
            if isinstance(node, p.Subscript):
                return self.element(node, home, shifts, visit)
            old = children(node)
            return rebuild_changed(node, old, tuple(map(visit, old)))

        return visit(expr)

    def element(
        self, node: Expression, home: Home, shifts: Mapping[str, Affine], visit: Callable[[Expression], Expression]
    ) -> Expression:
        """Return the element of a field that an element of the program is."""
        array = array_name(node)
        axes = self.homes.division.axes(array)
        if not self.homes.division.is_divided(array):
            old = children(node)
            return rebuild_changed(node, old, tuple(map(visit, old)))
        forms = [affine_of(entry) for entry in node.index_tuple]
        if array == self.shared:
            target = next(entry for entry in self.fields if (entry.array, entry.storage) == (array, Storage.SHARE))
            return p.Subscript(p.Variable(target.name), visit(node.index))
        near = is_near(forms, axes, home)
        storage = Storage.BLOCK if near else Storage.WINDOW
        target = next(entry for entry in self.fields if (entry.array, entry.storage) == (array, storage))
        index = []
        for place, (entry, form, axis) in enumerate(zip(node.index_tuple, forms, axes, strict=True)):
            if axis is None:
                index.append(visit(entry))
                continue
            base = self.base(target, place, axis)
            if form is None:
                index.append(p.Sum((visit(entry), to_expression(base.scale(-1)))))
            else:
                index.append(to_expression(form.substitute(shifts).add(base, -1)))
        return p.Subscript(p.Variable(target.name), index[0] if len(index) == 1 else tuple(index))

    def base(self, target: Field, place: int, axis: int) -> Affine:
        """Return the index in the program of the first element that a field stores along an axis."""
        if (target.name, place) in self.origins:
            return Affine.variable(self.origins[target.name, place])
        low = Affine.variable(self.names.low[axis])
        if target.array in self.homes.kernel.temporaries and target.array not in self.kept:
            return low
        around = target.around[place] if target.around else self.halos[target.array][place]
        assert around is not None, "a window without an origin is around the block"
        below = around[0]
        return low.add(Affine.variable(self.names.at[axis]), -1).add(Affine((), -below))

    # -- sets

    def assumptions(self, own: Collection[str]) -> isl.Set:
        """Return the assumptions of the program, and those about boxes and loops of the host."""
        result = align(self.homes.kernel.assumptions, self.space)
        rows = [Row(Affine.variable(name)) for name in (*self.names.low, *self.names.count)]
        for axis, name in enumerate(self.names.at):
            below = 0 if self.deep is None else self.deep.most(self.phase.number, axis)
            rows.append(Row(Affine.variable(name).add(Affine((), below))))
        rows += [Row(Affine.variable(self.names.count[axis]).add(Affine((), -1))) for axis in self.active]
        rows += self.boxes()
        result = add_rows(result.from_params(), (), rows).params()
        for axis, coordinates in self.active.items():
            pieces = coordinates.get_basic_sets()
            if len(pieces) == 1 and not pieces[0].dim(isl.dim_type.div):  # else a box may end between coordinates
                low, count = Affine.variable(self.names.low[axis]), Affine.variable(self.names.count[axis])
                for form in (low, low.add(count).add(Affine((), -1))):
                    equal = [Row(Affine.variable("x'").add(form, -1), True)]
                    result = result.intersect(add_rows(coordinates, ("x'",), equal).params())
        turns: isl.Set | None = None
        for name in self.phase.instructions:
            instruction = self.homes.kernel.instruction(name)
            hosts = [host for host in self.phase.hosts if host in instruction.inames]
            around = project_onto(align(instruction.domain, self.space), instruction.inames, hosts)
            around = self.unhosted(around, hosts).params()
            turns = around if turns is None else turns.union(around)
        if self.phase.hosts and turns is not None and len(turns.coalesce().get_basic_sets()) == 1:
            result = result.intersect(turns.coalesce())
        for outside in self.before_windows():
            less = result.subtract(outside).coalesce()
            result = less if len(less.get_basic_sets()) == 1 else result
        return over_parameters(result.coalesce(), parameter_space(tuple(own)))

    def boxes(self) -> Iterator[Row]:
        """Yield rows for the boxes that are packed: each lies in the rank's part."""
        shapes = {entry.name: entry.shape or () for entry in self.arrays()}
        for pack in self.packs:
            for place, (start, extent, length) in enumerate(
                zip(pack.starts, pack.extents, shapes[pack.array], strict=True)
            ):
                first, limit = Affine.variable(start), affine_of(length)
                if place == pack.face and limit is not None:  # behind the face of the block
                    below, above = self.halos[pack.array][place]
                    end = Affine.variable(extent).add(Affine((), -below)) if pack.side < 0 else limit.scale(-1).add(
                        Affine((), above))
                    yield Row(first.add(end), True)
                yield Row(first)
                yield Row(Affine.variable(extent))
                if limit is not None:
                    yield Row(limit.add(first, -1).add(Affine.variable(extent), -1))

    def before_windows(self) -> Iterator[isl.Set]:
        """Yield the parameters with which a window begins behind an element that is read through it."""
        for statement, access, storage in uses(self.homes, self.phase):
            if storage is not Storage.WINDOW:
                continue
            target = next(entry for entry in self.fields if (entry.array, entry.storage) == (access.array, storage))
            shifts = self.shifts(self.homes.of(statement), statement.inames)
            domain = self.restricted(statement.domain, statement.inames, self.homes.of(statement), shifts)
            dims = [name for name in statement.inames if name not in self.phase.hosts]
            for place, form in enumerate(access.indices):
                if form is not None and (target.name, place) in self.origins:
                    index = form.substitute(shifts).add(self.base(target, place, 0), -1)
                    yield add_rows(domain, dims, [Row(index.scale(-1).add(Affine((), -1)))]).params()


def iname_domains(instructions: Sequence[Instruction]) -> Iterator[Domain]:
    """Yield the domain of each iname: the values that it has anywhere."""
    found: dict[str, isl.Set] = {}
    for entry in instructions:
        for inames, domain in ((entry.inames, entry.domain), *((term.inames, term.domain) for term in entry.terms)):
            for iname in inames:
                own = project_onto(domain, inames, (iname,))
                known = found.get(iname)
                found[iname] = own if known is None else known.union(own)
    for iname, domain in found.items():
        yield Domain((iname,), domain.coalesce())


def _primed(form: Affine, hosts: Collection[str], inames: Collection[str]) -> Affine:
    return form.substitute({name: Affine.variable(f"{name}'") for name in hosts if name in inames})


def _renamed(domain: isl.Set, dims: Sequence[str]) -> isl.Set:
    for place, name in enumerate(dims):
        domain = domain.set_dim_name(_SET, place, name)
    return domain


def _names(entry: Instruction) -> frozenset[str]:
    found = variables(entry.expression) | variables(entry.assignee)
    return found.union(*map(variables, entry.predicates))


def _self_read(entry: Instruction) -> frozenset[str]:
    target = array_name(entry.assignee)
    found = variables(entry.expression).union(*map(variables, entry.predicates))
    return frozenset({target}) & found


def _involved(domain: isl.Set) -> Iterator[str]:
    for place in range(domain.dim(_PARAM)):
        if domain.involves_dims(_PARAM, place, 1):
            yield domain.get_dim_name(_PARAM, place) or ""


def over_parameters(domain: isl.Set, space: isl.Set) -> isl.Set:
    """Return *domain* over the parameters of *space*, others projected out."""
    known = {space.get_dim_name(_PARAM, place) for place in range(space.dim(_PARAM))}
    for place in reversed(range(domain.dim(_PARAM))):
        if domain.get_dim_name(_PARAM, place) not in known:
            domain = domain.project_out(_PARAM, place, 1)
    return align(domain, space)


def _within(entry: Instruction, assumptions: isl.Set) -> Instruction:
    """Return an instruction with domains over the parameters of *assumptions*, without what these imply."""
    def shorter(domain: isl.Set) -> isl.Set:
        return over_parameters(domain, assumptions).gist_params(assumptions).coalesce()

    terms = tuple(replace(term, domain=shorter(term.domain)) for term in entry.terms)
    return replace(entry, domain=shorter(entry.domain), terms=terms)
