"""Parsed statements as text again, for :func:`polyloop.kernel_to_python`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pymbolic.primitives as p

from polyloop.expr.dtypes import dtype_name
from polyloop.expr.nodes import Expression, Lookup, array_name
from polyloop.expr.printer import show
from polyloop.expr.results import result_fields
from polyloop.expr.rewrite import map_nodes, variables
from polyloop.expr.rules import expand_rules
from polyloop.kernel.instruction import SubstitutionRule
from polyloop.kernel.layout import Auto
from polyloop.kernel.text.parser import ParsedInstruction, ParsedRule

__all__ = ["statements_text"]

_Statement: TypeAlias = ParsedInstruction | ParsedRule


def statements_text(
    statements: Sequence[_Statement], options: Mapping[int, tuple[str, ...]], arrays: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return lines that :func:`polyloop.make_kernel` reads as *statements*, with their blocks.

    ``options[i]`` are more options of statement ``i``, as text; *arrays* are temporaries declared elsewhere.
    """
    return tuple(_lines(statements, options, frozenset(arrays)))


def _lines(
    statements: Sequence[_Statement], options: Mapping[int, tuple[str, ...]], arrays: frozenset[str]
) -> Iterator[str]:
    instructions = [x for x in statements if isinstance(x, ParsedInstruction)]
    temporaries = arrays.union(array_name(x.assignee) for x in instructions if x.declared is not None)
    rules = {x.rule.name: x.rule for x in statements if isinstance(x, ParsedRule)}
    below = Counter(array_name(x.assignee) for x in instructions)
    around: tuple[int, ...] = ()
    for number, statement in enumerate(statements):
        if isinstance(statement, ParsedRule):
            rule = statement.rule
            yield f"{rule.name}({', '.join(rule.arguments)}) := {_spelt(rule.expression)}"
            continue
        parts = [statement]
        if statement.several is not None:
            parts = [x for x in instructions if x.several == statement.several]
            if statement is not parts[0]:
                continue
        below.subtract(array_name(part.assignee) for part in parts)
        blocks = statement.loops.numbers
        shared = 0
        while shared < min(len(around), len(blocks)) and around[shared] == blocks[shared]:
            shared += 1
        yield from ("    " * depth + "end" for depth in range(len(around) - 1, shared - 1, -1))
        yield from ("    " * depth + f"for {statement.loops.written[depth]}" for depth in range(shared, len(blocks)))
        around = blocks
        read = temporaries & frozenset[str]().union(*(_reads(part, rules) for part in parts))
        is_early = any(below[name] for name in read)
        yield "    " * len(blocks) + _instruction(parts, options.get(number, ()), bool(read), is_early)
    yield from ("    " * depth + "end" for depth in range(len(around) - 1, -1, -1))


def _reads(part: ParsedInstruction, rules: Mapping[str, SubstitutionRule]) -> frozenset[str]:
    """Return the names that a statement reads, with rules expanded; of its target only the subscripts."""
    indices = part.assignee.index_tuple if isinstance(part.assignee, p.Subscript) else ()
    found = (variables(expand_rules(expr, rules)) for expr in (part.expression, *part.predicates, *indices))
    return frozenset[str]().union(*found)


def _instruction(parts: Sequence[ParsedInstruction], more: Sequence[str], reads_temporary: bool, is_early: bool) -> str:
    """Return one line for the *parts* of one assignment.

    Where it *is_early*, something that it reads is assigned further down, and stays there: ``dep=*``.
    """
    first = parts[0]
    options = [f"{key}={value}" for key, value in (("id", first.id), ("id_prefix", first.options.id_prefix)) if value]
    order = first.options.order
    star = "*" if is_early or order.depends_star else ""
    if order.depends_on or star:
        options.append(f"dep={star}{':'.join(order.depends_on)}")
    if reads_temporary:
        options.append(f"inames={':'.join(first.loops.written)}")
    if first.predicates:
        options.append(f"if={':'.join(map(_spelt, first.predicates))}")
    if first.options.tags:
        options.append(f"tags={':'.join(first.options.tags)}")
    if order.priority:
        options.append(f"priority={order.priority}")
    options += more
    targets = ", ".join(_spelt(part.assignee) for part in parts)
    tail = f" {{{', '.join(options)}}}" if options else ""
    return f"{_declaration(first)}{targets} = {_values(parts)}{tail}"


def _spelt(expr: Expression) -> str:
    """Return *expr* as text in which ``max(i, x)`` cannot be parsed as a reduction over ``i``."""

    def visit(node: Expression) -> Expression:
        if not isinstance(node, p.Min | p.Max) or len(node.children) != 2:
            return node
        first, second = node.children
        return type(node)((p.Variable(f"+{first.name}"), second)) if isinstance(first, p.Variable) else node

    return show(map_nodes(expr, visit))


def _values(parts: Sequence[ParsedInstruction]) -> str:
    """Return the right sides; the fields of one call or reduction as that."""
    values = [part.expression for part in parts]
    whole = values[0].aggregate if isinstance(values[0], Lookup) else None
    if len(values) > 1 and values == [Lookup(whole, field) for field in result_fields(whole)]:
        values = [whole]
    return ", ".join(map(_spelt, values))


def _declaration(part: ParsedInstruction) -> str:
    if part.declared is None:
        return ""
    return "<> " if isinstance(part.declared, Auto) else f"<{dtype_name(part.declared)}> "
