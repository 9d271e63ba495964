"""Lines of generated text within 100 columns: broken at the outermost operators, with one operand a line.

::

    v[i * n + j] = u[i * n + j] + k * (..);        // too long
    ->
    v[i * n + j] = u[i * n + j]
        + k * (..);

White space is put where there was some, or inside of brackets: a compiler sees the same tokens.  The exceptions are
string literals, which become several that stand side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from textwrap import wrap
from typing import Final, NamedTuple

__all__ = ["WIDTH", "commented", "fitted"]

WIDTH: Final = 100
"""Greatest length of a line [columns]."""
_STEP: Final = 4
_LONG: Final = 12
"""Number of operands beyond which several share a line."""
_SHORT: Final = 40
"""Length below which those of a list do."""

_ASSIGNMENTS: Final = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))
_LEVELS: Final = (
    frozenset((":", "::")), frozenset((";",)), frozenset((",",)), _ASSIGNMENTS, frozenset(("?", ":")),
    frozenset(("||",)), frozenset(("&&",)), frozenset(("|",)), frozenset(("^",)), frozenset(("&",)),
    frozenset(("==", "!=")), frozenset(("<", "<=", ">", ">=")), frozenset(("<<", ">>")), frozenset(("+", "-")),
    frozenset(("*", "/", "%")),
)  # fmt: skip
"""Operators from the one that binds least; the first row is that of operands of assembler text."""
_OPERATORS: Final = frozenset[str]().union(*_LEVELS)
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//.*|[()\[\]{}]|[,;]|(?<= )[-+*/%&|^<>=!?:]+(?= )')
_HEAD: Final = re.compile(r"((?:\} else )?(?:if|for|while|switch) \(|asm volatile\()(.*)$")
_CAST: Final = re.compile(r"\((?:\w+ )*\w+( \*)?\)|\[\w*\]|\(\)")
_GROUP: Final = re.compile(r"(?:\{[^{}]{1,60}\}|\S)+ ?| ")
_BRACKET: Final = re.compile(r"[\[(]")
_BREAKS: Final = (("and", "or", "if", "else"), ("+", "-"), ("*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!=", "="))
_BEHIND_BREAK: Final = re.compile(rf" ({'|'.join(re.escape(word) for words in _BREAKS for word in words)}) ")
_LITERAL: Final = re.compile(r'"((?:\\.|[^"\\])*)"')


class _Mark(NamedTuple):
    """An operator or a bracket: its text, where it begins, and the number of brackets around it."""

    text: str
    start: int
    depth: int


def fitted(line: str) -> list[str]:
    """Return a line of C text, as several lines if it is too long."""
    if len(line) <= WIDTH or line.lstrip().startswith("#"):
        return [line]
    code = line.lstrip()
    indent = len(line) - len(code)
    comment = next((mark.start for mark in _marks(code) if mark.text.startswith("//")), None)
    if comment is not None:
        above = [" " * indent + part for part in _comment(code[comment:], WIDTH - indent)]
        rest = code[:comment].rstrip()
        return [*above, *(fitted(" " * indent + rest) if rest else ())]
    return [" " * depth + text for depth, text in _statement(code, indent)]


def _comment(text: str, width: int) -> list[str]:
    return wrap(text, max(width, 40), subsequent_indent="// ", break_long_words=False, break_on_hyphens=False)


def commented(text: str, later: str) -> list[str]:
    """Return a line of a comment, as several lines if it is too long; those after the first begin with *later*.

    A text with brackets is broken outside of them if possible, behind a comma or in front of an operator.
    """
    line = f"// {text}"
    if not _BRACKET.search(text):
        return wrap(text, WIDTH, initial_indent="// ", subsequent_indent=later)
    found = []
    while len(line) > WIDTH and (place := _break(line, len(later))) is not None:
        found.append(line[:place].rstrip())
        line = later + line[place:].lstrip()
    return [*found, line.rstrip()]


def _break(line: str, start: int) -> int | None:
    """Return the best place for a break in a line of a comment, None if there is no space behind *start*."""
    depth, found = 0, []
    for place, char in enumerate(line):
        depth += (char in _CLOSING) - (char in _CLOSING.values())
        if char == " " and place > start:
            found.append((depth, _rank(line, place), place))
    inside = [each for each in found if each[2] <= WIDTH]
    long = [each for each in inside if each[2] >= WIDTH // 2]
    if not inside:
        return min((place for _, _, place in found), default=None)
    return min(long or inside, key=lambda each: (each[0], each[1], -each[2]))[2]


def _rank(line: str, place: int) -> int:
    """Return the rank of a break at a space: 0, the best, in a list, then at operators in the order of their table."""
    if line[place - 1] in ",;":
        return 0
    word = _BEHIND_BREAK.match(line, place)
    return len(_BREAKS) if word is None else next(n for n, words in enumerate(_BREAKS) if word[1] in words)


def _statement(code: str, indent: int) -> Iterator[tuple[int, str]]:
    """Yield the lines of a statement or of the head of a loop, branch or function, each with its indentation."""
    if indent + len(code) <= WIDTH:
        yield indent, code
        return
    if (parts := _one_liner(code)) is not None:
        yield from _statement(parts[0], indent)
        yield indent, "{"
        for statement in parts[1]:
            yield from _statement(statement, indent + _STEP)
        yield indent, parts[2]
        return
    head = _HEAD.match(code)
    if head is None:
        end = code[-1] if code[-1] in ",;" else ""
        if code.endswith(")") and _lowest(_outer(code)) is None:
            yield from _signature(code, indent)
            return
        yield from _laid(code.removesuffix(end), indent, _STEP, behind=end)
        return
    start, rest = head.groups()
    close = next((mark.start for mark in _marks(rest) if mark.depth < 0), len(rest))
    more = 1 if start.startswith("asm") else 2
    yield from _laid(rest[:close], indent, more * _STEP, start, rest[close:])


def _signature(code: str, indent: int) -> Iterator[tuple[int, str]]:
    """Yield the lines of the head of a function, with one parameter on each."""
    opening = [mark for mark in _outer(code) if mark.text == "("][-1].start + 1
    head, inside = code[:opening], code[opening:]
    if indent + len(head) > WIDTH and " " in head:  # a long type before a long name
        kind, _, head = head.rpartition(" ")
        yield indent, kind
    yield indent, head
    cuts = [0, *(mark.start + 1 for mark in _outer(inside) if mark.text == ","), len(inside)]
    yield from ((indent + _STEP, inside[a:b].strip()) for a, b in pairwise(cuts))


def _one_liner(code: str) -> tuple[str, list[str], str] | None:
    """Return the head, the statements and the end of a function or structure that is written on one line."""
    end = "};" if code.endswith("; };") else "}" if code.endswith("; }") else ""
    opening = next((mark.start for mark in _marks(code) if mark.text == "{" and mark.depth == 0), None)
    if not end or not opening:
        return None
    inside = code[opening + 1 : -len(end)].strip()
    statements, start = [], 0
    for mark in _marks(inside):
        if mark.text == ";" and mark.depth == 0:
            statements.append(inside[start : mark.start + 1].strip())
            start = mark.start + 1
    return code[:opening].rstrip(), statements, end


def _marks(text: str) -> list[_Mark]:
    """Return the operators with spaces around them, separators, brackets and comments; a literal counts as a name."""
    found, depth = [], 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in _CLOSING.values():
            depth -= 1
        if token[0] not in "\"'":
            found.append(_Mark(token, match.start(), depth))
        if token in _CLOSING:
            depth += 1
    return found


def _outer(text: str) -> list[_Mark]:
    """Return the marks outside of brackets, and the brackets themselves."""
    return [mark for mark in _marks(text) if mark.depth <= 0]


def _laid(text: str, indent: int, step: int, before: str = "", behind: str = "") -> list[tuple[int, str]]:
    """Return the lines of an expression or a list with what stands *before* and *behind* it.

    Parameters
    ----------
    step
        Indentation of the operands after the first.
    """
    if indent + len(before + text + behind) <= WIDTH:
        return [(indent, before + text + behind)]
    marks = _outer(text)
    level = _lowest(marks)
    if level is None:
        return _inside(text, marks, indent, step, before, behind)
    if level is _ASSIGNMENTS:
        return _assigned(text, marks, indent, step, before, behind)
    places = [mark for mark in marks if mark.text in level]
    is_list = level <= {",", ";"}
    cuts = [0, *(mark.start + is_list for mark in places), len(text)]
    parts = [part for a, b in pairwise(cuts) if (part := text[a:b].strip())]
    if len(parts) == 1 and is_list and text.endswith((",", ";")):
        divided = _laid(text[:-1].rstrip(), indent, step, before, text[-1] + behind)
        return min(_inside(text, marks, indent, step, before, behind), divided, key=_cost)
    if len(parts) == 1:
        return _inside(text, marks, indent, step, before, behind)
    if len(parts) > _LONG or (level == {","} and step and max(map(len, parts)) < _SHORT):
        return _filled(parts, indent, step, before, behind)
    lines = _laid(parts[0], indent, step + _STEP * bool(step), before)
    for part in parts[1:-1]:
        lines += _laid(part, indent + step, _STEP)
    lines += _laid(parts[-1], indent + step, _STEP, behind=behind)
    if level is not _LEVELS[-1]:
        return lines
    return min(_inside(text, marks, indent, step, before, behind), lines, key=_cost)  # a factor in brackets


def _lowest(marks: Sequence[_Mark]) -> frozenset[str] | None:
    """Return the operators of the level that binds least, None if there are none."""
    present = {mark.text for mark in marks}
    is_choice = "?" in present
    levels = _LEVELS[1:] if is_choice else _LEVELS
    return next((level for level in levels if not level.isdisjoint(present)), None)


def _assigned(
    text: str, marks: Sequence[_Mark], indent: int, step: int, before: str, behind: str
) -> list[tuple[int, str]]:
    """Return the lines of an assignment: the value behind the sign, or on a line of its own if it fits there."""
    sign = next(mark for mark in marks if mark.text in _ASSIGNMENTS)
    target, value = text[: sign.start].rstrip(), text[sign.start + len(sign.text) :].strip()
    above = _laid(target, indent, step, before, f" {sign.text}")
    below = [*above, *_laid(value, indent + max(step, _STEP), _STEP, behind=behind)]
    if len(below) == 2:
        return below
    return min(_laid(value, indent, step, f"{before}{target} {sign.text} ", behind), below, key=_cost)


def _cost(lines: Sequence[tuple[int, str]]) -> int:
    """Return the number of lines; those that are too long, or end in a subscript, count more."""
    return sum(WIDTH if depth + len(text) > WIDTH else 1 + text.endswith("[") for depth, text in lines)


def _filled(parts: Sequence[str], indent: int, step: int, before: str, behind: str) -> list[tuple[int, str]]:
    """Return the lines of many operands, as many on each as fit."""
    lines = [(indent, before + parts[0])]
    for number, part in enumerate(parts[1:], 2):
        depth, line = lines[-1]
        end = behind if number == len(parts) else ""
        if depth + len(f"{line} {part}{end}") <= WIDTH:
            lines[-1] = (depth, f"{line} {part}{end}")
        else:
            lines += _laid(part, indent + step, _STEP, behind=end)
    return lines


def _inside(
    text: str, marks: Sequence[_Mark], indent: int, step: int, before: str, behind: str
) -> list[tuple[int, str]]:
    """Return the lines of a call, an element or a literal: what is in its longest brackets, or the parts of a text."""
    if (literal := _LITERAL.fullmatch(text)) is not None:
        return _literals(literal[1], indent, step, before, behind)
    found = [(mark, _end(text, mark)) for mark in marks if mark.text in _CLOSING and mark.depth == 0]
    found = [(mark, end) for mark, end in found if not _CAST.fullmatch(text[mark.start : end + 1])]
    if not found:
        return [(indent, before + text + behind)]
    mark, end = max(found, key=lambda pair: pair[1] - pair[0].start)
    place = mark.start + 1
    inside, last = text[place:end].strip(), text[end:] + behind
    inner = indent + max(step, _STEP)
    head = [(indent, before + text[:place])]
    front = [other for other in marks if other.start < mark.start]
    if indent + len(before) + place > WIDTH and len(found) > 1:  # brackets in front are broken as well
        head = _inside(text[: mark.start], front, indent, step, before, text[mark.start])
    return [*head, *_laid(inside, inner, 0, behind=last)]


def _end(text: str, opening: _Mark) -> int:
    """Return the place of the bracket that closes *opening*, or the end of *text*."""
    later = (mark for mark in _marks(text) if mark.start > opening.start and mark.depth <= opening.depth)
    return next((mark.start for mark in later if mark.text in _CLOSING.values()), len(text))


def _literals(text: str, indent: int, step: int, before: str, behind: str) -> list[tuple[int, str]]:
    """Return the lines of a string literal, divided at spaces, outside of braces if possible."""
    words = _GROUP.findall(text)
    parts = [""]
    for word in words:
        room = WIDTH - indent - (len(before) if len(parts) == 1 else step) - 2
        if parts[-1] and len(parts[-1] + word) > room:
            parts.append("")
        parts[-1] += word
    first, *others = [f'"{part}"' for part in parts]
    lines = [(indent, before + first), *((indent + step, part) for part in others)]
    depth, last = lines[-1]
    return [*lines[:-1], (depth, last + behind)]
