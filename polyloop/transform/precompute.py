"""``precompute``: the values of a substitution rule, computed ahead of their use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from polyloop.errors import Diagnostic, unknown_name
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.transform.plan import Plan, fresh_id
from polyloop.transform.staged import Staging, names_of

__all__ = ["Precompute", "precompute"]


@dataclass(frozen=True)
class Precompute(Staging):
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

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if self.subst_use not in kernel.substitutions:
            yield unknown_name("substitution rule", self.subst_use, kernel.substitutions)
            return
        yield from self.plan_violations(kernel)
        count = len(kernel.substitutions[self.subst_use].arguments)
        if self.precompute_inames is not None and len(self.precompute_inames) != count:
            yield Diagnostic(
                "wrong-rank",
                f"rule '{self.subst_use}' has {count} arguments, and {len(self.precompute_inames)} inames were given",
                hints=("give one iname for each argument",),
            )

    def plan(self, kernel: LoopKernel) -> Plan:
        return Plan(
            self.subst_use,
            True,
            self.sweep_inames,
            self.precompute_outer_inames,
            self.temporary_name or kernel.fresh(f"{self.subst_use}_value"),
            self.precompute_inames,
            self.compute_insn_id or fresh_id(kernel, f"compute_{self.subst_use}"),
            self.temporary_address_space,
            self.default_tag,
        )


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
        In ``"global"`` memory the temporary may have extents that depend on parameters; then ``"l.auto"`` leaves the
        new inames sequential: split and tag them.

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
