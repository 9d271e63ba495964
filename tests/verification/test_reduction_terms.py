"""The terms of results: each once, of its own result, in order; the loop tree and the dataflow find the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import islpy as isl
import numpy as np
import pymbolic.primitives as p
import pytest

import polyloop as pl
from polyloop.expr.nodes import array_name
from polyloop.expr.parser import parse_expression
from polyloop.expr.rewrite import map_nodes
from polyloop.frozen import replace
from polyloop.kernel.instruction import Instruction, Term
from polyloop.kernel.tags import GroupAxis
from polyloop.poly.affine import Affine
from polyloop.poly.sets import Row, add_rows, universe
from polyloop.program.ir import Update
from polyloop.program.lower import lower
from polyloop.proof.obligation import findings
from polyloop.testing.brute import judge
from polyloop.testing.drawing.breaks import broken
from polyloop.transform.staging.staging import assign_auto
from polyloop.verification import accumulators
from polyloop.verification.accumulators import accumulator_obligations
from polyloop.verification.correspondence import Comparison
from polyloop.verification.provenance import expression_violations
from polyloop.verification.reduction_terms import reduction_obligations, term_order_obligations
from polyloop.verification.values import value_violations
from tests.gallery import GALLERY
from tests.transform.checking import refused

F = np.float32
UP_TO = "{[i, j]: 0 <= i < n and 0 <= j <= i}"
NAMES = sorted(name for name, entry in GALLERY.items() if not entry.refused)


def codes(knl: pl.LoopKernel) -> list[str]:
    comparison = Comparison(knl)
    obligations = (*reduction_obligations(comparison), *term_order_obligations(comparison))
    return [finding.code for finding in findings(knl, obligations)]


def wrong(knl: pl.LoopKernel) -> set[str]:
    """Return what brute force finds wrong."""
    return {entry.kind for n in (1, 4, 5, 9) for entry in judge(assign_auto(knl), {"n": n}, {})}


def changed(knl: pl.LoopKernel, name: str, change: Callable[[Instruction], Instruction]) -> pl.LoopKernel:
    return replace(knl, instructions=tuple(change(old) if old.id == name else old for old in knl.instructions))


def prefix(operation: str = "sum(j, a[j])") -> pl.LoopKernel:
    return pl.make_kernel(UP_TO, f"b[i] = {operation}", [pl.GlobalArg("a, b", F, shape="n"), ...], name="prefix")


# {{{ each term once


def with_terms(rows: Callable[..., list[Affine]]) -> Callable[[Instruction], Instruction]:
    """Return a change of an instruction: the terms of its reduction are those for which *rows* are not negative."""

    def change(old: Instruction) -> Instruction:
        (term,) = old.terms
        own = len(term.inames) - len(old.inames)
        around = old.domain.insert_dims(isl.dim_type.set, len(old.inames), own)
        wanted = [Row(form) for form in rows(*map(Affine.variable, term.inames))]
        domain = add_rows(universe(old.domain.params(), term.inames), term.inames, wanted).intersect(around)
        return replace(old, terms=(Term(term.inames, domain),))

    return change


def last(count: int) -> Callable[[Affine, Affine], list[Affine]]:
    """Return the terms that a running total adds: so many of the last ones, in each iteration."""
    return lambda i, j: [j.add(i, -1).add(Affine((), count - 1)), i.add(j, -1), j]


def test_a_term_that_two_iterations_add_is_counted_twice() -> None:
    """All results have the terms of the program, and no others, but all except the last one twice."""
    scanned = pl.realize_scan(prefix())
    assert not codes(changed(scanned, "insn", with_terms(last(1))))
    twice = changed(scanned, "insn", with_terms(last(2)))
    assert codes(twice) == ["term-twice"]
    assert "value" in wrong(twice)


def test_a_maximum_may_have_a_term_twice() -> None:
    twice = changed(pl.realize_scan(prefix("max(j, a[j])")), "insn", with_terms(last(2)))
    assert not codes(twice)
    assert not wrong(twice)


def test_an_ordered_maximum_may_not() -> None:
    twice = changed(pl.realize_scan(prefix("reduce(ordered(max), j, a[j])")), "insn", with_terms(last(2)))
    assert codes(twice) == ["term-twice"]


def test_a_term_that_the_total_has_already_is_counted_twice() -> None:
    """Each tile begins with the sum of those before it, and with itself."""
    knl = pl.realize_scan(pl.split_scan(prefix(), "i", 4))
    carried = changed(knl, "b_carry", lambda old: replace(old, expression=replace(old.expression, after=False)))
    assert codes(carried) == ["term-twice"]
    assert "value" in wrong(carried)


def test_terms_are_not_sought_where_data_decides() -> None:
    knl = pl.realize_scan(pl.split_scan(prefix(), "i", 4))
    condition = parse_expression("a[0] > 0")
    assert codes(changed(knl, "b_sum", lambda old: replace(old, predicates=(condition,)))) == ["not-proven"]
    domains = [UP_TO, "{[k]: 0 <= k < n}"]
    text = "c[k] = a[k] {if=a[k] > 0}\nb[i] = sum(j, c[j])"
    knl = pl.make_kernel(domains, text, [pl.GlobalArg("a, b, c", F, shape="n"), ...])
    assert "'c', which its terms read, is written where data decides" in refused(knl, pl.realize_scan, "not-proven")


@pytest.mark.parametrize("term", ["max(k, a[i, k])", "2*max(k, a[i, k])"])
def test_a_term_that_is_a_reduction_may_change_from_result_to_result(term: str) -> None:
    domains = [UP_TO, "{[k]: 0 <= k < n}"]
    given = [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("b", F, shape="n")]
    knl = pl.make_kernel(domains, f"b[i] = sum(j, {term})", given)

    def scanned(old: Instruction) -> Instruction:
        same = Row(Affine.variable("i").add(Affine.variable("j"), -1), True)
        terms = tuple(Term(term.inames, add_rows(term.domain, term.inames, [same])) for term in old.terms)
        return replace(old, expression=replace(old.expression, along=("i",)), terms=terms)

    totals = changed(knl, "insn", scanned)
    assert codes(totals) == ["not-proven"]
    assert "value" in wrong(totals)


def test_sums_of_another_scan_are_no_parts() -> None:
    given = [pl.GlobalArg("a, b, c, d", F, shape="n"), ...]
    knl = pl.make_kernel(UP_TO, "b[i] = sum(j, a[j])\nd[i] = sum(j, c[j])", given)
    knl = pl.split_scan(knl, "i", 4, within="writes:b", carry_iname="b_tile")
    knl = pl.split_scan(knl, "i", 4, within="writes:d", carry_iname="tile", outer_iname="t", inner_iname="e")
    assert not codes(knl)

    def other(expr: Any) -> Any:
        is_sum = isinstance(expr, p.Subscript) and array_name(expr) == "d_sum"
        return p.Subscript(p.Variable("b_sum"), expr.index_tuple) if is_sum else expr

    swapped = changed(knl, "d_carry", lambda old: replace(old, expression=map_nodes(old.expression, other)))
    assert codes(swapped) == ["not-proven"]
    assert "value" in wrong(swapped)
    number = changed(knl, "d_carry", lambda old: replace(old, expression=replace(old.expression, expr=1)))
    assert codes(number) == ["not-proven"]


def test_results_that_nothing_reads_are_not_proven() -> None:
    knl = pl.split_scan(prefix(), "i", 4)
    assert codes(changed(knl, "insn", lambda old: replace(old, expression=0, terms=()))) == ["not-proven"]


def test_a_state_that_is_not_set_is_no_state_without_terms() -> None:
    """The sum of the tiles before the first one is 0, which nothing stores."""
    knl = pl.realize_scan(pl.split_scan(prefix(), "i", 4, carry_iname="c"))

    def later(old: Instruction) -> Instruction:
        (term,) = old.terms
        first = isl.dim_type.set, 0, 1
        return replace(
            old, domain=old.domain.lower_bound_val(*first),
            terms=(Term(term.inames, term.domain.lower_bound_val(*first)),),
        )  # fmt: skip

    unset = changed(knl, "b_carry", later)
    assert codes(unset) == ["not-proven"]
    assert "value" in wrong(unset)


# }}}
# {{{ the terms of a result are its own


def rows() -> pl.LoopKernel:
    """Sums of the tiles of four rows, totals of these, and tiles, each in a loop over rows of its own."""
    domains = ["{[r]: 0 <= r < 4}", UP_TO]
    knl = pl.make_kernel(domains, "b[r, i] = sum(j, a[r, j])", [pl.GlobalArg("a, b", F, shape="4, n"), ...])
    knl = pl.realize_scan(pl.split_scan(knl, "i", 4, carry_iname="tile"))

    def of_row(expr: Any) -> Any:
        if isinstance(expr, p.Subscript) and array_name(expr) in ("b_sum", "b_carry"):
            indices: tuple[Any, ...] = expr.index_tuple
            return p.Subscript(expr.aggregate, (p.Variable("r"), *indices))
        return expr

    def change(old: Instruction) -> Instruction:
        return replace(old, assignee=map_nodes(old.assignee, of_row), expression=map_nodes(old.expression, of_row))

    temporaries = {name: replace(old, shape=(4, *(old.shape or ()))) for name, old in knl.temporaries.items()}
    knl = replace(knl, instructions=tuple(map(change, knl.instructions)), temporaries=temporaries)
    knl = pl.duplicate_inames(knl, "r", within="id:b_sum", new_inames="sum_row")
    return pl.duplicate_inames(knl, "r", within="id:b_carry", new_inames="carry_row")


def of_other_rows(knl: pl.LoopKernel) -> Iterator[pl.LoopKernel]:
    """Yield *knl* with the sums of another row in place of those of its own."""

    def swapped(expr: Any) -> Any:
        if isinstance(expr, p.Subscript) and array_name(expr) in ("b_sum", "b_carry"):
            indices: tuple[Any, ...] = expr.index_tuple
            return p.Subscript(expr.aggregate, (3 - indices[0], *indices[1:]))
        return expr

    for name in ("b_carry", "insn"):
        yield changed(knl, name, lambda old: replace(old, expression=map_nodes(old.expression, swapped)))


def test_sums_of_another_row_are_no_parts() -> None:
    knl = rows()
    assert not codes(knl)
    assert not wrong(knl)
    for other in of_other_rows(knl):
        assert codes(other) == ["scan-terms"]
        assert "value" in wrong(other)


def ahead(term: str) -> pl.LoopKernel:
    given = [pl.GlobalArg("a", F, shape="8, n + 1"), pl.GlobalArg("s", F, shape="8"), ...]
    rule = f"f(x) := sum(k, {term})"
    domain = "{[i, k]: 0 <= i < 8 and 0 <= k < n}"
    knl = pl.make_kernel(domain, [rule, "s[i] = f(i) + 1"], given, assumptions="n >= 1", silenced_warnings="*")
    return pl.precompute(pl.split_iname(knl, "i", 4), "f", ["i_inner"], temporary_name="sums")


def staged(term: str) -> pl.LoopKernel:
    given = [pl.GlobalArg("a", F, shape="8, n + 4"), pl.GlobalArg("s", F, shape="8"), ...]
    domain = "{[x, k]: 0 <= x < 8 and 0 <= k < n}"
    knl = pl.make_kernel(domain, f"s[x] = sum(k, {term})", given, assumptions="n >= 1", silenced_warnings="*")
    return pl.stage_reduction(pl.split_iname(knl, "k", 4), "k_inner", temporary_name="sums")


@pytest.mark.parametrize("made", [ahead, staged])
@pytest.mark.parametrize("term", ["2", "x", "a[x, k]", "a[x, 0]"])
def test_a_sum_that_is_computed_ahead_has_no_other_terms(made: Callable[[str], pl.LoopKernel], term: str) -> None:
    """A term that reads no array, or an element that there is all the same, does not show by its operands."""
    knl = made(term)
    name = next(i.id for i in knl.instructions if "sums" in i.writes)
    assert not [*value_violations(knl)]
    assert not wrong(knl)
    more = [variant for label, variant in broken(knl) if label.startswith(f"{name}: terms over") and "more" in label]
    assert more
    for variant in more:
        found = {finding.code for finding in value_violations(variant)}
        assert found == {"copy-wrong-element" if term == "x" else "term-twice"}
        assert "value" in wrong(variant)


def test_rows_of_a_sparse_matrix_have_no_terms_behind_their_end() -> None:
    knl = GALLERY["csr_product"].build()
    labels = ["terms over j: one more", "terms over j: without the first"]
    variants = {label.split(": ", 1)[1]: variant for label, variant in broken(knl)}
    assert not [*expression_violations(knl)]
    assert [finding.code for finding in expression_violations(variants[labels[0]])] == ["expression-changed"]
    assert [finding.code for finding in value_violations(variants[labels[1]])] == ["instance-lost"]


# }}}
# {{{ their order


def backwards(old: Instruction) -> Instruction:
    """Add the sums of the tiles from the last to the first."""
    (outer,), (iname,) = old.inames, old.terms[0].inames[1:]

    def last_first(expr: Any) -> Any:
        if isinstance(expr, p.Subscript):
            return p.Subscript(expr.aggregate, p.Variable(outer) - 1 - p.Variable(iname))
        return expr

    return replace(old, expression=map_nodes(old.expression, last_first))


def segments() -> pl.LoopKernel:
    given = [pl.GlobalArg("a, b", F, shape="n"), pl.GlobalArg("f", np.bool_, shape="n"), ...]
    return pl.make_kernel(UP_TO, "b[i] = reduce(segmented(sum), j, a[j], f[j]).value", given)


def test_tiles_that_are_added_backwards_are_out_of_order() -> None:
    """That is fine for a sum, but not for segments."""
    for knl, expected in ((prefix(), []), (segments(), ["illegal-order"])):
        split = pl.split_scan(knl, "i", 4, carry_iname="c")
        assert not codes(split)
        assert codes(changed(split, "b_carry", backwards)) == expected


def test_a_state_of_later_terms_is_out_of_order() -> None:
    """Each result begins with the terms from 1 on, to which term 0 is added."""
    for knl, expected in ((prefix(), []), (segments(), ["illegal-order"])):
        split = pl.split_scan(knl, "i", 1, carry_iname="c")
        split = changed(split, "b_carry", with_terms(lambda c, j: [j.add(Affine((), 1), -1), c.add(j, -1)]))
        split = changed(split, "insn", with_terms(lambda i, _, j: [j.add(i), j.add(i).scale(-1)]))
        assert codes(split) == expected


def test_ordered_terms_at_one_time_are_out_of_order() -> None:
    given = [pl.GlobalArg("a", F, shape="n"), ...]
    knl = pl.make_kernel("{[k]: 0 <= k < n}", "s = reduce(ordered(sum), k, a[k])", given)
    assert not codes(knl)
    assert codes(replace(knl, iname_tags={"k": GroupAxis(0)})) == ["parallel-reduction", "illegal-order"]


def test_terms_of_two_loops_have_the_order_of_the_text() -> None:
    given = [pl.GlobalArg("a", F, shape="4, 4"), ...]
    knl = pl.make_kernel("{[j, k]: 0 <= j, k < 4}", "s = reduce(ordered(sum), (j, k), a[j, k])", given)
    assert not codes(knl)
    assert codes(replace(knl, loop_priority=(("k", "j"),))) == ["illegal-order"]


def test_terms_that_are_set_in_a_loop_have_its_order() -> None:
    given = [pl.GlobalArg("a", F, shape="4, 4"), ...]
    text = "for k, j\n<> t = a[j, k]\nend\ns = reduce(ordered(sum), (j, k), t)"
    knl = pl.make_kernel("{[j, k]: 0 <= j, k < 4}", text, given, loop_priority=["k, j"])
    assert [s.inames for s in lower(knl).statements.values() if isinstance(s.part, Update)] == [("k", "j")]
    assert not codes(pl.split_iname(knl, "k", 2))


def test_threads_that_repeat_a_sum_have_one_order_each() -> None:
    given = [pl.GlobalArg("a, b", F, shape="8"), pl.GlobalArg("c", F, shape="n"), ...]
    text = "b[i] = a[i]\ns = reduce(ordered(sum), k, c[k])"
    knl = pl.make_kernel("{[i, k]: 0 <= i < 8 and 0 <= k < n}", text, given)
    assert not codes(pl.tag_inames(knl, "i:l.0"))


# }}}
# {{{ the loop tree and the dataflow


def by_dataflow(monkeypatch: pytest.MonkeyPatch, knl: pl.LoopKernel) -> list[str]:
    with monkeypatch.context() as patch:
        patch.setattr(accumulators, "is_nested", lambda *_: False)
        return codes(replace(knl))


@pytest.mark.few(60)
@pytest.mark.parametrize("name", NAMES)
def test_dataflow_finds_what_the_loop_tree_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    knl = GALLERY[name].build()
    assert codes(replace(knl)) == by_dataflow(monkeypatch, knl) == []


@pytest.mark.few(8)
@pytest.mark.parametrize("name", NAMES[::8])
def test_dataflow_finds_wrong_what_the_loop_tree_does_not_show(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variants = [*broken(GALLERY[name].build())]
    for label, knl in random.Random(name).sample(variants, min(6, len(variants))):
        try:
            lower(knl)
            found = codes(knl)
        except pl.PolyloopError:
            continue
        assert by_dataflow(monkeypatch, knl) == found, label


def test_a_sum_that_loops_are_put_between() -> None:
    """One accumulator for all ``j`` of a tile: ``tile`` puts ``i_inner`` around the assignments, not around the sum."""
    given = [pl.GlobalArg("a", F, shape="6, 6"), pl.GlobalArg("o", F, shape="6, 6"), ...]
    text = "<> s = sum(k, a[i, k]*a[j, k])\no[i, j] = s"
    knl = pl.tile(pl.make_kernel("{[i, j, k]: 0 <= i, j, k < 6}", text, given), {"i": 2, "k": 3})
    assert codes(knl) == ["accumulator-clobbered"]
    assert {entry.kind for entry in judge(assign_auto(knl), {}, {})} == {"value"}


Places: TypeAlias = dict[str, tuple[int | str, ...]]
SUM: Places = {"insn_init": (0, "i", 0), "insn_update": (0, "i", 1, "k", 0), "insn": (0, "i", 2)}
THREADS: Places = {
    "insn_init": (0, "i", 0), "insn_update": (0, "i", 1, "k_outer", 0), "insn_combine": (0, "i", 2),
    "insn": (0, "i", 3),
}  # fmt: skip


@pytest.mark.parametrize(
    ("places", "of", "found"),
    [
        (SUM, SUM, []),
        ({**SUM, "insn_init": (-1, "i", 0)}, SUM, ["accumulator-clobbered"]),  # set for all i before all of the terms
        ({**SUM, "insn": (1, "i", 0)}, SUM, ["accumulator-clobbered"]),  # read after all of the terms
        ({**SUM, "insn": (0, "i", 0), "insn_init": (0, "i", -1)}, SUM, ["accumulator-clobbered"]),  # before its terms
        ({**SUM, "insn_init": (0, "i", 3)}, SUM, ["accumulator-clobbered"]),
        (THREADS, THREADS, []),
        ({**THREADS, "insn_combine": (0, "i", 0), "insn_init": (0, "i", -1)}, THREADS, ["accumulator-clobbered"]),
        ({**THREADS, "insn_combine": (0, "i", 4)}, THREADS, ["accumulator-clobbered"]),
    ],
)
def test_statements_of_a_sum_in_other_places(
    places: Places, of: Places, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No program has a tree like these: lowering places the statements of a sum."""
    given = [pl.GlobalArg("a", F, shape="n, 8"), pl.GlobalArg("s", F, shape="n")]
    knl = pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < 8}", "s[i] = sum(k, a[i, k])", given)
    if of is THREADS:
        knl = pl.split_iname(knl, "k", 4, inner_tag="l.0")
    comparison = Comparison(knl)
    new = comparison.new
    assert new.program.places == of
    comparison.new = replace(new, program=replace(new.program, places=places))
    assert accumulators.is_nested(comparison.new, "acc") == (not found)
    for is_nested in (accumulators.is_nested, lambda *_: False):
        monkeypatch.setattr(accumulators, "is_nested", is_nested)
        assert [f.code for o in accumulator_obligations(comparison) for f in o.find()] == found


# }}}
