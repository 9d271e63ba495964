"""``fuse_loops``, ``rename_inames_in_batch``: loop fusion, by one iname for several loops."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from polyloop.errors import Diagnostic, PolyloopError, TransformError
from polyloop.expr.names import check_identifier
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tree import Loop, Tree, runs
from polyloop.program.lower import lower
from polyloop.transform.base import Transform, iname_violations, new_name_violations
from polyloop.transform.declare import Keyed, Names, Takes
from polyloop.transform.loops.merge import fresh_block, in_block, merge_inames, merge_violations, open_loops
from polyloop.transform.loops.nests import explained, nest_violations
from polyloop.transform.loops.skew import shifted
from polyloop.transform.parameters import Inames, NewName, names_of
from polyloop.transform.reductions.atomic_reduction import ReduceAtomically

__all__ = ["FuseLoops", "RenameInamesInBatch", "between", "get_kennedy_unweighted_fusion_candidates"]


@dataclass(frozen=True)
class FuseLoops(Transform):
    """Make one loop of loops that follow each other (fusion, jamming).

    >>> knl = pl.make_kernel(["{[i]: 0 <= i < 8}", "{[j]: 0 <= j < 8}"], ["b[i] = 2*a[i]", "c[j] = b[j] + 1"])
    >>> print(body(knl.fuse_loops("i, j")))
    for (int i = 0; i < 8; ++i) {
        b[i] = 2.0f * a[i];
        c[i] = b[i] + 1.0f;
    }

    A reduction shares the loop of what feeds it, or that of another reduction, as updates of its result:

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i, j < 8}", ["r[i] = r[i] - q[i]", "s = sum(j, r[j]*r[j])"])
    >>> print(body(knl.add_dtypes({"r, q, s": np.float32}).fuse_loops("i, j")))
    s[0] = 0.0f;
    for (int i = 0; i < 8; ++i) {
        r[i] -= q[i];
        s[0] += r[i] * r[i];
    }

    Parameters
    ----------
    inames
        The loops, the first in the program first.  One iname: all loops over it become one.  Inames of reductions are
        made loops first (:func:`reduce_atomically`, which the trace has as a step of its own).
    new_iname
        Name of the loop; by default the first of *inames*.

    Returns
    -------
    LoopKernel
        Its loop runs over the values of all of them; each instruction runs for those that it had.  Instructions between
        them that need nothing of the first loop stand in front of it.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``bad-inames``, ``name-taken``, ``bad-identifier``, ``reserved-name``; ``same-nest``;
        ``iname-tagged``; ``not-a-loop``; ``cannot-fuse``, where something has to be between them;
        ``illegal-order``, with two instances, where a value would be read too early or overwritten; for reductions what
        :func:`reduce_atomically` raises.

    Notes
    -----
    Source: Allen and Cocke, "A catalogue of optimizing transformations", 1971; the condition is that of the value-based
    dataflow, which is weaker than that no dependence is turned round.
    """

    inames: Inames
    new_iname: NewName | None = None

    @property
    def target(self) -> str:
        """Name of the one loop."""
        return self.new_iname or self.inames[0]

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        yield from _fusion_violations(kernel, self.inames, self.new_iname)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        return _fused(kernel, self.inames, self.target)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return _fused_violations(before, after, self.inames, self.target)

    @staticmethod
    def call(kernel: LoopKernel, inames: str | Sequence[str], new_iname: str | None = None) -> LoopKernel:
        names = names_of(inames)
        for instruction in kernel.instructions:
            own = [name for name in _reduced(instruction) if name in names]
            for name in own:
                kernel = ReduceAtomically((name,), f"id:{instruction.id}")(kernel)
        return FuseLoops(names, new_iname)(kernel)


def _reduced(instruction: Instruction) -> list[str]:
    """Return the inames of the reductions of an instruction, each once."""
    own = (name for term in instruction.terms for name in term.inames if name not in instruction.inames)
    return list(dict.fromkeys(own))


def _fusion_violations(kernel: LoopKernel, inames: Sequence[str], new: str | None) -> Iterator[Diagnostic]:
    if found := [finding for iname in inames for finding in iname_violations(kernel, iname)]:
        yield from found
        return
    if not inames or len(set(inames)) < len(inames):
        yield Diagnostic("bad-inames", "name each loop to fuse once", hints=("fuse_loops(knl, ['i', 'j'])",))
        return
    if new is not None and new not in inames:
        if problem := check_identifier(new, "iname"):
            yield problem
        yield from new_name_violations(kernel, [new])
    yield from merge_violations(kernel, inames)
    for instruction in kernel.instructions:
        for iname in inames:
            if iname in _reduced(instruction):
                yield Diagnostic(
                    "not-a-loop",
                    f"iname '{iname}' is the iname of a reduction in '{instruction.id}'",
                    ("a reduction is one operation: its loop cannot be shared with other instructions",),
                    ("fuse the loops around the reductions",),
                    sites=(instruction.site(),),
                )
                return


def _users(kernel: LoopKernel, inames: Sequence[str]) -> list[str]:
    """Return the ids of the instructions with a loop over one of *inames*."""
    return [i.id for i in kernel.instructions if not set(inames).isdisjoint(i.inames)]


def _fused(kernel: LoopKernel, inames: Sequence[str], new: str) -> LoopKernel:
    users = set(_users(kernel, inames))
    written = [dict(i.blocks).get(name) for i in kernel.instructions for name in inames if name in i.inames]
    number = next((n for n in written if n is not None), None)
    number = fresh_block(kernel) if number is None else number
    result = merge_inames(kernel, inames, new)
    instructions = tuple(in_block(i, new, number) if i.id in users else i for i in result.instructions)
    moved = replace(result, instructions=_with_others_in_front(instructions, users))
    if len(open_loops(moved, new, users)) > 1:  # what stands between may touch other elements of the same arrays
        bold = replace(result, instructions=_with_others_in_front(instructions, users, bold=True))
        if len(open_loops(bold, new, users)) < 2 and not any(nest_violations(bold)):
            return bold
    return moved


def _with_others_in_front(
    instructions: Sequence[Instruction], users: Collection[str], *, bold: bool = False
) -> tuple[Instruction, ...]:
    """Return *instructions* with those between *users* that need nothing of the users before them in front of these.

    Those that only write arrays that the users use count as well where they are moved *bold*, which is proven later.
    """
    first = next((n for n, i in enumerate(instructions) if i.id in users), 0)
    front, rest = [*instructions[:first]], list[Instruction]()
    written, read = set[str](), set[str]()
    for instruction in instructions[first:]:
        is_free = written.isdisjoint(instruction.reads)
        is_free &= bold or (written | read).isdisjoint(instruction.writes)
        if instruction.id not in users and is_free and not instruction.depends_on & {i.id for i in rest}:
            front.append(instruction)
            continue
        rest.append(instruction)
        written.update(instruction.writes)
        read.update(instruction.reads)
    return (*front, *rest)


def _fused_violations(
    before: LoopKernel, after: LoopKernel, inames: Sequence[str], new: str
) -> Iterator[Diagnostic]:
    loops = open_loops(after, new, _users(after, [new]))
    if len(loops) > 1:
        yield _apart(after, inames, loops)
        return
    found = tuple(nest_violations(after))
    if found:
        listed = " and ".join(f"'{name}'" for name in inames)
        hints = (*_shift_hint(before, inames, new), "leave them apart: all of the first loop has to run before")
        yield explained(found[0], f"loops {listed} cannot be one", hints)


def _apart(kernel: LoopKernel, inames: Sequence[str], loops: Sequence[tuple[int | str, ...]]) -> Diagnostic:
    """Return ``cannot-fuse``, with the loops or the instructions that keep *loops* apart."""
    listed = " and ".join(f"'{name}'" for name in inames)
    outer = [[entry for entry in place[:-1] if isinstance(entry, str)] for place in loops]
    if any(other != outer[0] for other in outer[1:]):
        shown = " and the other inside of ".join(f"({', '.join(names)})" for names in (outer[0], outer[-1]))
        note = f"the one lies inside of {shown}"
        hint = "only loops inside of the same loops can become one: fuse those around them first"
        return Diagnostic("cannot-fuse", f"loops {listed} are not adjacent", (note,), (hint,))
    names = between(kernel, loops)
    note = f"an instruction between them needs all of the one loop, and the other needs it: {', '.join(names)}"
    hint = "fuse with the loops of these instructions too, or compute them elsewhere"
    sites = tuple(kernel.instruction(name).site() for name in names[:1])
    return Diagnostic("cannot-fuse", f"loops {listed} are not adjacent", (note,), (hint,), sites=sites)


def between(kernel: LoopKernel, loops: Sequence[tuple[int | str, ...]]) -> list[str]:
    """Return the ids of the instructions between two loops of one parent."""
    program = lower(kernel)
    nodes: Tree = program.tree
    first, last = loops[0], loops[-1]
    for entry in first[:-2:2]:
        assert isinstance(entry, int), "places alternate"
        if entry != last[first.index(entry)]:
            break
        node = nodes[entry]
        assert isinstance(node, Loop), "a place leads through loops"
        nodes = node.body
    low, high = first[-2], last[-2]
    assert isinstance(low, int), "places alternate"
    assert isinstance(high, int), "places alternate"
    names = [program.statements[name].instruction.id for name in runs(nodes[low + 1 : high])]
    return list(dict.fromkeys(names)) or [program.statements[name].instruction.id for name in runs(nodes[high:][:1])]


def _shift_hint(kernel: LoopKernel, inames: Sequence[str], new: str) -> tuple[str, ...]:
    """Return the hint that names a shift of the last loop after which fusing is legal."""
    last = inames[-1]
    for amount in (1, -1, 2, -2):
        try:
            moved = shifted(kernel, last, amount)
            after = _fused(moved, inames, new)
            if len(open_loops(after, new, _users(after, [new]))) < 2 and not any(nest_violations(after)):
                return (f"shift the later loop first: pl.shift(knl, '{last}', {amount})",)
        except PolyloopError:
            continue
    return ()


def _groups(given: Mapping[str, Iterable[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((new, tuple(inames)) for new, inames in given.items())


@dataclass(frozen=True)
class RenameInamesInBatch(Transform):
    """Fuse several groups of loops, each under a new name.

    >>> knl = pl.make_kernel(["{[i]: 0 <= i < 8}", "{[j]: 0 <= j < 8}"], ["b[i] = 2*a[i]", "d[j] = 3*c[j]"])
    >>> print(body(knl.rename_inames_in_batch({"x": ["i", "j"]})))
    for (int x = 0; x < 8; ++x) {
        b[x] = 2.0f * a[x];
        d[x] = 3.0f * c[x];
    }

    Parameters
    ----------
    batches
        New iname -> the inames of the loops that become one, as
        :func:`get_kennedy_unweighted_fusion_candidates` proposes them.

    Raises
    ------
    TransformError
        The errors of :func:`fuse_loops`; ``bad-inames``.

    Notes
    -----
    Source: Loopy's transform of the same name.
    """

    batches: Annotated[
        tuple[tuple[str, tuple[str, ...]], ...],
        Takes(Mapping[str, Iterable[str]], _groups),
        Names.NEW,
        Keyed(Names.INAME),
    ]

    def resolved(self, kernel: LoopKernel) -> RenameInamesInBatch:
        order = {iname: number for number, iname in enumerate(kernel.inames)}
        pairs = ((new, tuple(sorted(inames, key=lambda name: order.get(name, 0)))) for new, inames in self.batches)
        return RenameInamesInBatch(tuple(pairs))

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        used = [iname for _, inames in self.batches for iname in inames]
        if twice := next((iname for iname in used if used.count(iname) > 1), None):
            yield Diagnostic("bad-inames", f"'{twice}' is in two batches", hints=("put each iname into one batch",))
        for new, inames in self.batches:
            yield from _fusion_violations(kernel, inames, new)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        for new, inames in self.batches:
            kernel = _fused(kernel, inames, new)
        return kernel

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        for new, inames in self.batches:
            yield from _fused_violations(before, after, inames, new)


def get_kennedy_unweighted_fusion_candidates(
    kernel: LoopKernel, candidate_inames: Iterable[str], *, prefix: str = "ifused_"
) -> dict[str, frozenset[str]]:
    """Return groups of loops that can be fused, for :func:`rename_inames_in_batch`.

    The loops are taken in the order of the program, and each joins the first group that it can: the greedy algorithm
    for loops of one kind.  Whether it can is proven for the group as a whole.  Loops that stay alone are left out.

    Parameters
    ----------
    candidate_inames
        The loops to look at.
    prefix
        Prefix of the new inames.

    Raises
    ------
    TransformError
        ``unknown-iname``.

    Notes
    -----
    Source: Kennedy and McKinley, "Typed fusion with applications to parallel and sequential code generation", Rice
    University TR93-208, 1993.
    """
    names = list(candidate_inames)
    if found := [finding for name in names for finding in iname_violations(kernel, name)]:
        raise TransformError("get_kennedy_unweighted_fusion_candidates", kernel.name, found)
    first = {iname: n for n, i in reversed(list(enumerate(kernel.instructions))) for iname in i.inames}
    order = sorted((name for name in set(names) if name in first), key=lambda name: (first[name], name))
    groups: list[list[str]] = []
    current = kernel
    for iname in order:
        for group in groups:
            attempt = _attempt(current, group[0], iname)
            if attempt is not None:
                current = attempt
                group.append(iname)
                break
        else:
            groups.append([iname])
    result: dict[str, frozenset[str]] = {}
    for group in groups:
        if len(group) > 1:
            result[kernel.fresh(f"{prefix}{len(result)}", result)] = frozenset(group)
    return result


def _attempt(kernel: LoopKernel, first: str, second: str) -> LoopKernel | None:
    fusion = FuseLoops((first, second))
    if any(fusion.violations(kernel)):
        return None
    try:
        after = fusion.rewrite(kernel)
        loops = open_loops(after, first, _users(after, [first]))
        return None if len(loops) > 1 or any(nest_violations(after)) else after
    except PolyloopError:
        return None
