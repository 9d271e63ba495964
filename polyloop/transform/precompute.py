"""``precompute``: the values of a substitution rule, computed ahead of their use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from polyloop.analysis.legality import order_violations
from polyloop.analysis.values import value_violations
from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.names import check_identifier
from polyloop.expr.rewrite import variables
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import LocalAxis, axis_name
from polyloop.transform.base import Transform, iname_violations, new_name_violations
from polyloop.transform.staging import Plan, Use, find_uses, stage
from polyloop.transform.tag import tag_violations

__all__ = [
    "Precompute",
    "names_of",
    "placement_note",
    "precompute",
    "staged_violations",
    "staging_violations",
    "sweep_violations",
]


def names_of(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return ``"i, j"`` or a sequence as a tuple of names."""
    if given is None:
        return ()
    parts = given.split(",") if isinstance(given, str) else given
    return tuple(part.strip() for part in parts if part.strip())


def sweep_violations(
    kernel: LoopKernel, source: str, is_rule: bool, sweep: Sequence[str], outer: Sequence[str] | None
) -> Iterator[Diagnostic]:
    """Yield what is wrong with sweeping the uses of *source* over *sweep*."""
    unknown = [finding for iname in (*sweep, *(outer or ())) for finding in iname_violations(kernel, iname)]
    if unknown:
        yield from unknown
        return
    found = list(find_uses(kernel, source, is_rule))
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


def staging_violations(
    kernel: LoopKernel, temporary: str, inames: Sequence[str], instruction: str, space: str
) -> Iterator[Diagnostic]:
    """Yield what is wrong with the names of a new temporary, of its inames and its instruction, and with its space."""
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
            "bad-address-space", f"no address space '{space}'", hints=("one of auto, private, local, global",)
        )


def placement_note(after: LoopKernel, instruction: str) -> str:
    """Return where a staged instruction ended up, for the trace."""
    new = after.instruction(instruction)
    inside = [x for x in new.inames if axis_name(after.tag(x)) is None and x not in _own(after, instruction)]
    blocks = [x for x in new.inames if (axis_name(after.tag(x)) or "l")[0] == "g"]
    spread = [f"{x} on {after.tag(x)}" for x in new.inames if x in _own(after, instruction) and after.iname_tags.get(x)]
    parts = []
    if blocks:
        parts.append(f"for each block ({', '.join(blocks)})")
    parts.append(f"in loop {', '.join(inside)}" if inside else "before all loops")
    if spread:
        parts.append(", ".join(spread))
    elif any(isinstance(tag, LocalAxis) for tag in after.iname_tags.values()):
        parts.append("by one thread")
    shape = after.temporaries[new.writes].shape or ()
    return f"{new.writes}{list(shape)} filled {'; '.join(parts)}"


def _own(kernel: LoopKernel, instruction: str) -> frozenset[str]:
    new = kernel.instruction(instruction)
    index = getattr(new.assignee, "index_tuple", ())
    return frozenset(x for x in new.inames if any(x in variables(entry) for entry in index))




@dataclass(frozen=True)
class Precompute(Transform):
    """Compute the values of a substitution rule into a temporary."""

    name: ClassVar[str] = "precompute"
    subst_use: str
    sweep_inames: tuple[str, ...] = ()
    precompute_inames: tuple[str, ...] | None = None
    precompute_outer_inames: tuple[str, ...] | None = None
    default_tag: str | None = "l.auto"
    temporary_name: str | None = None
    temporary_address_space: str = "auto"
    compute_insn_id: str | None = None

    @property
    def temporary(self) -> str:
        """Name of the temporary."""
        return self.temporary_name or f"{self.subst_use}_value"

    @property
    def instruction(self) -> str:
        """Id of the new instruction."""
        return self.compute_insn_id or f"compute_{self.subst_use}"

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if self.subst_use not in kernel.substitutions:
            yield unknown_name("substitution rule", self.subst_use, kernel.substitutions)
            return
        yield from sweep_violations(kernel, self.subst_use, True, self.sweep_inames, self.precompute_outer_inames)
        if self.default_tag is not None:
            yield from tag_violations(self.default_tag)
        yield from staging_violations(
            kernel, self.temporary, self.precompute_inames or (), self.instruction, self.temporary_address_space
        )
        count = len(kernel.substitutions[self.subst_use].arguments)
        if self.precompute_inames is not None and len(self.precompute_inames) != count:
            yield Diagnostic(
                "wrong-rank",
                f"rule '{self.subst_use}' has {count} arguments, and {len(self.precompute_inames)} inames were given",
                hints=("give one iname for each argument",),
            )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        plan = Plan(
            self.subst_use,
            True,
            self.sweep_inames,
            self.precompute_outer_inames,
            self.temporary,
            self.precompute_inames,
            self.instruction,
            AddressSpace(self.temporary_address_space),
            self.default_tag,
        )
        return stage(kernel, plan)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        del before
        return staged_violations(after, self.instruction, self.precompute_outer_inames is not None)

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        del before
        return placement_note(after, self.instruction)


def staged_violations(after: LoopKernel, instruction: str, chosen_outer: bool) -> Iterator[Diagnostic]:
    """Yield values that the staged program would get from elsewhere.

    A copy of what nobody writes, inside all the loops around its uses, is right by construction (and proven
    again with the finished schedule); anything else is looked at here.
    """
    written = {other.writes for other in after.instructions}
    if chosen_outer or not written.isdisjoint(after.instruction(instruction).reads):
        yield from value_violations(after)
    yield from order_violations(after)


def precompute(
    kernel: LoopKernel,
    subst_use: str,
    sweep_inames: str | Sequence[str] = (),
    *,
    precompute_inames: str | Sequence[str] | None = None,
    precompute_outer_inames: str | Sequence[str] | None = None,
    default_tag: str | None = "l.auto",
    temporary_name: str | None = None,
    temporary_address_space: AddressSpace | str = AddressSpace.AUTO,
    compute_insn_id: str | None = None,
) -> LoopKernel:
    """Compute the values of a substitution rule ahead of their use, into a temporary.

    ::

        f(x) := g(a[x])
        for io: for ii: out[16*io + ii] = f(16*io + ii) + f(16*io + ii + 1)
        ->                                                     (sweeping ii)
        for io:
            for f_dim_0 in [0, 17): f_value[f_dim_0] = g(a[16*io + f_dim_0])
            for ii: out[16*io + ii] = f_value[ii] + f_value[ii + 1]

    Parameters
    ----------
    subst_use
        Name of the rule.
    sweep_inames
        The values for all values of these inames are kept at once; together they span the temporary.
    precompute_inames
        Names for the new inames, one for each argument of the rule; by default ``{rule}_dim_0``, ...
    precompute_outer_inames
        Loops around the new instruction.  By default every iname around the uses that is not swept; threads
        of the block only where the values depend on them.
    default_tag
        Tag of the new inames; ``"l.auto"`` spreads them over the threads of the block.
    temporary_name, temporary_address_space, compute_insn_id
        Name of the temporary, where it lives (``"auto"``: the narrowest that its readers allow), id of the instruction.

    Raises
    ------
    TransformError
        ``unknown-substitution-rule``, ``unknown-iname``, ``not-affine``, ``not-used``, ``sweep-unused``,
        ``outer-missing``, ``footprint-not-constant``, ``name-taken``, ``copy-incomplete``,
        ``copy-wrong-element``, ``illegal-order``.

    Notes
    -----
    Each value is proven to be the one that the original use would have had.  Source: Loopy's transform of the same
    name; Kloeckner, ARRAY 2014, https://doi.org/10.1145/2627373.2627387.
    """
    space = temporary_address_space
    return Precompute(
        subst_use,
        names_of(sweep_inames),
        None if precompute_inames is None else names_of(precompute_inames),
        None if precompute_outer_inames is None else names_of(precompute_outer_inames),
        default_tag,
        temporary_name,
        space.value if isinstance(space, AddressSpace) else space,
        compute_insn_id,
    )(kernel)
