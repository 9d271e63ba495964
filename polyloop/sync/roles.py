"""Roles of threads: some start the copies of a block, and the others use what these bring.

Threads of two roles meet at no barrier.  A ring counts for each slot of a tile: its *full* side the bytes that have
arrived, its *free* side the warps that do not use it any more::

    for k:  start k + d;  wait k;  use k
    ->
    the role of the copies:   for k:  wait until slot k + d is free;  start k + d
    the role of the rest:     for k:  free slot k + d;  wait until slot k is full;  use k

A slot is freed where its copy was started.  So what is before a start in the program is before it in execution: a warp
has then executed all of it, and its products are complete.  What uses the elements behind a start has to be behind the
arrival of the copy, for which each thread waits by itself; that is the obligation.

No role waits for ever.  Each executes its statements in the order of the program, and each wait is for something
earlier in that order: a copy that is waited for was started before, and a slot is free once what was before the start
is done.  So of everything that has not happened yet, the earliest can happen.  Only what a start needs besides could
break this, data that the role of the rest computes.  That is refused, but for scalars of a block that each role can
compute by itself: :func:`scalars_of_roles`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import Final

import islpy as isl

from polyloop.dataflow.conflicts import never_meet
from polyloop.dataflow.times import earlier
from polyloop.dataflow.value_flow import writers_of
from polyloop.errors import Diagnostic
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.instruction import CopyStep
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Box, Role
from polyloop.mapping.thread_mapping import Placed, Placement, common_loops, storage_map
from polyloop.poly.axes import is_thread_axis
from polyloop.poly.budget import looking_at
from polyloop.program.ir import Assign
from polyloop.program.lower import Access
from polyloop.proof.obligation import Claim, Obligation
from polyloop.proof.witness import element, instance, pair
from polyloop.sync.async_copy import copy_link, copy_pairs
from polyloop.sync.races import Need

__all__ = ["WARP", "WARPGROUP", "is_by_rings", "register_violations", "role_obligations",
           "scalars_of_roles", "threads_of_roles"]

WARP: Final = 32
WARPGROUP: Final = 128
"""Threads that change their number of registers together (PTX ISA, "setmaxnreg")."""
_REGISTERS: Final = 65536
"""Registers of a multiprocessor (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""
_LEAST, _MOST, _UNIT = 24, 256, 8


def is_by_rings(placement: Placement, need: Need) -> bool:
    """Return True if slots of a ring order the two sides of *need*: one of them is a copy that a role starts."""
    own = {tile for role in placement.program.kernel.roles for tile in role.copies}
    sides = (need.conflict.first.lowered, need.conflict.second.lowered)
    return any(side.instruction.step is not None and side.write.array in own for side in sides)


def threads_of_roles(kernel: LoopKernel, threads: int) -> int:
    """Return the threads of a block with roles, *threads* of which have the last role: the others have a warp each."""
    warps = WARP * (len(kernel.roles) - 1)
    return threads + (-(-warps // WARPGROUP) * WARPGROUP if kernel.roles[-1].registers else warps)


def role_obligations(placement: Placement) -> Iterator[Obligation]:
    """Yield the obligations of the roles of a kernel."""
    kernel = placement.program.kernel
    if not kernel.roles:
        return
    says = "threads of each role are whole warps, and have the registers that they ask for"
    by = "numbers of threads and registers"
    yield Obligation(Claim.DEVICE, "roles", says, by, partial(_thread_violations, placement), kernel.roles)
    for role in kernel.roles[:-1]:
        for tile in role.copies:
            says = f"what uses '{tile}' behind a copy that '{role.name}' starts waits for it"
            by = "times of starts, of arrivals, and of other accesses"
            find = partial(_violations, placement, role, tile)
            yield Obligation(Claim.BARRIERS, f"'{tile}' of '{role.name}'", says, by, find, kernel.roles)


def _violations(placement: Placement, role: Role, tile: str) -> Iterator[Diagnostic]:
    """Yield a diagnostic unless *role* can start the copies of *tile* by itself."""
    found = [(start, arrival) for arrival, starts in copy_pairs(placement) for start in starts
             if start.lowered.write.array == tile]  # fmt: skip
    if len(found) != 1 or not _is_box(placement, found[0][0]):
        yield Diagnostic(
            "role-instruction",
            f"'{role.name}' can start no copies to '{tile}'",
            ("a copy engine copies no boxes to it",),
            (f'let pl.pipeline(knl, .., via="tma") fetch it, or leave \'{tile}\' to the other threads',),
        )
        return
    ((start, arrival),) = found
    for needed, setter in _needed(placement, start):
        rest, copy = placement.program.kernel.roles[-1].name, start.lowered.instruction
        yield Diagnostic(
            "role-circle",
            f"'{role.name}' and '{rest}' would wait for each other",
            (
                f"'{copy.id}' of '{role.name}' needs '{needed}', which '{setter}' of '{rest}' sets",
                f"'{rest}' waits for the copies to '{tile}'",
            ),
            ("leave out pl.assign_roles, or let what is copied be there before the kernel runs",),
            sites=(copy.site(),),
        )
        return
    yield from _early_uses(placement, role, start, arrival)


def _needed(placement: Placement, start: Placed) -> Iterator[tuple[str, str]]:
    """Yield the arrays and bounds that a start needs and only others can set, with the id of an instruction."""
    for name in sorted({*start.lowered.bounds, *(read.array for read in start.lowered.reads)}):
        if scalars_of_roles(placement, name) is not None:
            continue
        is_own = placement.spaces.get(name, AddressSpace.GLOBAL) is not AddressSpace.GLOBAL
        for writer in writers_of(placement, name):
            if is_own or name in start.lowered.bounds or common_loops(placement, writer, start)[0]:
                yield name, writer.lowered.instruction.id
                break


def scalars_of_roles(placement: Placement, name: str) -> frozenset[str] | None:
    """Return the scalars that have to be computed for one called *name*, itself among them, None if a role cannot.

    ::

        g = group[by];  for k:  start copy k of b[g]
        ->
        the role of the copies:   g = group[by];  for k:  wait until ..;  start copy k of b[g]
        the role of the rest:     g = group[by];  for k:  ..

    Each role computes it by itself, with the same value: it is private, the same for all threads of a block, and made
    of numbers and of arguments that nothing writes.
    """
    temporary = placement.program.kernel.temporaries.get(name)
    if temporary is None or temporary.shape or placement.spaces[name] is not AddressSpace.PRIVATE:
        return None
    found = frozenset({name})
    for writer in writers_of(placement, name):
        lowered = writer.lowered
        is_plain = isinstance(lowered.part, Assign) and len(lowered.writes) == 1 and lowered.instruction.step is None
        if not is_plain or lowered.is_conditional or lowered.atomic or any(map(is_thread_axis, writer.own)):
            return None
        for read in lowered.reads:
            if not writers_of(placement, read.array):
                continue
            further = None if read.array in found else scalars_of_roles(placement, read.array)
            if further is None:
                return None
            found |= further
    return found


def _is_box(placement: Placement, start: Placed) -> bool:
    return any(isinstance(placement.program.kernel.tag(x), Box) for x in start.dims)


def _early_uses(placement: Placement, role: Role, start: Placed, arrival: Placed) -> Iterator[Diagnostic]:
    """Yield a diagnostic for a use of elements behind the start of a copy and not behind its arrival."""
    link, _ = copy_link(placement, start, arrival)
    write, arrived = start.lowered.write, link.reverse()
    for other, access in _users(placement, start, arrival):
        behind = earlier(placement, start, other)
        if behind.plain_is_empty():
            continue
        looking_at(start, write, other, access)
        pairs = _together(placement, (start, write), (other, access)).intersect(behind)
        left = pairs.subtract(arrived.apply_range(earlier(placement, arrival, other)))
        if left.is_empty():
            continue
        at, when = pair(left, start, other)
        verb = "writes" if other.lowered.is_write(access) else "reads"
        yield Diagnostic(
            "role-dependence",
            f"'{other.lowered.instruction.id}' may use '{access.array}' while '{role.name}' copies to it",
            (
                f"instance {instance(start, at)} of '{start.lowered.instruction.id}' starts to copy "
                f"{element(start, write, at)}",
                f"instance {instance(other, when)} {verb} {element(other, access, when)} before that copy is waited "
                "for",
            ),
            ("let the copy be waited for before: pl.pipeline with fewer stages, or storage of its own",),
            sites=(other.lowered.instruction.site(),),
        )
        return


def _users(placement: Placement, start: Placed, arrival: Placed) -> Iterator[tuple[Placed, Access]]:
    """Yield the accesses of other statements to the storage of what *start* copies."""
    temporaries, array = placement.program.kernel.temporaries, start.lowered.write.array
    pool = temporaries[array].base_storage
    for other in placement.statements.values():
        if other.name in (start.name, arrival.name) or other.name in placement.completions:
            continue
        for access in other.lowered.accesses:
            mate = temporaries.get(access.array)
            if access.array == array or (pool is not None and mate is not None and mate.base_storage == pool):
                yield other, access


def _together(placement: Placement, left: tuple[Placed, Access], right: tuple[Placed, Access]) -> isl.Map:
    """Return the pairs of instances in one block that may use one place."""
    local = AddressSpace.LOCAL
    if left[1].array != right[1].array:
        cells = [storage_map(placement, statement, Access("", ()), local) for statement, _ in (left, right)]
    elif never_meet(left[1], right[1]):
        space = left[0].domain.get_space().map_from_domain_and_range(right[0].domain.get_space())
        return isl.Map.empty(space)
    else:
        cells = [storage_map(placement, statement, access, local) for statement, access in (left, right)]
    return cells[0].apply_range(cells[1].reverse())


def _thread_violations(placement: Placement) -> Iterator[Diagnostic]:
    kernel, local = placement.program.kernel, placement.axes.local
    extents = [extent for extent in placement.axes.extents.values() if extent != 1]
    steps = [s for s in placement.statements.values() if s.lowered.instruction.step is CopyStep.START]
    own = {tile for role in kernel.roles for tile in role.copies}
    left = [s for s in steps if _is_box(placement, s) and s.lowered.write.array not in own]
    if left:
        yield Diagnostic(
            "bad-roles",
            f"'{left[0].lowered.instruction.id}' starts copies, and no role that copies has them",
            (f"'{kernel.roles[-1].name}' would wait for copies of two kinds of threads",),
            (f"add '{left[0].lowered.write.array}' to a role that copies",),
            sites=(left[0].lowered.instruction.site(),),
        )
        return
    unit = WARPGROUP if kernel.roles[-1].registers else WARP
    if None in local.values():
        return  # refused elsewhere
    threads = prod(extent or 1 for extent in extents)
    if len(extents) > 1 or threads % unit:
        shape = " x ".join(map(str, extents)) or "1"
        note = "threads change their registers by 128" if unit == WARPGROUP else "a warp has one role"
        yield Diagnostic(
            "role-threads",
            f"blocks of {shape} threads cannot have roles",
            (f"{note}: blocks need one axis with a multiple of {unit} threads",),
            ("tag inames as digits of the thread number: l%32, l/32",),
        )
        return
    yield from register_violations(kernel.name, kernel.roles, threads, threads_of_roles(kernel, threads))


def register_violations(name: str, roles: Sequence[Role], rest: int, threads: int) -> Iterator[Diagnostic]:
    """Yield a diagnostic if the registers of *roles* are no budget of a block of *threads*, *rest* of the last role."""
    *copying, computing = roles
    if not computing.registers:
        return
    for role in roles:
        if not _LEAST <= role.registers <= _MOST or role.registers % _UNIT:
            yield Diagnostic(
                "role-registers",
                f"threads of '{role.name}' cannot have {role.registers} registers",
                (f"there can be multiples of {_UNIT} from {_LEAST} to {_MOST}",),
            )
            return
    launched = _REGISTERS // threads // _UNIT * _UNIT
    most, few = max(role.registers for role in copying), min(role.registers for role in copying)
    asked, there = (threads - rest) * most + rest * computing.registers, threads * launched
    notes = (
        f"{threads - rest} threads with {most}, and {rest} with {computing.registers}, are {asked}",
        f"blocks of {threads} threads are launched with {launched} a thread, which are {there}",
    )
    if asked > there or most > launched or computing.registers < launched or most != few:
        fit = min(_MOST, (there - (threads - rest) * _LEAST) // rest) // _UNIT * _UNIT
        hint = f"{launched} to {fit} for '{computing.name}', {_LEAST} to {launched} for each role that copies"
        why = "more registers than there are" if asked > there else "registers that threads of it cannot get"
        yield Diagnostic("role-registers", f"the roles of '{name}' ask for {why}", notes, (hint,))
