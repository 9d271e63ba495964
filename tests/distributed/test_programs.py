"""Programs on 1 to 4 ranks against the undivided kernel."""

from __future__ import annotations

from math import prod

import pytest

from tests.distributed import programs
from tests.distributed.programs import Case, compare

LINE = [(1,), (2,), (3,), (4,)]
PLANE = [(1, 1), (2, 1), (1, 3), (2, 2)]


@pytest.mark.parametrize("mesh", PLANE)
def test_heat_is_the_same_on_every_mesh(mesh: tuple[int, ...]) -> None:
    compare(programs.heat(), mesh)


@pytest.mark.parametrize("mesh", LINE)
@pytest.mark.parametrize("case", [
    programs.heat_1d_mesh(), programs.history(), programs.boundaries(), programs.transpose(), programs.sparse(),
], ids=lambda case: case.kernel.name)
def test_a_program_with_messages_is_the_same_in_every_bit(case: Case, mesh: tuple[int, ...]) -> None:
    compare(case, mesh)


@pytest.mark.parametrize(("case", "mesh"), [
    (programs.two_grids(), (3,)), (programs.two_grids(n=5, q=3), (4,)), (programs.sorting(), (4,)),
    *(pytest.param(case, mesh, marks=pytest.mark.slow) for case, mesh in (
        (programs.two_grids(), (2,)), (programs.two_grids(n=41, q=21), (4,)), (programs.sorting(n=1), (3,)),
        (programs.sorting(n=3), (4,)), (programs.sorting(), (2,)))),
], ids=str)
def test_methods_that_go_from_rank_to_rank_are_the_same_in_every_bit(case: Case, mesh: tuple[int, ...]) -> None:
    links = case.divided(mesh).explain(mesh, **case.sizes).links
    assert compare(case, mesh) == [sum(size for (source, _), size in links.items() if source == rank)
                                   for rank in range(prod(mesh))]


@pytest.mark.parametrize("mesh", PLANE)
def test_a_product_is_the_same_on_every_mesh(mesh: tuple[int, ...]) -> None:
    compare(programs.product(), mesh)


@pytest.mark.parametrize("mesh", [(1, 1), (3, 1), (1, 3), (2, 2)])
def test_sums_along_one_axis_of_a_mesh_are_those_of_its_ranks(mesh: tuple[int, ...]) -> None:
    compare(programs.norms(), mesh, exact=False)


@pytest.mark.few(14)
@pytest.mark.parametrize("mesh", LINE)
@pytest.mark.parametrize("case", [
    programs.layer_norm(), programs.histogram(), programs.conjugate_gradients(), programs.extremes(),
    programs.sparse_gradients(), programs.attention(),
], ids=lambda case: case.kernel.name)
def test_a_program_with_sums_is_the_same_up_to_rounding(case: Case, mesh: tuple[int, ...]) -> None:
    compare(case, mesh, exact=False)


@pytest.mark.parametrize(("case", "mesh"), [
    (programs.heat_1d_mesh(n=5), (4,)),      # blocks of 2, 2, 1 and 0
    (programs.history(n=4), (4,)),           # nothing to compute, halos wider than blocks
    (programs.history(n=7), (4,)),
    (programs.boundaries(n=3), (4,)),
    (programs.product(m=2, n=1, l=3), (2, 2)),
    (programs.heat(n=3), (2, 2)),
    (programs.heat(steps=0), (2, 2)),
    (programs.transpose(n=2, m=5), (4,)),
    (programs.sparse(n=2), (4,)),
    (programs.odd(), (2,)),
    (programs.odd(n=6), (4,)),
], ids=str)
def test_ranks_may_be_empty_and_blocks_smaller_than_halos(case: Case, mesh: tuple[int, ...]) -> None:
    compare(case, mesh)


@pytest.mark.parametrize(("case", "mesh"), [
    (programs.norms(m=1, n=1), (2, 2)), (programs.extremes(n=2), (4,)), (programs.layer_norm(n=2), (4,)),
    (programs.histogram(n=1), (3,)), (programs.conjugate_gradients(n=2), (4,)),
], ids=str)
def test_empty_ranks_take_part_in_sums(case: Case, mesh: tuple[int, ...]) -> None:
    compare(case, mesh, exact=False)


@pytest.mark.parametrize(("case", "mesh"), [
    (programs.heat(), (2, 2)), (programs.heat_1d_mesh(), (3,)), (programs.history(n=7), (4,)),
    (programs.product(), (2, 2)), (programs.transpose(), (3,)), (programs.boundaries(), (4,)),
], ids=str)
def test_the_bytes_sent_are_those_that_explain_counts(case: Case, mesh: tuple[int, ...]) -> None:
    traffic = case.divided(mesh).explain(mesh, **case.sizes)
    sent = compare(case, mesh)
    counted = [sum(size for (source, _), size in traffic.links.items() if source == rank) for rank in range(prod(mesh))]
    assert sent == counted
    assert sum(counted) == traffic.bytes
    assert traffic.bytes > 0


@pytest.mark.parametrize(("case", "mesh"), [(programs.heat(), (2, 2)), (programs.history(), (3,)),
                                            (programs.product(), (2, 2))], ids=str)
def test_without_overlap_nothing_else_changes(case: Case, mesh: tuple[int, ...]) -> None:
    assert compare(case, mesh, overlap=False) == compare(case, mesh)
