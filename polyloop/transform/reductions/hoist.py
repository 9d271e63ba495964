"""``hoist_reduction_factors``: common factors of all terms of a sum, multiplied once with the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, TransformError
from polyloop.expr.nodes import Expression, Reduction
from polyloop.expr.rewrite import children, rebuild, reductions, variables
from polyloop.expr.rules import expand_rules
from polyloop.expr.typing import infer
from polyloop.kernel.instruction import Copy, Instruction, Term
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.reads import with_reads
from polyloop.memo import Same
from polyloop.poly.sets import project_onto
from polyloop.program.infer_types import dtype_table
from polyloop.program.reference import reference_of
from polyloop.transform.base import Transform
from polyloop.transform.instructions.selection import selected, selection_violations
from polyloop.transform.parameters import InsnMatch
from polyloop.verification.bounds import bounds_conditions, bounds_violations
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["HoistReductionFactors"]

Places: TypeAlias = tuple[tuple[int, ...], ...]
"""Positions of the factors that were taken out of each addend."""


# {{{ sums and their factors


def _addends(expr: Expression) -> list[Expression]:
    """Return the addends of an expression: terms of sums, also inside sum reductions."""
    if type(expr) is p.Sum:
        return [addend for child in expr.children for addend in _addends(child)]
    if isinstance(expr, Reduction) and _adds(expr):
        return _addends(expr.expr)
    return [expr]


def _adds(reduction: Reduction) -> bool:
    operation = reduction.operation
    plain = not operation.ordered and not operation.of_states and not reduction.along and reduction.start is None
    return operation.name == "sum" and not operation.combine and plain


def _factors(addend: Expression) -> list[Expression]:
    return list(addend.children) if type(addend) is p.Product else [addend]


def _positions(addend: Expression, wanted: Sequence[Expression]) -> tuple[int, ...] | None:
    """Return distinct positions of the factors *wanted* in a product; None if one is missing."""
    own = _factors(addend)
    taken: list[int] = []
    for factor in wanted:
        place = next((k for k, other in enumerate(own) if k not in taken and other == factor), None)
        if place is None:
            return None
        taken.append(place)
    return tuple(taken)


def _without(expr: Expression, places: Iterator[tuple[int, ...]]) -> Expression:
    """Return *expr* without the factors at *places* of each of its addends."""
    if type(expr) is p.Sum:
        return p.Sum(tuple(_without(child, places) for child in expr.children))
    if isinstance(expr, Reduction) and _adds(expr):
        return replace(expr, expr=_without(expr.expr, places))
    gone = next(places)
    left = tuple(factor for k, factor in enumerate(_factors(expr)) if k not in gone)
    return 1 if not left else left[0] if len(left) == 1 else p.Product(left)


def _common(sums: Iterable[Sequence[Expression]], allowed: Iterable[Expression]) -> list[Expression]:
    """Return the factors among *allowed* that every addend has."""
    every = [addend for addends in sums for addend in addends]
    found: list[Expression] = []
    for factor in allowed:
        if all(_positions(addend, [*found, factor]) is not None for addend in every):
            found.append(factor)
    return found


def _is_sign(factor: Expression) -> bool:
    return isinstance(factor, int | np.integer) and abs(int(factor)) == 1


def _times(factors: Sequence[Expression], value: Expression) -> Expression:
    inside = value.children if type(value) is p.Product else (value,)
    return p.Product((*factors, *inside))


# }}}


@dataclass(frozen=True)
class HoistReductionFactors(Transform):
    """Multiply the results of sums, instead of each of their terms, by the factors that all of these have in common.

    >>> knl = pl.make_kernel("{[i, k]: 0 <= i, k < 8}", "s[i] = sum(k, c[i]*a[i, k])")
    >>> print(*knl.hoist_reduction_factors().instructions)
    s[i] = c[i]*sum(k, a[i, k])

    Parameters
    ----------
    within
        Match expression for the instructions; by default all.

    Raises
    ------
    TransformError
        ``no-common-factor``, ``no-match``, ``unknown-instruction``, ``out-of-bounds``.

    Notes
    -----
    By the distributive law: exact for integers, whose sums wrap, and up to rounding for floating-point numbers. A sum
    that is infinite or overflows may differ. ``ordered`` sums, other operations, and sums whose type would change are
    left alone. The reference program changes too: see ``print(knl.reference)``. Source: Loopy's
    ``hoist_invariant_multiplicative_terms_in_sum_reduction``.
    """

    changes_meaning: ClassVar[bool] = True
    within: InsnMatch | None = None

    def factored(self, kernel: LoopKernel, ids: Sequence[str] | None) -> _Factored | Diagnostic:
        """Return the kernel with factors taken out, of the instructions *ids* if given; or why none can be."""
        chosen = selected(kernel, self.within, self.name) if ids is None else ids
        places: dict[str, Places] = {}
        new: list[Instruction] = []
        for old in kernel.instructions:
            changed, found = (old, ()) if old.id not in chosen or old.is_c else _hoisted(kernel, old)
            new.append(changed)
            if changed is not old:
                places[old.id] = found
        if not places:
            return Diagnostic(
                "no-common-factor",
                "no sum has a factor that could be multiplied with its result",
                ("such a factor depends on no iname of the reduction, and the type of the sum does not depend on it",),
                ("factors of arrays need a sum that has a term for each of its results",),
            )
        return _Factored(with_reads(replace(kernel, instructions=tuple(new))), places)

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if problems := tuple(selection_violations(kernel, self.within, self.name)):
            yield from problems
            return
        found = self.factored(kernel, None)
        if isinstance(found, Diagnostic):
            yield found

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        found = self.factored(kernel, None)
        assert isinstance(found, _Factored), "what can be factored was not checked"
        reference = kernel.reference
        assert reference is not None, "a kernel has its reference program"
        chosen = {i.origin.instruction for i in kernel.instructions if i.id in found.places
                  and isinstance(i.origin, Copy)}  # fmt: skip
        base = self.factored(reference.kernel, [i.id for i in reference.kernel.instructions if i.id in chosen])
        if not isinstance(base, _Factored) or not _alike(kernel, found, base):
            raise TransformError(self.name, kernel.name, [_changed(kernel, found)])
        return replace(found.kernel, reference=reference_of(base.kernel))

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterator[Diagnostic]:
        yield from _out_of_bounds(before, after)
        yield from value_violations(after)
        yield from order_violations(after)


@dataclass(frozen=True, eq=False)
class _Factored:
    """A kernel with hoisted factors, and their positions by instruction."""

    kernel: LoopKernel
    places: Mapping[str, Places]


def _alike(kernel: LoopKernel, found: _Factored, base: _Factored) -> bool:
    """Return whether each instruction lost the same factors as its original in the reference program."""
    seen: set[str] = set()
    for instruction in kernel.instructions:
        if isinstance(instruction.origin, Copy):
            original = instruction.origin.instruction
            seen.add(original)
            if found.places.get(instruction.id) != base.places.get(original):
                return False
        elif instruction.id in found.places:
            return False
    return base.places.keys() <= seen


def _changed(kernel: LoopKernel, found: _Factored) -> Diagnostic:
    return Diagnostic(
        "no-common-factor",
        "the factors are not those that the program has in the same places",
        ("transforms have changed how some of its instructions are written, or made some of them",),
        ("take the factors out before other transforms",),
        sites=tuple(kernel.instruction(name).site() for name in list(found.places)[:1]),
    )


def _out_of_bounds(before: LoopKernel, after: LoopKernel) -> Iterator[Diagnostic]:
    """Yield ``out-of-bounds`` if a hoisted factor is read outside its array, for a sum without terms."""
    for finding in bounds_violations(after):
        yield finding
        return
    known = before.assumptions
    for condition in (*before.conditions, *bounds_conditions(before)):
        known = known.intersect(condition.set)
    for condition in bounds_conditions(after):
        if not known.is_subset(condition.set):
            yield Diagnostic(
                "out-of-bounds",
                f"{condition.access} would leave its array, where no term is added",
                (f"it stays inside only where {condition.needs}",),
                ("state what holds with assumptions=",),
            )
            return


def _constant_names(kernel: LoopKernel) -> frozenset[str]:
    """Return everything that keeps its value while the kernel runs."""
    written = {name for instruction in kernel.instructions for name in instruction.writes}
    return frozenset(kernel.names() - written - {*kernel.inames})


def _same_type(kernel: LoopKernel, old: Expression, new: Expression) -> bool:
    table = dtype_table(kernel)
    return infer(old, table.get) == infer(new, table.get)


def _keeps_types(kernel: LoopKernel, addend: Expression, gone: tuple[int, ...]) -> bool:
    """Return True if each product in *addend* without the factors at *gone* is computed in the type that it had.

    Of ``s*u*u`` with a float ``s`` and an uint8 ``u``, ``u*u`` would wrap.
    """
    table, own = dtype_table(kernel), _factors(addend)
    left = [k for k in range(len(own)) if k not in gone]
    return all(
        infer(p.Product(tuple(own[k] for k in left[: n + 1])), table.get)
        == infer(p.Product(tuple(own[: left[n] + 1])), table.get)
        for n in range(1, len(left))
    )


def _hoisted(kernel: LoopKernel, instruction: Instruction) -> tuple[Instruction, Places]:
    """Return *instruction* with its sums less common factors, times these; and where they stood."""
    expanded = expand_rules(instruction.expression, kernel.substitutions)
    terms = dict(zip(map(Same, reductions(expanded)), instruction.terms, strict=True))
    places: list[tuple[int, ...]] = []

    def visit(expr: Expression, inside: bool) -> Expression:
        own = isinstance(expr, Reduction)
        if own and not inside and _adds(expr) and not reductions(expr.expr):
            addends = _addends(expr.expr)
            term = terms[Same(expr)]
            allowed = [f for f in _factors(addends[0]) if _may_be_hoisted(kernel, instruction, term, f, expr)]
            common = _common([addends], allowed)
            found = [_positions(addend, common) or () for addend in addends]
            less = replace(expr, expr=_without(expr.expr, iter(found)))
            is_kept = all(_keeps_types(kernel, *each) for each in zip(addends, found, strict=True))
            if common and is_kept and _same_type(kernel, expr, less):
                places.extend(found)
                return _times(common, less)
        old = children(expr)
        new = tuple(visit(child, inside or own) for child in old)
        return expr if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(expr, new)

    expression = visit(expanded, inside=False)
    return (instruction if not places else replace(instruction, expression=expression)), tuple(places)


def _may_fail(factor: Expression) -> bool:
    """Return True if a factor may be no number, or stop the program, where a sum without terms does not compute it."""
    fails = isinstance(factor, p.Quotient | p.FloorDiv | p.Remainder | p.Power | p.Call)
    return (fails and bool(variables(factor))) or any(_may_fail(child) for child in children(factor))


def _may_be_hoisted(
    kernel: LoopKernel, instruction: Instruction, term: Term, factor: Expression, reduction: Reduction
) -> bool:
    names = variables(factor)
    if _is_sign(factor) or not names.isdisjoint(reduction.inames):
        return False
    if names.isdisjoint(kernel.arrays()) and not _may_fail(factor):
        return True
    results = project_onto(term.domain, term.inames, instruction.inames)
    return bool(instruction.domain.intersect_params(kernel.assumptions).is_subset(results))


# }}}
