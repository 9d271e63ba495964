"""Scan recognition: reductions in which each result has the terms of the preceding result and some new ones.

It depends on the domains alone.  The counterexample, if there is one, is a pair of results and a term.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import islpy as isl

from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression, Reduction
from polyloop.expr.rewrite import children, rebuild, reductions, variables
from polyloop.expr.rules import expand_rules
from polyloop.kernel.domains import bound_variables
from polyloop.kernel.instruction import Evaluation, Instruction, Partial, Term
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.kernel.tags import LocalAxis, parse_tag
from polyloop.poly.affine import Affine
from polyloop.poly.sets import constant_bounds, lex_relation, map_from_forms, reorder, sample_pair
from polyloop.program.conditions import may_fail, with_conditions

__all__ = ["Scan", "carried_violations", "find_scans", "replace_reduction"]


@dataclass(frozen=True, eq=False)
class Scan:
    """A reduction in which each result can be computed from the preceding one.

    Attributes
    ----------
    number
        The number of the reduction in its instruction.
    sweep
        The iname of the results: each has the terms of the result before it.
    new
        ``{ result -> term }``: the terms that no result before it has.
    terms
        ``{ result -> term }``: all of them.
    shift
        The index of the new term minus the index of the result, if that is one constant, else None.
    """

    instruction: Instruction
    number: int
    reduction: Reduction
    sweep: str
    new: isl.Map
    terms: isl.Map
    shift: int | None
    is_exclusive: bool
    """True if the new term of each result has the index of the result before it."""
    may_fail: bool
    """True if a term may fail where the program does not evaluate it."""

    @property
    def term(self) -> Term:
        """The domain of the reduction."""
        return self.instruction.terms[self.number]

    @property
    def others(self) -> tuple[str, ...]:
        """Loops of the instruction besides the one over the results."""
        return tuple(name for name in self.instruction.inames if name != self.sweep)


@memoised
def find_scans(kernel: LoopKernel, instruction: Instruction, sweep: str | None = None) -> list[Scan | Diagnostic]:
    """Return, for each reduction of *instruction*, a scan (along *sweep*), or the diagnostic that it is none."""
    found: list[Scan | Diagnostic] = []
    for number, reduction in enumerate(reductions(with_conditions(kernel, instruction))):
        candidates = instruction.inames if sweep is None else (sweep,)
        answers = [_scan_along(kernel, instruction, number, reduction, name) for name in reversed(candidates)]
        scans = [answer for answer in answers if isinstance(answer, Scan)]
        if scans or answers:
            found.append((scans or answers)[0])
        else:
            found.append(_none(instruction, None, "there is no loop over results"))
    return found


def _scan_along(
    kernel: LoopKernel, instruction: Instruction, number: int, reduction: Reduction, sweep: str
) -> Scan | Diagnostic:
    """Return reduction *number* of an instruction as a scan along *sweep*, or a diagnostic that says why it is none.

    It is a scan if each result has all terms of the results before it (``earlier``), and some result has a new one; one
    result is a scan of length 1 if it has one term.
    """
    term = instruction.terms[number]
    own = term.inames[len(instruction.inames) :]
    if (why := _hindrance(kernel, instruction, number, reduction, sweep)) is not None:
        return _none(instruction, sweep, why)
    inames = instruction.inames
    position = inames.index(sweep)
    results = instruction.domain.intersect_params(kernel.assumptions)
    equal = [(n, n) for n in range(len(inames)) if n != position]
    later = lex_relation(results.get_space().map_from_set(), equal, (position, position))
    before = later.intersect_domain(results).intersect_range(results).reverse()
    terms = _relation(term.domain.intersect_params(kernel.assumptions), term.inames, inames, own)
    earlier = before.apply_range(terms)
    lost = earlier.subtract(terms)
    if not lost.is_empty():
        return _lost(instruction, sweep, own, before, (terms, lost))
    new = terms.subtract(earlier).coalesce()
    is_one_term = before.is_empty() and not new.is_empty() and new.is_single_valued()
    if not is_one_term and new.intersect_domain(before.domain()).is_empty():
        return _none(instruction, sweep, "each result has the terms of the one before it, and no more")
    if reduction.operation.ordered:
        late = new.reverse().apply_range(earlier)
        disorder = late.intersect(isl.Map.lex_le(late.range().get_space()))
        if not disorder.is_empty():
            found = sample_pair(disorder, own, own)
            assert found is not None, "terms were found in another order"
            why = f"term {_shown(found[1])} is new in a result after one that has term {_shown(found[2])} already"
            return _none(instruction, sweep, f"its terms are combined in their order, and {why}")
    shift = _shift(new, inames, own, position)
    is_exclusive = shift == -1 and bool(new.domain().is_subset(before.domain()))
    risky = may_fail(kernel, reduction.expr)
    return Scan(instruction, number, reduction, sweep, new, terms, shift, is_exclusive, risky)


def _hindrance(
    kernel: LoopKernel, instruction: Instruction, number: int, reduction: Reduction, sweep: str
) -> str | None:
    """Return the reason why a reduction is no scan along *sweep*, for any terms; None if there is no such reason."""
    term = instruction.terms[number]
    own = term.inames[len(instruction.inames) :]
    if sweep not in instruction.inames:
        return f"'{instruction.id}' has no loop over '{sweep}'"
    if reduction.along:
        return "it has been realized as a scan already"
    is_stage = reduction.operation.of_states and not isinstance(instruction.origin, Partial)
    if own != reduction.inames or reductions(reduction.expr) or is_stage:
        return "it stands inside of another reduction, or has one inside"
    ahead = (i for i in kernel.instructions if isinstance(i.origin, Evaluation))
    inside = next((i.id for i in ahead if not set(own).isdisjoint(i.inames)), None)
    if inside is not None:
        return f"'{inside}' runs inside of its loop over {', '.join(own)}"
    if sweep in variables(reduction.expr):
        plain = reductions(expand_rules(instruction.expression, kernel.substitutions))[number]
        if sweep not in variables(plain.expr):
            return f"its terms may fail where a condition that uses '{sweep}' does not hold"
        return f"its terms use '{sweep}': no result shares terms with another one"
    if bound_variables(term.domain, (*kernel.parameters, *term.inames)):
        return "data decides which terms it has"
    return None


def _relation(domain: isl.Set, dims: Sequence[str], inames: Sequence[str], own: Sequence[str]) -> isl.Map:
    """Return ``{ result -> term }`` of a set over *dims*, which are *inames* and *own*."""
    results = map_from_forms(domain, dims, [Affine.variable(name) for name in inames])
    return results.reverse().apply_range(map_from_forms(domain, dims, [Affine.variable(name) for name in own]))


def _shift(new: isl.Map, inames: Sequence[str], own: Sequence[str], position: int) -> int | None:
    """Return the index of the new term minus the index of its result, None unless that is one constant."""
    if len(own) != 1:
        return None
    dims = (*inames, *own)
    flat = reorder(new.wrap().flatten(), dims, dims)
    form = Affine.variable(own[0]).add(Affine.variable(inames[position]), -1)
    low, high = constant_bounds(map_from_forms(flat, dims, [form]).range(), 0)
    return low if low == high else None


def _shown(values: dict[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _none(instruction: Instruction, sweep: str | None, why: str, *notes: str) -> Diagnostic:
    along = "" if sweep is None else f" along '{sweep}'"
    return Diagnostic(
        "not-a-scan",
        f"the reduction in '{instruction.id}' is no scan{along}",
        (why, *notes),
        ("a scan is b[i] = sum(j, a[j]) where 0 <= j <= i: each result has the terms of the one before it, and more",),
        sites=(instruction.site(),),
    )


def _lost(
    instruction: Instruction, sweep: str, own: Sequence[str], before: isl.Map, found: tuple[isl.Map, isl.Map]
) -> Diagnostic:
    """Return the diagnostic for a result that lacks a term of an earlier one.

    Parameters
    ----------
    before
        ``{ result -> earlier result }``.
    found
        ``{ result -> term }`` of all terms, and of the missing ones.
    """
    terms, lost = found
    values = sample_pair(lost, instruction.inames, own)
    assert values is not None, "a term was found lost"
    parameters, late, term = values
    point = isl.Map.from_domain_and_range(*_points(lost, values, instruction.inames, own))
    early = sample_pair(before.intersect_domain(point.domain()).intersect_range(
        terms.intersect_range(point.range()).domain()), instruction.inames, instruction.inames)
    assert early is not None, "an earlier result has the term"
    sizes = f" with {_shown(parameters)}" if parameters else ""
    return _none(
        instruction, sweep,
        f"instance ({_shown(early[2])}) has the term {_shown(term)}, and instance ({_shown(late)}) has not{sizes}",
    )  # fmt: skip


def _points(
    relation: isl.Map, values: tuple[dict[str, int], dict[str, int], dict[str, int]], first: Sequence[str],
    second: Sequence[str],
) -> tuple[isl.Set, isl.Set]:  # fmt: skip
    """Return the two sides of a sample of *relation*, each as a set of one point."""
    parameters, left, right = values
    found = []
    for part, names, numbers in ((relation.domain(), first, left), (relation.range(), second, right)):
        whole = isl.Set.universe(part.get_space())
        for place in range(whole.dim(isl.dim_type.param)):
            name = whole.get_dim_name(isl.dim_type.param, place) or ""
            whole = whole.fix_val(isl.dim_type.param, place, parameters[name])
        for place, name in enumerate(names):
            whole = whole.fix_val(isl.dim_type.set, place, numbers[name])
        found.append(whole)
    return found[0], found[1]


def carried_violations(kernel: LoopKernel, iname: str, text: str) -> Iterator[Diagnostic]:
    """Yield a diagnostic if *iname* carries a running total, so its iterations cannot be parallel as the tag *text*."""
    for instruction in kernel.instructions:
        if not instruction.terms:
            continue
        for reduction in reductions(expand_rules(instruction.expression, kernel.substitutions)):
            on_threads = isinstance(parse_tag(text), LocalAxis) and reduction.along == (iname,)
            if iname in reduction.along and not (on_threads and reduction.operation.reassociable):
                yield Diagnostic(
                    "parallel-scan",
                    f"iname '{iname}' carries the running total of '{instruction.id}' and cannot be '{text}'",
                    ("each iteration goes on from the total of the one before it",),
                    (f"divide the scan before it is realized: pl.split_scan(knl, '{iname}', 256, outer_tag='{text}')",),
                    sites=(instruction.site(),),
                )
                return


def replace_reduction(expr: Expression, number: int, new: Expression) -> Expression:
    """Return *expr* with *new* in the place of a reduction, counted from left to right, outer before inner."""
    count = -1

    def visit(node: Expression) -> Expression:
        nonlocal count
        if isinstance(node, Reduction):
            count += 1
            if count == number:
                return new
        old = children(node)
        after = tuple(map(visit, old))
        return node if all(a is b for a, b in zip(old, after, strict=True)) else rebuild(node, after)

    return visit(expr)
