"""Common parts of ``precompute`` and ``add_prefetch``: checks, consequences, and the line in the trace."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from polyloop.dataflow.address_spaces import place
from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.names import check_identifier
from polyloop.expr.printer import show
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.domains import bound_variables
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import Nested, order_tags, parse_dim_tags
from polyloop.kernel.tags import axis_name, is_thread
from polyloop.poly.axes import is_block_axis
from polyloop.program.expand_lanes import VECTOR_LENGTHS
from polyloop.proof.obligation import findings
from polyloop.proof.postponed import waits
from polyloop.sync.storage_aliasing import pool_obligations
from polyloop.transform.base import Transform, iname_violations, new_name_violations
from polyloop.transform.instructions.matching import match_violations
from polyloop.transform.loops.tag import tag_violations
from polyloop.transform.staging.plan import Plan, Temporary, uses_of
from polyloop.transform.staging.staging import data_footprint, stage
from polyloop.transform.staging.uses import Use, free_inames
from polyloop.verification.correspondence import comparison_of
from polyloop.verification.failing import failure_obligations
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["Staging"]


@dataclass(frozen=True)
class Staging(Transform):
    """A transform that fills a temporary ahead of its use, as its :meth:`plan` says."""

    @abstractmethod
    def plan(self, kernel: LoopKernel) -> Plan:
        """Return the plan: the source, and the place of its temporary."""

    @property
    def wish(self) -> str | None:
        """The name asked for the temporary, where one can be asked for."""
        return None

    def shares(self, kernel: LoopKernel) -> bool:
        """Return whether the values go to the storage of an existing temporary."""
        return self.wish in kernel.temporaries

    def plan_violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        """Yield the errors in the plan; its source exists."""
        plan = self.plan(kernel)
        if plan.source in kernel.buffers:
            yield Diagnostic(
                "already-staged",
                f"'{plan.source}' is itself a copy that a transform made",
                hints=(f"fetch '{kernel.buffers[plan.source]}' ahead, before it is buffered",),
            )
            return
        if plan.within and (found := tuple(match_violations(kernel, [plan.within], plan.caller))):
            yield from found
            return
        if found := tuple(_sweep_violations(kernel, plan)):
            yield from found
            return
        if plan.filling.tag is not None:
            yield from tag_violations(plan.filling.tag)
        yield from _layout_violations(kernel, plan)
        new = () if plan.filling.reuses_loops(kernel) else plan.filling.inames or ()
        yield from _name_violations(kernel, plan.temporary.name, new, plan.filling.id, plan.temporary.address_space)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        result = stage(kernel, self.plan(kernel))
        new = self.plan(kernel).temporary.name
        if not self.shares(kernel) or self.wish is None:
            return result
        spaces = place(result).spaces
        if any(spaces[name] is not AddressSpace.LOCAL for name in (new, self.wish)):
            return result  # registers are shared without being told
        old = result.temporaries[self.wish]
        taken = [t.base_storage for t in result.temporaries.values() if t.base_storage is not None]
        pool = old.base_storage or result.fresh(f"{self.wish}_storage", taken)
        both = {old.name: replace(old, base_storage=pool), new: replace(result.temporaries[new], base_storage=pool)}
        return replace(result, temporaries={**result.temporaries, **both})

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        plan = self.plan(before)
        users = {use.instruction.id for use in uses_of(before, plan) if isinstance(use, Use)}
        several = any(len(before.instruction(user).terms) > 1 for user in users)
        in_doubt = plan.outer is not None or several or plan.filling.reuses_loops(before)
        yield from _staged_violations(after, plan.filling.id, in_doubt)
        if not waits(_failure_violations):
            yield from _failure_violations(after)
        if self.shares(before):
            yield from findings(after, pool_obligations(place(after)))

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        return _placement_note(after, self.plan(before).filling.id)


def _failure_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    yield from findings(kernel, failure_obligations(comparison_of(kernel)))


def _uses(kernel: LoopKernel, plan: Plan) -> Iterator[Use | Diagnostic]:
    """Yield every use that may be staged, or why it cannot be: data decides about the elements."""
    for use in uses_of(kernel, replace(plan, sweep=())):
        yield use
        if isinstance(use, Use) and set(plan.sweep) <= set(use.inames):
            bounds = bound_variables(use.domain, kernel.parameters)
            if bounds:
                yield data_footprint(plan.source, bounds, use.instruction)


def _layout_violations(kernel: LoopKernel, plan: Plan) -> Iterator[Diagnostic]:
    """Yield the errors in the axes of the temporary, and in their storage."""
    temporary, vec, pad = plan.temporary, plan.filling.vec, plan.temporary.pad
    if vec is not None and vec not in VECTOR_LENGTHS:
        yield Diagnostic("bad-lanes", f"vec cannot be {vec!r}", hints=("vectors have 2, 4, 8 or 16 elements",))
    if type(pad) is not int or pad < 0:
        yield Diagnostic("bad-value", f"pad cannot be {pad!r}", hints=("give a number of elements, 0 or more",))
    if temporary.axes is not None and (apart := [x for x in temporary.axes if x not in plan.sweep]):
        message = f"'{apart[0]}' is in storage_axes and not among the swept inames"
        yield Diagnostic("sweep-unused", message, hints=(f"sweep '{apart[0]}' as well",))
    if temporary.dim_tags:
        rank = next(len(use.arguments) for use in uses_of(kernel, plan) if isinstance(use, Use))
        rank = rank if temporary.axes is None else len(temporary.axes)
        yield from _tag_violations(temporary, rank)


def _tag_violations(temporary: Temporary, rank: int) -> Iterator[Diagnostic]:
    order = temporary.dim_tags.strip().upper()
    try:
        tags = order_tags(rank, order) if order in {"C", "F"} else parse_dim_tags(temporary.dim_tags)
    except KernelError as error:
        yield from error.found
        return
    if len(tags) != rank:
        message = f"'{temporary.name}' has {rank} axes and {len(tags)} dim_tags"
        yield Diagnostic("bad-layout", message, hints=("give one for each axis",))
    elif not all(isinstance(tag, Nested) for tag in tags):
        yield Diagnostic(
            "bad-layout",
            f"'{temporary.name}' cannot be stored as {temporary.dim_tags}",
            ("its extents follow from the footprint",),
            ("use N0, N1, .. (N0 is contiguous), and pad= for elements between the rows",),
        )


def _sweep_violations(kernel: LoopKernel, plan: Plan) -> Iterator[Diagnostic]:
    """Yield the errors in the sweep of the uses that *plan* concerns."""
    source, is_rule, sweep, outer = plan.source, plan.is_rule, plan.sweep, plan.outer
    unknown = [finding for iname in (*sweep, *(outer or ())) for finding in iname_violations(kernel, iname)]
    if unknown:
        yield from unknown
        return
    found = list(_uses(kernel, plan))
    uses = [use for use in found if isinstance(use, Use)]
    for entry in found:
        if isinstance(entry, Diagnostic):
            yield entry
            return
    kind = "rule" if is_rule else "array"
    if not uses:
        yield Diagnostic("not-used", f"{kind} '{source}' is read nowhere", hints=("there is nothing to compute ahead",))
        return
    if not any(set(sweep) <= set(use.inames) for use in uses):
        missing = next((iname for iname in sweep if all(iname not in use.inames for use in uses)), None)
        what = f"iname '{missing}' is not" if missing else "the swept inames are not together"
        yield Diagnostic(
            "sweep-unused",
            f"{what} around any use of {kind} '{source}'",
            (f"it is used inside {', '.join(uses[0].inames) or 'no loop'}",),
            ("sweep inames of the instruction that uses it",),
            sites=(uses[0].instruction.site(),),
        )
        return
    if len({len(use.arguments) for use in uses}) > 1:
        message = f"{kind} '{source}' is used with different numbers of indices"
        yield Diagnostic("wrong-rank", message, hints=("give every use as many",))
    if not plan.subscripts:  # these say which elements: for all values of inames that are not outer ones
        yield from _outer_violations(kernel, source, is_rule, sweep, outer, uses)


def _outer_violations(
    kernel: LoopKernel,
    source: str,
    is_rule: bool,
    sweep: Sequence[str],
    outer: Sequence[str] | None,
    uses: Sequence[Use],
) -> Iterator[Diagnostic]:
    """Yield a diagnostic if the staged values depend on an iname that is neither swept nor outer."""
    wrong = sorted(_misplaced_inames(kernel, source, sweep, outer)) if is_rule else []
    if wrong:
        yield _not_outer(kernel, source, wrong[0], uses[0])
        return
    if outer is not None:
        for use in uses:
            needed = {name for form in use.arguments for name in form.names()} - set(kernel.parameters)
            missed = needed - set(sweep) - set(outer)
            if missed:
                yield Diagnostic(
                    "outer-missing",
                    f"the elements depend on iname '{min(missed)}', which is neither swept nor an outer iname",
                    hints=(f"add '{min(missed)}' to the sweep or to the outer inames",),
                    sites=(use.instruction.site(),),
                )
                return


def _misplaced_inames(
    kernel: LoopKernel, rule: str, sweep: Sequence[str], outer: Sequence[str] | None
) -> frozenset[str]:
    """Return the free inames of a rule that are swept, or not among the outer inames."""
    free = free_inames(kernel, rule)
    swept = free.intersection(sweep)
    return swept if outer is None else swept | free.difference(outer)


def _not_outer(kernel: LoopKernel, rule: str, iname: str, use: Use) -> Diagnostic:
    return Diagnostic(
        "outer-missing",
        f"the value of rule '{rule}' depends on iname '{iname}', which is not an outer iname",
        (f"{kernel.substitutions[rule]} has '{iname}' in it, and not among its arguments",),
        (f"keep '{iname}' out of the sweep and among the outer inames, or make it an argument of the rule",),
        sites=(use.instruction.site(),),
    )


def _name_violations(
    kernel: LoopKernel, temporary: str, inames: Sequence[str], instruction: str, space: str
) -> Iterator[Diagnostic]:
    """Yield the errors in the names of a new temporary, of its inames and its instruction, and with its space."""
    for name, kind in ((temporary, "temporary"), *((iname, "iname") for iname in inames)):
        problem = check_identifier(name, kind)
        if problem is not None:
            yield problem
    yield from new_name_violations(kernel, (temporary, *inames))
    names = (temporary, *inames)
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Diagnostic("name-taken", f"two new names are '{name}'", hints=("choose another name for one of them",))
    if any(instruction == other.id for other in kernel.instructions):
        yield Diagnostic(
            "name-taken", f"an instruction is already called '{instruction}'", hints=("choose another id",)
        )
    if space not in {known.value for known in AddressSpace}:
        yield Diagnostic(
            "bad-address-space", f"no address space '{space}'", hints=("one of auto, private, local, cluster, global",)
        )


def _placement_note(after: LoopKernel, instruction: str) -> str:
    """Return the place of a staged instruction, for the trace."""
    new = after.instruction(instruction)
    inside = [x for x in new.inames if axis_name(after.tag(x)) is None and x not in _own(after, instruction)]
    blocks = [x for x in new.inames if is_block_axis(axis_name(after.tag(x)) or "")]
    spread = [f"{x} on {after.tag(x)}" for x in new.inames if x in _own(after, instruction) and after.iname_tags.get(x)]
    parts = []
    if blocks:
        parts.append(f"for each block ({', '.join(blocks)})")
    parts.append(f"in loop {', '.join(inside)}" if inside else "before all loops")
    if spread:
        parts.append(", ".join(spread))
    elif any(map(is_thread, after.iname_tags.values())):
        parts.append("by one thread")
    shape = after.temporaries[new.target].shape or ()
    return f"{new.target}[{', '.join(map(show, shape))}] filled {'; '.join(parts)}"


def _own(kernel: LoopKernel, instruction: str) -> frozenset[str]:
    new = kernel.instruction(instruction)
    index = getattr(new.assignee, "index_tuple", ())
    return frozenset(x for x in new.inames if any(x in variables(entry) for entry in index))


def _staged_violations(after: LoopKernel, instruction: str, chosen_outer: bool) -> Iterator[Diagnostic]:
    """Yield values that the staged program would get from elsewhere.

    A copy of unwritten elements, inside all the loops around its uses, is right by construction (and proven
    again with the finished schedule); anything else is looked at here.
    """
    written = {name for other in after.instructions for name in other.writes}
    if chosen_outer or not written.isdisjoint(after.instruction(instruction).reads):
        yield from value_violations(after)
    yield from order_violations(after)
