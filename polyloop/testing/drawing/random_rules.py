"""Substitution rules, inserted into a random kernel for parts of expressions, under colliding names.

The kernel must keep its meaning.  Parameters are called as inames, sizes, rules and each other, in any order.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Final

__all__ = ["COLLIDING", "with_rules"]

COLLIDING: Final = ("i", "j", "k", "m", "n", "p", "l0", "i_outer", "i_inner", "j_inner", "s0")
"""Names that parameters of rules may have."""

_STATEMENT: Final = re.compile(
    r"(?P<indent>\s*)(?P<left>(<> )?\w+(\[[^=]*\])?) = (?P<right>[^{]*?)(?P<options> \{.*\})?$"
)
_PLACE: Final = re.compile(r"(?<=[\[ ])(?<!- )([ijkm]) \+ (\d)(?=[\],])")
_CONDITION: Final = re.compile(r"\{if=(.*)\}")


def with_rules(rng: random.Random, lines: Sequence[str], inames: Sequence[str]) -> list[str]:
    """Return *lines*, statements over *inames* and ``for`` lines, with some of their expressions as rules."""
    rules: list[str] = []
    found: list[str] = []
    for line in lines:
        match = _STATEMENT.fullmatch(line)
        if match is None or ":=" in line:
            found.append(line)
            continue
        left, right, options = match["left"], match["right"], match["options"] or ""
        condition = _CONDITION.search(options)
        if condition is not None and rng.random() < 0.6:
            options = f" {{if={_rule(rng, rules, condition[1], inames)}}}"
        if rng.random() < 0.4:
            right = _rule(rng, rules, right, inames)
            if rng.random() < 0.3:
                right = _rule(rng, rules, right, inames)
        else:
            right = _with_places(rng, rules, right)
        left = _with_places(rng, rules, left)
        found.append(f"{match['indent']}{left} = {right}{options}")
    return [*rules, *found]


def _rule(rng: random.Random, rules: list[str], text: str, inames: Sequence[str]) -> str:
    """Return a use of a new rule with the value *text*, whose parameters replace some of its *inames*."""
    used = [iname for iname in inames if re.search(rf"\b{iname}\b", text) and rng.random() < 0.85]
    rng.shuffle(used)
    kept = {*re.findall(r"\w+", text)} - {*used}
    names = dict(zip(used, rng.sample([name for name in COLLIDING if name not in kept], len(used)), strict=True))
    value = re.sub(r"\b\w+\b", lambda word: names.get(word[0], word[0]), text)
    name = f"l{len(rules)}"
    rules.append(f"{name}({', '.join(names.values())}) := {value}")
    return f"{name}({', '.join(used)})"


def _with_places(rng: random.Random, rules: list[str], text: str) -> str:
    """Return *text* with rules in some of its subscripts."""

    def place(match: re.Match[str]) -> str:
        if rng.random() < 0.7:
            return match[0]
        parameter, name = rng.choice(COLLIDING), f"l{len(rules)}"
        rules.append(f"{name}({parameter}) := {parameter} + {match[2]}")
        return f"{name}({match[1]})"

    return _PLACE.sub(place, text)
