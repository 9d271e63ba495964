"""Parsed statements as text again, for :func:`polyloop.kernel_to_python`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from polyloop.expr.dtypes import dtype_name
from polyloop.expr.functions import result_fields
from polyloop.expr.nodes import Lookup, array_name
from polyloop.expr.printer import show
from polyloop.expr.rewrite import variables
from polyloop.kernel.parser import ParsedInstruction, ParsedRule

__all__ = ["statements_text"]

_Statement: TypeAlias = ParsedInstruction | ParsedRule


def statements_text(statements: Sequence[_Statement], options: Mapping[int, tuple[str, ...]]) -> tuple[str, ...]:
    """Return lines that :func:`polyloop.make_kernel` reads as *statements*, with their blocks.

    ``options[i]`` are more options of statement ``i``, as text.
    """
    return tuple(_lines(statements, options))


def _lines(statements: Sequence[_Statement], options: Mapping[int, tuple[str, ...]]) -> Iterator[str]:
    temporaries = {array_name(x.assignee) for x in statements if isinstance(x, ParsedInstruction) and x.declared}
    around: tuple[int, ...] = ()
    for number, statement in enumerate(statements):
        if isinstance(statement, ParsedRule):
            yield f"{statement.name}({', '.join(statement.arguments)}) := {show(statement.expression)}"
            continue
        parts = [statement]
        if statement.several is not None:
            parts = [x for x in statements if isinstance(x, ParsedInstruction) and x.several == statement.several]
            if statement is not parts[0]:
                continue
        blocks = statement.for_blocks
        shared = 0
        while shared < min(len(around), len(blocks)) and around[shared] == blocks[shared]:
            shared += 1
        yield from ("    " * depth + "end" for depth in range(len(around) - 1, shared - 1, -1))
        yield from ("    " * depth + f"for {statement.for_inames[depth]}" for depth in range(shared, len(blocks)))
        around = blocks
        yield "    " * len(blocks) + _instruction(parts, options.get(number, ()), temporaries)
    yield from ("    " * depth + "end" for depth in range(len(around) - 1, -1, -1))


def _instruction(parts: Sequence[ParsedInstruction], more: Sequence[str], temporaries: set[str]) -> str:
    """Return one line for the *parts* of one assignment."""
    first = parts[0]
    options = [f"{key}={value}" for key, value in (("id", first.id), ("id_prefix", first.id_prefix)) if value]
    if first.depends_on or first.depends_star:
        options.append(f"dep={'*' if first.depends_star else ''}{':'.join(first.depends_on)}")
    read = {name for part in parts for expr in (part.expression, *part.predicates) for name in variables(expr)}
    if read & temporaries:
        options.append(f"inames={':'.join(first.for_inames)}")
    if first.predicates:
        options.append(f"if={':'.join(map(show, first.predicates))}")
    if first.tags:
        options.append(f"tags={':'.join(first.tags)}")
    if first.priority:
        options.append(f"priority={first.priority}")
    options += more
    targets = ", ".join(show(part.assignee) for part in parts)
    tail = f" {{{', '.join(options)}}}" if options else ""
    return f"{_declaration(first)}{targets} = {_values(parts)}{tail}"


def _values(parts: Sequence[ParsedInstruction]) -> str:
    """Return the right sides; the fields of one call or reduction as that."""
    values = [part.expression for part in parts]
    whole = values[0].aggregate if isinstance(values[0], Lookup) else None
    if len(values) > 1 and values == [Lookup(whole, field) for field in result_fields(whole)]:
        values = [whole]
    return ", ".join(map(show, values))


def _declaration(part: ParsedInstruction) -> str:
    if not part.declared:
        return ""
    return "<> " if part.declared_dtype is None else f"<{dtype_name(part.declared_dtype)}> "
