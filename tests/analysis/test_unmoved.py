"""What is_unmoved says holds for the dataflow that ISL computes, and it says nothing where an order has changed."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.analysis import legality, place
from polyloop.analysis.lanes import with_lanes
from polyloop.analysis.legality import order_violations
from polyloop.analysis.unmoved import is_unmoved
from polyloop.expr.parser import parse_expression
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.instruction import Copy
from polyloop.poly.affine import Affine
from tests.gallery import GALLERY

EXAMPLES = sorted(path.stem for path in (Path(__file__).parents[2] / "examples").glob("*.py"))


def unmoved(knl: pl.LoopKernel) -> set[str]:
    """Return the temporaries of which nothing more is asked."""
    if knl.reference is None:
        return set()
    old = place.place(knl.reference.kernel)
    return {name for name in knl.temporaries if is_unmoved(with_lanes(knl), old, name)}


def agrees_with_isl(knl: pl.LoopKernel, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    found = unmoved(knl)
    if found:
        for module in (legality, place):
            monkeypatch.setattr(module, "is_unmoved", lambda *_: False)
        anew = replace(knl, reference=replace(knl.reference, kernel=replace(knl.reference.kernel)))  # type: ignore[type-var,union-attr]
        spaces = place.place(anew).spaces
        automatic = [name for name in found if knl.temporaries[name].address_space is AddressSpace.AUTO]
        assert {name for name in automatic if spaces[name] is not AddressSpace.PRIVATE} == set()
        assert list(order_violations(anew)) == []
        monkeypatch.undo()
    return found


@pytest.mark.parametrize("name", sorted(GALLERY))
def test_gallery(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agrees_with_isl(GALLERY[name].build(), monkeypatch)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agrees_with_isl(import_module(f"examples.{name}").transformed(), monkeypatch)


def steps() -> pl.LoopKernel:
    """A sum carried along j, an array of partial values, and a value that is read in a later loop."""
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j, k < 8}",
        """
        for i
            <> total = 0f
            for j
                total = total + a[i, j]
                <> part[j] = total
            end
            for k
                b[i, k] = part[7 - k]/total
            end
        end
        """,
        [pl.GlobalArg("a, b", np.float32, shape="n, 8"), ...],
        name="steps",
    )


def test_what_is_around_may_change_and_loops_of_reads_too() -> None:
    knl = pl.split_iname(steps(), "i", 16, outer_tag="g.0", inner_tag="l.0")
    assert unmoved(knl) == {"total", "part"}
    assert unmoved(pl.split_iname(knl, "k", 2)) == {"total", "part"}
    assert unmoved(pl.reverse(knl, "k")) == {"total", "part"}


def test_a_loop_of_writes_must_be_as_it_was() -> None:
    knl = pl.split_iname(steps(), "j", 2)
    assert unmoved(knl) == set()
    split = pl.split_iname(steps(), "k", 8, inner_tag="l.0")
    assert "part" not in unmoved(split)


def test_a_changed_order_is_still_refused() -> None:
    with pytest.raises(pl.TransformError) as refusal:
        pl.reverse(steps(), "j")
    assert "illegal-order" in refusal.value.codes
    with pytest.raises(pl.TransformError):
        pl.tag_inames(steps(), "j:l.0")


def torn(position: int, **changes: Any) -> set[str]:
    """Return what is said to be unmoved after one instruction has been changed behind everybody's back."""
    knl = pl.split_iname(steps(), "i", 16, outer_tag="g.0", inner_tag="l.0")
    instructions = list(knl.instructions)
    instructions[position] = replace(instructions[position], **changes)
    return unmoved(replace(knl, instructions=tuple(instructions)))


def test_a_write_that_is_lost_is_found() -> None:
    knl = pl.split_iname(steps(), "i", 16, outer_tag="g.0", inner_tag="l.0")
    first, _, third, _ = knl.instructions
    assert torn(0, domain=first.domain.lower_bound_val(isl.dim_type.set, 1, isl.Val(1))) == {"part"}
    assert torn(2, domain=third.domain.lower_bound_val(isl.dim_type.set, 2, isl.Val(1))) == {"total"}


def test_another_element_is_found() -> None:
    assert torn(3) == {"total", "part"}
    assert torn(3, expression=parse_expression("part[k]/total")) == {"total"}
    assert torn(2, assignee=parse_expression("part[7 - j]")) == {"total"}


def test_another_iteration_is_found() -> None:
    """A copy that claims to stand for another iteration of the loop around."""
    knl = pl.split_iname(steps(), "i", 16, outer_tag="g.0", inner_tag="l.0")
    origin = knl.instructions[2].origin
    assert isinstance(origin, Copy)
    forms = {**origin.forms, "i": origin.forms["i"].add(Affine((), 1))}
    assert torn(2, origin=Copy(origin.instruction, forms)) == set()
