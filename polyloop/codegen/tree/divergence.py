"""Shuffles and matrix instructions need all lanes of a warp: none may stand where a lane decides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from polyloop.codegen.scope import Scope
from polyloop.codegen.tree.c_ast import Block, Call, For, Group, If, walk
from polyloop.errors import Diagnostic
from polyloop.kernel.intrinsic import WARP
from polyloop.mapping.mixed_radix import Digit

__all__ = ["MATRIX", "refuse_divergent"]

MATRIX: Final = "matrix "
"""What the keys of the functions begin with that whole warps call for matrices."""


def refuse_divergent(body: Block, scope: Scope, digits: Iterable[Digit] = ()) -> None:
    """Raise an error if a shuffle or matrix instruction stands under a condition, or in a loop, that a lane decides.

    Parameters
    ----------
    digits
        The digits of the thread number that conditions may contain.

    Raises
    ------
    CodegenError
        ``divergent-exchange``, ``bad-tensorize``.
    """
    digits = tuple(digits)
    if digits and (functions := [name for key, name in scope.helper_names.items() if key.startswith(MATRIX)]):
        lanes = [str(scope.values[digit.axis]) for digit in digits if digit.stride % WARP]
        _look_for(body, scope, [*lanes, *(str(scope.values[axis]) for axis in ("l.0", "l.1", "l.2"))], functions)
    names = {storage.name for storage in scope.storage.values() if storage.lane is not None}
    if names:
        _look_at(body, scope, names)


def _parts_of_lanes(body: Block, scope: Scope, lanes: Iterable[str]) -> Iterator[tuple[str, Block]]:
    """Yield the conditions and bounds that may depend on data or on one of *lanes*, with what they decide about."""
    of_lane = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in lanes))
    for node in walk(body):
        match node:
            case If(condition, inner, orelse, reads):
                text, parts = condition, (*inner, *orelse)
            case For(start=start, test=test, body=inner, reads=reads):
                text, parts = f"{start}, {test}", inner
            case _:
                continue
        shown = scope.indices.plain(text)
        if reads or of_lane.search(shown) is not None:
            yield shown, parts


def _look_for(body: Block, scope: Scope, lanes: Iterable[str], functions: Iterable[str]) -> None:
    called = re.compile("|".join(rf"^{re.escape(name)}\(" for name in functions))
    for shown, parts in _parts_of_lanes(body, scope, lanes):
        found = next((child for child in walk(parts) if isinstance(child, Call) and called.match(child.text)), None)
        if found is not None:
            raise scope.error(
                Diagnostic(
                    "bad-tensorize",
                    f"the matrix instruction of '{found.instruction}' would stand where not all lanes of a warp may be",
                    (f"it would stand under '{shown}', which may depend on the lane, or on data",),
                    ("take the product outside of the condition, or leave out tensorize",),
                )
            )


def _look_at(body: Block, scope: Scope, names: set[str]) -> None:
    call = scope.language.shuffle.split("(", maxsplit=1)[0]
    for shown, parts in _parts_of_lanes(body, scope, [str(scope.values["l.0"])]):
        for child in walk(parts):
            if isinstance(child, Group | For | If) or call not in repr(child):
                continue
            if found := sorted(names & child.uses):
                raise scope.error(
                    Diagnostic(
                        "divergent-exchange",
                        f"the lanes of a warp exchange '{found[0]}' where not all of them may be",
                        (f"the exchange would stand under '{shown}', which may depend on the lane",),
                        ("take the value outside of the condition, or leave the temporary in shared memory",),
                    )
                )
