"""Types of expressions: NumPy's promotion, in which Python constants adapt to what they meet.

``0.1*x`` has the type of ``x`` where that is a floating-point type, ``i + 1`` the type of ``i``.  Integer constants
beyond 32 bits are 64-bit values.  Arithmetic on two bools counts: it is int32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.dtypes import DType, dtype_name, find_dtype
from polyloop.expr.functions import FUNCTIONS, Function, ResultType
from polyloop.expr.nodes import Expression, Lookup, Record, Reduction, TypeCast
from polyloop.expr.printer import show
from polyloop.expr.records import component, field_dtype, field_names, is_record, is_vector, record
from polyloop.expr.rewrite import children

__all__ = [
    "DEFAULT_FLOAT",
    "DEFAULT_INT",
    "ScalarType",
    "TypeConflictError",
    "TypeOf",
    "Weak",
    "check_assignment",
    "infer",
    "infer_type",
    "promote",
    "results_dtype",
    "settle",
]

DEFAULT_INT: Final[DType] = np.dtype("int32")
DEFAULT_FLOAT: Final[DType] = np.dtype("float64")
_BOOL: Final[DType] = np.dtype("bool")


class Weak(Enum):
    """The type of a constant that has not met a typed value yet."""

    INT = "integer constant"
    FLOAT = "floating-point constant"


ScalarType: TypeAlias = DType | Weak
"""The type of a value, as far as it is settled."""

TypeOf: TypeAlias = Callable[[str], DType | None]
"""Gives the type of a name, or None while it is unknown."""


class TypeConflictError(Exception):
    """An expression has no type; ``diagnostic`` says why, without its place."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic.message)


def promote(left: ScalarType, right: ScalarType) -> ScalarType:
    """Return the common type of two values.

    Raises
    ------
    TypeConflictError
        ``type-conflict``: a record and another type, a vector and a scalar that is not of its components' type.
    """
    if left is right:
        return left
    if is_record(left) or is_record(right):
        return _promote_records(left, right)
    if isinstance(left, Weak):
        if isinstance(right, Weak):
            return Weak.FLOAT
        return _adapt(left, right)
    if isinstance(right, Weak):
        return _adapt(right, left)
    return left if left == right else np.promote_types(left, right)


def _promote_records(left: ScalarType, right: ScalarType) -> ScalarType:
    if left == right:
        return left
    vector, other = (left, right) if is_vector(left) else (right, left)
    if isinstance(vector, np.dtype) and is_vector(vector) and not is_record(other):
        base = component(vector)
        if promote(base, other) == base:
            return vector
    hint = "convert it field by field"
    if is_vector(vector) and not is_record(other):
        hint = f"cast it first: cast({dtype_name(component(settle(vector)))}, ...)"
    message = f"{_name(left)} and {_name(right)} do not go together"
    raise TypeConflictError(Diagnostic("type-conflict", message, hints=(hint,)))


@cache
def results_dtype(function: str, fields: tuple[str, ...], dtype: DType) -> DType:
    """Return the record type of the results of a *function* with several, each of type *dtype*."""
    return record(f"{function}_result", [(name, dtype) for name in fields])


def _adapt(weak: Weak, dtype: DType) -> DType:
    if dtype.kind == "f" or (dtype.kind in "iu" and weak is Weak.INT):
        return dtype
    return DEFAULT_INT if weak is Weak.INT else DEFAULT_FLOAT


def settle(kind: ScalarType) -> DType:
    """Return the type itself, or int32 / float64 for a constant that met no typed value."""
    if isinstance(kind, Weak):
        return DEFAULT_INT if kind is Weak.INT else DEFAULT_FLOAT
    return kind


def infer(expr: Expression, lookup: TypeOf, functions: Mapping[str, Function] = FUNCTIONS) -> DType | None:
    """Return the type of the value of *expr*; an expression of constants only is int32 or float64.

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
        ``unknown-function``, ``wrong-argument-count``, ``type-conflict`` (a bit operation on, or a subscript of,
        floating-point values).
    """
    found = infer_type(expr, lookup, functions)
    return None if found is None else settle(found)


def check_assignment(expr: Expression, target: DType, lookup: TypeOf) -> None:
    """Raise ``type-conflict`` where *expr* cannot be stored as *target*: a record as a scalar, or as another record."""
    inference = _Inference(lookup, FUNCTIONS)
    inference.check_stored(inference.visit(expr), target, show(expr))


def infer_type(expr: Expression, lookup: TypeOf, functions: Mapping[str, Function] = FUNCTIONS) -> ScalarType | None:
    """Return the type of *expr* as :func:`infer` does, but leave constants weak."""
    return _Inference(lookup, functions).visit(expr)


_ARITHMETIC: Final = frozenset({p.Sum, p.Product, p.FloorDiv, p.Remainder, p.Power})
_ELEMENTWISE: Final = frozenset({p.Sum, p.Product, p.Quotient, p.Min, p.Max})
_BITWISE: Final = frozenset({p.BitwiseAnd, p.BitwiseOr, p.BitwiseXor, p.BitwiseNot, p.LeftShift, p.RightShift})
_TRUTH: Final = frozenset({p.Comparison, p.LogicalAnd, p.LogicalOr, p.LogicalNot})


class _Inference:
    """One inference: what names and functions mean."""

    def __init__(self, lookup: TypeOf, functions: Mapping[str, Function]) -> None:
        self.lookup = lookup
        self.functions = functions

    def visit(self, expr: Expression) -> ScalarType | None:
        kind = type(expr)
        if kind is p.Variable:
            return self.lookup(expr.name)
        if kind is p.Subscript:
            return self.subscript(expr)
        special = self._SPECIAL.get(kind)
        if special is not None:
            return special(self, expr)
        if not isinstance(expr, p.ExpressionNode):
            return _constant(expr)
        return self.operation(expr, [self.visit(child) for child in children(expr)])

    def choice(self, expr: p.If) -> ScalarType | None:
        self.check_truth(expr.condition)
        return _common([self.visit(expr.then), self.visit(expr.else_)])

    def check_truth(self, condition: Expression) -> None:
        """Refuse a record as a condition."""
        if is_record(self.visit(condition)):
            message = f"the condition '{show(condition)}' is a record"
            raise TypeConflictError(Diagnostic("type-conflict", message, hints=("name a field",)))

    def cast(self, expr: TypeCast) -> DType:
        found = find_dtype(expr.dtype)
        assert found is not None, f"cast to unknown type '{expr.dtype}'"
        if is_record(self.visit(expr.child)) or is_record(found):
            message = f"{show(expr)} converts a record"
            raise TypeConflictError(Diagnostic("type-conflict", message, hints=("cast its fields",)))
        return found

    def operation(self, expr: Expression, types: list[ScalarType | None]) -> ScalarType | None:
        kind = type(expr)
        self.check_records(expr, types)
        if kind in _TRUTH:
            return _BOOL
        common = _common(types)
        if kind in _ARITHMETIC:
            return DEFAULT_INT if common == _BOOL else common
        if kind is p.Quotient:
            return None if common is None else _floating(common)
        if kind in _BITWISE:
            self.check_integers(expr, types)
            return common
        if kind is Reduction:
            if expr.operation in ("any", "all"):
                return _BOOL
            return DEFAULT_INT if common == _BOOL and expr.operation in ("sum", "product") else common
        assert kind is p.Min or kind is p.Max, f"unexpected node {kind.__name__}"
        return common

    def subscript(self, expr: Expression) -> ScalarType | None:
        for index in expr.index_tuple:
            found = self.visit(index)
            if found is Weak.FLOAT or (isinstance(found, np.dtype) and found.kind not in "iu"):
                assert found is not None
                message = f"subscript '{show(index)}' of '{expr.aggregate.name}' is not an integer but {_name(found)}"
                hint = "divide with // to get an integer" if "/" in show(index) else "write cast(int32, ...)"
                raise TypeConflictError(Diagnostic("type-conflict", message, hints=(hint,)))
        return self.lookup(expr.aggregate.name)

    def call(self, expr: Expression) -> ScalarType | None:
        name = expr.function.name
        function = self.functions.get(name)
        if function is None:
            raise TypeConflictError(unknown_name("function", name, self.functions))
        count = len(expr.parameters)
        if not function.accepts(count):
            most = "" if function.max_arity == function.arity else " or more"
            message = f"'{name}' takes {function.arity}{most} argument{'s' if function.arity > 1 else ''}, not {count}"
            raise TypeConflictError(Diagnostic("wrong-argument-count", message, hints=(f"check {show(expr)}",)))
        common = _common([self.visit(parameter) for parameter in expr.parameters])
        if is_record(common) and not _takes_vectors(function, common):
            message = f"'{name}' does not take {_name(common)}"
            raise TypeConflictError(Diagnostic("type-conflict", message, hints=("call it with the fields",)))
        if function.result is ResultType.BOOL:
            return _BOOL
        if common is None:
            return None
        if function.result is ResultType.RECORD:
            return results_dtype(name, function.fields, settle(_floating(common)))
        return common if function.result is ResultType.SAME else _floating(common)

    def field(self, expr: Lookup) -> ScalarType | None:
        found = self.visit(expr.aggregate)
        if found is None:
            return None
        if isinstance(found, Weak) or not is_record(found):
            message = f"'{show(expr.aggregate)}' has no fields: it is {_name(found)}"
            raise TypeConflictError(Diagnostic("type-conflict", message, hints=(f"leave out '.{expr.field}'",)))
        if expr.field not in field_names(found):
            raise TypeConflictError(unknown_name("field", expr.field, field_names(found)))
        return field_dtype(found, expr.field)

    def constructor(self, expr: Record) -> DType:
        dtype: DType = expr.dtype
        for value, name in zip(expr.values, field_names(dtype), strict=True):
            self.check_stored(self.visit(value), field_dtype(dtype, name), show(value))
        return dtype

    def check_records(self, expr: Expression, types: list[ScalarType | None]) -> None:
        """Refuse a record as operand, but for vectors where each component can be computed by itself."""
        kind = type(expr)
        elementwise = kind in _ELEMENTWISE or (kind is Reduction and expr.operation not in ("any", "all"))
        for child, found in zip(children(expr), types, strict=True):
            if found is None or not is_record(found):
                continue
            whole = kind is p.Quotient and component(settle(found)).kind != "f"
            if not elementwise or not is_vector(found) or whole:
                message = f"'{show(child)}' is a record ({_name(found)}), which '{show(expr)}' cannot compute with"
                raise TypeConflictError(Diagnostic("type-conflict", message, hints=("compute with its fields",)))

    def check_stored(self, found: ScalarType | None, wanted: DType, text: str) -> None:
        """Refuse a value that cannot become one of type *wanted*."""
        if found is None or (not is_record(found) and not is_record(wanted)) or found == wanted:
            return
        if not is_vector(wanted) or promote(wanted, found) != wanted:
            message = f"'{text}' is {_name(found)}, and is stored as {_name(wanted)}"
            raise TypeConflictError(Diagnostic("type-conflict", message, hints=("name a field, or build the record",)))

    _SPECIAL: ClassVar[Mapping[type, Callable[[_Inference, Any], ScalarType | None]]] = {
        p.If: choice,
        p.Call: call,
        TypeCast: cast,
        Lookup: field,
        Record: constructor,
    }

    def check_integers(self, expr: Expression, types: list[ScalarType | None]) -> None:
        for child, found in zip(children(expr), types, strict=True):
            if found is Weak.FLOAT or (isinstance(found, np.dtype) and found.kind == "f"):
                assert found is not None
                message = f"bit operation on '{show(child)}', which is {_name(found)}"
                hint = "cast it first, such as cast(int32, ...)"
                raise TypeConflictError(Diagnostic("type-conflict", message, hints=(hint,)))


def _takes_vectors(function: Function, dtype: DType) -> bool:
    """Return whether *function* can be applied to each component of *dtype*."""
    if not is_vector(dtype) or function.result in (ResultType.BOOL, ResultType.RECORD):
        return False
    return function.result is ResultType.SAME or component(dtype).kind == "f"


def _name(kind: ScalarType) -> str:
    return f"a {kind.value}" if isinstance(kind, Weak) else dtype_name(kind)


def _common(types: Iterable[ScalarType | None]) -> ScalarType | None:
    total: ScalarType | None = None
    for kind in types:
        if kind is None:
            return None
        total = kind if total is None else promote(total, kind)
    return total


def _floating(kind: ScalarType) -> ScalarType:
    if isinstance(kind, Weak):
        return Weak.FLOAT
    return kind if component(kind).kind == "f" else DEFAULT_FLOAT


def _constant(value: Expression) -> ScalarType:
    if isinstance(value, np.generic):
        return value.dtype
    if isinstance(value, bool):
        return _BOOL
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return Weak.INT
        return np.dtype("int64") if -(2**63) <= value < 2**63 else np.dtype("uint64")
    assert isinstance(value, float), f"unexpected constant {value!r}"
    return Weak.FLOAT
