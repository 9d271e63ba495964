"""Shapes of blocks, which each launch has of its own: results, texts, limits."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.gpu import gpu_available
from polyloop.target.cuda import with_one_launch

F = np.float64


def rows(sum_threads: int = 128, tile: int = 16) -> LoopKernel:
    """Return a time loop of a transpose on tiles, sums of rows on blocks of one row, and one element."""
    knl = pl.make_kernel(
        "{[t, i, j, k, l]: 0 <= t < steps and 0 <= i, j, k, l < n}",
        """
        for t
            for i, j
                v[i, j] = u[j, i] + 1 {id=turn}
            end
            for k
                s[k] = sum(l, v[k, l]) {id=sum}
            end
            u[t % n, 0] = s[0] + s[n - 1] {id=one}
        end
        """,
        [pl.GlobalArg("u, v", F, shape="n, n"), pl.GlobalArg("s", F, shape="n"), ...], name="rows",
        assumptions="n >= 1 and steps >= 0",
    )  # fmt: skip
    knl = knl.split_iname("i", tile, outer_tag="g.1", inner_tag="l.1")
    knl = knl.split_iname("j", tile, outer_tag="g.0", inner_tag="l.0")
    return knl.tag_inames("k:g.0").split_iname("l", sum_threads, inner_tag="l.0")


def inputs(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    return {"u": rng.random((n, n)), "v": np.zeros((n, n)), "s": np.zeros(n), "steps": 3, "n": n}


def copied(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in given.items()}


def agree(knl: LoopKernel, given: dict[str, Any]) -> None:
    expected = pl.interpret(knl, **given)
    runs = [*run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), given).values()]
    runs.append(pl.compile(knl, target=pl.CTarget())(**copied(given)))
    for found in runs:
        for name in expected.keys():  # noqa: SIM118  # iterating over a result gives its values
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)


@pytest.mark.few(2)
@pytest.mark.parametrize("size", [1, 5, 20, 33])
def test_each_launch_has_the_threads_of_its_statements(size: int) -> None:
    knl = rows()
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert [launch.block for launch in program.launches] == [(16, 16, 1), (128, 1, 1), (1, 1, 1)]
    assert [f"__launch_bounds__({threads}) rows_{number}(" in program.device_code
            for number, threads in enumerate((256, 128, 1))] == [True] * 3
    agree(knl, inputs(size))


def test_threads_are_numbered_as_in_their_own_blocks() -> None:
    """Sums over 32 threads are inside of a warp, whatever the blocks of the launch before look like."""
    knl = rows(sum_threads=32, tile=4)
    text = pl.generate_code(knl, target=pl.CudaTarget()).device_code
    assert "__launch_bounds__(32) rows_1" in text
    assert "warp_sum" in text
    assert "__syncthreads" not in text
    agree(knl, inputs(37))


def test_barriers_of_a_warp_are_those_of_the_launch() -> None:
    """Threads 4*i to 4*i + 3 meet: in a block of 4 x 16 they are in one warp, in one of 64 x 16 they would be, too."""
    knl = pl.make_kernel(
        "{[i, j, k, p]: 0 <= i < n and 0 <= j < 64 and 0 <= k, p < 32}",
        """
        for i, j
            y[i, j] = x[i, 63 - j] {id=wide}
        end
        for i
            for k
                <> t[k] = y[i, k] {id=fill}
            end
            for p
                z[i, p] = t[31 - p] + y[n - 1 - i, p] {id=use}
            end
        end
        """,
        [pl.GlobalArg("x, y", F, shape="n, 64"), pl.GlobalArg("z", F, shape="n, 32"), ...], name="pair",
        assumptions="n >= 1", seq_dependencies=True,
    )  # fmt: skip
    knl = knl.tag_inames("i:g.0, j:l.0, k:l.0, p:l.0").set_temporary_address_space("t", "local")
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert [launch.block[0] for launch in program.launches] == [64, 32]
    assert "__syncwarp();" in program.device_code
    assert "__syncthreads" not in program.device_code
    agree(knl, {"x": np.random.default_rng(1).random((3, 64)), "y": np.zeros((3, 64)), "z": np.zeros((3, 32)), "n": 3})


def test_one_cooperative_launch_keeps_one_shape() -> None:
    program = pl.generate_code(rows(sum_threads=16, tile=8), target=with_one_launch(pl.CudaTarget()))
    assert {launch.block for launch in program.launches} == {(16, 8, 1)}


def test_a_block_of_all_launches_may_be_too_large_for_a_cooperative_one() -> None:
    """The smallest blocks that hold all launches have 128 x 16 threads."""
    with pytest.raises(pl.VerificationError) as error:
        pl.generate_code(rows(), target=with_one_launch(pl.CudaTarget()))
    assert error.value.codes == ("block-too-large",)
    assert "a block has 128 x 16 = 2048 threads; the device allows 1024" in str(error.value)


def test_a_launch_that_is_too_large_is_refused() -> None:
    with pytest.raises((pl.TransformError, pl.VerificationError)) as error:
        pl.generate_code(rows(tile=64))
    assert "block-too-large" in error.value.codes


def test_two_nests_of_one_launch_share_its_blocks() -> None:
    knl = pl.make_kernel(
        "{[b, i, j]: 0 <= b < n and 0 <= i < 16 and 0 <= j < 64}",
        "for b\n    for i\n        x[b, i] = i {id=x}\n    end\n    for j\n        y[b, j] = j {id=y}\n    end\nend",
        [pl.GlobalArg("x", F, shape="n, 16"), pl.GlobalArg("y", F, shape="n, 64"), ...], name="both",
    ).tag_inames("b:g.0, i:l.1, j:l.0")
    assert [launch.block for launch in pl.generate_code(knl).launches] == [(64, 16, 1)]


@pytest.mark.gpu
@pytest.mark.parametrize("launches", ["host", "graph"])
def test_shapes_run_on_a_gpu(launches: str) -> None:
    if not gpu_available()[0]:
        pytest.skip("no GPU")
    knl = rows()
    run = pl.compile(knl, target=pl.CudaTarget(), launches=launches)
    for n in (1, 20, 33, 300):
        given = inputs(n)
        expected, found = pl.compile(knl, target=pl.CTarget())(**copied(given)), run(**copied(given))
        for name in expected.keys():  # noqa: SIM118
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)


def test_copies_of_a_launch_leave_others_their_shape() -> None:
    """A tile is copied by the 256 threads of its launch, not by those of the largest block along each axis."""
    knl = pl.make_kernel(
        "{[t, i, k, l]: 0 <= t < steps and 0 <= i, k, l < n}",
        """
        for t
            for i
                s[i] = s[i] + b[0, i] {id=sum}
            end
            for k, l
                b[k, l] = b[k, l] + s[k]*s[l] + c[k] {id=outer}
            end
        end
        """,
        [pl.GlobalArg("b", F, shape="n, n"), pl.GlobalArg("s, c", F, shape="n"), ...], name="products",
        assumptions="n >= 1 and steps >= 0",
    )  # fmt: skip
    knl = knl.split_iname("i", 512, outer_tag="g.0", inner_tag="l.0")
    knl = knl.split_iname("k", 64, outer_tag="g.1").split_iname("k_inner", 16, outer_iname="kr", inner_tag="l.1")
    knl = knl.split_iname("l", 16, outer_tag="g.0", inner_tag="l.0")
    knl = knl.add_prefetch("s[k]", "kr, k_inner_inner", fetch_outer_inames="t, k_outer, l_outer", within="id:outer",
                           temporary_name="s_tile", default_tag="l.auto")
    text = pl.generate_code(knl, target=pl.CudaTarget()).device_code
    assert [int(n) for n in re.findall(r"__launch_bounds__\((\d+)", text)] == [512, 256]
    n = 70
    rng = np.random.default_rng(3)
    agree(knl, {"b": rng.random((n, n)), "s": rng.random(n), "c": rng.random(n), "steps": 2, "n": n})
