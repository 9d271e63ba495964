"""One assignment or substitution rule, without its options: the left side, the operator, the right side."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pymbolic.primitives as p

from polyloop.errors import KernelError, Span
from polyloop.expr.dtypes import DType, dtype_diagnostic, find_dtype
from polyloop.expr.names import RULE_NAME, check_identifier
from polyloop.expr.nodes import Expression, Lookup, Operation, added, element_of, function_name, negate
from polyloop.expr.operations import MODIFIERS, OPERATIONS
from polyloop.expr.parser import parse_source
from polyloop.expr.results import result_fields
from polyloop.expr.rewrite import calls, reductions
from polyloop.expr.source import Source, split_outside_brackets
from polyloop.frozen import replace
from polyloop.kernel.instruction import SubstitutionRule
from polyloop.kernel.layout import Auto, auto
from polyloop.kernel.text.logical_lines import OPERATION, fail, match_bracket

__all__ = ["UPDATES", "Assignment", "RuleText", "parse_assignment"]


@dataclass(frozen=True)
class Assignment:
    """``assignee = expression``; ``declared`` is the type of ``<dtype>`` in front, ``auto`` for ``<>``."""

    assignee: Expression
    expression: Expression
    declared: DType | Auto | None


@dataclass(frozen=True)
class RuleText:
    """``name(arguments) := expression``."""

    rule: SubstitutionRule


_OPERATOR: Final = re.compile(r":=|\*\*=|//=|<<=|>>=|==|<=|>=|!=|[-+*/%&|^]?=|[(\[{]|[)\]}]")
_SPECIAL: Final = frozenset({*MODIFIERS, "cast", "reduce", "simul_reduce"})
_TUPLE: Final = re.compile(r"\s*make_tuple\s*\(", re.ASCII)
_STEP: Final = re.compile(r"(.+?)\s*(\+\+|--)")
_NO_ASSIGNMENT: Final = frozenset({"==", "<=", ">=", "!="})
_DECLARATION: Final = re.compile(r"<\s*([^<>=]*?)\s*>", re.ASCII)

UPDATES: Final[dict[str, Callable[[Expression, Expression], Expression]]] = {
    "+=": lambda a, b: p.Sum((a, added(b))),
    "-=": lambda a, b: p.Sum((a, negate(added(b)))),
    "*=": lambda a, b: p.Product((a, b)),
    "/=": p.Quotient,
    "//=": p.FloorDiv,
    "%=": p.Remainder,
    "**=": p.Power,
    "<<=": p.LeftShift,
    ">>=": p.RightShift,
    "&=": lambda a, b: p.BitwiseAnd((a, b)),
    "|=": lambda a, b: p.BitwiseOr((a, b)),
    "^=": lambda a, b: p.BitwiseXor((a, b)),
}


def _find_operator(text: str) -> tuple[int, str] | None:
    """Return offset and text of the first assignment operator outside of brackets."""
    depth = 0
    for match in _OPERATOR.finditer(text):
        token = match.group()
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
        elif depth == 0 and token not in _NO_ASSIGNMENT:
            return match.start(), token
    return None


def _meant(text: str) -> str:
    """Return the hint for a statement that is no assignment."""
    if "==" in text:
        return "write target = expression: == compares"
    if text.strip().startswith(("__sync", "barrier(")):
        return "leave it out: barriers follow from the dependences; '... lbarrier' asks for one more"
    if step := _STEP.fullmatch(text.strip()):
        target, operator = step.groups()
        return f"write {target} = {target} {operator[0]} 1"
    return "write target = expression, 'for i' ... 'end', or 'if condition' ... 'end'"


def parse_assignment(
    source: Source, inames: frozenset[str], known: Mapping[str, Operation] = OPERATIONS
) -> tuple[Assignment, ...] | RuleText:
    """Return the assignment or the rule that *source* spells; several for ``a, b = x, y``.

    Raises
    ------
    KernelError
        ``syntax``, ``bad-identifier``, ``reserved-name``, ``unknown-dtype``, ``assignment-to-iname``,
        ``unsupported-statement``, and what :func:`polyloop.expr.parser.parse_source` raises.
    """
    body, declared = _declaration(source)
    found = _find_operator(body.text)
    if found is None:
        fail(
            "syntax",
            "this is neither an assignment nor a block",
            body.span(),
            _meant(body.text),
        )
    offset, operator = found
    left = body.slice(0, offset).strip()
    right = body.slice(offset + len(operator), len(body.text))
    if not right.text.strip():
        span = body.span(offset, len(operator))
        fail("syntax", f"nothing follows '{operator}'", span, "write target = expression")
    if operator == ":=":
        if declared is not None:
            fail("syntax", "a substitution rule declares no temporary", source.span(), "leave out the <...>")
        return _rule(left, right, inames, known)
    second = _find_operator(right.text)
    if second is not None:
        shift = len(right.text) - len(right.text.lstrip())
        span = right.span(second[0], len(second[1])) if second[0] >= shift else right.span()
        fail("syntax", f"unexpected '{second[1]}'", span, "a statement assigns once; compare with ==")
    targets = split_outside_brackets(left, ",")
    if len(targets) > 1:
        return _several(targets, body.span(offset, len(operator)), operator, right, declared, inames, known)
    assignee, declared = _target(left, inames, declared)
    value = parse_source(right, inames, OPERATION, known)
    update = UPDATES.get(operator)
    if update is not None and declared is not None:
        fail("syntax", f"a declaration cannot update with '{operator}'", source.span(), "write <> t = ...")
    value = update(assignee, value) if update else value
    return (Assignment(assignee, value, declared),)


def _several(
    targets: Sequence[Source],
    operator: Span,
    spelling: str,
    right: Source,
    declared: DType | Auto | None,
    inames: frozenset[str],
    known: Mapping[str, Operation],
) -> tuple[Assignment, ...]:
    """Return the parts of ``a, b = x, y``, of which every right side is meant to be evaluated before any write."""
    if spelling != "=":
        fail("syntax", f"several variables cannot be updated with '{spelling}'", operator, "write one line for each")
    values = split_outside_brackets(_untupled(right), ",")
    if len(values) == 1:
        return _results(targets, right.strip(), declared, inames, known)
    if len(values) != len(targets):
        message = f"{len(targets)} variables are assigned, and {len(values)} value{'s'[: len(values) > 1]} given"
        fail("unsupported-statement", message, right.strip().span(), "write one value for each, or one line for each")
    parts = []
    for left, value in zip(targets, values, strict=True):
        expression = parse_source(value, inames, OPERATION, known)
        assignee, own = _target(left.strip(), inames, declared)
        parts.append(Assignment(assignee, expression, own))
    return tuple(parts)


def _untupled(right: Source) -> Source:
    """Return the values in ``make_tuple(a, b)``; other right sides as they are."""
    call = _TUPLE.match(right.text)
    if call is None or match_bracket(right.text, call.end() - 1) != len(right.text.rstrip()) - 1:
        return right
    return right.slice(call.end(), len(right.text.rstrip()) - 1)


def _results(
    targets: Sequence[Source],
    right: Source,
    declared: DType | Auto | None,
    inames: frozenset[str],
    known: Mapping[str, Operation],
) -> tuple[Assignment, ...]:
    """Return the parts of ``s, c = sincos(x)``: each takes one field of the call, which is evaluated once."""
    value = parse_source(right, inames, OPERATION, known)
    fields = result_fields(value)
    if len(fields) != len(targets):
        hint = "write one value for each, or one line for each"
        given = f"'{right.text}' has {len(fields)} results" if fields else "1 value given"
        fail("unsupported-statement", f"{len(targets)} variables are assigned, and {given}", right.span(), hint)
    parts = []
    for left, field in zip(targets, fields, strict=True):
        assignee, own = _target(left.strip(), inames, declared)
        parts.append(Assignment(assignee, Lookup(value, field), own))
    return tuple(parts)


def _target(
    left: Source, inames: frozenset[str], declared: DType | Auto | None
) -> tuple[Expression, DType | Auto | None]:  # fmt: skip
    """Return a target and the type that it is declared with: its own in ``a, <> b = ..``, or that of the statement."""
    left, own = _declaration(left)
    declared = declared if own is None else own
    assignee = _assignee(left, inames)
    if declared is not None and isinstance(assignee, Lookup):
        hint = "declare the record: <float4> t = ..., then t.x = ..."
        fail("syntax", "a field cannot be declared", left.span(), hint)
    return assignee, declared


def _declaration(source: Source) -> tuple[Source, DType | Auto | None]:
    match = _DECLARATION.match(source.text)
    if match is None:
        if source.text.startswith("<"):
            fail("syntax", "'<' begins no declaration", source.span(0, 1), "write <> t = ... or <float32> t = ...")
        return source, None
    rest = source.slice(match.end(), len(source.text)).strip()
    spelling = match.group(1)
    if spelling in ("", "auto"):
        return rest, auto
    dtype = find_dtype(spelling)
    if dtype is None:
        span = source.span(match.start(1), len(spelling))
        raise KernelError(OPERATION, None, [replace(dtype_diagnostic(spelling), span=span)])
    return rest, dtype


_C_DECLARATION: Final = re.compile(r"(?:const\s+)?(?:float|double|int|long|short|char|bool|auto)\s+([A-Za-z_]\w*)")


def _check_name(name: str, source: Source, kind: str = "name") -> None:
    wrong = check_identifier(name, kind)
    if wrong is not None:
        raise KernelError(OPERATION, None, [replace(wrong, span=source.span(0, len(name)))])


def _assignee(left: Source, inames: frozenset[str]) -> Expression:
    hint = "write the name of a variable, or of an array with subscripts: a[i, j] = ..."
    if not left.text:
        fail("syntax", "nothing is assigned to", left.span(), hint)
    name = re.split(r"[\[\s(.]", left.text, maxsplit=1)[0]
    if declared := _C_DECLARATION.fullmatch(left.text):
        what = f"'{name}' is the beginning of a declaration in C"
        fail("reserved-name", what, left.span(0, len(name)), f"write <> {declared[1]} = ..., of the type of its value")
    if re.fullmatch(r"\w+", name):
        _check_name(name, left)
    target = parse_source(left, inames, OPERATION)
    if reductions(target):
        if "min" not in left.text and "max" not in left.text:
            what = "a subscript of an assignment holds no reduction"
            fail("misplaced-reduction", what, left.span(), f"assign it to a variable: <> {name}_at = ...")
        target = parse_source(left, frozenset(), OPERATION)  # max(i, n - i) is that of two numbers
    if isinstance(target, p.Call):
        fail(
            "bad-identifier",
            f"'{left.text}' cannot be assigned to",
            left.span(),
            "use [ ] for subscripts, or := to define a substitution rule",
        )
    if not isinstance(element_of(target), p.Variable | p.Subscript):
        fail("bad-identifier", f"'{left.text}' cannot be assigned to", left.span(), hint)
    if name in inames:
        fail(
            "assignment-to-iname",
            f"'{name}' is an iname and cannot be assigned to",
            left.span(0, len(name)),
            "its values come from the domain; choose another name",
        )
    return target


def _rule(left: Source, right: Source, inames: frozenset[str], known: Mapping[str, Operation]) -> RuleText:
    name = left
    arguments: tuple[str, ...] = ()
    begin = left.text.find("(")
    if begin >= 0:
        end = match_bracket(left.text, begin)
        if left.text[end + 1 :].strip():
            fail("syntax", "only ':=' may follow the parameters", left.span(end + 1), "write f(x) := expression")
        name = left.slice(0, begin).strip()
        arguments = _parameters(left.slice(begin + 1, end))
    if not name.text:
        fail("syntax", "the substitution rule has no name", left.span(), "write f(x) := expression")
    _check_name(name.text, name, RULE_NAME)
    if name.text in _SPECIAL or name.text in known:
        hint = f"choose another name, such as '{name.text}_'"
        fail("reserved-name", f"'{name.text}' already means something in expressions", name.span(), hint)
    value = parse_source(right, inames, OPERATION, known)
    for called in map(function_name, calls(value)):
        if called in arguments:
            hint = f"give the parameter another name than that of the function '{called}'"
            fail("bad-rule-argument", f"rule '{name.text}' calls its parameter '{called}'", right.strip().span(), hint)
    return RuleText(SubstitutionRule.of(name.text, arguments, value))


def _parameters(source: Source) -> tuple[str, ...]:
    if not source.text.strip():
        return ()
    names: list[str] = []
    for part in split_outside_brackets(source, ","):
        name = part.strip()
        if not name.text:
            fail("syntax", "a parameter is missing", part.span(), "write f(x, y) := expression")
        _check_name(name.text, name)
        if name.text in names:
            fail("syntax", f"parameter '{name.text}' occurs twice", name.span(), "name each parameter once")
        names.append(name.text)
    return tuple(names)
