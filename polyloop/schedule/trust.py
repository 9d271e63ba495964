"""Assumptions of a proof that rest on the user's word, without a check at the call."""

from __future__ import annotations

from collections.abc import Iterator

import pymbolic.primitives as p

from polyloop.expr.foreign import foreign_calls
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.mapping.thread_mapping import Placement
from polyloop.poly.affine import Affine, to_expression
from polyloop.verification.bounds import left_to_data

__all__ = ["taken_on_trust"]


def taken_on_trust(placement: Placement) -> list[str]:
    """Return the assumptions of the proofs of a kernel that no check at the call covers, one sentence each."""
    return list(dict.fromkeys((*_inside(placement), *_marks(placement))))


def _inside(placement: Placement) -> Iterator[str]:
    """Yield the assumptions that data keeps accesses inside of their arrays."""
    for statement, access, axes in left_to_data(placement.program.kernel):
        along = f" (axis {' and '.join(map(str, axes))})" if len(access.indices) > 1 else ""
        where = statement.instruction.id
        yield f"data keeps {_spelt(access.array, access.indices)} in '{where}' inside of '{access.array}'{along}"


def _spelt(array: str, forms: tuple[Affine | None, ...]) -> str:
    indices: tuple[Expression, ...] = tuple(p.Variable("..") if f is None else to_expression(f) for f in forms)
    return show(p.Subscript(p.Variable(array), indices[0] if len(indices) == 1 else indices))


def _marks(placement: Placement) -> Iterator[str]:
    """Yield the user's assertions about instructions and functions."""
    for instruction in placement.program.kernel.instructions:
        for entry in sorted(map(str, instruction.nosync)):
            yield f"'{instruction.id}' and '{entry}' access no common element where that is left open (nosync)"
        if instruction.is_c:
            yield f"the C text of '{instruction.id}' does what it declares, inside of its arrays"
    called = {call.name for s in placement.statements.values() for call in foreign_calls(s.lowered.rhs)}
    for name in sorted(called):
        yield f"'{name}' has no side effects and keeps no state (foreign function)"
