"""Values that are records or vectors as C text: helper functions for what C has no operator for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from polyloop.codegen.scope import PRODUCT, SUM, UNARY, Names, Scope, Text
from polyloop.expr.records import component, field_dtype, field_names, is_vector, record_name

__all__ = ["apply_componentwise", "make_record", "operator_text", "results_function", "splat"]

_DType = np.dtype[Any]
_WORDS: Final = {"+": "add", "-": "sub", "*": "mul", "/": "div"}


def _helper(scope: Scope, dtype: _DType, wish: str, define: Callable[[str], str], types: str = "") -> str:
    """Return the name of a helper function on *dtype*; *define* gives the text of one with a name.

    Those on vectors are the same in every program.
    """
    if is_vector(dtype):
        return scope.shared_helper(f"{wish} {types}".strip(), wish, lambda: define(wish))
    return scope.own_helper(f"{wish} of {scope.ctype(dtype)}", wish, define)


def make_record(scope: Scope, dtype: _DType, values: Sequence[str]) -> Text:
    """Return the text of a record with *values* in its fields."""
    ctype = scope.ctype(dtype)
    if is_vector(dtype) and scope.language.has_vectors:
        return Text(f"make_{ctype}({', '.join(values)})")

    def define(name: str) -> str:
        types = {field: scope.ctype(field_dtype(dtype, field)) for field in field_names(dtype)}
        fields = {field: scope.spelling_of.field(field) for field in types}
        inside = Names({name, *(word for kind in (ctype, *types.values()) for word in kind.split())})
        given = {field: inside.fresh(own) for field, own in fields.items()}
        parameters = ", ".join(f"{kind} {given[field]}" for field, kind in types.items())
        head = f"{scope.language.helper} {ctype} {name}({parameters})"
        if is_vector(dtype):
            return f"{head} {{ return ({ctype}){{{', '.join(given.values())}}}; }}"
        result = inside.fresh("result")
        lines = [f"    {result}.{own} = {given[field]};" for field, own in fields.items()]
        return "\n".join([head, "{", f"    {ctype} {result};", *lines, f"    return {result};", "}"])

    name = _helper(scope, dtype, f"make_{record_name(dtype)}", define)
    return Text(f"{name}({', '.join(values)})")


def splat(scope: Scope, dtype: _DType, value: str) -> Text:
    """Return the vector whose components all are *value*."""
    ctype, base = scope.ctype(dtype), scope.ctype(component(dtype))

    def define(name: str) -> str:
        made = make_record(scope, dtype, ["s"] * len(field_names(dtype))).text
        return f"{scope.language.helper} {ctype} {name}({base} s) {{ return {made}; }}"

    return Text(f"{_helper(scope, dtype, f'splat_{ctype}', define)}({value})")


def operator_text(scope: Scope, dtype: _DType, symbol: str, operands: Sequence[tuple[Text, bool]]) -> Text:
    """Return one operation on vectors; each operand comes with whether it is a vector itself.

    ``-`` with one operand is negation.  Where the language has operators of one's own, they are defined, otherwise
    functions such as ``add_float4``.
    """
    ctype, base = scope.ctype(dtype), scope.ctype(component(dtype))
    negation = len(operands) == 1
    if not scope.language.has_vectors:
        texts = [text.text if vector else splat(scope, dtype, text.text).text for text, vector in operands]
        word = "neg" if negation else _WORDS[symbol]
        body = [f"-a.{x}" if negation else f"a.{x} {symbol} b.{x}" for x in field_names(dtype)]
        return _function(scope, dtype, f"{word}_{ctype}", [ctype] * len(operands), _narrow(scope, dtype, body), texts)
    types = [ctype if vector else base for _, vector in operands]
    parts = [[f"{name}.{x}" if vector else name for name, (_, vector) in zip("ab", operands, strict=False)]
             for x in field_names(dtype)]  # fmt: skip
    body = [f"-{part[0]}" if negation else f" {symbol} ".join(part) for part in parts]
    made = make_record(scope, dtype, _narrow(scope, dtype, body)).text
    parameters = ", ".join(f"{kind} {name}" for kind, name in zip(types, "ab", strict=False))
    _helper(
        scope, dtype, f"operator{symbol}",
        lambda name: f"{scope.language.helper} {ctype} {name}({parameters}) {{ return {made}; }}", " ".join(types),
    )  # fmt: skip
    if negation:
        inner = operands[0][0].within(UNARY)
        return Text(f"-{inner}" if not inner.startswith("-") else f"-({inner})", UNARY)
    level = SUM if symbol in "+-" else PRODUCT
    left, right = operands[0][0], operands[1][0]
    text = right.within(level + 1)
    return Text(f"{left.within(level)} {symbol} {f'({text})' if text.startswith('-') else text}", level)


def _narrow(scope: Scope, dtype: _DType, body: Sequence[str]) -> list[str]:
    """Return components that C computes in ``int`` as the small type that they have."""
    base = component(dtype)
    return [f"({scope.ctype(base)})({part})" for part in body] if base.itemsize < 4 else list(body)


def apply_componentwise(
    scope: Scope, dtype: _DType, name: str, apply: Callable[[Sequence[Text]], Text], arguments: Sequence[Text]
) -> Text:
    """Return *apply* done to each component of *arguments*, which are vectors, in a helper function."""
    ctype = scope.ctype(dtype)
    names = "abcdefgh"[: len(arguments)]
    body = [apply([Text(f"{argument}.{x}") for argument in names]).text for x in field_names(dtype)]
    texts = [argument.text for argument in arguments]
    return _function(scope, dtype, f"{name}_{ctype}", [ctype] * len(texts), body, texts)


def _function(
    scope: Scope, dtype: _DType, wish: str, types: Sequence[str], body: Sequence[str], arguments: Sequence[str]
) -> Text:
    made = make_record(scope, dtype, body).text
    parameters = ", ".join(f"{kind} {name}" for kind, name in zip(types, "abcdefgh", strict=False))
    signature = f"{scope.language.helper} {scope.ctype(dtype)}"
    name = _helper(scope, dtype, wish, lambda name: f"{signature} {name}({parameters}) {{ return {made}; }}")
    return Text(f"{name}({', '.join(arguments)})")


def results_function(
    scope: Scope, function: str, dtype: _DType, apply: Callable[[str, Sequence[Text]], Text], argument: Text
) -> Text:
    """Return a call of a function with several results, each of which is a function of its own: ``sincos``."""
    ctype, base = scope.ctype(dtype), field_dtype(dtype, field_names(dtype)[0])
    wish = f"{function}_{base.name}"

    def define(name: str) -> str:
        fields = {field: f"result.{scope.spelling_of.field(field)}" for field in field_names(dtype)}
        together = scope.language.results.get((function, base.name))
        if together is None:
            lines = [f"    {own} = {apply(field, [Text('x')]).text};" for field, own in fields.items()]
        else:
            lines = [f"    {together.format('x', *fields.values())};"]
        head = f"{scope.language.helper} {ctype} {name}({scope.ctype(base)} x)"
        return "\n".join([head, "{", f"    {ctype} result;", *lines, "    return result;", "}"])

    return Text(f"{_helper(scope, dtype, wish, define)}({argument.text})")
