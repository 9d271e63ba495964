"""Grids that no device can have are refused at the launch, on the GPU and on fibres alike."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.arguments import Binder
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.views import HostMemory
from tests.codegen.running import needs_compiler


def rows(axis: str, other: str) -> pl.LoopKernel:
    """Return a kernel with one block for each row of y along *axis*, and blocks of columns along *other*."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < m}", "y[i, j] = 2*x[i]",
        [pl.GlobalArg("x", np.int8, shape="n"), pl.GlobalArg("y", np.int8, shape="n, m"), ...], name="rows",
    )  # fmt: skip
    return pl.tag_inames(pl.split_iname(knl, "j", 4, outer_tag=other, inner_tag="l.0"), {"i": axis})


def arguments(n: int, m: int) -> dict[str, np.ndarray]:
    return {"x": np.ones(n, np.int8), "y": np.zeros((n, m), np.int8)}


def refusal(axis: str, other: str, n: int, m: int) -> str:
    with pytest.raises(pl.ArgumentError) as error:
        Binder(pl.generate_code(rows(axis, other)), HostMemory()).bind(arguments(n, m))
    assert error.value.codes == ("grid-too-large",)
    return str(error.value)


def test_too_many_blocks_along_y() -> None:
    assert refusal("g.1", "g.0", 65536, 3) == """\
call on kernel 'rows': launch 'rows' has 65536 blocks along 'g.1' [grid-too-large]
  Note: the grid is 1 x 65536 x 1 blocks, and a device can have 65535 along 'g.1'
  Note: the extent of 'g.1' is n, with n = 65536
  Note: axis 0 of 'x' is 65536, which gives n = 65536
  Hint: tag g.0 for the longer axis, which can have 2^31 - 1 blocks
  Hint: split the iname by a greater factor"""


def test_too_many_blocks_along_z() -> None:
    assert "has 70000 blocks along 'g.2'" in refusal("g.2", "g.0", 70000, 1)


def test_fibres_refuse_what_a_device_does() -> None:
    with pytest.raises(pl.ArgumentError, match="65536 blocks along"):
        run_on_fibres(pl.generate_code(rows("g.1", "g.0")), arguments(65536, 1))


@needs_compiler
@pytest.mark.parametrize(("axis", "other", "n", "m"), [("g.0", "g.1", 65536, 3), ("g.1", "g.0", 65535, 1)])
def test_the_longest_grids(axis: str, other: str, n: int, m: int) -> None:
    found = run_on_fibres(pl.generate_code(rows(axis, other)), arguments(n, m), orders=("forward",))
    assert (found["forward"].y == 2).all()


@needs_compiler
@pytest.mark.parametrize(("tags", "grid"), [
    ({"i": "g.1"}, (70000, 1, 1)), ({"i": "g.2"}, (70000, 1, 1)), ({"i": "g.1", "j": "g.2"}, (70000, 1, 3)),
])  # fmt: skip
def test_a_grid_begins_with_its_first_axis(tags: dict[str, str], grid: tuple[int, int, int]) -> None:
    """Along x a grid may have 2^31 - 1 blocks: where no iname is on g.0, the next axis takes its place."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < m}", "y[i, j] = 2*x[i] + j",
        [pl.GlobalArg("x", np.int8, shape="n"), pl.GlobalArg("y", np.int8, shape="n, m"), ...], name="rows",
    )  # fmt: skip
    program = pl.generate_code(pl.tag_inames(knl, tags))
    bound = Binder(program, HostMemory()).bind(arguments(70000, 3))
    assert [found for _, found, _ in bound.launches] == [grid]
    assert "const int bx = blockIdx.x" in program.device_code
    found = run_on_fibres(program, arguments(70000, 3), orders=("forward",))["forward"].y
    np.testing.assert_array_equal(found, np.broadcast_to(2 + np.arange(3, dtype=np.int8), (70000, 3)))


def test_an_empty_launch_may_have_any_size() -> None:
    bound = Binder(pl.generate_code(rows("g.1", "g.0")), HostMemory()).bind(arguments(70000, 0))
    assert not bound.launches


def test_the_first_axis_is_limited_too() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[0] = y[0] + (i % 2) {atomic}",
                         [pl.GlobalArg("y", np.int32, shape="1"), pl.ValueArg("n", np.int64), ...])
    knl = pl.tag_inames(knl, {"i": "g.0"})
    binder = Binder(pl.generate_code(knl, index_bits=64), HostMemory())
    with pytest.raises(pl.ArgumentError, match="2147483648 blocks along") as error:
        binder.bind({"y": np.zeros(1, np.int32), "n": 2**31})
    assert error.value.codes == ("grid-too-large",)
