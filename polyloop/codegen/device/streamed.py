"""Arrays that are written once: their stores past the caches, and notes on those that take the usual way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from polyloop.codegen.device.entries import Stores
from polyloop.codegen.expressions.types import WORD
from polyloop.codegen.language import Language
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree.c_ast import Block
from polyloop.codegen.tree.past_caches import fenced, past_caches, stored_past_caches
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import array_name, targets_of
from polyloop.kernel.arrays import ArrayArg
from polyloop.schedule.plan import Statement

__all__ = ["seen_by_others", "streamed"]


def streamed(body: Block, scope: Scope, statements: Iterable[Statement]) -> Block:
    """Return the body of a launch with stores past the caches, and note the arrays of which none is stored so."""
    statements = list(statements)
    written = {array_name(target) for statement in statements for target in targets_of(statement.lhs)}
    meant = {name: array for name, array in scope.memory.arrays.items() if array.is_used_once and name in written}
    if not meant:
        return body
    stores, stored = scope.language.find(Stores), frozenset[str]()
    if stores is not None:
        body = past_caches(body, stores, dict(_elements(scope, stores, meant.values())), scope.names.fresh)
        stored = stored_past_caches(body, stores)
        if stored and stores.line:
            scope.define(stores.line)
    for statement in statements:
        for name in map(array_name, targets_of(statement.lhs)):
            if name in meant and name not in stored:
                scope.findings.notes[statement.instruction, name] = _note(statement, name, scope.language.name, stores)
    return body


def _elements(scope: Scope, stores: Stores, arrays: Iterable[ArrayArg]) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield the arrays that can be stored past the caches, with the type of an element and its bytes."""
    for array in arrays:
        dtype = array.dtype
        assert dtype is not None, f"'{array.name}' has no type"
        if array.name not in scope.memory.split and (
            stores.line or (dtype.kind in "iuf" and dtype.itemsize >= WORD)
        ):
            yield array.name, (scope.ctype(dtype), dtype.itemsize)


def seen_by_others(body: Block, language: Language) -> Block:
    """Return the body of a launch whose threads let others see what they stored past the caches."""
    stores = language.find(Stores)
    return fenced(body, stores) if stores is not None and stores.fence else body


def _note(statement: Statement, name: str, language: str, stores: Stores | None) -> Diagnostic:
    """Return the note that an array takes the usual way to memory."""
    reason, hint = f"target '{language}' has no other stores", "leave out write_once for this target"
    if stores is not None and stores.line:
        reason = f"only loops over lanes (vec) that set {stores.least} bytes or more of neighbours are stored past them"
        hint = f"divide the loop along which '{name}' is stored: pl.split_iname(knl, iname, 16, inner_tag=\"vec\")"
    elif stores is not None:
        reason, hint = "numbers of 32 and 64 bits are stored past them", "leave out write_once"
    return Diagnostic(
        "plain-stores",
        f"'{statement.instruction}' stores '{name}' in the caches, although it is written once",
        (reason,),
        (hint,),
    )
