"""C text of the user, with definitions of the constants that it uses in front."""

from __future__ import annotations

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.expressions.expressions import Expressions
from polyloop.codegen.loops.context import Context
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Verbatim
from polyloop.codegen.tree.c_expr import Code
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.nodes import CText, Expression, array_name, targets_of
from polyloop.expr.promotion import Weak, settle
from polyloop.expr.typing import infer_type
from polyloop.schedule.plan import Statement

__all__ = ["verbatim"]


def verbatim(expressions: Expressions, statement: Statement, context: Context) -> Verbatim:
    """Return the C text of *statement*.

    Raises
    ------
    CodegenError
        ``c-name``: a variable of the text has another name in the program, or an element for each thread.
    """
    text, scope = statement.rhs, expressions.scope
    assert isinstance(text, CText), f"{statement.name} is no C text"
    accessed = (*targets_of(statement.lhs), *text.reads)
    whole = {array_name(access) for access in accessed}
    for wanted, access in zip(text.touched, accessed, strict=True):
        _check(scope, statement, wanted, array_name(access))
    values: list[tuple[np.dtype[np.generic], str, Code]] = []
    for name, value in zip(text.names, text.values, strict=True):
        if isinstance(value, p.Variable) and _is_array(scope, value.name):
            _check(scope, statement, name, value.name)
            whole.add(value.name)
            continue
        rendered = expressions.value(value, context)
        if rendered != c.Name(name):
            if scope.definitions.spelling_of.local(name) != name:
                raise _refused(scope, statement, name, "that means something else in C")
            values.append((_dtype(scope, value), name, rendered))
    touched = frozenset(whole & scope.memory.storage.keys())
    return Verbatim(
        tuple(_constants(scope, values)), text.code, statement.instruction, touched, text.convergent)


def _constants(scope: Scope, values: list[tuple[np.dtype[np.generic], str, Code]]) -> list[tuple[str, str, Code]]:
    """Return type, name and value of each constant; if a value uses a name that is redefined, all get copies first."""
    hidden = {name for _, name, _ in values}
    if all(hidden.isdisjoint(c.words(value)) for _, _, value in values):
        return [(scope.ctype(dtype), name, value) for dtype, name, value in values]
    copies = [scope.names.fresh(f"{name}_value") for _, name, _ in values]
    known = [(scope.ctype(dtype), name, value) for dtype, name, value in values]
    first = [(ctype, copy, value) for (ctype, _, value), copy in zip(known, copies, strict=True)]
    return first + [(ctype, name, c.Name(copy)) for (ctype, name, _), copy in zip(known, copies, strict=True)]


def _dtype(scope: Scope, value: Expression) -> np.dtype[np.generic]:
    """Return the type of a constant with the value of an expression; plain integers get the type of indices."""
    kind = infer_type(value, scope.types.of_names.get)
    assert kind is not None, f"'{value}' has no type: types must be inferred before code generation"
    return scope.index_dtype if kind is Weak.INT else settle(kind)


def _is_array(scope: Scope, name: str) -> bool:
    """Return True if *name* is an array or a pointer in C."""
    array, storage = scope.memory.arrays.get(name), scope.memory.storage.get(name)
    return bool(array.shape if array is not None else storage is not None and storage.shape)


def _check(scope: Scope, statement: Statement, wanted: str, name: str) -> None:
    """Raise an error if the variable *name* is not called *wanted* in C, or has an element for each thread."""
    memory = scope.memory
    known = memory.table_names.get(name, name)
    known = f"{memory.pools[name]}.{known}" if name in memory.pools else known
    if known == wanted and not memory.expanded.get(name):
        return
    why = f"it is '{known}' here" if known != wanted else "it has an element for each thread here"
    raise _refused(scope, statement, wanted, why)


def _refused(scope: Scope, statement: Statement, name: str, why: str) -> CodegenError:
    message = f"the C text of '{statement.instruction}' uses '{name}', and {why}"
    return scope.error(Diagnostic("c-name", message, hints=("pass the value through an array argument",)))
