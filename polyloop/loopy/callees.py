"""Steps on functions: what is done to a function is done to each of its calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import accesses
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.transform.recipe import Recipe

__all__ = ["in_calls"]


def in_calls(caller: LoopKernel, before: LoopKernel, after: LoopKernel) -> LoopKernel:
    """Return *caller* with the steps that lead from a function *before* to *after*, in each place that calls it.

    ::

        f, split_iname("i", 4)      =>      caller, split_iname("f_i", 4), split_iname("f_i_1", 4)

    Raises
    ------
    TransformError
        As the steps.
    """
    done = len(before.trace.steps)
    recipe = Recipe(Recipe.of(after).steps[done:])
    for names in _calls(caller, before, first=_first(after)):
        caller = recipe.apply(caller, rename={old: new for old, new in names.items() if old in recipe.names})
    return caller


def _first(function: LoopKernel) -> LoopKernel:
    """Return a function as it was written."""
    assert function.reference is not None, "a function has its reference program"
    return (function.reference.first or function.reference).kernel


def _calls(caller: LoopKernel, function: LoopKernel, first: LoopKernel) -> Iterator[dict[str, str]]:
    """Yield, for each call, the names of the function's inames, instructions and variables in the caller."""
    known = {entry.id: entry for entry in caller.instructions}
    number = 0
    while True:
        suffix = f"_{number}" if number else ""
        prefix = f"{function.name}{suffix}"
        ids = {entry.id: f"{prefix}_{entry.id}" for entry in first.instructions}
        if len(ids) == 1 and prefix in known:
            ids = dict.fromkeys(ids, prefix)
        if not {*ids.values()} <= known.keys():
            return
        names = dict(ids)
        for entry in function.instructions:
            if entry.id not in ids:
                continue
            here = known[ids[entry.id]]
            names |= _renamed(entry.inames, here.inames, prefix)
            for old, new in ((entry.assignee, here.assignee), (entry.expression, here.expression)):
                names |= dict(zip(_arrays(old, entry), _arrays(new, here), strict=False))
            for one, other in zip(entry.terms, here.terms, strict=False):
                own = len(one.inames) - len(entry.inames)
                names |= _renamed(one.inames[-own:], other.inames[-own:], prefix) if own else {}
        yield {old: new for old, new in names.items() if old != new}
        number += 1


def _arrays(expr: Expression, entry: Instruction) -> list[str]:
    """Return the names of arrays and scalars in *expr*, in their order, without the inames of *entry*."""
    inames = {*entry.inames, *(name for term in entry.terms for name in term.inames)}
    return [name for name in map(array_name, accesses(expr)) if name not in inames]


def _renamed(own: Sequence[str], here: Sequence[str], prefix: str) -> dict[str, str]:
    """Return the names in the caller of a function's inames: with *prefix*, or in the order of the innermost ones."""
    found = {name: spelt for name in own if (spelt := f"{prefix}_{name}") in here}
    left = [name for name in own if name not in found]
    others = [name for name in here if name not in found.values()]
    return found | (dict(zip(left, others[-len(left) :], strict=False)) if left else {})
