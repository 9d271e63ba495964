"""Barriers stand at the fewest positions that fulfil every requirement."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

import polyloop as pl
from polyloop.cli import kernels
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Scope, Tree, paths
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


def random_tree(rng: random.Random, depth: int, names: Iterator[int]) -> Tree:
    nodes: list[Node] = []
    for _ in range(rng.randint(1, 3)):
        if depth and rng.random() < 0.5:
            nodes.append(Loop(f"i{next(names)}", random_tree(rng, depth - 1, names)))
        else:
            nodes.append(Run(f"s{next(names)}"))
    return tuple(nodes)


Event = tuple[str | Scope, dict[str, int]]


def events(tree: Tree, values: dict[str, int], empty: str | None) -> Iterator[Event]:
    """Yield what a thread does: statements and barriers, with the values of the loops around them; one never runs."""
    for node in tree:
        if isinstance(node, Loop):
            for value in range(0 if node.iname == empty else 3):
                yield from events(node.body, {**values, node.iname: value}, empty)
        else:
            yield (node.name if isinstance(node, Run) else node.scope), values


Conflict = tuple[str, str, str | None, bool, Scope]
"""First and second statement, the loop that orders them, whether neighbouring iterations meet, and who has to wait."""


def in_order(tree: Tree, needs: list[Conflict]) -> bool:
    """Return whether some barrier lies between all pairs of instances in conflict, whichever loop is empty."""
    inames = {x for place in paths(tree).values() for x in place if isinstance(x, str)}
    return all(is_in_order(tree, needs, empty) for empty in (None, *inames))


def is_in_order(tree: Tree, needs: list[Conflict], empty: str | None) -> bool:
    steps = [*events(tree, {}, empty)]
    at = paths(tree)
    for first, second, loop, adjacent, scope in needs:
        enough = {Scope.BLOCK, scope}
        outer = [x for x in at[first][: at[first].index(loop)] if isinstance(x, str)] if loop else []
        if loop is None:
            shared = next(i for i, (a, b) in enumerate(zip(at[first], at[second], strict=False)) if a != b)
            outer = [x for x in at[first][:shared] if isinstance(x, str)]
        for i, (name, mine) in enumerate(steps):
            for j, (other, theirs) in enumerate(steps):
                if name != first or other != second or any(mine[x] != theirs[x] for x in outer):
                    continue
                if loop is not None and theirs[loop] - mine[loop] < (1 if adjacent else 2):
                    continue
                if not any(what in enough for what, _ in steps[i + 1 : j]):
                    return False
    return True


@pytest.mark.parametrize("seed", range(300))
def test_every_pair_of_instances_is_kept_apart_and_no_barrier_is_too_many(seed: int) -> None:
    rng = random.Random(seed)
    tree = random_tree(rng, 2, itertools.count())
    places = paths(tree)
    needs = []
    for _ in range(rng.randint(1, 4)):
        first, second = rng.choice([*places]), rng.choice([*places])
        a, b = places[first], places[second]
        shared = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
        loops: list[str | None] = [x for x in a[:shared] if isinstance(x, str)]
        if first != second and a < b:
            loops.append(None)
        if loops:
            loop = rng.choice(loops)
            near = loop is None or rng.random() < 0.7
            needs.append((first, second, loop, near, rng.choice((Scope.BLOCK, Scope.WARP))))
    wanted = [Requirement.between(places[a], places[b], loop, near, scope) for a, b, loop, near, scope in needs]
    placed = place_barriers(tree, wanted)
    assert in_order(placed, needs), shape(placed)
    for number in range(count(placed)):
        assert not in_order(without(placed, number), needs), shape(placed)


def without(tree: Tree, number: int) -> Tree:
    """Return *tree* without one of its barriers, counted in the order of the text."""
    left = itertools.count()

    def kept(nodes: Tree) -> Tree:
        found: list[Node] = []
        for node in nodes:
            if isinstance(node, Loop):
                found.append(Loop(node.iname, kept(node.body)))
            elif not isinstance(node, Barrier) or next(left) != number:
                found.append(node)
        return tuple(found)

    return kept(tree)


def test_where_a_launch_ends_no_barrier_is_needed() -> None:
    body = (Run("a"), Run("b"), Run("c"))
    wanted = [Requirement((), 0, 2, wraps=False)]
    assert shape(place_barriers(body, wanted)) == "a b | c"
    assert shape(place_barriers(body, wanted, cuts={(): [1]})) == "a b c"


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


@pytest.mark.parametrize(
    ("body", "tree"),
    [
        # carried by the outer loop alone: it stands outside of the inner one
        (
            "for m, x\n t[k % 2, m, x] = a[k, m, x] {id=put}\n o[k, m, x] = t[(k + 1) % 2, m, 63 - x] {id=get}\n end",
            "k(m(put get) |)",
        ),
        # carried by the inner loop, and around the outer one as well
        (
            "for m\n for x\n t[0, 0, x] = a[k, m, x] {id=put}\n end\n"
            "for y\n o[k, m, y] = t[0, 0, 63 - y] {id=get}\n end\n end",
            "k(m(put | get |))",
        ),
        # statements at different depths: in the loop that both are in
        (
            "for x\n t[0, 0, x] = a[k, 0, x] {id=put}\n end\n for m, y\n o[k, m, y] = t[0, 0, 63 - y] {id=get}\n end",
            "k(put | m(get) |)",
        ),
        # between two inner loops, never inside of one
        (
            "for m, x\n o[k, m, x] = t[0, m, 63 - x] {id=get}\n end\n"
            "for l, y\n t[0, l, y] = a[k, l, y] {id=put}\n end",
            "k(m(get) | l(put) |)",
        ),
    ],
)
def test_a_barrier_stands_as_far_outside_as_it_can(body: str, tree: str) -> None:
    knl = pl.make_kernel(
        "{[k, m, l, x, y]: 0 <= k < 9 and 0 <= m, l < 5 and 0 <= x, y < 64}",
        f"for k\n{body}\nend",
        [pl.GlobalArg("a, o", "float32", shape="9, 5, 64"), pl.GlobalArg("t", "float32", shape="2, 5, 64")],
        silenced_warnings="*",
    )
    knl = pl.tag_inames(knl, "x:l.0, y:l.0")
    assert shape(build_schedule(knl, DeviceLimits()).launches[0].tree) == tree
