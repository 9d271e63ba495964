"""Legality of loop sharing: loops that a statement may join without reading too early (reference program, rule 3c)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polyloop.kernel.build.text_order import Item
from polyloop.kernel.instruction import Move
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import Affine
from polyloop.poly.sets import increasing, map_from_forms
from polyloop.program.ir import Access, Lowered, Other, Update

__all__ = ["may_share"]


def may_share(
    kernel: LoopKernel,
    statements: Mapping[str, Lowered],
    groups: Mapping[str, Sequence[Lowered]],
    item: Item,
    inside: Sequence[Item],
    loops: Sequence[str],
) -> bool:
    """Return True if a statement may join a loop without reading an element before its first write there (rule 3c).

    It would read too early if an earlier statement of the loop writes the element in later iterations only.  A
    reduction reads its terms after the loop, unless it is joined: then no later iteration may write the element at all.
    """
    statement = statements[item.name]
    readers = groups[statement.instruction.id] if len(loops) <= item.common else [statement]
    writers = [statements[other.name] for other in inside]
    return all(
        _may_follow(reader, writer, write, loops)
        for writer in writers
        for write in writer.writes
        if write.array not in kernel.evaluations and not isinstance(writer.instruction.origin, Move)
        for reader in readers
    )


def _may_follow(reader: Lowered, writer: Lowered, write: Access, loops: Sequence[str]) -> bool:
    """Return True if *reader* reads nothing too early when it shares *loops* with the writer, which comes first."""
    waits = isinstance(reader.part, Update) and loops[-1] not in (*reader.instruction.inames, *reader.joined)
    for access in reader.reads:
        if access.array != write.array or access.kind is Other.OWN:
            continue
        same = access.indices == write.indices and set(writer.inames) <= set(reader.inames)
        if same and (not waits or Affine.variable(loops[-1]) in access.indices):
            continue
        if _reads_too_early(reader, access, writer, write, tuple(loops), waits):
            return False
    return True


def _reads_too_early(
    reader: Lowered, access: Access, writer: Lowered, write: Access, loops: tuple[str, ...], waits: bool
) -> bool:
    """Return True if the reader reads an element that is first written in a later iteration of the last of *loops*.

    If the reader *waits* for the last write, any write in a later iteration counts.
    """
    if not access.is_affine() or not write.is_affine():
        return True
    around = [Affine.variable(loop) for loop in loops]
    read = map_from_forms(reader.domain_of(access), reader.inames, [*around, *access.indices]).range()
    written = map_from_forms(writer.domain_of(write), writer.inames, [*around, *write.indices]).range()
    later = read.intersect(written.apply(increasing(read.get_space(), len(loops) - 1, 1).reverse()))
    if waits or later.is_empty():
        return not later.is_empty()
    known = written.apply(increasing(read.get_space(), len(loops) - 1, 0))
    return not later.subtract(known).is_empty()
