"""The domains of a kernel as one forest: the set of any group of inames, and affine conditions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import islpy as isl
import pymbolic.primitives as p

from polyloop.expr.nodes import Expression
from polyloop.frozen import replace
from polyloop.kernel.instruction import Instruction, Term
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.memo import Same, memoised
from polyloop.poly.affine import Affine, affine_in, affine_of
from polyloop.poly.ranges import related_range
from polyloop.poly.sets import Row, add_rows, constant_bounds, rows_of, settled

__all__ = [
    "align",
    "assumed",
    "bound_variables",
    "condition_set",
    "data_inames",
    "domain_for",
    "fixed_set",
    "iname_range",
    "outer_inames",
    "parameters_of",
    "substitute_iname",
    "without_bound_variables",
]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param


def parameters_of(domain: isl.Set) -> tuple[str, ...]:
    """Return the parameter names of *domain* in its order."""
    return tuple(domain.get_dim_name(_PARAM, i) or "" for i in range(domain.dim(_PARAM)))


def outer_inames(domains: Sequence[Domain]) -> dict[str, frozenset[str]]:
    """Return iname -> inames of other domains that its bounds use."""
    everyone = {iname for domain in domains for iname in domain.inames}
    found = {}
    for domain in domains:
        uses = _parameters(domain) & everyone
        found.update(dict.fromkeys(domain.inames, uses))
    return found


@memoised
def _parameters(domain: Domain) -> frozenset[str]:
    return frozenset(parameters_of(domain.set))


def bound_variables(domain: isl.Set, known: Iterable[str]) -> tuple[str, ...]:
    """Return the scalar temporaries in the bounds of *domain*: its parameters other than *known*."""
    return tuple(
        name
        for position, name in enumerate(parameters_of(domain))
        if name not in known and domain.involves_dims(_PARAM, position, 1)
    )


def without_bound_variables(domain: isl.Set, known: Iterable[str]) -> isl.Set:
    """Return every point that *domain* has for some values of its bound variables."""
    for position, name in reversed(list(enumerate(parameters_of(domain)))):
        if name not in known:
            domain = domain.project_out(_PARAM, position, 1)
    return domain


@memoised
def assumed(domain: isl.Set, assumptions: isl.Set) -> isl.Set:
    """Return *domain* under *assumptions*, as one shared set for all statements with this domain."""
    return domain.intersect_params(assumptions)


@memoised
def iname_range(kernel: LoopKernel, iname: str) -> tuple[int | None, int | None]:
    """Return the least and the greatest value of *iname* in any instance, None where parameters decide.

    They are 0 and 0 if there is no instance.  What is asked are the instances themselves: a domain of the kernel may
    have none where another one of its inames has no value.  The values of that domain count too: where a condition
    keeps some of them from an instruction, a loop over lanes or threads has them nevertheless.
    """
    nests = [(i.inames, i.domain) for i in kernel.instructions]
    nests += [(term.inames, term.domain) for i in kernel.instructions for term in i.terms]
    used = [(domain, inames.index(iname)) for inames, domain in nests if iname in inames]
    home = next(domain for domain in kernel.domains if iname in domain.inames)
    is_free = _parameters(home).isdisjoint(kernel.inames)
    whole = [(home.set, home.inames.index(iname))] if is_free else []
    found = [_range_in(domain, position, kernel.assumptions) for domain, position in (*used, *whole)]
    if not used or not is_free:  # where other inames bound it their values count, as they do in one domain of both
        pieces = tuple(map(Same, _around(kernel.domains, (iname,))))
        found.append(_range_of(home, pieces, iname, kernel.assumptions))
    ends = [range_ for range_ in found if range_ is not None] or [(0, 0)]
    lows, highs = [low for low, _ in ends], [high for _, high in ends]
    return _if_known(min, lows), _if_known(max, highs)


def _if_known(end: Callable[[Iterable[int]], int], values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return end(known) if len(known) == len(values) else None


@memoised
def _range_of(
    home: Domain, pieces: tuple[Same[Domain], ...], iname: str, assumptions: isl.Set
) -> tuple[int | None, int | None] | None:
    """Return the range of *iname* in the joint domain of all inames that bound it, kept with its own domain."""
    del home
    joint = _joint([piece.value for piece in pieces], (iname,))
    assert joint is not None, f"'{iname}' has a domain"
    position = joint.find_dim_by_name(_PARAM, iname)
    return _range_in(joint.from_params().move_dims(_SET, 0, _PARAM, position, 1), 0, assumptions)


@memoised
def _range_in(domain: isl.Set, position: int, assumptions: isl.Set) -> tuple[int | None, int | None] | None:
    """Return the least and the greatest value of a dimension, None if the set is empty."""
    within = assumed(domain, assumptions)
    ends = constant_bounds(within, position)
    return None if ends == (None, None) and within.is_empty() else ends


@memoised
def data_inames(kernel: LoopKernel) -> frozenset[str]:
    """Return the inames with data-dependent bounds, directly or through other inames.

    A domain that a transform has made of others may have the names of inames that are gone: no data decides on them.
    """
    domains = kernel.domains
    known = {iname for domain in domains for iname in domain.inames}.union(kernel.parameters)
    data = frozenset[str]().union(*map(_parameters, domains)).intersection(kernel.temporaries) - known
    if not data:
        return frozenset()
    constraints = [
        (row.form.names(), frozenset(domain.inames))
        for domain in domains
        for basic in domain.set.compute_divs().get_basic_sets()
        for row in rows_of(basic, domain.inames)
    ]
    found: set[str] = set()
    while more := {
        iname
        for names, own in constraints
        if not names.isdisjoint(data) or not names.isdisjoint(found)
        for iname in names & own
    } - found:
        found |= more
    return frozenset(found)


def align(domain: isl.Set, space: isl.Set) -> isl.Set:
    """Return *domain* with the parameters of *space*, in that order."""
    return domain.align_params(space.get_space())


def _bounding(domains: Sequence[Domain], inames: Sequence[str]) -> set[str]:
    """Return *inames* that have a domain, and those that bound them, directly or through others."""
    home = {iname: domain for domain in domains for iname in domain.inames}
    wanted = {iname for iname in inames if iname in home}
    while True:
        more = {x for iname in wanted for x in _parameters(home[iname]) if x in home} - wanted
        if not more:
            return wanted
        wanted |= more


def _around(domains: Sequence[Domain], inames: Sequence[str]) -> list[Domain]:
    """Return the domains of *inames*, and of those that bound them."""
    wanted = _bounding(domains, inames)
    return [domain for domain in domains if not wanted.isdisjoint(domain.inames)]


def _joint(domains: Sequence[Domain], inames: Sequence[str]) -> isl.Set | None:
    """Return the constraints on *inames* and on those that bound them, which are parameters; None if there are none."""
    wanted = _bounding(domains, inames)
    joint: isl.Set | None = None
    for domain in _around(domains, inames):
        part, kept = domain.set, frozenset(wanted.intersection(domain.inames))
        if len(kept) < len(domain.inames):
            part = related_range(part, domain.inames, kept)
        count = len(domain.inames)
        part = part.move_dims(_PARAM, part.dim(_PARAM), _SET, 0, count).params()
        joint = part if joint is None else joint.intersect(part)
    return joint


def domain_for(domains: Sequence[Domain], inames: Sequence[str], space: isl.Set) -> isl.Set:
    """Return the iteration domain of a nest over *inames*, in that order, from the forest of *domains*.

    Inames that are not asked for but bound those that are get projected out; whether others have a value at all does
    not matter.
    """
    joint = _joint(domains, inames)
    if joint is None:
        joint = space
    for iname in {x for domain in _around(domains, inames) for x in domain.inames}.difference(inames):
        position = joint.find_dim_by_name(_PARAM, iname)
        if position >= 0:
            joint = joint.project_out(_PARAM, position, 1)
    result = joint.from_params()
    for place, iname in enumerate(inames):
        position = result.find_dim_by_name(_PARAM, iname)
        assert position >= 0, f"iname '{iname}' is in no domain"
        result = result.move_dims(_SET, place, _PARAM, position, 1).set_dim_name(_SET, place, iname)
    return align(result, space)


def fixed_set(domain: isl.Set, fixed: Mapping[str, int]) -> isl.Set:
    """Return *domain* with parameters replaced by numbers."""
    for parameter, value in fixed.items():
        position = domain.find_dim_by_name(_PARAM, parameter)
        if position >= 0:
            domain = domain.fix_val(_PARAM, position, value).project_out(_PARAM, position, 1)
    return domain


def substitute_iname(domain: isl.Set, position: int, names: Sequence[str], form: Affine, box: Iterable[Row]) -> isl.Set:
    """Replace dimension *position* by new ones called *names*, where the old one equals *form*.

    *box* are further constraints over the new names.
    """
    old = domain.get_dim_name(_SET, position) or ""
    domain = domain.insert_dims(_SET, position, len(names))
    for offset, name in enumerate(names):
        domain = domain.set_dim_name(_SET, position + offset, name)
    dims = [domain.get_dim_name(_SET, i) or "" for i in range(domain.dim(_SET))]
    dims[position + len(names)] = old
    equation = Row(form.add(Affine.variable(old), -1), True)
    domain = add_rows(domain, dims, [equation, *box])
    return domain.project_out(_SET, position + len(names), 1)


_NEGATED: Mapping[str, str] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def condition_set(
    expr: Expression, domain: isl.Set, dims: Sequence[str], negate: bool = False, known: Collection[str] | None = None
) -> isl.Set | None:
    """Return the part of *domain* where *expr* holds, or None if it is not affine in *known*.

    These are *dims* and the parameters of *domain* unless given.  An integer by itself holds where it is not 0.
    """
    known = {*dims, *parameters_of(domain)} if known is None else known
    match expr:
        case p.Comparison():
            return _comparison(expr, domain, dims, negate, known)
        case p.LogicalNot():
            return condition_set(expr.child, domain, dims, not negate, known)
        case p.LogicalAnd() | p.LogicalOr():
            parts = [condition_set(child, domain, dims, negate, known) for child in expr.children]
            if any(part is None for part in parts):
                return None
            result = parts[0]
            assert result is not None
            conjunction = isinstance(expr, p.LogicalAnd) != negate
            for part in parts[1:]:
                assert part is not None
                result = result.intersect(part) if conjunction else result.union(part)
            return result
        case _ if affine_of(expr) is not None:
            return _comparison(p.Comparison(expr, "!=", 0), domain, dims, negate, known)
        case _:
            return None


def _comparison(
    expr: p.Comparison, domain: isl.Set, dims: Sequence[str], negate: bool, known: Collection[str]
) -> isl.Set | None:
    left, right = affine_in(expr.left, known), affine_in(expr.right, known)
    if left is None or right is None or not (left.names() | right.names()) <= set(known):
        return None
    operator = str(getattr(expr.operator, "value", expr.operator))
    operator = _NEGATED[operator] if negate else operator
    difference = left.add(right, -1)
    match operator:
        case "<":
            rows = [[Row(difference.scale(-1).add(Affine((), -1)))]]
        case "<=":
            rows = [[Row(difference.scale(-1))]]
        case ">":
            rows = [[Row(difference.add(Affine((), -1)))]]
        case ">=":
            rows = [[Row(difference)]]
        case "==":
            rows = [[Row(difference, True)]]
        case _:
            assert operator == "!=", operator
            rows = [[Row(difference.add(Affine((), -1)))], [Row(difference.scale(-1).add(Affine((), -1)))]]
    parts = [add_rows(domain, dims, row) for row in rows]
    return parts[0] if len(parts) == 1 else parts[0].union(parts[1])


def with_settled_sets(kernel: LoopKernel, before: LoopKernel | None = None) -> LoopKernel:
    """Return *kernel* with sets in a state that no question changes (:func:`settled`), but for those of *before*.

    What is computed of a set depends on how it is written, and a question may write it anew.  All that is computed of a
    kernel begins with its sets, so it does not depend on what was asked about the kernel before.
    """
    found = {} if before is None else {Same(domain): domain for domain in _sets(before)}

    def stable(domain: isl.Set) -> isl.Set:
        known = found.get(Same(domain))
        if known is None:
            known = settled(domain)
            known = found[Same(domain)] = domain if domain.plain_is_equal(known) else known
        return known

    def term(old: Term) -> Term:
        domain = stable(old.domain)
        return old if domain is old.domain else replace(old, domain=domain)

    def instruction(old: Instruction) -> Instruction:
        domain, terms = stable(old.domain), tuple([term(part) for part in old.terms])
        if domain is old.domain and all(new is part for new, part in zip(terms, old.terms, strict=True)):
            return old
        return replace(old, domain=domain, terms=terms)

    def piece(old: Domain) -> Domain:
        domain = stable(old.set)
        return old if domain is old.set else replace(old, set=domain)

    instructions = tuple([instruction(old) for old in kernel.instructions])
    domains = tuple([piece(old) for old in kernel.domains])
    same = zip((*instructions, *domains), (*kernel.instructions, *kernel.domains), strict=True)
    if all(new is old for new, old in same):
        return kernel
    return replace(kernel, instructions=instructions, domains=domains)


def _sets(kernel: LoopKernel) -> Iterator[isl.Set]:
    """Yield the sets of *kernel*."""
    for instruction in kernel.instructions:
        yield instruction.domain
        yield from (term.domain for term in instruction.terms)
    yield from (piece.set for piece in kernel.domains)
