"""Shapes inferred from footprints, and bounds checks of accesses: for all sizes, or under a condition on parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import TypeAlias

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, Witness, WitnessInstance, WitnessKind
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.expr.rewrite import variables
from polyloop.expr.rules import expand_rules
from polyloop.kernel.domains import assumed, data_inames
from polyloop.kernel.kernel import Condition, LoopKernel
from polyloop.memo import Same, memoised
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.budget import NoAnswer, limited, looking_at
from polyloop.poly.intervals import is_computed, value_range
from polyloop.poly.maps import form_of_aff
from polyloop.poly.sets import Row, add_rows, form_to_aff, map_from_forms, sample_set, set_text
from polyloop.program.guards import guards_a_reduction
from polyloop.program.ir import Access, Lowered, Program, Update
from polyloop.program.lower import lower
from polyloop.proof.access_spans import site_of_access
from polyloop.proof.obligation import Claim, Obligation
from polyloop.proof.postponed import waits
from polyloop.verification.computed_subscripts import Inside, Outcome, pieces_outside

__all__ = [
    "accesses_to",
    "bounds_conditions",
    "bounds_obligations",
    "bounds_violations",
    "footprint_extents",
    "footprint_shape",
    "left_to_data",
    "rank_violations",
    "unbounded_inames",
]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param


def accesses_to(program: Program) -> Iterator[tuple[Lowered, Access]]:
    """Yield every access of *program* to arrays and temporaries of the kernel."""
    for statement in program.statements.values():
        for access in statement.accesses:
            if access.array not in program.accumulators:
                yield statement, access


@memoised
def _by_array(program: Program) -> dict[str, list[tuple[Lowered, Access]]]:
    found: dict[str, list[tuple[Lowered, Access]]] = {}
    for statement, access in accesses_to(program):
        found.setdefault(access.array, []).append((statement, access))
    return found


def unbounded_inames(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each iname without a lower or an upper bound."""
    seen: set[str] = set()
    for statement in lower(kernel).statements.values():
        if statement.exact.is_bounded():
            continue
        for position, iname in enumerate(statement.inames):
            if iname not in seen and not _is_bounded(statement.exact, position):
                seen.add(iname)
                yield Diagnostic(
                    "unbounded-domain",
                    f"iname '{iname}' is not bounded",
                    (f"its domain is {set_text(statement.exact)}",),
                    (f"give '{iname}' a lower and an upper bound, such as 0 <= {iname} < n",),
                    sites=(statement.instruction.site(),),
                )


def _is_bounded(domain: isl.Set, position: int) -> bool:
    """Return whether numbers bound an iname: neither another iname nor a quotient counts as a bound."""
    alone = domain.project_out(_SET, position + 1, domain.dim(_SET) - position - 1).project_out(_SET, 0, position)
    return alone.remove_divs().dim_is_bounded(_SET, 0)


def rank_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each access whose number of subscripts is not the rank of its array."""
    arrays = kernel.arrays()
    for statement, access in accesses_to(lower(kernel)):
        shape = arrays[access.array].shape if access.array in arrays else ()
        if shape is not None and len(shape) != len(access.indices):
            yield Diagnostic(
                "wrong-rank",
                f"'{access.array}' has {_axes(len(shape))} and is subscripted with {len(access.indices)}",
                (f"its shape is ({', '.join(show(extent) for extent in shape)})",),
                sites=(site_of_access(statement, access),),
            )


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


@memoised
def footprint_shape(kernel: LoopKernel, name: str) -> tuple[Expression, ...] | Diagnostic:
    """Return the smallest shape [elements] that holds every access to *name*, or a diagnostic if there is none."""
    found = footprint_extents(kernel, name)
    if isinstance(found, Diagnostic):
        return found
    return next((extent for extent in found if isinstance(extent, Diagnostic)), None) or found


@memoised
def footprint_extents(kernel: LoopKernel, name: str) -> tuple[Expression, ...] | Diagnostic:
    """Return the smallest extents [elements] that hold every access to *name*, a diagnostic for each that is open.

    The whole is a diagnostic where the accesses do not have one number of subscripts.
    """
    found = _by_array(lower(kernel)).get(name)
    if not found:
        return ()
    rank = len(found[0][1].indices)
    for statement, access in found:
        if len(access.indices) != rank:
            return Diagnostic(
                "wrong-rank",
                f"'{name}' is subscripted with {rank} and with {len(access.indices)} indices",
                sites=(site_of_access(*found[0]), site_of_access(statement, access)),
            )
    return tuple(_axis_extent(kernel, name, found, axis) for axis in range(rank))


def _axis_extent(
    kernel: LoopKernel, name: str, found: Sequence[tuple[Lowered, Access]], axis: int
) -> Expression | Diagnostic:  # fmt: skip
    touched: isl.Set | None = None
    for statement, access in found:
        form = access.indices[axis]
        if form is None:
            return _no_shape(name, f"a subscript of axis {axis} is not affine", statement, access)
        domain = statement.domain_of(access).intersect_params(kernel.assumptions)
        values = map_from_forms(domain, statement.inames, [form]).range()
        touched = values if touched is None else touched.union(values)
    assert touched is not None, "there is an access"
    try:
        with limited():
            extent = _extent(touched)
    except NoAnswer:  # too much for ISL
        extent = None
    if extent is None and (by := _data_decides(kernel, found, axis)):
        why = f"data decides how far iname '{by[0]}' runs, so the greatest index of axis {axis} is not known"
        return _no_shape(name, why, *by[1])
    if extent is None:
        return _no_shape(name, f"the greatest index of axis {axis} is not one expression", *found[0])
    return extent


def _data_decides(
    kernel: LoopKernel, found: Sequence[tuple[Lowered, Access]], axis: int
) -> tuple[str, tuple[Lowered, Access]] | None:
    """Return the first iname in the subscripts of *axis* whose bounds depend on data, with its access."""
    inames = data_inames(kernel)
    for statement, access in found:
        form = access.indices[axis]
        names = frozenset[str]() if form is None else form.names() & inames
        if names:
            return min(names), (statement, access)
    return None


def _no_shape(name: str, why: str, statement: Lowered, access: Access) -> Diagnostic:
    return Diagnostic(
        "shape-not-inferred",
        f"the shape of '{name}' cannot be inferred",
        (why,),
        (f'declare it: pl.GlobalArg("{name}", shape="...")',),
        sites=(site_of_access(statement, access),),
    )


def _extent(touched: isl.Set) -> Expression | None:
    """Return the greatest element of a one-dimensional set plus one (0 if empty), None if unbounded or not affine.

    The result may be larger if the greatest element is not one affine form for all parameters.
    """
    if touched.is_empty() or not touched.dim_is_bounded(_SET, 0):
        return 0 if touched.is_empty() else None
    exact = _exact_extent(touched)
    return _exact_extent(touched.remove_divs()) if exact is None else exact


def _exact_extent(touched: isl.Set) -> Expression | None:
    """Return the greatest element plus one as an affine form, or the ``Max`` of several; None if that is impossible.

    A single form is the result if it is greatest for all parameters.
    """
    if not touched.dim_is_bounded(_SET, 0):
        return None
    greatest = touched.coalesce().dim_max(0).coalesce()
    pieces: list[tuple[isl.Set, isl.Aff]] = greatest.get_pieces()
    forms = [_form(aff) for _, aff in pieces]
    if any(form is None for form in forms):
        return None
    known = dict.fromkeys(form for form in forms if form is not None)
    whole = greatest.domain()
    dominant = None
    for form in known:
        candidate = form_to_aff(form, isl.LocalSpace.from_space(whole.get_space()), ())
        if all(
            whole.intersect(domain).is_subset(candidate.to_pw_aff().ge_set(aff.to_pw_aff()))
            for domain, aff in pieces
        ):
            dominant = form
            break
    if dominant is not None:
        return to_expression(dominant.add(Affine((), 1)))
    return p.Max(tuple(to_expression(form.add(Affine((), 1))) for form in known))


def _form(aff: isl.Aff) -> Affine | None:
    if aff.dim(isl.dim_type.div) or not aff.get_denominator_val().is_one():
        return None
    return form_of_aff(aff, ())


def bounds_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield a diagnostic, with an instance, for each access that leaves its array and that no condition can save.

    An access that leaves its array for some parameters only becomes a condition (:func:`bounds_conditions`).
    Subscripts that depend on data are not checked (:func:`left_to_data`).
    """
    if not waits(bounds_violations):
        yield from _bounds(kernel)[0]


def bounds_conditions(kernel: LoopKernel) -> tuple[Condition, ...]:
    """Return the conditions on the parameters under which no access leaves its array."""
    return _bounds(kernel)[1]


@memoised
def _bounds(kernel: LoopKernel) -> tuple[tuple[Diagnostic, ...], tuple[Condition, ...]]:
    """Return the results of :func:`bounds_violations` and :func:`bounds_conditions`, from one pass over accesses.

    The diagnostics have one access of each array in each instruction.
    """
    program = lower(kernel)
    kernel = program.kernel
    arrays = kernel.arrays()
    seen: set[tuple[str, str]] = set()
    found: list[Diagnostic] = []
    conditions: list[Condition] = []
    known: list[_Known] = []
    data = data_inames(kernel)
    for statement, access in accesses_to(program):
        array = arrays.get(access.array)
        key = (statement.instruction.id, access.array)
        if array is None or not array.shape or key in seen:
            continue
        domain = assumed(statement.domain_of(access), kernel.assumptions)
        outside = _outside(kernel, statement, access, array.shape, (domain, data))
        if not outside:
            continue
        bad = outside[0][1].params()
        for _, part in outside[1:]:
            bad = bad.union(part.params())
        condition = _condition(statement, access, array.shape, _sets(kernel, array.shape, domain, bad, known))
        if condition is None:
            seen.add(key)
            found.append(_out_of_bounds(kernel, statement, access, array.shape, *outside[0]))
        else:
            conditions.append(condition)
    more, computed = _computed_bounds(kernel, data, seen)
    return (*found, *more), (*_strongest(kernel.assumptions, conditions), *computed)


def _computed_bounds(
    kernel: LoopKernel, data: frozenset[str], seen: set[tuple[str, str]]
) -> tuple[Sequence[Diagnostic], Iterable[Condition]]:
    """Return the result of :func:`_bounds` for non-affine subscripts and extents.

    *seen* has the pairs of an instruction and an array with a diagnostic already; new ones are added to it.
    """
    arrays = kernel.arrays()
    found: list[Diagnostic] = []
    conditions: dict[tuple[str, Same[isl.Set]], Condition] = {}
    for statement, access in accesses_to(lower(kernel)):
        array, key = arrays.get(access.array), (statement.instruction.id, access.array)
        if array is None or not array.shape or key in seen:
            continue
        if not access.computed and all(affine_of(extent) is not None for extent in array.shape):
            continue
        for outcome in _decided(kernel, statement, access, array.shape, data):
            if isinstance(outcome, Condition):
                conditions.setdefault((str(outcome.inside), Same(statement.domain_of(access))), outcome)
            elif key not in seen:
                seen.add(key)
                found.append(outcome)
    return found, conditions.values()


def _decided(
    kernel: LoopKernel, statement: Lowered, access: Access, shape: Sequence[Expression], data: frozenset[str]
) -> Iterator[Condition | Diagnostic]:
    """Yield, for each axis that ISL cannot decide, the condition to check at launch, or a diagnostic."""
    parameters = set(kernel.parameters)
    for axis, (form, extent) in enumerate(zip(access.indices, shape, strict=True)):
        limit = affine_of(extent)
        is_known = is_computed(extent) and variables(extent) <= parameters
        if _is_data(access, axis, data) or not is_known or (form is not None and limit is not None):
            continue
        index = access.computed[axis] if form is None else to_expression(form)
        domain = assumed(statement.domain_of(access), kernel.assumptions)
        if limit is not None and pieces_outside(domain, statement.inames, index, extent) is not None:
            continue
        inside = Inside.of(index, extent, statement.inames, domain)
        outcome = inside.outcome(domain.params())
        if outcome is Outcome.CHECKED:
            everything = isl.Set.universe(domain.get_space().params())
            array = f"{access.array}, whose shape is ({', '.join(show(extent) for extent in shape)})"
            spelt = show(_spelt(access))
            yield Condition(everything, everything, everything, spelt, array, statement.instruction.id, inside)
        elif outcome is not Outcome.INSIDE:
            rows = [Row(Affine.variable(name).add(Affine((), -value)), True) for name, value in outcome.items()]
            yield _out_of_bounds(kernel, statement, access, shape, axis, add_rows(domain, statement.inames, rows))


def bounds_obligations(kernel: LoopKernel) -> Iterator[Obligation]:
    """Yield the obligation, for each array, that all accesses of a transformed kernel stay inside, also in fills.

    The conditions that are checked at launch are assumed.
    """
    conditions = kernel.assumptions
    for condition in kernel.conditions:
        conditions = conditions.intersect(condition.set)
    by = "subscripts against the shape, for the instances that run"
    by_data = {access.array for _, access, _ in left_to_data(kernel)}
    by_data |= {name for i in kernel.instructions if i.is_c for name in (*i.reads, *i.writes)}
    for name, array in kernel.arrays().items():
        if array.shape and name in _by_array(lower(kernel)):
            shape = ", ".join(show(extent) for extent in array.shape)
            says = f"each access to '{name}' stays inside of its shape ({shape})"
            if name in by_data:
                says += ", as far as data does not decide"
            find = partial(_leaving, kernel, name, array.shape, conditions)
            yield Obligation(Claim.BOUNDS, f"'{name}'", says, by, find)


def _leaving(
    kernel: LoopKernel, name: str, shape: Sequence[Expression], conditions: isl.Set
) -> Iterator[Diagnostic]:
    data = data_inames(kernel)
    for statement, access in _by_array(lower(kernel))[name]:
        looking_at(statement, access)
        domain = assumed(statement.domain_of(access), kernel.assumptions)
        if not _outside(kernel, statement, access, shape, (domain, data)):
            continue  # inside under the assumptions alone: the conditions only narrow the domain further
        domain = assumed(statement.domain_of(access), conditions)
        for axis, part in _outside(kernel, statement, access, shape, (domain, data)):
            yield _out_of_bounds(kernel, statement, access, shape, axis, part)
            return


@memoised
def left_to_data(kernel: LoopKernel) -> tuple[tuple[Lowered, Access, tuple[int, ...]], ...]:
    """Return the accesses with subscripts that depend on data, each with the axes of these."""
    data = data_inames(kernel)
    arrays = kernel.arrays()
    found = []
    for statement, access in accesses_to(lower(kernel)):
        if access.array in arrays and not statement.instruction.is_c:
            axes = tuple([axis for axis in range(len(access.indices)) if _is_data(access, axis, data)])
            if axes:
                found.append((statement, access, axes))
    return tuple(found)


def _is_data(access: Access, axis: int, data: frozenset[str]) -> bool:
    """Return True if a subscript depends on data: it reads an array, or has one of the inames *data*."""
    form, computed = access.indices[axis], _computed(access, axis)
    if form is not None:
        return bool(data) and not data.isdisjoint(form.names())
    return computed is None or not data.isdisjoint(variables(computed))


def _computed(access: Access, axis: int) -> Expression | None:
    return access.computed[axis] if access.computed else None


def _outside(
    kernel: LoopKernel, statement: Lowered, access: Access, shape: Sequence[Expression],
    runs: tuple[isl.Set, frozenset[str]],
) -> Sequence[tuple[int, isl.Set]]:
    """Return the axes on which *access* leaves its array, each with such instances.

    *runs* has all instances, and the inames whose values depend on data: subscripts with these are skipped.
    """
    domain, data = runs
    computed = tuple(map(Same, access.computed))
    return _found_outside(domain, statement.inames, data, access.indices, computed, tuple(shape), kernel.parameters)


@memoised
def _found_outside(
    domain: isl.Set, inames: tuple[str, ...], data: frozenset[str], indices: tuple[Affine | None, ...],
    computed: tuple[Same[Expression | None], ...], shape: tuple[Expression, ...], parameters: tuple[str, ...],
) -> Sequence[tuple[int, isl.Set]]:
    """Return the result of :func:`_outside`, which accesses of one form on one domain share."""
    access = Access("", indices, computed=tuple([entry.value for entry in computed]))
    found: list[tuple[int, isl.Set]] = []
    for axis, (form, extent) in enumerate(zip(access.indices, shape, strict=True)):
        limit = affine_of(extent)
        if limit is None or not limit.names() <= {*parameters} or _is_data(access, axis, data):
            continue
        if form is None:
            pieces = pieces_outside(domain, inames, access.computed[axis], extent)
            if pieces is not None and not pieces.is_empty():
                found.append((axis, pieces))
            continue
        for row in (Row(form.scale(-1).add(Affine((), -1))), Row(form.add(limit, -1))):
            part = add_rows(domain, inames, [row])
            if not part.is_empty():
                found.append((axis, part))
    return tuple(found)


def _only_small(good: isl.Set, runs: isl.Set, shape: Sequence[Expression]) -> bool:
    """Return True if *good* bounds a parameter of *shape* that *runs* does not: then the access is an error.

    That an array of constant extent bounds a parameter is a condition, which ``fix_parameters`` or a call fulfils.
    """
    count = runs.dim(_PARAM)
    sizes = {name for extent in shape for name in variables(extent)}
    for position in range(count):
        if runs.get_dim_name(_PARAM, position) not in sizes:
            continue
        alone = [part.project_out(_PARAM, position + 1, count - position - 1) for part in (good, runs)]
        alone = [part.project_out(_PARAM, 0, position).from_params() for part in alone]
        small, any_size = (part.move_dims(_SET, 0, _PARAM, 0, 1) for part in alone)
        if small.dim_has_upper_bound(_SET, 0) and not any_size.dim_has_upper_bound(_SET, 0):
            return True
    return False


_MANY_PIECES = 16
"""Limit on the pieces of a condition: users could not read a longer one, and the access is refused."""


_Sets: TypeAlias = "tuple[isl.Set, isl.Set, isl.Set] | None"
"""The three sets of a condition: all parameters for which it holds, what it needs where it is asked, and where."""

_Known: TypeAlias = "tuple[Sequence[Expression], isl.Set, isl.Set, _Sets]"
"""A shape, the instances, the parameters for which an access leaves the array, and what was found of these."""


def _sets(
    kernel: LoopKernel, shape: Sequence[Expression], domain: isl.Set, bad: isl.Set, known: list[_Known]
) -> _Sets:
    """Return the sets of the condition under which an access stays inside, None if it is to be refused.

    *domain* are the instances with the access, *bad* the parameters for which it leaves its array.  What was found for
    others is *known*, and the same objects are returned for accesses of one form: most are.
    """
    runs = domain.params()
    for other, earlier, worse, result in known:
        if bad.plain_is_equal(worse) and runs.plain_is_equal(earlier) and tuple(shape) == tuple(other):
            return result
    found = _new_sets(kernel, shape, runs, bad)
    known.append((shape, runs, bad, found))
    return found


def _new_sets(kernel: LoopKernel, shape: Sequence[Expression], runs: isl.Set, bad: isl.Set) -> _Sets:
    good = runs.subtract(bad).coalesce()
    if good.is_empty() or _only_small(good, runs, shape):
        return None
    whole = bad.complement().gist(kernel.assumptions).coalesce()
    needs = good.gist(runs).coalesce()
    if max(whole.n_basic_set(), needs.n_basic_set()) > _MANY_PIECES:
        return None
    return whole, needs, runs.gist(kernel.assumptions).coalesce()


def _condition(
    statement: Lowered, access: Access, shape: Sequence[Expression], inside: _Sets
) -> Condition | None:
    """Return the condition under which an access stays inside, None if it is to be refused."""
    if inside is None:
        return None
    whole, needs, where = inside
    spelt = show(_spelt(access))
    array = f"{access.array}, whose shape is ({', '.join(show(extent) for extent in shape)})"
    return Condition(whole, needs, where, spelt, array, statement.instruction.id)


def _spelt(access: Access) -> Expression:
    forms = enumerate(access.indices)
    parts = [_computed(access, axis) if form is None else to_expression(form) for axis, form in forms]
    indices = tuple(p.Variable("?") if part is None else part for part in parts)
    return p.Subscript(p.Variable(access.array), indices[0] if len(indices) == 1 else indices)


def _strongest(assumptions: isl.Set, conditions: Sequence[Condition]) -> tuple[Condition, ...]:
    """Return *conditions* without those that the others imply: of equal ones the last stays."""
    last = {Same(condition.set): number for number, condition in enumerate(conditions)}
    different = [condition for number, condition in enumerate(conditions) if last[Same(condition.set)] == number]
    behind = [assumptions]  # with the conditions behind each one, from the last one on
    for condition in reversed(different[1:]):
        behind.append(behind[-1].intersect(condition.set))
    kept: list[Condition] = []
    for condition, rest in zip(different, reversed(behind), strict=True) if different else ():
        both = reduce(isl.Set.intersect, (other.set for other in kept), rest)
        if not both.is_subset(condition.set):
            kept.append(condition)
    return tuple(kept)


def _out_of_bounds(
    kernel: LoopKernel, statement: Lowered, access: Access, shape: Sequence[Expression], axis: int, bad: isl.Set
) -> Diagnostic:
    values = sample_set(bad, statement.inames)
    assert values is not None
    element = tuple(_value(access, number, values) for number in range(len(access.indices)))
    indices = ["?" if index is None else str(index) for index in element]
    at = ", ".join(f"{name}={value}" for name, value in values.items() if name in statement.inames)
    sizes = ", ".join(f"{name}={value}" for name, value in values.items() if name not in statement.inames)
    where = f"instance ({at})" + (f" with {sizes}" if sizes else "")
    notes = [f"{where} touches {access.array}[{', '.join(indices)}] (axis {axis})"]
    hints = ["shrink the domain, enlarge the array, or state what holds with assumptions="]
    if isinstance(statement.part, Update) and guards_a_reduction(
        expand_rules(statement.instruction.expression, kernel.substitutions)
    ):
        notes.append("a condition around a reduction does not keep it from reading: its value is computed first")
        hints.insert(0, "put the condition into the reduction: sum(j, if(i > 0, a[i-1, j], 0))")
    return Diagnostic(
        "out-of-bounds",
        f"'{access.array}' is accessed outside of its shape ({', '.join(show(extent) for extent in shape)})",
        tuple(notes),
        tuple(hints),
        sites=(site_of_access(statement, access),),
        witness=_witness(statement, access.array, element, values),
    )


def _value(access: Access, axis: int, values: Mapping[str, int]) -> int | None:
    """Return the subscript of an instance along one axis, None if data decides it."""
    form, computed = access.indices[axis], _computed(access, axis)
    if form is not None:
        return form.evaluate(values)
    if computed is None:
        return None
    found = value_range(computed, {name: (value, value) for name, value in values.items()})
    return None if found is None else found[0]


def _witness(
    statement: Lowered, array: str, element: tuple[int | None, ...], values: Mapping[str, int]
) -> Witness:
    at = tuple((name, value) for name, value in values.items() if name in statement.inames)
    parameters = tuple((name, value) for name, value in values.items() if name not in statement.inames)
    first = WitnessInstance(statement.instruction.id, at, statement.name, at)
    return Witness(WitnessKind.OUTSIDE, array, element, parameters, first)

