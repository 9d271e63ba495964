"""What the fuzzer found, made small: each was a wrong program, or no program, before it was mended."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import polyloop as pl
from polyloop.testing.agreement import Programs, compile_c, compile_fibres, disagreement
from polyloop.testing.random_kernels import random_arguments


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYLOOP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def agrees(knl: pl.LoopKernel, *sizes: int) -> None:
    c, cuda = pl.generate_code(knl, target=pl.CTarget()), pl.generate_code(knl, target=pl.CudaTarget())
    libraries = compile_c([c]), compile_fibres([cuda])
    for n in sizes:
        found = disagreement(Programs(knl, c, cuda), random_arguments(knl, n, n), libraries)
        assert found is None, f"n = {n}: {found}"


def test_full_tiles_of_a_strided_loop() -> None:
    """The last full tile was to be found from a row in which the loop's own iname stood inside a floor."""
    knl = pl.make_kernel(
        "[n] -> {[i, k]: 0 <= i < n and 0 <= k < n and k mod 3 = 1}",
        "o[i] = sum(k, a[i, k])",
        [pl.GlobalArg("a", np.float64, shape="n, n"), pl.GlobalArg("o", np.float64, shape="n"), ...],
    )
    knl = pl.split_iname(knl, "k", 2)
    knl = pl.add_prefetch(knl, "a", ["k_inner"])
    agrees(knl, 1, 2, 4, 5, 9)


@pytest.mark.parametrize("transform", ["reverse", "shift"])
def test_parameters_in_the_forms_of_a_copy_are_fixed_too(transform: str) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i] + i", [pl.GlobalArg("x, y", np.float64, shape="n"), ...])
    knl = pl.reverse(knl, "i") if transform == "reverse" else pl.shift(knl, "i", "n - 1")
    agrees(pl.fix_parameters(knl, n=6), 6)


def test_a_strided_loop_waits_before_its_tile_is_filled_again() -> None:
    """Neighbouring iterations of ``k mod 3 = 1`` are three apart: one barrier is not enough."""
    knl = pl.make_kernel(
        ["[n] -> {[i]: 0 <= i < n}", "[n] -> {[k]: 0 <= k < n and k mod 3 = 1}"],
        "o[i] = min(k, a[n - 1 - i, k])",
        [pl.GlobalArg("a", np.float64, shape="n, n"), pl.GlobalArg("o", np.float64, shape="n"), ...],
        assumptions="n >= 1",
    )
    knl = pl.split_iname(knl, "i", 2, inner_tag="l.0")
    knl = pl.add_prefetch(knl, "a", ["i_inner"])
    text = pl.generate_code(knl, target=pl.CudaTarget()).device_code
    body = text[text.index("k += 3") : text.index("o[")]
    assert body.count("__sync") == 2, text
    agrees(knl, 5, 6, 9)


def test_a_temporary_of_lanes_is_not_buffered() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "for i, j\n<> s = x[j]\no[i, j] = s\nend",
        [pl.GlobalArg("x", np.float64, shape="n"), pl.GlobalArg("o", np.float64, shape="n, n"), ...],
    )
    knl = pl.split_iname(knl, "j", 2, inner_tag="ilp")
    with pytest.raises(pl.TransformError) as caught:
        pl.buffer_array(knl, "s", ["j_outer", "i"])
    assert caught.value.codes == ("iname-tagged",)


def test_blocks_that_the_grid_does_not_have_are_in_no_race() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "o[i] = y[i]", [pl.GlobalArg("y, o", np.float64, shape="n"), ...])
    knl = pl.add_prefetch(knl, "y", [], default_tag=None)
    agrees(pl.tag_inames(knl, "y_dim_0:g.0"), 1, 4)
