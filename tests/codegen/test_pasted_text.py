"""What a reader of generated text would change by hand: numbers, names, casts and comments."""

from __future__ import annotations

import re

import numpy as np

import polyloop as pl

F = np.float32


def text_of(knl: pl.LoopKernel, **options: bool) -> str:
    return pl.generate_code(knl, target=pl.CudaTarget("sm_80", **options)).device_code  # type: ignore[arg-type]


def of_rows(knl: pl.LoopKernel, iname: str = "i", length: int = 128) -> pl.LoopKernel:
    return knl.split_iname(iname, length, outer_tag="g.0", inner_tag="l.0")


def test_numbers_of_an_address_are_one() -> None:
    data = [pl.GlobalArg("J", F, shape="n, 3, 3"), pl.GlobalArg("y", F, shape="n"), ...]
    knl = pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < 2}", "y[i] = J[i, 1, 2]*sum(k, J[i, 1, k + 1])", data)
    text = text_of(of_rows(knl))
    assert "J[i * 9 + 5]" in text
    assert "J[i * 9 + k + 4]" in text


def test_numbers_of_a_stride_are_one() -> None:
    data = [pl.GlobalArg("a", F, shape="c, 2*h, 2*w"), ...]
    knl = pl.make_kernel("{[b, y, x]: 0 <= b < c and 0 <= y < 2*h and 0 <= x < 2*w}", "a[b, y, x] = 1", data)
    assert "a[bx * 4 * w * h + y * 2 * w + x] = 1.0f;" in text_of(knl.tag_inames("b:g.0"))


def test_a_quotient_and_its_remainder_are_the_number() -> None:
    data = [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("b", F, shape=4), pl.GlobalArg("r", F, shape="4*n"), ...]
    knl = pl.make_kernel("{[j, l]: 0 <= j < n and 0 <= l < 4}", "r[4*j + l] = a[j]*b[l]", data)
    assert "r[128 * bx + tx] = " in text_of(of_rows(knl.join_inames("j, l", "jl"), "jl"))


def test_a_named_index_is_used_in_values_too() -> None:
    data = [pl.GlobalArg("y", F, shape="n"), pl.ValueArg("h", F), ...]
    text = text_of(of_rows(pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = i*h", data)))
    assert "y[i] = i * h;" in text


def test_a_clamped_subscript_needs_no_wide_indices() -> None:
    data = [pl.GlobalArg("x", F, shape="n"), pl.GlobalArg("h", F, shape="m"), pl.ValueArg("s", F), ...]
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "h[min(max(cast(int32, x[i]*s), 0), m - 1)] += 1 {atomic}", data, assumptions="m >= 1"
    )
    text = text_of(of_rows(knl))
    assert "min(max((int)(x[i] * s), 0), m - 1)" in text
    assert "long long" not in text
    assert "// Indices have 32 bits: " in text


def test_wide_indices_say_why_and_convert_what_is_used() -> None:
    data = [pl.GlobalArg("first", np.int32, shape="n + 1"), pl.GlobalArg("a", F, shape="entries"), ...]
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < count}"],
        "for i\n<> begin = first[i]\n<> count = first[i + 1] - begin\ny[i] = sum(j, a[begin + j])\nend", data,
    )  # fmt: skip
    text = text_of(knl.split_iname("i", 8, outer_tag="g.0", inner_tag="l.1").split_iname("j", 32, inner_tag="l.0"))
    assert "// Indices have 64 bits: " in text
    assert re.findall(r"(\w+)_arg;", text) == ["n"]
    assert re.search(r"\bint entries\b", text)


def test_the_comment_at_the_head_breaks_between_operands() -> None:
    terms = " + ".join(f"c{abs(a) + abs(b)}*u[i + 1 + {a}, j + 1 + {b}]" for a in (-1, 0, 1) for b in (-1, 0, 1))
    arrays = [pl.GlobalArg("u", F, shape="n + 2, n + 2"), pl.GlobalArg("v", F, shape="n, n")]
    data = [*arrays, pl.ValueArg("c0, c1, c2", F), ...]
    text = text_of(of_rows(pl.make_kernel("{[i, j]: 0 <= i, j < n}", f"v[i, j] = {terms}", data)))
    lines = [line for line in text.splitlines() if line.startswith("// ")]
    assert max(map(len, lines)) <= 100
    for line in lines[2:]:
        assert line.count("[") == line.count("]"), line
        assert not line.endswith(("+", "-", "*")), line


def test_a_constant_under_a_condition_that_no_loop_changes_is_set_without_it() -> None:
    data = [pl.GlobalArg("a, b", F, shape="n, n"), pl.GlobalArg("c", F, shape="r, n, n"), ...]
    domain = "{[t, i, j, k]: 0 <= t < r and 0 <= i, j, k < n}"
    knl = pl.make_kernel(domain, "c[t, i, j] = sum(k, a[i, k]*b[k, j])", data)
    knl = knl.split_iname("i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = knl.split_iname("j", 16, outer_tag="g.0", inner_tag="l.0")
    text = text_of(knl.split_iname("k", 16).add_prefetch("a", ["i_inner", "k_inner"]), full_blocks=False)
    assert "float acc = 0.0f;" in text
    assert "float acc;" not in text
