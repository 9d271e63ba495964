"""Variables whose accesses stayed in order: a proof by comparison of texts, for which ISL's dataflow is not asked.

In the reference program, let some loops be around all accesses to a variable, and each read see a write of the same
iteration of these loops.  Let the transformed program have other loops in their place (split, mapped, on threads),
the same for all of these accesses, and below them what the reference program has: the same loops around writes, in the
same order, with the same accesses.  Where every thread has a variable of its own, each iteration of the new loops then
makes the accesses that one iteration of the old ones makes, in the same order, and begins with a write: each read sees
the same write as before.  Loops around reads alone may be others: nothing is written inside of them.

A loop that is not around all accesses, but numbers copies of the variable (a lane), is one of the loops in place: for
one value of it, only one copy is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import islpy as isl

from polyloop.analysis.dataflow import is_exact, known_flow, readers_of, writers_of
from polyloop.analysis.lowering import Access, Lowered, lower
from polyloop.analysis.placement import Placed, Placement, axes_of, place_statement
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.instruction import Copy
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.poly.affine import Affine
from polyloop.poly.budget import looking_at
from polyloop.poly.sets import map_from_forms

__all__ = ["is_unmoved"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out
_SET = isl.dim_type.set

_Path: TypeAlias = "tuple[tuple[int, ...] | str, ...]"
"""Positions and loops; a position is one number, and one more for each loop over lanes that is left out."""


@dataclass(frozen=True, eq=False)
class _Home:
    """The accesses to a variable in the reference program.

    ``loops`` are around all of them, and each read sees a write of its own iteration of these; ``below`` has the
    place of each statement inside of them, as far as there are writes.
    """

    statements: tuple[Placed, ...]
    loops: tuple[str, ...]
    below: Mapping[str, _Path]


@dataclass(frozen=True, eq=False)
class _Pair:
    """A statement of the transformed program and the one that it copies.

    ``forms`` has each loop of the reference statement in terms of the dimensions of the new one; ``outside`` are
    those dimensions that stand for the loops outside, ``lanes`` those of them that number copies of the variable.
    """

    new: Placed
    reference: Placed
    forms: Mapping[str, Affine]
    outside: tuple[str, ...]
    lanes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Memory:
    """What is known about one program: sets by their classes, and which of them follow which."""

    classes: list[tuple[tuple[str, ...], isl.Set]] = field(default_factory=list)
    of: dict[Placed, int] = field(default_factory=dict)
    outer: dict[tuple[int, tuple[str, ...]], int] = field(default_factory=dict)
    follows: dict[tuple[object, ...], bool] = field(default_factory=dict)
    homes: dict[str, _Home | None] = field(default_factory=dict)
    verdicts: dict[str, bool] = field(default_factory=dict)
    forms: dict[Placed, Mapping[str, Affine]] = field(default_factory=dict)
    """Of a copy: the loops of the reference statement in terms of its dimensions."""
    users: dict[str, list[Lowered]] = field(default_factory=dict)
    """The statements that access each variable, once somebody asked."""

    def class_of(self, dims: tuple[str, ...], domain: isl.Set) -> int:
        """Return a number that only sets with the same dimensions and the same text have."""
        for number, (others, known) in enumerate(self.classes):
            if others == dims and known.plain_is_equal(domain):
                return number
        self.classes.append((dims, domain))
        return len(self.classes) - 1

    def domain_class(self, statement: Placed) -> int:
        """Return the class of a statement's domain."""
        if statement not in self.of:
            self.of[statement] = self.class_of(statement.dims, statement.domain)
        return self.of[statement]

    def iterations(self, statement: Placed, outside: tuple[str, ...]) -> int:
        """Return the class of the values of some dimensions for which *statement* runs."""
        key = (self.domain_class(statement), outside)
        if key not in self.outer:
            found = statement.domain
            for position in range(len(statement.dims) - 1, -1, -1):
                if statement.dims[position] not in outside:
                    found = found.project_out(_SET, position, 1)
            self.outer[key] = self.class_of(outside, found)
        return self.outer[key]


@memoised
def _memory(owner: LoopKernel | Placement) -> _Memory:
    return _Memory()


def is_unmoved(kernel: LoopKernel, old: Placement, variable: str) -> bool:
    """Return whether each read of *variable* is sure to see its write, if each thread has a variable of its own.

    False means nothing.

    Parameters
    ----------
    kernel
        The transformed kernel, with loops for its lanes.
    old
        The reference program.
    """
    known = _memory(kernel).verdicts
    if variable not in known:
        known[variable] = _decide(kernel, old, variable)
    return known[variable]


def _decide(kernel: LoopKernel, old: Placement, variable: str) -> bool:
    if kernel.buffers or variable in kernel.evaluations or variable not in old.program.kernel.temporaries:
        return False
    homes = _memory(old).homes
    if variable not in homes:
        homes[variable] = _home(old, variable)
    home = homes[variable]
    if home is None:
        return False
    pairs = _pairs(kernel, home, variable)
    if pairs is None:
        return False
    first = pairs[0]
    outer = tuple(first.forms[loop] for loop in home.loops)
    return (
        all(_same_accesses(pair, variable) for pair in pairs)
        and all(pair.outside == first.outside for pair in pairs)
        and all(pair.new.repeated == first.new.repeated for pair in pairs)
        and all(tuple(pair.forms[loop] for loop in home.loops) == outer for pair in pairs)
        and _same_instances(_memory(kernel), _memory(old), variable, pairs)
    )


# {{{ the reference program


@memoised
def _by_array(lowered: Lowered) -> dict[str, list[Access]]:
    """Return the accesses of a statement, writes first, by what they access."""
    found: dict[str, list[Access]] = {}
    for access in (*lowered.writes, *lowered.reads):
        found.setdefault(access.array, []).append(access)
    return found


def _accesses(statement: Placed, variable: str) -> Sequence[Access]:
    return _by_array(statement.lowered).get(variable, ())


@memoised
def _plain(lowered: Lowered) -> frozenset[str]:
    """Return the variables whose accesses in a statement are plain: each happens, to an element that is known."""
    if lowered.bounds or lowered.instruction.is_c:
        return frozenset()
    written = {write.array for write in lowered.writes} if lowered.is_conditional else set[str]()
    written.update(write.array for write in lowered.writes if write.fields)
    plain = (name for name, own in _by_array(lowered).items() if all(a.domain is None and a.is_affine() for a in own))
    return frozenset(plain) - written


def _is_plain(statement: Placed, variable: str) -> bool:
    return variable in _plain(statement.lowered)


def _home(old: Placement, variable: str) -> _Home | None:
    """Return what the reference program says about *variable*, None where this module can say nothing about it."""
    statements = tuple(dict.fromkeys((*writers_of(old, variable), *(s for s, _ in readers_of(old, variable)))))
    if old.axes.all or not statements or not all(_is_plain(s, variable) for s in statements):
        return None
    if not is_exact(old, variable):
        return None
    flow = known_flow(old, variable)
    if not flow.reads or not all(initial.is_empty() for initial in flow.initial):
        return None
    places = {s.name: _without((), old.program.places[s.name]) for s in statements}
    around = _around(list(places.values()))
    loops = tuple(x for x in around if isinstance(x, str))
    links = [
        (reader, writer, link)
        for (reader, _), sources in zip(flow.reads, flow.sources, strict=True)
        for writer, link in sources
    ]
    while loops and not flow.is_direct and not all(_within(loops, *entry) for entry in links):
        loops = loops[:-1]  # a direct flow stays inside of all loops that are around reader and writer
    cut = around.index(loops[-1]) + 1 if loops else 0
    writers = [s.name for s in statements if s.lowered.writes_to(variable)]
    return _Home(statements, loops, _above_reads({name: path[cut:] for name, path in places.items()}, writers))


def _within(loops: tuple[str, ...], reader: Placed, writer: Placed, link: isl.Map) -> bool:
    """Return whether reads see writes of the same iteration of *loops*."""
    same = link
    for loop in loops:
        same = same.equate(_IN, reader.dims.index(loop), _OUT, writer.dims.index(loop))
    return bool(link.is_subset(same))


def _around(paths: Sequence[_Path]) -> _Path:
    """Return the way to the innermost loop around all of *paths*: positions and loops, ending with a loop."""
    depth = 0
    while all(len(path) > depth + 1 and path[: depth + 2] == paths[0][: depth + 2] for path in paths):
        depth += 2
    return paths[0][:depth]


def _above_reads(paths: Mapping[str, _Path], writers: Sequence[str]) -> dict[str, _Path]:
    """Return *paths*, those of reads only down to the innermost loop that has a write in it."""

    def shared(path: _Path) -> int:
        depths = [0]
        for writer in writers:
            both = zip(path, paths[writer], strict=False)
            depth = next((at for at, (a, b) in enumerate(both) if a != b), min(len(path), len(paths[writer])))
            depths.append(depth - depth % 2)
        return max(depths)

    return _ranked({name: path if name in writers else path[: shared(path) + 1] for name, path in paths.items()})


def _ranked(paths: Mapping[str, _Path]) -> dict[str, _Path]:
    """Return *paths* with each position replaced by its rank among those that are taken."""
    taken: dict[_Path, set[tuple[int, ...]]] = {}
    for path in paths.values():
        for depth, entry in enumerate(path):
            if isinstance(entry, tuple):
                taken.setdefault(path[:depth], set()).add(entry)
    ranks = {prefix: {entry: rank for rank, entry in enumerate(sorted(found))} for prefix, found in taken.items()}
    return {
        name: tuple((ranks[path[:depth]][x],) if isinstance(x, tuple) else x for depth, x in enumerate(path))
        for name, path in paths.items()
    }


# }}}


# {{{ the transformed program


def _pairs(kernel: LoopKernel, home: _Home, variable: str) -> list[_Pair] | None:
    """Return who copies whom, None where the copies do not have the places that the reference program gives them."""
    found = _copies(kernel, home, variable)
    if found is None:
        return None
    places = lower(kernel).places
    lanes = _lanes(found, variable)
    if lanes is None:
        return None
    paths = {reference.name: _without(lanes, places[new.name]) for reference, new in found.items()}
    around = _around(list(paths.values()))
    writers = [s.name for s in home.statements if s.lowered.writes_to(variable)]
    below = _above_reads({name: path[len(around) :] for name, path in paths.items()}, writers)
    if below != home.below:
        return None
    loops = {x for x in around if isinstance(x, str)}
    result = []
    for reference, new in found.items():
        origin = new.lowered.instruction.origin
        assert isinstance(origin, Copy), "only copies are compared"
        inside = [x for x in below[reference.name] if isinstance(x, str)]
        forms = {x: origin.forms[x] for x in reference.lowered.inames}
        if not all(x in new.dims and forms[x] == Affine.variable(x) for x in inside):
            return None
        placed = _memory(kernel).forms.get(new)
        if placed is None:
            placed = _memory(kernel).forms[new] = {x: form.substitute(new.forms) for x, form in forms.items()}
        outside = tuple(x for x in new.dims if "." in x or x in loops)
        result.append(_Pair(new, reference, placed, (*outside, *lanes), lanes))
    return result


def _users(kernel: LoopKernel) -> Mapping[str, Sequence[Lowered]]:
    users = _memory(kernel).users
    if not users:
        for lowered in lower(kernel).statements.values():
            for name in {access.array for access in lowered.accesses}:
                users.setdefault(name, []).append(lowered)
    return users


def _copies(kernel: LoopKernel, home: _Home, variable: str) -> dict[Placed, Placed] | None:
    """Return the only copy of each statement that accesses *variable*, None where there is another access."""
    axes = axes_of(kernel)
    originals = {(s.lowered.instruction.id, s.lowered.role): s for s in home.statements}
    found: dict[Placed, Placed] = {}
    for lowered in _users(kernel).get(variable, ()):
        origin = lowered.instruction.origin
        reference = originals.get((origin.instruction, lowered.role)) if isinstance(origin, Copy) else None
        placed = place_statement(kernel, lowered, axes, AddressSpace.PRIVATE)
        if reference is None or reference in found or not _is_plain(placed, variable):
            return None
        found[reference] = placed
    return found if len(originals) == len(home.statements) == len(found) else None


def _lanes(found: Mapping[Placed, Placed], variable: str) -> tuple[str, ...] | None:
    """Return the loops that number copies of *variable*, whose subscripts stand first in all of its accesses.

    None where accesses differ in them.
    """
    lanes: set[tuple[Affine | None, ...]] = set()
    for reference, new in found.items():
        rank = len(_accesses(reference, variable)[0].indices)
        lanes.update(new.indices(access)[: len(access.indices) - rank] for access in _accesses(new, variable))
    (first, *others) = lanes
    names = tuple(form.terms[0][0] for form in first if form is not None and form.terms)
    plain = tuple(name for name in names if isinstance(name, str) and "." not in name)
    if others or first != tuple(Affine.variable(name) for name in plain) or len({*plain}) < len(plain):
        return None
    return plain if all({*plain} <= {*new.dims} for new in found.values()) else None


def _without(lanes: tuple[str, ...], path: tuple[int | str, ...]) -> _Path:
    """Return *path* without the loops over *lanes*: for one value of them, what is inside runs in its order."""
    found: list[tuple[int, ...] | str] = []
    for entry in path:
        if isinstance(entry, int):
            before = found.pop() if found and isinstance(found[-1], tuple) else ()
            assert isinstance(before, tuple), "a position"
            found.append((*before, entry))
        elif entry not in lanes:
            found.append(entry)
    return tuple(found)


def _same_accesses(pair: _Pair, variable: str) -> bool:
    """Return whether both access the same elements, in the same order."""
    mine, others = _accesses(pair.new, variable), _accesses(pair.reference, variable)
    if len(mine) != len(others):
        return False
    for one, other in zip(mine, others, strict=True):
        wanted = tuple(None if form is None else form.substitute(pair.forms) for form in other.indices)
        if pair.new.indices(one)[len(pair.lanes) :] != wanted:
            return False
        if one.is_bound != other.is_bound or one.fields != other.fields:
            return False
        if pair.new.lowered.is_write(one) != pair.reference.lowered.is_write(other):
            return False
    return True


def _same_instances(new: _Memory, old: _Memory, variable: str, pairs: Sequence[_Pair]) -> bool:
    """Return whether an iteration outside in which something is read has the writes that the reference program has."""
    readers = [pair for pair in pairs if any(read.array == variable for read in pair.new.lowered.reads)]
    iterations = {new.iterations(pair.new, pair.outside) for pair in readers}
    for pair in pairs:
        forms = tuple(pair.forms[x] for x in pair.reference.dims)
        key = (new.domain_class(pair.new), old.domain_class(pair.reference), forms)
        if not _known(new, key, partial(_stays, pair)):
            return False
        if not pair.reference.lowered.writes_to(variable):
            continue
        for number in iterations:
            _, outer = new.classes[number]
            if not _known(new, (*key, pair.outside, number), partial(_has, pair, outer)):
                return False
    return True


def _known(memory: _Memory, key: tuple[object, ...], find: Callable[[], bool]) -> bool:
    if key not in memory.follows:
        memory.follows[key] = find()
    return memory.follows[key]


def _wanted(pair: _Pair) -> isl.Set:
    """Return the points over the dimensions of the new statement that stand for an instance of the reference one."""
    forms = [pair.forms[x] for x in pair.reference.dims]
    whole = isl.Set.universe(pair.new.domain.get_space())
    return map_from_forms(whole, pair.new.dims, forms).intersect_range(pair.reference.domain).domain()


def _stays(pair: _Pair) -> bool:
    """Return whether every instance stands for one of the reference program."""
    looking_at(pair.new, pair.reference)
    return bool(pair.new.domain.is_subset(_wanted(pair)))


def _has(pair: _Pair, iterations: isl.Set) -> bool:
    """Return whether the new statement has all that the reference one has, in some iterations outside."""
    looking_at(pair.new, pair.reference)
    whole = isl.Set.universe(pair.new.domain.get_space())
    reached = map_from_forms(whole, pair.new.dims, [Affine.variable(x) for x in pair.outside])
    return bool(reached.intersect_range(iterations).domain().intersect(_wanted(pair)).is_subset(pair.new.domain))


# }}}
