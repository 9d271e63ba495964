"""Pictures of kernels that are not among the examples: what is alike is drawn once, sizes fit, nothing is too long."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import polyloop as pl
from polyloop.schedule.build import build_verified
from polyloop.viz import rows
from tests.viz.test_pictures import check

F = np.float32


def rows_times(shape: str = "n, m", assumptions: str = "") -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b, c, d", F, shape=shape), ...]
    text = "d[i, j] = a[i, j] + b[i, j]*c[i, j]"
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", text, data, name="rows_times", assumptions=assumptions)
    return knl.split_iname("i", 64, outer_tag="g.0", inner_tag="l.0")


def contraction() -> pl.LoopKernel:
    data = [pl.GlobalArg("p", F, shape="na, ne, nc"), pl.GlobalArg("q", F, shape="ne, nb, nd"),
            pl.GlobalArg("t", F, shape="na, nb, nc, nd"), ...]  # fmt: skip
    knl = pl.make_kernel(
        "{[a, b, c, d, e]: 0 <= a < na and 0 <= b < nb and 0 <= c < nc and 0 <= d < nd and 0 <= e < ne}",
        "t[a, b, c, d] = sum(e, p[a, e, c]*q[e, b, d])", data, name="contraction",
    )  # fmt: skip
    knl = knl.split_iname("d", 16, outer_tag="g.0", inner_tag="l.0")
    return knl.split_iname("c", 16, outer_tag="g.1", inner_tag="l.1").tag_inames("b:g.2")


def nothing() -> pl.LoopKernel:
    data = [pl.GlobalArg("y", F, shape=4)]
    return pl.make_kernel("{[i]: 0 <= i < 0}", "y[i] = 1", data, name="nothing", silenced_warnings="*")


def test_accesses_with_the_same_cells_share_a_panel() -> None:
    picture = check(lambda: rows_times().draw_accesses())
    titles = [label.text for label in picture.labels if label.text.startswith("global: ")]
    assert len(titles) == 4
    assert sum(label.text == "sector at byte" for label in picture.labels) == 1


def test_a_footprint_of_many_axes_takes_smaller_sizes_by_itself() -> None:
    knl = contraction()
    picture = check(knl.draw_footprint)
    assert "reads p" in str(picture)
    with pytest.raises(pl.ArgumentError, match=r"accesses 'p' in more than 20,000 instances") as error:
        knl.draw_footprint(sizes=dict.fromkeys(("na", "nb", "nc", "nd", "ne"), 99))
    assert error.value.codes == ("too-many-instances",)


def test_sizes_that_are_left_open_fit_the_assumptions() -> None:
    picture = check(lambda: rows_times(assumptions="m mod 64 = 0 and m >= 1").draw_domain())
    assert "m = 192" in str(picture) or "m = 64" in str(picture)


def test_a_kernel_without_instances_has_pictures_or_a_reason() -> None:
    assert "launch nothing" in str(check(lambda: nothing().loops))
    for draw in (nothing().draw_domain, nothing().draw_pipeline, nothing().draw_footprint, nothing().draw_accesses):
        with pytest.raises(pl.ArgumentError):
            draw()


@pytest.mark.parametrize("name", ["argmin_two_launches", "layer_norm", "stencil_2d"])
def test_grids_are_those_of_the_generated_program(name: str) -> None:
    knl, target = import_module(f"examples.{name}").transformed(), pl.CudaTarget("sm_90a")
    assert target.limits is not None
    found = rows._grids(knl, build_verified(knl, target.limits), target)
    known = {launch.name: launch.grid for launch in pl.generate_code(knl, target=target).launches}
    assert {name: [str(size) for size in grid] for name, grid in found.items()} == {
        name: [str(size) for size in known[name]] for name in found
    }
    assert found
