"""Sets and relations of ISL in the canonical form: as texts that do not depend on what was asked before."""

from __future__ import annotations

from typing import Any

import islpy as isl

from polyloop.memo import memoised
from polyloop.poly.budget import alone
from polyloop.poly.sets import set_text
from polyloop.serial.form import Adapter, adapt

__all__ = ["stored_map", "stored_set"]

_MOST_TURNS = 8


@memoised
def stored_set(found: isl.Set) -> str:
    """Return the text of a set of which reading it again gives the same text."""
    return _settled(found, isl.Set)


@memoised
def stored_map(found: isl.Map) -> str:
    """Return the text of a relation of which reading it again gives the same text."""
    return _settled(found, isl.Map)


def _settled(found: isl.Set | isl.Map, kind: type[isl.Set | isl.Map]) -> str:
    with alone():
        text = set_text(found)
        for _ in range(_MOST_TURNS):
            before, text = text, set_text(kind(text))
            if text == before:
                break
    return text


def _read(kind: Any) -> Any:  # noqa: ANN401 - a class of ISL
    def made(text: object) -> object:
        if not isinstance(text, str):
            raise ValueError("a set has no text")
        with alone():
            try:
                return kind(text)
            except isl.Error as error:
                raise ValueError(f"ISL cannot read {text!r}") from error

    return made


adapt(isl.Set, Adapter("Set", stored_set, _read(isl.Set)))
adapt(isl.Map, Adapter("Map", stored_map, _read(isl.Map)))
adapt(isl.BasicSet, Adapter("BasicSet", str, _read(isl.BasicSet)))
