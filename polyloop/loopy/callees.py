"""Steps on functions: what is done to a function is done to each of its calls."""

from __future__ import annotations

from collections.abc import Iterator

from polyloop.expr.nodes import array_name
from polyloop.expr.rewrite import accesses
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
            names |= dict(zip(entry.inames, here.inames[-len(entry.inames) :], strict=False))
            for old, new in ((entry.assignee, here.assignee), (entry.expression, here.expression)):
                names |= {array_name(a): array_name(b) for a, b in zip(accesses(old), accesses(new), strict=False)}
            for one, other in zip(entry.terms, here.terms, strict=False):
                own = len(one.inames) - len(entry.inames)
                names |= dict(zip(one.inames[-own:], other.inames[-own:], strict=False)) if own else {}
        yield {old: new for old, new in names.items() if old != new}
        number += 1
