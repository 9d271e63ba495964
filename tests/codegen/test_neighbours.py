"""What lanes read beside their own elements, conditions that are known where they stand, choices ahead of loops."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.tree.branches import one_rest
from polyloop.codegen.tree.c_ast import Assign, For, If
from polyloop.runtime.fibres import run_on_fibres
from tests.codegen.c_parser import parsed
from tests.generated import bare
from tests.transform.checking import check, cuda

F = np.float32
SIZES = (0, 1, 3, 4, 5, 8, 31, 64, 67)


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "not-vectorized", pl.PolyloopWarning)
        yield


def kernel(text: str, lanes: int = 4, dtype: type[np.generic] = F) -> pl.LoopKernel:
    data = [pl.GlobalArg("x", dtype, shape="n + 2"), pl.GlobalArg("y", dtype, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="beside", assumptions="n >= 0")
    knl = pl.split_iname(knl, "i", lanes, inner_tag="vec")
    return pl.split_iname(knl, "i_outer", 8, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.parametrize(
    ("text", "wide", "single"),
    [
        ("y[i] = x[i+1] - x[i]", 1, 1),
        ("y[i] = x[i+2] + x[i]", 1, 2),
        ("y[i] = x[i] + x[i+1] + x[i+2]", 1, 3),
        ("y[i] = x[i+1] + x[i+2]", 0, 8),  # x[i] itself need not exist where it is not read
        ("y[i] = 2*x[i+1]", 0, 4),
    ],
)
def test_neighbours_are_components_of_the_vector(text: str, wide: int, single: int) -> None:
    knl = kernel(text)
    full = bare(cuda(knl)).split("} else {")[0]
    assert full.count("*(const float4 *)&x[") == wide
    assert full.replace("&x[", "").count("x[") == single
    for n in SIZES:
        x = np.arange(n + 2, dtype=F) ** 2
        wanted = {
            "y[i] = x[i+1] - x[i]": x[1:-1] - x[:-2], "y[i] = x[i+2] + x[i]": x[2:] + x[:-2],
            "y[i] = x[i] + x[i+1] + x[i+2]": x[:-2] + x[1:-1] + x[2:], "y[i] = x[i+1] + x[i+2]": x[1:-1] + x[2:],
            "y[i] = 2*x[i+1]": 2 * x[1:-1],
        }[text]  # fmt: skip
        check(knl, {"x": x, "n": n}, {"y": wanted})


def test_a_vector_between_two_accesses_is_loaded_if_all_of_it_is_read() -> None:
    data = [pl.GlobalArg("u", F, shape="n + 8"), pl.GlobalArg("v", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "v[i] = u[i + 3] + u[i + 5]", data, name="between")
    knl = pl.split_iname(pl.split_iname(knl, "i", 4, inner_tag="vec"), "i_outer", 8, outer_tag="g.0", inner_tag="l.0")
    text = cuda(knl)
    assert "= 32 * bx + 4 * tx;" in text
    assert "const float4 u_v = *(const float4 *)&u[position + 4];" in text
    assert "v_v.y = u_v.x + u_v.z;" in text
    for n in SIZES:
        u = np.arange(n + 8, dtype=F) ** 2
        check(knl, {"u": u}, {"v": u[3 : n + 3] + u[5 : n + 5]})


def test_what_is_read_under_a_condition_makes_no_vector() -> None:
    text = "y[i] = (x[i] if x[i+1] > 0 else 1) + (x[i+2] if x[i+1] > 1 else 0)"
    assert "float4 *)&x" not in cuda(kernel(text))


def test_an_array_that_is_written_is_read_lane_by_lane() -> None:
    data = [pl.GlobalArg("x, y", F, shape="n + 4"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "x[i] = x[i] + y[i + 1] - y[i]", data, name="own")
    knl = pl.split_iname(knl, "i", 4, inner_tag="vec")
    text = cuda(knl)
    assert "x_v.x = x_v.x + y_v.y - y_v.x;" in text
    assert "x_v.w = x_v.w + y[4 * i_outer + 4] - y_v.w;" in text


def test_eight_halves_and_their_neighbours() -> None:
    knl = kernel("y[i] = x[i+1] - x[i]", lanes=8, dtype=np.float16)
    assert "to_float(x_v.e[1]) - to_float(x_v.e[0])" in cuda(knl)
    for n in SIZES:
        x = np.arange(n + 2).astype(np.float16)
        for result in run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), {"x": x, "n": n}).values():
            np.testing.assert_array_equal(result.y, x[1:-1] - x[:-2])


def test_a_condition_that_is_known_is_not_written() -> None:
    data = [pl.GlobalArg("x, y", F, shape="n"), ...]
    text = "y[i] = (x[i-1] if i >= 1 and i < n else 0) + (x[i] if i == 40 else x[i]) + (5 if not i < n else 1)"
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="known")
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.0")
    knl = pl.split_iname(knl, "i_inner", 2, inner_tag="unr", outer_tag="l.0")
    text = cuda(knl)
    assert "i >= 1 ? x[i - 1]" in text
    assert "5.0f" not in text
    for n in (0, 1, 16, 17, 50):
        x = np.arange(1, n + 1, dtype=F)
        check(knl, {"x": x}, {"y": np.concatenate([[0], x[:-1]])[:n].astype(F) + x + 1})


def test_the_rest_of_several_statements_is_one_loop() -> None:
    data = [pl.GlobalArg("x, y, z", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "<> t = 2*x[i]\ny[i] = t*t\nz[i] = t + y[i]", data, name="rest")
    knl = pl.split_iname(pl.split_iname(knl, "i", 4, inner_tag="vec"), "i_outer", 8, outer_tag="g.0", inner_tag="l.0")
    rest = cuda(knl).split("} else ")[1]
    assert rest.count("t[i_inner] * t[i_inner]") == 1
    assert rest.index("t[i_inner] = ") < rest.index("y[i] = t[i_inner]")
    assert rest.count("for (") == 2  # 'z' reads what 'y' is: that is left as it was
    for n in SIZES:
        x = np.arange(n, dtype=F)
        check(knl, {"x": x}, {"y": 4 * x * x, "z": 2 * x + 4 * x * x})


def _rest(target: str, value: str, condition: str = "i < n") -> For:
    body = If(parsed(condition), (Assign(parsed(target), "=", parsed(value), "s"),))
    return For("int", "i", parsed("0"), parsed("i < 4"), (body,), is_rest=True)


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        (_rest("t[i]", "x[i]"), _rest("y[i]", "t[i] * t[i]"), True),
        (_rest("t[i]", "x[i]"), _rest("y[i]", "t[3 - i]"), False),
        (_rest("t[i]", "x[i]"), _rest("y[i]", "t[i][0]"), False),
        (_rest("x[i]", "t[i]"), _rest("t[0]", "2"), False),
        (_rest("y[i]", "x[i + 1]"), _rest("x[i]", "2"), False),
        (_rest("s", "x[i]"), _rest("y[i]", "s"), False),
        (_rest("t[i]", "x[i]"), _rest("y[i]", "t[i]", "i < m"), False),
        (_rest("t[i]", "x[i]", "t[i] > 0"), _rest("y[i]", "2", "t[i] > 0"), False),
        (_rest("t[i]", "x[i]"), replace(_rest("y[i]", "t[i]"), is_rest=False), False),
        (_rest("t[i]", "x[i]"), replace(_rest("y[i]", "t[i]"), test=parsed("i < 2")), False),
        (_rest("*(float *)&t[i]", "x[i]"), _rest("y[i]", "t[i]"), False),
    ],
)
def test_which_loops_over_the_rest_become_one(first: For, second: For, is_one: bool) -> None:
    assert (one_rest(first, second) is not None) is is_one


def test_the_choice_between_vectors_and_lanes_stands_ahead_of_a_loop() -> None:
    data = [pl.GlobalArg("a, b", F, shape="m, 4*n"), ...]
    domain = "{[i, j]: 0 <= i < m and 0 <= j < 4*n - 2}"
    knl = pl.make_kernel(domain, "b[i, j] = 2*a[i, j]", data, name="ahead", assumptions="m >= 1 and n >= 1")
    knl = pl.prioritize_loops(pl.split_iname(knl, "j", 4, inner_tag="vec"), "j_outer, i")
    knl = pl.tag_inames(knl, "j_outer:l.0")
    knl = pl.fix_parameters(knl, n=3)
    text = cuda(knl)
    assert text.count("for (int i = 0; i < m; ++i)") == 2
    assert text.index("if (") < text.index("for (int i = 0")
    for m in (1, 3):
        a = np.arange(12 * m, dtype=F).reshape(m, 12)
        expected = 2 * a
        expected[:, 10:] = 0
        check(knl, {"a": a, "b": np.zeros_like(a)}, {"b": expected})
