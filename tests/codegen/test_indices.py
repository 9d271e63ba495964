"""Names for indices that occur more than once."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.scope import Memory
from polyloop.codegen.tree.c_ast import Call, If
from polyloop.codegen.tree.divergence import MATRIX, refuse_divergent
from polyloop.codegen.tree.indices import Indices
from polyloop.mapping.mixed_radix import Digit
from polyloop.poly.affine import Affine
from polyloop.runtime.fibres import run_on_fibres
from polyloop.target.cuda import CUDA_LANGUAGE
from tests.codegen.c_parser import parsed

F = np.float32


def text(knl: pl.LoopKernel, target: pl.Target | None = None) -> str:
    return pl.generate_code(knl, target=target).device_code


def doubled() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", F, shape="n"), ...], name="twice"
    )


def on_blocks(knl: pl.LoopKernel, iname: str = "i") -> pl.LoopKernel:
    return pl.split_iname(knl, iname, 128, outer_tag="g.0", inner_tag="l.0")


def test_an_index_is_called_what_the_program_calls_it() -> None:
    code = text(on_blocks(doubled()))
    assert "    const int i = 128 * bx + tx;\n    if (i < n)\n        y[i] = 2.0f * x[i];\n" in code


def test_an_index_that_occurs_once_is_written_out() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 256}", "y[i] = 2", [pl.GlobalArg("y", F, shape="256"), ...])
    code = text(on_blocks(knl))
    assert "y[128 * bx + tx] = 2.0f;" in code
    assert "const int i" not in code


def test_what_is_written_out_keeps_its_place_among_the_operators() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < 256}", "y[255 - i, i] = 2", [pl.GlobalArg("y", F, shape="256, 256"), ...], name="other_diagonal"
    )
    once = pl.make_kernel("{[i]: 0 <= i < 256}", "y[3*i] = 2", [pl.GlobalArg("y", F, shape="768"), ...])
    assert "y[3 * (128 * bx + tx)]" in text(on_blocks(once)) or "y[384 * bx + 3 * tx]" in text(on_blocks(once))
    code = text(on_blocks(knl))
    assert "const int i = 128 * bx + tx;" in code
    assert "y[(255 - i) * 256 + i] = 2.0f;" in code


def test_a_name_that_is_taken_is_not_used_again() -> None:
    knl = pl.add_prefetch(on_blocks(doubled()), "x", temporary_name="i", temporary_address_space="private")
    code = text(knl)
    assert "y[128 * bx + tx] = 2.0f * i;" in code
    assert "const int i" not in code


def test_loops_around_an_index_hold_its_definition() -> None:
    knl = pl.split_iname(doubled(), "i", 4)
    assert "        for (int i_inner" in text(knl)
    assert "const int i = 4 * i_outer + i_inner;" in text(knl)
    assert "const int i = 4 * i_outer + i_inner;" in text(knl, pl.CTarget())


def test_a_condition_is_about_the_index() -> None:
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < m and 1 <= i < n - 1}",
        "u[t + 1, i] = u[t, i - 1] + u[t, i + 1]",
        [pl.GlobalArg("u", F, shape="m + 1, n"), ...],
        name="skewed",
        assumptions="m >= 1 and n >= 3",
    )
    knl = pl.map_domain(knl, "{[t, i] -> [t, s]: s = i + t}")
    knl = pl.split_iname(knl, "s", 64, inner_tag="l.0")
    knl = pl.prioritize_loops(pl.tag_inames(pl.split_iname(knl, "t", 8), "t_inner:unr"), "t_outer, s_outer, t_inner")
    assert "if (i >= 1 && i + 1 < n)\n" in text(knl)


def test_wide_indices_are_wide() -> None:
    code = pl.generate_code(on_blocks(doubled()), index_bits=64).device_code
    assert "const long long i = 128 * bx + tx;" in code


def test_a_lane_in_a_named_index_is_seen_where_whole_warps_have_to_be() -> None:
    """While the text is made, a mark stands for the index: what looks for lanes has to look behind it."""
    indices = Indices([("i", Affine((("g.0", 128), ("l.0", 1))))])
    known = frozenset({"g.0", "l.0"})
    opened = indices.open(known, known, {})
    (mark,) = opened
    assert indices.take(mark.form) == Affine.variable(mark.text)
    indices.close(opened, "int", lambda _: parsed("128 * bx + tx"))
    axes = {"l.0": "tx", "l.1": "ty", "l.2": "tz"}
    functions = {f"{MATRIX}mma": "mma"}
    definitions = SimpleNamespace(helper_names=functions, foreign_functions={})
    scope: Any = SimpleNamespace(memory=Memory(), definitions=definitions, indices=indices, language=CUDA_LANGUAGE)
    scope.error = lambda problem: pl.CodegenError("generate_code", "k", [problem])
    call = Call(parsed("mma(d, a, b)"), "insn")
    digit = Digit(32, 4)
    scope.values = axes | {digit.axis: "w"}
    refuse_divergent((If(parsed("w < n"), (call,)), If(parsed("bx < n"), (call,))), scope, [digit])
    with pytest.raises(pl.CodegenError, match=r"under '128 \* bx \+ tx < n'"):
        refuse_divergent((If(parsed(f"{mark.text} < n"), (call,)),), scope, [digit])


@pytest.mark.parametrize(
    ("subscript", "text"),
    [
        ("(i + 1) % n", "u[(i + 1) % n]"),
        ("(i - 1 + n) % n", "u[(i - 1 + n) % n]"),
        ("(i - 1) % n", "u[floormod_int32(i - 1, n)]"),
        ("(i + n) // n", "u[(i + n) / n]"),
        ("(i + 1) % k", "u[floormod_int32(i + 1, k)]"),
    ],
)
def test_a_remainder_by_a_size_is_that_of_c_where_nothing_is_negative(subscript: str, text: str) -> None:
    data = [pl.GlobalArg("v", np.float32), pl.GlobalArg("u", np.float32, shape="n + 2")]
    more = [pl.ValueArg("k", np.int32)] if "k" in subscript else []
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", f"v[i] = u[{subscript}]", [*data, *more, ...],
        assumptions="n >= 1",
    )  # fmt: skip
    knl = pl.unchecked(knl, "k is a number from 1 to n") if "k" in subscript else knl
    assert text in pl.generate_code(knl, target=pl.CTarget()).device_code
    if "k" not in subscript:
        u = np.arange(9, dtype=np.float32)
        wanted = [u[eval(subscript, {"i": i, "n": 7})] for i in range(7)]
        np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(u=u, n=7).v, wanted)


def strided() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < m}", "y[i] = sum(k, a[i, k])",
        [pl.GlobalArg("a", np.float32, shape="n, m"), pl.GlobalArg("y", np.float32, shape="n"), ...], name="rows"
    )  # fmt: skip
    return pl.split_iname(knl.tag_inames("i:g.0"), "k", 64, inner_tag="l.0")


def test_a_loop_that_threads_divide_runs_over_the_index() -> None:
    text = pl.generate_code(strided(), target=pl.CudaTarget()).device_code
    assert "for (int k = tx; k < m; k += 64)\n        acc += a[bx * m + k];" in text
    assert "k_outer" not in text.partition("extern")[2]


def test_the_index_behind_the_last_iteration_has_to_fit() -> None:
    text = pl.generate_code(strided(), target=pl.CudaTarget()).device_code
    (said,) = re.findall(r"Indices have 32 bits: (.*) must not exceed", text)
    assert max(int(more) for more in re.findall(r"m \+ (\d+)", said)) >= 63


def test_a_loop_whose_number_is_used_counts_iterations() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= j < 64 and 0 <= 64*i + j < n and 0 <= i}", "y[64*i + j] = x[64*i + j]*i",
        [pl.GlobalArg("x, y", np.float32, shape="n"), ...], name="number")  # fmt: skip
    text = pl.generate_code(knl.tag_inames("j:l.0"), target=pl.CudaTarget()).device_code
    assert "++i)" in text


def test_a_loop_of_known_length_counts_iterations() -> None:
    text = pl.generate_code(pl.fix_parameters(strided(), m=256), target=pl.CudaTarget()).device_code
    assert "for (int k_outer = 0; k_outer < 4; ++k_outer)" in text


def test_the_index_of_a_loop_is_taken_from_the_triangle() -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k <= i}", "y[i] = sum(k, a[i, k])",
        [pl.GlobalArg("a", np.float32, shape="n, n"), pl.GlobalArg("y", np.float32, shape="n"), ...],
        name="triangle")  # fmt: skip
    knl = pl.split_iname(knl.tag_inames("i:g.0"), "k", 32, inner_tag="l.0")
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert "for (int k = tx; k <= bx; k += 32)" in program.device_code
    a = np.arange(70 * 70, dtype=np.float32).reshape(70, 70) % 7
    for result in run_on_fibres(program, {"a": a}).values():
        np.testing.assert_array_equal(result.y, np.tril(a).sum(1))


@pytest.mark.parametrize(("domain", "head"), [
    ("k < m and k < 1024", "k < min(1024, m)"), ("3*k < m", "k < (m + 2) / 3"), ("k < m and 2*k < n", "k < min("),
])  # fmt: skip
def test_several_bounds_on_the_index_of_a_loop(domain: str, head: str) -> None:
    knl = pl.make_kernel(
        f"{{[i, k]: 0 <= i < n and 0 <= k and {domain}}}", "y[i] = sum(k, a[i, k])",
        [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("y", F, shape="n"), ...], assumptions="n >= 1 and m >= 1"
    )  # fmt: skip
    knl = pl.split_iname(knl.tag_inames("i:g.0"), "k", 32, inner_tag="l.0")
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert f"for (int k = tx; {head}" in program.device_code
    a = np.arange(61 * 133, dtype=F).reshape(61, 133) % 7
    for result in run_on_fibres(program, {"a": a}).values():
        np.testing.assert_array_equal(result.y, pl.interpret(knl, a=a).y)
