"""Callables of scripts that write their own calls, for whole arrays: ``y[:] = gemv(A[:, :], x[:])`` as C text."""
# ruff: noqa: ANN401  # objects of scripts

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pymbolic.primitives as p

from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.nodes import Expression, function_name
from polyloop.expr.printer import show
from polyloop.kernel.cinstruction import CInstruction
from polyloop.kernel.layout import Auto, packed
from polyloop.kernel.text.specs import Defaults, GlobalArg, expand_data
from polyloop.loopy.functions import NumpyType
from polyloop.loopy.unit import Creation
from polyloop.target.c import CTarget

__all__ = ["with_external"]

_WHOLE: Final = r"([A-Za-z_]\w*)(?:\[[:\s,]*\])?"
_PART: Final = re.compile(rf"\s*{_WHOLE}\s*", re.ASCII)


@dataclass(frozen=True)
class _Stride:
    """Distance between neighbours along an axis [elements]."""

    stride: Any


@dataclass(frozen=True)
class _Array:
    """Shape and layout of an array, as a callable is told them."""

    shape: tuple[Any, ...]
    dim_tags: tuple[_Stride, ...]
    address_space: str = "global"


@dataclass(frozen=True)
class _Call:
    """The statement that a callable writes the call of: ``assignees = expression``."""

    assignees: tuple[Expression, ...]
    expression: Expression


class _Mapper:
    """The mapper of expressions that a callable is given: an array is its pointer, an expression itself."""

    def __call__(self, expr: Any, *_: Any, **__: Any) -> Any:
        return _Text(expr)


@dataclass(frozen=True)
class _Text:
    expr: Any


def with_external(creation: Creation, name: str, callable_: Any) -> Creation:
    """Return a creation whose calls of *name* are C text, as *callable_* writes them.

    Raises
    ------
    KernelError
        ``bad-function``: an array of the call has no declared type or shape, or the callable writes no call.
    """
    domains, instructions, *rest = creation.arguments
    data = rest[0] if rest else creation.options.get("kernel_data")
    entries = [item for entry in data or () if entry not in (..., "...") for item in expand_data(entry, Defaults())]
    arrays = {entry.name: entry for entry in entries if hasattr(entry, "strides")}
    texts = [instructions] if isinstance(instructions, str) else list(instructions)
    line = re.compile(rf"^\s*(?P<out>{_WHOLE}(?:\s*,\s*{_WHOLE})*)\s*=\s*{name}\s*\((?P<in>[^()]*)\)\s*$", re.ASCII)
    found: list[Any] = []
    types: dict[str, Any] = {}
    preambles: list[tuple[str, str]] = []
    for text in texts:
        lines = text.splitlines() if isinstance(text, str) else [text]
        for entry in lines:
            match = line.match(entry) if isinstance(entry, str) else None
            if match is None:
                found.append(entry)
                continue
            writer = _Writer(name, callable_, arrays, _names(match["out"]), _names(match["in"]))
            found.append(writer.instruction())
            types.update(writer.types)
            preambles += writer.preambles()
    typed = [replace(entry, dtype=types[entry.name]) if isinstance(entry, GlobalArg) and entry.name in types else entry
             for entry in data or ()]  # fmt: skip
    options = {**creation.options, "preambles": (*creation.options.get("preambles", ()), *dict.fromkeys(preambles))}
    return replace(creation, arguments=(domains, _joined(found), typed, *rest[1:]), options=options)


def _names(text: str) -> tuple[str, ...]:
    """Return the names in ``A[:, :], x[:]``."""
    depth, parts, part = 0, [], ""
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part += letter
    matches = [_PART.fullmatch(entry) for entry in (*parts, part)]
    return tuple(match[1] if match else entry.strip() for match, entry in zip(matches, (*parts, part), strict=True))


def _joined(entries: Sequence[Any]) -> list[Any]:
    """Return neighbouring lines as one text each."""
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, str) and found and isinstance(found[-1], str):
            found[-1] += f"\n{entry}"
        else:
            found.append(entry)
    return [entry for entry in found if not isinstance(entry, str) or entry.strip()]


class _Writer:
    """One call, written by a callable."""

    def __init__(
        self, name: str, callable_: Any, arrays: Mapping[str, Any], outputs: tuple[str, ...], inputs: tuple[str, ...]
    ) -> None:  # fmt: skip
        self.name, self.outputs, self.inputs = name, outputs, inputs
        for operand in (*outputs, *inputs):
            if operand not in arrays or arrays[operand].shape is None:
                raise self.refused(f"'{operand}' is no array of declared shape",
                                   f"declare it: lp.GlobalArg('{operand}', dtype, shape=..)")
        numbers = {**dict(enumerate(inputs)), **{-1 - number: entry for number, entry in enumerate(outputs)}}
        known = {number: NumpyType(dtype) for number, entry in numbers.items()
                 if (dtype := arrays[entry].dtype) is not None}  # fmt: skip
        made, _ = callable_.with_types(known, {})
        made, _ = made.with_descrs({number: _described(arrays[entry]) for number, entry in numbers.items()}, {})
        self.callable = made
        found = made.arg_id_to_dtype or {}
        self.types = {entry: NumpyType(found[number]).dtype for number, entry in numbers.items()
                      if number in found and arrays[entry].dtype is None}  # fmt: skip

    def instruction(self) -> CInstruction:
        """Return the call as an instruction in C."""
        variables = [p.Variable(entry) for entry in self.inputs]
        call = _Call(tuple(map(p.Variable, self.outputs)), p.Call(p.Variable(self.name), tuple(variables)))
        written, is_returned = self.callable.emit_call_insn(call, CTarget(), _Mapper())
        if type(written) is not p.Call:
            raise self.refused("emit_call_insn returns no call", "return (var(name)(*parameters), False)")
        text = f"{function_name(written)}({', '.join(map(show, written.parameters))});"
        if is_returned:
            text = f"{self.outputs[0]} = {text}"
        return CInstruction("", text, frozenset(self.inputs), list(self.outputs))

    def preambles(self) -> Iterator[tuple[str, str]]:
        """Yield the texts that the call needs in front."""
        yield from ((str(key), str(text)) for key, text in self.callable.generate_preambles(CTarget()))

    def refused(self, message: str, hint: str) -> KernelError:
        """Return the error of a call that cannot be written."""
        problem = Diagnostic("bad-function", f"the call of '{self.name}' cannot be written: {message}", (), (hint,))
        return KernelError("register_callable", None, [problem])


def _described(array: Any) -> _Array:
    shape = tuple(array.shape)
    strides = array.strides if array.strides is not None and not isinstance(array.strides, Auto) else packed(shape, "C")
    return _Array(shape, tuple(map(_Stride, strides)))
