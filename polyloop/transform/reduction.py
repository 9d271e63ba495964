"""``split_reduction_inward`` and ``split_reduction_outward``: one reduction in two stages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import islpy as isl

from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression, Reduction
from polyloop.expr.operations import combining
from polyloop.expr.rewrite import children, expand_rules, rebuild, reductions
from polyloop.kernel.domains import bound_variables
from polyloop.kernel.instruction import Instruction, Term
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.sets import project_onto, reorder
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.selection import selected, selection_violations
from polyloop.transform.staged import names_of

__all__ = ["SplitReductionInward", "SplitReductionOutward", "split_reduction_inward", "split_reduction_outward"]


@dataclass(frozen=True)
class _SplitReduction(Transform):
    """Make two reductions of one: the inner one gives partial results, which the outer one combines."""

    inames: tuple[str, ...]
    within: str | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := [finding for iname in self.inames for finding in iname_violations(kernel, iname)]:
            yield from found
            return
        if found := [*selection_violations(kernel, self.within, self.name)]:
            yield from found
            return
        chosen = self._instructions(kernel)
        meant = [(i, r) for i in chosen for r in reductions(_expanded(kernel, i)) if self._is_over(r)]
        for instruction, reduction in meant:
            if reduction.operation.ordered:
                yield _ordered(instruction, reduction)
                return
            for term in instruction.terms:
                if {*reduction.inames} <= {*term.inames} and bound_variables(term.domain, kernel.parameters):
                    yield _by_data(instruction, bound_variables(term.domain, kernel.parameters))
                    return
        if not any(self._fits(reduction) for _, reduction in meant):
            yield self._not_reduced(kernel, meant)

    def _instructions(self, kernel: LoopKernel) -> list[Instruction]:
        ids = set(selected(kernel, self.within, self.name))
        return [i for i in kernel.instructions if i.id in ids and not i.is_c]

    def _is_over(self, reduction: Reduction) -> bool:
        return bool(self.inames) and set(self.inames) <= set(reduction.inames)

    def _fits(self, reduction: Reduction) -> bool:
        """Return whether *reduction* has the inames, and others besides."""
        return self._is_over(reduction) and len(reduction.inames) > len(set(self.inames))

    def _not_reduced(self, kernel: LoopKernel, meant: Sequence[tuple[Instruction, Reduction]]) -> Diagnostic:
        names = ", ".join(repr(name) for name in self.inames) or "no iname"
        if meant:
            instruction, _ = meant[0]
            return Diagnostic(
                "reduction-not-split",
                f"no reduction is over {names} and another iname",
                ("there would be nothing left to reduce over in the other stage",),
                (f"split '{self.inames[0]}' with split_iname first, and name one of the two halves",),
                sites=(instruction.site(),),
            )
        over = [r.inames for i in kernel.instructions if not i.is_c for r in reductions(_expanded(kernel, i))]
        shown = "; ".join(", ".join(inames) for inames in dict.fromkeys(over))
        notes = (f"there are reductions over {shown}",) if over else ("the kernel has no reduction",)
        hints = ("the inames must all be of one reduction",) if len(self.inames) > 1 else ()
        return Diagnostic("reduction-not-split", f"no reduction is over {names}", notes, hints)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        ids = {instruction.id for instruction in self._instructions(kernel)}
        return replace(
            kernel,
            instructions=tuple(self._changed(kernel, i) if i.id in ids else i for i in kernel.instructions),
        )

    def _changed(self, kernel: LoopKernel, old: Instruction) -> Instruction:
        expanded = _expanded(kernel, old)
        if not any(self._fits(reduction) for reduction in reductions(expanded)):
            return old
        terms: list[Term] = []
        left = iter(old.terms)

        def visit(expr: Expression, around: tuple[str, ...]) -> None:
            """Collect the terms inside *expr*, which is inside the loops *around*, in their new order."""
            if not isinstance(expr, Reduction):
                for child in children(expr):
                    visit(child, around)
                return
            term = next(left)
            stages = [part for part in self._stages(expr) if part]
            for number in range(1, len(stages) + 1):
                inames = (*around, *(name for part in stages[:number] for name in part))
                terms.append(Term(inames, _onto(term.domain, term.inames, inames)))
            visit(expr.expr, inames)

        visit(expanded, old.inames)
        expression = self._split(old.expression)
        if expand_rules(expression, kernel.substitutions) != self._split(expanded):
            expression = self._split(expanded)
        return replace(old, expression=expression, terms=tuple(terms))

    def _stages(self, reduction: Reduction) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the inames of the outer and of the inner reduction that *reduction* becomes; no inner if it stays."""
        if not self._fits(reduction):
            return reduction.inames, ()
        named = tuple(name for name in reduction.inames if name in self.inames)
        others = tuple(name for name in reduction.inames if name not in self.inames)
        return self._placed(named, others)

    @abstractmethod
    def _placed(self, named: tuple[str, ...], others: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the inames of the outer and of the inner reduction."""

    def _split(self, expr: Expression) -> Expression:
        old = children(expr)
        new = tuple(self._split(child) for child in old)
        result = expr if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(expr, new)
        if not isinstance(result, Reduction) or not self._fits(result):
            return result
        outer, inner = self._stages(result)
        return Reduction(combining(result.operation), outer, Reduction(result.operation, inner, result.expr))


def _expanded(kernel: LoopKernel, instruction: Instruction) -> Expression:
    return expand_rules(instruction.expression, kernel.substitutions)


def _onto(domain: isl.Set, old: tuple[str, ...], new: tuple[str, ...]) -> isl.Set:
    return reorder(domain, old, new) if len(old) == len(new) else project_onto(domain, old, new).coalesce()


def _ordered(instruction: Instruction, reduction: Reduction) -> Diagnostic:
    return Diagnostic(
        "ordered-reduction",
        f"the terms of '{reduction.operation}' are combined in their order",
        ("two stages would combine them in groups",),
        ("reduce without 'ordered' if any grouping of the terms will do",),
        sites=(instruction.site(),),
    )


def _by_data(instruction: Instruction, names: Sequence[str]) -> Diagnostic:
    return Diagnostic(
        "data-decides",
        "data decides how many terms the reduction has",
        (f"its bounds use {', '.join(map(repr, names))}, which the kernel computes",),
        ("leave the terms in one reduction",),
        sites=(instruction.site(),),
    )


@dataclass(frozen=True)
class SplitReductionInward(_SplitReduction):
    """Move inames of reductions into reductions of their own, inside."""

    name: ClassVar[str] = "split_reduction_inward"

    def _placed(self, named: tuple[str, ...], others: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return others, named


@dataclass(frozen=True)
class SplitReductionOutward(_SplitReduction):
    """Move inames of reductions into reductions of their own, outside."""

    name: ClassVar[str] = "split_reduction_outward"

    def _placed(self, named: tuple[str, ...], others: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return named, others


def split_reduction_inward(kernel: LoopKernel, inames: str | Sequence[str], within: str | None = None) -> LoopKernel:
    """Reduce in two stages, of which the inner one is over the inames named.

    ::

        s = sum([i, j], a[i, j])   with "j"   ->   s = sum(i, sum(j, a[i, j]))

    Parameters
    ----------
    inames
        One iname, or several, separated by commas or as a sequence.  Every reduction over all of them and over others
        besides is changed.
    within
        Match expression for the instructions; by default all.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``reduction-not-split``, ``ordered-reduction``, ``data-decides``, ``no-match``, ``syntax``,
        ``unknown-instruction``.

    Notes
    -----
    The inner reduction gives partial results, from its neutral element on; the outer one combines them.  So terms are
    added in other groups, which a reduction permits unless it is ``ordered``.  That each term counts once is proven.
    Source: Loopy's transform of the same name.
    """
    return SplitReductionInward(names_of(inames), within)(kernel)


def split_reduction_outward(kernel: LoopKernel, inames: str | Sequence[str], within: str | None = None) -> LoopKernel:
    """Reduce in two stages, of which the outer one is over the inames named.

    ::

        s = sum([i, j], a[i, j])   with "j"   ->   s = sum(j, sum(i, a[i, j]))

    Parameters
    ----------
    inames
        One iname, or several, separated by commas or as a sequence.  Every reduction over all of them and over others
        besides is changed.
    within
        Match expression for the instructions; by default all.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``reduction-not-split``, ``ordered-reduction``, ``data-decides``, ``no-match``, ``syntax``,
        ``unknown-instruction``.

    Notes
    -----
    As :func:`split_reduction_inward`, with the stages exchanged.  Source: Loopy's transform of the same name.
    """
    return SplitReductionOutward(names_of(inames), within)(kernel)
