"""Reduction of failures: fewer steps and statements, simpler expressions and domains, one size."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from polyloop.errors import PolyloopError
from polyloop.expr.parser import parse_expression
from polyloop.expr.printer import show
from polyloop.expr.rewrite import children
from polyloop.testing.drawing.random_chains import Step
from polyloop.testing.drawing.random_functions import PythonSource
from polyloop.testing.drawing.random_kernels import Source
from polyloop.testing.pairs import SIZES, Failure, Pair, check_pair

__all__ = ["reduced"]

_MOST: Final = 150
"""Attempts."""
_STATEMENT: Final = re.compile(r"(?P<head>\s*[^=]*?:?=\s)(?P<value>.*?)(?P<options>\s*\{[^{}]*\})?$")
_SQUARE: Final = "[n] -> {[i, j]: 0 <= i, j < n}"
_LINE: Final = "[n] -> {[i]: 0 <= i < n}"


def reduced(failure: Failure, attempts: int = _MOST) -> Failure:
    """Return a failure of the same kind that is as small as *attempts* tries could make it."""
    best = _again(replace(failure.pair, sizes=failure.pair.sizes or tuple(SIZES[:6])), failure.kind)
    if best is None:
        return failure  # it depends on what came before, or the process died
    improved = True
    while improved and attempts > 0:
        improved = False
        for candidate in _smaller(best.pair):
            attempts -= 1
            found = _again(candidate, failure.kind)
            if found is not None:
                best, improved = found, True
                break
            if attempts <= 0:
                break
    return best


def _again(pair: Pair, kind: str) -> Failure | None:
    """Return the failure of this kind that *pair* still has."""
    return next((failure for failure in check_pair(pair).failures if failure.kind == kind), None)


def _smaller(pair: Pair) -> Iterator[Pair]:
    """Yield simpler pairs, the simplest first."""
    for position in range(len(pair.steps)):
        yield replace(pair, steps=(*pair.steps[:position], *pair.steps[position + 1 :]))
    yield from _with_lines(pair, _fewer_lines(pair.source.lines))
    if isinstance(pair.source, Source) and pair.source.twin is not None:
        yield replace(pair, source=replace(pair.source, twin=None))
    if len(pair.sizes) > 1:
        yield from (replace(pair, sizes=(size,)) for size in sorted(pair.sizes))
    for position, step in enumerate(pair.steps):
        for simpler in _simpler_step(step):
            yield replace(pair, steps=(*pair.steps[:position], simpler, *pair.steps[position + 1 :]))
    if isinstance(pair.source, Source):
        yield from (replace(pair, source=source) for source in _simpler_source(pair.source))


def _with_lines(pair: Pair, candidates: Iterable[tuple[str, ...]]) -> Iterator[Pair]:
    """Yield *pair* with other statements, without a known meaning unless it is a Python function."""
    source = pair.source
    if isinstance(source, PythonSource):
        return
    for lines in candidates if source.twin is None else ():
        yield replace(pair, source=replace(source, lines=lines))


def _simpler_source(source: Source) -> Iterator[Source]:
    """Yield the same statements with simpler ones among them, with simpler domains, or with fewer arrays."""
    if source.twin is None:
        yield from (replace(source, lines=lines) for lines in _simpler_lines(source.lines))
    first, *rest = source.domains
    if first not in (_LINE, _SQUARE) and "nnz" not in str(source.data):
        yield from (replace(source, domains=(square, *rest)) for square in (_LINE, _SQUARE))
    for position in range(1, len(source.domains)):
        yield replace(source, domains=(*source.domains[:position], *source.domains[position + 1 :]))
    used = "\n".join(source.lines)
    data = tuple(entry for entry in source.data if f"{getattr(entry, 'name', '')}[" in used)
    if len(data) < len(source.data) and not source.features:
        yield replace(source, data=data)


def _fewer_lines(lines: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield *lines* without a statement, without a block, or without the loop around a block."""
    for position, line in enumerate(lines):
        text = line.strip()
        if text.startswith("for "):
            end = _end(lines, position)
            yield (*lines[:position], *lines[end + 1 :])
            yield (*lines[:position], *lines[position + 1 : end], *lines[end + 1 :])
        elif text != "end":
            yield (*lines[:position], *lines[position + 1 :])


def _end(lines: tuple[str, ...], begin: int) -> int:
    depth = 0
    for position in range(begin, len(lines)):
        text = lines[position].strip()
        depth += text.startswith("for ") - (text == "end")
        if depth == 0:
            return position
    raise AssertionError("a loop is not closed")


def _simpler_step(step: Step) -> Iterator[Step]:
    for name in step.arguments:
        rest = {key: value for key, value in step.arguments.items() if key != name}
        if name in ("outer_tag", "inner_tag", "slabs", "temporary_address_space", "default_tag"):
            yield Step(step.name, rest)
        if name == "inner_length" and step.arguments[name] > 2:
            yield Step(step.name, {**step.arguments, name: 2})
        if name == "sweep_inames":
            names = step.arguments[name]
            yield from (Step(step.name, {**step.arguments, name: [x for x in names if x != out]}) for out in names)


def _simpler_lines(lines: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield *lines* with a simpler right-hand side, or without the options of a statement."""
    for position, line in enumerate(lines):
        match = _STATEMENT.fullmatch(line)
        if match is None or line.strip().startswith("for "):
            continue
        options = match["options"] or ""
        values = [*_parts(match["value"])]
        candidates = [f"{match['head']}{value}{options}" for value in values]
        if options:
            candidates.insert(0, f"{match['head']}{match['value']}")
        for candidate in candidates:
            yield (*lines[:position], candidate, *lines[position + 1 :])


def _parts(value: str) -> Iterator[str]:
    """Yield the operands of an expression, as text."""
    try:
        expr = parse_expression(value)
    except PolyloopError:
        return
    for child in children(expr):
        text = show(child)
        if text != value:
            yield text
