"""``save_and_reload_temporaries``: private and shared values that are live across launches, kept in global memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

import islpy as isl
import pymbolic.primitives as p

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.value_flow import is_exact, readers_of
from polyloop.errors import Diagnostic, Place
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import variables
from polyloop.kernel.arrays import AddressSpace, TemporaryVariable
from polyloop.kernel.instruction import Carry, Copy, ExplicitBarrier, Instruction
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.kernel.tags import AutoLocal, InameTag, Unroll, parse_tag
from polyloop.kernel.tree import Barrier, Scope
from polyloop.mapping.array_contraction import contracted_axes, one_element_axes
from polyloop.mapping.thread_mapping import Placement
from polyloop.poly.affine import Affine, to_expression
from polyloop.poly.axes import is_block_axis, number_of
from polyloop.poly.sets import Row, add_rows, map_from_forms, project_onto, rows_of, settled
from polyloop.program.infer_types import infer_dtypes
from polyloop.sync.launches import Cuts, launch_cuts, numbers_of, passages
from polyloop.sync.races import needs, shared_arrays
from polyloop.sync.storage_aliasing import pool_needs
from polyloop.transform.base import Transform
from polyloop.transform.loops.auto_local import assign_auto
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["SaveAndReloadTemporaries"]

_SET = isl.dim_type.set
_UNROLLED: Final = 16
"""Copies of at most this many elements a thread are unrolled, so that they stay in registers."""


@dataclass(frozen=True, eq=False)
class _Launches:
    """Placement of a kernel, the ends of its launches, and the launches between which each temporary carries values."""

    placement: Placement
    cuts: Cuts
    passages: dict[str, list[tuple[int, int]]]

    @staticmethod
    def of(kernel: LoopKernel) -> _Launches:
        placement = place(kernel)
        found = [need for array in shared_arrays(placement) for need in needs(placement, array)]
        cuts = launch_cuts(placement, [*found, *pool_needs(placement)])
        return _Launches(placement, cuts, {} if cuts.is_single else passages(placement, cuts))


@dataclass(eq=False)
class _Carried:
    """Workspace of one temporary, with the instructions that save and reload it, by launch."""

    inames: tuple[str, ...]
    domain: isl.Set
    tags: dict[str, InameTag]
    workspace: TemporaryVariable
    saves: dict[int, Instruction] = field(default_factory=dict)
    reloads: dict[int, Instruction] = field(default_factory=dict)


@dataclass(frozen=True)
class SaveAndReloadTemporaries(Transform):
    """Save private and shared temporaries where a launch ends, and reload them where they are needed again.

    ::

        t = f(a[i])                     t = f(a[i]);  t_saved[block, thread] = t
        <end of a launch>         ->    <end of a launch>
        c[i] = t + b[n - 1 - i]         t = t_saved[block, thread];  c[i] = t + b[n - 1 - i]

    >>> knl = pl.make_kernel(
    ...     "{[i, j]: 0 <= i, j < 64}",
    ...     ["<> t[i] = 2*a[i] {id=set}", "b[i] = t[i] {id=out}", "c[j] = t[j] + b[63 - j] {dep=out}"],
    ... ).tag_inames("i:g.0, j:g.0")
    >>> print(knl.save_and_reload_temporaries())
    kernel loop_kernel
    ...
    instructions:
        [i]  t[i] = 2*a[i]    {id=set}
        [i]  b[i] = t[i]    {id=out}
        [t_block0]  t_saved[t_block0] = t[t_block0]    {id=save_t}
        [t_block0]  t[t_block0] = t_saved[t_block0]    {id=reload_t}
        [j]  c[j] = t[j] + b[63 - j]    {id=insn}
    barriers:
        ... gbarrier, after out, save_t, set

    A launch ends where blocks depend on each other, and at global barriers.  The workspace is in global memory; it has
    an element for each thread that reads the temporary, or for each block where that is shared.

    Returns
    -------
    LoopKernel
        The same where nothing private or shared lives from one launch to the next.

    Raises
    ------
    TransformError
        ``not-carried``; ``illegal-order`` and others where the values would not be those of the program.

    Notes
    -----
    Each read is proven to still see its value: a value saved and reloaded counts as written by its first writer.  Apply
    it last.  Source: Loopy's transform of the same name.
    """

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        found = _Launches.of(assign_auto(kernel))
        for name in found.passages:
            if found.cuts.loops:
                loops = ", ".join(f"'{block[-1]}'" for block in found.cuts.loops)
                yield _not_carried(name, f"the host runs loops around launches: {loops}")
            elif not is_exact(found.placement, name):
                yield _not_carried(name, "data decides which of its elements are written or read")
            elif name in found.placement.program.accumulators:
                yield _not_carried(name, "it collects the terms of a reduction")
            elif kernel.temporaries[name].shape != found.placement.program.kernel.temporaries[name].shape:
                yield _not_carried(name, "each lane has a copy of it")
            else:
                yield from _shape_violations(found.placement, name)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        kernel = assign_auto(kernel)
        found = _Launches.of(kernel)
        carried = {}
        for name, crossing in found.passages.items():
            carried[name] = _carried(kernel, found, name, crossing)
            kernel = _with_names(kernel, name, carried[name], found.placement.spaces[name])
        if not carried:
            return kernel
        return infer_dtypes(_in_launches(kernel, found, list(carried.values())))

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        yield from value_violations(after)
        yield from order_violations(after)
        for name in _Launches.of(after).passages:
            yield _not_carried(name, "the loops around it do not let its values be saved where the launch ends")

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        saved = [i.origin.temporary for i in after.instructions if isinstance(i.origin, Carry)]
        old = len([i for i in before.instructions if isinstance(i.origin, Carry)])
        names = ", ".join(dict.fromkeys(saved[old:]))
        return f"saved and reloaded: {names}" if names else "nothing lives from one launch to the next"


def _not_carried(name: str, why: str) -> Diagnostic:
    return Diagnostic(
        "not-carried",
        f"'{name}' cannot be saved in one launch and reloaded in the next",
        (why,),
        (f"keep '{name}' in global memory (address_space=\"global\"), with an element for each thread that has one, "
         "or compute it anew in the second part",),
    )  # fmt: skip


def _shape_violations(placement: Placement, name: str) -> Iterator[Diagnostic]:
    """Yield ``not-carried`` if a temporary has no constant shape, or its owners have no constant number."""
    kept = _kept(placement, name)
    shape = placement.program.kernel.temporaries[name].shape or ()
    if not all(isinstance(shape[axis], int) for axis in kept):
        yield _not_carried(name, "its shape is not constant")
    elif placement.axes.has_digits and placement.spaces[name] is AddressSpace.PRIVATE:
        yield _not_carried(name, "inames are digits of the thread number, for which there is no axis to save it along")
    elif any(extent is None for extent in placement.axes.local.values()):
        yield _not_carried(name, "the number of threads of a block is not constant")
    elif isinstance(_domain(placement, name, _owners(placement, name)), str):
        yield _not_carried(name, "the number of blocks is not known from the parameters")


def _kept(placement: Placement, name: str) -> list[int]:
    """Return the axes of a temporary along which a thread, or a block, has more than one element."""
    if placement.spaces[name] is AddressSpace.PRIVATE:
        gone = contracted_axes(placement).get(name, frozenset[int]())
    else:
        blocks = replace(placement.axes, local={})
        uses = [(s, a) for s in placement.statements.values() for a in s.lowered.accesses if a.array == name]
        gone = one_element_axes(uses, blocks, placement.program.kernel.parameters)
    return [axis for axis in range(len(placement.program.kernel.temporaries[name].shape or ())) if axis not in gone]


def _owners(placement: Placement, name: str) -> tuple[str, ...]:
    """Return the hardware axes that own copies of a temporary: those of threads, or of blocks if it is shared."""
    return placement.axes.all if placement.spaces[name] is AddressSpace.PRIVATE else placement.axes.group


def _domain(placement: Placement, name: str, owners: Sequence[str]) -> tuple[isl.Set, list[Affine]] | str:
    """Return the owners that read a temporary, and the extent of each axis; or the axis without an extent."""
    parts = [project_onto(s.domain_of(access), s.dims, owners) for s, access in readers_of(placement, name)]
    whole = reduce(isl.Set.union, parts).coalesce()
    extents = []
    for axis in owners:
        extent = placement.axes.local.get(axis)
        limit = _limit(project_onto(whole, owners, (axis,)), axis) if extent is None else Affine((), extent)
        if limit is None:
            return axis
        extents.append(limit)
    return whole, extents


def _limit(domain: isl.Set, axis: str) -> Affine | None:
    """Return an upper bound on the indices along *axis*, affine in the parameters, None if there is none."""
    domain = settled(domain)
    pieces = domain.get_basic_sets()
    basic = pieces[0] if len(pieces) == 1 else domain.simple_hull()
    for form, is_equality in rows_of(basic.remove_unknown_divs().detect_equalities(), (axis,)):
        factor = form.coefficient(axis)
        rest = form.add(Affine.variable(axis), -factor)
        if axis in rest.names() or factor == 0 or not (factor < 0 or is_equality):
            continue
        last = rest.floordiv(-factor) if factor < 0 else rest.scale(-1).floordiv(factor)
        return last.add(Affine((), 1))
    return None


def _carried(kernel: LoopKernel, found: _Launches, name: str, crossing: Sequence[tuple[int, int]]) -> _Carried:
    """Return the saves and reloads of *name*: a launch saves it if it writes a value that a later launch reads.

    One that saves again what was saved before reloads it first, so that elements that it leaves alone are the old ones.
    In the workspace the threads of a block come last, ``l.0`` as the very last: neighbours save to neighbouring cells.
    """
    placement, temporary = found.placement, kernel.temporaries[name]
    owners, kept = _owners(placement, name), _kept(placement, name)
    shape = temporary.shape or ()
    limits = _domain(placement, name, owners)
    assert not isinstance(limits, str), "what cannot be carried is refused"
    domain, extents = limits
    kinds = [(axis, "block" if is_block_axis(axis) else "thread") for axis in owners]
    counts = [kernel.fresh(f"{name}_{kind}{number_of(axis)}") for axis, kind in kinds]
    elements = [kernel.fresh(f"{name}_dim_{axis}") for axis in kept]
    first = placement.axes.first
    forms = [Affine(((axis, 1),), first[axis]) for axis in owners]
    domain = map_from_forms(domain, owners, forms).range()
    domain = domain.insert_dims(_SET, len(owners), len(kept))
    inames = (*counts, *elements)
    for position, iname in enumerate(inames):
        domain = domain.set_dim_name(_SET, position, iname)
    rows: list[Row] = []
    for iname, axis in zip(elements, kept, strict=True):
        rows += [Row(Affine.variable(iname)), Row(Affine(((iname, -1),), int(shape[axis]) - 1))]
    domain = add_rows(domain, inames, rows)
    tags = {iname: tag for iname, axis in zip(counts, owners, strict=True) if (tag := parse_tag(axis)) is not None}
    private = placement.spaces[name] is AddressSpace.PRIVATE
    for iname, axis in zip(elements, kept, strict=True):
        if not private:
            tags[iname] = AutoLocal()
        elif int(shape[axis]) <= _UNROLLED:
            tags[iname] = Unroll()
    saved = kernel.fresh(f"{name}_saved")
    values = {axis: Affine(((iname, 1),), -first[axis]) for axis, iname in zip(owners, counts, strict=True)}
    groups = [axis for axis in owners if axis in placement.axes.group]
    threads = [axis for axis in reversed(owners) if axis not in groups]
    sizes = dict(zip(owners, map(to_expression, extents), strict=True))
    size = (*(sizes[axis] for axis in groups), *(shape[axis] for axis in kept), *(sizes[axis] for axis in threads))
    workspace = TemporaryVariable(saved, temporary.dtype, size, AddressSpace.GLOBAL)
    carried = _Carried(inames, domain, tags, workspace)
    here = _own_element(placement, name, dict(zip(kept, elements, strict=True)), values)
    outer, inner = ([to_expression(values[axis]) for axis in part] for part in (groups, threads))
    there = _subscript(saved, [*outer, *map(p.Variable, elements), *inner])
    savers = sorted({source for source, _ in crossing})
    for launch in savers:
        carried.saves[launch] = _move(kernel, f"save_{name}", launch, carried, there, here, name)
    for launch in sorted({reader for _, reader in crossing}.union(savers[1:])):
        carried.reloads[launch] = _move(kernel, f"reload_{name}", launch, carried, here, there, name)
    return carried


def _own_element(
    placement: Placement, name: str, elements: dict[int, str], values: dict[str, Affine]
) -> Expression:
    """Return the element of a temporary that the new inames mean, where *values* are the axes in terms of them."""
    statement, access = readers_of(placement, name)[0]
    indices: list[Expression] = []
    for axis, form in enumerate(statement.indices(access)):
        if axis in elements:
            indices.append(p.Variable(elements[axis]))
        else:
            assert form is not None, "an axis with one element a thread has an affine subscript"
            indices.append(to_expression(form.substitute(values)))
    return _subscript(name, indices)


def _subscript(name: str, indices: Sequence[Expression]) -> Expression:
    if not indices:
        return p.Variable(name)
    return p.Subscript(p.Variable(name), indices[0] if len(indices) == 1 else tuple(indices))


def _move(
    kernel: LoopKernel, wish: str, launch: int, carried: _Carried, into: Expression, value: Expression, name: str
) -> Instruction:
    taken = [i.id for i in kernel.instructions]
    taken += [i.id for i in (*carried.saves.values(), *carried.reloads.values())]
    return Instruction(
        id=kernel.fresh(f"{wish}" if wish not in taken else f"{wish}_{launch}", taken),
        inames=carried.inames,
        domain=carried.domain,
        assignee=into,
        expression=value,
        origin=Carry(name),
        reads=variables(value) - set(carried.inames),
    )


def _with_names(kernel: LoopKernel, name: str, carried: _Carried, space: AddressSpace) -> LoopKernel:
    """Return *kernel* with the workspace and inames of one temporary, whose address space is fixed."""
    stays = replace(kernel.temporaries[name], address_space=space)
    return replace(
        kernel,
        domains=(*kernel.domains, Domain(carried.inames, carried.domain)) if carried.inames else kernel.domains,
        temporaries={**kernel.temporaries, name: stays, carried.workspace.name: carried.workspace},
        iname_tags={**kernel.iname_tags, **carried.tags},
    )


def _in_launches(kernel: LoopKernel, found: _Launches, carried: Sequence[_Carried]) -> LoopKernel:
    """Return *kernel* with reloads at the beginning and saves at the end of launches, separated by global barriers."""
    placement, cuts = found.placement, found.cuts.at(())
    numbers = numbers_of(placement, found.cuts)
    homes = {i.id: numbers[i.id] for i in kernel.instructions}
    order: list[Instruction] = []
    barriers = list(kernel.barriers)
    for launch in range(len(cuts) + 1):
        order += [entry.reloads[launch] for entry in carried if launch in entry.reloads]
        order += [i for i in kernel.instructions if homes[i.id] == launch]
        order += [entry.saves[launch] for entry in carried if launch in entry.saves]
        if launch < len(cuts):
            before = frozenset(_name(instruction) for instruction in order)
            node = placement.program.tree[cuts[launch]]
            if isinstance(node, Barrier):
                barriers = [replace(b, before=b.before | before) if b.id == node.name else b for b in barriers]
            else:
                taken = [*(b.id for b in barriers), *(i.id for i in kernel.instructions)]
                name = kernel.fresh("launch_ends", taken)
                barriers.append(ExplicitBarrier(name, Scope.GRID, (), before, Place("... gbarrier")))
    return assign_auto(replace(kernel, instructions=tuple(order), barriers=tuple(barriers)))


def _name(instruction: Instruction) -> str:
    return instruction.origin.instruction if isinstance(instruction.origin, Copy) else instruction.id
