"""Digits of the thread number along which threads of a warp combine terms, as axes of the placed program.

Lowering names such a digit by its tag, ``l.1.4``; the placed program has the digits of the finest radix, of which it
may be several, ``l.0001.2`` and ``l.0002.2``.
"""

from __future__ import annotations

from collections.abc import Iterator

from polyloop.errors import VerificationError
from polyloop.frozen import replace
from polyloop.kernel.tags import ThreadDigit
from polyloop.mapping.hardware_axes import Axes
from polyloop.mapping.mixed_radix import digit_of_terms
from polyloop.memo import memoised
from polyloop.poly.axes import digit_parts
from polyloop.program.ir import Combine, Init, Lowered, Program

__all__ = ["with_elementary_axes"]


def with_elementary_axes(program: Program, axes: Axes) -> Program:
    """Return *program* with the axes of the finest radix in place of digits along which threads combine terms.

    Raises
    ------
    VerificationError
        ``parallel-reduction``, where boundaries of digits of the kernel do not divide one another.
    """
    found = {name: _elementary(program, statement, axes) for name, statement in program.statements.items()}
    if all(found[name] is statement for name, statement in program.statements.items()):
        return program
    return replace(program, statements=found)


def _elementary(program: Program, statement: Lowered, axes: Axes) -> Lowered:
    part = statement.part
    if not isinstance(part, Init | Combine) or all(digit_parts(axis) is None for axis in part.across):
        return statement
    if not axes.is_elementary:
        kernel, instruction = program.kernel, statement.instruction
        iname = next(x for x in part.reduction.inames if isinstance(kernel.tag(x), ThreadDigit))
        tag = kernel.tag(iname)
        assert isinstance(tag, ThreadDigit), "a digit"
        raise VerificationError("schedule", kernel.name, [digit_of_terms(iname, tag, instruction)])
    return _spread(statement, tuple(own for axis in part.across for own in _parts(axis, axes)))


@memoised
def _spread(statement: Lowered, across: tuple[str, ...]) -> Lowered:
    part = statement.part
    assert isinstance(part, Init | Combine), "of a reduction across threads"
    return replace(statement, part=replace(part, across=across))


def _parts(axis: str, axes: Axes) -> Iterator[str]:
    """Yield the axes that a digit consists of."""
    wanted = digit_parts(axis)
    if wanted is None:
        yield axis
        return
    low, high = wanted[0], wanted[0] * wanted[1]
    for own in axes.local:
        place = digit_parts(own)
        if place is not None and low <= place[0] < high:
            yield own
