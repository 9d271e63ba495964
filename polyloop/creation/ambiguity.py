"""Ambiguous programs: refused at creation, with witness instances (design, section 3, rule 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import islpy as isl

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.conflicts import conflict_pairs
from polyloop.dataflow.value_flow import is_exact
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import targets_of
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.build.text_order import nest_order
from polyloop.kernel.domains import bound_variables, outer_inames
from polyloop.kernel.instruction import Instruction, Term
from polyloop.kernel.kernel import LoopKernel, Reference
from polyloop.mapping.thread_mapping import Placed
from polyloop.poly.sets import reorder
from polyloop.program.lower import Access, Lowered, lower
from polyloop.proof.access_spans import site_of_access
from polyloop.proof.witness import element, instance, pair
from polyloop.verification.correspondence import reference_flow
from polyloop.verification.order import order_violations

__all__ = ["ambiguities", "moved_instructions"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


def ambiguities(reference: Reference) -> Iterator[Diagnostic]:
    """Yield the ambiguities of a kernel, each with two instances."""
    yield from _reopened_loops(reference.kernel)
    yield from _nests_by_use(reference)
    yield from _nests_by_bounds(reference)


# {{{ order of instructions


def moved_instructions(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield a diagnostic for instructions reordered against the text without a dependency, though they conflict.

    The instructions of *kernel* have to come from one text.
    """
    instructions = kernel.instructions
    lines = [instruction.place.line or 0 for instruction in instructions]
    if lines == sorted(lines):
        return
    before = _dependences(kernel)
    for number, second in enumerate(instructions):
        for first in instructions[:number]:
            if lines[number] >= (first.place.line or 0) or not _may_conflict(first, second):
                continue
            if first.id not in _closure(second.id, before):
                found = _conflict(kernel, first, second)
                if found is not None:
                    yield found


def _may_conflict(first: Instruction, second: Instruction) -> bool:
    return not {*first.writes}.isdisjoint((*second.writes, *second.reads)) or not first.reads.isdisjoint(second.writes)


def _dependences(kernel: LoopKernel) -> dict[str, set[str]]:
    """Return the predecessors of each instruction: those of ``dep=``, and unique writers of temporaries it reads."""
    writers: dict[str, list[str]] = {}
    for instruction in kernel.instructions:
        for name in instruction.writes:
            writers.setdefault(name, []).append(instruction.id)
    found = {}
    for instruction in kernel.instructions:
        only = [writers.get(name, []) for name in instruction.reads & kernel.temporaries.keys()]
        found[instruction.id] = {*instruction.depends_on, *(entry[0] for entry in only if len(entry) == 1)}
    return found


def _closure(name: str, before: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = before.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found


def _conflict(kernel: LoopKernel, first: Instruction, second: Instruction) -> Diagnostic | None:
    placement = place(kernel)
    for left in placement.statements.values():
        for right in placement.statements.values():
            if left.lowered.instruction is not first or right.lowered.instruction is not second:
                continue
            for a, b in _access_pairs(left.lowered, right.lowered):
                pairs = conflict_pairs(placement, left, a, right, b)
                if not pairs.is_empty():
                    return _moved(left, a, right, b, pair(pairs, left, right))
    return None


def _access_pairs(left: Lowered, right: Lowered) -> Iterator[tuple[Access, Access]]:
    for a in left.accesses:
        for b in right.accesses:
            if a.array == b.array and (left.is_write(a) or right.is_write(b)):
                yield a, b


def _moved(
    left: Placed, a: Access, right: Placed, b: Access, values: tuple[Mapping[str, int], Mapping[str, int]]
) -> Diagnostic:
    first, second = left.lowered.instruction, right.lowered.instruction
    does = ["writes" if side.lowered.is_write(access) else "reads" for access, side in ((a, left), (b, right))]
    return Diagnostic(
        "ambiguous-order",
        f"'{second.id}' stands before '{first.id}' in the text, would run after it, and both touch '{a.array}'",
        (
            f"instance {instance(left, values[0])} of '{first.id}' {does[0]} {element(left, a, values[0])}; "
            f"instance {instance(right, values[1])} of '{second.id}' {does[1]} it",
            f"'{second.id}' waits for an instruction further down, and nothing says that '{first.id}' waits for it",
        ),
        (f"say which comes first: {{dep={second.id}}} on '{first.id}', or the other way round; or reorder the text",),
        sites=(second.site(), first.site()),
    )


# }}}
# {{{ loops that are opened again


def _reopened_loops(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield reads of a temporary in another loop over an iname than the one that sets it for each of its values."""
    program = lower(kernel)
    writers: dict[str, list[Lowered]] = {}
    for statement in program.statements.values():
        for name in dict.fromkeys(write.array for write in statement.writes):
            if name in kernel.temporaries:
                writers.setdefault(name, []).append(statement)
    seen: set[tuple[str, str]] = set()
    for reader in program.statements.values():
        for access in reader.reads:
            for writer in writers.get(access.array, ()):
                key = (reader.instruction.id, access.array)
                if key in seen or access.leaf is None or writer is reader:
                    continue
                iname = _apart(reader, writer, access.array, program.places)
                if iname is not None and (found := _reopened(kernel, reader, access, writer, iname)) is not None:
                    seen.add(key)
                    yield found


def _apart(
    reader: Lowered, writer: Lowered, name: str, places: Mapping[str, tuple[int | str, ...]]
) -> str | None:
    """Return an iname of separate loops around reader and writer that does not index the element written; else None.

    Loops that the user wrote around the reader are meant.
    """
    free = set(writer.inames).difference(*map(variables, targets_of(writer.lhs, name)))
    written = dict(reader.instruction.blocks)
    candidates = [iname for iname in reader.inames if iname in free and iname not in written]
    if not candidates:
        return None
    mine, theirs = places[reader.name], places[writer.name]
    depth = 0
    while depth < min(len(mine), len(theirs)) and mine[depth] == theirs[depth]:
        depth += 1
    return next((iname for iname in candidates if iname not in mine[:depth]), None)


def _reopened(
    kernel: LoopKernel, reader: Lowered, access: Access, writer: Lowered, iname: str
) -> Diagnostic | None:
    name = access.array
    placement = place(kernel)
    right, left = placement.statements[reader.name], placement.statements[writer.name]
    note = f"'{writer.instruction.id}' sets '{name}' once for each {iname}, and '{reader.instruction.id}' would see one"
    if is_exact(placement, name):
        sources, _ = reference_flow(placement, name).of(right, access)
        links = [link for source, link in sources if source is left and not link.is_empty()]
        if not links:
            return None
        i, j = right.dims.index(iname), left.dims.index(iname)
        ordered = (links[0].order_lt(_IN, i, _OUT, j), links[0].order_gt(_IN, i, _OUT, j))
        there, here = pair(next((link for link in ordered if not link.is_empty()), links[0]), right, left)
        cell = element(left, writer.writes_to(name)[0], here)
        note = (
            f"instance {instance(right, there)} of '{reader.instruction.id}' would read {cell} "
            f"as written by instance {instance(left, here)} of '{writer.instruction.id}'"
        )
    return Diagnostic(
        "ambiguous-loop",
        f"'{name}' is read in another loop over '{iname}' than the one that sets it",
        (note, _why_apart(reader, writer, iname)),
        (
            f"write 'for {iname}' ... 'end' to say what shares a loop, index '{name}' by '{iname}', "
            f"or use another iname for the second loop",
        ),
        sites=(writer.instruction.site(), site_of_access(reader, access)),
    )


def _why_apart(reader: Lowered, writer: Lowered, iname: str) -> str:
    if iname in dict(writer.instruction.blocks):
        return f"the loop over '{iname}' around '{writer.instruction.id}' is written, and closed before"
    around = [reader.inames[: reader.inames.index(iname)], writer.inames[: writer.inames.index(iname)]]
    if around[0] != around[1]:
        lists = [f"({', '.join(inames)})" for inames in around]
        return f"the one loop over '{iname}' lies inside of {lists[1]}, the other inside of {lists[0]}"
    return f"they cannot share a loop over '{iname}': what is needed in between comes from all of its iterations"


# }}}
# {{{ nests


def _nests_by_use(reference: Reference) -> Iterator[Diagnostic]:
    """Yield a diagnostic if the result depends on a nest order that follows from use counts of inames alone.

    The result is compared, value by value, with that of nests ordered by the domains alone.
    """
    kernel = reference.kernel
    uses = Counter(iname for instruction in kernel.instructions for iname in instruction.inames)
    position = {iname: number for number, iname in enumerate(kernel.inames)}
    if all(_in_order(instruction.inames, position) for instruction in kernel.instructions):
        return
    outside = outer_inames(kernel.domains)
    nests = {}
    for instruction in kernel.instructions:
        written = [iname for iname, _ in instruction.blocks]
        by_use = nest_order(instruction.inames, written, kernel.loop_priority, uses, position, outside)
        by_domain = nest_order(instruction.inames, written, kernel.loop_priority, {}, position, outside)
        if by_use == instruction.inames != by_domain:
            nests[instruction.id] = by_domain
    found = _other_result(reference, nests)
    if found is None:
        return
    finding, instruction, (old, new) = found
    if finding.witness is not None and _are_own(kernel, frozenset(nests), finding.witness.array):
        return
    yield Diagnostic(
        "ambiguous-nest",
        f"the loops of '{instruction.id}' could be nested as ({old}) or as ({new}), which makes a difference",
        (
            f"nested as ({new}), {_reason(finding)}",
            f"({new}) is the order of the domains; only how many instructions use each iname makes it ({old})",
        ),
        (
            f"write 'for {old}' ... 'end' around it, pass loop_priority=[\"{old}\"], "
            f"or list the inames in the order that is meant",
        ),
        sites=(instruction.site(),),
    )


def _are_own(kernel: LoopKernel, readers: frozenset[str], name: str) -> bool:
    """Return whether each read of the temporary *name* sees the value of its own iteration of the loops in common.

    Then the other nest, in which some read sees that of another iteration, is not the one that is meant.
    """
    placement = place(kernel)
    if name not in kernel.temporaries or not is_exact(placement, name):
        return False
    links = [
        (link, reader.dims.index(iname), source.dims.index(iname))
        for reader in placement.statements.values() if reader.lowered.instruction.id in readers
        for access in reader.lowered.reads if access.array == name and access.leaf is not None
        for source, link in reference_flow(placement, name).of(reader, access)[0]
        for iname in reader.dims if iname in source.dims
    ]  # fmt: skip
    return bool(links) and all(
        link.order_lt(_IN, i, _OUT, j).is_empty() and link.order_gt(_IN, i, _OUT, j).is_empty() for link, i, j in links
    )


def _nests_by_bounds(reference: Reference) -> Iterator[Diagnostic]:
    """Yield a diagnostic if bounds turn a written ``for`` nest around, and the result depends on it."""
    nests = {}
    for instruction in reference.kernel.instructions:
        written = [iname for iname, _ in instruction.blocks]
        inside = [iname for iname in instruction.inames if iname in written]
        if inside != written and not bound_variables(instruction.domain, reference.kernel.parameters):
            places = iter(written)
            nests[instruction.id] = tuple(next(places) if x in written else x for x in instruction.inames)
    found = _other_result(reference, nests)
    if found is None:
        return
    finding, instruction, (old, new) = found
    yield Diagnostic(
        "ambiguous-nest",
        f"the loops of '{instruction.id}' are written as ({new}), and nested as ({old}), which makes a difference",
        (f"nested as ({new}), {_reason(finding)}", "bounds of an inner domain use inames of an outer one"),
        (
            f"write 'for {old}' if that is meant; else give other statements inames of their own, so that no bounds of "
            f"one iname use the other",
        ),
        sites=(instruction.site(),),
    )


def _reason(finding: Diagnostic) -> str:
    return finding.notes[0] if finding.notes else finding.message


def _other_result(
    reference: Reference, nests: Mapping[str, tuple[str, ...]]
) -> tuple[Diagnostic, Instruction, tuple[str, str]] | None:
    """Return a difference between the program and the same in other *nests*: an instruction, its old and new nest."""
    if not nests:
        return None
    kernel = reference.kernel
    other = replace(
        kernel,
        instructions=tuple(_renested(i, nests[i.id]) if i.id in nests else i for i in kernel.instructions),
        reference=reference,
    )
    found = next(iter(order_violations(other)), None)
    if found is None:
        return None
    name = next((site.instruction for site in found.sites if site.instruction in nests), None) or next(iter(nests))
    instruction = kernel.instruction(name)
    return found, instruction, (", ".join(instruction.inames), ", ".join(nests[name]))


def _in_order(inames: tuple[str, ...], position: Mapping[str, int]) -> bool:
    places = [position.get(iname, 0) for iname in inames]
    return places == sorted(places)


def _renested(instruction: Instruction, nest: tuple[str, ...]) -> Instruction:
    """Return *instruction* with its loops in another order."""
    count = len(nest)

    def term(old: Term) -> Term:
        inames = (*nest, *old.inames[count:])
        return Term(inames, reorder(old.domain, old.inames, inames))

    domain = reorder(instruction.domain, instruction.inames, nest)
    return replace(instruction, inames=nest, domain=domain, terms=tuple(map(term, instruction.terms)))


# }}}
