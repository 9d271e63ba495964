"""Symbolic values beside concrete ones: the expression that each value was computed from.

Two programs that read the same writes compute the same symbols.  Numbers determine control that depends on data:
conditions, subscripts, bounds of loops.  They are Python numbers, not those of the kernel's types: what matters is that
both programs take the same decisions.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, Lookup, Operation, Terms, TypeCast, array_name, function_name
from polyloop.expr.rewrite import children, variables

__all__ = ["Bag", "Closure", "Memory", "Symbols", "UnsupportedError", "Value", "ValueCompiler"]


class UnsupportedError(Exception):
    """The kernel has something that brute force cannot follow."""


class Value(NamedTuple):
    """Symbolic value, as the number of its symbol, with the concrete number."""

    symbol: int
    number: Any


Closure: TypeAlias = Callable[[], Value]
"""An expression, ready to be evaluated where the inames have their present values."""


class Symbols:
    """Gives equal descriptions equal numbers."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}
        self._keys: list[tuple[Any, ...]] = []

    def of(self, *key: Hashable) -> int:
        """Return the number of a description."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._keys)
            self._keys.append(key)
        return found

    def key(self, symbol: int) -> tuple[Any, ...]:
        """Return the description with number *symbol*."""
        return self._keys[symbol]


class Memory(Protocol):
    """Memory that reads are served from."""

    def read(self, array: str, index: tuple[int, ...]) -> Value:
        """Return the value of an element."""
        ...


_IDEMPOTENT: Final = frozenset({"max", "min", "any", "all"})
_JOIN: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "sum": operator.add,
    "product": operator.mul,
    "max": max,
    "min": min,
    "any": lambda a, b: bool(a or b),
    "all": lambda a, b: bool(a and b),
    "and": lambda a, b: int(a) & int(b),
    "or": lambda a, b: int(a) | int(b),
    "xor": lambda a, b: int(a) ^ int(b),
    "argmax": lambda a, b: b if (b[0], -b[1]) > (a[0], -a[1]) else a,
    "argmin": lambda a, b: b if b < a else a,
}
_EMPTY: Final[Mapping[str, Any]] = {
    "sum": 0, "product": 1, "max": -math.inf, "min": math.inf, "any": False, "all": True,
    "argmax": (-math.inf, 0), "argmin": (math.inf, 0),
}  # fmt: skip


@dataclass
class Bag:
    """State of a reduction: the terms collected so far; or a variable with its atomic updates.

    ``base`` is the value that was updated; None for the neutral element.  The terms of an ``ordered`` operation are
    a sequence, those of others a multiset, or a set where it does not matter how often one is counted.
    """

    operation: str
    ordered: bool = False
    base: Value | None = None
    terms: list[int] = field(default_factory=list)
    number: Any = None

    @staticmethod
    def of(operation: Operation) -> Bag:
        """Return a reduction of no terms."""
        return Bag(str(operation), operation.ordered, number=_EMPTY.get(operation.name))

    @staticmethod
    def updated(operation: str, base: Value) -> Bag:
        """Return a variable that holds *base*."""
        return Bag(operation, base=base, number=base.number)

    def add(self, term: Value) -> None:
        """Combine *term* into it."""
        self.terms.append(term.symbol)
        join = _JOIN.get(self.operation)
        if join is not None and self.number is not None and term.number is not None:
            self.number = join(self.number, term.number)
        else:
            self.number = None

    def join(self, other: Bag) -> None:
        """Combine the terms of *other*, of the same operation, into it."""
        self.terms += other.terms
        number = None
        if other.terms and self.number is not None and other.number is not None and (join := _JOIN.get(self.operation)):
            number = join(self.number, other.number)
        self.number = number if other.terms else self.number

    def merge(self, partial: Value, symbols: Symbols) -> bool:
        """Combine the terms of *partial*, if it was collected by the same operation; return whether it was."""
        key = symbols.key(partial.symbol)
        if key[0] != "collected" or key[1] != self.operation or key[2] is not None:
            return False
        number = self.number
        found: list[int] = []
        for entry in key[3]:
            symbol, count = entry if isinstance(entry, tuple) else (entry, 1)
            found += [symbol] * count
        self.add(partial)
        del self.terms[-1]
        self.terms += found
        if not found:
            self.number = number
        return True

    def value(self, symbols: Symbols) -> Value:
        """Return the value that a read sees."""
        terms: Hashable = tuple(self.terms)
        if self.operation in _IDEMPOTENT:
            terms = frozenset(self.terms)
        elif not self.ordered:
            terms = frozenset(Counter(self.terms).items())
        base = None if self.base is None else self.base.symbol
        return Value(symbols.of("collected", self.operation, base, terms), self.number)


_COMPARE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _power(base: Any, exponent: Any) -> Any:  # noqa: ANN401 - numbers
    return base**exponent if abs(exponent) < 64 else 0


def _over(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(a, b) if b else 0


_NARY: Final[Mapping[type, Callable[..., Any]]] = {
    p.Sum: lambda *parts: sum(parts),
    p.Product: lambda *parts: math.prod(parts),
    p.Min: min,
    p.Max: max,
    p.Quotient: _over(operator.truediv),
    p.FloorDiv: _over(operator.floordiv),
    p.Remainder: _over(operator.mod),
    p.Power: _power,
    p.LogicalNot: operator.not_,
    p.BitwiseNot: lambda a: ~int(a),
    p.BitwiseAnd: lambda *parts: _folded(operator.and_, parts),
    p.BitwiseOr: lambda *parts: _folded(operator.or_, parts),
    p.BitwiseXor: lambda *parts: _folded(operator.xor, parts),
    p.LeftShift: lambda a, b: int(a) << (int(b) % 64),
    p.RightShift: lambda a, b: int(a) >> (int(b) % 64),
    p.LogicalAnd: lambda *parts: all(parts),
    p.LogicalOr: lambda *parts: any(parts),
    p.If: lambda condition, then, otherwise: then if condition else otherwise,
    Terms: lambda *parts: tuple(parts),
}
_FOLDED: Final[Mapping[type, int]] = {p.Sum: 0, p.Product: 1}
_CALLS: Final[Mapping[str, Callable[..., Any]]] = {"abs": abs}


def _folded(function: Callable[[int, int], int], parts: tuple[Any, ...]) -> int:
    total = int(parts[0])
    for part in parts[1:]:
        total = function(total, int(part))
    return total


def _applied(function: Callable[..., Any] | None, numbers: tuple[Any, ...]) -> Any:  # noqa: ANN401 - numbers
    """Return the result of *function* on known numbers, otherwise None."""
    if function is None or None in numbers:
        return None
    try:
        return function(*numbers)
    except (TypeError, OverflowError, ValueError):
        return None


def _function(expr: Expression) -> Callable[..., Any] | None:
    kind = type(expr)
    if kind is p.Comparison:
        return _COMPARE[str(getattr(expr.operator, "value", expr.operator))]
    if kind is p.Call:
        return _CALLS.get(function_name(expr))
    if kind is TypeCast:
        return int if np.dtype(expr.dtype).kind in "iu" else (lambda a: a)
    if kind is Lookup:
        position = {"value": 0, "index": 1, "flag": 1}.get(expr.field)
        return None if position is None else lambda record: record[position]
    return _NARY.get(kind)


def _label(expr: Expression) -> Hashable:
    kind = type(expr)
    if kind is p.Comparison:
        return f"Comparison {expr.operator}"
    if kind is p.Call:
        return f"Call {function_name(expr)}"
    if kind is TypeCast:
        return f"TypeCast {expr.dtype}"
    return f"Lookup {expr.field}" if kind is Lookup else kind.__name__


class ValueCompiler:
    """Turns expressions into closures.

    Parameters
    ----------
    env
        Values of inames and parameters, when a closure is called.
    arrays
        What is read from *memory*; other names that *env* does not have are arguments passed by value.
    """

    def __init__(
        self, env: MutableMapping[str, int], memory: Memory, arrays: frozenset[str], symbols: Symbols
    ) -> None:
        self.env = env
        self.memory = memory
        self.arrays = arrays
        self.symbols = symbols

    def static(self, node: Expression) -> Callable[[], Any] | None:
        """Return *node* as a closure over numbers if neither arrays nor arguments occur in it."""
        env, kind = self.env, type(node)
        if kind is p.Variable:
            return (lambda: env[node.name]) if node.name in env else None
        if not isinstance(node, p.ExpressionNode):
            return lambda: node
        if kind is p.Subscript or not variables(node) <= env.keys():
            return None
        function = _function(node)
        parts = [self.static(child) for child in children(node)]
        closures = [part for part in parts if part is not None]
        if function is None or len(closures) < len(parts):
            return None
        return lambda: function(*(closure() for closure in closures))

    def value(self, node: Expression) -> Closure:
        """Return *node* as a closure."""
        symbols, kind = self.symbols, type(node)
        number = self.static(node)
        if number is not None:
            return lambda: Value(symbols.of("number", value := number()), value)
        if kind is p.Variable:
            return self.variable(node)
        if kind is p.Subscript:
            return _element(node, [self.value(child) for child in node.index_tuple], self.memory)
        if kind is p.If:
            return self.choice(node)
        if kind in (p.LogicalAnd, p.LogicalOr):
            return self.shortened(node)
        label, function = _label(node), _function(node)
        neutral = _FOLDED.get(kind)
        if neutral is not None:
            return self.folded(node, neutral)
        parts = [self.value(child) for child in children(node)]

        return lambda: self.combined(label, function, [part() for part in parts])

    def combined(self, label: Hashable, function: Callable[..., Any] | None, values: Sequence[Value]) -> Value:
        """Return the value of an operation: a number if *values* are, through whatever temporaries they came."""
        number = _applied(function, tuple(value.number for value in values))
        if number is not None and all(self.symbols.key(value.symbol)[0] == "number" for value in values):
            return Value(self.symbols.of("number", number), number)
        return Value(self.symbols.of(label, *(value.symbol for value in values)), number)

    def folded(self, node: Expression, neutral: int) -> Closure:
        """Return a closure for a sum or product with its leading integers folded."""
        symbols, label, function = self.symbols, _label(node), _NARY[type(node)]
        parts = [self.value(child) for child in node.children]

        def apply() -> Value:
            first = neutral
            values: list[Value] = []
            for part in parts:
                value = part()
                if not values and type(value.number) is int and symbols.key(value.symbol)[0] == "number":
                    first = function(first, value.number)
                else:
                    values.append(value)
            if first != neutral or not values:
                values.insert(0, Value(symbols.of("number", first), first))
            return values[0] if len(values) == 1 else self.combined(label, function, values)

        return apply

    def variable(self, node: p.Variable) -> Closure:
        """Return a scalar: a variable of the program, or an argument."""
        if node.name in self.arrays:
            memory = self.memory
            return lambda: memory.read(node.name, ())
        argument = Value(self.symbols.of("argument", node.name), 1)
        return lambda: argument

    def choice(self, node: p.If) -> Closure:
        """Return a conditional, of which only the branch taken is evaluated."""
        symbols = self.symbols
        then, otherwise = self.value(node.then), self.value(node.else_)
        fixed = self.static(node.condition)
        if fixed is not None:
            return lambda: then() if fixed() else otherwise()
        condition = self.value(node.condition)

        def choose() -> Value:
            decided = condition()
            taken = then() if _decision(decided) else otherwise()
            if symbols.key(decided.symbol)[0] == "number":
                return taken
            return Value(symbols.of("If", decided.symbol, taken.symbol), taken.number)

        return choose

    def shortened(self, node: Expression) -> Closure:
        """Return ``and`` or ``or``, evaluated as far as needed."""
        parts = [self.value(child) for child in node.children]
        ends = type(node) is p.LogicalOr

        def evaluate() -> Value:
            seen = []
            for part in parts:
                value = part()
                seen.append(value)
                if bool(_decision(value)) is ends:
                    return self.combined(type(node).__name__, lambda *_: ends, seen)
            return self.combined(type(node).__name__, lambda *_: not ends, seen)

        return evaluate


def _decision(value: Value) -> Any:  # noqa: ANN401 - a number
    if value.number is None:
        raise UnsupportedError("a decision depends on a number that brute force does not compute")
    return value.number


def _element(node: p.Subscript, indices: list[Closure], memory: Memory) -> Closure:
    name = array_name(node)

    def read() -> Value:
        return memory.read(name, tuple(int(_decision(index())) for index in indices))

    return read
