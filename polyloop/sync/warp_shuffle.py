"""Warp shuffles: temporaries held in registers, of which a lane reads the elements of other lanes.

To the analysis such a temporary is the shared array that it was.  A shuffle reads the register of another thread: the
value that this thread wrote last.  That is the value of the element if no other thread writes it.  All lanes of a warp
must execute every shuffle, or all of an aligned part of one with a power of two lanes; both are proven here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import islpy as isl

from polyloop.errors import Diagnostic
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import is_lane
from polyloop.kernel.tree import Scope
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import Affine
from polyloop.poly.axes import THREAD_AXES
from polyloop.program.ir import Access, Assign, Lowered, Operand, Other, Update
from polyloop.proof.obligation import Claim, Obligation
from polyloop.sync.races import needs

__all__ = ["exchange_obligations", "exchange_problems", "lane_axis"]

_SET: Final = isl.dim_type.set
_LANE: Final = THREAD_AXES[0]
_WARP: Final = 32
"""The mask of a shuffle has a bit for each thread of a warp."""
_LANES: Final = (2, 4, 8, 16, _WARP)
_OWN: Final = Affine.variable(_LANE)


def lane_axis(placement: Placement, name: str) -> int | None:
    """Return the axis of a temporary that the lanes index, None if there is none."""
    for placed in placement.statements.values():
        for write in placed.lowered.writes_to(name):
            indices = placed.indices(write)
            return indices.index(_OWN) if _OWN in indices else None
    return None


def exchange_obligations(placement: Placement) -> Iterator[Obligation]:
    """Yield the obligations of the temporaries that are exchanged by shuffles."""
    used = {a.array for placed in placement.statements.values() for a in placed.lowered.accesses}
    for name, temporary in placement.program.kernel.temporaries.items():
        if temporary.is_shuffled and name in used:
            lanes = placement.axes.local.get(_LANE)
            whole = "whole warps" if lanes == _WARP else f"all {lanes} lanes of a part of a warp"
            says = f"each lane writes its own element of '{name}', and {whole} read those of other lanes"
            by = "subscripts, and the instances of each read along 'l.0'"
            find = partial(exchange_problems, placement, name)
            yield Obligation(Claim.BARRIERS, f"exchange of '{name}'", says, by, find)


def exchange_problems(placement: Placement, name: str) -> Iterator[Diagnostic]:
    """Yield a diagnostic if shuffles cannot implement the accesses to *name*."""
    found = _storage_problem(placement, name)
    if found is not None:
        yield found
        return
    own, lanes = _own_elements(placement, name), placement.axes.local[_LANE]
    assert lanes is not None, "the length of 'l.0' was looked at"
    kernel = placement.program.kernel
    for placed in placement.statements.values():
        for access in placed.lowered.accesses:
            if access.array == name and (found := _access_problem(kernel, placed, access, own, lanes)) is not None:
                yield found
                return
    for need in needs(placement, name, lanes):
        if need.scope not in {Scope.THREAD, Scope.WARP}:
            first, second = (s.lowered.instruction for s in (need.conflict.first, need.conflict.second))
            yield _bad(
                name,
                f"'{first.id}' and '{second.id}' use one element on threads of different "
                + ("warps" if lanes == _WARP else f"groups of {lanes}"),
                hint="shuffles reach the lanes along 'l.0': leave it in shared memory",
                placed=need.conflict.second,
            )
            return


def _storage_problem(placement: Placement, name: str) -> Diagnostic | None:
    temporary, axes = placement.program.kernel.temporaries[name], placement.axes
    space, dtype = placement.spaces[name], temporary.dtype
    if temporary.initializer is not None or space is not AddressSpace.LOCAL:
        where = "a table" if temporary.initializer is not None else str(space)
        return _bad(name, f"it is {where}", hint="only what threads of a block share ('local') can be exchanged")
    if temporary.base_storage is not None:
        return _bad(name, f"it lies in '{temporary.base_storage}', with others", hint="give it storage of its own")
    if dtype is not None and (dtype.kind not in "iuf" or dtype.itemsize not in {4, 8}):
        return _bad(name, f"its type is {dtype}", hint="shuffles move integers and real numbers of 4 or 8 bytes")
    if axes.has_digits or axes.local.get(_LANE) not in _LANES:
        extent = "made of digits" if axes.has_digits else f"{axes.local.get(_LANE, 1)} threads long"
        some = f"{', '.join(map(str, _LANES[:-2]))} or {_LANES[-2]}"
        hint = f"let 'l.0' be the {_WARP} lanes of a warp, or {some} of them"
        return _bad(name, f"axis 'l.0' is {extent}", hint=hint)
    return None


def _own_elements(placement: Placement, name: str) -> tuple[Affine | None, ...] | None:
    """Return the subscripts of the element that belongs to a thread, as the first write says, None if it does not."""
    for placed in placement.statements.values():
        for write in placed.lowered.writes_to(name):
            indices = placed.indices(write)
            axes = [Affine.variable(axis) for axis in placement.axes.local]
            return indices if _OWN in indices and all(form in axes for form in indices) else None
    return None


def _access_problem(
    kernel: LoopKernel, placed: Placed, access: Access, own: tuple[Affine | None, ...] | None, lanes: int
) -> Diagnostic | None:
    lowered, name = placed.lowered, access.array
    is_write = lowered.is_write(access)
    what = f"'{lowered.instruction.id}' {'writes' if is_write else 'reads'} '{name}'"
    if is_write and (own is None or placed.indices(access) != own):
        hint = "each thread has to write one element, its own, as t[lane] with 'lane' on 'l.0'"
        return _bad(name, f"{what} at a subscript that is not the lane itself", hint=hint, placed=placed)
    if own is None:
        return _bad(name, "nothing writes it", hint="leave it out", placed=placed)
    if _is_odd(lowered, access) or any(is_lane(kernel.tag(x)) for x in lowered.inames):
        hint = "only plain assignments and reductions can use it: leave it in shared memory"
        message = f"{what} other than as an operand or the target of an assignment of one thread"
        return _bad(name, message, hint=hint, placed=placed)
    indices = placed.indices(access)
    if indices == own:
        return None
    position = own.index(_OWN)
    if indices[position] is None or _without(indices, position) != _without(own, position):
        hint = "only the subscript of the lane may be another one, and it has to be affine"
        return _bad(name, f"{what} at a subscript that is not known to be in its warp", hint=hint, placed=placed)
    if lowered.is_conditional or access.is_guarded:
        hint = "take the value outside of the condition, into a private temporary"
        return _bad(name, f"{what} under a condition, under which lanes may be missing", hint=hint, placed=placed)
    if not _by_all_lanes(placed, lanes):
        hint = "let every lane read it: choose sizes that are multiples (assumptions), or split without a remainder"
        return _bad(name, f"{what} on some lanes of a warp only", hint=hint, placed=placed)
    return None


def _without(indices: tuple[Affine | None, ...], position: int) -> tuple[Affine | None, ...]:
    return indices[:position] + indices[position + 1 :]


def _is_odd(lowered: Lowered, access: Access) -> bool:
    """Return whether a statement makes an access other than as an operand of its expression, or as its target."""
    instruction = lowered.instruction
    if instruction.is_c or lowered.atomic is not None or instruction.step is not None:
        return True
    is_plain = isinstance(access.kind, Operand) or access.kind is Other.OWN
    return not isinstance(lowered.part, Assign | Update) or bool(access.fields) or not is_plain


def _by_all_lanes(placed: Placed, lanes: int) -> bool:
    """Return whether all lanes execute every instance that one of them does."""
    position = placed.dims.index(_LANE)
    everyone = placed.exact.eliminate(_SET, position, 1)
    everyone = everyone.lower_bound_val(_SET, position, 0).upper_bound_val(_SET, position, lanes - 1)
    return bool(everyone.is_subset(placed.exact))


def _bad(name: str, *notes: str, hint: str, placed: Placed | None = None) -> Diagnostic:
    sites = () if placed is None else (placed.lowered.instruction.site(),)
    return Diagnostic("bad-exchange", f"'{name}' cannot be exchanged by shuffles", notes, (hint,), sites=sites)
