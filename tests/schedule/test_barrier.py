"""Barriers stand at the fewest positions that fulfil every requirement."""

from __future__ import annotations

import itertools
import random

import pytest

import polyloop as pl
from polyloop.cli import kernels
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.tree import Barrier, Loop, Run, Scope, Tree
from polyloop.schedule.barrier import Requirement, fewest_positions, place_barriers
from polyloop.schedule.build import build_schedule


def shape(tree: Tree) -> str:
    parts = []
    for node in tree:
        if isinstance(node, Loop):
            parts.append(f"{node.iname}({shape(node.body)})")
        else:
            parts.append(node.name if isinstance(node, Run) else ":" if node.scope is Scope.WARP else "|")
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


def fewest(wanted: list[Requirement], length: int, present: tuple[int, ...] = ()) -> int:
    """Return the smallest number of positions that fulfils *wanted*, by trying all subsets."""
    for size in range(length + 2):
        for chosen in itertools.combinations(range(length + 1), size):
            if all(any(r.met_by(position) for position in (*chosen, *present)) for r in wanted):
                return size
    raise AssertionError("no set of positions fulfils the requirements")


def random_requirements(rng: random.Random, length: int) -> list[Requirement]:
    wanted = []
    for _ in range(rng.randint(1, 6)):
        first, second = rng.randrange(length), rng.randrange(length)
        wraps = rng.random() < 0.5 or first >= second
        scope = rng.choice((Scope.BLOCK, Scope.WARP))
        wanted.append(Requirement((0, "i"), first, second, wraps, not wraps or rng.random() < 0.8, scope))
    return wanted


@pytest.mark.parametrize("seed", range(300))
def test_no_fewer_positions_would_do(seed: int) -> None:
    rng = random.Random(seed)
    length = rng.randint(1, 7)
    wanted = random_requirements(rng, length)
    present = tuple(rng.sample(range(length + 1), rng.choice((0, 0, 1, 2))))
    chosen = fewest_positions(wanted, length, present)
    assert not set(chosen) & set(present)
    assert all(any(r.met_by(position) for position in (*chosen, *present)) for r in wanted)
    assert len(chosen) == fewest(wanted, length, present)


@pytest.mark.parametrize("seed", range(100))
def test_barriers_of_a_warp_stand_only_where_those_of_the_block_do_not_serve(seed: int) -> None:
    rng = random.Random(seed)
    length = rng.randint(1, 6)
    wanted = random_requirements(rng, length)
    body = tuple(Run(f"s{number}") for number in range(length))
    (loop,) = place_barriers((Loop("i", body),), wanted)
    assert isinstance(loop, Loop)
    found: dict[Scope, list[int]] = {Scope.BLOCK: [], Scope.WARP: []}
    number = 0
    for node in loop.body:
        if isinstance(node, Barrier):
            found[node.scope].append(number)
        else:
            number += 1
    of_block = [r for r in wanted if r.scope is Scope.BLOCK]
    of_warp = [r for r in wanted if r.scope is Scope.WARP]
    assert all(any(r.met_by(position) for position in found[Scope.BLOCK]) for r in of_block)
    assert len(found[Scope.BLOCK]) == fewest(of_block, length)
    everywhere = (*found[Scope.BLOCK], *found[Scope.WARP])
    assert all(any(r.met_by(position) for position in everywhere) for r in of_warp)
    assert len(found[Scope.WARP]) == fewest(of_warp, length, tuple(found[Scope.BLOCK]))


def test_where_a_launch_ends_no_barrier_is_needed() -> None:
    body = (Run("a"), Run("b"), Run("c"))
    wanted = [Requirement((), 0, 2, wraps=False)]
    assert shape(place_barriers(body, wanted)) == "a b | c"
    assert shape(place_barriers(body, wanted, cuts=[1])) == "a b c"


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
    assert shape(schedule.launches[0].tree) == "k(put : get)"
    without_warps = build_schedule(knl, DeviceLimits(warp_size=1))
    assert shape(without_warps.launches[0].tree) == "k(put | get)"
