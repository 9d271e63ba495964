"""Scans over the blocks of a launch by decoupled look-back: each block passes its total on through global memory.

Blocks take their numbers from a counter when they begin, so that the blocks before a block have always begun.  Each
block stores its own total (its aggregate) as soon as it has it.  To get the totals before it, the threads of one warp
read as many blocks at a time, back to the nearest block that has stored the total of all blocks up to it (its inclusive
prefix).  Then the block stores its own inclusive prefix.  Source: Merrill and Garland, "Single-pass Parallel Prefix
Scan with Decoupled Look-back", NVIDIA, 2016.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.device.block_scan import ThreadScan
from polyloop.codegen.device.entries import LookBack, Threads
from polyloop.codegen.device.warp_reduce import indented
from polyloop.codegen.expressions.expressions import Expressions
from polyloop.codegen.language import Language
from polyloop.codegen.loops.context import Context, Known
from polyloop.codegen.loops.grid import grid_axes
from polyloop.codegen.names import Names, foreign_words, local_words
from polyloop.codegen.program import DeviceLaunch
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Assign, Call
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.nodes import Expression, Operation, array_name, targets_of
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.layout import order_tags
from polyloop.kernel.tree import Node, Run, runs
from polyloop.mapping.collective_shape import Kind, Meeting
from polyloop.poly.axes import BLOCK_AXES, THREAD_AXES, thread_axis
from polyloop.schedule.collective import Collective
from polyloop.schedule.plan import Launch, Schedule, Statement

__all__ = [
    "Chains",
    "chains_in",
    "clear_launch",
    "clear_text",
    "passing_call",
    "ticket_lines",
    "with_totals_stored",
]

_DType = np.dtype[np.generic]
_X: Final = c.Name("x")
_Y: Final = c.Name("y")
_EARLIER: Final = c.Name("earlier")
_CLEARING: Final = 256
"""Threads of a block that clears words; the number of words is a multiple of it."""
_PAUSE: Final = 2000
"""Delay of a block before its look-back [ns]: polling takes bandwidth, and later there are fewer blocks to poll."""


@dataclass(frozen=True)
class Chains:
    """Global arrays and counters of the scans over blocks of one launch.

    Attributes
    ----------
    counter
        The array with the number of the next block to begin.
    ticket
        The shared variable with the number of a block.
    arrays
        All arrays.
    cleared
        Names of the arrays that must be 0 at the beginning.
    words
        Number of words that the launch clears [multiples of 256].
    """

    counter: str
    ticket: str
    arrays: tuple[ArrayArg, ...]
    cleared: tuple[str, ...]
    words: Expression


def chains_in(schedule: Schedule, language: Language, known: Known, arguments: Iterable[str]) -> dict[str, Chains]:
    """Return the workspace of the scans over blocks, by launch, with names that *arguments* do not have."""
    passing = {launch.name: list(_passing(launch, schedule.statements)) for launch in schedule.launches}
    if not language.has_axes or not any(passing.values()):
        return {}
    temporaries = {t.name for launch in schedule.launches for t in launch.temporaries}
    names = Names(temporaries.union(arguments), local_words(language))
    names.taken.update(foreign_words(schedule, language.name), *(s.dims for s in schedule.statements.values()))
    found: dict[str, Chains] = {}
    for launch in schedule.launches:
        if passing[launch.name]:
            own = [schedule.statements[name] for name in runs(launch.tree)]
            (axis,) = grid_axes(launch.group_axes, launch.hosts, own, known.context, known.divisibility)
            packed = language.need(LookBack).words.keys()
            found[launch.name] = _chains(launch, passing[launch.name], axis.extent, names, packed)
    return found


def _chains(
    launch: Launch, statements: Iterable[Statement], blocks: Expression, names: Names, packed: Collection[str]
) -> Chains:
    """Return the workspace through which the blocks of *launch* pass on the totals of *statements*.

    One word holds a total and its state if the type of the total is one of *packed*.
    """
    dtypes = {t.name: t.dtype for t in launch.temporaries}
    words = p.FloorDiv(p.Sum((blocks, _CLEARING - 1)), _CLEARING)
    count = p.Product((_CLEARING, words))
    counter = names.fresh("next_block")
    arrays, cleared, ticket = [_array(counter, "uint32", 1)], [counter], ""
    for statement in statements:
        assert isinstance(statement.action, Collective), f"'{statement.name}' is no collective"
        chain = statement.action.chain
        assert chain is not None, f"'{statement.name}' passes nothing on"
        ticket = statement.action.ticket or ""
        dtype = dtypes[array_name(statement.lhs)]
        if dtype.name in packed:
            arrays.append(_array(chain, "uint64", count))
            cleared.append(chain)
        else:
            arrays += [_array(f"{chain}_known", "uint32", count), _array(chain, dtype, p.Product((2, count)))]
            cleared.append(f"{chain}_known")
    return Chains(counter, ticket, tuple(arrays), tuple(cleared), words)


def _array(name: str, dtype: str | _DType, extent: Expression) -> ArrayArg:
    return ArrayArg(name, np.dtype(dtype), (extent,), (1,), is_input=False, dim_tags=order_tags(1, "C"))


# {{{ the launch that clears, and the number of a block


def clear_text(name: str, chains: Sequence[Chains], language: Language) -> str:
    """Return the text of the function that clears workspace before a run."""
    arrays = {array.name: array for chain in chains for array in chain.arrays if array.name in chain.cleared}
    counters = {chain.counter for chain in chains}
    bounds = language.syntax.launch_bounds.format(threads=_CLEARING, x=_CLEARING, y=1, z=1)
    threads = language.need(Threads)
    block, thread = threads.axes[BLOCK_AXES[0]], threads.axes[THREAD_AXES[0]]
    parameters, lines = [], []
    for array in arrays.values():
        assert array.dtype is not None, f"'{array.name}' has no type"
        ctype = language.types[array.dtype.name]
        parameters.append(f"{threads.global_space}{ctype} *{language.syntax.restrict} {array.name}")
        index = "0" if array.name in counters else "i"
        lines += [*(["if (i == 0)"] if index == "0" else []), f"{'    ' * (index == '0')}{array.name}[{index}] = 0;"]
    return "\n".join(
        [
            "// Resets the values that blocks pass on, and the number of the next block: before each run.",
            f"{language.syntax.function} {bounds} {name}({', '.join(parameters)})",
            "{",
            f"    const unsigned int i = {_CLEARING} * {block} + {thread};",
            *(f"    {line}" for line in lines),
            "}",
        ]
    )


def clear_launch(name: str, chains: Sequence[Chains]) -> DeviceLaunch:
    """Return the launch of the function of :func:`clear_text`."""
    extents = [chain.words for chain in chains]
    words = extents[0] if len(extents) == 1 else p.Max(tuple(extents))
    names = tuple(array for chain in chains for array in chain.cleared)
    return DeviceLaunch(name, (words, 1, 1), (_CLEARING, 1, 1), 0, names)


def ticket_lines(chains: Chains, sizes: Sequence[int], threads: Threads, functions: LookBack) -> Iterator[str]:
    """Yield the lines that define the number of a block, in the order in which blocks begin."""
    ticket = chains.ticket
    yield f"    {threads.shared}unsigned int {ticket};  // this block's number: those before it have begun"
    first = " && ".join(f"{threads.axes[thread_axis(n)]} == 0" for n, size in enumerate(sizes) if size > 1)
    take = f"{ticket} = {functions.take.format(chains.counter)};"
    yield from [f"    if ({first})", f"        {take}"] if first else [f"    {take}"]
    yield f"    {threads.block_barrier}  // the number is there for all threads"


# }}}
# {{{ the functions that store the total of a block, and look back


def with_totals_stored(schedule: Schedule, language: Language) -> Schedule:
    """Return *schedule* with a statement that stores the total of a block as soon as it is known."""
    statements = dict(schedule.statements)
    if not language.has_axes or not any(s.collective and s.collective.chain for s in statements.values()):
        return schedule
    launches = []
    for launch in schedule.launches:
        tree = list(launch.tree)
        for name in [s.name for s in _passing(launch, statements)]:
            statement = statements[name]
            assert isinstance(statement.action, Collective), f"'{name}' is no collective"
            behind = tree.index(next(node for node in tree if isinstance(node, Run) and node.name == name))
            while behind > 0 and array_name(statement.lhs) not in _written(tree[behind - 1], statements):
                behind -= 1
            stored = f"{name}_stored"
            statements[stored] = replace(
                statement, name=stored, action=replace(statement.action, is_stored=True)
            )
            tree.insert(behind, Run(stored))
        launches.append(replace(launch, tree=tuple(tree)))
    return replace(schedule, statements=statements, launches=tuple(launches))


def _written(node: Node, statements: Mapping[str, Statement]) -> set[str]:
    found = (statements[name].lhs for name in runs((node,)) if name in statements)
    return {array_name(target) for lhs in found for target in targets_of(lhs)}


def passing_call(
    expressions: Expressions, statement: Statement, collective: Collective, context: Context, sizes: Sequence[int]
) -> Assign | Call:
    """Return the assignment by which a block gets the scan of totals, or the call that stores its own total."""
    assert collective.chain is not None, f"'{statement.name}' passes nothing on"
    assert collective.scratch is not None, f"'{statement.name}' has nothing to tell all threads through"
    target, _, dtype = expressions.target(statement.lhs, context)
    packed = expressions.scope.language.need(LookBack).words
    chain = [collective.chain] if dtype.name in packed else [collective.chain, f"{collective.chain}_known"]
    arguments = (target, *map(c.Name, [collective.ticket or "", *chain]))
    if collective.is_stored:
        function = _storing(expressions, collective.operation, dtype, tuple(sizes))
        return Call(c.Apply(function, arguments), statement.instruction)
    exclusive = collective.kind is Kind.EXCLUSIVE
    function = _function(expressions, collective.operation, dtype, tuple(sizes), exclusive=exclusive)
    value = c.Apply(function, (*arguments, c.Name(collective.scratch, collective.scratch)))
    return Assign(target, "=", value, statement.instruction)


def _storing(expressions: Expressions, operation: Operation, dtype: _DType, sizes: tuple[int, ...]) -> str:
    """Return the name of the function that stores the value of a block."""
    scope = expressions.scope
    ctype = scope.ctype(dtype)
    key = f"store {ctype} of blocks of {sizes}"
    what = operation.name if operation.fields else dtype.name

    def define(name: str) -> str:
        body = _LookBack(expressions, operation, dtype, Meeting((), scope.language.warp_size), sizes)
        head = f"{scope.language.syntax.helper} void {name}({ctype} x, int block, {body.chain()})"
        comment = "// Publishes the x of this block for the blocks after it; every block calls it."
        lines = (f"    {line}" for line in body.stored_own())
        return "\n".join([comment, *_COMMENTS[body.is_packed], head, "{", *lines, "}"])

    return scope.own_helper(key, f"store_{what}", define)


def _function(
    expressions: Expressions, operation: Operation, dtype: _DType, sizes: tuple[int, ...], *, exclusive: bool
) -> str:
    """Return the name of the function that scans over one value of each block."""
    scope = expressions.scope
    ctype = scope.ctype(dtype)
    key = f"scan {operation} {exclusive} over blocks of {sizes}, {ctype}{', fast' if scope.fast else ''}"
    what = operation.name if operation.fields else f"{operation.name}_{dtype.name}"
    kind = "exclusive" if exclusive else "inclusive"

    def define(name: str) -> str:
        body = _LookBack(expressions, operation, dtype, Meeting((), scope.language.warp_size), sizes)
        head = f"{scope.language.syntax.helper} {ctype} {name}({ctype} x, int block, {body.chain()}, {ctype} *before)"
        which = "before this one" if exclusive else "up to this one"
        lines = (f"    {line}" for line in body.look_back(exclusive=exclusive))
        comment = f"// The {operation} of x over the blocks {which}; every block calls it, and has stored its own x."
        return "\n".join([comment, head, "{", *lines, "}"])

    return scope.own_helper(key, f"grid_{kind}_{what}", define)


_COMMENTS: Final = {
    True: (
        "// totals: of each block 0, or a value and above it 1, if that is the block's own x, or 2, if it is that of",
        "// all blocks up to it.",
    ),
    False: (
        "// known: of each block 0, or 1 if totals has its own x, or 2 if it has that of all blocks up to it, too.",
    ),
}


class _LookBack(ThreadScan):
    """The body of a function that scans over the values ``x`` of blocks; all threads of a block have the same value."""

    @property
    def is_packed(self) -> bool:
        """True if one word holds a value and its state, which are then written and read atomically."""
        return self.dtype.name in self.functions.words

    @property
    def functions(self) -> LookBack:
        """Device functions by which blocks wait."""
        return self.scope.language.need(LookBack)

    def chain(self) -> str:
        """Return the parameters for the workspace."""
        if self.is_packed:
            return "volatile unsigned long long *totals"
        return f"{self.scope.ctype(self.dtype)} *totals, volatile unsigned int *known"

    def stored_own(self) -> Iterator[str]:
        """Yield the statements of the function that stores the value of a block."""
        first = [f"{self.thread(thread_axis(n))} == 0" for n, size in enumerate(self.sizes) if size > 1]
        own = list(self.stored("x", 1))
        yield f"if ({' && '.join([*first, 'block > 0'])}){' {' * (len(own) > 1)}"
        yield from indented(own)
        yield from ["}"] * (len(own) > 1)

    def look_back(self, *, exclusive: bool) -> Iterator[str]:
        """Yield the statements of the function that looks back."""
        ctype, threads = self.scope.ctype(self.dtype), prod(self.sizes)
        size = self.meeting.warp_size
        is_warp = 1 < size <= threads
        thread = str(self.thread(THREAD_AXES[0]))
        if any(size > 1 for size in self.sizes[1:]):
            thread = "thread"
            yield f"const int thread = {self.number()};"
        body = []
        if pause := self.functions.pause.format(_PAUSE):
            body += ["if (block > 0)", f"    {pause}  // meanwhile blocks before this one look back themselves"]
        body.append(f"{ctype} earlier = {self.neutral()};")
        body += self.warp(thread) if is_warp else self.one_by_one()
        result = [f"const {ctype} all = {self.expression(_EARLIER, _X)};", *self.stored("all", 2)]
        result.append(f"*before = {'earlier' if exclusive else 'all'};")
        if is_warp:
            yield f"if ({thread} < {size}) {{"
            yield from indented([*body, f"if ({thread} == 0) {{", *indented(result), "}"])
        else:
            yield f"if ({thread} == 0) {{"
            yield from indented([*body, *result])
        yield "}"
        yield f"{self.threads.block_barrier}  // the value is there for all threads"
        yield "return *before;"

    def stored(self, value: str, what: int) -> Iterator[str]:
        """Yield the statements that publish *value* with its state: own total (1), or total of all up to it (2)."""
        if self.is_packed:
            yield f"totals[block] = {what}ull << 32 | {self.functions.words[self.dtype.name].to.format(value)};"
            return
        yield f"totals[2u * block{' + 1' if what > 1 else ''}] = {value};"
        yield self.functions.fence
        yield f"known[block] = {what};"

    def warp(self, thread: str) -> Iterator[str]:
        """Yield the look-back of a warp, whose threads read one block each at a time."""
        ctype, size = self.scope.ctype(self.dtype), self.meeting.warp_size
        yield f"for (int last = block - 1; last >= 0; last -= {size}) {{"
        yield f"    const int other = last - {thread};"
        word, what = ("unsigned long long", "word >> 32") if self.is_packed else ("unsigned int", "word")
        beyond = "2ull << 32" if self.is_packed else "2"
        source = "totals" if self.is_packed else "known"
        yield f"    {word} word;"
        yield f"    {self.functions.mask} whole, unknown;"
        yield "    do {"
        yield f"        word = other < 0 ? {beyond} : {source}[other];"
        everyone, ballot = f"0x{2**size - 1:x}", self.functions.ballot
        yield f"        whole = {ballot.format(everyone, f'{what} == 2')};"
        yield f"        unknown = {ballot.format(everyone, f'{what} == 0')};"
        yield "    } while (unknown & ~whole & (whole - 1));  // all nearer than a block with the total of all"
        first = self.functions.first.format("whole")
        yield f"    const int end = whole != 0 ? {first} : {size - 1};"
        if self.is_packed:
            yield f"    {ctype} y = {self.functions.words[self.dtype.name].back.format('word')};"
        else:
            yield f"    {self.functions.fence}"
            yield f"    {ctype} y = {self.neutral()};"
            yield f"    if (other >= 0 && {thread} <= end)"
            yield "        y = totals[2u * other + (word - 1)];"
        yield "    " + self.scope.language.loops.unroll.format(count=size.bit_length() - 1)
        yield f"    for (int step = 1; step < {size}; step *= 2) {{"
        yield f"        const {ctype} z = {self.below(_Y, c.Name('step'))};"
        yield f"        if ({thread} + step <= end)"
        yield f"            y = {self.expression(c.Name('z'), _Y)};"
        yield "    }"
        yield f"    earlier = {self.expression(_Y, _EARLIER)};"
        yield "    if (whole != 0)"
        yield "        break;"
        yield "}"

    def one_by_one(self) -> Iterator[str]:
        """Yield the look-back of one thread, which reads one block after the other."""
        ctype = self.scope.ctype(self.dtype)
        yield "for (int other = block - 1; other >= 0; --other) {"
        if self.is_packed:
            yield "    unsigned long long word;"
            yield "    do"
            yield "        word = totals[other];"
            yield "    while (word >> 32 == 0);"
            yield f"    const {ctype} y = {self.functions.words[self.dtype.name].back.format('word')};"
        else:
            yield "    unsigned int word;"
            yield "    do"
            yield "        word = known[other];"
            yield "    while (word == 0);"
            yield f"    {self.functions.fence}"
            yield f"    const {ctype} y = totals[2u * other + (word - 1)];"
        yield f"    earlier = {self.expression(_Y, _EARLIER)};"
        yield f"    if ({'word >> 32' if self.is_packed else 'word'} == 2)"
        yield "        break;"
        yield "}"

    def below(self, value: Code, distance: Code) -> Code:
        """Return the value of the thread of the warp that is *distance* after this one."""
        comment = "// The value of the thread of the warp that is so many after this one."
        return self.shuffled(self.shuffles.above, value, ("distance", distance), "below", "below", comment)


# }}}


def _passing(launch: Launch, statements: Mapping[str, Statement]) -> Iterator[Statement]:
    """Yield the statements of a launch that are scans over blocks."""
    for name in runs(launch.tree):
        entry = statements[name].collective if name in statements else None
        if entry is not None and entry.chain is not None and not entry.is_stored:
            yield statements[name]
