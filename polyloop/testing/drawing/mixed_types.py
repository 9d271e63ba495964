"""Kernels with values of several types, and with infinities, NaN and zeros of both signs."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from polyloop.kernel.text.specs import GlobalArg, TemporaryVariable, ValueArg
from polyloop.testing.drawing.numbers import INFINITE, MIXED
from polyloop.testing.drawing.random_kernels import FACTOR, INDICES, Source
from polyloop.testing.drawing.twists import FAR

__all__ = ["infinite", "mixed"]

_FLOATS: Final = (np.dtype(np.float32), np.dtype(np.float64))
_SIGNED: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
_UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64", "bool")
_SMALL: Final = ("int8", "uint8", "int16", "uint16", "int32", "bool")
_SIZES: Final = ("int8", "uint8", "int16", "uint16", "uint32", "int64")
"""Types of the size ``n``."""
_ORDERED: Final = re.compile(r"[<>]|\b(?:min|max|any|all|arg\w+)\b|//|%")
"""Operations that complex numbers do not have."""
_HEAD: Final = re.compile(r"(?P<head>.*\{\s*\[(?P<inames>[^\]]*)\]\s*:)(?P<condition>.*)\}\s*")
_TARGET: Final = re.compile(r"\s*(\w+)\[[^=]*\] = ")
_ELEMENT: Final = re.compile(r"\b(\w+)\[[^\[\]]*\]")
_SUMMED: Final = re.compile(r"\b[km]\b")
"""Inames of reductions."""
_STATEMENT: Final = re.compile(r"(?P<left>\s*(?:<> )?\w+(?:\[[^=]*\])? = )(?P<value>[^{]*?)(?P<options> \{.*\})?")


def infinite(rng: random.Random, source: Source) -> Source:
    """Let arrays of floating-point numbers hold infinities, NaN and zeros of both signs, and let these decide."""
    arrays = [entry.name for entry in source.data if isinstance(entry, GlobalArg) and entry.dtype in _FLOATS]
    if not arrays:
        return source
    lines = tuple(_with_choice(rng, line, arrays) for line in source.lines)
    twin = source.twin if lines == source.lines else None
    return replace(source, lines=lines, twin=twin, features=(*source.features, INFINITE))


def _with_choice(rng: random.Random, line: str, arrays: Sequence[str]) -> str:
    """Return a statement with another value where one of the elements that it reads is special."""
    match = _STATEMENT.fullmatch(line)
    if match is None or "{atomic}" in line or "rowptr" in line or rng.random() < 0.4:
        return line
    found = [each[0] for each in _ELEMENT.finditer(match["value"]) if each[1] in arrays and not _SUMMED.search(each[0])]
    if not found:
        return line
    new = rng.choice((
        "if({1} > 0, {0}, -{1})", "if(not ({1} <= 1), {0}, {1})", "if({1} == {1}, {0}, 1)", "({0}) + 0*{1}",
        "max({0}, -{1})", "min({0}, {1})", "({0}) - {1} + {1}", "-(-({0}) - {1})",
    )).format(match["value"], rng.choice(found))  # fmt: skip
    return f"{match['left']}{new}{match['options'] or ''}"


def mixed(rng: random.Random, source: Source) -> Source:
    """Give arrays and scalars types of their own; add a factor and a size of other types, and inames of one value."""
    read, written = _palette(rng, source)
    targets = {found[1] for line in source.lines if (found := _TARGET.match(line))}
    data = [
        replace(entry, dtype=np.dtype(rng.choice(written if entry.name in targets else read)))
        if isinstance(entry, GlobalArg | TemporaryVariable) and entry.name not in INDICES
        else entry
        for entry in source.data
    ]
    lines, domains, is_bounded_by_data = source.lines, source.domains, any("rowptr" in x for x in source.lines)
    found = _HEAD.fullmatch(domains[0])
    assert found is not None, f"unexpected domain {domains[0]}"
    inames = [name.strip() for name in found["inames"].split(",")]
    if rng.random() < 0.4 and not is_bounded_by_data:
        values = "\n".join(line.partition("= ")[2] for line in lines)
        is_exact = all(np.dtype(name).kind in "biu" for name in read)
        grows = not is_exact and any(re.search(rf"\b{name}\[", values) for name in targets)
        lines = tuple(_with_factor(rng, line, () if grows else inames) for line in lines)
    if rng.random() < 0.15 and not is_bounded_by_data and {*FAR}.isdisjoint(source.features):
        only = f"({found['condition']}) and {rng.choice(inames)} = {rng.randint(0, 3)}"
        domains = (f"{found['head']} {only}}}", *domains[1:])
    if any(FACTOR in line for line in lines):
        passed = [name for name in read if not name.startswith(("complex", "float16"))]  # by value, as ctypes has it
        data.insert(0, ValueArg(FACTOR, np.dtype(rng.choice(passed))))
    if rng.random() < 0.3 and not is_bounded_by_data:
        data.insert(0, ValueArg("n", np.dtype(rng.choice(_SIZES))))
    new: dict[str, Any] = {"domains": domains, "data": tuple(data)}
    twin = None
    if source.twin is not None and lines == source.lines and source.twin.domains == source.domains:
        twin = replace(source.twin, **new)
    return replace(source, lines=lines, twin=twin, features=(*source.features, MIXED), **new)


def _palette(rng: random.Random, source: Source) -> tuple[list[str], list[str]]:
    """Return the types of arrays that are only read, and of those that are written.

    What is written is a floating-point number where one is read: others have no meaning as some integers.
    """
    kind = rng.random()
    if kind < 0.45:
        types = rng.sample(_SIGNED, rng.choice((2, 2, 3, 4)))
        return types, types
    if kind < 0.60:
        types = rng.sample(_UNSIGNED, rng.choice((2, 2, 3)))
        return types, [name for name in types if name != "bool"]
    if kind < 0.70 and not any(_ORDERED.search(line) for line in source.lines):
        types = rng.choice((["complex64", "float32"], ["complex128", "float64"], ["complex64", "complex128"]))
        return [*types, *rng.sample(_SMALL, 2)], [name for name in types if name.startswith("complex")]
    types = rng.choice((["float32"], ["float64"], ["float32", "float64"], ["float16"], ["float16", "float32"]))
    return [*types, *rng.sample(_SMALL, rng.choice((1, 2)))], types


def _with_factor(rng: random.Random, line: str, inames: Sequence[str]) -> str:
    """Return a statement whose value is increased by the factor, or multiplied by it or by one of *inames*, if any."""
    match = _STATEMENT.fullmatch(line)
    if match is None or "{atomic}" in line or rng.random() < 0.4:
        return line
    around = [name for name in inames if re.search(rf"\b{name}\b", match["left"])]
    form = rng.choice(("({}) * {}", "{} + {}", "{} - {}") if inames else ("{} + {}", "{} - {}"))
    factor = rng.choice(around) if around and "*" in form and rng.random() < 0.6 else FACTOR
    return f"{match['left']}{form.format(match['value'], factor)}{match['options'] or ''}"
