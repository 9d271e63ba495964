"""Creation records that print as Python: the user's text, or the kernels that a kernel was made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Final, Protocol, runtime_checkable

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.display import Shown
from polyloop.errors import Diagnostic
from polyloop.expr.foreign import ForeignFunction
from polyloop.expr.printer import show
from polyloop.expr.records import record_text
from polyloop.kernel.cinstruction import CInstruction
from polyloop.kernel.text.specs import auto

__all__ = ["Made", "NoScriptError", "Written", "differs", "python"]


class NoScriptError(Exception):
    """A value has no Python text; ``diagnostic`` says which."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic.message)


class Made(Protocol):
    """Creation record of a kernel."""

    def script(self, variable: str) -> str:
        """Return Python lines that make the kernel and bind it to *variable*.

        Raises
        ------
        NoScriptError
            ``no-script``: the kernel was made with a value that has no text, such as a Python function.
        """
        ...


@runtime_checkable
class Expressible(Protocol):
    """A value that knows its Python expression."""

    def python(self) -> str:
        """Return the expression."""
        ...


@dataclass(frozen=True)
class Written(Shown):
    """A call of ``make_kernel``, with its arguments as they were given."""

    domains: tuple[str | isl.Set | isl.BasicSet, ...] = field(hash=False, compare=False)
    instructions: str | tuple[str | CInstruction, ...]
    kernel_data: tuple[object, ...] | None
    options: tuple[tuple[str, object], ...]
    """Name and value of each keyword argument that is not its default."""

    def script(self, variable: str) -> str:
        """Return ``variable = pl.make_kernel(...)`` over several lines."""
        return f"{variable} = {self.call('make_kernel')}"

    def call(self, function: str) -> str:
        """Return the call of ``make_kernel``, or of another *function* that takes the same arguments."""
        domains = [python(domain) for domain in self.domains]
        pieces = [domains[0] if len(domains) == 1 else _bracketed(domains)]
        pieces.append(_instructions(self.instructions))
        if self.kernel_data is not None:
            pieces.append(_bracketed([python(entry) for entry in self.kernel_data]))
        pieces.extend(f"{name}={python(value)}" for name, value in self.options)
        body = ",\n".join(f"    {piece}" for piece in pieces)
        return f"pl.{function}(\n{body},\n)"


def _bracketed(parts: Sequence[str]) -> str:
    return "[" + ",\n     ".join(parts) + "]"


def _instructions(given: str | tuple[str | CInstruction, ...]) -> str:
    """Return text as a literal: as it was written where that is possible, one line a line."""
    if not isinstance(given, str):
        return _bracketed([python(part) for part in given])
    if "\n" not in given:
        return repr(given)
    if "\\" in given or '"' in given or not given.replace("\n", "").isprintable():
        return repr(given)
    return f'"""{given}"""'


_PLAIN: Final = (str, int, float, complex, type(None))


def python(value: object) -> str:
    """Return a Python expression for *value*, which a script with ``np`` and ``pl`` can evaluate.

    Raises
    ------
    NoScriptError
        ``no-script``.
    """
    match value:
        case list() | tuple():
            return _sequence(value)
        case Mapping():
            return "{" + ", ".join(f"{python(key)}: {python(entry)}" for key, entry in value.items()) + "}"
        case set() | frozenset():
            return "{" + ", ".join(sorted(python(entry) for entry in value)) + "}" if value else "frozenset()"
    if isinstance(value, ForeignFunction) and value.reference is not None:
        message = f"the reference of the foreign function '{value.name}' has no Python text"
        hint = "print the kernel before the reference is given, and add it by hand"
        raise NoScriptError(Diagnostic("no-script", message, hints=(hint,)))
    if isinstance(value, Expressible):
        return value.python()
    text = _leaf(value) or _type(value)
    if text is not None:
        return text
    if is_dataclass(value) and not isinstance(value, type):
        return _dataclass(value)
    message = f"{value!r} has no Python text"
    raise NoScriptError(Diagnostic("no-script", message, hints=("make the kernel from text and plain values",)))


def _leaf(value: object) -> str | None:
    match value:
        case Enum():
            return f"pl.{type(value).__name__}.{value.name}"
        case np.generic():
            return repr(value.item())
        case np.ndarray() if value.dtype.kind in "biu" or (value.dtype.kind == "f" and np.isfinite(value).all()):
            return f"np.array({value.tolist()!r}, np.{value.dtype.name})"
        case isl.Set() | isl.BasicSet():
            return repr(str(value))
        case p.ExpressionNode():
            return repr(show(value))
        case _ if isinstance(value, _PLAIN):
            return repr(value)
        case _ if value is ...:
            return "..."
    return "pl.auto" if value is auto else None


def _type(value: object) -> str | None:
    match value:
        case np.dtype():
            if value.names is not None:
                return record_text(value)
            return f"np.{value.name}" if hasattr(np, value.name) else f"np.{value!r}"
        case type() if issubclass(value, np.generic):
            return f"np.{value.__name__}"
        case type() if value in (int, float, bool, complex):
            return value.__name__
    return None


def differs(value: object, default: object) -> bool:
    """Return whether *value* is another one than *default*; NumPy takes None for float64 where it compares types."""
    return value is not default and (type(value) is not type(default) or value != default)


def _sequence(value: list[object] | tuple[object, ...]) -> str:
    inside = ", ".join(python(entry) for entry in value)
    if isinstance(value, list):
        return f"[{inside}]"
    return f"({inside},)" if len(value) == 1 else f"({inside})"


def _dataclass(value: object) -> str:
    """Return the constructor call of one of our values: the first field by position, others if not their default.

    A value that is made by another call has it as ``spelling``.
    """
    assert is_dataclass(value)
    spelling = getattr(value, "spelling", None)
    if isinstance(spelling, str):
        return spelling
    parts = []
    for number, entry in enumerate(fields(value)):
        given = getattr(value, entry.name)
        if number == 0:
            parts.append(python(given))
            continue
        default = entry.default_factory() if entry.default_factory is not MISSING else entry.default
        if default is MISSING or differs(given, default):
            parts.append(f"{entry.name}={python(given)}")
    return f"pl.{type(value).__name__}({', '.join(parts)})"
