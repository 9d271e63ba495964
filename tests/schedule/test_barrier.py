"""Barriers stand at the fewest positions that fulfil every requirement."""

from __future__ import annotations

import itertools
import random

import pytest

import polyloop as pl
from polyloop.cli import kernels
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.tree import Barrier, Loop, Run, Tree
from polyloop.schedule.barrier import Requirement, place_barriers
from polyloop.schedule.build import build_schedule


def shape(tree: Tree) -> str:
    parts = []
    for node in tree:
        if isinstance(node, Loop):
            parts.append(f"{node.iname}({shape(node.body)})")
        else:
            parts.append("|" if isinstance(node, Barrier) else node.name)
    return " ".join(parts)


def test_a_tiled_product_has_its_two_classical_barriers() -> None:
    schedule = build_schedule(kernels.matmul(), DeviceLimits())
    assert shape(schedule.launches[0].tree) == "insn_init k_outer(fetch_a fetch_b | k_inner(insn_update) |) insn"


def test_a_stencil_has_one_barrier() -> None:
    schedule = build_schedule(kernels.stencil(), DeviceLimits())
    loops = "u_dim_0_outer(u_dim_1_outer(fetch_u))"
    assert shape(schedule.launches[0].tree) == f"{loops} | insn"


def test_a_kernel_without_exchange_has_none() -> None:
    assert shape(build_schedule(kernels.axpy(), DeviceLimits()).launches[0].tree) == "insn"


def test_a_tree_is_unchanged_without_requirements() -> None:
    tree: Tree = (Run("a"), Loop("i", (Run("b"),)))
    assert place_barriers(tree, ()) == tree


def count(tree: Tree) -> int:
    return sum(count(node.body) if isinstance(node, Loop) else isinstance(node, Barrier) for node in tree)


def fewest(wanted: list[Requirement], length: int) -> int:
    """Return the smallest number of positions that fulfils *wanted*, by trying all subsets."""
    for size in range(length + 2):
        for chosen in itertools.combinations(range(length + 1), size):
            if all(any(r.met_by(position) for position in chosen) for r in wanted):
                return size
    raise AssertionError("no set of positions fulfils the requirements")


@pytest.mark.parametrize("seed", range(40))
def test_requirements_of_one_block_are_fulfilled_with_few_barriers(seed: int) -> None:
    rng = random.Random(seed)
    length = rng.randint(1, 6)
    wanted = []
    for _ in range(rng.randint(1, 5)):
        first, second = rng.randrange(length), rng.randrange(length)
        wraps = rng.random() < 0.4 or first >= second
        wanted.append(Requirement((0, "i"), first, second, wraps, not wraps or rng.random() < 0.8))
    body = tuple(Run(f"s{number}") for number in range(length))
    (loop,) = place_barriers((Loop("i", body),), wanted)
    assert isinstance(loop, Loop)
    positions, number = [], 0
    for node in loop.body:
        if isinstance(node, Barrier):
            positions.append(number)
        else:
            number += 1
    assert all(any(r.met_by(position) for position in positions) for r in wanted)
    straight = [r for r in wanted if not r.wraps]
    assert len(positions) <= fewest(wanted, length) + (1 if straight else 0)


def test_double_buffering_needs_one_barrier_a_step() -> None:
    knl = pl.make_kernel(
        "{[k, x]: 1 <= k < 100 and 0 <= x < 32}",
        """
        for k
            for x
                <float32> t[k % 2, x] = a[k, x] {id=put}
            end
            for x
                o[k, x] = t[k % 2, 31 - x] {id=get}
            end
        end
        """,
        [pl.GlobalArg("a, o", "float32"), ...],
    )
    knl = pl.tag_inames(knl, "x:l.0")
    schedule = build_schedule(knl, DeviceLimits())
    assert shape(schedule.launches[0].tree) == "k(put | get)"
