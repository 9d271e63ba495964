"""Calls of functions as statements: ``[i]: y[i] = f([j]: x[j], alpha)`` and ``y[:, k] = f(x[:, k])``."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pymbolic.primitives as p

from polyloop.errors import KernelError, unknown_name
from polyloop.expr.dtypes import DType, dtype_diagnostic, find_dtype
from polyloop.expr.nodes import Expression
from polyloop.expr.parser import parse_source
from polyloop.expr.source import Source, split_outside_brackets
from polyloop.frozen import replace
from polyloop.kernel.layout import Auto, auto
from polyloop.kernel.text.logical_lines import OPERATION, fail, match_bracket

__all__ = ["CallText", "Slice", "SubArray", "parse_call", "plain"]


@dataclass(frozen=True)
class Slice:
    """``low:high:step`` along one axis; None for its beginning, its end, and a step of 1."""

    low: Expression | None
    high: Expression | None
    step: Expression | None = None


Index: TypeAlias = Any
"""An expression, or a :class:`Slice`."""


@dataclass(frozen=True)
class SubArray:
    """``[i, j]: array[2*i, k, j]``: the elements that ``inames`` sweep over; or ``array[:, k]``, or a name alone.

    ``indices`` is None for a name alone.
    """

    array: str
    indices: tuple[Index, ...] | None
    inames: tuple[str, ...]
    source: Source

    def is_plain(self) -> bool:
        """Return whether the argument is one element or a name, without swept axes."""
        return not self.inames and not any(isinstance(index, Slice) for index in self.indices or ())


@dataclass(frozen=True)
class CallText:
    """``outputs = function(arguments)``."""

    outputs: tuple[SubArray, ...]
    function: str
    arguments: tuple[SubArray | Expression, ...]
    declared: DType | Auto | None = None


_CALL: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*\(", re.ASCII)
_SWEEP: Final = re.compile(r"\s*\[([^\[\]]*)\]\s*:", re.ASCII)
_NAME: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*", re.ASCII)
_DECLARATION: Final = re.compile(r"\s*<\s*([^<>=]*?)\s*>", re.ASCII)
_EXAMPLE: Final = "write [i]: y[i] = f([j]: x[j]), or y[:] = f(x[:])"


def parse_call(source: Source, inames: frozenset[str], functions: AbstractSet[str]) -> CallText | None:
    """Parse a call statement; return None for other statements.

    Raises
    ------
    KernelError
        ``syntax``, ``unknown-iname``, ``unknown-function``.
    """
    sweeps = _SWEEP.match(source.text) is not None
    if not functions and not sweeps and ":" not in source.text:
        return None
    offset = _equals(source.text)
    if offset is None:
        return None
    right = source.slice(offset + 1, len(source.text))
    match = _CALL.match(right.text)
    whole = match is not None and match_bracket(right.text, match.end() - 1) == len(right.text.rstrip()) - 1
    if match is None or not whole or match.group(1) not in functions:
        passes = match is not None and whole and (
            _passes_slice(right.slice(match.end(), len(right.text.rstrip()) - 1))
            or _passes_slice(source.slice(0, offset)))  # fmt: skip
        if not sweeps and not passes:
            return None
        if match is None or not whole:
            fail("syntax", "'[...]:' on the left belongs to a call", source.span(), _EXAMPLE)
        problem = unknown_name("function", match.group(1), functions)
        hint = f"pass it to make_kernel: functions=[{match.group(1)}]"
        found = replace(problem, hints=(hint,), span=right.span(match.start(1), len(match.group(1))))
        raise KernelError(OPERATION, None, [found])
    inside = right.slice(match.end(), len(right.text.rstrip()) - 1)
    left = source.slice(0, offset)
    declaration = _DECLARATION.match(left.text)
    dtype = None if declaration is None else find_dtype(declaration.group(1))
    if declaration is not None:
        if declaration.group(1) not in ("", "auto") and dtype is None:
            span = left.span(declaration.start(1), len(declaration.group(1)))
            raise KernelError(OPERATION, None, [replace(dtype_diagnostic(declaration.group(1)), span=span)])
        left = left.slice(declaration.end(), len(left.text))
    outputs = tuple(_sub_array(part, inames) for part in _parts(left))
    if declaration is not None and (len(outputs) > 1 or outputs[0].indices is not None or outputs[0].inames):
        fail("syntax", "a call declares one scalar at most", source.span(), "list temporaries in kernel_data")
    arguments = tuple(_argument(part, inames) for part in _parts(inside)) if inside.text.strip() else ()
    declared = None if declaration is None else auto if dtype is None else dtype
    return CallText(outputs, match.group(1), arguments, declared)


def _equals(text: str) -> int | None:
    """Return the position of the only ``=`` outside of brackets."""
    depth = 0
    for offset, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "=" and depth == 0:
            around = text[offset - 1 : offset] + text[offset + 1 : offset + 2]
            return None if set(around) & set("=<!+-*/%&|^:") else offset
    return None


def _parts(source: Source) -> list[Source]:
    """Return the parts between commas outside of brackets."""
    return [part.strip() if part.text.strip() else part for part in split_outside_brackets(source, ",")]


def _argument(source: Source, inames: frozenset[str]) -> SubArray | Expression:
    bare = _NAME.fullmatch(source.text) is not None
    if bare or _SWEEP.match(source.text) or _has_slice(source):
        return _sub_array(source, inames)
    return parse_source(source, inames, OPERATION)


def _has_slice(source: Source) -> bool:
    begin = source.text.find("[")
    if begin < 0 or not _NAME.fullmatch(source.text[:begin]):
        return False
    inside = source.slice(begin + 1, match_bracket(source.text, begin))
    return any(len(split_outside_brackets(part, ":")) > 1 for part in split_outside_brackets(inside, ","))


def _passes_slice(inside: Source) -> bool:
    """Return whether an argument or a result is a part of an array, as only functions take it."""
    return any(_SWEEP.match(part.text) or _has_slice(part) for part in _parts(inside) if part.text.strip())


def _sub_array(source: Source, inames: frozenset[str]) -> SubArray:
    sweep = _SWEEP.match(source.text)
    swept: tuple[str, ...] = ()
    rest = source
    if sweep is not None:
        names = source.slice(sweep.start(1), sweep.end(1))
        swept = tuple(part.text for part in _parts(names)) if names.text.strip() else ()
        for name in swept:
            if name not in inames:
                raise KernelError(OPERATION, None, [replace(unknown_name("iname", name, inames), span=names.span())])
        rest = source.slice(sweep.end(), len(source.text)).strip()
    name_match = _NAME.match(rest.text)
    if name_match is None:
        fail("syntax", "this is no part of an array", source.span(), _EXAMPLE)
    after = rest.text[name_match.end() :]
    name = name_match.group(1)
    if not after:
        return SubArray(name, None, swept, source)
    if not after.startswith("[") or match_bracket(rest.text, name_match.end()) != len(rest.text) - 1:
        fail("syntax", "this is no part of an array", source.span(), _EXAMPLE)
    inside = rest.slice(name_match.end() + 1, len(rest.text) - 1)
    if inside.text.strip() == "()":
        return SubArray(name, None, swept, source)
    indices = tuple(_index(part, inames) for part in _parts(inside))
    if swept and any(isinstance(index, Slice) for index in indices):
        fail("syntax", "a part of an array has either '[i]:' or slices", source.span(), _EXAMPLE)
    return SubArray(name, indices, swept, source)


def _index(source: Source, inames: frozenset[str]) -> Index:
    parts = split_outside_brackets(source, ":")
    if len(parts) == 1:
        return parse_source(source, inames, OPERATION)
    if len(parts) > 3:
        fail("syntax", "a slice has a beginning, an end and a step", source.span(), "write x[1:n:2]")
    return Slice(*(parse_source(part, inames, OPERATION) if part.text.strip() else None for part in parts))


def plain(part: SubArray) -> Expression:
    """Return the element, or the variable, that a part without sweeps is."""
    if part.indices is None:
        return p.Variable(part.array)
    return p.Subscript(p.Variable(part.array), part.indices if len(part.indices) > 1 else part.indices[0])
