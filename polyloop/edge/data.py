"""JSON text, validated as data that may have been edited by hand."""

from __future__ import annotations

import json
import re
from typing import Final

__all__ = ["parse_json"]

_DEEPEST: Final = 50
"""Brackets inside of each other, of which no text of ours has more than ten."""
_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{\]}]', re.DOTALL)
_LONGEST_NUMBER: Final = 400
_DIGITS: Final = re.compile(rf"\d{{{_LONGEST_NUMBER}}}")


def parse_json(text: str) -> object:
    """Parse *text* as JSON, within limits on depth and length of numbers.

    Raises
    ------
    ValueError
        The text is no JSON, has brackets too deep inside of each other, a name twice in an object, or a huge number.
    """
    depth = 0
    for found in _BRACKET.finditer(text):
        letter = found.group()[0]
        depth += (letter in "[{") - (letter in "]}")
        if depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} brackets are open at character {found.start()}")
    if long := _DIGITS.search(text):
        raise ValueError(f"a number has more than {_LONGEST_NUMBER} digits, at character {long.start()}")
    value: object = json.loads(text, object_pairs_hook=_once)
    return value


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object as a dict; raise ``ValueError`` for a repeated name."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {json.dumps(twice)} stands twice in one object")
    return found
