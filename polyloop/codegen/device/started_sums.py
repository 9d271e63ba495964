"""Sums of matrix instructions that begin with what is added to them: registers hold it in place of zeros.

::

    s = 0;  s += a*b by matrix instructions;  c = c*w + s   ->   s = c*w;  s += a*b by matrix instructions;  c = s

An instruction adds to what its registers hold, in an order of its own, so the sum is the same one up to rounding, and
there are no registers for both.  What is added has to be in registers itself, and to stay as it is in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pymbolic.primitives as p

from polyloop.codegen.language import Language
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import accesses, variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tree import Loop, Tree, runs
from polyloop.schedule.plan import Assign, Launch, Schedule, Statement

__all__ = ["with_sums_started"]


def with_sums_started(schedule: Schedule, language: Language) -> Schedule:
    """Return *schedule* with sums that begin with what is added to them, where threads are axes."""
    if not language.has_axes:
        return schedule
    statements = dict(schedule.statements)
    for launch in schedule.launches:
        for name in tuple(runs(launch.tree)):
            product = statements[name].product
            if product is not None and not product.ahead and not product.runs_on:
                statements.update(_started(launch, schedule.statements, name))
    if all(statements[name] is statement for name, statement in schedule.statements.items()):
        return schedule
    return replace(schedule, statements=statements)


def _started(launch: Launch, statements: Mapping[str, Statement], name: str) -> dict[str, Statement]:
    """Return the first values of a sum and its use, as they are to be; nothing if they stay as they are."""
    update, own = statements[name], array_name(statements[name].lhs)
    among = [statements[x] for x in dict.fromkeys(runs(launch.tree))]
    inits = [s for s in among if s.is_assignment and array_name(s.lhs) == own]
    users = [s for s in among if s.name != name and own in variables(s.rhs) and s not in inits]
    if len(inits) != 1 or len(users) != 1 or not isinstance(users[0].action, Assign):
        return {}
    (init,), (user,) = inits, users
    if user.predicates or init.predicates or user.bounds or not isinstance(user.rhs, p.Sum):
        return {}
    mine = [child for child in user.rhs.children if own in variables(child)]
    others = tuple(child for child in user.rhs.children if own not in variables(child))
    if len(mine) != 1 or mine[0] != update.lhs or update.lhs != init.lhs or not others:
        return {}
    added = others[0] if len(others) == 1 else p.Sum(others)
    if not _is_in_registers(launch, added, init, user, own):
        return {}
    if not _stays(launch.tree, statements, (init, update, user), added):
        return {}
    return {init.name: replace(init, rhs=added), user.name: replace(user, rhs=mine[0])}


def _is_in_registers(launch: Launch, added: Expression, init: Statement, user: Statement, own: str) -> bool:
    """Return True if *added* is made of registers of the type of the sums, which both statements can name."""
    private = {t.name: t.dtype for t in launch.temporaries if t.address_space is AddressSpace.PRIVATE}
    names = variables(added)
    target = array_name(user.lhs)
    arrays = {array_name(access) for access in accesses(added)} & private.keys()
    if not names <= {*private, *init.dims} or {private[x] for x in arrays} != {private[own]}:
        return False
    return private.get(target) == private[own] and all(
        access == user.lhs for access in accesses(added) if array_name(access) == target)


def _stays(
    tree: Tree, statements: Mapping[str, Statement], three: Sequence[Statement], added: Expression
) -> bool:
    """Return True if the three statements follow one another in one body, and none between them changes *added*."""
    for body in _bodies(tree):
        places = [next((n for n, node in enumerate(body) if s.name in runs((node,))), None) for s in three]
        if None in places:
            continue
        first, _, last = (place or 0 for place in places)
        if len({*places}) < len(places) or sorted(place or 0 for place in places) != [place or 0 for place in places]:
            continue
        read, init, use = variables(added), three[0], three[-1]
        between = [name for node in body[first : last + 1] for name in runs((node,))]
        outside = (*between[: between.index(init.name)], *between[between.index(use.name) :])
        beside = {name for name in outside if statements[name].lhs == use.lhs}  # in the same iterations
        return all(array_name(statements[name].lhs) not in read for name in between if name not in beside)
    return False


def _bodies(tree: Tree) -> Iterator[Tree]:
    """Yield the bodies of the innermost loops first."""
    for node in tree:
        if isinstance(node, Loop):
            yield from _bodies(node.body)
    yield tree
