"""Expressions as Python closures over NumPy scalars: the arithmetic of the reference interpreter.

Every operation converts its operands to their common type (``expr/typing.py``) and then applies the NumPy operation
of that type; floats of 8 and 16 bits are computed in float32.  A value whose width is open takes the one that is
wanted.  Subscripts are exact Python integers.  An expression is compiled once and evaluated for every instance.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.edge.callbacks import asked
from polyloop.errors import ArgumentError, Diagnostic
from polyloop.expr.chains import CHAINS, operands, paired
from polyloop.expr.constants import constant_of
from polyloop.expr.dtypes import DType, computed, dtype_name, integer_limits, is_inexact, is_integer, is_signed, rounded
from polyloop.expr.foreign import ForeignName, choose
from polyloop.expr.functions import FUNCTIONS, ResultType
from polyloop.expr.indexing import is_index_value
from polyloop.expr.nodes import (
    Expression,
    Lookup,
    Operation,
    Record,
    Reduction,
    Terms,
    TypeCast,
    array_name,
    subtrahend,
)
from polyloop.expr.operations import neutral_value
from polyloop.expr.operator_types import BITWISE
from polyloop.expr.printer import show
from polyloop.expr.promotion import ScalarType, adapted, argument_type, common_type
from polyloop.expr.records import component, field_dtype, field_names, is_record, is_vector
from polyloop.expr.rewrite import children
from polyloop.expr.typing import infer_type
from polyloop.target.numeric import NUMERIC

__all__ = ["Closure", "Compiler", "converted", "neutral"]

Closure: TypeAlias = Callable[[], Any]
"""An expression, ready to be evaluated where the inames have their present values."""

_BOOL: Final[DType] = np.dtype(np.bool_)
_INT: Final[DType] = np.dtype(np.int32)
_COMPARE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_BITWISE: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    p.BitwiseAnd: operator.and_,
    p.BitwiseOr: operator.or_,
    p.BitwiseXor: operator.xor,
    p.LeftShift: operator.lshift,
    p.RightShift: operator.rshift,
}


_EXACT: Final[Mapping[type, Callable[..., int]]] = {
    p.Power: operator.pow,
    p.LeftShift: operator.lshift,
    p.RightShift: operator.rshift,
    p.Min: min,
    p.Max: max,
    p.BitwiseNot: operator.invert,
    p.BitwiseAnd: lambda *parts: reduce(operator.and_, parts),
    p.BitwiseOr: lambda *parts: reduce(operator.or_, parts),
    p.BitwiseXor: lambda *parts: reduce(operator.xor, parts),
}
_EXACT_CALLS: Final[Mapping[str, Callable[..., int]]] = {
    "abs": abs,
    "min": min,
    "max": max,
    "gcd": math.gcd,
    "sign": lambda x: (x > 0) - (x < 0),
}
"""Operations on Python integers, for subscripts."""


def converted(value: Any, dtype: DType) -> Any:  # noqa: ANN401 - a scalar of any type
    """Return *value* as a scalar of *dtype*, as a C cast does."""
    if isinstance(value, np.generic) and value.dtype == dtype:
        return value
    if is_record(dtype):
        return built(dtype, [value] * len(field_names(dtype)))
    return rounded(value, dtype)


def _number(value: int, dtype: DType) -> Any:  # noqa: ANN401 - a scalar of any type
    """Return an exact integer as a scalar of *dtype*; an integer type takes as many bits as it holds."""
    if is_integer(dtype):
        return np.asarray((value + 2**63) % 2**64 - 2**63).astype(dtype)[()]
    return converted(value if abs(value) < 2**63 else float(value), dtype)


def built(dtype: DType, values: Sequence[Any]) -> Any:  # noqa: ANN401 - a record
    """Return a record of type *dtype* with the fields *values*."""
    result: np.ndarray[Any, Any] = np.zeros((), dtype)
    for name, value in zip(field_names(dtype), values, strict=True):
        result[name] = converted(value, field_dtype(dtype, name))
    return result[()]


def _wrapped(number: int, dtype: DType) -> int:
    """Return *number* modulo 2^bits where *dtype* is a type of integers: NumPy takes no others."""
    if not is_integer(dtype):
        return number
    low, high = integer_limits(dtype)
    return (number - low) % (high - low + 1) + low


def _lifted(function: Callable[..., Any], kind: DType) -> Callable[..., Any]:
    """Return *function*, applied to each component where *kind* is a vector."""
    if not is_vector(kind):
        return function
    names = field_names(kind)
    return lambda *parts: built(kind, [function(*(part[name] for part in parts)) for name in names])


def _convert(closure: Closure, have: DType, want: DType) -> Closure:
    return closure if have == want else lambda: converted(closure(), want)


def can_return(value: object, dtype: DType) -> bool:
    """Return whether the result *value* of a user's function is a scalar convertible to *dtype*."""
    if isinstance(value, str | bytes) or np.ndim(value) != 0:  # type: ignore[arg-type]
        return False
    order = "biufc"
    have = "i" if np.asarray(value).dtype.kind == "u" else np.asarray(value).dtype.kind
    wanted = "i" if dtype.kind == "u" else dtype.kind
    return have in order and order.index(have) <= order.index(wanted)


def neutral(operation: Operation, dtype: DType) -> Any:  # noqa: ANN401 - a scalar of any type
    """Return the value with which a reduction that accumulates in *dtype* begins."""
    if not operation.fields:
        return converted(neutral_value(operation.neutral[0], component(dtype)), dtype)
    pairs = zip(operation.neutral, field_names(dtype), strict=True)
    return built(dtype, [neutral_value(value, component(field_dtype(dtype, name))) for value, name in pairs])


def _is_constant(expr: Expression) -> bool:
    return not isinstance(expr, p.ExpressionNode)


def _smaller(a: Any, b: Any) -> Any:  # noqa: ANN401
    return np.fmin(a, b)


def _larger(a: Any, b: Any) -> Any:  # noqa: ANN401
    return np.fmax(a, b)


_COMBINE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "sum": operator.add,
    "product": operator.mul,
    "min": _smaller,
    "max": _larger,
    "any": operator.or_,
    "all": operator.and_,
}


class Compiler:
    """Turns the expressions of one call into closures.

    Parameters
    ----------
    kernel
        Name of the kernel, for messages.
    point
        Present values of the inames; the closures look them up here.
    scalars
        Value arguments and parameters, as scalars of their types.
    arrays
        Arguments and temporaries.
    types
        Type of every name.
    sizes
        Those of the scalars that are parameters.

    Attributes
    ----------
    terms
        Called with each reduction, from left to right and an outer one before those inside it; returns a function
        that takes the closure of a term and returns what yields the values of the terms.
    """

    def __init__(
        self,
        kernel: str,
        point: Mapping[str, int],
        scalars: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray[Any, Any]],
        types: Mapping[str, DType | None],
        sizes: Collection[str] = (),
    ) -> None:
        self.kernel = kernel
        self.sizes = sizes
        self.point = point
        self.scalars = scalars
        self.arrays = arrays
        self.types = types
        self.terms: Callable[[Reduction], Callable[[Closure], Callable[[], Iterable[Any]]]] | None = None

    def type_of(self, expr: Expression) -> ScalarType:
        """Return the type of *expr*; a constant that met no typed value is weak."""
        found = infer_type(expr, self.types.get)
        assert found is not None, f"untyped expression {show(expr)}"
        return found

    def error(self, code: str, message: str, notes: Sequence[str], hint: str) -> ArgumentError:
        """Return the error for an instance that cannot be executed."""
        at = ", ".join(f"{name} = {value}" for name, value in self.point.items())
        return ArgumentError(
            "interpret", self.kernel, [Diagnostic(code, message, (*notes, f"at {at}") if at else tuple(notes), (hint,))]
        )

    # {{{ subscripts

    def index(self, expr: Expression) -> Closure:
        """Return a closure for a subscript: a Python integer."""
        kind = type(expr)
        if kind is p.Variable and expr.name not in self.arrays:
            name = expr.name
            if name in self.scalars:
                value = int(self.scalars[name])
                return lambda: value
            point = self.point
            return lambda: point[name]
        if kind is int or isinstance(expr, np.integer):
            value = int(expr)
            return lambda: value
        if kind is p.Sum:
            parts = [self.index(child) for child in expr.children]
            return lambda: sum(part() for part in parts)
        if kind is p.Product:
            parts = [self.index(child) for child in expr.children]
            return lambda: math.prod(part() for part in parts)
        if kind is p.FloorDiv or kind is p.Remainder:
            apply = self.divider(kind is p.FloorDiv, expr)
            left, right = self.index(expr.numerator), self.index(expr.denominator)
            return lambda: apply(left(), right())
        return self._other_index(expr)

    def _other_index(self, expr: Expression) -> Closure:
        """Return a closure for a subscript that is no polynomial or quotient."""
        number = constant_of(expr)
        if number is not None:
            return lambda: number
        kind = type(expr)
        exact = _EXACT.get(kind)
        if kind in (p.Power, p.LeftShift, p.RightShift) and not isinstance(children(expr)[1], int):
            exact = None  # it is computed in its own type
        if kind is p.Call and isinstance(expr.function, p.Variable) and not isinstance(expr.function, ForeignName):
            exact = _EXACT_CALLS.get(expr.function.name)
        if exact is not None:
            apply, parts = exact, [self.index(part) for part in children(expr)]
            return lambda: apply(*[part() for part in parts])
        if kind is p.If:
            condition, then, orelse = self.value(expr.condition), self.index(expr.then), self.index(expr.else_)
            return lambda: then() if condition() else orelse()
        closure = self.value(expr)
        return lambda: int(closure())

    def place(self, expr: Expression) -> Callable[[], tuple[int, ...]]:
        """Return a closure for the subscripts of a variable or element, checked against the shape."""
        if isinstance(expr, p.Variable):
            return tuple
        name = expr.aggregate.name
        shape = self.arrays[name].shape
        indices = [self.index(index) for index in expr.index_tuple]
        assert len(indices) == len(shape), f"{show(expr)}: '{name}' has {len(shape)} axes"

        def locate() -> tuple[int, ...]:
            where = tuple([index() for index in indices])
            for value, extent in zip(where, shape, strict=True):
                if not 0 <= value < extent:
                    raise self.error(
                        "out-of-bounds",
                        f"{name}[{', '.join(map(str, where))}] does not exist",
                        (f"{show(expr)}; the shape of '{name}' is {shape}",),
                        "check the indices, or the sizes that were passed",
                    )
            return where

        return locate

    # }}}
    # {{{ values

    def value(self, expr: Expression, want: DType | None = None) -> Closure:
        """Return a closure for the value of *expr*, as *want* if that is given."""
        exact = type(expr) in BITWISE and want is not None and is_inexact(want)
        have = adapted(self.type_of(expr), None if exact else want)
        if isinstance(expr, p.ExpressionNode) and is_index_value(expr, self._is_index_name):
            number, dtype = self.index(expr), want or have
            return lambda: _number(number(), dtype)
        if want == have and type(expr) in (p.Variable, p.Subscript) and array_name(expr) in self.arrays:
            return self._element(expr)
        closure = self._value(expr, have)
        return closure if want is None else _convert(closure, computed(have), want)

    def _is_index_name(self, name: str) -> bool:
        """Return whether a name is an iname or a size, of a type that indices have."""
        dtype = self.types.get(name)
        is_index = name in self.sizes or (name not in self.scalars and name not in self.arrays)
        return is_index and dtype is not None and is_signed(dtype) and dtype.itemsize >= _INT.itemsize

    def _value(self, expr: Expression, have: DType) -> Closure:
        """Return a closure for the value of *expr*, which has the type *have*, in the type that is computed with."""
        kind: type = type(expr)
        if kind is p.Variable and expr.name not in self.arrays:
            return _convert(self._name(expr.name), have, computed(have))
        if kind is p.Variable or kind is p.Subscript:
            return _convert(self._element(expr), have, computed(have))
        number = constant_of(expr)
        if number is not None or _is_constant(expr):
            constant = converted(expr if number is None else _wrapped(number, have), computed(have))
            return lambda: constant
        special = self._SPECIAL.get(kind)
        if special is not None:
            return special(self, expr, have)
        if kind is p.Comparison or kind in (p.LogicalAnd, p.LogicalOr, p.LogicalNot):
            return self._truth(expr)
        return self._operation(expr, computed(have))

    def _element(self, expr: p.Variable | p.Subscript) -> Closure:
        array, place = self.arrays[array_name(expr)], self.place(expr)
        return lambda: array[place()]

    def _name(self, name: str) -> Closure:
        if name in self.scalars:
            value = self.scalars[name]
            return lambda: value
        point, scalar = self.point, (self.types.get(name) or _INT).type
        return lambda: scalar(point[name])

    def _lookup(self, expr: Lookup, have: DType) -> Closure:
        record, field = self.value(expr.aggregate), expr.field
        return _convert(lambda: record()[field], have, computed(have))

    def _cast(self, expr: TypeCast, have: DType) -> Closure:
        return _convert(self.value(expr.child, have), have, computed(have))

    def _record(self, expr: Record, have: DType) -> Closure:
        dtype = expr.dtype
        pairs = zip(expr.values, field_names(dtype), strict=True)
        parts = [self.value(value, field_dtype(dtype, name)) for value, name in pairs]
        return lambda: built(dtype, [part() for part in parts])

    def _common(self, exprs: Sequence[Expression]) -> ScalarType:
        return common_type([self.type_of(expr) for expr in exprs])

    def _reduction(self, expr: Reduction, have: DType) -> Closure:
        assert self.terms is not None, f"a reduction where none can be: {show(expr)}"
        terms = self.terms(expr)
        dtype = computed(have)
        start = neutral(expr.operation, dtype)
        term = Record(dtype, expr.expr.children) if isinstance(expr.expr, Terms) else expr.expr
        values = terms(self.value(term, dtype))
        combine = self._combination(expr.operation, dtype)

        def accumulate() -> Any:  # noqa: ANN401
            total = start
            for value in values():
                total = combine(total, value)
            return total

        return accumulate

    def _combination(self, operation: Operation, dtype: DType) -> Callable[[Any, Any], Any]:
        """Return a function that combines two states of type *dtype*."""
        if not operation.combine:
            return _lifted(_COMBINE[operation.name], dtype)
        states = {"a": np.zeros((), dtype), "b": np.zeros((), dtype)}
        compiler = Compiler(self.kernel, {}, {}, states, {"a": dtype, "b": dtype})
        if len(operation.combine) == 1:
            whole = compiler.value(operation.combine[0], dtype)
        else:
            whole = compiler.value(Record(dtype, operation.combine), dtype)

        def combine(a: Any, b: Any) -> Any:  # noqa: ANN401
            states["a"][()], states["b"][()] = a, b
            return whole().copy()

        return combine

    def _choice(self, expr: p.If, have: DType) -> Closure:
        dtype = computed(have)
        condition = self.value(expr.condition)
        then, orelse = self.value(expr.then, dtype), self.value(expr.else_, dtype)
        return lambda: then() if condition() else orelse()

    def _truth(self, expr: Expression) -> Closure:
        kind = type(expr)
        if kind is p.Comparison:
            common = computed(adapted(self._common((expr.left, expr.right)), None))
            compare = _COMPARE[str(getattr(expr.operator, "value", expr.operator))]
            sides = (expr.left, expr.right)
            exact = [type(side) is int or is_index_value(side, self._is_index_name) for side in sides]
            may_be_exact = all(exact) or (any(exact) and is_integer(common) and is_signed(common))
            left, right = [
                self.index(side) if is_exact and may_be_exact else self.value(side, common)
                for side, is_exact in zip(sides, exact, strict=True)
            ]
            return lambda: np.bool_(compare(left(), right()))
        parts = [self.value(child) for child in children(expr)]
        if kind is p.LogicalAnd:
            return lambda: np.bool_(all(part() for part in parts))
        if kind is p.LogicalOr:
            return lambda: np.bool_(any(part() for part in parts))
        return lambda: np.bool_(not parts[0]())

    def _call(self, expr: p.Call, have: DType) -> Closure:
        assert isinstance(expr.function, p.Variable), f"call of '{expr.function}'"
        if isinstance(expr.function, ForeignName):
            return self._foreign_call(expr.function, expr.parameters)
        function = FUNCTIONS[expr.function.name]
        arguments = expr.parameters[:-1] if function.integer_last else expr.parameters
        common = computed(adapted(argument_type(function, self._common(arguments)), have))
        parts = [self.value(argument, common) for argument in arguments]
        if function.integer_last:
            parts.append(self.value(expr.parameters[-1], _INT))
        if function.name in ("min", "max"):
            combine = _lifted(_COMBINE[function.name], common)
            return lambda: reduce(combine, [part() for part in parts])
        if function.result is ResultType.RECORD:
            results, dtype = NUMERIC[function.name], have
            return lambda: built(dtype, results(*[part() for part in parts]))
        apply = _lifted(NUMERIC[function.name], common)
        return lambda: apply(*[part() for part in parts])

    def _foreign_call(self, called: ForeignName, arguments: Sequence[Expression]) -> Closure:
        function = choose(called, [self.type_of(argument) for argument in arguments])
        assert function is not None, f"'{called.name}' is called with arguments of unknown types"
        parts = [self.value(argument, dtype) for argument, dtype in zip(arguments, function.arguments, strict=True)]
        apply, dtype = function.reference, function.result
        if apply is None:
            message = f"the interpreter cannot call the foreign function '{function.name}', which has no reference"
            hint = "give it one: pl.ForeignFunction(..., reference=lambda x: ...)"
            raise self.error("unsupported-function", message, (f"{function}",), hint)

        def refused(finding: Diagnostic) -> ArgumentError:
            return ArgumentError("interpret", self.kernel, [finding])

        def call() -> Any:  # noqa: ANN401
            found = asked(refused, "reference", apply, *[part() for part in parts])
            if not can_return(found, dtype):
                what = f"the reference of '{function.name}' returned {found!r}"
                raise self.error("wrong-type", what, (f"{function}",), f"let it return {dtype_name(dtype)}")
            return converted(found, dtype)

        return call

    def _operation(self, expr: Expression, dtype: DType) -> Closure:
        kind = type(expr)
        if kind in CHAINS:
            expr = paired(expr, [self.type_of(part) for part in operands(expr)])
        if kind is p.Sum:
            return self._sum(expr, dtype)
        parts = [self.value(child, dtype) for child in children(expr)]
        if kind is p.Product:
            return _chain(_lifted(operator.mul, dtype), parts)
        if kind is p.Min or kind is p.Max:
            return _chain(_lifted(_smaller if kind is p.Min else _larger, dtype), parts)
        if kind is p.BitwiseNot:
            return lambda: ~parts[0]()
        if kind in _BITWISE:
            return _chain(_BITWISE[kind], parts)
        left, right = parts
        if kind is p.Quotient:
            return _chain(_lifted(operator.truediv, dtype), parts)
        if kind is p.Power:
            return self._power(expr, dtype, left, right)
        assert kind is p.FloorDiv or kind is p.Remainder, f"unexpected node {kind.__name__}"
        apply = self.divider(kind is p.FloorDiv, expr)
        return lambda: apply(left(), right())

    def _sum(self, expr: p.Sum, dtype: DType) -> Closure:
        total = self.value(expr.children[0], dtype)
        rest: list[tuple[Callable[[Any, Any], Any], Closure]] = []
        for child in expr.children[1:]:
            taken = subtrahend(child)
            apply = operator.add if taken is None else operator.sub
            rest.append((_lifted(apply, dtype), self.value(child if taken is None else taken, dtype)))

        def add() -> Any:  # noqa: ANN401
            value = total()
            for apply, part in rest:
                value = apply(value, part())
            return value

        return add

    def _power(self, expr: Expression, dtype: DType, left: Closure, right: Closure) -> Closure:
        if is_inexact(dtype):
            return lambda: left() ** right()

        def power() -> Any:  # noqa: ANN401
            exponent = right()
            if exponent < 0:
                note = (f"{show(expr)}, and the exponent is {exponent}",)
                hint = "cast the base to a floating-point type"
                raise self.error("negative-power", "an integer is raised to a negative power", note, hint)
            return left() ** exponent

        return power

    def divider(self, is_quotient: bool, expr: Expression) -> Callable[[Any, Any], Any]:
        """Return division, or remainder, rounding downward; an integer divided by zero is an error."""
        apply = operator.floordiv if is_quotient else operator.mod

        def divide(left: Any, right: Any) -> Any:  # noqa: ANN401
            if not right and not isinstance(right, float | np.floating):
                hint = "guard it with if(..., ..., ...), or a predicate"
                raise self.error("division-by-zero", "an integer is divided by zero", (show(expr),), hint)
            return apply(left, right)

        return divide

    # }}}

    _SPECIAL: ClassVar[Mapping[type, Callable[[Compiler, Any, DType], Closure]]] = {
        Reduction: _reduction,
        Lookup: _lookup,
        Record: _record,
        p.If: _choice,
        p.Call: _call,
        TypeCast: _cast,
    }


def _chain(combine: Callable[[Any, Any], Any], parts: Sequence[Closure]) -> Closure:
    if len(parts) == 2:
        left, right = parts
        return lambda: combine(left(), right())
    first, *rest = parts

    def total() -> Any:  # noqa: ANN401
        value = first()
        for part in rest:
            value = combine(value, part())
        return value

    return total
