"""The passes from instructions as given to plain assignments, in their order.

====================  ============================================================================================
pass                  result
====================  ============================================================================================
``_parsed``           statements, if they were given as text; domains of ``for`` lines with bounds
``without_tags``      a rule for each tagged name, ``a$left``
``settled``           words that ask for shapes and types written out: ``a[[e]]``, ``indexof``, ``dot``
``without_shorthands``  words such as ``clamp`` written out
``bind_foreign``      calls of foreign functions carry their definitions
``plain_left_sides``  rules in right sides only
``_without_calls``    calls of functions replaced by the statements of these
``_fixed``            fixed parameters replaced by numbers
``reduced_apart``     no reduction over an iname of a loop or a reduction around it
``duplicate_inames``  a loop of its own for each ``dup=``
``spread``            ``a, b = x, y`` as one assignment after the other
``share``             ``cse(e)`` as a temporary, assigned in front
``settle_barriers``   the loops that written barriers divide
====================  ============================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polyloop.edge.words import spelt
from polyloop.expr.nodes import Operation, array_name, targets_of
from polyloop.expr.rewrite import substitute, variables
from polyloop.frozen import once
from polyloop.kernel.build.declare import declared
from polyloop.kernel.build.domains.read import read_domains
from polyloop.kernel.build.draft import fail, site_of
from polyloop.kernel.build.function import Function, FunctionTable, Program
from polyloop.kernel.build.plain.binders import plain_left_sides, reduced_apart
from polyloop.kernel.build.plain.cse import plain_rules, share
from polyloop.kernel.build.plain.desugar import duplicate_inames, names_in, spread
from polyloop.kernel.build.plain.foreign import bind_foreign
from polyloop.kernel.build.plain.inline import Inlined, inline_calls
from polyloop.kernel.build.plain.linear import settled
from polyloop.kernel.build.plain.shorthands import without_shorthands, without_tags
from polyloop.kernel.build.scalar_expansion import settle_barriers
from polyloop.kernel.cinstruction import CInstruction
from polyloop.kernel.domains import parameters_of
from polyloop.kernel.instruction import SubstitutionRule
from polyloop.kernel.kernel import Domain
from polyloop.kernel.text.options import Division
from polyloop.kernel.text.parser import (
    Parsed,
    ParsedBarrier,
    ParsedCall,
    ParsedInstruction,
    ParsedLoop,
    ParsedNop,
    ParsedRule,
    parse_instructions,
)
from polyloop.kernel.text.specs import Defaults

__all__ = ["PlainText", "plain_text"]


@dataclass(frozen=True)
class PlainText:
    """Statements of a kernel, with rules, calls and shorthands expanded.

    Attributes
    ----------
    aliases
        Names that stand for several statements: parts of ``a, b = x, y``, and of calls.
    taken
        Names in the text, in kernel data, domains and rules, which new variables must avoid.
    fixed
        Fixed parameters in the bounds of ``for`` lines.
    """

    domains: tuple[Domain, ...]
    rules: dict[str, SubstitutionRule]
    entries: Sequence[Parsed]
    aliases: dict[str, tuple[str, ...]]
    inlined: Inlined
    taken: frozenset[str]
    fixed: frozenset[str]

    @once
    def statements(self) -> tuple[ParsedInstruction, ...]:
        """The assignments, in text order."""
        return tuple([entry for entry in self.entries if isinstance(entry, ParsedInstruction)])

    @once
    def inames(self) -> tuple[str, ...]:
        """The inames, in the order of the domains."""
        return tuple([iname for piece in self.domains for iname in piece.inames])

    def nops(self) -> list[ParsedNop]:
        """Return names for several instructions, as written."""
        return [entry for entry in self.entries if isinstance(entry, ParsedNop)]

    def other_ids(self) -> list[str]:
        """Return the ids that are given to something else than one statement."""
        marks = [entry for entry in self.entries if isinstance(entry, ParsedNop | ParsedBarrier)]
        return [*self.aliases, *(entry.options.id for entry in marks if entry.options.id)]


def plain_text(
    pieces: tuple[Domain, ...],
    instructions: str | Sequence[str | CInstruction] | Sequence[Parsed],
    kernel_data: Sequence[object] | None,
    name: str,
    functions: FunctionTable,
    operations: tuple[Operation, ...],
    fixed: Mapping[str, int],
    defaults: Defaults,
    *,
    division: Division = Division.INNERMOST,
) -> PlainText:
    """Run the passes over the *instructions* of kernel *name*; barriers divide loops as *division* says."""
    own = frozenset(x for piece in pieces for x in piece.inames)
    entries = _parsed(instructions, own, frozenset(functions.functions), operations)
    bounded, found = read_domains([entry.domain for entry in entries if isinstance(entry, ParsedLoop)], fixed)
    pieces = (*pieces, *bounded)
    parsed: Sequence[Parsed] = [entry for entry in entries if not isinstance(entry, ParsedLoop)]
    listed = _listed(pieces, kernel_data)
    parsed = settled(without_tags(parsed, listed), pieces, kernel_data, fixed, defaults)
    parsed = without_shorthands(parsed, listed, functions.foreign)
    parsed = plain_left_sides(bind_foreign(parsed, functions.foreign))
    inlined = _without_calls(parsed, pieces, kernel_data, fixed, defaults, functions.functions)
    parsed, pieces = inlined.program.statements, inlined.program.domains
    rules = {
        entry.rule.name: entry.rule.mapped(lambda value: substitute(value, fixed)) if fixed else entry.rule
        for entry in parsed
        if isinstance(entry, ParsedRule)
    }
    parsed = [_fixed(entry, fixed) if isinstance(entry, ParsedInstruction) else entry for entry in parsed]
    taken = _names_in_use(parsed, pieces, rules, kernel_data, name).union(inlined.program.temporaries)
    for operation in operations:
        if operation.name in {*functions.functions, *functions.foreign, *taken} - {name}:
            message = f"a reduction operation and something else are called '{operation.name}'"
            raise fail("name-taken", message, hints=("rename one of them",))
    parsed, pieces, rules = reduced_apart(parsed, pieces, rules, taken)
    taken = taken.union(iname for piece in pieces for iname in piece.inames)
    parsed, pieces = duplicate_inames(parsed, pieces, rules, taken)
    inames = frozenset(iname for piece in pieces for iname in piece.inames)
    parsed, aliases = spread(parsed, rules, taken | inames)
    parsed, rules = share(parsed, rules, taken | inames), plain_rules(rules)
    parsed = settle_barriers(parsed, rules, inames, division)
    text = PlainText(pieces, rules, parsed, {**aliases, **inlined.aliases}, inlined, taken, found)
    if not text.entries:
        raise fail("no-instructions", "the kernel has no instructions", hints=("write at least one assignment",))
    return text


def _parsed(
    given: str | Sequence[str | CInstruction] | Sequence[Parsed],
    inames: frozenset[str],
    functions: frozenset[str],
    operations: tuple[Operation, ...],
) -> Sequence[Parsed | ParsedLoop]:
    if isinstance(given, str):
        return parse_instructions(given, inames, functions, operations)
    entries: tuple[object, ...] = _entries(given)
    parsed = [entry for entry in entries if isinstance(entry, Parsed)]
    if parsed and len(parsed) == len(entries):
        return parsed
    lines = [entry for entry in entries if isinstance(entry, str | CInstruction)]
    if len(lines) < len(entries):
        hint = 'write them as text: "c[i] = a[i] + b[i]"'
        raise fail("bad-instructions", f"instructions cannot be {spelt(given)}", hints=(hint,))
    return parse_instructions(lines, inames, functions, operations)


def _entries(given: object) -> tuple[object, ...]:
    return tuple(given) if isinstance(given, Sequence) else (given,)


def _without_calls(
    parsed: Sequence[Parsed],
    pieces: tuple[Domain, ...],
    kernel_data: Sequence[object] | None,
    fixed: Mapping[str, int],
    defaults: Defaults,
    functions: Mapping[str, Function],
) -> Inlined:
    if not any(isinstance(entry, ParsedCall) for entry in parsed):
        return Inlined(Program(pieces, tuple(parsed), {}))
    frames = [entry.frame if isinstance(entry, ParsedCall) else entry for entry in parsed]
    statements = [entry for entry in frames if isinstance(entry, ParsedInstruction)]
    data = declared(kernel_data, statements, fixed, defaults)
    return inline_calls(parsed, pieces, data.arguments, data.temporaries, functions, fixed)


def _fixed(entry: ParsedInstruction, fixed: Mapping[str, int]) -> ParsedInstruction:
    if not fixed:
        return entry
    for name in fixed.keys() & set(map(array_name, targets_of(entry.assignee))):
        raise fail(
            "not-assignable",
            f"'{name}' is fixed to {fixed[name]} and assigned",
            hints=("drop it from fixed_parameters, or the assignment",),
            site=site_of(entry),
        )
    return entry.mapped(lambda expr: substitute(expr, fixed))


def _names_in_use(
    parsed: Sequence[Parsed],
    pieces: Sequence[Domain],
    rules: Mapping[str, SubstitutionRule],
    kernel_data: Sequence[object] | None,
    name: str,
) -> frozenset[str]:
    """Return the names in the text, in kernel data, domains and rules, which new variables must avoid."""
    bodies = (x for rule in rules.values() for x in variables(rule.value))
    return names_in(parsed).union(_listed(pieces, kernel_data), rules, bodies, (name,))


def _listed(pieces: Sequence[Domain], kernel_data: Sequence[object] | None) -> frozenset[str]:
    """Return the names in kernel data and in domains."""
    data = (part.strip() for entry in kernel_data or () for part in str(getattr(entry, "name", "")).split(","))
    return frozenset((*data, *(x for piece in pieces for x in (*piece.inames, *parameters_of(piece.set)))))
