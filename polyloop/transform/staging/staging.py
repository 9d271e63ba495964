"""Implementation of ``precompute`` and ``add_prefetch``: the staged instruction and the rewritten uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, TransformError
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.expr.rewrite import variables
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace, ArrayArg
from polyloop.kernel.build.instructions import term_domains
from polyloop.kernel.domains import bound_variables, domain_for
from polyloop.kernel.instruction import Copy, Evaluation, Instruction, Term
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.kernel.layout import apart_axes
from polyloop.kernel.tags import Unroll, axis_name, parse_tag
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.sets import (
    Row,
    add_rows,
    bounding_interval,
    form_to_aff,
    hull_along,
    map_from_forms,
    parameter_space,
    parametric_interval,
    project_onto,
    sample_set,
    set_text,
    without_constant_part,
)
from polyloop.program.conditions import may_fail_in
from polyloop.program.infer_types import infer_dtypes
from polyloop.program.lower import lower
from polyloop.transform.loops.auto_local import assign_auto
from polyloop.transform.loops.reorder import add_priority
from polyloop.transform.staging.placement import loops_around, outside_of_loops
from polyloop.transform.staging.plan import Plan, Target, target_of, uses_of, with_whole_axes
from polyloop.transform.staging.redirect import redirected, redirected_rules
from polyloop.transform.staging.uses import Use, expanded_to
from polyloop.transform.staging.wide_copy import vectorized
from polyloop.verification.bounds import bounds_conditions, bounds_violations

__all__ = [
    "Footprint",
    "assign_auto",
    "boxed",
    "data_footprint",
    "new_domain",
    "out_of_bounds",
    "shifted",
    "stage",
    "subscripted",
]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param


@dataclass(frozen=True, eq=False)
class Footprint:
    """Staged box: first element and extent of each axis, the set of elements, and whether it is exact (no hull)."""

    outer: tuple[str, ...]
    bases: tuple[Affine, ...]
    extents: tuple[Affine, ...]
    domain: isl.Set
    is_exact: bool


def _footprint(kernel: LoopKernel, plan: Plan, uses: Sequence[Use], outer: tuple[str, ...]) -> Footprint | Diagnostic:
    for use in uses:
        if missing := set(outer) - set(use.inames):
            return Diagnostic(
                "uses-apart",
                f"not every use of '{plan.source}' inside the swept loops is inside loop '{min(missing)}'",
                hints=(f"sweep '{min(missing)}' as well, so that only the uses inside it are redirected",),
                sites=(use.instruction.site(),),
            )
    rank = len(uses[0].arguments)
    generators = [(use.inames, use.domain, use.arguments) for use in uses]
    if plan.subscripts:
        generators = [_generator(kernel, plan.source, forms, outer) for forms in plan.subscripts]
    exact: isl.Set | None = None
    for inames, domain, arguments in generators:
        forms = [*(Affine.variable(name) for name in outer), *arguments]
        image = map_from_forms(domain.intersect_params(kernel.assumptions), inames, forms).range()
        exact = image if exact is None else exact.union(image)
    assert exact is not None
    exact = exact.coalesce()
    if exact.is_empty():
        return _never_used(plan, uses[0])
    found = boxed(plan, exact, outer, rank, uses[0])
    apart = sorted({_spelt(plan.source, use) for use in uses}) if isinstance(found, Diagnostic) else []
    if isinstance(found, Diagnostic) and len(apart) > 1 and not (plan.is_rule or plan.subscripts):
        named = f"its uses {', '.join(apart)} may lie apart: name the elements to fetch, as in add_prefetch(knl, "
        return replace(found, hints=(f"{named}'{apart[-1]}', ..), with : for a whole axis", *found.hints))
    return found


def _spelt(source: str, use: Use) -> str:
    return f"{source}[{', '.join(show(to_expression(form)) for form in use.arguments)}]"


def _generator(
    kernel: LoopKernel, source: str, given: tuple[Affine | None, ...], outer: tuple[str, ...]
) -> tuple[tuple[str, ...], isl.Set, tuple[Affine, ...]]:
    """Return subscripts that make a footprint, with their inames and all values of these."""
    names = {name for form in given if form is not None for name in form.names()} - set(kernel.parameters)
    inames = (*outer, *(x for x in kernel.inames if x in names and x not in outer))
    domain = domain_for(kernel.domains, inames, parameter_space(kernel.parameters))
    return with_whole_axes(kernel, source, given, inames, domain)


def _inside(
    kernel: LoopKernel, plan: Plan, uses: Sequence[Use], outer: tuple[str, ...], footprint: Footprint
) -> tuple[Use, ...]:
    """Return the uses that see elements of the footprint alone."""
    dims = (*footprint.outer, *(f"x{n}'" for n in range(len(footprint.bases))))
    rows: list[Row] = []
    for axis, base, extent in zip(dims[len(outer) :], footprint.bases, footprint.extents, strict=True):
        rows.append(Row(Affine.variable(axis).add(base, -1)))
        rows.append(Row(base.add(extent).add(Affine(((axis, 1),), 1), -1)))
    box = add_rows(isl.Set.universe(footprint.domain.get_space()), dims, rows)

    def is_inside(use: Use) -> bool:
        forms = [*(Affine.variable(name) for name in outer), *use.arguments]
        domain = use.domain.intersect_params(kernel.assumptions)
        return bool(map_from_forms(domain, use.inames, forms).range().is_subset(box))

    found = tuple(use for use in uses if is_inside(use))
    return found or _found(kernel, plan, _outside(plan))


def boxed(plan: Plan, exact: isl.Set, outer: tuple[str, ...], rank: int, use: Use) -> Footprint | Diagnostic:
    """Return the box around the elements *exact*, which are over the outer inames and the axes of the source."""
    axes = tuple(f"x{number}'" for number in range(rank))
    dims = (*outer, *axes)
    bases, extents = [], []
    whole = project_onto(exact, dims, outer)
    box = whole.insert_dims(_SET, len(outer), rank)
    is_exact = True
    for number, axis in enumerate(axes):
        flat = project_onto(exact, dims, (*outer, axis)).coalesce()
        interval = _interval(plan, flat, (*outer, axis))
        if interval is None:
            return Diagnostic(
                "footprint-not-constant",
                f"the footprint of '{plan.source}' along axis {number} has no constant extent",
                (f"over the swept inames {', '.join(plan.sweep) or '(none)'} it is {set_text(flat)}",),
                ("split an iname and sweep only its inner part, or leave an iname out of the sweep",),
                sites=(use.instruction.site(),),
            )
        base, extent = interval
        bases.append(base)
        extents.append(extent)
        is_exact = is_exact and len(flat.get_basic_sets()) == 1
        hull = hull_along(flat, len(outer)).to_set()
        lifted = hull.insert_dims(_SET, len(outer), number)
        lifted = lifted.insert_dims(_SET, len(outer) + number + 1, rank - number - 1)
        ls = isl.LocalSpace.from_space(lifted.get_space())
        inside = form_to_aff(Affine.variable(axis).add(base, -1), ls, dims)
        zero = isl.Aff.zero_on_domain(ls)
        box = box.intersect(lifted).intersect(inside.ge_set(zero))
        last = Affine.variable(axis).add(base, -1).add(extent, -1).add(Affine((), 1))
        box = box.intersect(form_to_aff(last, ls, dims).le_set(zero))
    domain = exact if plan.bounding_box is False else box
    return Footprint(outer, tuple(bases), tuple(extents), domain, is_exact)


def _never_used(plan: Plan, use: Use) -> Diagnostic:
    return Diagnostic(
        "not-used",
        f"no instance reads '{plan.source}' inside the swept loops",
        ("the domains and the conditions around the uses leave no instance",),
        ("there is nothing to compute ahead",),
        sites=(use.instruction.site(),),
    )


def _interval(plan: Plan, flat: isl.Set, dims: Sequence[str]) -> tuple[Affine, Affine] | None:
    """Return first element and extent of an axis; the extent may depend on parameters in global memory alone."""
    constant = bounding_interval(flat, len(dims) - 1, dims)
    if constant is not None:
        return constant[0], Affine((), constant[1])
    if plan.temporary.address_space == AddressSpace.GLOBAL.value:
        return parametric_interval(flat, len(dims) - 1, dims)
    return None


def stage(kernel: LoopKernel, plan: Plan) -> LoopKernel:
    """Return *kernel* with the plan carried out; its arguments have been checked."""
    if plan.temporary.axes is not None and plan.bounding_box is None:
        plan = replace(plan, bounding_box=False)
    target = _found(kernel, plan, target_of(kernel, plan, [u for u in uses_of(kernel, plan) if isinstance(u, Use)]))
    outer = loops_around(kernel, plan, target)
    if plan.subscripts:  # these say which elements: uses in other loops than the copy are none of them
        within = tuple(use for use in target.uses if set(outer) <= set(use.inames))
        target = replace(target, uses=within or _found(kernel, plan, _outside(plan)))
    footprint = _found(kernel, plan, _footprint(kernel, plan, target.uses, outer))
    if plan.bounding_box is None and _may_fail_beside(kernel, plan, target, outer, footprint):
        return stage(kernel, replace(plan, bounding_box=False))
    if plan.subscripts:
        target = replace(target, uses=_inside(kernel, plan, target.uses, outer, footprint))
    uses = target.uses
    rank = len(footprint.bases)
    new = plan.filling.inames or tuple(
        kernel.fresh(f"{plan.source}_dim_{number}") for number in range(rank)
    )
    _found(kernel, plan, _around_itself(plan, footprint, new))
    instruction = _new_instruction(kernel, plan, footprint, new, target)
    if plan.filling.reuses_loops(kernel):
        _found(kernel, plan, _too_short(kernel, instruction, new))
    if bounds := _bounds_of(kernel, instruction):
        _found(kernel, plan, data_footprint(plan.source, bounds, uses[0].instruction))
    result = _with_instruction(kernel, plan, footprint, new, instruction, target)
    result = outside_of_loops(result, instruction.id, footprint.outer)
    checked = not footprint.is_exact or plan.is_rule or plan.subscripts or any(use.guarded for use in uses)
    if checked and (outside := out_of_bounds(kernel, result, instruction)) is not None:
        if plan.bounding_box is None:
            return stage(kernel, replace(plan, bounding_box=False))
        _found(kernel, plan, outside)
    around = [iname for iname in footprint.outer if axis_name(kernel.tag(iname)) is None]
    inside = [x for x in plan.sweep if x not in footprint.outer and axis_name(kernel.tag(x)) is None]
    result = add_priority(result, [(*around, iname) for iname in inside]) if around else result
    return infer_dtypes(assign_auto(_tagged(result, plan, target, footprint, new)))


def _may_fail_beside(
    kernel: LoopKernel, plan: Plan, target: Target, outer: tuple[str, ...], box: Footprint
) -> bool:
    """Return True if the *box* around the values used has others beside them, which may fail."""
    if not plan.is_rule or not may_fail_in(kernel, kernel.substitutions[plan.source].value):
        return False
    exact = _found(kernel, plan, _footprint(kernel, replace(plan, bounding_box=False), target.uses, outer))
    return not box.domain.is_subset(exact.domain)


_T = TypeVar("_T")


def _found(kernel: LoopKernel, plan: Plan, result: _T | Diagnostic) -> _T:
    """Return *result*, raised as an error if it is a diagnostic."""
    if isinstance(result, Diagnostic):
        raise TransformError(plan.caller, kernel.name, [result])
    return result


def _tagged(
    kernel: LoopKernel, plan: Plan, target: Target, footprint: Footprint, new: tuple[str, ...]
) -> LoopKernel:
    """Return *kernel* with tags for the inames *new*."""
    is_constant = not any(extent.terms for extent in footprint.extents)
    if plan.filling.reuses_loops(kernel):
        return kernel
    if plan.filling.tag is not None and (is_constant or plan.filling.tag != "l.auto"):
        tag = parse_tag(plan.filling.tag)
        assert tag is not None, f"tag {plan.filling.tag} was not checked"
        kernel = replace(kernel, iname_tags={**kernel.iname_tags, **dict.fromkeys(new, tag)})
    if components := tuple(_components(kernel, plan, target, new)):
        kernel = replace(kernel, iname_tags={**kernel.iname_tags, **dict.fromkeys(components, Unroll())})
    if plan.filling.vec is None:
        return kernel
    return _found(kernel, plan, vectorized(kernel, plan, target, footprint.extents, new))


def _components(kernel: LoopKernel, plan: Plan, target: Target, new: Sequence[str]) -> Iterator[str]:
    """Yield the new inames that run over vector components or separate arguments."""
    source = kernel.arrays().get(plan.source)
    if isinstance(source, ArrayArg):
        for axis in apart_axes(source.dim_tags):
            for name, iname in zip(target.names, new, strict=True):
                if name in target.elements[axis].names():
                    yield iname


def _around_itself(plan: Plan, footprint: Footprint, inames: Sequence[str]) -> Diagnostic | None:
    """Return ``name-taken`` if one of *inames* is an outer loop of the footprint already."""
    for iname in inames:
        if iname in footprint.outer:
            return Diagnostic(
                "name-taken",
                f"iname '{iname}' is a loop around what is computed ahead, and cannot run over its values as well",
                hints=(f"sweep '{iname}', so that it is no loop around it, or give a new name",),
            )
    return None


def _too_short(kernel: LoopKernel, instruction: Instruction, inames: Sequence[str]) -> Diagnostic | None:
    """Return ``inames-too-short`` if existing *inames* lack a value that *instruction* needs."""
    known = domain_for(kernel.domains, instruction.inames, parameter_space(kernel.parameters))
    needed = instruction.domain.intersect_params(kernel.assumptions)
    if needed.is_subset(known):
        return None
    point = sample_set(needed.subtract(known), instruction.inames)
    shown = "" if point is None else ", ".join(f"{name}={value}" for name, value in point.items())
    return Diagnostic(
        "inames-too-short",
        f"the loops over {', '.join(map(repr, inames))} do not have all values that are to be computed",
        (f"for example ({shown})",),
        ("give names for new inames, or leave out precompute_inames",),
    )


def _outside(plan: Plan) -> Diagnostic:
    return Diagnostic(
        "not-used",
        f"no use of '{plan.source}' inside the swept loops stays in the footprint that was given",
        hints=("leave out footprint_subscripts, or give subscripts that cover those of a use",),
    )


def out_of_bounds(before: LoopKernel, after: LoopKernel, instruction: Instruction) -> Diagnostic | None:
    """Return ``out-of-bounds`` if the new *instruction* may leave an array, otherwise None."""
    for finding in bounds_violations(after):
        return finding
    known = before.assumptions
    for condition in before.conditions:
        known = known.intersect(condition.set)
    for condition in bounds_conditions(after):
        if condition.instruction == instruction.id and not known.is_subset(condition.set):
            return Diagnostic(
                "out-of-bounds",
                f"elements outside of {condition.array} would be fetched or computed ahead",
                (f"{condition.access} stays inside only where {condition.needs}",),
                ("leave the accesses under conditions out of the sweep, or state what holds with assumptions=",),
                sites=(instruction.site(),),
            )
    return None


def _bounds_of(kernel: LoopKernel, instruction: Instruction) -> frozenset[str]:
    """Return the bound variables that the loops and reductions of *instruction* use."""
    sets = (instruction.domain, *(term.domain for term in instruction.terms))
    return frozenset(name for used in sets for name in bound_variables(used, kernel.parameters))


def data_footprint(source: str, bounds: Iterable[str], instruction: Instruction) -> Diagnostic:
    """Return ``footprint-not-constant`` for an access of *source* inside loops with data-dependent bounds."""
    names = ", ".join(repr(name) for name in sorted(bounds))
    return Diagnostic(
        "footprint-not-constant",
        f"data decides which elements of '{source}' are used",
        (f"a loop around it is bounded by {names}, which the kernel computes",),
        ("leave it where it is: only accesses with a fixed footprint can be fetched or computed ahead",),
        sites=(instruction.site(),),
    )


def shifted(footprint: Footprint, new: tuple[str, ...]) -> isl.Set:
    """Return the footprint over the outer inames and zero-based new ones."""
    axes = [f"x{number}'" for number in range(len(new))]
    dims = (*footprint.outer, *axes)
    forms = [Affine.variable(name) for name in footprint.outer]
    forms += [Affine.variable(axis).add(base, -1) for axis, base in zip(axes, footprint.bases, strict=True)]
    whole = isl.Set.universe(footprint.domain.get_space())
    domain = map_from_forms(whole, dims, forms).intersect_domain(footprint.domain).range()
    names = (*footprint.outer, *new)
    for position, name in enumerate(names):
        domain = domain.set_dim_name(_SET, position, name)
    rows = [Row(Affine.variable(name)) for name in new]
    rows += [Row(extent.add(Affine(((name, 1),), 1), -1)) for name, extent in zip(new, footprint.extents, strict=True)]
    return add_rows(domain, names, rows).coalesce()


def _reduction_forms(
    kernel: LoopKernel, bound: set[str], uses: Sequence[Use], footprint: Footprint, new: Sequence[str]
) -> dict[str, Affine]:
    """Return inames of the reference program as affine forms of the present ones, for the new instruction.

    Those of reductions are *bound* and, where only a part of a reduction is staged, inames of the new instruction.
    Others are known where the loops around it, or its arguments, tell.
    """
    forms = {name: Affine.variable(name) for name in sorted(bound)}
    known = {*bound, *kernel.parameters, *footprint.outer, *new}
    doubtful: set[str] = set()
    for use in uses:
        origin = use.instruction.origin
        if not isinstance(origin, Copy | Evaluation):
            continue
        around = _solved(use, footprint, new)
        for name, form in origin.forms.items():
            found = form.substitute(around)
            if found.names() <= known:
                if name not in bound and forms.get(name, found) != found:
                    doubtful.add(name)
                forms[name] = found
    return {name: form for name, form in forms.items() if name not in doubtful}


def _solved(use: Use, footprint: Footprint, new: Sequence[str]) -> dict[str, Affine]:
    """Return inames of a use as affine forms of those of the new instruction, where its arguments determine them."""
    found: dict[str, Affine] = {}
    for argument, base, name in zip(use.arguments, footprint.bases, new, strict=True):
        left = [x for x in argument.names() & {*use.inames} if x not in footprint.outer]
        if len(left) == 1 and abs(argument.coefficient(left[0])) == 1:
            sign = argument.coefficient(left[0])
            rest = argument.add(Affine.variable(left[0]), -sign)
            if left[0] not in rest.names():
                found[left[0]] = base.add(Affine.variable(name)).add(rest, -1).scale(sign)
    return found


def _blocks_around(kernel: LoopKernel, use: Use) -> Iterable[tuple[str, int]]:
    """Return the written ``for`` block of each loop around a use, also where a reduction shares a loop (rule 4)."""
    blocks = dict(use.instruction.blocks)
    reads = {name for name in use.instruction.reads if name in kernel.temporaries and name not in kernel.evaluations}
    if reads and not set(use.inames) <= set(use.instruction.inames):
        for statement in lower(kernel).statements.values():
            if statement.instruction is use.instruction and set(statement.inames) <= set(use.inames):
                blocks.update((iname, number) for iname, number in statement.joined.items() if number is not None)
    return blocks.items()


def _new_instruction(
    kernel: LoopKernel, plan: Plan, footprint: Footprint, new: tuple[str, ...], target: Target
) -> Instruction:
    uses = target.uses
    positions = [base.add(Affine.variable(name)) for base, name in zip(footprint.bases, new, strict=True)]
    known = dict(zip(target.names, positions, strict=True))
    elements = [to_expression(form.substitute(known)) for form in target.elements]
    if plan.is_rule:
        expression = kernel.substitutions[plan.source].over(elements)
    elif elements:
        expression = p.Subscript(p.Variable(plan.source), elements[0] if len(elements) == 1 else tuple(elements))
    else:
        expression = p.Variable(plan.source)
    inames = (*footprint.outer, *new)
    domain = shifted(footprint, new)
    expanded = expand_rules(expression, kernel.substitutions)
    space = parameter_space(kernel.parameters)
    terms = term_domains((*kernel.domains, new_domain(footprint, new, domain)), inames, domain, expanded, space)
    if plan.is_rule:
        terms = tuple(_as_used(term, number, footprint, inames, uses) for number, term in enumerate(terms))
    blocks = tuple(entry for entry in _blocks_around(kernel, uses[0]) if entry[0] in footprint.outer)
    bound = {iname for term in terms for iname in term.inames}
    return Instruction(
        id=plan.filling.id,
        inames=inames,
        domain=domain,
        assignee=subscripted(plan.temporary.name, [p.Variable(name) for name in new]),
        expression=expression,
        origin=Evaluation(plan.source, _reduction_forms(kernel, bound - set(inames), uses, footprint, new)),
        terms=terms,
        blocks=blocks,
        reads=variables(expanded) - bound - set(inames),
    )


def _as_used(term: Term, number: int, footprint: Footprint, inames: tuple[str, ...], uses: Sequence[Use]) -> Term:
    """Return the iteration domain of reduction *number* in a rule's value, restricted to the terms at its uses.

    The domains of the kernel tell what they are; where a part of a reduction is staged, its own inames alone do not.
    """
    own = term.inames[len(inames) :]
    found: isl.Set | None = None
    for use in uses:
        inside = use.terms[number]
        forms = [Affine.variable(name) for name in footprint.outer]
        forms += [argument.add(base, -1) for argument, base in zip(use.arguments, footprint.bases, strict=True)]
        forms += [Affine.variable(name) for name in own]
        image = map_from_forms(inside.domain, inside.inames, forms).range()
        found = image if found is None else found.union(image)
    assert found is not None, "what is staged is used somewhere"
    for position, name in enumerate(term.inames):
        found = found.set_dim_name(_SET, position, name)
    used = project_onto(found, term.inames, inames)
    if term.domain.intersect(used.insert_dims(_SET, len(inames), len(own))).is_equal(found):
        return term
    return Term(term.inames, found.coalesce())


def new_domain(footprint: Footprint, new: tuple[str, ...], domain: isl.Set) -> Domain:
    """Return the domain of the new inames, with the outer inames as parameters."""
    count = len(footprint.outer)
    return Domain(new, domain.move_dims(_PARAM, domain.dim(_PARAM), _SET, 0, count) if count else domain)


def subscripted(name: str, indices: Sequence[Expression]) -> Expression:
    """Return an element of an array, or a scalar if there are no indices."""
    if not indices:
        return p.Variable(name)
    return p.Subscript(p.Variable(name), indices[0] if len(indices) == 1 else tuple(indices))


def _with_instruction(
    kernel: LoopKernel, plan: Plan, footprint: Footprint, new: tuple[str, ...], instruction: Instruction, target: Target
) -> LoopKernel:
    users = {use.instruction.id for use in target.uses}
    accepted = {use.arguments for use in target.uses}
    dims = (*footprint.outer, *(str(number) for number in range(len(new))))
    around = project_onto(footprint.domain, dims, footprint.outer)

    def staged(arguments: Sequence[Expression], known: bool = False) -> Expression | None:
        forms = []
        for argument in arguments:
            form = affine_of(argument)
            assert form is not None, "a use was not affine"
            forms.append(form)
        if plan.temporary.axes is not None:
            forms = [Affine.variable(name) for name in target.names]
        elif plan.subscripts and not known and tuple(forms) not in accepted:
            return None
        offsets = (form.add(base, -1) for form, base in zip(forms, footprint.bases, strict=True))
        indices = [to_expression(without_constant_part(form, around, footprint.outer)) for form in offsets]
        return subscripted(plan.temporary.name, indices)

    rules = redirected_rules(kernel, plan, lambda arguments: staged(arguments, known=True), len(target.uses))
    new_rules = kernel if rules is None else replace(kernel, substitutions=rules)
    instructions: list[Instruction] = []
    placed = False
    for old in kernel.instructions:
        if old.id in users:
            if not placed:
                instructions.append(instruction)
                placed = True
            expanded = expanded_to(kernel, old.expression, plan.source) if rules is None else old.expression
            instructions.append(redirected(kernel, replace(old, expression=expanded), plan, staged, new_rules))
        else:
            instructions.append(old)
    shape = tuple(to_expression(extent) if extent.terms else extent.const for extent in footprint.extents)
    name, dtype = plan.temporary.name, None if plan.is_rule else kernel.arrays()[plan.source].dtype
    more = () if plan.filling.reuses_loops(kernel) else (new_domain(footprint, new, instruction.domain),)
    assert any(name in each.reads for each in instructions), f"nothing reads '{name}'"
    return replace(
        kernel,
        domains=(*kernel.domains, *more),
        instructions=tuple(instructions),
        temporaries={**kernel.temporaries, name: plan.temporary.declared(shape, dtype)},
        evaluations={**kernel.evaluations, name: plan.filling.id},
        substitutions=new_rules.substitutions,
    )
