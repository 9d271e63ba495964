"""Hardware axes of a kernel, as a value, and errors of the inames on them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from polyloop.errors import Diagnostic
from polyloop.kernel.domains import bound_variables
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import Domain, LoopKernel

__all__ = ["Axes", "axis_twice", "axis_unbounded"]


@dataclass(frozen=True)
class Axes:
    """The hardware axes of a kernel.

    Attributes
    ----------
    group
        The block axes.
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

    @cached_property
    def key(self) -> tuple[Hashable, ...]:
        """The axes as a hashable value."""
        mappings = (self.local, self.first, self.block)
        return (self.group, *(tuple(mapping.items()) for mapping in mappings))

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
