"""C expressions as nodes, with the only decisions about operator precedence and parentheses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple, cast

from polyloop.frozen import once, quick, replace

__all__ = [
    "ADDRESS", "AND", "APART", "BIT_AND", "BIT_OR", "BIT_XOR", "COMPLEMENT", "INDEX_AND", "INDEX_MINUS", "INDEX_PLUS",
    "INDEX_SHIFT", "INDEX_XOR", "MINUS", "MODULO", "NEGATIVE", "NOT", "OPERATORS", "OPPOSITE", "OR", "OVER", "PLUS",
    "SHIFTED_AND", "TARGET", "TIMES", "Apply", "Binary", "Cast", "Choice", "Code", "Literal", "Member", "Name",
    "Operator", "Parentheses", "Prefix", "Raw", "Subscript", "Template", "Unary", "binary", "calls", "changed",
    "choices", "conjunction", "element", "integer", "integer_of", "is_negative", "may_skip", "nodes", "occurrences",
    "product", "put", "renewed", "root", "total", "value_of", "without_minus", "words",
]  # fmt: skip

_CHOICE, _OR, _AND, _BITOR, _BITXOR, _BITAND, _EQUAL, _RELATION, _SHIFT, _SUM, _PRODUCT, _UNARY, _ATOM = range(1, 14)
_ALWAYS: Final = 14
"""Precedence above that of every expression, which forces parentheses."""
_NONE: Final = frozenset[str]()
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


class Operator(NamedTuple):
    """A binary operator with its precedence ``level``, and the least precedence of operands without parentheses.

    ``first`` is for the first operand, ``later`` for the others, ``negative`` for others that begin with a minus.
    """

    symbol: str
    level: int
    first: int
    later: int
    negative: int


class Prefix(NamedTuple):
    """An operator in front of its operand; ``negative`` is for operands that begin with a minus."""

    symbol: str
    level: int
    operand: int
    negative: int


PLUS: Final = Operator("+", _SUM, _SUM, _PRODUCT, _UNARY)
MINUS: Final = Operator("-", _SUM, _SUM, _PRODUCT, _UNARY)
TIMES: Final = Operator("*", _PRODUCT, _PRODUCT, _UNARY, _UNARY)
OVER: Final = Operator("/", _PRODUCT, _PRODUCT, _UNARY, _UNARY)
MODULO: Final = Operator("%", _PRODUCT, _PRODUCT, _UNARY, _UNARY)
AND: Final = Operator("&&", _AND, _BITOR, _BITOR, _BITOR)
OR: Final = Operator("||", _OR, _BITOR, _BITOR, _BITOR)
BIT_OR: Final = Operator("|", _BITOR, _UNARY, _UNARY, _UNARY)
BIT_XOR: Final = Operator("^", _BITXOR, _UNARY, _UNARY, _UNARY)
BIT_AND: Final = Operator("&", _BITAND, _UNARY, _UNARY, _UNARY)
OPERATORS: Final[Mapping[str, Operator]] = {
    operator.symbol: operator
    for operator in (
        PLUS, MINUS, TIMES, OVER, MODULO, AND, OR, BIT_OR, BIT_XOR, BIT_AND,
        *(Operator(symbol, _EQUAL, _SHIFT, _SHIFT, _SHIFT) for symbol in ("==", "!=")),
        *(Operator(symbol, _RELATION, _SHIFT, _SHIFT, _SHIFT) for symbol in ("<", "<=", ">", ">=")),
        *(Operator(symbol, _SHIFT, _UNARY, _UNARY, _UNARY) for symbol in ("<<", ">>")),
    )
}  # fmt: skip
"""The operators between values."""
APART: Final = {symbol: OPERATORS[symbol]._replace(negative=_ALWAYS) for symbol in "+-*/"}
"""The operators between vectors, with parentheses around operands that begin with a minus."""
INDEX_PLUS: Final = PLUS._replace(negative=_PRODUCT)
"""The operator between the terms of an index, which flattens nested sums."""
INDEX_MINUS: Final = MINUS._replace(later=_UNARY)
INDEX_SHIFT: Final = {symbol: Operator(symbol, _SHIFT, _PRODUCT, _PRODUCT, _PRODUCT) for symbol in ("<<", ">>")}
INDEX_XOR: Final = Operator("^", _BITXOR, _PRODUCT, _PRODUCT, _PRODUCT)
INDEX_AND: Final = Operator("&", _BITAND, _PRODUCT, _PRODUCT, _PRODUCT)
SHIFTED_AND: Final = INDEX_AND._replace(first=_SHIFT)
NEGATIVE: Final = Prefix("-", _UNARY, _UNARY, _ALWAYS)
OPPOSITE: Final = Prefix("-", _PRODUCT, _UNARY, _ALWAYS)
"""A product with -1."""
NOT: Final = Prefix("!", _UNARY, _UNARY, _UNARY)
COMPLEMENT: Final = Prefix("~", _UNARY, _UNARY, _UNARY)
ADDRESS: Final = Prefix("&", _UNARY, _UNARY, _UNARY)
TARGET: Final = Prefix("*", _UNARY, _UNARY, _UNARY)


def _together(sets: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the union of *sets*, most of which are empty."""
    found = [names for names in sets if names]
    return _NONE.union(*found) if len(found) > 1 else found[0] if found else _NONE


# {{{ nodes


class Code:
    """A C expression; expressions with the same text are equal."""

    level = _ATOM
    """Precedence of the outermost operator."""

    @once
    def text(self) -> str:
        """The expression as it is printed."""
        return self._print()

    @once
    def names(self) -> frozenset[str]:
        """The variables that occur."""
        return _together([part.names for part in self.parts])

    @once
    def temporaries(self) -> frozenset[str]:
        """The temporaries that occur, under the names of the schedule."""
        return _together([part.temporaries for part in self.parts])

    def _print(self) -> str:
        raise NotImplementedError

    inner: ClassVar[tuple[str, ...]] = ()
    """The fields that are expressions, from left to right."""

    @property
    def parts(self) -> tuple[Code, ...]:
        """The expressions in it, from left to right."""
        return tuple([getattr(self, name) for name in self.inner])

    def with_parts(self, parts: Sequence[Code]) -> Code:
        """Return the same operator or function with other *parts*."""
        changed: Code = replace(cast("Any", self), **dict(zip(self.inner, parts, strict=True)))
        return changed

    def within(self, level: int) -> str:
        """Return the text, in parentheses if it binds less tightly than *level*."""
        return self.text if self.level >= level else f"({self.text})"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Code) and self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


@quick
@dataclass(frozen=True, eq=False)
class Name(Code):
    """A variable; ``temporary`` is the temporary that it holds, if any, alone or in storage shared with others."""

    text: str
    temporary: str = ""

    @once
    def names(self) -> frozenset[str]:
        """The variable."""
        return frozenset((self.text,))

    @once
    def temporaries(self) -> frozenset[str]:
        """The temporary."""
        return frozenset((self.temporary,)) if self.temporary else _NONE


@quick
@dataclass(frozen=True, eq=False)
class Literal(Code):
    """A number that is not negative, as it is spelled."""

    text: str
    value: float

    names = temporaries = _NONE


@quick
@dataclass(frozen=True, eq=False)
class Raw(Code):
    """Text that is printed as it is; every word in it counts as a variable."""

    text: str

    @once
    def names(self) -> frozenset[str]:
        """The words."""
        return frozenset(_WORD.findall(self.text))


class _WithArguments(Code):
    arguments: tuple[Code, ...]

    @property
    def parts(self) -> tuple[Code, ...]:
        """The arguments."""
        return self.arguments

    def with_parts(self, parts: Sequence[Code]) -> Code:
        """Return the same function of other arguments."""
        changed: Code = replace(cast("Any", self), arguments=tuple(parts))
        return changed


@quick
@dataclass(frozen=True, eq=False)
class Template(_WithArguments):
    """The spelling of a function with a field for each argument: a call, or an expression in parentheses."""

    pattern: str
    arguments: tuple[Code, ...]

    def _print(self) -> str:
        return self.pattern.format(*[argument.text for argument in self.arguments])


@quick
@dataclass(frozen=True, eq=False)
class Apply(_WithArguments):
    """``function(arguments)``."""

    function: str
    arguments: tuple[Code, ...]

    def _print(self) -> str:
        return f"{self.function}({', '.join([argument.text for argument in self.arguments])})"


@quick
@dataclass(frozen=True, eq=False)
class Subscript(Code):
    """``base[index]``."""

    inner = ("base", "index")

    base: Code
    index: Code

    def _print(self) -> str:
        return f"{self.base.within(_ATOM)}[{self.index.text}]"

    @once
    def names(self) -> frozenset[str]:
        """The variables that occur."""
        return self.base.names | self.index.names


@quick
@dataclass(frozen=True, eq=False)
class Member(Code):
    """``base.field``."""

    inner = ("base",)

    base: Code
    field: str

    def _print(self) -> str:
        return f"{self.base.within(_ATOM)}.{self.field}"


@quick
@dataclass(frozen=True, eq=False)
class Parentheses(Code):
    """``(inside)``, even if C needs no parentheses."""

    inner = ("inside",)

    inside: Code

    def _print(self) -> str:
        return f"({self.inside.text})"


@quick
@dataclass(frozen=True, eq=False)
class Unary(Code):
    """A prefix operator and its operand."""

    inner = ("operand",)

    operator: Prefix
    operand: Code

    @property
    def level(self) -> int:  # type: ignore[override]
        """Precedence of the operator."""
        return self.operator.level

    def _print(self) -> str:
        operator, operand = self.operator, self.operand
        return operator.symbol + operand.within(operator.negative if is_negative(operand) else operator.operand)


@quick
@dataclass(frozen=True, eq=False)
class Cast(Code):
    """``(type)operand``."""

    inner = ("operand",)
    level = _UNARY

    type: str
    operand: Code

    def _print(self) -> str:
        return f"({self.type}){self.operand.within(_UNARY)}"


@quick
@dataclass(frozen=True, eq=False)
class Binary(Code):
    """``first + second - third``: operators of one precedence, from left to right."""

    first: Code
    rest: tuple[tuple[Operator, Code], ...]

    @property
    def level(self) -> int:  # type: ignore[override]
        """Precedence of the operator."""
        return self.rest[0][0].level

    def _print(self) -> str:
        out = self.first.within(self.rest[0][0].first)
        for operator, operand in self.rest:
            least = operator.negative if operand.level < _ATOM and is_negative(operand) else operator.later
            out += f" {operator.symbol} {operand.within(least)}"
        return out

    @property
    def parts(self) -> tuple[Code, ...]:
        """The operands."""
        return (self.first, *[operand for _, operand in self.rest])

    def with_parts(self, parts: Sequence[Code]) -> Code:
        """Return the same operators between other operands; a sum among the terms of an index is flattened."""
        rest: list[tuple[Operator, Code]] = []
        for (operator, _), part in zip(self.rest, parts[1:], strict=True):
            rest += _terms(part) if operator is INDEX_PLUS else [(operator, part)]
        return Binary(parts[0], tuple(rest))


@quick
@dataclass(frozen=True, eq=False)
class Choice(Code):
    """``condition ? then : otherwise``."""

    inner = ("condition", "then", "otherwise")
    level = _CHOICE

    condition: Code
    then: Code
    otherwise: Code

    def _print(self) -> str:
        return f"{self.condition.within(_OR)} ? {self.then.within(_OR)} : {self.otherwise.within(_CHOICE)}"


# }}}
# {{{ making them


@lru_cache(maxsize=1024)
def integer(value: int, suffix: str = "") -> Code:
    """Return an integer literal; without a *suffix* its type is ``int``, or a wider one if it does not fit."""
    literal = Literal(f"{abs(value)}{suffix}", abs(value))
    return literal if value >= 0 else Unary(NEGATIVE, literal)


@lru_cache(maxsize=1024)
def value_of(value: str | int) -> Code:
    """Return the expression of a C name or a number."""
    return integer(value) if isinstance(value, int) else Name(value)


def binary(operator: Operator, first: Code, *others: Code) -> Code:
    """Return one operator between operands, or the operand if there is only one."""
    return Binary(first, tuple([(operator, other) for other in others])) if others else first


def conjunction(parts: Sequence[Code]) -> Code:
    """Return the conjunction of several conditions, flattened."""
    return binary(AND, *(one for part in parts for one in conjuncts(part)))


def conjuncts(condition: Code) -> tuple[Code, ...]:
    """Return the conditions whose conjunction *condition* is."""
    return condition.parts if _is_all(condition, AND) else (condition,)


def product(first: Code, second: Code) -> Code:
    """Return a product in an index; a product as the second factor is flattened, unless it has quotients."""
    is_plain = _is_all(second, TIMES) and not any(_is_quotient(part) for part in nodes(second))
    return binary(TIMES, first, *(_operands(second) if is_plain else [second]))


def total(terms: Sequence[Code]) -> Code:
    """Return the sum of terms of an index, at least one; negative terms are subtracted, numbers are added up."""
    first, *others = terms
    rest = [term for other in others for term in _terms(other)]
    terms = [first, *(code for _, code in rest)]
    numbers = [code for code in terms if isinstance(code, Literal) and code.text.isdigit()]
    if len(numbers) > 1 and (found := _with_one_number([(INDEX_PLUS, first), *rest])) is not None:
        return found
    return Binary(first, tuple(rest)) if rest else first


def _with_one_number(terms: Sequence[tuple[Operator, Code]]) -> Code | None:
    """Return ``9*e + k + 4`` for ``9*e + 3 + k + 1``, with one number; None where nothing else is added."""
    values = [(sign, integer_of(code)) for sign, code in terms]
    value = sum([number if sign.symbol == "+" else -number for sign, number in values if number is not None])
    others = [term for term, (_, number) in zip(terms, values, strict=True) if number is None]
    if not others or others[0][0].symbol == "-":
        return None
    last = [(INDEX_PLUS if value > 0 else MINUS, integer(abs(value)))] if value else []
    rest = (*others[1:], *last)
    return Binary(others[0][1], rest) if rest else others[0][1]


def element(array: Code, *indices: Code) -> Code:
    """Return an element of an array of arrays."""
    for index in indices:
        array = Subscript(array, index)
    return array


def _terms(code: Code) -> list[tuple[Operator, Code]]:
    """Return *code* as terms of an index, each with its sign."""
    first, rest = (code.first, code.rest) if isinstance(code, Binary) and code.level == _SUM else (code, ())
    opposite = without_minus(first)
    return [(INDEX_PLUS, first) if opposite is None else (MINUS, opposite), *rest]


def _is_all(code: Code, operator: Operator) -> bool:
    return isinstance(code, Binary) and all(own.symbol == operator.symbol for own, _ in code.rest)


def _is_quotient(code: Code) -> bool:
    return isinstance(code, Binary) and any(operator in (OVER, MODULO) for operator, _ in code.rest)


def _operands(code: Code) -> list[Code]:
    return list(code.parts)


# }}}
# {{{ reading them


def is_negative(code: Code) -> bool:
    """Return True if the text of an expression begins with a minus, which belongs to its first factor or term."""
    while True:
        match code:
            case Unary(operator):
                return operator.symbol == "-"
            case Binary(first, rest) if first.level >= rest[0][0].first:
                code = first
            case Choice(condition) if condition.level >= _OR:
                code = condition
            case _:
                return False


def without_minus(code: Code) -> Code | None:
    """Return the opposite of an expression that begins with a minus and is no sum; None for any other."""
    if not is_negative(code):
        return None
    match code:
        case Unary(_, operand):
            return operand
        case Binary(first, rest) if code.level == _PRODUCT:
            inner = without_minus(first)
            return None if inner is None else Binary(inner, rest)
        case _:
            return None


def integer_of(code: Code) -> int | None:
    """Return the value of an integer literal without a suffix, None for anything else."""
    match code:
        case Literal(text, value) if text.isdigit():
            return int(value)
        case Unary(operator, Literal() as inner) if operator.symbol == "-":
            found = integer_of(inner)
            return None if found is None else -found
        case _:
            return None


def root(code: Code) -> str | None:
    """Return the variable of which *code* is a part (an element, a field, or all), None if there is none."""
    while isinstance(code, Subscript | Member):
        code = code.base
    return code.text if isinstance(code, Name) else None


def changed(code: Code) -> Name | None:
    """Return the variable that an assignment to *code* changes, directly or by address; None if that is unknown."""
    while not isinstance(code, Name):
        match code:
            case Subscript(base) | Member(base) | Cast(_, base) | Unary(_, base):
                code = base
            case _:
                return None
    return code


def nodes(code: Code) -> Iterator[Code]:
    """Yield an expression and its subexpressions in preorder, from left to right."""
    yield code
    for part in code.parts:
        yield from nodes(part)


def choices(code: Code) -> Iterator[tuple[Code, Code]]:
    """Yield ``(condition, part)`` for each part of an expression that is evaluated conditionally."""
    for node in nodes(code):
        if isinstance(node, Choice):
            yield node.condition, node.then
            yield node.condition, node.otherwise
        elif may_skip(node):
            first, *others = node.parts
            for other in others:
                yield first, other
                first = binary(AND, first, other)


def words(code: Code) -> frozenset[str]:
    """Return the words in an expression that a variable of the same name would hide: variables, functions and types."""
    found = set(code.names)
    for node in nodes(code):
        match node:
            case Apply(function):
                found.add(function)
            case Template(pattern):
                found.update(_WORD.findall(pattern))
            case Cast(kind):
                found.update(kind.split())
            case _:
                pass
    return frozenset(found)


def may_skip(code: Code) -> bool:
    """Return True if an operator evaluates some operands conditionally: ``?:``, ``&&`` or ``||``."""
    return isinstance(code, Choice) or (isinstance(code, Binary) and code.level in (_AND, _OR))


def calls(code: Code, function: str) -> Iterator[Apply]:
    """Yield the calls of a function, from left to right."""
    return (node for node in nodes(code) if isinstance(node, Apply) and node.function == function)


def occurrences(code: Code, name: str) -> int:
    """Return the number of occurrences of a variable."""
    if name not in code.names:
        return 0
    return 1 if isinstance(code, Name) else sum([occurrences(part, name) for part in code.parts])


def put(code: Code, values: Mapping[str, Code]) -> Code:
    """Return *code* with variables replaced by *values*."""
    if code.names.isdisjoint(values):
        return code
    if isinstance(code, Name):
        return values[code.text]
    return code.with_parts([put(part, values) for part in code.parts])


def renewed(code: Code, change: Callable[[Code], Code | None]) -> Code:
    """Return *code* with each node replaced by the result of *change*; if that is None, its children are visited."""
    new = change(code)
    if new is not None:
        return new
    parts = code.parts
    changed = [renewed(part, change) for part in parts]
    return code if all(map(_is, changed, parts)) else code.with_parts(changed)


def _is(first: object, second: object) -> bool:
    return first is second


# }}}
