"""Records and vectors as values in C text: helper functions for operations without a C operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from polyloop.codegen.names import Names
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.records import component, field_dtype, field_names, is_vector, record_name

__all__ = ["apply_componentwise", "make_record", "operator_text", "results_function", "splat"]

_DType = np.dtype[Any]
_WORDS: Final = {"+": "add", "-": "sub", "*": "mul", "/": "div"}


def _helper(scope: Scope, dtype: _DType, wish: str, define: Callable[[str], str], types: str = "") -> str:
    """Return the name of a helper function on *dtype*; *define* returns the source of a function with a given name.

    Functions on vectors are the same in every program.
    """
    if is_vector(dtype):
        return scope.shared_helper(f"{wish} {types}".strip(), wish, lambda: define(wish))
    return scope.own_helper(f"{wish} of {scope.ctype(dtype)}", wish, define)


def make_record(scope: Scope, dtype: _DType, values: Sequence[Code]) -> Code:
    """Return a record with *values* in its fields."""
    ctype = scope.ctype(dtype)
    if (vectors := scope.vectors_of(dtype)) is not None:
        return c.Apply(vectors.make.format(type=ctype), tuple(values))

    def define(name: str) -> str:
        types = {field: scope.ctype(field_dtype(dtype, field)) for field in field_names(dtype)}
        fields = {field: scope.definitions.spelling_of.field(field) for field in types}
        inside = Names({name, *(word for kind in (ctype, *types.values()) for word in kind.split())})
        given = {field: inside.fresh(own) for field, own in fields.items()}
        parameters = ", ".join(f"{kind} {given[field]}" for field, kind in types.items())
        head = f"{scope.language.syntax.helper} {ctype} {name}({parameters})"
        if is_vector(dtype):
            return f"{head} {{ return ({ctype}){{{', '.join(given.values())}}}; }}"
        result = inside.fresh("result")
        lines = [f"    {result}.{own} = {given[field]};" for field, own in fields.items()]
        return "\n".join([head, "{", f"    {ctype} {result};", *lines, f"    return {result};", "}"])

    name = _helper(scope, dtype, f"make_{record_name(dtype)}", define)
    return c.Apply(name, tuple(values))


def splat(scope: Scope, dtype: _DType, value: Code) -> Code:
    """Return a vector with all components equal to *value*."""
    ctype, base = scope.ctype(dtype), scope.ctype(component(dtype))

    def define(name: str) -> str:
        made = make_record(scope, dtype, [c.Name("s")] * len(field_names(dtype)))
        return f"{scope.language.syntax.helper} {ctype} {name}({base} s) {{ return {made}; }}"

    return c.Apply(_helper(scope, dtype, f"splat_{ctype}", define), (value,))


def operator_text(scope: Scope, dtype: _DType, symbol: str, operands: Sequence[tuple[Code, bool]]) -> Code:
    """Return one operation on vectors; each operand is paired with True if it is a vector itself.

    ``-`` with one operand is negation.  If the language can define operators, these are used, otherwise functions such
    as ``add_float4``.
    """
    ctype, base = scope.ctype(dtype), scope.ctype(component(dtype))
    negation = len(operands) == 1
    built_in = scope.vectors_of(dtype)
    if built_in is None:
        texts = [text if vector else splat(scope, dtype, text) for text, vector in operands]
        word = "neg" if negation else _WORDS[symbol]
        body = [_one(symbol, [c.Member(c.Name(name), x) for name in "ab"[: len(operands)]]) for x in field_names(dtype)]
        return _function(scope, dtype, f"{word}_{ctype}", [ctype] * len(operands), _narrow(scope, dtype, body), texts)
    if built_in.has_operators:
        (first, _), *others = operands
        return c.binary(c.APART[symbol], first, others[0][0]) if others else c.Unary(c.NEGATIVE, first)
    types = [ctype if vector else base for _, vector in operands]
    names = [(c.Name(name), vector) for name, (_, vector) in zip("ab", operands, strict=False)]
    body = [_one(symbol, [c.Member(name, x) if vector else name for name, vector in names]) for x in field_names(dtype)]
    made = make_record(scope, dtype, _narrow(scope, dtype, body))
    parameters = ", ".join(f"{kind} {name}" for kind, name in zip(types, "ab", strict=False))
    head = f"{scope.language.syntax.helper} {ctype}"
    _helper(
        scope, dtype, f"operator{symbol}", lambda name: f"{head} {name}({parameters}) {{ return {made}; }}",
        " ".join(types),
    )  # fmt: skip
    if negation:
        return c.Unary(c.NEGATIVE, operands[0][0])
    return c.binary(c.APART[symbol], operands[0][0], operands[1][0])


def _one(symbol: str, parts: Sequence[Code]) -> Code:
    """Return one operation on scalars."""
    return c.Unary(c.NEGATIVE, parts[0]) if len(parts) == 1 else c.binary(c.OPERATORS[symbol], *parts)


def _narrow(scope: Scope, dtype: _DType, body: Sequence[Code]) -> list[Code]:
    """Return components, which C computes in ``int`` for small types, cast to their type."""
    base = component(dtype)
    return [c.Cast(scope.ctype(base), c.Parentheses(part)) for part in body] if base.itemsize < 4 else list(body)


def apply_componentwise(
    scope: Scope, dtype: _DType, name: str, apply: Callable[[Sequence[Code]], Code], arguments: Sequence[Code]
) -> Code:
    """Return a call of a helper function that applies *apply* to each component of vectors, the *arguments*."""
    ctype = scope.ctype(dtype)
    names = [c.Name(name) for name in "abcdefgh"[: len(arguments)]]
    body = [apply([c.Member(name, x) for name in names]) for x in field_names(dtype)]
    return _function(scope, dtype, f"{name}_{ctype}", [ctype] * len(arguments), body, arguments)


def _function(
    scope: Scope, dtype: _DType, wish: str, types: Sequence[str], body: Sequence[Code], arguments: Sequence[Code]
) -> Code:
    made = make_record(scope, dtype, body)
    parameters = ", ".join(f"{kind} {name}" for kind, name in zip(types, "abcdefgh", strict=False))
    signature = f"{scope.language.syntax.helper} {scope.ctype(dtype)}"
    name = _helper(scope, dtype, wish, lambda name: f"{signature} {name}({parameters}) {{ return {made}; }}")
    return c.Apply(name, tuple(arguments))


def results_function(
    scope: Scope, function: str, dtype: _DType, apply: Callable[[str, Sequence[Code]], Code], argument: Code
) -> Code:
    """Return a call of a helper function with several results, as ``sincos``, computed at once or one by one."""
    ctype, base = scope.ctype(dtype), field_dtype(dtype, field_names(dtype)[0])
    wish = f"{function}_{base.name}"

    def define(name: str) -> str:
        fields = {field: f"result.{scope.definitions.spelling_of.field(field)}" for field in field_names(dtype)}
        together = scope.language.functions.results.get((function, base.name))
        if together is None:
            lines = [f"    {own} = {apply(field, [c.Name('x')])};" for field, own in fields.items()]
        else:
            lines = [f"    {together.format('x', *fields.values())};"]
        head = f"{scope.language.syntax.helper} {ctype} {name}({scope.ctype(base)} x)"
        return "\n".join([head, "{", f"    {ctype} result;", *lines, "    return result;", "}"])

    return c.Apply(_helper(scope, dtype, wish, define), (argument,))
