"""What follows from what is known at a place of a program."""

from __future__ import annotations

from polyloop.codegen.loops.context import Context
from polyloop.poly.affine import Affine


def row(const: int, **terms: int) -> Affine:
    return Affine.make(list(terms.items()), const)


def test_a_multiple_of_a_known_row() -> None:
    """Blocks of 128 in groups of 4, of 128*tiles columns: warps of 32 columns within a block are full."""
    known = Context().add([
        row(0, bz=1), row(0, bx=1), row(3, bx=-1), row(0, w=1), row(3, w=-1), row(-1, tiles=1, bz=-4, bx=-1),
    ])  # fmt: skip
    assert known.implies(row(-1, tiles=4, bz=-16, bx=-4, w=-1))
    assert known.implies(row(-4, tiles=4, bz=-16, bx=-4))
    assert not known.implies(row(-2, tiles=4, bz=-16, bx=-4, w=-1))
    assert not known.implies(row(-1, tiles=4, bz=-16, bx=-5, w=-1))
    assert not known.implies(row(1, tiles=-4, bz=16, bx=4, w=1))
