"""Conditions of full tiles, from rows.

For each row of a statement's domain, the condition is the row at its worst values of the variables that vary in the
tile: inner loops and the threads of the block.  Any set of such rows may be the condition of a special case, because
both cases are generated from the exact domains.  An omitted row only leaves a test in the fast case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd

from polyloop.codegen.loops.bounds import minimal
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.rows import Divisibility, Piece, negated, pieces_of, tightened
from polyloop.frozen import replace
from polyloop.kernel.tree import Barrier, Loop, Run, Tree, has_barrier
from polyloop.poly.affine import Affine, Floor, Var
from polyloop.schedule.plan import Share, Statement, Tensor

__all__ = ["Place", "Tile", "full_tile", "places"]


@dataclass(frozen=True)
class Place:
    """A statement and the loops around it, outermost first, each with True if it has a barrier."""

    statement: Statement
    loops: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Tile:
    """Tile to separate: a block, or an iteration of a loop.

    Attributes
    ----------
    outer
        The variables that number tiles: the group axes, or the loop.
    known
        Variables with a value at the place of the test, equal for all threads.
    holds_barrier
        True if there is a barrier inside.
    lanes
        Inames of the lanes of vectors.
    """

    outer: frozenset[str]
    known: frozenset[str]
    holds_barrier: bool
    lanes: frozenset[str] = frozenset()


def places(
    tree: Tree, statements: Mapping[str, Statement], loops: tuple[tuple[str, bool], ...] = ()
) -> Iterator[Place]:
    """Yield every statement of *tree* with the loops around it."""
    for node in tree:
        match node:
            case Run(name):
                statement = statements[name]
                action = statement.action
                if isinstance(action, Tensor) and action.share not in {Share.FIRST, Share.LAST}:
                    statement = action.original
                yield Place(statement, loops)
            case Loop(iname, body):
                yield from places(body, statements, (*loops, (iname, has_barrier(body))))
            case Barrier():
                pass


def _of_a_lane(row: Affine, tile: Tile, context: Context, piece: Piece) -> Affine:
    """Return *row* for its best lane if it always cuts a vector, so partial vectors do not make a tile partial.

    For example, each row of an array without its boundary is one tile, although the first and the last vector of it
    have a lane that does not run.
    """
    for lane in tile.lanes & row.names():
        coefficient = row.coefficient(lane)
        worst, best = (_limit(lane, sign * coefficient, context, piece) for sign in (1, -1))
        if worst is None or best is None:
            return row
        all_run, one_runs = (row.substitute({lane: Affine((), value)}) for value in (worst, best))
        is_cut = tightened(all_run).const != tightened(one_runs).const and tightened(all_run).terms != all_run.terms
        if is_cut and abs(best - worst) + 1 == gcd(*(factor for _, factor in all_run.terms)):
            row = tightened(one_runs)
    return row


def _worst(row: Affine, tile: Tile, context: Context, piece: Piece) -> Affine | None:
    """Return the weakest known row that implies *row* for all values of the variables that vary in *tile*, else None.

    The values of these variables are limited by their intervals, and by rows such as ``16 * hc + hi < 18``.
    """
    best = _worst_by_box(row, tile, context, piece)
    unknown = {term for term in row.terms if term[0] not in tile.known}
    if len(unknown) < 2:
        return best
    for terms, const in piece.items():
        shared = unknown.intersection(terms)
        if len(shared) > 1 and not any(var in tile.outer for var, _ in terms):
            found = _worst_by_box(row.add(Affine(terms, const), -1), tile, context, piece)
            if found is not None and (best is None or (found.terms == best.terms and found.const > best.const)):
                best = found
    return best


def _worst_by_box(row: Affine, tile: Tile, context: Context, piece: Piece) -> Affine | None:
    """Return *row* at the worst values of the variables that vary in *tile*, None if one is unbounded."""
    terms: list[tuple[Var, int]] = []
    const = row.const
    for var, coefficient in row.terms:
        if isinstance(var, Floor):
            if not Affine(var.terms, 0).names() <= tile.known:
                return None
            terms.append((var, coefficient))
        elif var in tile.known:
            terms.append((var, coefficient))
        else:
            limit = _limit(var, coefficient, context, piece)
            if limit is None:
                return None
            const += coefficient * limit
    return tightened(Affine(tuple(terms), const))


def _limit(var: str, coefficient: int, context: Context, piece: Piece) -> int | None:
    """Return the worst value of *var* for a row: the least for a positive *coefficient*, else the greatest."""
    low, high = context.interval(var)
    sign = 1 if coefficient > 0 else -1
    own = piece.get(((var, sign),))
    found = low if sign > 0 else high
    if own is not None:
        return -sign * own if found is None else max(found, -own) if sign > 0 else min(found, own)
    return found


def _pays(row: Affine, place: Place, tile: Tile) -> bool:
    """Return True if the separation removes a test of *row* from a loop, or next to a barrier."""
    inner = {name for name, _ in place.loops}
    mentioned = row.names()
    if mentioned & inner - tile.outer:
        return True
    within_barriers = any(holds for name, holds in place.loops if name not in tile.outer)
    if tile.outer <= inner:
        return tile.holds_barrier or len(place.loops) > 1
    return within_barriers and bool(mentioned - tile.known)


def full_tile(
    tile: Tile, all_places: tuple[Place, ...], context: Context, parameters: frozenset[str], divisibility: Divisibility
) -> list[Affine]:
    """Return the rows under which a tile is full; empty if there are none or the separation does not pay.

    Parameters
    ----------
    all_places
        The statements in the tile.  For a loop, the loop itself is the first in each place.
    """
    if not any(place.loops for place in all_places):
        return []
    values = parameters | {f"{name}#" for name in divisibility}
    tile = replace(tile, known=tile.known | values)
    found: dict[Affine, None] = {}
    pays = False
    for place in all_places:
        pieces = pieces_of(place.statement, frozenset(place.statement.dims), divisibility)
        if len(pieces) != 1:
            continue
        (piece,) = pieces
        for terms, const in piece.items():
            row = Affine(terms, const)
            if not row.names() & tile.outer or context.implies(row) or _is_equality(row, piece):
                continue
            row = _of_a_lane(row, tile, context, piece)
            full = _worst(row, tile, context, piece)
            if full is None or not full.names() & tile.outer or context.implies(full):
                continue
            if context.implies(negated(full)):
                return []
            found[full] = None
            pays = pays or _pays(row, place, tile)
    return minimal(tuple(found), context) if pays else []


def _is_equality(row: Affine, piece: Piece) -> bool:
    opposite = row.scale(-1)
    return piece.get(opposite.terms) == opposite.const
