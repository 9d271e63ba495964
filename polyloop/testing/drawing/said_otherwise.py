"""Domains said in other words: brackets around ``and``, ``or`` and ``not``, ``exists``, what follows anyway, pieces.

The set stays the same, so the kernel must be the same; its twin has the domain as it was, where the set is all that
matters.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from polyloop.testing.drawing.random_kernels import Source

__all__ = ["SAID_OTHERWISE", "said_otherwise"]

SAID_OTHERWISE: Final = "bracketed domain"
_DOMAIN: Final = re.compile(r"(?P<head>.*\{\s*)(?P<tuple>\[(?P<inames>[^\]]*)\])\s*:(?P<condition>.*)\}\s*")
_EMPTY: Final = 0.06
"""Domains that are made empty."""
_CHAIN: Final = re.compile(r"^(\w+) <= (\w+) < (\w+)$")

_Rewrite = Callable[[random.Random, Sequence[str], str], str]


def said_otherwise(rng: random.Random, source: Source) -> Source:
    """Return *source* with the same domains in other words."""
    if any("begin" in domain for domain in source.domains):
        return source  # data decides these, and other words are refused
    old, new = list(source.domains), list(source.domains)
    for place, domain in enumerate(source.domains):
        match = _DOMAIN.fullmatch(domain)
        if match is None or (place and rng.random() < 0.6):
            continue
        inames = [name.strip() for name in match["inames"].split(",")]
        condition = match["condition"].strip()
        if not place and rng.random() < _EMPTY:
            x = rng.choice(inames)
            old[place] = f"{match['head']}{match['tuple']}: ({condition}) and {x} < {x} - 1 }}"
            condition = rng.choice((
                f"({condition}) and not ({condition})", f"({condition}) and {x} > 3 and not ({x} >= 2 or {x} < 0)",
                f"exists(e0: 2*e0 = {x} and {x} mod 2 = 1) and ({condition})", f"{x} != {x} and ({condition})",
            ))  # fmt: skip
        pieces = [_rewritten(rng, inames, condition)]
        if rng.random() < 0.25:
            cut = _cut(rng, inames)
            pieces = [_rewritten(rng, inames, f"({condition}) and {part}") for part in (cut, f"not ({cut})")]
        rng.shuffle(pieces)
        new[place] = f"{match['head']}{'; '.join(f'''{match['tuple']}: {piece}''' for piece in pieces)} }}"
    features = (*source.features, SAID_OTHERWISE)
    return replace(source, domains=tuple(new), features=features, twin=_twin(source, tuple(old), tuple(new)))


def _twin(source: Source, old: tuple[str, ...], new: tuple[str, ...]) -> Source | None:
    """Return the twin of a source with the domains *new* in the places of *old*."""
    twin = source.twin
    if not _is_whole(source):
        return replace(twin, domains=new) if twin is not None and twin.domains == source.domains else None
    if twin is not None and twin.domains != source.domains:  # of small inames, where those of the source are large
        return twin if old == source.domains else None
    return replace(source if twin is None else twin, domains=old, twin=None)


def _is_whole(source: Source) -> bool:
    """Return whether every statement has all inames of the first domain.

    Where one has some of them, how far these range is said by the constraints as written, and other words for the set
    are another program.
    """
    match = _DOMAIN.fullmatch(source.domains[0])
    assert match is not None, f"unexpected domain {source.domains[0]}"
    inames = {name.strip() for name in match["inames"].split(",")}
    around: list[str] = []
    for line in source.lines if len(inames) > 1 else ():
        text = line.strip()
        if text.startswith("for "):
            around.append(text.removeprefix("for "))
        elif text == "end":
            around.pop()
        elif ":=" not in text and not inames <= {*around, *re.findall(r"\w+", text)}:
            return False
    return True


def _rewritten(rng: random.Random, inames: Sequence[str], condition: str) -> str:
    for _ in range(rng.choice((1, 1, 2, 3))):
        condition = rng.choice(_REWRITES)(rng, inames, condition)
    return condition


def _cut(rng: random.Random, inames: Sequence[str]) -> str:
    x, y = rng.choice(inames), rng.choice(inames)
    return rng.choice((
        f"{x} <= {rng.randint(0, 4)}", f"({x} < {y} or {x} >= 3)", f"{x} mod 2 = 0", f"({x} + {y}) mod 3 = 1",
        f"exists(e1: {x} = 2*e1 + 1)", f"not ({x} = 2)", f"({x} = 1 or {y} = 2)",
    ))  # fmt: skip


def _conjuncts(text: str) -> list[str]:
    """Return the parts between ``and`` outside of brackets; the whole where there is an ``or``."""
    parts, depth, begin = [], 0, 0
    for found in re.finditer(r"[()]|\b(?:and|or)\b", text):
        word = found[0]
        depth += (word == "(") - (word == ")")
        if depth == 0 and word == "or":
            return [text]
        if depth == 0 and word == "and":
            parts.append(text[begin : found.start()].strip())
            begin = found.end()
    return [*parts, text[begin:].strip()]


def _negated_twice(rng: random.Random, inames: Sequence[str], condition: str) -> str:
    del rng, inames
    return f"not (not ({condition}))"


def _by_de_morgan(rng: random.Random, inames: Sequence[str], condition: str) -> str:
    del inames
    parts = _conjuncts(condition)
    rng.shuffle(parts)
    return f"not ({' or '.join(f'not ({part})' for part in parts)})"


def _in_other_order(rng: random.Random, inames: Sequence[str], condition: str) -> str:
    del inames
    parts = _conjuncts(condition)
    rng.shuffle(parts)
    turned = [_CHAIN.sub(r"\3 > \2 and \1 <= \2", part) if rng.random() < 0.5 else part for part in parts]
    return " and ".join(f"({part})" for part in turned)


def _by_cases(rng: random.Random, inames: Sequence[str], condition: str) -> str:
    cut = _cut(rng, inames)
    parts = [f"(({condition}) and {cut})", f"(({condition}) and not ({cut}))"]
    rng.shuffle(parts)
    return f"({' or '.join(parts)})"


def _overlapping(rng: random.Random, inames: Sequence[str], condition: str) -> str:
    x = rng.choice(inames)
    parts = [f"(({condition}) and {x} <= 4)", f"({x} >= {rng.randint(1, 4)} and ({condition}))"]
    rng.shuffle(parts)
    return f"({' or '.join(parts)})"


def _with_nothing(rng: random.Random, inames: Sequence[str], condition: str) -> str:
    """Return a union with an empty piece."""
    x, y = rng.choice(inames), rng.choice(inames)
    parts = [f"({condition})", rng.choice((f"({x} > {y} and {y} > {x})", f"({x} != {x})", f"(2*{x} = 2*{y} + 1)"))]
    rng.shuffle(parts)
    return f"({' or '.join(parts)})"


def _with_what_follows(rng: random.Random, inames: Sequence[str], condition: str) -> str:
    x, y = rng.choice(inames), rng.choice(inames)
    part = rng.choice(_conjuncts(condition))
    more = rng.choice((
        f"({part})", f"(({part}) or {x} = {y})", f"({x} <= {y} or {x} > {y})", f"exists(e2: e2 >= {x})",
        f"exists(e2: e2 = {x} + {y})", f"not ({x} < {y} and {y} < {x})", f"({condition})",
        f"exists(e2: {x} - 1 <= 2*e2 <= {x})", f"({x} mod 2 = 0 or {x} mod 2 = 1)",
    ))  # fmt: skip
    parts = [f"({condition})", more]
    rng.shuffle(parts)
    return " and ".join(parts)


def _by_another(rng: random.Random, inames: Sequence[str], condition: str) -> str:
    """Return that there is a number, of which the condition holds, that is an iname, or one less."""
    x, less = rng.choice(inames), rng.choice((0, 0, 1))
    free = next(name for name in ("e3", "e4", "e5", "e6") if name not in condition)
    value = f"({free} + {less})" if less else free
    inner = re.sub(rf"\b{x}\b", value, condition)
    return f"exists({free}: ({inner}) and {x} = {value})"


_REWRITES: Final[tuple[_Rewrite, ...]] = (
    _negated_twice, _by_de_morgan, _in_other_order, _in_other_order, _by_cases, _overlapping, _with_nothing,
    _with_what_follows, _with_what_follows, _by_another,
)  # fmt: skip
