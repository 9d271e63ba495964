"""``split_reduction_inward`` and ``split_reduction_outward``: a reduction of partial results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression, Reduction
from polyloop.expr.rewrite import reductions
from polyloop.expr.rules import expand_rules
from polyloop.kernel.domains import bound_variables
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.stages import in_stages
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.instructions.selection import selected, selection_violations
from polyloop.transform.parameters import Inames, InsnMatch

__all__ = ["SplitReductionInward", "SplitReductionOutward"]


@dataclass(frozen=True)
class _SplitReduction(Transform):
    """Make two reductions of one: the inner one gives partial results, which the outer one combines."""

    inames: Inames
    within: InsnMatch | None = None

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
        is_plain = not reduction.along and reduction.start is None
        return is_plain and bool(self.inames) and set(self.inames) <= set(reduction.inames)

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
        changed = (
            in_stages(i, kernel.substitutions, self._outer) if i.id in ids else i for i in kernel.instructions
        )
        return replace(kernel, instructions=tuple(changed))

    def _outer(self, reduction: Reduction) -> tuple[str, ...]:
        """Return the inames of the outer stage of *reduction*, empty if it is not split."""
        if not self._fits(reduction):
            return ()
        return tuple(name for name in reduction.inames if (name in self.inames) != self._inward())

    @abstractmethod
    def _inward(self) -> bool:
        """Return whether the inames are those of the inner stage."""


def _expanded(kernel: LoopKernel, instruction: Instruction) -> Expression:
    return expand_rules(instruction.expression, kernel.substitutions)


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
    """Reduce in two stages, of which the inner one is over the inames named.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i, j < 8}", "s = sum([i, j], a[i, j])")
    >>> print(*knl.split_reduction_inward("j").instructions)
    s = sum(i, sum(j, a[i, j]))

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

    def _inward(self) -> bool:
        return True


@dataclass(frozen=True)
class SplitReductionOutward(_SplitReduction):
    """Reduce in two stages, of which the outer one is over the inames named.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i, j < 8}", "s = sum([i, j], a[i, j])")
    >>> print(*knl.split_reduction_outward("j").instructions)
    s = sum(j, sum(i, a[i, j]))

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

    def _inward(self) -> bool:
        return False
