"""Type inference of expression trees by the rules of :mod:`polyloop.expr.promotion`, and errors for ill-typed ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.chains import CHAINS, operands, paired
from polyloop.expr.constants import ConstantError, constant_of, folded, number_of
from polyloop.expr.dtypes import (
    DType,
    computed,
    dtype_name,
    find_dtype,
    integer_limits,
    is_bool,
    is_complex,
    is_floating,
    is_inexact,
    is_integer,
)
from polyloop.expr.fitting import check_constants, fits
from polyloop.expr.foreign import ForeignName, choose
from polyloop.expr.functions import FUNCTIONS, Domain, Function, ResultType
from polyloop.expr.indexing import is_index_value
from polyloop.expr.nodes import Expression, Extreme, Lookup, Operation, Record, Reduction, Terms, TypeCast
from polyloop.expr.printer import show
from polyloop.expr.promotion import (
    DEFAULT_FLOAT,
    DEFAULT_INT,
    WEAK_INTEGERS,
    ScalarType,
    TypeConflictError,
    Weak,
    adapted,
    argument_type,
    common_type,
    constant_type,
    kind_name,
    promote,
    quotient_type,
    result_type,
    settle,
)
from polyloop.expr.records import component, field_dtype, field_names, is_record, is_vector, record
from polyloop.expr.rewrite import children, variables
from polyloop.memo import memoised

__all__ = [
    "BITWISE",
    "DEFAULT_FLOAT",
    "DEFAULT_INT",
    "WEAK_INTEGERS",
    "ScalarType",
    "TypeConflictError",
    "TypeOf",
    "Weak",
    "adapted",
    "argument_type",
    "check_stored",
    "common_type",
    "constant_type",
    "infer",
    "infer_type",
    "met_types",
    "promote",
    "remembering",
    "settle",
    "state_dtype",
]

TypeOf: TypeAlias = Callable[[str], DType | None]
"""Gives the type of a name, or None while it is unknown."""

KindOf: TypeAlias = Callable[[str], ScalarType | None]
"""Gives the type of a name as :data:`TypeOf` does; weak while nothing but constants is assigned to it."""

_BOOL: Final[DType] = np.dtype("bool")
_LONG: Final[DType] = np.dtype("int64")


def infer(expr: Expression, lookup: KindOf, functions: Mapping[str, Function] = FUNCTIONS) -> DType | None:
    """Return the type of *expr*; weak types settle to int32, int64, float64 or complex128.

    Parameters
    ----------
    lookup
        The type of a variable, or of the elements of an array; None where it is unknown.
    functions
        The functions that may be called.

    Returns
    -------
    np.dtype or None
        None if the type depends on one that *lookup* does not know.

    Raises
    ------
    TypeConflictError
        ``unknown-function``, ``wrong-argument-count``, ``type-conflict`` (an operation on values that it is not
        defined for), ``bad-constant`` (one that does not fit the type that it takes, a shift by a negative number).
    """
    found = infer_type(expr, lookup, functions)
    return None if found is None else settle(found)


def check_stored(found: ScalarType | None, wanted: DType, expr: Expression, lookup: KindOf) -> None:
    """Raise ``type-conflict`` where *expr*, of type *found*, cannot become a value of type *wanted*.

    A record can only become one of the same type, and what goes together with its components a vector.  Constants have
    to fit an integer type (``bad-constant``).
    """
    if isinstance(found, Weak):
        if found in WEAK_INTEGERS and is_integer(wanted):
            check_constants(None, (expr,), (found,), wanted, _Inference(lookup, FUNCTIONS).visit)
        return
    if found is None or (not is_record(found) and not is_record(wanted)) or found == wanted:
        return
    if not is_vector(wanted) or promote(wanted, found) != wanted:
        message = f"'{show(expr)}' is {kind_name(found)}, and is stored as {kind_name(wanted)}"
        raise TypeConflictError(Diagnostic("type-conflict", message, hints=("name a field, or build the record",)))


def infer_type(expr: Expression, lookup: KindOf, functions: Mapping[str, Function] = FUNCTIONS) -> ScalarType | None:
    """Return the type of *expr* as :func:`infer` does, but leave weak values weak."""
    return _Inference(lookup, functions).visit(expr)


def remembering(lookup: KindOf) -> Callable[[Expression], ScalarType | None]:
    """Return :func:`infer_type` for one *lookup* with constant answers, memoised by node.

    Nodes are told apart by identity, and kept.
    """
    return _Remembering(lookup, FUNCTIONS).visit


def met_types(expr: Expression, name: str, lookup: KindOf) -> tuple[list[DType], ScalarType | None]:
    """Return the operation types that the weakly typed variable *name* meets in *expr*, and the type of *expr*.

    Raises
    ------
    TypeConflictError
        As :func:`infer`.
    """
    meeting = _Meeting(name, lookup)
    kind = meeting.visit(expr)
    return meeting.met, kind


_ARITHMETIC: Final = frozenset({p.Sum, p.Product, p.Power})
_ELEMENTWISE: Final = frozenset({p.Sum, p.Product, p.Quotient, p.Min, p.Max})
_DIVISION: Final = frozenset({p.FloorDiv, p.Remainder})
_SHIFTS: Final = frozenset({p.LeftShift, p.RightShift})
BITWISE: Final = frozenset({p.BitwiseAnd, p.BitwiseOr, p.BitwiseXor, p.BitwiseNot}) | _SHIFTS
"""Operations on the bits of integers, which are computed as integers whatever takes the result."""
_LOGIC: Final = frozenset({p.LogicalAnd, p.LogicalOr, p.LogicalNot})
_INT_MAX: Final = 2**31 - 1
_CAST_HINT: Final = "cast it first, such as cast(int32, ...)"


@lru_cache(maxsize=1024)
def _sum_of_floats(types: tuple[ScalarType | None, ...]) -> ScalarType | None:
    """Return the type of a sum or product of values of *types*, None where that takes a closer look.

    It does but for floating-point types: integers have to hold the constants, and records are refused.
    """
    for kind in types:
        if kind is None or kind is Weak.COMPLEX:
            return None
        if not isinstance(kind, Weak) and not is_floating(kind) and not is_integer(kind):
            return None
    try:
        found = common_type([kind for kind in types if kind is not None])
    except TypeConflictError:
        return None
    return None if isinstance(found, Weak) or not is_floating(found) else found


class _Inference:
    """One type inference, with the types of variables and the table of functions."""

    def __init__(self, lookup: KindOf, functions: Mapping[str, Function]) -> None:
        self.lookup = lookup
        self.functions = functions

    def visit(self, expr: Expression) -> ScalarType | None:
        kind = type(expr)
        if kind is p.Variable:
            return self.lookup(expr.name)
        if kind is p.Subscript:
            return self.subscript(expr)
        if kind is int:
            return constant_type(expr)
        special = self._SPECIAL.get(kind)
        if special is not None:
            return special(self, expr)
        if not isinstance(expr, p.ExpressionNode):
            return constant_type(expr)
        value = _constant(expr)
        if value is not None:
            return constant_type(value)
        parts = operands(expr) if isinstance(expr, p.Sum) else children(expr)
        types = [self.visit(child) for child in parts]
        if kind in CHAINS and (inner := paired(expr, types)) is not expr:
            return self.visit(inner)
        if kind is p.Sum and any(type(part) is int and part <= _NO_INT for part in parts):
            types = list(map(_as_subtracted, parts, types))
        if (kind is p.Sum or kind is p.Product) and (found := self.quick_sum(types)) is not None:
            return found
        return self.operation(expr, parts, types)

    def quick_sum(self, types: Sequence[ScalarType | None]) -> ScalarType | None:
        """Return the type of a sum or product where its operands need no closer look."""
        return _sum_of_floats(tuple(types))

    def choice(self, expr: p.If) -> ScalarType | None:
        self.condition(expr.condition, self.visit(expr.condition))
        parts = (expr.then, expr.else_)
        return self.common(expr, parts, [self.visit(part) for part in parts])

    def operation(
        self, expr: Expression, parts: Sequence[Expression], types: list[ScalarType | None]
    ) -> ScalarType | None:
        kind = type(expr)
        self.check_records(expr, types)
        if kind in _LOGIC:
            for part, found in zip(parts, types, strict=True):
                self.condition(part, found)
            return _BOOL
        if kind in BITWISE:
            self.check_integers(parts, types)
            common = self.common(expr, parts, types)
            if kind in _SHIFTS:
                self.shift(expr, common)
            return DEFAULT_INT if kind in _SHIFTS and common == _BOOL else common
        common = self.common(expr, parts, types)
        if kind is Reduction:
            return self.scalar_reduction(expr, common)
        if kind is p.Quotient:
            return None if common is None else quotient_type(common)
        return self.arithmetic(expr, common)

    def arithmetic(self, expr: Expression, common: ScalarType | None) -> ScalarType | None:
        """Return the result type of an operation on operands of the type *common*."""
        kind = type(expr)
        if kind is p.Comparison:
            if str(getattr(expr.operator, "value", expr.operator)) not in ("==", "!="):
                self.refuse_complex(expr, common, "complex numbers have no order", "compare abs(z), real(z) or imag(z)")
            return _BOOL
        if kind in _DIVISION:
            hint = "divide with /, or take real(z) and imag(z)"
            self.refuse_complex(expr, common, "complex numbers have no quotient that is rounded downward", hint)
            if _is_integral(common) and number_of(expr.denominator) == 0:
                message = f"an integer is divided by zero: {show(expr)}"
                raise TypeConflictError(Diagnostic("bad-constant", message, hints=("divide by another number",)))
            return DEFAULT_INT if common == _BOOL else common
        if kind in _ARITHMETIC:
            if kind is p.Power:
                self.power(expr, common)
            return DEFAULT_INT if common == _BOOL else common
        assert kind is p.Min or kind is p.Max, f"unexpected node {kind.__name__}"
        self.refuse_complex(expr, common, "complex numbers have no order", "compare abs(z), real(z) or imag(z)")
        return common

    def common(
        self, expr: Expression, parts: Sequence[Expression], types: Sequence[ScalarType | None]
    ) -> ScalarType | None:
        """Return the common type, after a look at the constants that are to take it."""
        known = [kind for kind in types if kind is not None]
        if len(known) < len(types) or not known:
            return None
        try:
            found = common_type(known)
        except TypeConflictError as conflict:
            message = f"{conflict.diagnostic.message}: {show(expr)}"
            raise TypeConflictError(Diagnostic("type-conflict", message, hints=conflict.diagnostic.hints)) from None
        if not isinstance(found, Weak) and is_integer(found):
            check_constants(expr, parts, types, found, self.visit)
        return found

    def refuse_complex(self, expr: Expression, found: ScalarType | None, message: str, hint: str) -> None:
        if found is Weak.COMPLEX or (isinstance(found, np.dtype) and is_complex(found)):
            raise TypeConflictError(Diagnostic("type-conflict", f"{message}: {show(expr)}", hints=(hint,)))

    def condition(self, expr: Expression, found: ScalarType | None) -> None:
        """Refuse a record or a complex number as a condition."""
        if is_record(found):
            message = f"the condition '{show(expr)}' is a record"
            raise TypeConflictError(Diagnostic("type-conflict", message, hints=("name a field",)))
        self.refuse_complex(expr, found, "a complex number is no condition", "compare it: z != 0")

    def cast(self, expr: TypeCast) -> DType:
        child = self.visit(expr.child)
        found = find_dtype(expr.dtype)
        assert found is not None, f"cast to unknown type '{expr.dtype}'"
        if is_record(child) or is_record(found):
            message = f"{show(expr)} converts a record"
            raise TypeConflictError(Diagnostic("type-conflict", message, hints=("cast its fields",)))
        if not is_complex(found):
            message = f"a complex number cannot be cast to {dtype_name(found)}"
            self.refuse_complex(expr, child, message, "take real(z), imag(z) or abs(z) first")
        if child is Weak.HUGE and is_integer(found):
            message = f"{show(expr)} converts an integer of more than 64 bits"
            raise TypeConflictError(Diagnostic("bad-constant", message, hints=("cast a number that fits",)))
        return found

    def power(self, expr: p.Power, common: ScalarType | None) -> None:
        """Refuse integers to a negative power, which NumPy refuses too."""
        exponent = number_of(expr.exponent)
        if _is_integral(common) and exponent is not None and exponent < 0:
            message = f"an integer to a negative power is no integer: {show(expr)}"
            hint = f"write 1/{show(expr.base)}**{-exponent}, or cast the base to a floating-point type"
            raise TypeConflictError(Diagnostic("type-conflict", message, hints=(hint,)))

    def shift(self, expr: p.LeftShift | p.RightShift, common: ScalarType | None) -> None:
        """Refuse constant shift counts for which C has no answer."""
        count = number_of(expr.shift)
        if common is None or count is None:
            return
        dtype = settle(common)
        width = 8 * (DEFAULT_INT if is_bool(dtype) else dtype).itemsize
        if not 0 <= count < width:
            message = f"a shift of {dtype_name(dtype)} by {count} bits: {show(expr)}"
            hint = f"shift by 0 to {width - 1} bits"
            raise TypeConflictError(Diagnostic("bad-constant", message, hints=(hint,)))

    def reduction(self, expr: Reduction) -> ScalarType | None:
        if expr.operation.of_states:
            state = self.visit(expr.expr)
            return None if state is None else settle(state)
        if not expr.operation.combine:
            parts = children(expr)
            return self.operation(expr, parts, [self.visit(part) for part in parts])
        terms = children(expr.expr) if type(expr.expr) is Terms else (expr.expr,)
        types = [self.visit(term) for term in terms]
        known = tuple(settle(kind) for kind in types if kind is not None)
        return state_dtype(expr.operation, known) if len(known) == len(types) else None

    def scalar_reduction(self, expr: Reduction, common: ScalarType | None) -> ScalarType | None:
        name = expr.operation.name
        if name not in ("sum", "product"):
            hint = "reduce abs(z), real(z) or imag(z)"
            self.refuse_complex(expr, common, f"complex numbers have no '{name}'", hint)
        if name in ("any", "all"):
            return _BOOL
        if common == _BOOL and name in ("sum", "product"):
            return DEFAULT_INT
        if name in ("sum", "product") and common == DEFAULT_INT and is_index_value(expr.expr, lambda _: True):
            return _LONG  # a sum of numbers that are exact
        return None if common is None else settle(common)

    def subscript(self, expr: Expression) -> ScalarType | None:
        for index in expr.index_tuple:
            if self._is_plain(index):
                continue
            found = self.visit(index)
            if found is Weak.INT or found is DEFAULT_INT:
                continue
            if found in (Weak.FLOAT, Weak.COMPLEX) or (isinstance(found, np.dtype) and not is_integer(found)):
                assert found is not None
                what = f"subscript '{show(index)}' of '{expr.aggregate.name}'"
                message = f"{what} is not an integer but {kind_name(found)}"
                hint = "divide with // to get an integer" if "/" in show(index) else "write cast(int32, ...)"
                raise TypeConflictError(Diagnostic("type-conflict", message, hints=(hint,)))
        return self.lookup(expr.aggregate.name)

    def _is_plain(self, index: Expression) -> bool:
        """Return whether *index* is sums and products of 32-bit integers, and of constants that these hold."""
        kind = type(index)
        if kind is p.Variable:
            return self.lookup(index.name) is DEFAULT_INT
        if kind is int:
            return bool(-_INT_MAX <= index <= _INT_MAX)
        if kind is p.Sum or kind is p.Product:
            return all(map(self._is_plain, index.children))
        return False

    def foreign(self, expr: Expression) -> ScalarType | None:
        types = [self.visit(part) for part in expr.parameters]
        chosen = choose(expr.function, types)
        if chosen is None:
            return None
        for part, dtype in zip(expr.parameters, chosen.arguments, strict=True):
            value = constant_of(part)
            if value is not None and not fits(value, dtype):
                message = f"the constant {value} does not fit {dtype_name(dtype)}, which {chosen} takes"
                raise TypeConflictError(Diagnostic("bad-constant", message, hints=("pass a number that fits",)))
        return chosen.result

    def call(self, expr: Expression) -> ScalarType | None:
        if type(expr.function) is ForeignName:
            return self.foreign(expr)
        name = expr.function.name
        function = self.functions.get(name)
        if function is None:
            unknown = unknown_name("function", name, self.functions)
            if find_dtype(name) is not None:
                unknown = replace(unknown, hints=(f"convert with cast({name}, ...)",))
            raise TypeConflictError(unknown)
        count = len(expr.parameters)
        if not function.accepts(count):
            most = "" if function.max_arity == function.arity else " or more"
            message = f"'{name}' takes {function.arity}{most} argument{'s' if function.arity > 1 else ''}, not {count}"
            raise TypeConflictError(Diagnostic("wrong-argument-count", message, hints=(f"check {show(expr)}",)))
        parts = expr.parameters
        types = [self.visit(part) for part in parts]
        if function.integer_last:
            self.check_integers(parts[-1:], types[-1:], f"the last argument of '{name}' is")
            parts, types = parts[:-1], types[:-1]
        if function.domain is Domain.INTEGER:
            self.check_integers(parts, types, f"'{name}' of")
        common = self.common(expr, parts, types)
        if is_record(common) and not _takes_vectors(function, common):
            message = f"'{name}' does not take {kind_name(common)}"
            raise TypeConflictError(Diagnostic("type-conflict", message, hints=("call it with the fields",)))
        if function.domain is Domain.REAL:
            self.refuse_complex(expr, common, f"'{name}' is not defined for complex numbers", "take real(z) or abs(z)")
        return result_type(function, common)

    def field(self, expr: Lookup) -> ScalarType | None:
        found = self.visit(expr.aggregate)
        if found is None:
            return None
        if isinstance(found, Weak) or not is_record(found):
            message = f"'{show(expr.aggregate)}' has no fields: it is {kind_name(found)}"
            raise TypeConflictError(Diagnostic("type-conflict", message, hints=(f"leave out '.{expr.field}'",)))
        if expr.field not in field_names(found):
            raise TypeConflictError(unknown_name("field", expr.field, field_names(found)))
        return field_dtype(found, expr.field)

    def constructor(self, expr: Record) -> DType:
        dtype: DType = expr.dtype
        for value, name in zip(expr.values, field_names(dtype), strict=True):
            check_stored(self.visit(value), field_dtype(dtype, name), value, self.lookup)
        return dtype

    def check_records(self, expr: Expression, types: list[ScalarType | None]) -> None:
        """Refuse a record as operand, but for vectors where each component can be computed by itself."""
        if not any(map(is_record, types)):
            return
        kind = type(expr)
        elementwise = kind in _ELEMENTWISE or (kind is Reduction and expr.operation.name not in ("any", "all"))
        for child, found in zip(children(expr), types, strict=True):
            if found is None or not is_record(found):
                continue
            whole = kind is p.Quotient and not is_floating(component(settle(found)))
            if not elementwise or not is_vector(found) or whole:
                message = f"'{show(child)}' is a record ({kind_name(found)}), which '{show(expr)}' cannot compute with"
                raise TypeConflictError(Diagnostic("type-conflict", message, hints=("compute with its fields",)))

    _SPECIAL: ClassVar[Mapping[type, Callable[[_Inference, Any], ScalarType | None]]] = {
        p.If: choice,
        p.Call: call,
        TypeCast: cast,
        Lookup: field,
        Record: constructor,
        Reduction: reduction,
    }

    def check_integers(
        self, parts: Sequence[Expression], types: Sequence[ScalarType | None], what: str = "bit operation on"
    ) -> None:
        for child, found in zip(parts, types, strict=True):
            if found in (Weak.FLOAT, Weak.COMPLEX) or (isinstance(found, np.dtype) and is_inexact(found)):
                assert found is not None
                message = f"{what} '{show(child)}', which is {kind_name(found)}"
                raise TypeConflictError(Diagnostic("type-conflict", message, hints=(_CAST_HINT,)))


class _Meeting(_Inference):
    """An inference that notes with which types a variable is combined."""

    def __init__(self, name: str, lookup: KindOf) -> None:
        super().__init__(lookup, FUNCTIONS)
        self.name = name
        self.met: list[DType] = []

    def quick_sum(self, types: Sequence[ScalarType | None]) -> None:
        del types

    def common(
        self, expr: Expression, parts: Sequence[Expression], types: Sequence[ScalarType | None]
    ) -> ScalarType | None:
        found = super().common(expr, parts, types)
        if found is not None and not isinstance(found, Weak):
            pairs = zip(parts, types, strict=True)
            if any(isinstance(kind, Weak) and self.name in variables(part) for part, kind in pairs):
                self.met.append(found)
        return found


class _Remembering(_Inference):
    """An inference that remembers the types of nodes."""

    def visit(self, expr: Expression) -> ScalarType | None:
        return self.lookup(expr.name) if type(expr) is p.Variable else self._visit(expr)

    @memoised
    def _visit(self, expr: Expression) -> ScalarType | None:
        return super().visit(expr)


def _constant(expr: Expression) -> int | None:
    """Return the integer that an expression of constants is; raise where it has none."""
    try:
        return folded(expr)
    except ConstantError as fault:
        raise TypeConflictError(fault.diagnostic) from None


_NO_INT: Final = -(2**31)
"""The largest number that cannot be subtracted as an int32."""


def _as_subtracted(expr: Expression, found: ScalarType | None) -> ScalarType | None:
    """Return the type of a term of a sum: ``u - 4294967295`` subtracts a number of 32 bits."""
    return Weak.WORD if type(expr) is int and -(2**32) < expr <= _NO_INT else found


def _is_integral(kind: ScalarType | None) -> bool:
    """Return whether *kind* is a type of integers, or bool, that is known."""
    return kind in WEAK_INTEGERS or (isinstance(kind, np.dtype) and not is_inexact(kind))


def _takes_vectors(function: Function, dtype: DType) -> bool:
    """Return whether *function* can be applied to each component of *dtype*."""
    by_component = function.result in (ResultType.SAME, ResultType.REAL, ResultType.FLOAT)
    if not is_vector(dtype) or not by_component or function.integer_last or function.domain is Domain.INTEGER:
        return False
    return function.result is ResultType.SAME or function.name == "abs" or is_floating(component(dtype))


_ROUNDS: Final = 4


@cache
def state_dtype(operation: Operation, terms: tuple[DType, ...]) -> DType:
    """Return the type in which *operation*, one with a ``combine``, collects terms of the types *terms*.

    It is what combining two states gives: int32 for the sum of bools. 16-bit floats are collected in float32.

    Raises
    ------
    TypeConflictError
        ``type-conflict``: the terms cannot be combined, or the neutral element is no value of their type.
    """
    found = tuple(computed(dtype) for dtype in terms)
    try:
        for _ in range(_ROUNDS):
            state = _state(operation, found)
            types = {"a": state, "b": state}
            combined = tuple(infer(expr, types.get) for expr in operation.combine)
            if combined in ((state,), found):
                _check_neutral(operation, found)
                return state
            if len(combined) < len(found):
                break
            found = tuple(computed(settle(dtype)) for dtype in combined if dtype is not None)
    except TypeConflictError as conflict:
        raise _no_state(operation, terms, conflict.diagnostic.message) from None
    shown = " and ".join(kind_name(dtype) for dtype in combined if dtype is not None)
    raise _no_state(operation, terms, f"two states combine to {shown}, which is no state")


def _state(operation: Operation, types: tuple[DType, ...]) -> DType:
    if not operation.fields:
        return types[0]
    return record(operation.record, list(zip(operation.fields, types, strict=True)))


def _check_neutral(operation: Operation, types: tuple[DType, ...]) -> None:
    for neutral, dtype in zip(operation.neutral, types, strict=True):
        base = component(dtype)
        fits = not is_record(base)
        if isinstance(neutral, Extreme):
            fits = fits and not is_complex(base)
        elif fits and is_integer(base):
            low, high = integer_limits(base)
            fits = low <= neutral <= high and float(neutral).is_integer()
        if not fits:
            shown = neutral.value if isinstance(neutral, Extreme) else neutral
            message = f"the neutral element {shown} is no {kind_name(dtype)}"
            raise TypeConflictError(Diagnostic("type-conflict", message))


def _no_state(operation: Operation, terms: tuple[DType, ...], why: str) -> TypeConflictError:
    types = " and ".join(map(kind_name, terms))
    message = f"'{operation}' cannot combine terms of {types}: {why}"
    return TypeConflictError(Diagnostic("type-conflict", message, hints=("cast the terms to a type that it takes",)))
