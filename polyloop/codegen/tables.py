"""Constant tables: arrays with initializers in the program text."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import isfinite, isinf, isnan, prod
from typing import Any, Final

import numpy as np

from polyloop.codegen.language import Language
from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import is_narrow
from polyloop.kernel.arrays import Table

__all__ = ["literal", "table_text", "table_violations"]

_PER_LINE: Final = 8


def table_violations(name: str, table: Table, language: Language) -> list[Diagnostic]:
    """Return a diagnostic if *language* has no constants of the type of *table*."""
    dtype = table.dtype
    if dtype.kind not in "biuf" or dtype.name not in language.types or is_narrow(dtype):
        message = f"target '{language.name}' cannot have constants of type '{dtype.name}' in its text"
        hints = ("give the initializer a real type of 32 or 64 bits, or pass it as an argument",)
        return [Diagnostic("unsupported-initializer", f"temporary '{name}': {message}", hints=hints)]
    return []


def table_text(name: str, table: Table, ctype: str, language: Language, used: int) -> tuple[str, int]:
    """Return the definition of *table* at file scope, and the constant memory in use after it [bytes].

    Parameters
    ----------
    used
        Constant memory that other tables take [bytes].
    """
    nbytes = prod(table.shape) * table.dtype.itemsize
    fits = used + nbytes <= language.constants.table_bytes
    where = language.constants.table if fits else language.constants.large_table
    dims = "".join(f"[{max(1, extent)}]" for extent in table.shape)
    values = _braces(table.array, language, "    ") if table.shape else literal(table.array[()], language)
    return f"{where}{ctype} {name}{dims} = {values};", used + (nbytes if fits else 0)


def _braces(array: np.ndarray[Any, Any], language: Language, indent: str) -> str:
    if array.size == 0:
        return "{0}"
    if array.ndim > 1:
        rows = [_braces(row, language, indent + "    ") for row in array]
        return "{\n" + ",\n".join(f"{indent}{row}" for row in rows) + f",\n{indent[4:]}}}"
    texts = [literal(value, language) for value in array]
    if len(texts) <= _PER_LINE:
        return "{" + ", ".join(texts) + "}"
    lines = [", ".join(texts[k : k + _PER_LINE]) for k in range(0, len(texts), _PER_LINE)]
    return "{\n" + ",\n".join(f"{indent}{line}" for line in lines) + f",\n{indent[4:]}}}"


def literal(value: Any, language: Language) -> str:  # noqa: ANN401 - a NumPy scalar
    """Return *value* as a C constant that has exactly this value.

    Numbers without an exact short decimal are hexadecimal (C17, section 6.4.4.2).
    """
    dtype = np.dtype(value.dtype)
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        return _integer(int(value), dtype, language.syntax.long)
    number = float(value)
    if not isfinite(number) and language.constants.table_bits:
        bits = int(value.view(f"uint{8 * dtype.itemsize}"))
        suffix = f"u{language.syntax.long}" if dtype.itemsize == 8 else "u"
        return language.constants.table_bits.format(type=language.types[dtype.name], bits=f"0x{bits:x}{suffix}")
    if isnan(number):
        return (language.constants.table_nan or language.constants.not_a_number)[dtype.name]
    if isinf(number):
        infinity = (language.constants.table_infinity or language.constants.infinity)[dtype.name]
        return f"-{infinity}" if number < 0 else infinity
    assert isfinite(number), "a number that is neither NaN nor infinite is finite"
    text = str(value) if dtype.itemsize == 4 else repr(number)
    if Fraction(Decimal(text)) != Fraction(number):
        text = _hexadecimal(number)
    elif "." not in text and "e" not in text:
        text += ".0"
    return f"{text}f" if dtype.itemsize == 4 else text


def _hexadecimal(number: float) -> str:
    mantissa, _, exponent = number.hex().partition("p")
    return f"{mantissa.rstrip('0') if '.' in mantissa else mantissa}p{exponent}".replace(".p", "p")


def _integer(value: int, dtype: np.dtype[Any], long: str) -> str:
    suffix = (f"u{long}" if dtype.kind == "u" else long) if dtype.itemsize == 8 else "u" if dtype == np.uint32 else ""
    least = value < 0 and value in (-(2**31), -(2**63))  # the literal without its sign would not fit
    return f"({value + 1}{suffix} - 1)" if least else f"{value}{suffix}"
