"""``add_prefetch``: the elements of an array, fetched ahead of their use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from polyloop.errors import Diagnostic, unknown_name
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.transform.staged import Staging, names_of
from polyloop.transform.staging import Plan

__all__ = ["AddPrefetch", "add_prefetch"]


@dataclass(frozen=True)
class AddPrefetch(Staging):
    """Copy the part of an array that some loops read into a temporary, first."""

    name: ClassVar[str] = "add_prefetch"
    var_name: str
    sweep_inames: tuple[str, ...] = ()
    dim_arg_names: tuple[str, ...] | None = None
    default_tag: str | None = "l.auto"
    temporary_name: str | None = None
    temporary_address_space: str = "auto"
    fetch_outer_inames: tuple[str, ...] | None = None
    prefetch_insn_id: str | None = None

    @property
    def temporary(self) -> str:
        """Name of the temporary."""
        return self.temporary_name or f"{self.var_name}_fetch"

    @property
    def instruction(self) -> str:
        """Id of the new instruction."""
        return self.prefetch_insn_id or f"fetch_{self.var_name}"

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        arrays = kernel.arrays()
        if self.var_name not in arrays:
            yield unknown_name("array", self.var_name, arrays)
            return
        yield from self.plan_violations(kernel)
        shape = arrays[self.var_name].shape or ()
        if self.dim_arg_names is not None and len(self.dim_arg_names) != len(shape):
            yield Diagnostic(
                "wrong-rank",
                f"'{self.var_name}' has {len(shape)} axes, and {len(self.dim_arg_names)} inames were given for them",
                hints=("give one iname for each axis",),
            )

    def plan(self) -> Plan:
        return Plan(
            self.var_name,
            False,
            self.sweep_inames,
            self.fetch_outer_inames,
            self.temporary,
            self.dim_arg_names,
            self.instruction,
            self.temporary_address_space,
            self.default_tag,
        )


def add_prefetch(
    kernel: LoopKernel,
    var_name: str,
    sweep_inames: str | Sequence[str] = (),
    dim_arg_names: str | Sequence[str] | None = None,
    *,
    default_tag: str | None = "l.auto",
    temporary_name: str | None = None,
    temporary_address_space: AddressSpace | str = AddressSpace.AUTO,
    fetch_outer_inames: str | Sequence[str] | None = None,
    prefetch_insn_id: str | None = None,
) -> LoopKernel:
    """Copy the part of an array that some loops read into a temporary, ahead of the reads.

    ::

        for io: for ii: out[16*io + ii] = a[16*io + ii] + a[16*io + ii + 1]
        ->                                                     (sweeping ii)
        for io:
            for a_dim_0 in [0, 17): a_fetch[a_dim_0] = a[16*io + a_dim_0]
            for ii: out[16*io + ii] = a_fetch[ii] + a_fetch[ii + 1]

    Parameters
    ----------
    var_name
        The array; every read of it inside the swept loops is redirected.
    sweep_inames
        The elements for all values of these inames are kept at once.
    dim_arg_names
        Names for the new inames, one for each axis of the array; by default ``{var_name}_dim_0``, ...
    default_tag
        Tag of the new inames; ``"l.auto"`` spreads the copy over the threads of the block.
    temporary_name, temporary_address_space, prefetch_insn_id
        Name of the temporary (``{var_name}_fetch``), where it lives (``"auto"``: shared memory where another
        thread reads what one fetched, private otherwise), id of the copying instruction.
    fetch_outer_inames
        Loops around the copy.  By default every iname around the reads that is not swept; threads of the block only
        where the elements depend on them.  The choice is written in the trace.

    Raises
    ------
    TransformError
        ``unknown-array``, ``unknown-iname``, ``not-affine``, ``not-used``, ``sweep-unused``, ``outer-missing``,
        ``footprint-not-constant``, ``name-taken``, ``copy-incomplete``, ``copy-wrong-element``, ``illegal-order``.

    Notes
    -----
    The footprint is the smallest box around the elements read, cut to the elements that exist.  Every read is
    proven to see the element it saw before.  Source: Loopy's transform of the same name.
    """
    space = temporary_address_space
    return AddPrefetch(
        var_name,
        names_of(sweep_inames),
        None if dim_arg_names is None else names_of(dim_arg_names),
        default_tag,
        temporary_name,
        space.value if isinstance(space, AddressSpace) else space,
        None if fetch_outer_inames is None else names_of(fetch_outer_inames),
        prefetch_insn_id,
    )(kernel)
