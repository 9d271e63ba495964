"""Guards inside of proofs, each with a program that only it refuses, or lets pass."""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from examples import prefix_sum
from polyloop.dataflow.address_spaces import place
from polyloop.expr.parser import parse_expression
from polyloop.frozen import replace
from polyloop.kernel.arrays import TemporaryVariable
from polyloop.kernel.instruction import Instruction, Term
from polyloop.kernel.tree import Scope
from polyloop.mapping.thread_mapping import Placed, Placement, storage_map
from polyloop.optimize.over_execution import at_edges
from polyloop.optimize.zero_fill import _is_started_again
from polyloop.poly.affine import Affine
from polyloop.poly.sets import SET
from polyloop.program.lower import lower
from polyloop.schedule.build import prepared
from polyloop.sync.async_copy import copy_pairs
from polyloop.sync.races import needs
from tests.gallery import GALLERY
from tests.transform.test_tensorize import BF16
from tests.transform.test_tensorize import tiles as tiles_of_matrices

F = np.float32


def with_instruction(knl: pl.LoopKernel, new: Instruction) -> pl.LoopKernel:
    return replace(knl, instructions=tuple(new if old.id == new.id else old for old in knl.instructions))


# {{{ each term of a scan once


def tiles() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j <= i}",
        "b[i] = sum(j, a[j])",
        [pl.GlobalArg("a, b", F, shape="n")],
        name="prefix_sum",
    )
    return pl.split_scan(knl, "i", 4, outer_iname="tile", inner_iname="k", carry_iname="before")


def test_sums_of_tiles_that_share_terms_are_refused() -> None:
    """The sums of all tiles before one have all of its terms, and no others; the last one of each is in two of them."""
    knl = tiles()
    assert pl.verify(knl).is_proven
    old = knl.instruction("b_sum")
    overlapping = isl.Set("[n] -> { [tile, j] : tile >= 0 and 4tile < n and -1 <= j <= 3 and 0 <= j + 4tile < n }")
    wrong = with_instruction(knl, replace(old, terms=(Term(old.terms[0].inames, overlapping),)))
    with pytest.raises(pl.VerificationError) as caught:
        pl.verify(wrong, target=pl.CTarget())
    assert caught.value.codes == ("term-twice",)
    assert "the term (j=3) reaches instance (before=2) more than once" in str(caught.value)


def test_a_result_that_loses_all_of_its_terms_is_refused() -> None:
    """No term is there twice, and each result that has any has all of them."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 8}",
        "f(r) := sum(k, a[r, k])\ny[i] = f(i)",
        [pl.GlobalArg("a", F, shape="n, 8"), pl.GlobalArg("y", F, shape="n")],
    )
    knl = pl.precompute(pl.split_iname(knl, "i", 4), "f", "i_inner", default_tag=None)
    assert pl.verify(knl, target=pl.CTarget()).is_proven
    old = knl.instruction("compute_f")
    (term,) = old.terms
    first = term.inames.index(next(x for x in term.inames if x not in ("i_outer", "k")))
    fewer = replace(term, domain=term.domain.lower_bound_val(SET, first, 1))
    with pytest.raises(pl.VerificationError) as caught:
        pl.verify(with_instruction(knl, replace(old, terms=(fewer,))), target=pl.CTarget())
    assert caught.value.codes == ("term-twice",)


def test_a_result_whose_partial_results_nothing_combines_is_refused() -> None:
    """Each partial result is there, and each result that combines some combines all of them."""
    knl = GALLERY["long_rows"].build()
    old = knl.instruction("sums")
    (term,) = old.terms
    fewer = replace(term, domain=term.domain.lower_bound_val(SET, term.inames.index("i"), 1))
    with pytest.raises(pl.VerificationError) as caught:
        pl.verify(with_instruction(knl, replace(old, terms=(fewer,))), target=pl.CudaTarget())
    assert caught.value.codes == ("instance-lost",)


# }}}
# {{{ what is remembered of a read is remembered of what it is compared with


def test_two_reads_of_one_statement_are_compared_each_with_its_own() -> None:
    """Both read the same element, and only one of them does so in the program."""
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < n - 1}"],
        """
        t[i] = 2*x[i]
        y[j] = t[j] - 3*t[j + 1] {id=use}
        """,
        [pl.GlobalArg("x", F, shape="n"), pl.GlobalArg("y", F, shape="n - 1"), pl.TemporaryVariable("t", F, shape="n")],
    )
    assert pl.verify(knl, target=pl.CTarget()).is_proven
    wrong = with_instruction(knl, replace(knl.instruction("use"), expression=parse_expression("t[j] - 3*t[j]")))
    with pytest.raises(pl.VerificationError) as caught:
        pl.verify(wrong, target=pl.CTarget())
    assert caught.value.codes == ("illegal-order",)


# }}}
# {{{ lanes run one behind the other


def test_an_outer_lane_decides_which_of_two_comes_first() -> None:
    """What ``a=1, b=0`` writes is read by ``a=0, b=1``, which comes before, although its ``b`` is greater."""
    knl = pl.make_kernel(
        "{[i, a, b]: 0 <= i < n and 0 <= a, b < 2}",
        "y[i, 2*a - b + 1] = y[i, 2*a + b + 2] + 1",
        [pl.GlobalArg("y", F, shape="n, 6")],
    )
    knl = pl.tag_inames(knl, "a:ilp, b:ilp")
    given = np.arange(12, dtype=F).reshape(2, 6)
    wanted = pl.interpret(knl, y=given.copy())["y"]
    assert np.array_equal(pl.compile(knl, target=pl.CTarget())(y=given.copy())["y"], wanted)


# }}}
# {{{ names of what kernels have in common


def test_a_new_name_is_not_the_name_of_an_accumulator() -> None:
    """Both kernels have the same instructions; in one of them the name of the accumulator is taken."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i, k < n}", "y[i] = sum(k, a[i, k])",
        [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("y", F, shape="n")],
    )  # fmt: skip
    (name,) = lower(knl).accumulators
    other = replace(knl, temporaries={name: TemporaryVariable(name, np.dtype(F), ())})
    assert name not in lower(other).accumulators
    assert [*lower(knl).accumulators] == [name]


# }}}
# {{{ what runs at edges for nobody


def cells(placement: Placement, placed: Placed, array: str) -> Iterator[isl.Set]:
    space = placement.spaces[array]
    for access in placed.lowered.accesses:
        if access.array == array:
            yield storage_map(placement, placed, access, space).range()


def over_executed(knl: pl.LoopKernel) -> Iterator[str]:
    """Yield the statements that write, for nobody, an element that the program touches."""
    given = place(prepared(knl))
    found = at_edges(given)
    for name in found.placement.phantoms:
        wide, own = found.placement.statements[name], given.statements[name]
        array = wide.lowered.write.array
        written = storage_map(found.placement, wide, wide.lowered.write, given.spaces[array])
        besides = written.intersect_domain(wide.domain.subtract(own.domain)).range()
        if any(not besides.is_disjoint(c) for other in given.statements.values() for c in cells(given, other, array)):
            yield name


EDGES = {
    "prefix_sum": prefix_sum.transformed,
    **{name: GALLERY[name].build for name in ("rows_times_vector_ahead", "scaled_product_at_edges")},
}


@pytest.mark.parametrize("name", EDGES)
def test_what_runs_for_nobody_writes_nothing_that_the_program_touches(name: str) -> None:
    assert not list(over_executed(EDGES[name]()))


# }}}
# {{{ copies that nobody waits for


def with_one_place(placement: Placement, start: Placed) -> tuple[Placement, Placed]:
    """Return the program in which *start* copies into the first place of the ring, whatever the iteration."""
    write = start.lowered.write
    lowered = replace(start.lowered, writes=(replace(write, indices=(Affine((), 0), *write.indices[1:])),))
    changed = replace(start, lowered=lowered)
    return replace(placement, statements={**placement.statements, start.name: changed}), changed


def test_a_place_that_a_copy_is_still_on_its_way_to_is_no_place_for_another_one() -> None:
    found = at_edges(place(prepared(GALLERY["product_by_asynchronous_copies"].build())))
    assert found.unawaited
    for arrival, (start,) in copy_pairs(found.placement):
        assert start.name in found.unawaited
        assert not _is_started_again(found.placement, start, arrival)
        assert _is_started_again(*with_one_place(found.placement, start), arrival)


# }}}


# {{{ bounds of loops


@pytest.mark.parametrize("rest", ["0 <= i and 0 <= j < n", "0 <= i < n and 0 <= j"])
def test_each_iname_is_bounded_by_itself(rest: str) -> None:
    with pytest.raises(pl.KernelError) as caught:
        pl.make_kernel(f"{{[i, j]: {rest}}}", "y[i, j] = 1", [pl.GlobalArg("y", F, shape="n, n"), ...])
    assert caught.value.codes == ("unbounded-domain",)


def rows_of_data(text: str, *data: pl.GlobalArg | pl.TemporaryVariable) -> pl.LoopKernel:
    return pl.make_kernel(
        ["{[i]: 0 <= i < n}", "[n, end] -> {[k]: 0 <= k < end}"],
        text,
        [pl.GlobalArg("r", np.int32, shape="n"), pl.GlobalArg("y", F, shape="n"), *data, ...],
        silenced_warnings="*",
    )


def test_no_shape_follows_from_a_loop_that_data_bounds() -> None:
    """The extent of an argument is that of the array passed; that of a temporary has to be declared."""
    knl = rows_of_data("<> end = r[i]\ny[i] = sum(k, a[i, k])", pl.GlobalArg("a", F))
    assert "a: float32[n, a_shape1]" in str(knl)
    text = "for i\n<> end = r[i]\nfor k\nt[k] = 2*k\nend\ny[i] = sum(k, t[k])\nend"
    with pytest.raises(pl.KernelError) as caught:
        rows_of_data(text, pl.TemporaryVariable("t", F))
    assert caught.value.codes == ("shape-not-inferred",)
    assert "data decides how far iname 'k' runs" in str(caught.value)


# }}}

# {{{ matrix instructions


@pytest.mark.parametrize("term", ["a[i, k]*b[k, j]", "b[k, j]*a[i, k]"])
def test_the_factors_of_matrices_may_be_in_either_order(term: str) -> None:
    knl = pl.tensorize(tiles_of_matrices(text=f"c[i, j] = sum(k, {term})"), "writes:c", "mma_m16n8k16_bf16")
    assert pl.verify(knl, target=pl.CudaTarget()).is_proven


def test_lanes_that_have_no_terms_load_for_those_that_have() -> None:
    """One row of results: in the program, each thread that stores an element is the only one that reads it."""
    knl = pl.make_kernel(
        [
            "{[b, i, j, k]: 0 <= b < n and 0 <= i < m and 0 <= j < 8 and 0 <= k < 16}",
            "{[q, x, z]: 0 <= q < 16 and 0 <= x < 8 and 0 <= z < 1}",
        ],
        """
        t[q, x] = e[b, q, x] {id=load, inames=b:z:q:x}
        c[b, i, j] = sum(k, a[i, k]*t[k, j]) {id=use, inames=b:i:j}
        """,
        [
            pl.GlobalArg("a", BF16, shape="m, 16"),
            pl.GlobalArg("e", BF16, shape="n, 16, 8"),
            pl.GlobalArg("c", F, shape="n, m, 8"),
            pl.TemporaryVariable("t", BF16, shape=(16, 8), address_space="local"),
            ...,
        ],
        assumptions="n >= 1 and m >= 1",
        silenced_warnings="*",
    )
    knl = pl.split_iname(pl.tag_inames(knl, "b:g.0"), "i", 16, outer_iname="by", inner_iname="ii")
    knl = pl.tag_inames(pl.split_iname(knl, "x", 2, outer_tag="l%4", inner_tag="unr"), "z:l/4%8")
    knl = pl.assume(pl.tensorize(knl, "id:use", "mma_m16n8k16_bf16"), "m = 1")
    found = [(n.conflict.first.name, n.conflict.second.name, n.scope) for n in needs(place(knl), "t", 32)]
    assert found == [("load", "use_update", Scope.WARP)]


# }}}
