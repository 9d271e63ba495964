"""Maps between inames as text: ``{[i, j] -> [t, j]: t = i + j}``, or with expressions: ``{[i, j] -> [i, j + i]}``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import islpy as isl

from polyloop.errors import Diagnostic
from polyloop.expr.names import check_identifier
from polyloop.kernel.kernel import LoopKernel
from polyloop.transform.base import iname_violations, new_name_violations

__all__ = ["InameMap", "read_map"]

_EXAMPLE: Final = 'a map reads like "{[i, j] -> [t, j]: t = i + j}", or "{[i, j] -> [i, j + i]}"'
_HEAD: Final = re.compile(r"\s*(?:\[([^\[\]{}]*)\]\s*->\s*)?\{\s*\[([^\[\]]*)\]\s*->\s*\[", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_]\w*'?", re.ASCII)
_WORD: Final = re.compile(r"(?<![\w'])([A-Za-z_]\w*)", re.ASCII)
_NAMED: Final = re.compile(r"([A-Za-z_]\w*)'?\s*=(?!=)\s*(.+)", re.ASCII | re.DOTALL)


@dataclass(frozen=True, eq=False)
class InameMap:
    """``{ old -> new }``, as the user wrote it."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    relation: isl.Map


def read_map(kernel: LoopKernel, text: str) -> InameMap | Diagnostic:
    """Return the parsed map, or a diagnostic of its first error.

    A new iname that is given as an expression is called by its first old iname that is not kept.
    """
    head = _HEAD.match(text)
    end = _closing(text, head.end()) if head else -1
    if head is None or end < 0 or not re.fullmatch(r"\s*(:.*)?\}\s*", text[end + 1 :], re.DOTALL):
        return _bad(text, "this is no map from inames to inames")
    old = _split(head.group(2))
    entries = _split(text[head.end() : end])
    if problem := _tuple_problem(kernel, text, old, entries):
        return problem
    names, terms = _names(kernel, old, entries)
    if problem := next(_name_problems(kernel, old, names), None):
        return problem
    parameters = list(kernel.parameters) if head.group(1) is None else _split(head.group(1))
    if stranger := next((name for name in parameters if name not in kernel.parameters), None):
        return _bad(text, f"'{stranger}' is no parameter of the kernel")
    rest = text[end + 1 :].rstrip().replace("==", "=")
    spelt = f"[{', '.join(parameters)}] -> {{ [{', '.join(old)}] -> [{', '.join(terms)}]{rest}"
    try:
        relation = isl.Map(spelt)
    except isl.Error:
        known = ", ".join((*old, *(name for name in names if name not in old), *parameters))
        return _bad(text, f"an affine condition is expected; the names that may occur are {known}")
    if relation.is_empty():
        return _bad(text, "it maps nothing")
    return InameMap(tuple(old), tuple(names), relation)


def _bad(text: str, message: str) -> Diagnostic:
    return Diagnostic("bad-map", f"'{text}': {message}", hints=(_EXAMPLE,))


def _closing(text: str, start: int) -> int:
    """Return the position of the bracket that closes the tuple which begins at *start*, -1 if there is none."""
    depth = 1
    for position in range(start, len(text)):
        depth += (text[position] in "[(") - (text[position] in "])")
        if depth == 0:
            return position
    return -1


def _split(text: str) -> list[str]:
    """Return the entries of a tuple."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts] if text.strip() else []


def _tuple_problem(kernel: LoopKernel, text: str, old: Sequence[str], entries: Sequence[str]) -> Diagnostic | None:
    if not old or not entries or not all((*old, *entries)):
        return _bad(text, "both tuples need entries")
    for name in old:
        if not _NAME.fullmatch(name):
            return _bad(text, f"'{name}' is no iname: the left tuple lists the inames to replace")
        if problem := next(iname_violations(kernel, name), None):
            return problem
    if len(set(old)) < len(old):
        return _bad(text, "an iname occurs twice on the left")
    return None


def _names(kernel: LoopKernel, old: Sequence[str], entries: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of the new inames, and the expressions for them in ISL's syntax."""
    names: list[str | None] = []
    terms: list[str] = []
    for entry in entries:
        named = _NAMED.fullmatch(entry)
        if _NAME.fullmatch(entry):
            names.append(entry)
            terms.append(entry)
        elif named:
            names.append(named.group(1))
            terms.append(named.group(2) if named.group(1) in old else entry)
        else:
            names.append(None)
            terms.append(entry)
    taken = {name for name in names if name is not None}
    chosen = []
    for name, term in zip(names, terms, strict=True):
        if name is None:
            mentioned = [word for word in _WORD.findall(term) if word in old]
            wish = next((word for word in mentioned if word not in taken), None)
            name = wish or kernel.fresh(f"{mentioned[0] if mentioned else old[0]}_new", taken)  # noqa: PLW2901
            taken.add(name)
        chosen.append(name)
    return chosen, terms


def _name_problems(kernel: LoopKernel, old: Sequence[str], names: Sequence[str]) -> Iterator[Diagnostic]:
    for name in names:
        if problem := check_identifier(name, "iname"):
            yield problem
        if names.count(name) > 1:
            yield Diagnostic("name-taken", f"two new inames would be called '{name}'", hints=("give two names",))
    yield from new_name_violations(kernel, [name for name in names if name not in old])
