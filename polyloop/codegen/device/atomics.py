"""Atomic updates: native ones where the language has them, otherwise loops around compare-and-swap."""

from __future__ import annotations

from typing import Final

from polyloop.codegen.device.entries import Atomics, Threads, Word
from polyloop.codegen.expressions.calls import extreme
from polyloop.codegen.expressions.conversions import narrowed, widened
from polyloop.codegen.expressions.expressions import Expressions
from polyloop.codegen.expressions.wrapping import as_unsigned
from polyloop.codegen.loops.context import Context
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Assign, Call
from polyloop.codegen.tree.c_expr import Code
from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import DType, computed, is_half, is_integer, is_narrow, is_signed
from polyloop.expr.records import is_record
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.updates import EXCHANGE
from polyloop.schedule.plan import Statement

__all__ = ["atomic_update"]

_PLAIN: Final = {"sum": "+=", "product": "*=", "and": "&=", "or": "|=", "xor": "^=", EXCHANGE: "="}
_OPERATORS: Final = {"sum": "+", "product": "*", "and": "&", "or": "|", "xor": "^"}


def atomic_update(
    expressions: Expressions, statement: Statement, operation: str, context: Context
) -> Assign | Call:
    """Return the atomic update of *statement* by an *operation*, or an ordinary assignment if no thread interferes.

    None does with a private variable.  On a host, one thread executes a block, and shared memory is its own.

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
    storage = scope.memory.storage.get(name)
    space = AddressSpace.GLOBAL if storage is None else storage.address_space
    meets = space is AddressSpace.GLOBAL or (scope.language.has_axes and space is AddressSpace.LOCAL)
    pragma = ""
    if meets and scope.language.is_parallel:
        pragma = scope.language.need(Atomics).directives.get((operation, dtype.name), "")
        if not pragma:
            return Call(_call(scope, operation, (target, name), value, dtype), statement.instruction)
    operator = "=" if is_narrow(dtype) else _PLAIN.get(operation, "=")
    new = as_unsigned(expressions.renderer, statement.rhs, value, dtype) if operation in _OPERATORS else value
    if operation in ("min", "max") or (is_narrow(dtype) and operation != EXCHANGE):
        new = _combined(scope, operation, dtype, _loaded(scope, target, dtype), value)
    if is_narrow(dtype):
        new = narrowed(scope, dtype, new, computed(dtype))
    return Assign(target, operator, new, statement.instruction, pragma=pragma)


def _call(scope: Scope, operation: str, element: tuple[Code, str], value: Code, dtype: DType) -> Code:
    """Return the call that updates an element, which is paired with its array."""
    target, array = element
    atomics = scope.language.need(Atomics)
    native = atomics.native.get((operation, dtype.name))
    if native is not None:
        return c.Template(native, (target, value))
    word = atomics.words.get(dtype.name, atomics.words.get("half") if is_half(dtype) else None)
    if word is None:
        raise scope.error(_unsupported(scope, operation, dtype))
    space = scope.space_of(array)
    threads = scope.language.find(Threads)
    is_apart = threads is not None and bool(space) and space == threads.shared_space
    name = f"atomic_{operation}_{dtype.name}{'_shared' if is_apart else ''}"

    def define() -> str:
        old = _loaded(scope, c.Name("old"), dtype)
        if is_integer(dtype) and is_signed(dtype) and operation in _OPERATORS:  # arithmetic on words wraps
            old = c.Cast(word.type, old)
        combined = _combined(scope, operation, dtype, old, c.Name("value"))
        return _compare_and_swap(scope, (name, space), dtype, combined, word)

    return c.Apply(scope.shared_helper(name, name, define), (c.Unary(c.ADDRESS, target), value))


def _unsupported(scope: Scope, operation: str, dtype: DType) -> Diagnostic:
    return Diagnostic(
        "unsupported-atomic",
        f"target '{scope.language.name}' has no atomic '{operation}' on {dtype.name}",
        ("atomic updates are on integers of 32 and 64 bits and on floating-point numbers",),
        ("give the array one of these types",),
    )


def _loaded(scope: Scope, text: Code, dtype: DType) -> Code:
    """Return an element as a value for arithmetic: floats of 8 and 16 bits are widened."""
    return widened(scope, dtype, text) if is_narrow(dtype) else text


def _combined(scope: Scope, operation: str, dtype: DType, old: Code, value: Code) -> Code:
    """Return the new value of an element."""
    if operation == EXCHANGE:
        return value
    if operation in ("min", "max"):
        return extreme(scope, operation, computed(dtype), old, value)
    return c.binary(c.OPERATORS[_OPERATORS[operation]], old, value)


def _compare_and_swap(scope: Scope, named: tuple[str, str], dtype: DType, combined: Code, word: Word) -> str:
    (name, space), ctype = named, scope.ctype(dtype)
    if is_narrow(dtype):
        combined = narrowed(scope, dtype, combined, computed(dtype))
    declared = f"{word.type} *word = ({word.type} *)at, seen = *word, expected;"
    if space:
        declared = f"{space}{word.type} *word = ({space}{word.type} *)at;\n    {word.type} seen = *word, expected;"
    swap = (word.swap or scope.language.need(Atomics).swap).format("word", "expected", word.to.format(combined))
    return "\n".join(
        [
            f"{scope.language.syntax.helper} void {name}({space}{ctype} *at, {scope.ctype(computed(dtype))} value)",
            "{",
            f"    {declared}",
            "    do {",
            "        expected = seen;",
            f"        {ctype} old = {word.back.format('expected')};",
            f"        seen = {swap};",
            "    } while (seen != expected);",
            "}",
        ]
    )
