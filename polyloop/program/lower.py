"""Lowering of a kernel to a program, one assignment at a time.

Reductions become *init* and *update* statements over an accumulator, substitution rules are expanded, and the loop tree
is built.  The reference program and every transformed one are lowered alike, so the two can be compared read by read:
the reads of an instruction are numbered in the order of its text (*leaves*), and a transform preserves that order.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import partial

from polyloop.expr.rewrite import variables
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.build.text_order import Item, build_tree
from polyloop.kernel.domains import bound_variables, data_inames
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Unroll, is_lane
from polyloop.kernel.tree import paths, with_collectives
from polyloop.memo import By, Same, interned, memoised
from polyloop.program.conditions import joined_loops
from polyloop.program.expand_lanes import with_lanes
from polyloop.program.guards import exact_parameters, guards_a_reduction
from polyloop.program.ir import Access, Accumulator, Combine, Lowered, Program, Update
from polyloop.program.lookback_order import waits_last
from polyloop.program.loop_sharing import may_share
from polyloop.program.lower_instruction import Lowering, loop_order
from polyloop.program.written_barriers import barrier_items

__all__ = ["Access", "Accumulator", "Lowered", "Program", "loop_order", "lower"]


@dataclass(frozen=True, eq=False)
class _Code:
    """Key of lowering: a kernel that stands for all kernels that differ in shapes, types or the trace only."""

    kernel: LoopKernel


@memoised
def lower(kernel: LoopKernel) -> Program:
    """Return the statements and the loop tree of *kernel*."""
    kernel = with_lanes(kernel)
    return replace(_lowered(_code(kernel)), kernel=kernel)


@memoised
def _code(kernel: LoopKernel) -> _Code:
    """Return the key of *kernel*: one object for all kernels with the same parts."""
    parts = (
        kernel.instructions, kernel.barriers, kernel.iname_tags, kernel.loop_priority, kernel.substitutions,
        kernel.evaluations, kernel.buffers, kernel.parameters,
    )  # fmt: skip
    by_name = (kernel.names(), exact_parameters(kernel), data_inames(kernel))
    return interned((*map(Same, parts), *by_name), partial(_Code, kernel))


@memoised
def _lowered(code: _Code) -> Program:
    """Return the program that all kernels with the key *code* share, up to its kernel."""
    kernel = code.kernel
    taken = set(kernel.names()) | {instruction.id for instruction in kernel.instructions}
    statements: dict[str, Lowered] = {}
    accumulators: dict[str, Accumulator] = {}
    items: list[Item] = []
    groups: dict[str, Sequence[Lowered]] = {}
    last: dict[str, str] = {}
    barriers = barrier_items(kernel)
    for number, instruction in enumerate(kernel.instructions):
        items += barriers.get(number, ())
        group, own = _taken_apart(kernel, instruction, taken)
        for accumulator in own:
            accumulators[accumulator.name] = accumulator
        after = frozenset([last.get(name, name) for name in instruction.depends_on])
        groups[instruction.id] = group
        for statement in group:
            statements[statement.name] = statement
        items.extend(_items(kernel, group, after, len(items)))
        last[instruction.id] = group[-1].name
    items += barriers.get(len(kernel.instructions), ())
    tree = build_tree(items, partial(may_share, kernel, statements, groups))
    together = {name for name, statement in statements.items() if isinstance(statement.part, Combine)}
    tree = with_collectives(tree, together)
    tree = waits_last(kernel, tree, statements, accumulators)
    return Program(kernel, statements, tree, accumulators, paths(tree))


def _free_name(wish: str, taken: Collection[str]) -> str:
    name = wish
    number = 0
    while name in taken:
        name = f"{wish}_{number}"
        number += 1
    return name


@dataclass(frozen=True, eq=False)
class _Group:
    """Statements and accumulators of one instruction, with the names that these asked for and got."""

    statements: Sequence[Lowered]
    accumulators: Sequence[Accumulator]
    names: Sequence[tuple[str, str]]


def _taken_apart(
    kernel: LoopKernel, instruction: Instruction, taken: set[str]
) -> tuple[Sequence[Lowered], Sequence[Accumulator]]:
    """Return the statements and accumulators of an instruction, and add their names to *taken*.

    An instruction that a transform leaves as it is keeps its statements, and what is known of them.
    """
    inputs = _inputs(kernel, instruction)
    if inputs is None:
        found = _lowered_alone(kernel, instruction, taken)
    else:
        found = _group(instruction, By(inputs, (kernel, frozenset(taken))))
        if not _is_as_before(found.names, taken):
            found = _lowered_alone(kernel, instruction, taken)
    taken.update(name for _, name in found.names)
    return found.statements, found.accumulators


@memoised
def _group(instruction: Instruction, given: By[tuple[LoopKernel, frozenset[str]]]) -> _Group:
    kernel, taken = given.value
    return _lowered_alone(kernel, instruction, taken)


def _lowered_alone(kernel: LoopKernel, instruction: Instruction, taken: Collection[str]) -> _Group:
    """Return the statements of one instruction, whose new names are not among those *taken*."""
    asked: list[tuple[str, str]] = []
    names = {*taken}

    def fresh(wish: str) -> str:
        name = _free_name(wish, names)
        names.add(name)
        asked.append((wish, name))
        return name

    lowering = Lowering(kernel, instruction, fresh)
    return _Group(lowering.statements(), lowering.accumulators, asked)


def _inputs(kernel: LoopKernel, instruction: Instruction) -> Hashable | None:
    """Return the parts of *kernel* that decide the statements of *instruction*, besides names that are taken.

    None if that is not told: C text, and terms that a condition may hold back.
    """
    if instruction.is_c:
        return None
    rules = kernel.substitutions
    expressions = [expand_rules(e, rules) for e in (instruction.expression, *instruction.predicates)]
    if instruction.terms and (instruction.predicates or guards_a_reduction(expressions[0])):
        return None
    arrays = kernel.arrays()
    named = [*variables(instruction.assignee).union(*map(variables, expressions))]
    known = (kernel.parameters, exact_parameters(kernel))
    read = tuple(sorted((name, bool(arrays[name].shape)) for name in named if name in arrays))
    uses = (*map(Same, expressions), read)
    if not instruction.terms:
        return known, uses
    inames = tuple(dict.fromkeys([*instruction.inames, *(x for term in instruction.terms for x in term.inames)]))
    domains = (instruction.domain, *(term.domain for term in instruction.terms))
    bounds = [name for domain in domains for name in bound_variables(domain, kernel.parameters)]
    joined = tuple((name, *joined_loops(kernel, inames, [name]).items()) for name in sorted({*named, *bounds}))
    tags = tuple([(kernel.tag(x), kernel.axis(x)) for x in inames])
    chains = tuple([own for chain in kernel.loop_priority if len(own := tuple(x for x in chain if x in inames)) > 1])
    return known, uses, joined, tags, chains


def _is_as_before(names: Sequence[tuple[str, str]], taken: Collection[str]) -> bool:
    """Return True if the names that were given out would be given out beside those *taken* now."""
    given = {*taken}
    for wish, name in names:
        if _free_name(wish, given) != name:
            return False
        given.add(name)
    return True


def _items(kernel: LoopKernel, group: Sequence[Lowered], after: frozenset[str], number: int) -> list[Item]:
    """Return the statements of one instruction as items of the text order; *number* others are before them.

    The last one has the reads of all of them, so that later writers of these variables follow the whole instruction.
    """
    items = [_item(kernel, statement, after, number + k) for k, statement in enumerate(group)]
    if len(items) == 1:
        return items
    last = items[-1]
    whole = replace(last, reads=frozenset[str]().union(*(item.reads for item in items)))
    outer = set(group[-1].inames)
    common = [next((n for n, x in enumerate(item.nest) if x not in outer), len(item.nest)) for item in items]
    items[-1] = whole
    towards = [_toward(item, items[k + 1 :]) for k, item in enumerate(items)]
    return [replace(item, group=whole, common=count, toward=toward)
            for item, count, toward in zip(items, common, towards, strict=True)]


def _toward(item: Item, others: Sequence[Item]) -> tuple[int, str] | None:
    """Return the level and the loop at which the nest of a later part of the instruction leaves that of *item*."""
    for other in others:
        for level, (own, its) in enumerate(zip(item.nest, other.nest, strict=False)):
            if own != its:
                return level, its
    return None


def _item(kernel: LoopKernel, statement: Lowered, after: frozenset[str], number: int) -> Item:
    """Return statement *number* as an item of the text order.

    It shares no loop over lanes, and none that is part of a matrix instruction.
    """
    nest = tuple([x for x in statement.inames if kernel.axis(x) is None])
    reads = frozenset([access.array for access in statement.reads])
    writes = frozenset([write.array for write in statement.writes])
    blocks = {**dict(statement.instruction.blocks), **statement.joined}
    own = _of_matrix(kernel, statement)
    for x in nest:
        if is_lane(kernel.tag(x)) or x in own:
            blocks[x] = -1 - number
    return Item(statement.name, nest, reads, writes, after, blocks)


def _of_matrix(kernel: LoopKernel, statement: Lowered) -> Collection[str]:
    """Return the loops of a product that are part of its matrix instruction, none for other statements.

    They are what one instruction does, and of those that are waited for in groups (``wgmma``) the unrolled terms.
    """
    matrix = statement.instruction.matrix
    if matrix is None or not isinstance(statement.part, Update):
        return ()
    own = {x for _, pairs in matrix.inames for x, _ in pairs}
    if not matrix.intrinsic.is_shared:
        return own
    terms = (x for term in statement.instruction.terms for x in term.inames)
    return own.union(x for x in terms if isinstance(kernel.tag(x), Unroll))
