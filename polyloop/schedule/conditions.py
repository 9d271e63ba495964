"""Conditions of a schedule that the host decides.  Data only."""

from __future__ import annotations

from dataclasses import dataclass

from polyloop.expr.nodes import Expression

__all__ = ["Asked"]


@dataclass(frozen=True, eq=False)
class Asked:
    """Conditions that the host decides; all of them must hold.

    Attributes
    ----------
    launch
        Where the launch runs, in scalar arguments and inames of the host.
    loops
        For each loop of the host around it, where an iteration begins; the loop ends otherwise.  Elements of memory may
        be in them, for which threads ask, too.
    """

    launch: tuple[Expression, ...] = ()
    loops: tuple[tuple[Expression, ...], ...] = ()
