"""Merging of inames, and of the loops that instructions share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.kernel.tags import axis_name
from polyloop.poly.affine import Affine
from polyloop.program.lower import lower
from polyloop.transform.loops.remap import Remap, alone, free_space, remap_inames

__all__ = ["fresh_block", "in_block", "merge_inames", "merge_violations", "open_loops", "renaming"]

_SET = isl.dim_type.set


def renaming(kernel: LoopKernel, names: Mapping[str, str]) -> Remap:
    """Return the change that calls inames by other names."""
    old, new = tuple(names), tuple(names.values())
    there, back = tuple(map(Affine.variable, old)), tuple(map(Affine.variable, new))
    texts = {name: p.Variable(names[name]) for name in old}
    space = free_space(kernel, len(old)).get_space()
    return Remap(old, new, isl.Map.identity(space.map_from_set()), there, back, texts)


def merge_violations(
    kernel: LoopKernel, inames: Sequence[str], only: Collection[str] | None = None
) -> Iterator[Diagnostic]:
    """Yield a diagnostic if *inames* cannot be one: two of them in one nest, or with different tags."""
    for instruction in kernel.instructions:
        if only is not None and instruction.id not in only:
            continue
        for dims in (instruction.inames, *(term.inames for term in instruction.terms)):
            both = [name for name in dims if name in inames]
            if len(both) > 1:
                yield Diagnostic(
                    "same-nest",
                    f"inames '{both[0]}' and '{both[1]}' are loops of one nest and cannot become one",
                    ("the instruction runs for every pair of their values",),
                    ("only adjacent loops can be fused; join_inames makes one loop of a nest",),
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


def merge_inames(
    kernel: LoopKernel, inames: Sequence[str], new: str, only: Collection[str] | None = None
) -> LoopKernel:
    """Return *kernel* with all of *inames* called *new*, which may exist, in the instructions *only* (None: all)."""
    if new not in kernel.inames:
        first, inames = inames[0], inames[1:]
        old = kernel
        kernel = remap_inames(kernel, renaming(kernel, {first: new}), only)
        if only is None:
            kernel = _with_properties(kernel, old, first, new)
    for name in inames:
        if name != new:
            kernel = _merged(kernel, name, new, only)
    return kernel


def _with_properties(kernel: LoopKernel, old: LoopKernel, iname: str, new: str) -> LoopKernel:
    """Return *kernel* where *new* runs as *iname* does in *old*."""
    return replace(
        kernel,
        iname_tags={new if name == iname else name: tag for name, tag in old.iname_tags.items()},
        slabs={new if name == iname else name: slab for name, slab in old.slabs.items()},
        tile_inames=frozenset(new if name == iname else name for name in old.tile_inames),
    )


def _merged(kernel: LoopKernel, old: str, new: str, only: Collection[str] | None) -> LoopKernel:
    change = renaming(kernel, {old: new})
    domains = _merged_domains(kernel, change, old, new, keep=only is not None)
    result = remap_inames(kernel, change, only)
    chains = dict.fromkeys(tuple(dict.fromkeys(chain)) for chain in result.loop_priority)
    return replace(result, domains=domains, loop_priority=tuple(chain for chain in chains if len(chain) > 1))


def _merged_domains(kernel: LoopKernel, change: Remap, old: str, new: str, *, keep: bool) -> tuple[Domain, ...]:
    """Return the domains where *new* has every value that *old* or *new* has; *old* too, to *keep* it."""
    homes = [next(piece for piece in kernel.domains if name in piece.inames) for name in (old, new)]
    theirs, mine = (alone(home, (name,)).set for home, name in zip(homes, (old, new), strict=True))
    same = bool(mine.is_equal(theirs))
    result = [] if same else [Domain((new,), mine.union(theirs).coalesce().set_dim_name(_SET, 0, new))]
    gone = {*(() if keep else (old,)), *(() if same else (new,))}
    for piece in kernel.domains:
        left = tuple(name for name in piece.inames if name not in gone)
        rest = piece if left == piece.inames else alone(piece, left)
        if left:
            result.append(rest if keep else change.piece(rest))
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
    """Return the distinct positions, in the loop tree, of the loops over *iname* around the instructions *ids*."""
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

