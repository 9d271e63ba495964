"""Hardware axes of a kernel, as a value, and errors of the inames on them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from polyloop.errors import Diagnostic
from polyloop.kernel.domains import bound_variables
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.poly.axes import CLUSTER_AXIS

__all__ = ["Axes", "axis_twice", "axis_unbounded", "open_cluster"]


@dataclass(frozen=True)
class Axes:
    """The hardware axes of a kernel.

    Attributes
    ----------
    group
        The block axes: those of the grid, and that of a cluster.
    local
        Each thread axis with its extent, None if that is not a constant.
    first
        The iname value that runs on index 0 of each axis.
    """

    group: tuple[str, ...]
    local: Mapping[str, int | None]
    first: Mapping[str, int]
    block: Mapping[str, int | None] = field(default_factory=dict)
    """Extents of ``l.0`` to ``l.2`` if inames are digits of the thread number, which ``local`` has then, else empty."""
    cluster: int = 1
    """Blocks of a cluster, along the axis ``c.0``."""

    @cached_property
    def key(self) -> tuple[Hashable, ...]:
        """The axes as a hashable value."""
        mappings = (self.local, self.first, self.block)
        return (self.group, self.cluster, *(tuple(mapping.items()) for mapping in mappings))

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def has_digits(self) -> bool:
        """True if inames are digits of the thread number."""
        return bool(self.block)

    @property
    def is_elementary(self) -> bool:
        """True if the thread axes are digits themselves."""
        return self.has_digits and self.local != self.block

    @property
    def extents(self) -> Mapping[str, int | None]:
        """Threads along ``l.0`` to ``l.2``."""
        return self.block or self.local

    @property
    def grid(self) -> tuple[str, ...]:
        """The axes that number the blocks of the grid, or its clusters."""
        return tuple(axis for axis in self.group if axis != CLUSTER_AXIS)

    @property
    def in_cluster(self) -> tuple[str, ...]:
        """The axis that numbers the blocks of a cluster, if there are several."""
        return (CLUSTER_AXIS,) if CLUSTER_AXIS in self.group else ()

    def extent(self, axis: str) -> int | None:
        """Return the constant number of indices of an axis, None where it may vary."""
        return self.cluster if axis == CLUSTER_AXIS else self.local.get(axis)

    @property
    def all(self) -> tuple[str, ...]:
        """Every axis, blocks first."""
        return (*self.group, *self.local)


def axis_twice(first: str, second: str, axis: str, instruction: Instruction) -> Diagnostic:
    """Return the diagnostic for two inames of one instruction on one axis."""
    hint = "tag one of them with another axis, or leave it sequential"
    if not {first, second} <= set(instruction.inames):
        hint += ", or let the reduction be an instruction of its own, whose result all threads have"
    message = f"inames '{first}' and '{second}' of one instruction are both '{axis}'"
    return Diagnostic("axis-twice", message, hints=(hint,), sites=(instruction.site(),))


def open_cluster(iname: str, instruction: Instruction) -> Diagnostic:
    """Return the diagnostic for an iname on the axis of a cluster without constant bounds."""
    return Diagnostic(
        "bad-cluster",
        f"iname '{iname}' is tagged '{CLUSTER_AXIS}', and the number of its values is no constant",
        ("the blocks of a cluster are so many as the program says when it is compiled",),
        (f"divide it by a number: pl.split_iname(knl, '{iname}', 4, inner_tag='{CLUSTER_AXIS}')",),
        sites=(instruction.site(),),
    )


def axis_unbounded(
    kernel: LoopKernel, home: Domain, iname: str, axis: str, instruction: Instruction
) -> Diagnostic:
    """Return the diagnostic for an iname on an axis without the constant bounds that it needs."""
    bounds = bound_variables(home.set, (*kernel.parameters, *kernel.inames))
    if bounds:
        return Diagnostic(
            "axis-unbounded",
            f"iname '{iname}' is tagged '{axis}', and data decides how long it is",
            (f"its bounds use {', '.join(repr(name) for name in bounds)}, which the kernel computes",),
            ("keep it sequential, or split it and tag the inner iname with a thread axis",),
            sites=(instruction.site(),),
        )
    return Diagnostic(
        "axis-unbounded",
        f"iname '{iname}' is tagged '{axis}' but its least value depends on parameters",
        hints=("shift the iname so that it begins at a constant, or state a bound with assumptions=",),
        sites=(instruction.site(),),
    )
