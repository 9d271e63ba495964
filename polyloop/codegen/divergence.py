"""Shuffles need all lanes of a warp: none may stand where the lane decides whether it is executed."""

from __future__ import annotations

import re

from polyloop.codegen.c_ast import Block, For, Group, If, walk
from polyloop.codegen.scope import Scope
from polyloop.errors import Diagnostic

__all__ = ["refuse_divergent"]


def refuse_divergent(body: Block, scope: Scope) -> None:
    """Raise an error if a shuffle of a temporary stands under a condition, or in a loop, that depends on the lane.

    Raises
    ------
    CodegenError
        ``divergent-exchange``.
    """
    names = {storage.name for storage in scope.storage.values() if storage.lane is not None}
    if names:
        _look_at(body, scope, names)


def _look_at(body: Block, scope: Scope, names: set[str]) -> None:
    lane = str(scope.values["l.0"])
    call = scope.language.shuffle.split("(", maxsplit=1)[0]
    for node in walk(body):
        match node:
            case If(condition, inner, orelse, reads):
                text, parts = condition, (*inner, *orelse)
            case For(start=start, test=test, body=inner, reads=reads):
                text, parts = f"{start}, {test}", inner
            case _:
                continue
        if not reads and re.search(rf"\b{re.escape(lane)}\b", text) is None:
            continue
        for child in walk(parts):
            if isinstance(child, Group | For | If) or call not in repr(child):
                continue
            if found := sorted(names & child.uses):
                raise scope.error(
                    Diagnostic(
                        "divergent-exchange",
                        f"the lanes of a warp exchange '{found[0]}' where not all of them may be",
                        (f"the exchange would stand under '{text}', which may depend on the lane",),
                        ("take the value outside of the condition, or leave the temporary in shared memory",),
                    )
                )
