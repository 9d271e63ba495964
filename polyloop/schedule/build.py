"""From a kernel to a finished, verified schedule."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from math import prod
from typing import Final

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.uniformity import varying, warp_axes
from polyloop.errors import Diagnostic, VerificationError, warn
from polyloop.expr.nodes import Expression, Record, Terms
from polyloop.expr.operations import neutral_element
from polyloop.expr.rewrite import substitute
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace, ArrayArg
from polyloop.kernel.instruction import Copy
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import order_tags
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.swizzle import swizzle_problem
from polyloop.kernel.tags import InameTag, Interleave, Unroll, UnrollHint, Vectorize
from polyloop.kernel.tree import Barrier, Loop, Node, Scope, Tree, runs
from polyloop.mapping.array_contraction import contracted_axes, without_axes
from polyloop.mapping.collective_shape import Kind, meeting_of
from polyloop.mapping.mixed_radix import Digit
from polyloop.mapping.thread_mapping import Axes, Placed, Placement
from polyloop.memo import memoised
from polyloop.optimize.over_execution import Edges, at_edges
from polyloop.poly.affine import Affine, to_expression
from polyloop.poly.axes import number_of, thread_axis
from polyloop.program.expand_lanes import with_lanes
from polyloop.program.infer_types import accumulator_dtypes, dtype_table, require_dtypes
from polyloop.proof.obligation import Proof, share_proofs
from polyloop.schedule.barrier import idle_barriers, place_barriers, requirements
from polyloop.schedule.collective import Collective, reuse_requirements
from polyloop.schedule.copies import without_copies
from polyloop.schedule.fronts import fronts_of
from polyloop.schedule.obligations import discharge, obligations, storage_obligations
from polyloop.schedule.plan import Launch, Product, Schedule, Statement, Storage
from polyloop.schedule.terms import with_terms_at_once
from polyloop.schedule.trust import taken_on_trust
from polyloop.schedule.waits import Wait, reuse_waits, wait_obligations, waits
from polyloop.sync.async_copy import arrivals
from polyloop.sync.launches import launch_cuts, launch_of, passages
from polyloop.sync.lookback_progress import is_over_blocks
from polyloop.sync.races import Need, needs, shared_arrays
from polyloop.sync.storage_aliasing import pool_needs
from polyloop.sync.warp_shuffle import lane_axis
from polyloop.transform.loops.auto_local import assign_auto
from polyloop.verification.matrix_instructions import is_swapped

__all__ = ["Verified", "build_schedule", "build_verified", "prepared"]

_LANES: Final = 16
"""Accumulators of a thread for each of which threads combine what they have in shared memory of its own."""


@dataclass(frozen=True, eq=False)
class Verified:
    """A schedule, and what was proven of it.

    ``waits`` says what keeps apart the threads that use one element; ``assumed`` is what was taken on the user's word;
    ``placement`` is the program on its threads that the schedule was made of.
    """

    schedule: Schedule
    placement: Placement
    proofs: tuple[Proof, ...]
    waits: tuple[Wait, ...]
    assumed: tuple[str, ...]


def build_schedule(kernel: LoopKernel, limits: DeviceLimits) -> Schedule:
    """Return the schedule of *kernel*, proven to compute what its reference program computes.

    See :func:`build_verified`.
    """
    return build_verified(kernel, limits).schedule


def _has_gaps(verified: Verified) -> bool:
    """Return whether something was let pass unproven, which is looked at again the next time."""
    return any(finding.code == "not-proven" for proof in verified.proofs for finding in proof.found)


@memoised(unless=_has_gaps)
def build_verified(kernel: LoopKernel, limits: DeviceLimits) -> Verified:
    """Return the schedule of *kernel*, with the proofs that it computes what its reference program computes.

    Raises
    ------
    VerificationError
        ``unknown-dtype``, ``local-size-not-constant``, ``block-too-large``, ``shared-too-large``,
        ``private-across-launches``, ``race``, and what the checks of values find.
    """
    return _build(kernel, limits)


@memoised
def prepared(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* as schedules are made of it: every axis decided, every type known, lanes as loops.

    Raises
    ------
    VerificationError
        ``unknown-dtype``.
    """
    expanded = with_lanes(assign_auto(kernel))
    typed = require_dtypes(expanded)
    return expanded if _same_types(expanded, typed) else typed


def _build(original: LoopKernel, limits: DeviceLimits) -> Verified:
    kernel = prepared(original)
    if kernel is not original and kernel is with_lanes(original):  # the program that transforms looked at
        share_proofs(original, kernel)
    placement = place(kernel)
    proofs = [*discharge(kernel, obligations(placement, limits))]
    edges = at_edges(placement)
    given, placement = placement, edges.placement
    if not limits.has_threads:
        edges = Edges(given)
    shuffled = [t.name for t in kernel.temporaries.values() if t.is_shuffled and limits.has_shuffles]
    shared = (array for array in shared_arrays(placement) if array not in shuffled)
    found = [need for array in shared for need in needs(placement, array, limits.warp_size)]
    found += pool_needs(placement, limits.warp_size)
    warn("schedule", kernel.name, idle_barriers(placement, found), kernel.silenced_warnings)
    axes = {name: gone for name, gone in contracted_axes(placement).items() if name not in shuffled}
    collectives = _collectives(placement, limits)
    storages = _storages(placement, axes)
    storages.update(_of_lanes(placement, storages, shuffled))
    storages.update(_scratch(placement, collectives, limits))
    storages.update((name, replace(storages[name], cleared=True)) for name in edges.cleared)
    proofs += discharge(kernel, [storage_obligations(storages.values(), limits)])
    tree = placement.program.tree
    cuts = launch_cuts(placement, found)
    if cuts:
        crossing = tuple(_crossing(placement, cuts))
        if crossing and (chosen := _built_with_global(original, placement, cuts, limits)) is not None:
            waived = frozenset(_open(proofs))
            if waived.issuperset(_open(chosen.proofs)):  # a waiver is not about what is chosen here
                return chosen
        if crossing:  # the values are private by nature
            raise VerificationError("schedule", kernel.name, crossing)
    meetings = [name for name, collective in collectives.items() if collective.scratch]
    reuses = reuse_requirements(placement, collectives)
    tree = place_barriers(tree, [*requirements(placement, found), *reuses], cuts, meetings)
    pending = {entry.arrival.name: entry.pending for entry in arrivals(placement)}
    statements = {
        name: replace(statement, pending=pending[name]) if name in pending else statement
        for name, placed in edges.placement.statements.items()
        if placed.lowered.role != "combine" or name in collectives
        if (statement := _statement(kernel, placed, axes, collectives.get(name))) is not None
    }
    for name in edges.filled & statements.keys():
        copied = _statement(kernel, given.statements[name], axes, None)
        assert copied is not None, f"phantoms of '{name}', which never runs"
        statements[name] = replace(statements[name], copied=copied.domain, is_awaited=name not in edges.unawaited)
    exchanged = frozenset(need.array for need in found if _inside_a_launch(placement, need, cuts))
    launches = tuple(_launches(placement, tree, cuts, storages, exchanged, collectives))
    users = {name: placement.statements[name].lowered.instruction.id for name in meetings}
    found_waits = (*waits(found, launches, meetings), *reuse_waits(collectives, users, launches))
    proofs += discharge(kernel, [wait_obligations(found_waits, limits)])
    if kernel.partials:
        launches, statements = without_copies(launches, statements, kernel.partials)
        dtypes = {name: array.dtype for name, array in kernel.arrays().items()}
        launches, statements = with_terms_at_once(launches, statements, dtypes)
    schedule = Schedule(
        name=kernel.name,
        parameters=kernel.parameters,
        assumptions=kernel.assumptions,
        arguments=kernel.arguments,
        workspace=_workspace(placement),
        tables={n: t.initializer for n, t in kernel.temporaries.items() if t.initializer is not None},
        statements=statements,
        launches=launches,
        loop_tags=dict(_loop_tags(kernel)),
        tile_inames=kernel.tile_inames,
        slabs=dict(kernel.slabs),
        fronts={} if meetings else fronts_of(placement, found, tree, kernel.slabs),
        conditions=kernel.conditions,
        preambles=kernel.preambles,
        index_dtype=kernel.index_dtype,
        long=_long(kernel),
        unchecked=_unchecked(kernel, proofs),
        left_open=() if edges.open is None else ((kernel.name, edges.open),),
        phantoms=edges.placement.phantoms,
        digit_names=_digit_names(placement),
        varying=varying(placement),
        warp_axes=warp_axes(placement),
        indices=tuple(_indices(placement)),
    )
    return Verified(schedule, given, tuple(proofs), found_waits, tuple(taken_on_trust(placement)))


def _digit_names(placement: Placement) -> dict[str, str]:
    """Return what to call digits of the thread number: as the only iname that is one, or by how it is computed."""
    found: dict[str, set[str]] = {}
    digits: dict[str, Digit] = {}
    for placed in placement.statements.values():
        if placed.digits is not None:
            digits.update(placed.digits.extents)
            for iname, form in placed.digits.forms.items():
                for name in form.names():
                    found.setdefault(name, set()).add(iname)
    threads = prod(size for size in placement.axes.extents.values() if size is not None)
    names = {axis: digit.title(threads) for axis, digit in digits.items()}
    return names | {axis: min(inames) for axis, inames in found.items() if len(inames) == 1}


def _indices(placement: Placement) -> Iterator[tuple[str, Affine]]:
    """Yield the inames of the reference program that several inames make up now."""
    found: dict[Affine, str] = {}
    for placed in placement.statements.values():
        origin = placed.lowered.instruction.origin
        if isinstance(origin, Copy):
            places = placed.forms if placed.digits is None else placed.digits.forms
            for iname, form in origin.forms.items():
                placed_form = form.substitute(places)
                if len(placed_form.terms) > 1:
                    found.setdefault(placed_form, iname)
    yield from ((iname, form) for form, iname in found.items())


def _long(kernel: LoopKernel) -> frozenset[str]:
    """Return the dimensions that are int64 where they are values."""
    types = dtype_table(kernel)
    return frozenset(kernel.axis(iname) or iname for iname in kernel.inames if types[iname] == np.int64)


def _unchecked(kernel: LoopKernel, proofs: Sequence[Proof]) -> tuple[str, ...]:
    """Return the user's reasons for not insisting on proofs, and what is not proven."""
    lines = [f"unchecked: {reason}" for reason in kernel.waivers]
    if kernel.waivers:
        found = [finding.message.removeprefix("not proven: ") for finding in _open(proofs)]
        lines += [f"not proven: {message}" for message in found]
    return tuple(lines)


def _loop_tags(kernel: LoopKernel) -> Iterator[tuple[str, InameTag]]:
    """Yield how loops are printed that are not plain ones; lanes stand around one statement and are unrolled."""
    for iname, tag in kernel.iname_tags.items():
        if isinstance(tag, Interleave) and tag.unrolled:
            yield iname, Unroll()
        elif isinstance(tag, Unroll | UnrollHint | Vectorize):
            yield iname, tag


def _same_types(old: LoopKernel, new: LoopKernel) -> bool:
    return old.arguments == new.arguments and old.temporaries == new.temporaries


def _of_lanes(
    placement: Placement, storages: Mapping[str, Storage], shuffled: Collection[str]
) -> Iterator[tuple[str, Storage]]:
    """Yield the temporaries of which each lane of a warp has its element in a variable, by name."""
    for name in shuffled:
        if name in storages:
            lane = lane_axis(placement, name)
            block = tuple(extent or 0 for _, extent in sorted(placement.axes.local.items()))
            yield name, Storage(name, storages[name].dtype, (), AddressSpace.PRIVATE, lane=lane, block=block)


def _storages(placement: Placement, axes: Mapping[str, frozenset[int]]) -> dict[str, Storage]:
    kernel = placement.program.kernel
    found: dict[str, Storage] = {}
    for name, dtype in accumulator_dtypes(kernel).items():
        shape = placement.program.accumulators[name].shape
        found[name] = Storage(name, dtype, shape, AddressSpace.PRIVATE)
    used = {a.array for s in placement.statements.values() for a in s.lowered.accesses}
    for name, temporary in kernel.temporaries.items():
        if name not in used:
            continue
        space = placement.spaces[name]
        gone = axes.get(name, frozenset())
        extents = tuple(extent for k, extent in enumerate(temporary.shape or ()) if k not in gone)
        if space is AddressSpace.GLOBAL:
            continue
        if not all(isinstance(extent, int) for extent in extents):
            raise VerificationError("schedule", kernel.name, [_not_constant(name, extents)])
        assert temporary.dtype is not None, f"{name} has no type"
        storage = Storage(name, temporary.dtype, tuple(extents), space, temporary.padding, pool=temporary.base_storage)
        kept = [k for k in range(len(temporary.shape or ())) if k not in gone]
        nesting = temporary.nesting()
        if nesting is None:
            strides = temporary.strides()
            storage = replace(storage, padding=0, strides=tuple(s for k in kept if isinstance(s := strides[k], int)))
        elif nesting != tuple(range(len(nesting))):
            storage = replace(storage, nesting=tuple(kept.index(axis) for axis in nesting if axis in kept))
        if temporary.swizzle is not None and space is AddressSpace.LOCAL:
            if found_problem := swizzle_problem(temporary.swizzle, temporary.row(), nesting):
                raise VerificationError("schedule", kernel.name, [_not_swizzled(name, found_problem)])
            storage = replace(storage, swizzle=temporary.swizzle)
        found[name] = storage
    return found


def _not_swizzled(name: str, problem: str) -> Diagnostic:
    hints = ("swizzle after the transforms that change the shape or the layout of an array",)
    return Diagnostic("bad-swizzle", f"'{name}' cannot be swizzled", (problem,), hints)


def _collectives(placement: Placement, limits: DeviceLimits) -> dict[str, Collective]:
    """Return what the threads of a block do together, by statement; one thread has nothing to combine."""
    taken = {*placement.program.kernel.names(), *placement.program.accumulators}
    found: dict[str, Collective] = {}
    ticket = None
    for name, placed in placement.statements.items():
        lowered = placed.lowered
        if lowered.role != "combine" or placed.domain.is_empty():
            continue
        assert lowered.operation is not None, "a combine belongs to a reduction"
        scratch = passed = number = None
        kind = Kind.COMBINE
        if lowered.along:
            kind = Kind.EXCLUSIVE if lowered.after else Kind.INCLUSIVE
        meeting = meeting_of(_local_size(placement.axes.local), lowered.across, limits.warp_size)
        if kind is Kind.COMBINE and not meeting.across:
            continue
        if is_over_blocks(placed):
            scratch, passed = _fresh("before", taken), _fresh("totals", taken)
            while f"{passed}_known" in taken:
                passed = _fresh("totals", taken)
            number = ticket = ticket or _fresh("ticket", taken)
        elif meeting.scratch(kind, lowered.operation):
            scratch = _fresh("partial", taken)
        lanes = placement.program.accumulators[lowered.write.array].shape
        inside = [form.names() for form in lowered.write.indices if form is not None]
        apart = frozenset[str]().union(*inside) if scratch and kind is Kind.COMBINE and prod(lanes) <= _LANES else None
        is_direct = meeting.parts == 1 and passed is None
        found[name] = Collective(
            kind, lowered.operation, lowered.across, scratch, apart or frozenset(), is_direct, passed, number
        )
    return found


def _fresh(wish: str, taken: set[str]) -> str:
    """Return a name that is not among those taken, and take it."""
    name = next(name for name in chain([wish], (f"{wish}_{number}" for number in count())) if name not in taken)
    taken.add(name)
    return name


def _scratch(
    placement: Placement, collectives: Mapping[str, Collective], limits: DeviceLimits
) -> Iterator[tuple[str, Storage]]:
    """Yield the shared arrays through which the threads of a block combine their values, by name."""
    dtypes = accumulator_dtypes(placement.program.kernel)
    for name, collective in collectives.items():
        if collective.scratch is not None:
            dtype = dtypes[placement.statements[name].lowered.write.array]
            meeting = meeting_of(_local_size(placement.axes.local), collective.across, limits.warp_size)
            size = meeting.scratch(collective.kind, collective.operation) if collective.chain is None else 1
            accumulator = placement.program.accumulators[placement.statements[name].lowered.write.array]
            shape = (*(accumulator.shape if collective.apart else ()), size)
            storage = Storage(collective.scratch, dtype, shape, AddressSpace.LOCAL)
            yield collective.scratch, storage
        if collective.ticket is not None:
            yield collective.ticket, Storage(collective.ticket, np.dtype(np.uint32), (), AddressSpace.LOCAL)


def _workspace(placement: Placement) -> tuple[ArrayArg, ...]:
    """Return the temporaries in global memory, as arrays that the caller of a launch allocates."""
    used = {a.array for s in placement.statements.values() for a in s.lowered.accesses}
    found = []
    for name, temporary in placement.program.kernel.temporaries.items():
        if name in used and placement.spaces[name] is AddressSpace.GLOBAL and temporary.initializer is None:
            shape = temporary.shape or ()
            tags = temporary.dim_tags or order_tags(len(shape), "C")
            strides = temporary.strides()
            found.append(ArrayArg(name, temporary.dtype, shape, strides, is_input=False, dim_tags=tags))
    return tuple(found)


def _not_constant(name: str, shape: Iterable[Expression]) -> Diagnostic:
    return Diagnostic(
        "temporary-not-constant",
        f"temporary '{name}' has the shape ({', '.join(str(extent) for extent in shape)}), which is not constant",
        ("private and shared memory is sized when the kernel is compiled",),
        (
            f"split a loop so that '{name}' holds one tile, fix the parameter, or give it an axis for each loop on a "
            "thread or block, so that it can live in global memory",
        ),
    )


def _inside_a_launch(placement: Placement, need: Need, cuts: list[int]) -> bool:
    """Return whether threads of a block meet over *need* within one launch."""
    launches = {launch_of(placement, statement, cuts) for statement in (need.conflict.first, need.conflict.second)}
    return need.scope in {Scope.WARP, Scope.BLOCK} and len(launches) == 1


def _built_with_global(
    kernel: LoopKernel, placement: Placement, cuts: list[int], limits: DeviceLimits
) -> Verified | None:
    """Return the schedule with the temporaries that live across launches in global memory, where that is left open."""
    open_names = {name for name, t in kernel.temporaries.items() if t.address_space is AddressSpace.AUTO}
    chosen = passages(placement, cuts).keys() & open_names
    if not chosen:
        return None
    moved = {name: replace(kernel.temporaries[name], address_space=AddressSpace.GLOBAL) for name in chosen}
    try:
        return _build(replace(kernel, temporaries={**kernel.temporaries, **moved}), limits)
    except VerificationError:
        return None


def _open(proofs: Iterable[Proof]) -> Iterator[Diagnostic]:
    """Yield what is let pass without a proof."""
    yield from (finding for proof in proofs for finding in proof.found)


def _crossing(placement: Placement, cuts: list[int]) -> Iterator[Diagnostic]:
    """Yield private and shared variables that would have to live from one launch to the next."""
    for name in passages(placement, cuts):
        yield Diagnostic(
            "private-across-launches",
            f"'{name}' is {placement.spaces[name]} and would have to live from one launch to the next",
            ("one launch ends where blocks depend on each other, or at a global barrier, and the next begins",),
            (f"let it be saved and reloaded: pl.save_and_reload_temporaries(knl), or compute '{name}' anew",),
        )


def _launches(
    placement: Placement, tree: Tree, cuts: list[int], storages: Mapping[str, Storage], exchanged: frozenset[str],
    collectives: Mapping[str, Collective],
) -> Iterator[Launch]:  # fmt: skip
    title = placement.program.kernel.name
    segments: list[list[Node]] = [[] for _ in range(len(cuts) + 1)]
    position = 0
    for node in tree:
        derived = isinstance(node, Barrier) and node.name is None
        at_cut = isinstance(node, Barrier) and (position == 0 or position in cuts)
        if not (derived and at_cut):
            segments[sum(position >= cut for cut in cuts)].append(node)
        position += not derived
    segments = [[*_with_threads(nodes, placement.axes)] for nodes in segments]
    size = _local_size(placement.axes.extents)
    for number, nodes in enumerate(segments):
        part: Tree = tuple(nodes)
        names = set(runs(part))
        used = {
            access.array
            for name in names
            for access in placement.statements[name].lowered.accesses
        }
        meetings = [collectives[name] for name in names & collectives.keys()]
        used |= {own for entry in meetings for own in (entry.scratch, entry.ticket) if own}
        temporaries = tuple(storage for name, storage in storages.items() if name in used)
        name = title if len(segments) == 1 else f"{title}_{number}"
        yield Launch(name, part, size, placement.axes.group, temporaries, exchanged & used)


def _with_threads(tree: Sequence[Node], axes: Axes) -> Iterator[Node]:
    """Yield *tree* without the user's barriers that no two threads need: between launches, or for one thread."""
    for node in tree:
        if isinstance(node, Loop):
            yield Loop(node.iname, tuple(_with_threads(node.body, axes)))
        elif not isinstance(node, Barrier) or node.name is None or (axes.local and node.scope is Scope.BLOCK):
            yield node


def _local_size(local: Mapping[str, int | None]) -> tuple[int, ...]:
    """Return the threads along l.0, l.1, .. up to the last axis in use."""
    if not local:
        return ()
    last = max(map(number_of, local))
    return tuple(local.get(thread_axis(number)) or 1 for number in range(last + 1))


def _without(domain: isl.Set, positions: tuple[int, ...]) -> isl.Set:
    """Return *domain* without the dimensions at *positions*."""
    for position in reversed(positions):
        domain = domain.project_out(isl.dim_type.set, position, 1)
    return domain


def _statement(
    kernel: LoopKernel, placed: Placed, axes: Mapping[str, frozenset[int]], collective: Collective | None
) -> Statement | None:
    """Return what code generation needs of a placed statement, None if it has no instances."""
    lowered = placed.lowered
    if placed.domain.is_empty():
        return None
    names = {iname: to_expression(form) for iname, form in placed.forms.items()}
    domain = placed.exact
    dims = list(placed.dims)
    if placed.digits is not None:
        names = {iname: to_expression(form) for iname, form in placed.digits.forms.items()}
        domain, dims = placed.digits.exact, list(placed.digits.dims)
    if repeated := tuple(n for n, dim in enumerate(dims) if dim in placed.repeated):
        domain = _without(domain, repeated)
    dims = [dim for dim in dims if dim not in placed.repeated]
    for name in lowered.bounds:
        position = domain.find_dim_by_name(isl.dim_type.param, name)
        domain = domain.move_dims(isl.dim_type.set, len(dims), isl.dim_type.param, position, 1)
        domain = domain.set_dim_name(isl.dim_type.set, len(dims), name)
        dims.append(name)
    if lowered.role == "init" and lowered.rhs is None:
        assert lowered.operation is not None, "an init belongs to a reduction"
        rhs = neutral_element(lowered.operation, accumulator_dtypes(kernel)[lowered.write.array])
    else:
        rhs = without_axes(substitute(lowered.rhs, names), axes)
        if isinstance(rhs, Terms):
            rhs = Record(accumulator_dtypes(kernel)[lowered.write.array], rhs.children)
    return Statement(
        name=lowered.name,
        instruction=lowered.instruction.id,
        dims=tuple(dims),
        domain=domain,
        lhs=without_axes(substitute(lowered.lhs, names), axes),
        rhs=rhs,
        update=lowered.operation if lowered.role == "update" else None,
        predicates=tuple(without_axes(substitute(predicate, names), axes) for predicate in lowered.predicates),
        atomic=lowered.atomic,
        bounds=lowered.bounds,
        digits={} if placed.digits is None else dict(placed.digits.extents),
        fast=kernel.fast if lowered.instruction.fast is None else lowered.instruction.fast,
        step=lowered.instruction.step,
        collective=collective,
        product=_product(placed, rhs),
    )


def _product(placed: Placed, term: Expression) -> Product | None:
    """Return the matrix instruction that carries out the terms of a reduction, None if there is none."""
    matrix, lowered = placed.lowered.instruction.matrix, placed.lowered
    if matrix is None or lowered.role != "update":
        return None
    assert isinstance(term, p.Product), "it was proven that the terms are products"
    assert placed.digits is not None, "it was proven that lanes are digits of the thread number"
    left, right = term.children
    a, b = (right, left) if is_swapped(lowered, matrix) else (left, right)
    forms = placed.digits.forms
    axes = {}
    for axis in "ijk":
        pairs = [(name, c) for iname, c in matrix.of(axis) for name in forms.get(iname, Affine.variable(iname)).names()]
        axes[axis] = tuple(sorted(pairs, key=lambda pair: pair[1]))
    return Product(matrix.intrinsic, a, b, axes, matrix.ahead)

