"""Loops of the host around launches: their bounds, and the facts that they imply for the launches inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from polyloop.codegen.asked import condition_code
from polyloop.codegen.loops.bounds import Bounds
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.loops import Loops
from polyloop.codegen.tree.c_ast import Block, For
from polyloop.codegen.tree.c_expr import conjunction
from polyloop.expr.nodes import Expression
from polyloop.kernel.tree import Loop
from polyloop.schedule.plan import Launch

__all__ = ["HostLoop", "host_loops", "printed"]


@dataclass(frozen=True, eq=False)
class HostLoop:
    """A loop of the host.

    Attributes
    ----------
    context
        The facts that hold outside of it.
    asked
        Conditions under which an iteration begins; the loop ends otherwise.
    """

    iname: str
    bounds: Bounds
    context: Context
    asked: tuple[Expression, ...] = ()


def host_loops(
    launch: Launch, launches: Sequence[Launch], loops: Loops, context: Context
) -> tuple[tuple[HostLoop, ...], Context]:
    """Return the loops of the host around *launch*, outermost first, and the facts that hold inside of them.

    Each runs over the instances of all *launches* inside.
    """
    found: list[HostLoop] = []
    for depth in range(2, len(launch.home) + 1, 2):
        iname = str(launch.home[depth - 1])
        inside = (other.tree for other in launches if other.home[:depth] == launch.home[:depth])
        node = Loop(iname, tuple(chain.from_iterable(inside)))
        bounds = loops.sure_bounds(node, context, frozenset(launch.hosts[: len(found)]))
        asked = launch.asked.loops[depth // 2 - 1] if launch.asked.loops else ()
        found.append(HostLoop(iname, bounds, context, asked))
        context = loops.within(iname, bounds, context)
        loops.define(iname, bounds, context)
    return tuple(found), context


def printed(loop: HostLoop, body: Block, loops: Loops) -> Block:
    """Return a loop of the host in C around *body*."""
    if not body:
        return ()
    start, test, step = loops.head(loop.iname, loop.bounds, loop.context)
    if loop.asked:
        test = conjunction([test, condition_code(loop.asked, loops.scope, loop.context)])
    return (For(loops.scope.index_type, str(loops.scope.values[loop.iname]), start, test, body, step),)
