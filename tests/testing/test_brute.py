"""Brute force finds the classic faults, and nothing in programs that are right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import Witness, WitnessKind
from polyloop.testing.brute import judge
from polyloop.testing.witnesses import Verdict, check_witness
from polyloop.transform.base import Transform
from polyloop.transform.loops.auto_local import assign_auto
from polyloop.transform.loops.map_domain import MapDomain
from polyloop.transform.loops.reorder import PrioritizeLoops
from polyloop.transform.loops.tag import TagInames
from polyloop.transform.staging.prefetch import AddPrefetch

F = np.float32


def sweep() -> pl.LoopKernel:
    domain = "{[i, j]: 1 <= i < n and 0 <= j < n - 1}"
    data = [pl.GlobalArg("a", F, shape="n, n"), ...]
    return pl.make_kernel(domain, "a[i, j] = a[i-1, j+1] + 1", data, assumptions="n >= 1")


def running_sum() -> pl.LoopKernel:
    data = [pl.GlobalArg("a", F, shape="n"), ...]
    return pl.make_kernel("{[i]: 1 <= i < n}", "a[i] = a[i] + a[i-1]", data, assumptions="n >= 1")


def total() -> pl.LoopKernel:
    data = [pl.GlobalArg("x", F, shape="n"), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", "s[0] = s[0] + x[i]", data, assumptions="n >= 1")


def shifted() -> pl.LoopKernel:
    data = [pl.GlobalArg("x", F, shape="n + 8"), pl.GlobalArg("y", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i] + x[i+1]", data, assumptions="n >= 1")
    return pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")


def violations(knl: pl.LoopKernel, n: int) -> set[str]:
    return {violation.kind for violation in judge(assign_auto(knl), {"n": n}, {})}


WRONG: list[tuple[pl.LoopKernel, Transform, int]] = [
    (sweep(), PrioritizeLoops(("j", "i")), 3),
    (sweep(), TagInames((("i", "l.0"),)), 3),
    (sweep(), MapDomain("{[i, j] -> [ir, j]: ir = 5 - i}"), 3),
    (running_sum(), TagInames((("i", "g.0"),)), 3),
    (total(), TagInames((("i", "l.0"),)), 2),
]


@pytest.mark.parametrize(("knl", "transform", "least"), WRONG)
def test_a_fault_is_found_where_it_first_shows(knl: pl.LoopKernel, transform: Transform, least: int) -> None:
    bad = transform.rewrite(knl)
    for n in range(1, 8):
        assert not violations(knl, n)
        assert bool(violations(bad, n)) is (n >= least), n


@pytest.mark.parametrize(("knl", "transform", "least"), WRONG)
def test_the_witness_of_the_refusal_is_real(knl: pl.LoopKernel, transform: Transform, least: int) -> None:
    del least
    with pytest.raises(pl.TransformError) as caught:
        transform(knl)
    witness = caught.value.found[0].witness
    assert witness is not None
    assert check_witness(transform.rewrite(knl), witness, {}) is Verdict.REAL


def copied(read: str) -> tuple[pl.LoopKernel, Witness]:
    """A vector that is copied ahead of a loop that writes it: what was refused, and the instances named."""
    data = [pl.GlobalArg("x", np.float64, shape="n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", f"f(p) := x[p]\nx[i] = {read}", data)
    knl = pl.split_iname(knl, "j", 2)
    with pytest.raises(pl.TransformError) as caught:
        pl.precompute(knl, "f", ["j_inner"])
    witness, transform = caught.value.found[0].witness, caught.value.transform
    assert witness is not None
    assert isinstance(transform, Transform)
    return transform.rewrite(knl), witness


@pytest.mark.parametrize("read", ["x[i] - f(j)", "x[i] + x[i] - f(j)", "2*f(j)"])
def test_a_read_through_a_copy_beside_one_of_the_array(read: str) -> None:
    refused, witness = copied(read)
    assert witness.kind is WitnessKind.EARLY
    assert check_witness(refused, witness, {}) is Verdict.REAL


def test_an_instance_that_computes_the_same_reads_no_copy_too_early() -> None:
    """The copy is made again for each row: the first two elements of the row behind it are those of the program."""
    refused, witness = copied("x[i] - f(j)")
    point = (("i", 1), ("j_outer", 0), ("j_inner", 0))
    first = replace(witness.first, inames=(("i", 0), ("j", 1)))
    second = replace(witness.first, point=point)
    wrong = replace(witness, element=(0,), first=first, second=second)
    assert check_witness(refused, wrong, {}) is Verdict.FALSE


def test_a_condition_of_data_inside_of_a_copy() -> None:
    """Data decides whether the instance reads the element, and that stands in what is computed ahead of it."""
    data = [pl.GlobalArg("x, y", np.int64, shape="8"), ...]
    program = "f(p) := if(x[p] > 1, x[0], y[0])\ny[i] = f(i)"
    knl = pl.precompute(pl.make_kernel("{[i]: 0 <= i < 7}", program, data), "f", [])
    with pytest.raises(pl.TransformError) as caught:
        pl.add_prefetch(knl, "y", ["i"])
    witness, transform = caught.value.found[0].witness, caught.value.transform
    assert witness is not None
    assert isinstance(transform, Transform)
    refused = transform.rewrite(knl)
    assert check_witness(refused, witness, {"x": np.zeros(8, np.int64)}) is Verdict.REAL
    assert check_witness(refused, witness, {"x": np.full(8, 2, np.int64)}) is Verdict.UNDECIDED


def test_right_programs_are_legal() -> None:
    knl = pl.add_prefetch(shifted(), "x", "i_inner")
    for n in range(1, 10):
        assert not violations(knl, n)
        assert not violations(pl.map_domain(sweep(), "{[i, j] -> [i, j + i]}"), n)


def test_a_number_is_one_through_whatever_temporaries_it_comes() -> None:
    """Seed 42402790: the sum of two numbers in the text was another value than that of two reads of a copy of one."""
    text = "<> s = 5.0\ny[i] = s + s\nz[i] = (2 if s < 6 or y[0] < 1 else 3) * abs(s) * s * x[i]"
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("x, y, z", F, shape="n"), ...], assumptions="n >= 1")
    knl = pl.assignment_to_subst(knl, "s")
    assert not violations(knl, 3)
    assert not violations(pl.precompute(knl, "s_subst", []), 3)


def test_a_tile_that_is_too_small() -> None:
    knl = AddPrefetch("x", ("i_inner",)).rewrite(shifted())
    filler = knl.instruction("fetch_x")
    cut = filler.domain.lexmin()
    whole = tuple(x if x is not filler else replace(x, domain=cut) for x in knl.instructions)
    broken = replace(knl, instructions=whole)
    assert violations(broken, 5) == {"value"}


def test_two_phases_over_blocks_need_two_launches() -> None:
    data = [pl.GlobalArg("a, b, c", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i]\nc[i] = b[n-1-i]", data, assumptions="n >= 1")
    assert not violations(pl.tag_inames(knl, "i:g.0"), 5)
