"""Lowering of a kernel to a program, one assignment at a time.

Reductions become *init* and *update* statements over an accumulator, substitution rules are expanded, and the loop tree
is built.  The reference program and every transformed one are lowered alike, so the two can be compared read by read:
the reads of an instruction are numbered in the order of its text (*leaves*), and a transform preserves that order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from polyloop.expr.rewrite import variables
from polyloop.expr.rules import expand_rules
from polyloop.frozen import quick, replace
from polyloop.kernel.build.text_order import Item, build_tree
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.kernel.tags import is_lane, placing
from polyloop.kernel.tree import paths, with_collectives
from polyloop.program.expand_lanes import with_lanes
from polyloop.program.guards import exact_parameters
from polyloop.program.ir import Access, Accumulator, Lowered, Program
from polyloop.program.lookback_order import waits_last
from polyloop.program.loop_sharing import may_share
from polyloop.program.lower_instruction import Joined, Lowering, joined, loop_order
from polyloop.program.written_barriers import barrier_items

__all__ = ["Access", "Accumulator", "Lowered", "Program", "loop_order", "lower"]

_RECENT: Final = 64
_recent: OrderedDict[tuple[Hashable, ...], tuple[tuple[object, ...], Program]] = OrderedDict()


@memoised
def lower(kernel: LoopKernel) -> Program:
    """Return the statements and the loop tree of *kernel*.

    Kernels that differ only in what lowering does not look at (shapes, types, the trace) share the work.
    """
    kernel = with_lanes(kernel)
    parts = (
        kernel.instructions,
        kernel.barriers,
        kernel.iname_tags,
        kernel.loop_priority,
        kernel.substitutions,
        kernel.evaluations,
        kernel.buffers,
        kernel.parameters,
    )
    key = (*(id(part) for part in parts), kernel.names(), exact_parameters(kernel))
    found = _recent.get(key)
    if found is None:
        found = _recent[key] = (parts, _lower(kernel))
        if len(_recent) > _RECENT:
            _recent.popitem(last=False)
    return replace(found[1], kernel=kernel)


def _lower(kernel: LoopKernel) -> Program:
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
    tree = with_collectives(tree, {name for name, statement in statements.items() if statement.role == "combine"})
    tree = waits_last(kernel, tree, statements, accumulators)
    return Program(kernel, statements, tree, accumulators, paths(tree))


@quick
@dataclass(frozen=True, eq=False)
class _Apart:
    """An instruction taken apart, and all that this looked at, for kernels that have the instruction in common.

    Attributes
    ----------
    context
        See :func:`_context`; the substitution rules in it are kept with their identity.
    arrays
        Each name in its text, and whether that was an array.
    named
        The names that it wished for, and those that it got.
    joined
        What :meth:`Lowering.joined` was asked, with the answers.
    """

    context: tuple[Hashable, ...]
    rules: object
    arrays: Mapping[str, bool]
    named: Sequence[tuple[str, str]]
    joined: Sequence[Joined]
    statements: Sequence[Lowered]
    accumulators: Sequence[Accumulator]

    def holds_in(self, kernel: LoopKernel, context: tuple[Hashable, ...], taken: set[str]) -> bool:
        """Return whether the instruction is the same statements in *kernel*, where so many names are *taken*.

        If so, those that it needs are taken, too.
        """
        arrays = kernel.arrays()
        if self.context != context or any((name in arrays) is not known for name, known in self.arrays.items()):
            return False
        if any(joined(kernel, own, names) != found for own, names, found in self.joined):
            return False
        added: list[str] = []
        for wish, name in self.named:
            if _free_name(wish, taken) != name:
                taken.difference_update(added)
                return False
            taken.add(name)
            added.append(name)
        return True


_FEW: Final = 8
"""Ways of one instruction to be taken apart that are remembered."""


@memoised
def _known_apart(instruction: Instruction) -> list[_Apart]:
    """Return where the ways are kept in which *instruction* was taken apart."""
    del instruction
    return []


def _context(kernel: LoopKernel, instruction: Instruction) -> tuple[Hashable, ...]:
    """Return what taking an instruction apart depends on, besides names and arrays."""
    known = _contexts(kernel)
    key = (instruction.inames, *[term.inames for term in instruction.terms])
    if key not in known:
        known[key] = _found_context(kernel, key)
    return known[key]


@memoised
def _contexts(kernel: LoopKernel) -> dict[tuple[tuple[str, ...], ...], tuple[Hashable, ...]]:
    """Return where it is kept what :func:`_context` found, by the inames of instructions and of their terms."""
    del kernel
    return {}


def _found_context(kernel: LoopKernel, nests: Iterable[tuple[str, ...]]) -> tuple[Hashable, ...]:
    inames = dict.fromkeys(x for nest in nests for x in nest)
    tags = tuple(placing(kernel.tag(iname)) for iname in inames)
    chains = (tuple(x for x in chain if x in inames) for chain in kernel.loop_priority)
    priority = frozenset(chain for chain in chains if len(chain) > 1)
    return (kernel.parameters, exact_parameters(kernel), priority, tags, id(kernel.substitutions))


def _free_name(wish: str, taken: Collection[str]) -> str:
    name = wish
    number = 0
    while name in taken:
        name = f"{wish}_{number}"
        number += 1
    return name


def _taken_apart(
    kernel: LoopKernel, instruction: Instruction, taken: set[str]
) -> tuple[Sequence[Lowered], Sequence[Accumulator]]:
    """Return the statements and accumulators of an instruction, whose names become *taken*.

    A kernel shares with those before it what it has in common with them: most steps change few instructions, and what
    is known of a statement (its place on threads, the cells that it touches) is kept with the statement.
    """
    known = _known_apart(instruction)
    context = _context(kernel, instruction)
    for before in known:
        if before.holds_in(kernel, context, taken):
            return before.statements, before.accumulators
    named: list[tuple[str, str]] = []

    def fresh(wish: str) -> str:
        name = _free_name(wish, taken)
        taken.add(name)
        named.append((wish, name))
        return name

    lowering = Lowering(kernel, instruction, fresh)
    group = lowering.statements()
    if not instruction.is_c:  # what C text reads depends on shapes
        texts = (instruction.assignee, instruction.expression, *instruction.predicates)
        names = frozenset[str]().union(*[variables(expand_rules(text, kernel.substitutions)) for text in texts])
        arrays = {name: name in lowering.arrays for name in names}
        del known[_FEW - 1 :]
        known.insert(
            0,
            _Apart(context, kernel.substitutions, arrays, named, lowering.asked, group, lowering.accumulators),
        )
    return group, lowering.accumulators


def _items(kernel: LoopKernel, group: Sequence[Lowered], after: frozenset[str], number: int) -> list[Item]:
    """Return the statements of one instruction as far as order is concerned; *number* others are before them.

    The last one reads what all of them read: what comes later and writes that has to follow the instruction.
    """
    items = [_item(kernel, statement, after, number + k) for k, statement in enumerate(group)]
    if len(items) == 1:
        return items
    last = items[-1]
    whole = replace(last, reads=frozenset[str]().union(*(item.reads for item in items)))
    outer = set(group[-1].inames)
    common = [next((n for n, x in enumerate(item.nest) if x not in outer), len(item.nest)) for item in items]
    items[-1] = whole
    return [replace(item, group=whole, common=count) for item, count in zip(items, common, strict=True)]


def _item(kernel: LoopKernel, statement: Lowered, after: frozenset[str], number: int) -> Item:
    """Return one statement, the one of this *number*, as far as order is concerned; it shares no loop over lanes."""
    nest = tuple([x for x in statement.inames if kernel.axis(x) is None])
    reads = frozenset([access.array for access in statement.reads])
    writes = frozenset([write.array for write in statement.writes])
    blocks = {**dict(statement.instruction.blocks), **statement.joined}
    for x in nest:
        if is_lane(kernel.tag(x)):
            blocks[x] = -1 - number
    return Item(statement.name, nest, reads, writes, after, blocks)
