"""The write whose value each read of a program sees, and what depends on what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import islpy as isl
import pymbolic.primitives as p

from polyloop.dataflow.last_writes import Accesses, last_writes
from polyloop.derivatives.partials import Part, Undifferentiable, partials, reads
from polyloop.derivatives.statements import NONZERO, OWN, TIES, ZEROS, Program, Statement, refuse, restricted
from polyloop.expr.dtypes import is_complex, is_floating
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.printer import show
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.sets import Row, add_rows, map_from_forms, universe

__all__ = ["END", "SEED", "Flows", "Source", "elements", "flows_of", "index_forms"]

END: Final = "@end"
"""Reads all elements of a variable after the program."""

SEED: Final = p.Variable("@seed")
"""Stands for the adjoint of a statement's result in the factors of its reads."""


@dataclass(frozen=True, eq=False)
class Source:
    """The write that some instances of a read see: ``{ read instance -> write instance }``."""

    statement: Statement
    link: isl.Map


@dataclass(eq=False)
class Flows:
    """Dataflow of a program.

    Attributes
    ----------
    sources, initial
        For each read, by the names of its statement and variable: its sources, and the instances that see the value
        before the program.  A read of ``END`` has the elements as its instances.
    parts
        For each statement, the contributions of its differentiable reads, each with the instances that make it.
    """

    program: Program
    sources: dict[tuple[str, Expression], tuple[Source, ...]]
    initial: dict[tuple[str, Expression], isl.Set]
    parts: dict[str, tuple[tuple[Part, isl.Set], ...]] = field(default_factory=dict)

    def sees_only(self, statement: Statement, leaf: Expression) -> bool:
        """Return whether no instance of a read sees the value before the program."""
        return bool(self.initial[statement.name, leaf].is_empty())


def index_forms(leaf: Expression, names: Iterable[str]) -> tuple[Affine, ...] | None:
    """Return the subscripts of a variable or element as affine forms of *names*, None if some are not."""
    if isinstance(leaf, p.Variable):
        return ()
    known, found = frozenset(names), []
    for index in leaf.index_tuple:
        form = affine_of(index)
        if form is None or not form.names() <= known:
            return None
        found.append(form)
    return tuple(found)


def elements(kernel: LoopKernel, name: str, dims: tuple[str, ...]) -> isl.Set:
    """Return the elements of an argument as a set over *dims*, one for each axis."""
    entry = kernel.arrays().get(name)
    domain = universe(kernel.assumptions, dims)
    for dim, extent in zip(dims, () if entry is None else entry.shape or (), strict=True):
        form = affine_of(extent)
        if form is None or not form.names() <= set(kernel.parameters):
            refuse(kernel, f"the shape of '{name}' is not affine: {show(extent)}", hint="pass the extent by itself")
        at = Affine.variable(dim)
        domain = add_rows(domain, dims, [Row(at), Row(form.add(at, -1).add(Affine((), -1)))])
    return domain


def flows_of(program: Program, wrt: Iterable[str], of: Iterable[str]) -> Flows:
    """Return the dataflow of *program*, and the contributions of reads that depend on *wrt*.

    Raises
    ------
    KernelError
        ``not-differentiable``.
    """
    flow = _values(program, of)
    flow.parts.update(_Activity(program, flow, frozenset(wrt)).parts())
    return flow


# {{{ values


_Read = tuple[str, Expression, isl.Map]
"""A read: the name of its statement, the variable or element, and ``{ instance -> element }``."""


def _values(program: Program, of: Iterable[str]) -> Flows:
    """Return the sources of all reads."""
    flow = Flows(program, {}, {})
    written = _writes(program)
    times = _times(program)
    for name, found in _reads(program, of, written, flow).items():
        writes = {f"w{place}": (statement.name, p.Variable(name), relation)
                  for place, (statement, relation) in enumerate(written[name])}
        reads_of = {f"r{place}": read for place, read in enumerate(found)}
        named = {key: relation.set_tuple_name(isl.dim_type.in_, key)
                 for key, (_, _, relation) in (writes | reads_of).items()}
        when = [_time(program, times, named[key], owner) for key, (owner, _, _) in (writes | reads_of).items()]
        empty = isl.UnionMap.empty(program.kernel.assumptions.get_space())
        accesses = Accesses(
            _union([named[key] for key in reads_of]), _union([named[key] for key in writes]), empty, _union(when))
        last = last_writes(accesses)
        for key, (owner, leaf, relation) in reads_of.items():
            flow.sources[owner, leaf] = tuple(_sources(last.found, key, written[name]))
            flow.initial[owner, leaf] = _unnamed(last.unwritten, key, relation.domain())
    return flow


def _writes(program: Program) -> dict[str, list[tuple[Statement, isl.Map]]]:
    """Return the statements that assign each variable, with the elements that their instances assign."""
    written: dict[str, list[tuple[Statement, isl.Map]]] = {}
    for statement in program.statements():
        if statement.adds:
            _check_update(program, statement)
            continue
        forms = index_forms(statement.target, (*statement.dims, *program.kernel.parameters))
        assert forms is not None, "data selects elements of updates alone"
        written.setdefault(statement.array, []).append(
            (statement, map_from_forms(statement.domain, statement.dims, forms)))
    return written


def _check_update(program: Program, update: Statement) -> None:
    """Refuse updates of elements that data selects, unless nothing in the program reads or replaces the sums."""
    kernel, name, paths = program.kernel, update.array, program.paths()
    for other in program.statements():
        if name in map(array_name, reads(other.value)) or kernel.argument(name) is None:
            refuse(kernel, f"data selects elements of '{name}', and the kernel reads it", str(update.source),
                   str(other.source), hint=f"let another kernel read '{name}', and differentiate the two")
        if other.array == name and not other.adds and int(paths[other.name][0]) >= int(paths[update.name][0]):
            refuse(kernel, f"data selects elements of '{name}', which are assigned after that or in the same loop",
                   str(update.source), str(other.source), hint="assign them in a loop of their own before")


def _reads(
    program: Program, of: Iterable[str], written: Mapping[str, object], flow: Flows
) -> dict[str, list[_Read]]:
    """Return the reads of variables that are assigned; those of others are noted in *flow*."""
    kernel = program.kernel
    found: dict[str, list[_Read]] = {}
    arrays = {*kernel.arrays(), *program.made}
    for statement in program.statements():
        for leaf in _leaves(statement, arrays):
            name = array_name(leaf)
            forms = index_forms(leaf, (*statement.inner, *kernel.parameters))
            if name not in written:
                flow.sources[statement.name, leaf] = ()
                flow.initial[statement.name, leaf] = statement.instances
            elif forms is None:
                refuse(kernel, f"it depends on data which value of '{name}' is read", str(statement.source),
                       hint=f"let another kernel compute '{name}', and differentiate the two")
            else:
                relation = map_from_forms(statement.instances, statement.inner, forms)
                found.setdefault(name, []).append((statement.name, leaf, relation))
    for name in of:
        dims = tuple(f"e{axis}" for axis in range(len(kernel.arrays()[name].shape or ())))
        relation = map_from_forms(elements(kernel, name, dims), dims, [Affine.variable(dim) for dim in dims])
        if name in written:
            found.setdefault(name, []).append((END, p.Variable(name), relation))
        else:
            flow.sources[END, p.Variable(name)], flow.initial[END, p.Variable(name)] = (), relation.domain()
    return found


def _leaves(statement: Statement, arrays: set[str]) -> list[Expression]:
    """Return the variables and elements that a statement reads, less names that only subscripts are made of."""
    return [leaf for leaf in reads(statement.value) if array_name(leaf) in arrays]


def _union(maps: Iterable[isl.Map]) -> isl.UnionMap:
    first, *rest = maps
    found = first.to_union_map()
    for relation in rest:
        found = found.union(relation.to_union_map())
    return found


def _times(program: Program) -> Mapping[str, tuple[int | str, ...]]:
    paths = program.paths()
    depth = max((len(path) for path in paths.values()), default=0)
    padded = {name: path + (0,) * (depth - len(path)) for name, path in paths.items()}
    return padded | {END: (len(program.body),) + (0,) * (depth - 1)}


def _time(program: Program, times: Mapping[str, tuple[int | str, ...]], access: isl.Map, owner: str) -> isl.Map:
    """Return ``{ instance -> time }`` for the instances of an access."""
    domain = access.domain()
    count, name = domain.dim(isl.dim_type.set), domain.get_tuple_name()
    inner = [statement.inner for statement in program.statements() if statement.name == owner]
    dims = inner[0][:count] if inner else tuple(f"e{axis}" for axis in range(count))
    forms = [Affine((), entry) if isinstance(entry, int) else Affine.variable(entry) for entry in times[owner]]
    return map_from_forms(domain.reset_tuple_id(), dims, forms).set_tuple_name(isl.dim_type.in_, name)


def _sources(found: isl.UnionMap, key: str, written: list[tuple[Statement, isl.Map]]) -> Iterable[Source]:
    for relation in _maps(found):
        if relation.get_tuple_name(isl.dim_type.in_) == key and not relation.is_empty():
            place = int((relation.get_tuple_name(isl.dim_type.out) or "")[1:])
            plain = relation.reset_tuple_id(isl.dim_type.in_).reset_tuple_id(isl.dim_type.out)
            yield Source(written[place][0], plain.coalesce())


def _maps(found: isl.UnionMap) -> list[isl.Map]:
    listed = found.get_map_list()
    return [listed.get_at(place) for place in range(listed.n_map())]


def _unnamed(found: isl.UnionSet, key: str, domain: isl.Set) -> isl.Set:
    listed = found.get_set_list()
    for place in range(listed.n_set()):
        part = listed.get_at(place)
        if part.get_tuple_name() == key:
            return part.reset_tuple_id().coalesce()
    plain = domain.reset_tuple_id()
    return plain.subtract(plain)


# }}}

# {{{ derivatives


@dataclass(eq=False)
class _Activity:
    """Finds the statements whose results depend on some variables."""

    program: Program
    flow: Flows
    wrt: frozenset[str]
    active: set[str] = field(default_factory=set)

    def parts(self) -> dict[str, tuple[tuple[Part, isl.Set], ...]]:
        """Return the contributions to each statement that depends on the variables."""
        found: dict[str, tuple[tuple[Part, isl.Set], ...]] = {}
        changed = True
        while changed:
            changed = False
            for statement in self.program.statements():
                parts = self.of(statement)
                if parts and len(parts) != len(found.get(statement.name, ())):
                    found[statement.name] = parts
                    self.active.add(statement.name)
                    changed = True
        return found

    def is_active(self, statement: Statement, leaf: Expression) -> bool:
        """Return whether the value that a read sees depends on the variables."""
        key = (statement.name, leaf)
        if key not in self.flow.sources:
            return isinstance(leaf, p.Variable) and leaf.name in self.wrt
        if array_name(leaf) in self.wrt and not self.flow.initial[key].is_empty():
            return True
        return any(source.statement.name in self.active for source in self.flow.sources[key])

    def of(self, statement: Statement) -> tuple[tuple[Part, isl.Set], ...]:
        """Return the contributions of the active reads of a statement."""
        dtype = self.program.dtype(statement.array)
        if dtype is not None and not is_floating(dtype):
            if is_complex(dtype) and any(self.is_active(statement, leaf) for leaf in reads(statement.value)):
                refuse(self.program.kernel, f"'{statement.array}' is complex", str(statement.source),
                       hint="compute the real and the imaginary part by themselves")
            return ()
        try:
            found = list(self.contributions(statement))
        except Undifferentiable as error:
            refuse(self.program.kernel, str(error), str(statement.source), hint=error.hint)
        return tuple(found)

    def contributions(self, statement: Statement) -> Iterable[tuple[Part, isl.Set]]:
        seed, operation = seed_of(statement), statement.operation
        parts = list(partials(statement.value, seed, lambda leaf: self.is_active(statement, leaf)))
        if parts and operation is not None and (operation.name not in _SEEDS or operation.combine):
            raise Undifferentiable(f"the derivative of a reduction by '{operation}' is not known",
                                   "use sum, product, max or min")
        for part in parts:
            domain, left = restricted(statement.instances, statement.inner, part.conditions)
            if not domain.is_empty():
                yield Part(part.leaf, part.factor, tuple(left)), domain


_SEEDS: Final = frozenset(("sum", "product", "max", "min"))


def seed_of(statement: Statement) -> Expression:
    """Return the factor with which the chain rule begins in the value of a statement, or in a term of it."""
    operation, value = statement.operation, statement.value
    match "sum" if operation is None else operation.name:
        case "product":
            zeros = p.Variable(ZEROS)
            others = p.If(p.Comparison(zeros, "==", 0), p.Quotient(p.Variable(OWN), value), 0.0)
            alone = p.If(p.Comparison(zeros, "==", 1), p.Variable(NONZERO), 0.0)
            return p.Product((SEED, p.If(p.Comparison(value, "!=", 0), others, alone)))
        case "max" | "min":
            equal = p.Comparison(value, "==", p.Variable(OWN))
            return p.If(equal, p.Quotient(SEED, p.Variable(TIES)), 0.0)
    return SEED


# }}}
