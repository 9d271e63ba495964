"""Calling loops by the name of another one, and saying which instructions share a loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import islpy as isl
import pymbolic.primitives as p

from polyloop.analysis.lowering import lower
from polyloop.errors import Diagnostic
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.kernel.tags import axis_name
from polyloop.poly.affine import Affine
from polyloop.transform.remap import Remap, alone, remap_inames

__all__ = ["fresh_block", "in_block", "merge_inames", "merge_violations", "open_loops", "renaming"]

_SET = isl.dim_type.set


def renaming(kernel: LoopKernel, names: Mapping[str, str]) -> Remap:
    """Return the change that calls inames by other names."""
    old, new = tuple(names), tuple(names.values())
    space = kernel.domains[0].set.get_space().params().set_from_params().add_dims(_SET, len(old))
    there, back = tuple(map(Affine.variable, old)), tuple(map(Affine.variable, new))
    texts = {name: p.Variable(names[name]) for name in old}
    return Remap(old, new, isl.Map.identity(space.map_from_set()), there, back, texts)


def merge_violations(kernel: LoopKernel, inames: Sequence[str]) -> Iterator[Diagnostic]:
    """Yield why *inames*, which exist, cannot be one: an instruction has two of them, or they run differently."""
    for instruction in kernel.instructions:
        for dims in (instruction.inames, *(term.inames for term in instruction.terms)):
            both = [name for name in dims if name in inames]
            if len(both) > 1:
                yield Diagnostic(
                    "same-nest",
                    f"inames '{both[0]}' and '{both[1]}' are loops of one nest and cannot become one",
                    ("the instruction runs for every pair of their values",),
                    ("only loops that lie beside each other can become one; join_inames makes one loop of a nest",),
                    sites=(instruction.site(),),
                )
                return
    tags = {name: str(kernel.tag(name)) for name in inames}
    if len(set(tags.values())) > 1:
        shown = ", ".join(f"'{name}' is '{tag}'" for name, tag in tags.items())
        yield Diagnostic(
            "iname-tagged",
            "loops that run differently cannot become one",
            (shown,),
            ("tag them after they have become one, or give all of them the same tag",),
        )


def merge_inames(kernel: LoopKernel, inames: Sequence[str], new: str, step: str) -> LoopKernel:
    """Return *kernel* with all of *inames* called *new*, which may be one of them."""
    if new not in inames:
        first = inames[0]
        tags, slabs, tiles = kernel.iname_tags, kernel.slabs, kernel.tile_inames
        kernel = remap_inames(kernel, renaming(kernel, {first: new}), step)
        kernel = replace(
            kernel,
            iname_tags={new if name == first else name: tag for name, tag in tags.items()},
            slabs={new if name == first else name: slab for name, slab in slabs.items()},
            tile_inames=frozenset(new if name == first else name for name in tiles),
        )
        inames = inames[1:]
    for old in inames:
        if old != new:
            kernel = _merged(kernel, old, new, step)
    return kernel


def _merged(kernel: LoopKernel, old: str, new: str, step: str) -> LoopKernel:
    change = renaming(kernel, {old: new})
    domains = _merged_domains(kernel, change, old, new)
    result = remap_inames(kernel, change, step)
    chains = dict.fromkeys(tuple(dict.fromkeys(chain)) for chain in result.loop_priority)
    return replace(result, domains=domains, loop_priority=tuple(chain for chain in chains if len(chain) > 1))


def _merged_domains(kernel: LoopKernel, change: Remap, old: str, new: str) -> tuple[Domain, ...]:
    """Return the domains where *new* has every value that *old* or *new* has."""
    homes = [next(piece for piece in kernel.domains if name in piece.inames) for name in (old, new)]
    theirs, mine = (alone(home, (name,)).set for home, name in zip(homes, (old, new), strict=True))
    same = bool(mine.is_equal(theirs))
    result = [] if same else [Domain((new,), mine.union(theirs).coalesce().set_dim_name(_SET, 0, new))]
    for piece in kernel.domains:
        gone = (old,) if same else (old, new)
        left = tuple(name for name in piece.inames if name not in gone)
        if left == piece.inames:
            result.append(change.piece(piece))
        elif left:
            result.append(change.piece(alone(piece, left)))
    return tuple(result)


def fresh_block(kernel: LoopKernel) -> int:
    """Return a number that no written loop has."""
    numbers = [number for i in kernel.instructions for _, number in i.blocks]
    numbers += [number for barrier in kernel.barriers for _, number in barrier.blocks]
    return max(numbers, default=0) + 1


def in_block(instruction: Instruction, iname: str, number: int) -> Instruction:
    """Return *instruction* inside the loop over *iname* that has this number."""
    others = tuple(entry for entry in instruction.blocks if entry[0] != iname)
    return replace(instruction, blocks=(*others, (iname, number)))


def open_loops(kernel: LoopKernel, iname: str, ids: Iterable[str]) -> list[tuple[int | str, ...]]:
    """Return the different places at which loops over *iname* around the instructions *ids* stand in the tree."""
    wanted = set(ids)
    if axis_name(kernel.tag(iname)) is not None:
        return []
    program = lower(kernel)
    found: dict[tuple[int | str, ...], None] = {}
    for name, statement in program.statements.items():
        place = program.places[name]
        if statement.instruction.id in wanted and iname in place:
            found[place[: place.index(iname) + 1]] = None
    return list(found)

