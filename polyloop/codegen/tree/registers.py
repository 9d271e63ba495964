"""Private arrays with dynamic subscripts.

A private array can be in registers if each subscript is a constant after unrolling, because registers have no
addresses.  The compiler may turn other subscripts into constants, too, if it unrolls further loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pymbolic.primitives as p

from polyloop.codegen.indexed import IndexedArray
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.printer import show
from polyloop.expr.rewrite import accesses, variables
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tags import Unroll, Vectorize
from polyloop.kernel.tree import runs
from polyloop.poly.affine import affine_of
from polyloop.schedule.plan import Launch, Schedule, Statement

__all__ = ["indexed_arrays", "queue_notes"]


def indexed_arrays(schedule: Schedule) -> tuple[IndexedArray, ...]:
    """Return the private arrays with a subscript that is not a constant after unrolling."""
    return tuple(array for launch in schedule.launches for array in _indexed_arrays(launch, schedule))


def _indexed_arrays(launch: Launch, schedule: Schedule) -> Iterator[IndexedArray]:
    used = _accesses(schedule.statements[name] for name in runs(launch.tree))
    loop_tags = schedule.loops.tags
    for storage in launch.temporaries:
        if storage.address_space is not AddressSpace.PRIVATE or not storage.shape or storage.lane is not None:
            continue
        varying: dict[str, None] = {}
        unrolled: dict[str, None] = {}
        first: tuple[str, str] | None = None
        turns: tuple[str, int] | None = None
        for statement, access in used.get(storage.name, ()):
            names = [name for index in access.index_tuple for name in sorted(variables(index))]
            left = [name for name in names if not isinstance(loop_tags.get(name), Unroll | Vectorize)]
            unrolled.update(dict.fromkeys(names if not left else ()))
            varying.update(dict.fromkeys(left))
            here = next(filter(None, (_in_turns(index, left) for index in access.index_tuple)), None)
            if left and (first is None or (here is not None and turns is None)):
                first = (show(access), statement.instruction)
            turns = turns or here
        if first is not None:
            yield IndexedArray(launch.name, storage.name, storage.nbytes, *first, (*varying,), (*unrolled,), turns)


def _in_turns(index: Expression, varying: Sequence[str]) -> tuple[str, int] | None:
    """Return the loop in a subscript modulo a number of places, and that number; None for other subscripts."""
    if not isinstance(index, p.Remainder) or not isinstance(index.denominator, int):
        return None
    form = affine_of(index.numerator)
    steps = dict.fromkeys(variables(index), 1) if form is None else dict(form.terms)
    moving = [name for name in varying if steps.get(name, 0) % index.denominator]
    return (moving[0], index.denominator) if moving else None


def queue_notes(arrays: Iterable[IndexedArray]) -> Iterator[tuple[str, Diagnostic]]:
    """Yield a warning, by name, for each private ring buffer whose places are not known at compile time."""
    for array in arrays:
        if array.turns is None:
            continue
        loop, places = array.turns
        yield array.name, Diagnostic(
            "queue-not-unrolled",
            f"the {places} places of '{array.name}' are taken in turns by loop '{loop}', so they cannot be registers",
            (f"'{array.instruction}' accesses {array.element}: local memory, unless the compiler unrolls by itself",),
            (f'unroll by the number of places: pl.split_iname(knl, "{loop}", {places}, inner_tag="unr"), or let '
             f"'{array.name}' be shared",),
        )  # fmt: skip


def _accesses(statements: Iterable[Statement]) -> dict[str, list[tuple[Statement, p.Subscript]]]:
    """Return the elements of each array that statements name."""
    found: dict[str, list[tuple[Statement, p.Subscript]]] = {}
    for statement in statements:
        for part in (statement.lhs, statement.rhs, *statement.predicates):
            for access in accesses(part):
                if isinstance(access, p.Subscript):
                    found.setdefault(array_name(access), []).append((statement, access))
    return found
