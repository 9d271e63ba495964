"""Axes and lanes have all values that instances have, whatever the domains of the kernel say of other inames."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.frozen import replace
from polyloop.kernel.domains import domain_for, iname_range
from polyloop.kernel.kernel import Domain
from polyloop.mapping.thread_mapping import axes_of
from polyloop.poly.sets import parameter_space
from polyloop.testing.brute import judge
from tests.transform.checking import check, cuda
from tests.transform.kernels import F

TAGS = ("l.0", "g.0", "l%8", "ilp", "vec", "unr")


def beside(tag: str) -> pl.LoopKernel:
    """A kernel of which one domain has no point where only one of its two inames has no value."""
    knl = pl.make_kernel(
        "[n] -> {[i, k]: 0 <= i < 8 and i < n and 0 <= k < 4 - n}",
        "y[i] = 1\nz[k] = 2",
        [pl.GlobalArg("y, z", F, shape="8"), ...],
    )
    return pl.tag_inames(knl, {"i": tag})


@pytest.mark.few(2)
@pytest.mark.parametrize("tag", TAGS)
def test_an_iname_has_its_values_where_another_one_of_its_domain_has_none(tag: str) -> None:
    for n in (0, 2, 3, 6, 8, 9):
        y, z = np.zeros((2, 8), F)
        check(beside(tag), {"y": y, "z": z, "n": n}, {"y": np.arange(8) < n, "z": 2 * (np.arange(8) < 4 - n)})


def short(tag: str) -> pl.LoopKernel:
    """A kernel with loops whose domain has fewer values of the loop around them than others have instances."""
    knl = pl.make_kernel(
        ["[n] -> {[i, k]: 0 <= i < 8 and i < n and 0 <= k < 4}", "[i] -> {[j]: 0 <= j < 4 and i <= 3}"],
        """
        x[i, k, j] = 1
        y[i] = 2
        """,
        [pl.GlobalArg("x", F, shape="8, 4, 4"), pl.GlobalArg("y", F, shape="8"), ...],
    )
    return pl.tag_inames(knl, {"i": tag})


CHANGES: Mapping[str, Callable[[pl.LoopKernel], pl.LoopKernel]] = {
    "join": lambda knl: pl.join_inames(knl, "k, j", new_iname="k1"),
    "shift": lambda knl: pl.map_domain(knl, "{[k, j] -> [j1, k1]: j1 = j + 1 and k1 = k + 1}"),
    "skew": lambda knl: pl.map_domain(knl, "{[k, j] -> [j1, k1]: j1 = j + k and k1 = k + 1}"),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("tag", ["l.0", "g.0", "ilp", "unr"])
@pytest.mark.parametrize("change", CHANGES)
def test_loops_made_one_of_two_domains_leave_the_loop_around_them_alone(change: str, tag: str) -> None:
    knl = CHANGES[change](short(tag))
    assert iname_range(knl, "i") == (0, 7)
    for n in (0, 2, 3, 6, 8, 9):
        x, y = np.zeros((8, 4, 4), F), np.zeros(8, F)
        want = np.zeros((8, 4, 4), F)
        want[: min(n, 4)] = 1
        check(knl, {"x": x, "y": y, "n": n}, {"x": want, "y": 2 * (np.arange(8) < n)})


def lost(knl: pl.LoopKernel) -> list[str]:
    """Return the instructions of which the domains of the kernel do not have all instances."""
    space = parameter_space(knl.parameters)
    nests = [(i.id, i.inames, i.domain) for i in knl.instructions]
    nests += [(i.id, term.inames, term.domain) for i in knl.instructions for term in i.terms]
    return [
        name
        for name, inames, domain in nests
        if not domain.intersect_params(knl.assumptions).is_subset(domain_for(knl.domains, inames, space))
    ]


@pytest.mark.parametrize("change", CHANGES)
def test_the_domains_of_the_kernel_have_all_instances(change: str) -> None:
    knl = CHANGES[change](short("unr"))
    assert not lost(knl)
    name = "k1" if change == "join" else "j1"
    assert not lost(pl.duplicate_inames(knl, f"i, {name}"))


MAPS = (
    "{[k, i] -> [iq, kq]: iq = i and kq = k}",
    "{[i, k] -> [u, v]: u = i + k and v = i}",
    "{[i, k] -> [i, v]: v = k - i}",
    "{[j, k] -> [kq, jq]: kq = k and jq = j}",
    "{[m, k] -> [kq, mq]: kq = k - 1 and mq = m}",
    "{[i, m, k] -> [u, v, w]: v = k - 1 and u = m + k and w = i}",
)


def nested() -> pl.LoopKernel:
    domains = [
        "[n] -> {[i, j]: 0 <= i < 6 and i < n and 0 <= j <= i}",
        "[i] -> {[k]: 2 <= k < i}",
        "[k] -> {[m]: k <= m < 6}",
    ]
    program = """
        x[i] = 1 {inames=i}
        y[i, j] = 2
        z[i, k] = sum(m, a[m])
        total[i] = sum(k, k*a[i])
        """
    data = [pl.GlobalArg("x, total, a", F, shape="6"), pl.GlobalArg("y, z", F, shape="6, 6"), ...]
    return pl.make_kernel(domains, program, data)


@pytest.mark.parametrize("text", MAPS)
def test_a_map_of_loops_of_several_domains(text: str) -> None:
    """Instances of a statement in the outer loop alone are there where the loops inside have no iteration."""
    knl = nested()
    if "m" in text:  # one instruction has a loop over k, and none over m
        knl = pl.remove_instructions(knl, "insn_3")
    mapped = pl.map_domain(knl, text)
    assert not lost(mapped)
    written = {name for instruction in knl.instructions for name in instruction.writes}
    for n in (0, 1, 3, 6, 7):
        given = {name: np.zeros((6,) * len(array.shape or ()), F) for name, array in knl.arrays().items()}
        given |= {"a": np.arange(6, dtype=F)}
        want = pl.interpret(knl, n=n, **{name: value.copy() for name, value in given.items()})
        check(mapped, {**given, "n": n}, {name: want[name] for name in written}, fibres=False)


def test_a_copy_of_a_part_joined_with_a_loop_of_one_iteration() -> None:
    knl = pl.make_kernel(
        "[n] -> {[i, k]: 0 <= i < n and k = 0}",
        """
        f(p) := y[p + 4]
        z[i, k] = if(i > 3, 2*x[i]*k, f(i))
        """,
        [pl.GlobalArg("x", F, shape="n"), pl.GlobalArg("y", F, shape="n + 4"), pl.GlobalArg("z", F, shape="n, 1"), ...],
    )
    knl = pl.split_iname(knl, "i", 5, inner_tag="l.1")
    knl = pl.add_prefetch(knl, "y", [])
    knl = pl.join_inames(knl, ["y_dim_0", "k"])
    assert "__launch_bounds__(5)" in cuda(knl)
    for n in (1, 4, 5, 9, 11):
        x, y = np.zeros(n, F), np.arange(n + 4, dtype=F)
        want = np.where(np.arange(n) < 4, y[4:], 0)[:, None]
        check(knl, {"x": x, "y": y, "z": np.full((n, 1), -1, F)}, {"z": want})


def test_axes_are_those_of_the_instances_and_brute_force_looks() -> None:
    """Domains that a faulty step would have made too short decide about no axis; axes that are too short are seen."""
    knl = beside("l.0")
    short = replace(knl, domains=(Domain(("i", "k"), isl.Set("[n] -> {[i, k]: 0 <= i < 2 and 0 <= k < 4 - n}")),))
    assert axes_of(short).local == {"l.0": 8}
    assert not list(judge(short, {"n": 6}, {}))
    axes_of(short).local["l.0"] = 5  # type: ignore[index]
    assert {violation.kind for violation in judge(short, {"n": 6}, {})} == {"thread"}
