"""``stage_reduction``: the partial results of a reduction, stored in a temporary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final

import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import computed
from polyloop.expr.nodes import Expression, Reduction
from polyloop.expr.rewrite import children, rebuild, reductions
from polyloop.expr.rules import expand_rules
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.instruction import Instruction, SubstitutionRule
from polyloop.kernel.kernel import LoopKernel
from polyloop.program.conditions import with_conditions
from polyloop.program.infer_types import untyped_operand
from polyloop.transform.base import iname_violations
from polyloop.transform.instructions.rules import used_rules
from polyloop.transform.instructions.selection import selected, selection_violations
from polyloop.transform.parameters import Inames, InsnMatch, NewName, NewNames, Space, TagText
from polyloop.transform.reductions.reduction import SplitReductionOutward
from polyloop.transform.staging.plan import Filling, Plan, Temporary
from polyloop.transform.staging.staged import Staging
from polyloop.transform.staging.staging import stage
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["StageReduction"]

_RULE: Final = "partial results"
"""Name of the rule while there is one; none of the user's has a space in it."""


@dataclass(frozen=True)
class StageReduction(Staging):
    """Store the partial results of a reduction in a temporary, one for each value of *inames*.

    >>> knl = pl.make_kernel("{[b, k]: 0 <= b < 8 and 0 <= k < 64}", "s = sum([b, k], a[b, k])")
    >>> print(knl.add_dtypes({"a": np.float32}).stage_reduction("b"))
    kernel loop_kernel
    ...
    instructions:
        [b_part]  part[b_part] = sum(k, a[b_part, k])    {id=compute_part}
        s = sum(b, part[b])    {id=insn}

    With ``temporary_address_space="cluster"`` and the new iname tagged ``c.0``, the blocks of a cluster compute one
    partial result each, which they see in the shared memory of each other.  With ``default_tag="g.0"`` and
    ``temporary_address_space="global"`` each block computes one partial result, and a second launch combines them.

    Parameters
    ----------
    inames
        Inames of the second stage. The reduction is first split by :func:`split_reduction_outward`, unless it is split
        already.
    within
        Match expression for the instruction; by default the only one with such a reduction.
    sweep_inames
        Inames of the instruction over which partial results are stored at once: further axes of the temporary, in
        front; behind in a ``"cluster"``, where the first axis is that of blocks.
    new_inames
        Names of the inames of the new instruction, for the swept ones and then for *inames*; by default
        ``{iname}_part``.
    default_tag
        Tag of the new inames; sequential by default.
    temporary_name, temporary_address_space, compute_insn_id
        Name of the temporary (``part``), where it lives (``"auto"``: the narrowest that its readers allow), and id of
        the instruction that fills it (``compute_{temporary}``).

    Raises
    ------
    TransformError
        ``unknown-iname``, ``reduction-not-split``, ``ordered-reduction``, ``several-reductions``, ``sweep-unused``,
        ``footprint-not-constant``, ``wrong-rank``, ``name-taken``, ``illegal-order``, ``copy-incomplete``,
        ``term-twice``, ``unknown-dtype``, ``not-proven``; for tag, address space, *within* and temporary
        what :func:`precompute` raises.

    Notes
    -----
    Each term is proven to count exactly once, through the temporary. Source: M. Harris, "Optimizing Parallel Reduction
    in CUDA", NVIDIA 2007.
    """

    inames: Inames
    within: InsnMatch | None = None
    _: KW_ONLY
    sweep_inames: Inames = ()
    new_inames: NewNames | None = None
    default_tag: TagText | None = None
    temporary_name: NewName | None = None
    temporary_address_space: Space = "auto"
    compute_insn_id: NewName | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        wanted = (*self.inames, *self.sweep_inames)
        if found := [finding for iname in wanted for finding in iname_violations(kernel, iname)]:
            yield from found
            return
        if found := [*selection_violations(kernel, self.within, self.name)]:
            yield from found
            return
        if not self._has_stages(kernel):
            if found := [*self._split.violations(kernel)]:
                yield from found
                return
            kernel = self._split.rewrite(kernel)
        meant = [(i, r) for i in self._instructions(kernel) for r in reductions(_expanded(kernel, i)) if self._fits(r)]
        if len(meant) > 1:
            yield _several(meant, self.inames)
            return
        instruction, reduction = meant[0]
        if (untyped := untyped_operand(kernel, reduction)) is not None:
            yield untyped
            return
        for iname in self.sweep_inames:
            if iname not in instruction.inames:
                yield _not_around(instruction, iname)
                return
        yield from self.plan_violations(self._with_rule(kernel))
        swept = len(self.sweep_inames) + len(self.inames)
        if self.new_inames is not None and len(self.new_inames) != swept:
            yield Diagnostic(
                "wrong-rank",
                f"the partial results have {swept} axes, and {len(self.new_inames)} inames were given",
                hints=("give one iname for each swept iname, then one for each iname of the reduction",),
            )

    @property
    def _split(self) -> SplitReductionOutward:
        return SplitReductionOutward(self.inames, self.within)

    def _instructions(self, kernel: LoopKernel) -> list[Instruction]:
        ids = set(selected(kernel, self.within, self.name))
        return [i for i in kernel.instructions if i.id in ids and not i.is_c]

    def _fits(self, reduction: Reduction) -> bool:
        """Return whether *reduction* combines partial results, one for each value of the inames."""
        is_over = set(reduction.inames) == set(self.inames)
        return is_over and reduction.operation.of_states and isinstance(reduction.expr, Reduction)

    def _has_stages(self, kernel: LoopKernel) -> bool:
        return any(self._fits(r) for i in self._instructions(kernel) for r in reductions(_expanded(kernel, i)))

    def _with_rule(self, kernel: LoopKernel) -> LoopKernel:
        """Return *kernel* with the inner stage of its reduction as the value of a substitution rule."""
        swept = self._axes
        call = p.Call(p.Variable(_RULE), tuple(map(p.Variable, swept)))
        found: list[Expression] = []

        def visit(expr: Expression) -> Expression:
            if isinstance(expr, Reduction) and self._fits(expr):
                found.append(expr.expr)
                return Reduction(expr.operation, expr.inames, call)
            old = children(expr)
            new = tuple(map(visit, old))
            return expr if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(expr, new)

        def changed(old: Instruction) -> Instruction:
            expanded = with_conditions(kernel, old)
            expression = visit(expanded)
            return old if expression is expanded else replace(old, expression=expression)

        chosen = {i.id for i in self._instructions(kernel)}
        instructions = tuple(changed(i) if i.id in chosen else i for i in kernel.instructions)
        rule = SubstitutionRule.of(_RULE, swept, found[0])
        return replace(kernel, instructions=instructions, substitutions={**kernel.substitutions, _RULE: rule})

    @property
    def _axes(self) -> tuple[str, ...]:
        """The inames of the axes of the temporary; in a cluster those of its blocks come first."""
        if self.temporary_address_space == str(AddressSpace.CLUSTER):
            return (*self.inames, *self.sweep_inames)
        return (*self.sweep_inames, *self.inames)

    @property
    def temporary(self) -> str:
        """Name of the temporary."""
        return self.temporary_name or "part"

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        if not self._has_stages(kernel):
            kernel = self._split.rewrite(kernel)
        result = used_rules(stage(self._with_rule(kernel), self.plan(kernel)))
        made = result.temporaries[self.temporary]
        assert made.dtype is not None, f"'{self.temporary}' has no type"
        wide = replace(made, dtype=computed(made.dtype))
        return replace(result, temporaries={**result.temporaries, self.temporary: wide})

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterator[Diagnostic]:
        for finding in value_violations(after):
            hint = "keep partial results for more inames at once (sweep_inames), or in memory of each thread's own"
            yield replace(finding, hints=(hint,)) if finding.code == "copy-wrong-element" else finding
        yield from order_violations(after)

    def plan(self, kernel: LoopKernel) -> Plan:
        swept = (*self.sweep_inames, *self.inames)
        inames = self.new_inames or tuple(f"{iname}_part" for iname in swept)
        if self.temporary_address_space == str(AddressSpace.CLUSTER):  # the axis of blocks is the first one
            inames = (*inames[-len(self.inames) :], *inames[: -len(self.inames)])
        return Plan(
            _RULE,
            True,
            self._axes,
            None,
            Temporary(self.temporary, self.temporary_address_space),
            Filling(self.compute_insn_id or f"compute_{self.temporary}", self.default_tag, inames),
            operation=self.name,
        )


def _expanded(kernel: LoopKernel, instruction: Instruction) -> Expression:
    return expand_rules(instruction.expression, kernel.substitutions)


def _not_around(instruction: Instruction, iname: str) -> Diagnostic:
    return Diagnostic(
        "sweep-unused",
        f"iname '{iname}' is no loop around the reduction",
        (f"its instruction is inside {', '.join(instruction.inames) or 'no loop'}",),
        ("sweep inames of the instruction; those of the reduction are swept anyway",),
        sites=(instruction.site(),),
    )


def _several(meant: Sequence[tuple[Instruction, Reduction]], inames: Sequence[str]) -> Diagnostic:
    ids = dict.fromkeys(instruction.id for instruction, _ in meant)
    hint = f"name one instruction: within='id:{meant[0][0].id}'" if len(ids) > 1 else "write them in instructions apart"
    return Diagnostic(
        "several-reductions",
        f"{len(meant)} reductions have partial results for {', '.join(map(repr, inames))}",
        ("a temporary holds those of one",),
        (hint,),
        sites=tuple(instruction.site() for instruction, _ in meant[:2]),
    )
