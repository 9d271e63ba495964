"""Atomic updates: native ones where the language has them, otherwise loops around compare-and-swap."""

from __future__ import annotations

from typing import Final

from polyloop.codegen.expressions.conversions import narrowed
from polyloop.codegen.expressions.expressions import Expressions
from polyloop.codegen.loops.context import Context
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Assign, Call
from polyloop.codegen.tree.c_expr import Code
from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import DType, computed, is_half, is_integer, is_signed
from polyloop.expr.records import is_record
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.updates import EXCHANGE
from polyloop.schedule.plan import Statement

__all__ = ["atomic_update"]

_PLAIN: Final = {"sum": "+=", "product": "*=", "and": "&=", "or": "|=", "xor": "^=", EXCHANGE: "="}
_WORDS: Final = {
    "float32": ("unsigned int", "__float_as_uint({0})", "__uint_as_float({0})"),
    "float64": (
        "unsigned long long",
        "(unsigned long long)__double_as_longlong({0})",
        "__longlong_as_double((long long){0})",
    ),
    "int32": ("unsigned int", "(unsigned int)({0})", "(int){0}"),
    "uint32": ("unsigned int", "{0}", "{0}"),
    "int64": ("unsigned long long", "(unsigned long long)({0})", "(long long){0}"),
    "uint64": ("unsigned long long", "{0}", "{0}"),
}
"""The word that is compared and swapped for each type, and the ways to it and back."""
_OPERATORS: Final = {"sum": "+", "product": "*", "and": "&", "or": "|", "xor": "^"}


def atomic_update(
    expressions: Expressions, statement: Statement, operation: str, context: Context
) -> Assign | Call:
    """Return the update of *statement* by an *operation*; one that no other thread can see is an ordinary assignment.

    Raises
    ------
    CodegenError
        ``unsupported-atomic``.
    """
    scope = expressions.scope
    target, name, dtype = expressions.target(statement.lhs, context)
    if is_record(dtype):
        raise scope.error(_unsupported(scope, operation, dtype))
    value = expressions.converted(statement.rhs, computed(dtype), context)
    storage = scope.storage.get(name)
    if scope.language.has_axes and (storage is None or storage.address_space is not AddressSpace.PRIVATE):
        return Call(_call(expressions, operation, target, value, dtype), statement.instruction)
    operator = "=" if is_half(dtype) else _PLAIN.get(operation, "=")
    new = expressions.unsigned(statement.rhs, value, dtype) if operation in _OPERATORS else value
    if operation in ("min", "max") or (is_half(dtype) and operation != EXCHANGE):
        new = _combined(expressions, operation, dtype, expressions.loaded(target, dtype), value)
    if is_half(dtype):
        new = narrowed(scope, dtype, new, computed(dtype))
    return Assign(target, operator, new, statement.instruction)


def _call(expressions: Expressions, operation: str, target: Code, value: Code, dtype: DType) -> Code:
    scope = expressions.scope
    native = scope.language.atomics.get((operation, dtype.name))
    if native is not None:
        return c.Template(native, (target, value))
    if dtype.name not in _WORDS and not is_half(dtype):
        raise scope.error(_unsupported(scope, operation, dtype))
    name = f"atomic_{operation}_{dtype.name}"

    def define() -> str:
        old = expressions.loaded(c.Name("old"), dtype)
        combined = _combined(expressions, operation, dtype, old, c.Name("value"))
        return _compare_and_swap(scope, name, dtype, combined)

    return c.Apply(scope.shared_helper(name, name, define), (c.Unary(c.ADDRESS, target), value))


def _unsupported(scope: Scope, operation: str, dtype: DType) -> Diagnostic:
    return Diagnostic(
        "unsupported-atomic",
        f"target '{scope.language.name}' has no atomic '{operation}' on {dtype.name}",
        ("atomic updates are on integers of 32 and 64 bits and on floating-point numbers",),
        ("give the array one of these types",),
    )


def _combined(expressions: Expressions, operation: str, dtype: DType, old: Code, value: Code) -> Code:
    """Return the new value of an element."""
    if operation == EXCHANGE:
        return value
    if operation in ("min", "max"):
        return expressions.extreme(operation, computed(dtype), old, value)
    if is_integer(dtype) and is_signed(dtype):  # arithmetic on words wraps
        old = c.Cast(_WORDS[dtype.name][0], old)
    return c.binary(c.OPERATORS[_OPERATORS[operation]], old, value)


def _compare_and_swap(scope: Scope, name: str, dtype: DType, combined: Code) -> str:
    ctype = scope.ctype(dtype)
    if is_half(dtype):
        word, to_word, from_word = "unsigned short", "{0}.bits", "{{{0}}}"
        combined = narrowed(scope, dtype, combined, computed(dtype))
    else:
        word, to_word, from_word = _WORDS[dtype.name]
    return "\n".join(
        [
            f"{scope.language.helper} void {name}({ctype} *at, {scope.ctype(computed(dtype))} value)",
            "{",
            f"    {word} *word = ({word} *)at, seen = *word, expected;",
            "    do {",
            "        expected = seen;",
            f"        {ctype} old = {from_word.format('expected')};",
            f"        seen = atomicCAS(word, expected, {to_word.format(combined)});",
            "    } while (seen != expected);",
            "}",
        ]
    )
