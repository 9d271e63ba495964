"""Flows: what is plain to see must be what ISL's dataflow analysis says, and both must be right."""

from __future__ import annotations

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.cli import kernels
from polyloop.dataflow import value_flow as dataflow
from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.value_flow import flow_of
from polyloop.kernel.arrays import ArrayArg
from tests.verification.kernels import exchange, on_threads


@pytest.mark.parametrize(
    ("knl", "array"),
    [
        (kernels.matmul(), "a_fetch"),
        (kernels.matmul(), "b_fetch"),
        (kernels.stencil(), "u_fetch"),
        (on_threads(exchange("7 - y, 31 - x")), "t"),
    ],
    ids=["matmul a", "matmul b", "stencil", "exchange"],
)
def test_the_direct_flow_is_isls_flow(knl: pl.LoopKernel, array: str, monkeypatch: pytest.MonkeyPatch) -> None:
    placement = place(knl)
    direct = flow_of(placement, array)
    monkeypatch.setattr(dataflow, "_direct", lambda *_: None)
    full = flow_of(placement, array)
    assert len(direct.reads) > 0
    for mine, isls in zip(direct.sources, full.sources, strict=True):
        ((_, a),), ((_, b),) = mine, isls
        assert a.is_equal(b)
    assert all(initial.is_empty() for initial in (*direct.initial, *full.initial))


def arrays(knl: pl.LoopKernel) -> dict[str, ArrayArg]:
    return {argument.name: argument for argument in knl.arguments if isinstance(argument, ArrayArg)}


def recurrence(distance: int) -> pl.LoopKernel:
    return pl.make_kernel(
        f"{{[i]: {distance} <= i < n}}",
        f"x[i] = x[i - {distance}] + 1",
        [pl.GlobalArg("x", np.float32, shape="n"), ...],
    )


@pytest.mark.parametrize("distance", [1, 3])
def test_a_recurrence_reads_the_instance_before_it(distance: int) -> None:
    flow = flow_of(place(recurrence(distance)), "x")
    (((_, link),),) = flow.sources
    d = distance
    assert str(link.gist_domain(flow.reads[0][0].domain)) == f"[n] -> {{ [i] -> [i' = -{d} + i] : i >= {2 * d} }}"
    assert flow.initial[0].is_equal(isl.Set(f"[n] -> {{ [i] : {d} <= i < n and i < {2 * d} }}"))


def test_an_array_that_is_overwritten_before_it_is_read_is_no_input() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "a[i] = 1\nb[i] = a[i]", [pl.GlobalArg("a, b", np.float32, shape="n"), ...]
    )
    directions = {name: (array.is_input, array.is_output) for name, array in arrays(knl).items()}
    assert directions == {"a": (False, True), "b": (False, True)}


def test_an_array_whose_start_value_is_read_is_an_input() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = a[i] + 1", [pl.GlobalArg("a", np.float32, shape="n"), ...])
    assert (arrays(knl)["a"].is_input, arrays(knl)["a"].is_output) == (True, True)


def test_relations_on_which_isl_fails_are_given_to_it_in_another_form() -> None:
    """ISL raises "affine expression involves some of the domain dimensions" on the skew that a hint looks at."""
    knl = pl.make_kernel(
        "{[k, m, y, x]: 0 <= k < 3 and 0 <= m < k and 0 <= y < 2 and 0 <= x < 32}",
        """
        for k
            for m
                for y, x
                    t[(k + 1) % 2, y, x] = u[(k + 1) % 2, y, x]
                end
                for y, x
                    u[1, 1 - y, (x + 1) % 32] = u[(m + 1) % 2, y, (x + 1) % 32]
                end
            end
        end
        for k
            for m
                for y, x
                    o[5, y, x] = t[(k + 1) % 2, 1 - y, x]
                end
            end
            for y, x
                t[(k + 1) % 2, y, x] = u[1, y, (x + 16) % 32]
            end
        end
        """,
        [pl.GlobalArg("o", np.float32, shape="6, 2, 32"), pl.GlobalArg("t, u", np.float32, shape="2, 2, 32")],
        silenced_warnings="*",
    )
    with pytest.raises(pl.TransformError) as caught:
        pl.tag_inames(knl, "y:l.1, x:l.0")
    assert caught.value.codes == ("illegal-parallel",)
