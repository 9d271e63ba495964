"""Statements that a step leaves alone are those of the kernel before, with their places and their dataflow."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.value_flow import known_flow
from polyloop.memo import forgotten
from polyloop.program.lower import lower


def two_nests() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        """
        for i
            <> s = sum(k, a[i, k])
            b[i] = s*s
        end
        for j
            c[j] = 2*b[j]
        end
        """,
        [pl.GlobalArg("a", np.float32, shape="n, n"), pl.GlobalArg("b, c", np.float32, shape="n"), ...],
    )


def test_an_untouched_nest_keeps_its_statements_and_their_dataflow() -> None:
    knl = two_nests()
    other = pl.split_iname(knl, "j", 16)
    before, after = place(knl), place(other)
    kept = [name for name, statement in before.statements.items() if after.statements.get(name) is statement]
    assert len(kept) == len(before.statements) - 1
    assert known_flow(after, "s") is known_flow(before, "s")
    assert known_flow(after, "b") is not known_flow(before, "b")


def test_the_tags_of_its_loops_make_another_statement_of_a_reduction() -> None:
    knl = two_nests()
    tagged = pl.tag_inames(pl.split_iname(knl, "k", 32, inner_tag="l.0"), "i:g.0")
    assert any("combine" in name for name in lower(tagged).statements)
    assert not any("combine" in name for name in lower(knl).statements)


def test_names_that_are_taken_meanwhile_are_not_given_out_again() -> None:
    knl = two_nests()
    (accumulator,) = lower(knl).accumulators
    taken = pl.make_kernel(
        "{[i, k]: 0 <= i, k < n}", "b[i] = sum(k, a[i, k]) {id=b}",
        [pl.GlobalArg("a", np.float32, shape="n, n"), pl.GlobalArg("b", np.float32, shape="n"), ...],
    )  # fmt: skip
    (name,) = lower(taken).accumulators
    assert name == accumulator
    renamed = pl.rename_iname(taken, "k", name)
    (other,) = lower(renamed).accumulators
    assert other not in {name, *renamed.inames}


def test_what_is_shared_is_what_would_be_found_anew() -> None:
    def text() -> str:
        knl = pl.split_iname(two_nests(), "i", 32, outer_tag="g.0", inner_tag="l.0")
        knl = pl.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
        return pl.generate_code(knl, target=pl.CudaTarget()).device_code

    shared = text()
    with forgotten():
        assert text() == shared
