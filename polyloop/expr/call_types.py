"""Types of the results of functions, and refusals of arguments that these do not take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.dtypes import dtype_name, find_dtype
from polyloop.expr.fitting import misfit
from polyloop.expr.foreign import ForeignName, choose
from polyloop.expr.functions import FUNCTIONS, Domain, Function
from polyloop.expr.nodes import Expression
from polyloop.expr.operator_types import check_integers, refuse_complex
from polyloop.expr.printer import show
from polyloop.expr.promotion import ScalarType, TypeConflictError, kind_name, result_type, takes

__all__ = ["call_type"]

_TypeOf: TypeAlias = Callable[[Expression], ScalarType | None]
_Common: TypeAlias = Callable[[Expression, Sequence[Expression], Sequence[ScalarType | None]], ScalarType | None]


def call_type(expr: Expression, type_of: _TypeOf, common: _Common) -> ScalarType | None:
    """Return the type of a call, None while that is unknown.

    Parameters
    ----------
    type_of
        The type of an argument, None while that is unknown.
    common
        The common type of operands, with a look at the constants among them.

    Raises
    ------
    TypeConflictError
        ``unknown-function``, ``wrong-argument-count``, ``type-conflict``, ``bad-constant``.
    """
    if type(expr.function) is ForeignName:
        return _foreign_type(expr, [type_of(part) for part in expr.parameters])
    function = _function(expr)
    name, parts = function.name, expr.parameters
    types = [type_of(part) for part in parts]
    if function.integer_last:
        check_integers(parts[-1:], types[-1:], f"the last argument of '{name}' is")
        parts, types = parts[:-1], types[:-1]
    if function.domain is Domain.INTEGER:
        check_integers(parts, types, f"'{name}' of")
    found = common(expr, parts, types)
    if found is not None and not takes(function, found):
        message = f"'{name}' does not take {kind_name(found)}"
        raise TypeConflictError(Diagnostic("type-conflict", message, hints=("call it with the fields",)))
    if function.domain is Domain.REAL:
        refuse_complex(expr, found, f"'{name}' is not defined for complex numbers", "take real(z) or abs(z)")
    return result_type(function, found)


def _foreign_type(expr: Expression, types: Sequence[ScalarType | None]) -> ScalarType | None:
    chosen = choose(expr.function, types)
    if chosen is None:
        return None
    for part, dtype in zip(expr.parameters, chosen.arguments, strict=True):
        if (value := misfit(part, dtype)) is not None:
            message = f"the constant {value} does not fit {dtype_name(dtype)}, which {chosen} takes"
            raise TypeConflictError(Diagnostic("bad-constant", message, hints=("pass a number that fits",)))
    return chosen.result


def _function(expr: Expression) -> Function:
    """Return the function that is called, with the right number of arguments."""
    name = expr.function.name
    function = FUNCTIONS.get(name)
    if function is None:
        unknown = unknown_name("function", name, FUNCTIONS)
        if find_dtype(name) is not None:
            unknown = replace(unknown, hints=(f"convert with cast({name}, ...)",))
        raise TypeConflictError(unknown)
    count = len(expr.parameters)
    if not function.accepts(count):
        most = "" if function.max_arity == function.arity else " or more"
        message = f"'{name}' takes {function.arity}{most} argument{'s' if function.arity > 1 else ''}, not {count}"
        raise TypeConflictError(Diagnostic("wrong-argument-count", message, hints=(f"check {show(expr)}",)))
    return function
