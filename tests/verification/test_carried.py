"""Values that loops carry to the next iteration, or to a later loop: what may change around them, and what may not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow import address_spaces as place
from polyloop.expr.parser import parse_expression
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.instruction import Copy
from polyloop.poly.affine import Affine
from polyloop.verification.order import order_violations


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


def on_threads() -> pl.LoopKernel:
    return pl.split_iname(steps(), "i", 16, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.parametrize("changed", [
    on_threads, lambda: pl.split_iname(on_threads(), "k", 2), lambda: pl.reverse(on_threads(), "k"),
])  # fmt: skip
def test_what_is_around_may_change_and_loops_of_reads_too(changed: Any) -> None:
    spaces = place.place(changed()).spaces
    assert {spaces[name] for name in ("total", "part")} == {AddressSpace.PRIVATE}


def test_a_changed_order_is_refused() -> None:
    with pytest.raises(pl.TransformError) as refusal:
        pl.reverse(steps(), "j")
    assert "illegal-order" in refusal.value.codes
    with pytest.raises(pl.TransformError):
        pl.tag_inames(steps(), "j:l.0")


def torn(position: int, **changes: Any) -> set[str]:
    """Return what would be wrong after one instruction has been changed behind everybody's back."""
    knl = on_threads()
    instructions = list(knl.instructions)
    instructions[position] = replace(instructions[position], **changes)
    found = order_violations(replace(knl, instructions=tuple(instructions)))
    return {name for entry in found for name in ("total", "part") if f"'{name}'" in entry.message}


def test_another_element_is_found() -> None:
    assert torn(3) == set()
    assert torn(3, expression=parse_expression("part[k]/total")) == {"part"}
    assert torn(2, assignee=parse_expression("part[7 - j]")) == {"part"}


def test_another_iteration_is_found() -> None:
    """A copy that claims to stand for another iteration of the loop around."""
    origin = on_threads().instructions[2].origin
    assert isinstance(origin, Copy)
    forms = {**origin.forms, "i": origin.forms["i"].add(Affine((), 1))}
    assert "part" in torn(2, origin=Copy(origin.instruction, forms))


@pytest.mark.parametrize("transform_map", [
    "{[j, i] -> [ji, i]: ji = j + i}", "{[j, i] -> [ji, i]: ji = j + 2*i}", "{[j, i] -> [ji, i]: ji = i - j}",
])  # fmt: skip
@pytest.mark.parametrize("value", ["s", "last()", "s + i"])
def test_an_outer_loop_that_takes_iterations_of_several_is_refused(transform_map: str, value: str) -> None:
    """Seed 47100490: ``ji`` was taken to have iterations of one ``j`` each, as if ``i`` were around both loops."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        f"""
        last() := s
        for j
            for i
                <> s = i
            end
            for i
                o[j, i] = {value}
            end
        end
        """,
        [pl.GlobalArg("o", np.int64, shape="n, n"), ...],
    )
    with pytest.raises(pl.TransformError) as refusal:
        pl.map_domain(knl, transform_map)
    assert "illegal-order" in refusal.value.codes


def test_an_outer_loop_may_be_shifted_or_reversed() -> None:
    """One iteration of the new loop is one of the old one, whatever its number is."""
    knl = pl.map_domain(steps(), "{[i] -> [u]: u = 7 - i}")
    assert place.place(pl.split_iname(knl, "u", 4, inner_tag="l.0")).spaces["part"] is AddressSpace.PRIVATE
