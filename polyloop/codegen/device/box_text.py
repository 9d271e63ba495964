"""Calls of a copy engine: rings are opened, copies of boxes are started, and waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pymbolic.primitives as p

from polyloop.codegen.device.box_test import PIECE_BYTES, TILE_BYTES
from polyloop.codegen.device.entries import Boxes, Roles
from polyloop.codegen.device.helpers import helper_text
from polyloop.codegen.device.matrix import publication
from polyloop.codegen.device.shared_operands import GROUP_BYTES
from polyloop.codegen.expressions.expressions import Expressions
from polyloop.codegen.expressions.linear import form_text
from polyloop.codegen.loops.context import Context
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Block, Call
from polyloop.expr.nodes import Expression, array_name
from polyloop.frozen import replace
from polyloop.schedule.copy_engine import (
    AwaitBox,
    AwaitStores,
    FreeSlot,
    OpenRings,
    Pieces,
    StartBox,
    StoreBox,
    TensorMap,
)
from polyloop.schedule.plan import Statement

__all__ = ["box_block"]


def box_block(expressions: Expressions, statement: Statement, context: Context) -> Block:
    """Return the calls of a statement of a copy engine."""
    calls = _Calls(expressions, statement, context)
    match statement.action:
        case OpenRings(rings, frees):
            return tuple(calls.opening(rings, frees))
        case FreeSlot() as freed:
            return (calls.freeing(freed),)
        case AwaitBox() as wait:
            return (calls.waiting(wait),)
        case StartBox() as start:
            return tuple(calls.loads(start))
        case StoreBox() as store:
            return tuple(calls.stores(store))
        case AwaitStores():
            return (calls.stores_read(),)
        case _:
            raise AssertionError(f"'{statement.name}' is of no copy engine")


class _Calls:
    """The calls of one statement, for a context."""

    def __init__(self, expressions: Expressions, statement: Statement, context: Context) -> None:
        self.expressions, self.statement, self.context = expressions, statement, context
        self.scope = expressions.scope
        self.functions = self.scope.language.need(Boxes)

    def opening(self, rings: Sequence[tuple[str, int]], frees: int) -> Iterator[Call]:
        """Yield the initializations of rings, with phases that end when slots have been freed *frees* times, if any."""
        for ring, slots in rings:
            place, count = self._place(ring, 0), c.integer(slots)
            if frees:
                functions = self.scope.language.need(Roles)
                yield self._call("ring_open_free", functions.open, place, count, c.integer(frees))
            else:
                yield self._call("ring_open", self.functions.open, place, count)

    def freeing(self, freed: FreeSlot) -> Call:
        """Return the end of the use of a slot by a warp, or by a group of four."""
        functions = self.scope.language.need(Roles)
        name, lines = "ring_free", functions.free
        if freed.is_of_group:
            name, lines = "ring_free_group", functions.free_of_group
        made = self._call(name, lines, self._place(freed.ring, freed.slot))
        return replace(made, instruction=self.statement.instruction)

    def waiting(self, wait: AwaitBox) -> Call:
        """Return the wait for a slot of a ring."""
        index = self.expressions.value(wait.slot, self.context)
        bits = c.Unary(c.ADDRESS, self.expressions.element(p.Variable(wait.phases), self.context))
        made = self._call("ring_wait", self.functions.wait, self._place(wait.ring, 0), index, bits)
        return replace(made, instruction=self.statement.instruction)

    def loads(self, start: StartBox) -> Iterator[Call]:
        """Yield the starts of the copies of a box to shared memory."""
        slot, described = self._place(start.ring, start.slot), start.map
        yield self._call("ring_expect", self.functions.expect, slot, c.integer(start.bytes))
        self._describe(described, array_name(self.statement.lhs))
        name, lines = f"box_{len(described.box)}d", self.functions.load(len(described.box))
        for tile, at in self._boxes(start.pieces):
            made = self._call(name, lines, tile, _map(described), slot, *at)
            yield replace(made, instruction=self.statement.instruction)

    def stores(self, store: StoreBox) -> Iterator[Call]:
        """Yield the copies of a box to the array, with the wait for them if it is not late."""
        described = store.map
        if store.has_fence:
            yield publication(self.scope)
        self._describe(described, array_name(self.statement.rhs))
        name, lines = f"store_box_{len(described.box)}d", self.functions.store(len(described.box))
        for tile, at in self._boxes(store.pieces):
            made = self._call(name, lines, _map(described), tile, *at)
            yield replace(made, instruction=self.statement.instruction)
        if not store.is_once:
            yield self._call("boxes_stored", self.functions.stored[1])
        elif not store.is_late:
            yield self.stores_read()

    def stores_read(self) -> Call:
        """Return the wait until the elements of stored boxes have been read."""
        return self._call("boxes_read", self.functions.stored[0])

    def _boxes(self, pieces: Pieces) -> Iterator[tuple[c.Code, list[c.Code]]]:
        """Yield the address in the tile, and the subscripts in the array, with which each box begins."""
        for element, subscripts in pieces:
            assert isinstance(element, p.Subscript), "a tile has subscripts"
            at = [form_text(subscript, self.scope, self.context) for subscript in subscripts]
            yield self._place(array_name(element), *element.index_tuple), at

    def _place(self, name: str, *indices: Expression) -> c.Code:
        """Return the address of an element."""
        element = p.Subscript(p.Variable(name), indices)
        return c.Unary(c.ADDRESS, self.expressions.unswizzled(element, self.context))

    def _call(self, name: str, lines: Sequence[str], *arguments: c.Code) -> Call:
        """Return the call of a helper function; *lines* are as in :class:`Boxes`."""
        helper = self.scope.shared_helper(name, name, lambda: helper_text(self.scope, lines, name))
        return Call(c.Apply(helper, arguments), "")

    def _describe(self, described: TensorMap, tile: str) -> None:
        """Define the type of descriptions, and note the alignment that a copy engine asks for."""
        name, definition = self.functions.type
        self.scope.shared_helper(name, name, lambda: definition)
        aligned = self.scope.findings.aligned
        unit = TILE_BYTES if not described.swizzle else GROUP_BYTES
        for entry, least in ((described.array, PIECE_BYTES), (tile, unit)):
            aligned[entry] = max(least, aligned.get(entry, 0))


def _map(described: TensorMap) -> c.Code:
    return c.Unary(c.ADDRESS, c.Name(described.name))
