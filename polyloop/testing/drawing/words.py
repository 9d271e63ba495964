"""Expressions with integers modulo 2^32 in the place of floating-point numbers, and the operations of reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
import pymbolic.primitives as p

from polyloop.expr.dtypes import DType, dtype_name
from polyloop.expr.foreign import ForeignName, choose
from polyloop.expr.functions import FUNCTIONS, Domain, ResultType
from polyloop.expr.nodes import Expression, Lookup, Operation, Record, Reduction, Terms, TypeCast, function_name
from polyloop.expr.printer import show
from polyloop.expr.promotion import Weak, common_type, settle
from polyloop.expr.records import field_dtype, field_names, is_record, is_vector
from polyloop.expr.rewrite import children, rebuild
from polyloop.expr.typing import infer_type, state_dtype
from polyloop.testing.integers import (
    MODULUS,
    WORD,
    integer_dtype,
    integer_of,
    is_real,
    name_hash,
)

__all__ = ["Mapper", "NoIntegersError", "holds_real"]

_ORDER: Final = frozenset({"<", "<=", ">", ">="})
_MOST_POWER: Final = 64
_INT: Final = "int32"


class NoIntegersError(Exception):
    """A kernel has no counterpart with integers; the text says why."""


def holds_real(dtype: DType | None) -> bool:
    """Return whether a value of *dtype* is a floating-point number or has one."""
    return dtype is not None and integer_dtype(dtype) != dtype


class Mapper:
    """Rewriter of expressions from floating-point numbers to integers modulo 2^32, with *function* as hash.

    *by_sign* is whether numbers are compared as signed integers; an operation of a reduction compares them as they
    are, so that the least and the greatest are those that it begins with.
    """

    def __init__(self, types: Mapping[str, DType | None], function: ForeignName, *, by_sign: bool = True) -> None:
        self.types = types
        self.function = function
        self.by_sign = by_sign

    def kind(self, expr: Expression) -> DType | Weak:
        """Return the type of *expr* in the original kernel."""
        found = infer_type(expr, self.types.get)
        assert found is not None, f"untyped expression {show(expr)}"
        return found

    def is_real(self, expr: Expression) -> bool:
        """Return whether *expr* is a floating-point number, or a vector of some, in the original."""
        kind = self.kind(expr)
        return kind in (Weak.FLOAT, Weak.COMPLEX) if isinstance(kind, Weak) else is_real(kind)

    def stored(self, expr: Expression, dtype: DType) -> Expression:
        """Return *expr* as the value of a variable with the original type *dtype*."""
        return self.integer(expr) if is_real(dtype) else self.same(expr)

    def integer(self, expr: Expression) -> Expression:
        """Return *expr* as a number modulo 2^32; small constants may keep their type."""
        if isinstance(expr, int | np.integer | np.bool_) or type(expr) is bool:
            value = int(expr)
            return value if 0 <= value < MODULUS // 2 else np.uint32(value % MODULUS)
        if self.is_real(expr):
            return self._real(expr)
        found = self.same(expr)
        kind = self.kind(expr)
        is_word = not isinstance(kind, Weak) and (kind == WORD or is_record(kind))
        return found if is_word else TypeCast("uint32", found)

    def same(self, expr: Expression) -> Expression:
        """Return *expr* in its own type (records by their fields), real values as :meth:`integer` does."""
        if not isinstance(expr, p.ExpressionNode):
            return self._constant(expr)
        if self.is_real(expr):
            return self._real(expr)
        method = self._EXACT.get(type(expr))
        return self._parts(expr) if method is None else method(self, expr)

    def _parts(self, expr: Expression) -> Expression:
        old = children(expr)
        new = tuple(map(self.same, old))
        if type(expr) is p.Subscript and new != old:
            raise NoIntegersError(f"the subscript in {show(expr)} is computed from floating-point numbers")
        return expr if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(expr, new)

    def _constant(self, value: Any) -> Any:  # noqa: ANN401 - a Python number or a NumPy scalar
        if isinstance(value, float | complex | np.inexact) or (isinstance(value, np.generic) and is_real(value.dtype)):
            number = complex(value)
            return np.uint32(integer_of(number.real if not number.imag else number))
        return value

    def _hashed(self, name: str, *values: Expression) -> Expression:
        """Return the image of the function *name* of *values*."""
        found: Expression = np.uint32(name_hash(name))
        for value in values:
            found = p.Call(self.function, (found, value))
        return found

    # {{{ of real type

    def _real(self, expr: Expression) -> Expression:
        """Return *expr*, a floating-point number, as an integer."""
        if not isinstance(expr, p.ExpressionNode):
            return self._constant(expr)
        method = self._REAL.get(type(expr))
        assert method is not None, f"unexpected {type(expr).__name__} of a floating-point type"
        return method(self, expr)

    def _arithmetic(self, expr: Expression) -> Expression:
        """Return a sum, product, minimum or maximum of the same operands."""
        old = children(expr)
        new = [self.integer(child) for child in old]
        if type(expr) is p.Product and type(old[0]) is int and old[0] < 0:
            positive = new[1:] if old[0] == -1 else [self.integer(-old[0]), *new[1:]]
            return p.Product((-1, positive[0] if len(positive) == 1 else p.Product(tuple(positive))))  # a difference
        return rebuild(expr, tuple(new))

    def _scalar(self, expr: Expression) -> None:
        if is_vector(self.kind(expr)):
            raise NoIntegersError(f"{show(expr)} is a vector, of which only sums and products are known")

    def _quotient(self, expr: Expression) -> Expression:
        self._scalar(expr)
        return self._hashed(type(expr).__name__, self.integer(expr.numerator), self.integer(expr.denominator))

    def _power(self, expr: Expression) -> Expression:
        self._scalar(expr)
        exponent = expr.exponent
        if type(exponent) is int and 0 <= exponent <= _MOST_POWER:
            return p.Power(self.integer(expr.base), exponent)
        return self._hashed("pow", self.integer(expr.base), self.integer(exponent))

    def _choice(self, expr: Expression) -> Expression:
        then, orelse = self.integer(expr.then), self.integer(expr.else_)
        return p.If(self.same(expr.condition), then, orelse)

    def _cast(self, expr: Expression) -> Expression:
        found = self.integer(expr.child)
        return np.uint32(found) if type(found) is int else found

    def _field(self, expr: Expression) -> Expression:
        inner: Expression = expr.aggregate
        if type(inner) is p.Call and not isinstance(inner.function, ForeignName):
            return self._hashed(f"{function_name(inner)}.{expr.field}", *map(self.integer, inner.parameters))
        return Lookup(self.same(inner), expr.field)

    def _call(self, expr: Expression) -> Expression:
        self._scalar(expr)
        if isinstance(expr.function, ForeignName):
            return self._foreign(expr)
        name, arguments = expr.function.name, expr.parameters
        if name in ("min", "max", "fmin", "fmax"):
            kind = p.Min if name.endswith("min") else p.Max
            return kind(tuple(map(self.integer, arguments)))
        if name == "fma":
            a, b, c = map(self.integer, arguments)
            return p.Sum((p.Product((a, b)), c))
        if name == "pow":
            return self._power(p.Power(*arguments))
        return self._hashed(name, *map(self.integer, arguments))

    def _foreign(self, expr: Expression) -> Expression:
        chosen = choose(expr.function, [settle(self.kind(part)) for part in expr.parameters])
        assert chosen is not None, f"untyped call {show(expr)}"
        return self._hashed(str(chosen), *map(self.integer, expr.parameters))

    def _reduction(self, expr: Expression) -> Expression:
        if expr.operation.combine:
            return self._collected(expr)
        start = None if expr.start is None else self.integer(expr.start)
        return replace(expr, expr=self.integer(expr.expr), start=start)

    # }}}
    # {{{ of another type

    def _comparison(self, expr: Expression) -> Expression:
        operands = (expr.left, expr.right)
        common = settle(common_type([self.kind(part) for part in operands]))
        if not is_real(common):
            return self._parts(expr)
        operator = str(getattr(expr.operator, "value", expr.operator))
        if operator not in _ORDER or not self.by_sign:
            return p.Comparison(self.integer(expr.left), operator, self.integer(expr.right))
        left, right = (self._signed(part) for part in operands)
        return p.Comparison(left, operator, right)

    def _signed(self, expr: Expression) -> Expression:
        found = self.integer(expr)
        if isinstance(found, int | np.integer):
            value = int(found)
            return value if value < MODULUS // 2 else np.int32(value - MODULUS)
        return TypeCast(_INT, found)

    def _exact_call(self, expr: Expression) -> Expression:
        """Return a call with an exact result: a test, or a function of integers."""
        foreign = isinstance(expr.function, ForeignName)
        if not any(self.is_real(part) for part in expr.parameters) and not self._takes_real(expr):
            return self._parts(expr)
        if foreign:
            kind = settle(self.kind(expr))
            return TypeCast(dtype_name(kind), self._foreign(expr))
        function = FUNCTIONS[expr.function.name]
        arguments = tuple(map(self.integer, expr.parameters))
        if function.result is ResultType.RECORD:
            dtype = integer_dtype(settle(self.kind(expr)))
            return Record(dtype, tuple(self._hashed(f"{function.name}.{f}", *arguments) for f in function.fields))
        assert function.result is ResultType.BOOL, f"unexpected result of {show(expr)}"
        return p.Comparison(p.BitwiseAnd((self._hashed(function.name, *arguments), 1)), "!=", 0)

    def _takes_real(self, expr: Expression) -> bool:
        """Return whether integers that a function is given become floating-point numbers."""
        if isinstance(expr.function, ForeignName):
            chosen = choose(expr.function, [settle(self.kind(part)) for part in expr.parameters])
            return chosen is not None and any(map(is_real, chosen.arguments))
        function = FUNCTIONS[expr.function.name]
        return function.domain is not Domain.INTEGER and function.result in (ResultType.BOOL, ResultType.RECORD)

    def _built(self, expr: Expression) -> Expression:
        pairs = zip(expr.values, field_names(expr.dtype), strict=True)
        values = tuple(self.stored(value, field_dtype(expr.dtype, name)) for value, name in pairs)
        return Record(integer_dtype(expr.dtype), values)

    def _exact_reduction(self, expr: Expression) -> Expression:
        return self._collected(expr) if expr.operation.combine else self._parts(expr)

    # }}}

    def _collected(self, expr: Expression) -> Expression:
        """Return a reduction with its operation in explicit form."""
        terms = expr.expr.children if type(expr.expr) is Terms else (expr.expr,)
        types = tuple(settle(self.kind(term)) for term in terms)
        state = types[0] if expr.operation.of_states else state_dtype(expr.operation, types)
        fields = [field_dtype(state, name) for name in field_names(state)] if expr.operation.fields else [state]
        wanted = [state] if expr.operation.of_states else fields
        new = tuple(self._exactly(term, dtype) for term, dtype in zip(terms, wanted, strict=True))
        operation = _changed_operation(expr.operation, state, fields, self.function)
        start = None if expr.start is None else self._exactly(expr.start, state)
        body = Terms(new) if type(expr.expr) is Terms else new[0]
        return replace(expr, operation=operation, expr=body, start=start)

    def _exactly(self, expr: Expression, dtype: DType) -> Expression:
        """Return *expr* as :meth:`stored`, constants with a type of their own."""
        found = self.stored(expr, dtype)
        return np.uint32(found) if is_real(dtype) and type(found) is int else found

    _REAL: ClassVar[Mapping[type, Callable[[Mapper, Any], Expression]]] = {
        p.Variable: lambda _, expr: expr,
        p.Subscript: _parts,
        p.Sum: _arithmetic,
        p.Product: _arithmetic,
        p.Min: _arithmetic,
        p.Max: _arithmetic,
        p.Quotient: _quotient,
        p.FloorDiv: _quotient,
        p.Remainder: _quotient,
        p.Power: _power,
        p.If: _choice,
        TypeCast: _cast,
        Lookup: _field,
        p.Call: _call,
        Reduction: _reduction,
        Record: _built,
    }
    _EXACT: ClassVar[Mapping[type, Callable[[Mapper, Any], Expression]]] = {
        p.Comparison: _comparison,
        p.Call: _exact_call,
        Record: _built,
        Reduction: _exact_reduction,
    }


# {{{ operations of reductions


def _changed_operation(
    operation: Operation, state: DType, fields: Sequence[DType], function: ForeignName
) -> Operation:
    if not any(holds_real(dtype) for dtype in fields):
        return operation
    mapper = Mapper({"a": state, "b": state}, function, by_sign=False)
    for expr in operation.combine:
        _require_associative(operation, expr, mapper)
    whole = [state] if len(operation.combine) == 1 else list(fields)
    combine = tuple(mapper.stored(expr, dtype) for expr, dtype in zip(operation.combine, whole, strict=True))
    neutral = tuple(
        integer_of(value) if is_real(dtype) and isinstance(value, int | float) else value
        for value, dtype in zip(operation.neutral, fields, strict=True)
    )
    return replace(operation, combine=combine, neutral=neutral)


_ADDING: Final = frozenset({p.Sum, p.Product})
_CHOOSING: Final = frozenset({p.Min, p.Max, p.Comparison})
_KEPT: Final = frozenset({p.Variable, p.If, Lookup, Record, p.LogicalAnd, p.LogicalOr, p.LogicalNot})


def _require_associative(operation: Operation, expr: Expression, mapper: Mapper) -> None:
    """Refuse an operation that may not be associative modulo 2^32, although it is for real numbers."""
    seen: set[type] = set()

    def visit(node: Expression) -> None:
        below = children(node)
        kind = type(node)
        if not isinstance(node, p.ExpressionNode):
            if mapper.is_real(node) and not float(abs(node)).is_integer():
                raise NoIntegersError(f"'{operation}' combines with the constant {node}")
        elif mapper.is_real(node) or any(mapper.is_real(child) for child in below):
            if kind not in _ADDING | _CHOOSING | _KEPT:
                raise NoIntegersError(f"'{operation}' combines with {show(node)}, which is no sum or product")
            seen.add(kind)
        for child in below:
            visit(child)

    visit(expr)
    if seen & _ADDING and seen & _CHOOSING:
        raise NoIntegersError(f"'{operation}' adds and compares, which do not go together modulo 2^32")


# }}}
