"""Loopy's classes for match expressions, as functions that return their text: ``lp.match.Id("init*")``."""
# ruff: noqa: N802, ANN401  # classes in Loopy; expressions and texts

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyloop.loopy.tags import tag_name

__all__ = ["All", "And", "Id", "Iname", "Not", "ObjTagged", "Or", "Reads", "Tagged", "Writes", "parse_match"]


def All() -> str:
    """Return the expression of all instructions."""
    return "id:*"


def Id(glob: str) -> str:
    """Return the expression of instructions by their ids."""
    return f"id:{glob}"


def Iname(glob: str) -> str:
    """Return the expression of instructions in loops."""
    return f"iname:{glob}"


def Reads(glob: str) -> str:
    """Return the expression of instructions that read variables."""
    return f"reads:{glob}"


def Writes(glob: str) -> str:
    """Return the expression of instructions that write variables."""
    return f"writes:{glob}"


def Tagged(glob: str) -> str:
    """Return the expression of instructions with tags that are names."""
    return f"tag:{glob}"


def ObjTagged(tag: Any) -> str:
    """Return the expression of instructions with a tag of the script's own."""
    return f"tag:{tag_name(tag)}"


def And(children: Sequence[str]) -> str:
    """Return the expression of instructions that all of *children* match."""
    return " and ".join(f"({child})" for child in children)


def Or(children: Sequence[str]) -> str:
    """Return the expression of instructions that one of *children* matches."""
    return " or ".join(f"({child})" for child in children)


def Not(child: str) -> str:
    """Return the expression of instructions that *child* does not match."""
    return f"not ({child})"


def parse_match(expr: Any) -> Any:
    """Return *expr*: match expressions are texts."""
    return expr
