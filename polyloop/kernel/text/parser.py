"""Statement text to instructions: assignments, rules, and the ``for`` and ``if`` blocks around them.

The text is a sequence of logical lines.  Blocks do not follow indentation: they end with ``end``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import pymbolic.primitives as p

from polyloop.errors import KernelError, Place, unknown_name
from polyloop.expr.dtypes import DType
from polyloop.expr.nodes import Expression, Operation, array_name
from polyloop.expr.operations import OPERATIONS
from polyloop.expr.parser import parse_source
from polyloop.expr.rewrite import variables
from polyloop.expr.source import Source, split_outside_brackets
from polyloop.frozen import quick, replace
from polyloop.kernel.cinstruction import CInstruction
from polyloop.kernel.instruction import SubstitutionRule
from polyloop.kernel.layout import Auto
from polyloop.kernel.text.blocks import Blocks, IfBlock
from polyloop.kernel.text.calls import Slice, SubArray, parse_call
from polyloop.kernel.text.headers import HEADER, Header, in_place, read_header
from polyloop.kernel.text.logical_lines import OPERATION, fail, logical_lines, match_bracket
from polyloop.kernel.text.options import Loops, Options, Order, parse_options
from polyloop.kernel.text.statements import Assignment, RuleText, parse_assignment
from polyloop.kernel.tree import Scope

__all__ = [
    "Parsed",
    "ParsedBarrier",
    "ParsedCall",
    "ParsedInstruction",
    "ParsedLoop",
    "ParsedNop",
    "ParsedRule",
    "parse_instructions",
]


@quick
@dataclass(frozen=True)
class ParsedInstruction:
    """An assignment as the user wrote it.

    Attributes
    ----------
    assignee, expression
        ``a[i] += x`` has become ``a[i] = a[i] + x``.
    declared
        The type with which ``<dtype>`` in front declares the assignee, ``auto`` for ``<>``, None without.
    id
        That of ``id=``, until passes give it another one.
    predicates
        Conditions of the enclosing ``if`` blocks, outermost first, then those of ``if=``.
    options
        Everything that the braces say, those of enclosing ``with`` blocks included.
    loops
        Those of the options, with the enclosing ``for`` lines.
    depends_on_is_final
        Whether nothing is added to the dependences that it names, as for ``dep=*``.
    several
        Equal for the parts of one ``a, b = x, y``, which follow each other; None elsewhere.
    """

    assignee: Expression
    expression: Expression
    declared: DType | Auto | None
    id: str | None
    predicates: tuple[Expression, ...]
    options: Options
    loops: Loops
    place: Place
    depends_on_is_final: bool
    several: int | None = None

    def parts(self) -> tuple[Expression, ...]:
        """Return the assignee, the expression and the conditions."""
        return (self.assignee, self.expression, *self.predicates)

    def mapped(self, change: Callable[[Expression], Expression]) -> ParsedInstruction:
        """Return the statement with each of its parts changed."""
        assignee, expression, *predicates = map(change, self.parts())
        return replace(self, assignee=assignee, expression=expression, predicates=tuple(predicates))


@dataclass(frozen=True)
class ParsedRule:
    """A substitution rule ``name(arguments) := expression``."""

    rule: SubstitutionRule
    place: Place


@dataclass(frozen=True)
class ParsedLoop:
    """The domain of a ``for`` line with bounds of its own."""

    domain: str


@dataclass(frozen=True)
class ParsedNop:
    """``... nop {id=.., dep=..}``: a name for several instructions."""

    options: Options
    place: Place


@dataclass(frozen=True)
class ParsedBarrier:
    """``... lbarrier`` or ``... gbarrier``.

    It stands in the written ``loops``; it has closed the loop around it, with the iname ``closed[0]`` and the number
    ``closed[1]``, and opened it again as number ``closed[2]`` (None outside of ``for``).
    """

    scope: Scope
    options: Options
    loops: Loops
    closed: tuple[str, int, int] | None
    place: Place


@dataclass(frozen=True)
class ParsedCall:
    """``outputs = function(arguments)``; ``frame`` holds the options and the enclosing blocks."""

    frame: ParsedInstruction
    outputs: tuple[SubArray, ...]
    function: str
    arguments: tuple[SubArray | Expression, ...]

    def names(self) -> frozenset[str]:
        """Return every name in it."""
        found: set[str] = set()
        for entry in (*self.outputs, *self.arguments):
            if isinstance(entry, SubArray):
                found.add(entry.array)
                for index in entry.indices or ():
                    ends = (index.low, index.high, index.step) if isinstance(index, Slice) else (index,)
                    found.update(name for end in ends if end is not None for name in variables(end))
            else:
                found |= variables(entry)
        return frozenset(found)


Parsed: TypeAlias = ParsedInstruction | ParsedRule | ParsedNop | ParsedBarrier | ParsedCall


_KEYWORD: Final = re.compile(r"(for|endfor|endif|end|if|elif|else|with|while|def|return|break|continue)\b", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SPECIAL: Final = re.compile(r"\.\.\.\s*(\w*)", re.ASCII)
_SCOPES: Final = {"lbarrier": Scope.BLOCK, "gbarrier": Scope.GRID}
_UNSUPPORTED: Final = {
    "while": "the number of iterations comes from the domain: write 'for i' ... 'end'",
    "def": "write a substitution rule: f(x) := expression",
    "return": "assign to an argument",
    "break": "bound the loop in the domain, or guard instructions with 'if'",
    "continue": "guard instructions with 'if'",
}


class _Parser:
    """Reads lines and keeps the open blocks."""

    def __init__(
        self, inames: frozenset[str], functions: frozenset[str], known: Mapping[str, Operation], words: Collection[str]
    ) -> None:
        self.inames = inames
        self.given_inames = inames
        self.words = words
        self.headers: list[Header] = []
        self.functions = functions
        self.known = known
        self.blocks = Blocks()
        self.several = 0
        self.given: dict[str, CInstruction] = {}
        self.found: list[Parsed | ParsedLoop] = []
        self.rules: set[str] = set()

    def line(self, source: Source) -> None:
        text = source.text
        if text in self.given:
            self.c_text(source, self.given[text])
            return
        if text.startswith("..."):
            self.special(source)
            return
        keyword = _KEYWORD.match(text)
        rest = text[keyword.end() :].lstrip() if keyword else ""
        if keyword is None or (rest[:1] in ("=", "[", "+", "-") and rest[:1] != "-") or rest.startswith(":="):
            self.statement(source)
            return
        word = keyword.group()
        tail = source.slice(keyword.end(), len(text)).strip()
        if word in _UNSUPPORTED:
            fail("unsupported-statement", f"there is no '{word}' statement", source.span(), _UNSUPPORTED[word])
        if tail.text.endswith(":") and word in ("for", "if", "elif", "else"):
            span = tail.span(len(tail.text) - 1, 1)
            fail("syntax", f"no ':' belongs after '{word}'", span, "blocks end with a line 'end'")
        if word == "for":
            self.open_for(source, tail)
        elif word == "if":
            self.blocks.open_if(source.span(), self.condition(source, tail, word))
        elif word == "with":
            self.open_with(source, tail)
        elif word in ("elif", "else"):
            self.branch(source, tail, word)
        else:
            self.close(source, tail, word)

    def special(self, source: Source) -> None:
        """Read ``... nop`` and the barriers."""
        body, options = self.options(source)
        match = _SPECIAL.match(body.text)
        word = match.group(1) if match and match.end() == len(body.text) else ""
        if word == "nop":
            self.found.append(ParsedNop(replace(options, id=options.id or self.nop()), _place(source)))
        elif word in _SCOPES:
            self.barrier(source, _SCOPES[word], options)
        else:
            hint = "write ... nop, ... lbarrier or ... gbarrier, with options in braces"
            fail("unsupported-statement", "'...' begins no statement", source.span(), hint)

    def nop(self) -> str:
        """Return an id for a ``... nop`` without one."""
        taken = {*self.words, *(entry.options.id for entry in self.found if isinstance(entry, ParsedNop))}
        wishes = ("nop", *(f"nop_{number}" for number in range(1, len(taken) + 1)))
        return next(wish for wish in wishes if wish not in taken)

    def barrier(self, source: Source, scope: Scope, options: Options) -> None:
        if self.blocks.conditions() or options.predicates:
            hint = "let the barrier stand before or after the 'if': all threads must meet there"
            fail("conditional-barrier", "a barrier cannot depend on a condition", source.span(), hint)
        if options.loops != Loops():
            hint = "write the barrier inside 'for i' ... 'end'"
            fail("syntax", "a barrier takes no inames", source.span(), hint)
        if options.memory not in (None, "local", "global"):
            fail("syntax", f"no kind of memory '{options.memory}'", source.span(), "write mem_kind=local or global")
        own = "local" if scope is Scope.BLOCK else "global"
        if options.memory not in (None, own):
            hint = f"drop mem_kind: ... {own[0]}barrier orders accesses to shared and to global memory alike"
            message = f"'mem_kind={options.memory}' is not what ... {own[0]}barrier can do"
            fail("barrier-memory", message, source.span(), hint)
        inames, numbers = self.blocks.inames(), self.blocks.numbers()
        closed = (inames[-1], *self.blocks.reopen()) if inames else None
        loops = Loops(inames[:-1], numbers[:-1])
        self.found.append(ParsedBarrier(scope, options, loops, closed, _place(source)))

    # blocks

    def open_for(self, source: Source, tail: Source) -> None:
        if HEADER.match(tail.text):
            self.open_bounded(source, tail)
            return
        active = {*self.blocks.inames()}
        names: list[str] = []
        if not tail.text:
            fail("syntax", "'for' names no iname", source.span(), "write 'for i' or 'for i, j'")
        for part in split_outside_brackets(tail, ","):
            name = part.strip()
            if not re.fullmatch(r"\w+", name.text):
                where = name.span() if name.text else tail.span()
                fail(
                    "syntax",
                    "'for' takes inames separated by commas",
                    where,
                    "write 'for i, j'; the bounds are in the domain",
                )
            if name.text not in self.inames:
                unknown = unknown_name("iname", name.text, self.inames)
                raise KernelError(OPERATION, None, [replace(unknown, span=name.span())])
            if name.text in active:
                fail(
                    "duplicate-iname",
                    f"a loop over '{name.text}' is open already",
                    name.span(),
                    "end that loop first, or use another iname",
                )
            active.add(name.text)
            names.append(name.text)
        self.blocks.open_for(source.span(), names)

    def open_bounded(self, source: Source, tail: Source) -> None:
        """Open ``for i = first, last, step``."""
        values = self.values()

        def parse(entry: Source) -> Expression:
            return in_place(values, parse_source(entry, self.inames, OPERATION, self.known))

        def taken(name: str) -> bool:
            return name in self.inames or (name in self.words and not tail.text.startswith(name))

        header = read_header(tail, parse, taken)
        where = tail.span(0, len(header.name))
        if header.name in self.given_inames:
            hint = f"write 'for {header.name}', or leave '{header.name}' out of the domains"
            fail("iname-twice", f"a domain has bounds for '{header.name}' already", where, hint)
        if header.name in values or header.name in self.blocks.inames():
            hint = "end that loop first, or use another name"
            fail("duplicate-iname", f"a loop over '{header.name}' is open already", where, hint)
        self.found.append(ParsedLoop(header.domain))
        self.headers.append(header)
        self.inames = self.inames.union((header.iname,))
        self.blocks.open_for(source.span(), (header.iname,), header)

    def values(self) -> dict[str, Expression]:
        """Return the names of open loops with bounds of their own that stand for something else than an iname."""
        headers = (block.header for block in self.blocks.loops())
        return {header.name: header.value for header in headers if header is not None and not header.is_plain}

    def refuse_values(self, source: Source, what: str) -> None:
        """Refuse something in which names of loops cannot be replaced."""
        for name in self.values():
            hint = f"declare the loop in a domain, or write 'for {name} = 0, ...' upward, once"
            message = f"{what} stands in a loop over '{name}', which is no iname"
            fail("unsupported-statement", message, source.span(), hint)

    def condition(self, source: Source, tail: Source, word: str) -> Expression:
        if not tail.text:
            fail("syntax", f"'{word}' has no condition", source.span(), f"write '{word} x > 0'")
        return parse_source(tail, self.inames, OPERATION, self.known)

    def open_with(self, source: Source, tail: Source) -> None:
        if not tail.text.startswith("{") or match_bracket(tail.text, 0) != len(tail.text) - 1:
            fail("syntax", "'with' takes options in braces", source.span(), "write 'with {dep=first}' ... 'end'")
        options = parse_options(tail.slice(1, len(tail.text) - 1), self.inames, self.known)
        if options.id is not None:
            hint = "write id_prefix=, or give each instruction its own id"
            fail("syntax", "a 'with' block cannot give one id to several instructions", source.span(), hint)
        self.blocks.open_with(source.span(), options)

    def branch(self, source: Source, tail: Source, word: str) -> None:
        block = self.blocks.open[-1] if self.blocks.open else None
        if not isinstance(block, IfBlock) or block.condition is None:
            what = "follows an 'else'" if isinstance(block, IfBlock) else "belongs to no 'if'"
            fail("stray-end", f"'{word}' {what}", source.span(), "write 'if condition' ... 'elif condition' ... 'else'")
        if word == "else" and tail.text:
            fail("syntax", "nothing may follow 'else'", tail.span(), "write 'elif condition' for a condition")
        self.blocks.branch(None if word == "else" else self.condition(source, tail, word))

    def close(self, source: Source, tail: Source, word: str) -> None:
        wanted = {"endfor": "for", "endif": "if"}.get(word) or tail.text
        if wanted not in ("", "for", "if", "with") or (tail.text and word != "end"):
            fail("syntax", f"nothing may follow '{word}'", tail.span(), "write the statement on the next line")
        if not self.blocks.open:
            fail("stray-end", f"'{word}' ends no block", source.span(), "remove it, or open a 'for' or an 'if' before")
        block = self.blocks.close()
        kind = block.kind
        if wanted and wanted != kind:
            fail(
                "stray-end",
                f"'{source.text}' meets the '{kind}' of line {block.span.line}",
                source.span(),
                f"end that block first, with 'end {kind}'",
            )

    def finish(self) -> tuple[Parsed | ParsedLoop, ...]:
        if self.blocks.open:
            block = self.blocks.open[-1]
            kind = block.kind
            fail("unclosed-block", f"this '{kind}' has no end", block.span, "add a line 'end'")
        replaced = {header.name for header in self.headers if not header.is_plain}
        for entry in self.found:
            if isinstance(entry, ParsedRule) and (names := variables(entry.rule.value) & replaced):
                name, span = min(names), entry.place.span
                assert span is not None, "a rule of the text has a place"
                hint = f"make it a parameter: {entry.rule.name}({name}) := ..."
                fail("unknown-iname", f"'{name}' stands for an iname in its loop only", span, hint)
        return tuple(self.found)

    # statements

    def statement(self, source: Source) -> None:
        body, options = self.options(source)
        call = parse_call(body, self.inames, self.functions)
        if call is not None:
            self.refuse_values(source, "a call of a function")
            target = p.Variable(call.outputs[0].array)
            stand_in = Assignment(target, 0, call.declared)
            frame = self.instruction(source, stand_in, options, None)
            self.found.append(ParsedCall(frame, call.outputs, call.function, call.arguments))
            return
        parsed = parse_assignment(body, self.inames, self.known)
        if isinstance(parsed, RuleText):
            self.rule(source, parsed, options)
            return
        names = {array_name(part.assignee) for part in parsed}
        for name in sorted(names & self.values().keys()):
            hint = "its values come from the loop; choose another name"
            fail("assignment-to-iname", f"'{name}' is a loop variable and cannot be assigned to", source.span(), hint)
        self.blocks.check_conditions(source.span(), *(part.assignee for part in parsed))
        several = self.several if len(parsed) > 1 else None
        self.several += 1
        self.found += [self.instruction(source, part, options, several) for part in parsed]

    def instruction(
        self, source: Source, parsed: Assignment, options: Options, several: int | None
    ) -> ParsedInstruction:
        values = self.values()
        found = ParsedInstruction(
            assignee=parsed.assignee,
            expression=parsed.expression,
            declared=parsed.declared,
            id=options.id,
            predicates=(*self.blocks.conditions(), *options.predicates),
            options=options,
            loops=replace(options.loops, written=self.blocks.inames(), numbers=self.blocks.numbers()),
            place=_place(source),
            depends_on_is_final=options.order.depends_star,
            several=several,
        )
        return found.mapped(lambda expr: in_place(values, expr)) if values else found

    def c_text(self, source: Source, given: CInstruction) -> None:
        """Read an instruction that is C text."""
        self.refuse_values(source, "C text")
        targets, text = given.targets(), given.text()
        self.blocks.check_conditions(source.span(), *targets.elements)
        options = Options(
            id=given.id,
            order=Order(tuple(given.depends_on)),
            loops=Loops(extra=frozenset(given.within_inames)),
            predicates=tuple(parse_source(Source.of(part), self.inames, OPERATION) for part in given.predicates),
            tags=tuple(given.tags),
        ).inside(replace(self.blocks.options(), atomic=False))
        assignment = Assignment(targets, text, None)
        found = self.instruction(source, assignment, options, None)
        self.found.append(replace(found, place=replace(found.place, text=str(given))))

    def options(self, source: Source) -> tuple[Source, Options]:
        begin = source.text.find("{")
        if begin < 0:
            return source, self.blocks.options()
        end = match_bracket(source.text, begin)
        if source.text[end + 1 :].strip():
            after = source.slice(end + 1, len(source.text)).strip()
            fail("syntax", "options end the statement", after.span(), "put {...} last, or begin a new line after it")
        body = source.slice(0, begin).strip()
        if not body.text:
            fail("syntax", "options belong to no statement", source.span(), "write target = expression {...}")
        return body, parse_options(source.slice(begin + 1, end), self.inames, self.known).inside(self.blocks.options())

    def rule(self, source: Source, parsed: RuleText, options: Options) -> None:
        if options != self.blocks.options():
            fail("syntax", "a substitution rule takes no options", source.span(), "put them on the instructions")
        name = parsed.rule.name
        if name in self.rules:
            fail("name-taken", f"there are two rules '{name}'", source.span(), "choose another name")
        self.rules.add(name)
        self.found.append(ParsedRule(parsed.rule, _place(source)))


def _place(source: Source) -> Place:
    return Place(source.text, source.span())


def parse_instructions(
    text: str | Sequence[str | CInstruction],
    inames: frozenset[str],
    functions: frozenset[str] = frozenset(),
    operations: tuple[Operation, ...] = (),
) -> tuple[Parsed | ParsedLoop, ...]:
    """Return the instructions and substitution rules of *text*, in its order, and domains that its lines give.

    Parameters
    ----------
    text
        One string, or several that count as one text; empty lines and ``#`` comments are skipped.  Instructions that
        are C text stand between the strings.
    inames
        The inames of the domains.
    functions
        Names of the functions that statements may call.
    operations
        Operations of reductions besides the built-in ones.

    Raises
    ------
    KernelError
        ``syntax``, ``unknown-option``, ``unknown-iname``, ``duplicate-iname``, ``unclosed-block``, ``stray-end``,
        ``bad-identifier``, ``reserved-name``, ``assignment-to-iname``, ``condition-changed``, ``name-taken``,
        ``unknown-dtype``, ``unsupported-statement``, ``wrong-argument-count``.
    """
    return _parse(text if isinstance(text, str) else tuple(text), inames, functions, operations)


@lru_cache(maxsize=256)
def _parse(
    text: str | tuple[str | CInstruction, ...],
    inames: frozenset[str],
    functions: frozenset[str],
    operations: tuple[Operation, ...],
) -> tuple[Parsed | ParsedLoop, ...]:
    """Return the parsed statements, memoised because tuning loops build one kernel many times."""
    entries = (text,) if isinstance(text, str) else text
    words = frozenset(word for entry in entries if isinstance(entry, str) for word in _WORD.findall(entry))
    known = {**OPERATIONS, **{operation.name: operation for operation in operations}}
    parser = _Parser(inames, functions, known, words)
    lines: list[str] = []
    for entry in entries:
        if isinstance(entry, CInstruction):
            lines.append(f"... C {len(lines)}")
            parser.given[lines[-1]] = entry
        else:
            lines.append(entry)
    for source in logical_lines(lines):
        parser.line(source)
    return parser.finish()
