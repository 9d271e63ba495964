"""Reductions over the threads of a block, as device functions on one value of each thread.

Threads of one warp exchange values by shuffles.  Then the parts of a group exchange one value each through shared
memory.  All threads of the block call each function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import prod
from typing import Final

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.device.cluster import cluster_call, placed
from polyloop.codegen.device.entries import Reductions, Shuffles, SubGroups, Threads
from polyloop.codegen.expressions.combine import function_scope, updated
from polyloop.codegen.expressions.expressions import Expressions
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.grid import axis_text
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Assign
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.dtypes import dtype_name, is_complex, is_narrow
from polyloop.expr.nodes import Expression, Operation
from polyloop.expr.operations import has_terms
from polyloop.expr.printer import show
from polyloop.expr.records import field_dtype, field_names, is_record
from polyloop.mapping.collective_shape import LOGICAL, Kind, Meeting, Span, meeting_of
from polyloop.poly.axes import CLUSTER_AXIS, THREAD_AXES, digit_parts, letter_of, thread_axis
from polyloop.schedule.collective import Collective
from polyloop.schedule.plan import Statement

__all__ = ["Exchange", "collective_call", "indented", "leaves", "listed", "mixed", "partial", "times"]

_DType = np.dtype[np.generic]
_FEW: Final = 8
"""Limit on the parts that every thread combines by itself: a broadcast load takes less time than a shuffle."""
_WORDS: Final = {
    "max": "The greatest x", "min": "The least x", "any": "Whether x holds on any", "all": "Whether x holds on all",
}  # fmt: skip
_X: Final = c.Name("x")
_Y: Final = c.Name("y")
_ZERO: Final = c.integer(0)
_SERIAL: Final = 32
"""Limit on the parts that are combined serially; more are combined by the threads of the group in a tree."""


def collective_call(
    expressions: Expressions, statement: Statement, collective: Collective, context: Context, sizes: Sequence[int]
) -> Assign:
    """Return the assignment by which every thread of a group gets the combination of the group's values."""
    scope = expressions.scope
    target, name, dtype = expressions.target(statement.lhs, context)
    meeting = meeting_of(sizes, collective.across, scope.language.warp_size, collective.blocks)
    value = target
    if meeting.across or meeting.blocks > 1:
        who = "whole warps call it" if statement.bounds and collective.is_direct else "the whole block calls it"
        who = who if meeting.blocks == 1 else "the whole cluster calls it"
        function = _function(expressions, collective.operation, dtype, meeting, (tuple(sizes), who))
        arguments = [target]
        if collective.scratch is not None:
            scratch = c.Name(collective.scratch, collective.scratch)
            arguments.append(c.put(target, {name: scratch}) if collective.apart else scratch)
        value = c.Apply(function, tuple(arguments))
    return Assign(target, "=", value, statement.instruction)


def _function(
    expressions: Expressions, operation: Operation, dtype: _DType, meeting: Meeting, block: tuple[tuple[int, ...], str]
) -> str:
    """Return the name of the function that combines one value of each thread of a group.

    *block* has the sizes of the block, and the description of the function's callers.
    """
    sizes, callers = block
    scope = expressions.scope
    axes = "".join(map(_axis_word, meeting.across))
    axes += f"{'_and' if axes else ''}_cluster" if meeting.blocks > 1 else ""
    meaning = "; ".join(map(show, operation.combine))
    key = f"{operation}: {meaning}, over {axes} of {sizes}, {scope.ctype(dtype)}{', fast' if scope.fast else ''}"
    key += f", {meeting.blocks} blocks" if meeting.blocks > 1 else ""
    name = scope.definitions.helper_names.get(key)
    if name is None:
        count = prod(span.extent for span in meeting.across) * meeting.blocks
        what = operation.name if operation.fields else f"{operation.name}_{dtype.name}"
        wish = f"{operation.name}_over_{axes}{what.removeprefix(operation.name)}"
        if meeting.blocks > 1 and meeting.is_whole_block:
            wish = f"cluster_{what}"
        elif meeting.blocks == 1 and meeting.is_whole_block and count > meeting.warp_size:
            wish = f"block_{what}"
        elif meeting.blocks == 1 and meeting.parts == 1 and count == meeting.warp_size:
            wish = f"warp_{what}"
        ctype = scope.ctype(dtype)
        space = scope.language.need(Threads).shared_space
        parameters = f"{ctype} x, {space}{ctype} *partial" if meeting.scratch(Kind.COMBINE, operation) else f"{ctype} x"
        named = scope.language.need(Threads).axes
        numbers = [named.get(span.axis) or _digit_word(span) for span in meeting.across]
        numbers += ["the block of the cluster"] if meeting.blocks > 1 else []
        whole = "of the block" if meeting.blocks == 1 else "of the cluster"
        who = whole if meeting.is_whole_block else f"that differ in {listed(numbers)} only"
        meant = _WORDS.get(operation.name, f"The {operation} of x")
        comment = f"// {meant} over the {count} threads {who}, on each of them; {callers}."

        def define(name: str) -> str:
            body = Exchange(expressions, operation, dtype, meeting, sizes)
            lines = [*body.lines(), *(body.over_cluster() if meeting.blocks > 1 else ())]
            head = f"{scope.language.syntax.helper} {ctype} {name}({parameters})"
            return "\n".join([comment, head, "{", *indented(lines), "    return x;", "}"])

        name = scope.own_helper(key, wish, define)
    return name


def _axis_word(span: Span) -> str:
    """Return the word for an axis in the name of a function."""
    return letter_of(span.axis) if digit_parts(span.axis) is None else f"lanes_{span.stride}_{span.extent}"


def _digit_word(span: Span) -> str:
    """Return the text for a digit of the number of the thread."""
    number = "thread" if span.stride == 1 else f"thread / {span.stride}"
    return f"{number} % {span.extent}"


class Exchange:
    """The body of a function that combines the values ``x`` of threads."""

    def __init__(
        self, expressions: Expressions, operation: Operation, dtype: _DType, meeting: Meeting, sizes: tuple[int, ...]
    ) -> None:
        self.scope = expressions.scope
        self.threads = self.scope.language.need(Threads)
        self.inside = function_scope(self.scope, {"x": dtype, "y": dtype})
        self.printer = type(expressions)(self.inside)
        self.operation = operation
        self.dtype = dtype
        self.meeting = meeting
        self.sizes = sizes
        # All threads get the same result despite rounding: the operand of the lower thread always comes first.
        self.is_symmetric = not operation.combine and not (is_complex(dtype) and operation.name == "product")

    def lines(self) -> Iterator[str]:
        """Yield the statements."""
        language, meeting = self.scope.language, self.meeting
        name = self.operation.name
        native = language.find(Reductions) or Reductions({})
        if name in LOGICAL and name in native.block and meeting.is_whole_block and meeting.parts > 1:
            yield f"x = {native.block[name].format('x')};"
            return
        groups = language.find(SubGroups)
        in_group = None if groups is None else groups.reductions.get((name, self.dtype.name))
        if groups is not None and in_group is not None and meeting.is_whole_block and meeting.parts > 1:
            yield from self.over_sub_groups(groups, in_group)
            return
        at_once = native.warp.get((name, self.dtype.name))
        if at_once is not None and len(meeting.bits) == meeting.warp_size.bit_length() - 1:
            yield f"x = {at_once.format(f'0x{2**meeting.warp_size - 1:x}', 'x')};"
        else:
            yield from self.exchange(meeting.bits)
        if meeting.parts > 1:
            yield from self.through_memory()

    def unrolled(self, count: int) -> Iterator[str]:
        """Yield the pragma of a loop of *count* iterations, if the language has one."""
        if pragma := self.scope.language.loops.unroll.format(count=count):
            yield pragma

    def combine(self, left: Code, right: Code) -> tuple[str, Code]:
        """Return the assignment operator and the value by which *right* is combined into *left*, without branches."""
        if self.operation.name in LOGICAL:
            return "|=" if self.operation.name == "any" else "&=", right
        some = has_terms(self.operation, self.dtype, p.Variable("y"))
        if some is not None:
            return "=", c.Apply(self.of_parts(some), (left, right))
        operator, value = updated(self.printer, self.operation, (_X, self.dtype), p.Variable("y"), Context())
        return operator, c.put(value, {"x": left, "y": right})

    def expression(self, left: Code, right: Code) -> Code:
        """Return the combination of two variables, *left* first."""
        operator, value = self.combine(left, right)
        return value if operator == "=" else c.binary(c.OPERATORS[operator[:-1]], left, value)

    def of_parts(self, some: Expression) -> str:
        """Return the name of the function that combines two states, and leaves out one without terms."""
        ctype = self.scope.ctype(self.dtype)
        _, call = updated(self.printer, self.operation, (_X, self.dtype), p.Variable("y"), Context())

        def define(name: str) -> str:
            test = self.printer.value(some, Context(), np.dtype("bool"))
            test = c.Parentheses(test) if c.may_skip(test) else test
            head = f"{self.scope.language.syntax.helper} {ctype} {name}({ctype} x, {ctype} y)"
            comment = "// Leaves out y if it has no terms."
            return "\n".join([comment, head, "{", f"    return {c.Choice(test, call, _X)};", "}"])

        return self.scope.own_helper(f"parts {call} {ctype}", f"{self.operation.name}_of_parts", define)

    def combined(self, left: Code, right: Code) -> Iterator[str]:
        """Yield statements that combine *right*, a longer expression, into *left*."""
        operator, value = self.combine(left, _Y)
        if c.occurrences(value, "y") == 1 and not any(map(c.may_skip, c.nodes(value))):
            operator, value = self.combine(left, right)
        else:
            yield f"const {self.scope.ctype(self.dtype)} y = {right};"
        yield f"{left} {operator} {value};"

    @property
    def shuffles(self) -> Shuffles:
        """Shuffle functions of the language."""
        return self.scope.language.need(Shuffles)

    def thread(self, axis: str) -> Code:
        """Return the expression for the index of a thread along an axis."""
        return _code(self.threads.axes[axis])

    def part_of(self, span: Span, operator: c.Operator = c.OVER) -> Code:
        """Return the part of a group with the thread along an axis, or with ``MODULO``, its place in the part."""
        number = self.thread(span.axis)
        return number if span.direct == 1 else c.binary(operator, number, c.integer(span.direct))

    # {{{ within a warp

    def exchange(self, bits: Sequence[int]) -> Iterator[str]:
        """Yield the butterfly exchange of values with threads of the warp whose number differs in one of *bits*."""
        for low, high in _runs(bits):
            one = low == high
            body = list(self.step(c.value_of(low if one else "step")))
            if one:
                yield from body if len(body) == 1 else ["{", *indented(body), "}"]
                continue
            yield from self.unrolled(len(bits))
            yield f"for (int step = {low}; step <= {high}; step *= 2){' {' if len(body) > 1 else ''}"
            yield from indented(body)
            if len(body) > 1:
                yield "}"

    def step(self, step: Code) -> Iterator[str]:
        """Yield one step of the exchange, with the thread whose number differs in the bit *step*."""
        other = self.exchanged(_X, step)
        if self.is_symmetric:
            yield from self.combined(_X, other)
            return
        yield f"const {self.scope.ctype(self.dtype)} y = {other};"
        is_upper = c.binary(c.BIT_AND, self.number(), step)
        yield f"x = {c.Choice(is_upper, self.expression(_Y, _X), self.expression(_X, _Y))};"

    def exchanged(self, value: Code, step: Code) -> Code:
        """Return *value* of the thread whose number differs in the bit *step*."""
        comment = "// The value of the thread of the warp whose number differs in the bit step."
        return self.shuffled(self.shuffles.differing, value, ("step", step), "exchange", "exchanged", comment)

    def shuffled(
        self, shuffle: str, value: Code, by: tuple[str, Code], what: str, wish: str, comment: str
    ) -> Code:
        """Return *value* of another thread of the warp; a record by a function that shuffles each of its fields.

        Parameters
        ----------
        by
            Name of the function's second parameter, and its argument.
        what, wish
            Key of the function, and its name if that is free.
        """
        mask = f"0x{2 ** min(prod(self.sizes), self.meeting.warp_size) - 1:x}" if self.shuffles.has_masks else ""
        parameter, given = by
        parts = list(leaves(self.scope, self.dtype, ""))
        if parts == [""]:
            return c.Apply(shuffle, (*([c.Raw(mask)] if mask else []), value, given))
        ctype = self.scope.ctype(self.dtype)

        def define(name: str) -> str:
            lanes = f"{mask}, " if mask else ""
            moved = [f"    x{leaf} = {shuffle}({lanes}x{leaf}, {parameter});" for leaf in parts]
            head = f"{self.scope.language.syntax.helper} {ctype} {name}({ctype} x, int {parameter})"
            return "\n".join([comment, head, "{", *moved, "    return x;", "}"])

        name = self.scope.own_helper(f"{what} {ctype} {mask}", f"{wish}_{dtype_name(self.dtype)}", define)
        return c.Apply(name, (value, given))

    def number(self) -> Code:
        """Return the number of the thread in its block; if values go along ``l.0`` alone, its index there."""
        spans = {span.axis for span in self.meeting.across if span.direct > 1}
        sizes = self.sizes[:1] if spans == {THREAD_AXES[0]} else self.sizes
        axes = [(self.thread(thread_axis(number)), size) for number, size in enumerate(sizes)]
        return _total(*(term for term, (_, size) in zip(_weighted(axes), axes, strict=True) if size > 1)) or axes[0][0]

    # }}}
    # {{{ between blocks of a cluster

    def over_cluster(self) -> Iterator[str]:
        """Yield the combination of values of the blocks of a cluster, each stored in all of them, in a fixed order."""
        meeting, blocks = self.meeting, self.meeting.blocks
        begin = meeting.within_block(Kind.COMBINE, self.operation)
        group = mixed([(self.thread(span.axis), span.extent) for span in meeting.along])
        base = [c.integer(begin)] if begin else []
        rank = c.Parentheses(c.Raw(axis_text(self.threads, CLUSTER_AXIS, blocks)))
        own = partial(*base, times(rank, meeting.groups), group)
        ctype, place = self.scope.ctype(self.dtype), placed(self.scope)
        stores = f"*({ctype} *){place}(&{own}, {{}}) = x;"
        many = next((span for span in meeting.across if span.extent >= blocks), None)  # a thread for each block
        heads = [f"{self.thread(span.axis)} == 0" for span in meeting.across if span is not many]
        if many is None:
            yield from [f"if ({' && '.join(heads)})"] if heads else []
            lines = [*self.unrolled(blocks), f"for (int n = 0; n < {blocks}; ++n)", f"    {stores.format('n')}"]
            yield from (indented(lines) if heads else lines)
        else:
            checks = [*([f"{self.thread(many.axis)} < {blocks}"] if many.extent > blocks else []), *heads]
            store = stores.format(self.thread(many.axis))
            yield from [f"if ({' && '.join(checks)})", f"    {store}"] if checks else [store]
        yield f"{cluster_call(self.scope, 'barrier')}  // the part of each block is there"
        element = partial(*base, times(c.Name("n"), meeting.groups), group)
        yield f"x = {partial(*base, group)};"
        yield from self.unrolled(blocks - 1)
        yield f"for (int n = 1; n < {blocks}; ++n)"
        body = list(self.combined(_X, element))
        yield from indented(body if len(body) == 1 else ["{", *indented(body), "}"])

    # }}}
    # {{{ through shared memory

    def over_sub_groups(self, groups: SubGroups, call: str) -> Iterator[str]:
        """Yield the combination of what sub-groups find at once; there are at most as many as threads."""
        yield f"x = {call.format('x')};"
        yield f"if ({groups.lane} == 0)"
        yield f"    partial[{groups.number}] = x;"
        yield f"{self.threads.block_barrier}  // the part of each sub-group is there"
        yield "x = partial[0];"
        yield f"for (int n = 1; n < (int){groups.count}; ++n)"
        yield from indented(self.combined(_X, partial(c.Name("n"))))

    def through_memory(self) -> Iterator[str]:
        """Yield the combination of the parts of a group through shared memory, with one value for each part."""
        meeting = self.meeting
        parts, groups = meeting.parts, meeting.groups
        across = [(span, self.part_of(span)) for span in meeting.across if span.parts > 1]
        part = mixed([(place, span.parts) for span, place in across])
        group = mixed([(self.thread(span.axis), span.extent) for span in meeting.along])
        leaders = [self.thread(span.axis) for span in meeting.across if span.direct == span.extent]
        conditions = [f"{text} == 0" for text in leaders]
        conditions += [
            f"{self.part_of(span, c.MODULO)} == 0"
            for span in meeting.across
            if 1 < span.direct < span.extent
        ]
        is_rowwise = meeting.spans[0].is_across
        base, stride = (times(group, parts), 1) if is_rowwise else (group, groups)
        own = partial(base, part if is_rowwise else times(part, groups))
        store = f"{own} = x;"
        yield from [f"if ({' && '.join(conditions)})", f"    {store}"] if conditions else [store]
        yield f"{self.threads.block_barrier}  // the part of each warp is there"
        first = partial(base)
        low = meeting.across[0]
        if parts > _SERIAL and not self.operation.ordered:
            yield from self.tree(own, part, stride, conditions)
            yield f"x = {first};"
        elif parts > _FEW and parts & (parts - 1) == 0 and low.axis == THREAD_AXES[0] and low.direct >= parts:
            yield f"x = {partial(base, c.binary(c.MODULO, self.thread('l.0'), c.integer(parts)))};"
            yield from self.exchange([2**n for n in range(parts.bit_length() - 1)])
        else:
            element = partial(base, c.integer(stride) if parts == 2 else times(c.Name("n"), stride))
            yield f"x = {first};"
            if parts == 2:
                yield from self.combined(_X, element)
                return
            yield from self.unrolled(parts - 1)
            yield f"for (int n = 1; n < {parts}; ++n)"
            yield from indented(self.combined(_X, element))

    def tree(self, own: Code, part: Code, stride: int, conditions: Sequence[str]) -> Iterator[str]:
        """Yield the combination of many parts in shared memory by a tree, which halves their number in each step."""
        parts = self.meeting.parts
        begin = 1 << ((parts - 1).bit_length() - 1)
        yield f"for (int distance = {begin}; distance > 0; distance /= 2) {{"
        yield f"    const int n = {part};"
        checks = [*conditions, "n < distance", f"n + distance < {parts}"]
        yield f"    if ({' && '.join(checks)}) {{"
        yield f"        {self.threads.shared_space}{self.scope.ctype(self.dtype)} *mine = &{own};"
        element = c.Subscript(c.Name("mine"), times(c.Name("distance"), stride))
        statements = list(self.combined(c.Unary(c.TARGET, c.Name("mine")), element))
        yield from (f"        {line}" for line in statements)
        yield "    }"
        yield f"    {self.threads.block_barrier}  // the next step reads what this one wrote"
        yield "}"

    # }}}


def listed(numbers: Sequence[str]) -> str:
    """Return expressions such as ``threadIdx.x and .y`` for a comment, with the common prefix written once."""
    first, *others = numbers
    common = first.rpartition(".")[0]
    return " and ".join([first, *(other.removeprefix(common) for other in others)])


@cache
def _code(number: str) -> Code:
    """Return the expression for the index of a thread: a member of a variable, or a call."""
    function, bracket, argument = number.partition("(")
    if bracket:
        return c.Apply(function, (c.Raw(argument.removesuffix(")")),))
    variable, _, member = number.rpartition(".")
    return c.Member(c.Name(variable), member) if variable else c.Name(member)


def partial(*terms: Code) -> Code:
    """Return the element of the shared memory of a function at the sum of *terms*."""
    return c.Subscript(c.Name("partial"), _total(*terms) or _ZERO)


def leaves(scope: Scope, dtype: _DType, prefix: str) -> Iterator[str]:
    """Yield the paths to the scalar members of a value, which a shuffle can move."""
    if is_record(dtype):
        for name in field_names(dtype):
            yield from leaves(scope, field_dtype(dtype, name), f"{prefix}.{scope.definitions.spelling_of.field(name)}")
    elif is_complex(dtype):
        yield from (f"{prefix}.re", f"{prefix}.im")
    elif is_narrow(dtype) and not scope.has_spelling("bits", dtype):
        yield f"{prefix}.bits"
    else:
        yield prefix


def _runs(bits: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last bit of each run in *bits*, in which each bit is twice the one before."""
    begin = 0
    for number, bit in enumerate(bits):
        if number + 1 == len(bits) or bits[number + 1] != 2 * bit:
            yield bits[begin], bit
            begin = number + 1


def _weighted(digits: Sequence[tuple[Code, int]]) -> Iterator[Code]:
    """Yield *digits*, each with its base, the lowest first, as the terms of a number."""
    stride = 1
    for digit, base in digits:
        yield times(digit, stride)
        stride *= base


def mixed(digits: Sequence[tuple[Code, int]]) -> Code:
    """Return the number with *digits*, each with its base, the lowest first; 0 for none."""
    return _total(*_weighted(digits)) or _ZERO


def times(code: Code, factor: int) -> Code:
    """Return the product of *factor* and *code*, simplified."""
    return code if factor == 1 or code == _ZERO else c.binary(c.TIMES, c.integer(factor), code)


def _total(*terms: Code) -> Code | None:
    """Return the sum of the *terms* that are not 0, None if there are none."""
    left = [term for term in terms if term != _ZERO]
    return c.total(left) if left else None


def indented(lines: Sequence[str] | Iterator[str]) -> Iterator[str]:
    """Return *lines* indented by one level."""
    return (f"    {line}" for line in lines)
