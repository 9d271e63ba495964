"""Text of helper functions, of which entries have the lines."""

from __future__ import annotations

from collections.abc import Sequence

from polyloop.codegen.scope import Scope

__all__ = ["helper_text"]


def helper_text(scope: Scope, lines: Sequence[str], name: str) -> str:
    """Return the text of a helper function; *lines* are its result type with parameters, then its body."""
    result, _, parameters = lines[0].partition(" (")
    head = f"{scope.language.syntax.helper} {result} {name}({parameters}"
    body = (line if line.startswith("#") else f"    {line}" for line in lines[1:])
    return "\n".join([head, "{", *body, "}"])
