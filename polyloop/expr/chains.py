"""Chains such as ``a + b + c`` mean ``(a + b) + c``, as in Python: each operation has the type of its own operands.

The parser makes one node of a chain.  Its first operands are computed in a type of their own where a later one is
wider: in ``u[i] + v[i] + x[i]`` with uint8 and float32, the first sum wraps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeAlias, cast

import pymbolic.primitives as p

from polyloop.expr.dtypes import computed, is_bool, is_integer
from polyloop.expr.nodes import Expression, subtrahend
from polyloop.expr.promotion import ScalarType, TypeConflictError, Weak, common_type
from polyloop.expr.records import is_record
from polyloop.expr.rewrite import children

__all__ = ["CHAINS", "Chain", "operands", "paired", "side_by_side"]

Chain: TypeAlias = p.Sum | p.Product | p.BitwiseAnd | p.BitwiseOr | p.BitwiseXor
CHAINS: Final = frozenset({p.Sum, p.Product, p.BitwiseAnd, p.BitwiseOr, p.BitwiseXor})


def operands(expr: Expression) -> tuple[Expression, ...]:
    """Return the operands of a node: ``b`` for a term ``-1*b`` of a sum, which subtracts it, and 3 for a term -3."""
    if type(expr) is not p.Sum:
        return children(expr)
    first, *rest = expr.children
    return (first, *map(_taken, rest))


def side_by_side(
    kind: type, mine: Sequence[Expression], theirs: Sequence[Expression]
) -> Iterator[tuple[Expression, Expression]]:
    """Yield the operands of two nodes of one kind in pairs; of terms that both sums subtract, what is subtracted.

    A term ``-2*x`` has no type of its own where ``x`` is unsigned.
    """
    for position, (x, y) in enumerate(zip(mine, theirs, strict=True)):
        first, second = (subtrahend(x), subtrahend(y)) if kind is p.Sum and position else (None, None)
        yield (x, y) if first is None or second is None else (first, second)


def _taken(part: Expression) -> Expression:
    """Return the operand that a term of a sum adds or subtracts."""
    if type(part) is int and part < 0:
        return -part
    return part if (taken := subtrahend(part)) is None else taken


def paired(expr: Expression, types: Sequence[ScalarType | None]) -> Expression:
    """Return a chain with the operands that have a type of their own as a chain in it; *expr* where none have.

    *types* are those of its :func:`operands`.  A leading ``-1`` is the sign of the whole product.
    """
    if len(types) < 3:
        return expr
    kind, parts = type(expr), cast("Chain", expr).children
    first = int(kind is p.Product and type(parts[0]) is int and parts[0] == -1)
    count = _own(tuple(types[first:]))
    if count == 0:
        return expr
    last = first + count
    return cast("Expression", kind((*parts[:first], kind(parts[first:last]), *parts[last:])))


@lru_cache(maxsize=4096)
def _own(types: tuple[ScalarType | None, ...]) -> int:
    """Return the number of leading operands computed in another type than the rest, 0 for none."""
    count, have = 0, types[0]
    for number, kind in enumerate(types[1:], 1):
        if have is None or kind is None:
            return 0
        try:
            both = common_type((have, kind))
        except TypeConflictError:
            return 0
        if number > 1 and _differ(have, both):
            count = number
        have = both
    return count


def _differ(have: ScalarType, both: ScalarType) -> bool:
    """Return whether an operation on type *have* gives another result than the same operation in type *both*."""
    if isinstance(have, Weak) or is_bool(have) or is_record(have):
        return False
    if isinstance(both, Weak):
        return is_integer(have)  # which is wrapped before it meets a floating-point number, of whatever width
    return not is_record(both) and computed(have) != computed(both)
