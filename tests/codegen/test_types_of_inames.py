"""The type that inames, and numbers made of them, have as values: int32 where that holds them, int64 elsewhere.

NumPy's ``arange`` is int64.  The interpreter, C in the checked build and CUDA C on fibres agree with it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres
from tests.codegen.running import needs_compiler
from tests.codegen.test_wrapping import agree

pytestmark = needs_compiler
G = pl.GlobalArg
LONG = pl.ValueArg("n", np.int64)


@pytest.fixture(autouse=True)
def _checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYLOOP_SANITIZE", "1")


def made(domain: str, text: str, *data: Any, **more: Any) -> pl.LoopKernel:
    return pl.make_kernel(domain, text, [*data, ...], silenced_warnings="*", **more)


def threads(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ("i", "int32"), ("n - 1 - i", "int32"), ("i // 2", "int32"), ("i % 7", "int32"), ("i - n", "int32"),
        ("min(i, 5)", "int32"), ("(i % 50)**2", "int32"), ("abs(n - i)", "int32"), ("max(i, 2) % 3", "int32"),
        ("i*i", "int64"), ("2*i", "int64"), ("i + n", "int64"), ("i*n + 3", "int64"), ("i << 4", "int64"),
        ("if(i > 3, i*i, 0)", "int64"), ("if(i > 3, i, 0)", "int32"), ("twice(i)", "int64"),
        ("sum(k, k)", "int64"), ("max(k, k)", "int32"), ("sum(k, i)", "int64"), ("product(k, k*i + 1)", "int64"),
    ],
)  # fmt: skip
def test_untyped_variables_hold_numbers_of_inames(value: str, dtype: str) -> None:
    text = f"twice(q) := 2*q\n<> t = {value} {{inames=i}}\ny[i] = t\nz[i] = {value}"
    knl = made("{[i, k]: 0 <= i < n and 0 <= k < n}", text, G("y", np.int64, shape="n"), G("z", shape="n"))
    assert str(knl.temporaries["t"].dtype) == dtype
    z = knl.argument("z")
    assert z is not None
    assert str(z.dtype) == dtype


@pytest.mark.parametrize(
    ("n", "assumptions", "dtype"),
    [
        (None, "n >= 1", "int32"), (np.int32, "n >= 1", "int32"), (np.int64, "n >= 1", "int64"),
        (np.int64, "n <= 2**31 - 1", "int32"), (np.int64, "n <= 2**33", "int64"), (np.uint32, "n >= 1", "int64"),
        (np.uint16, "n >= 1", "int32"),
    ],
)  # fmt: skip
def test_an_iname_is_as_wide_as_the_sizes_that_bound_it(n: Any, assumptions: str, dtype: str) -> None:
    size = pl.ValueArg("n") if n is None else pl.ValueArg("n", n)
    knl = made("{[i]: 0 <= i < n}", "<> t = i\ny[i] = t", size, G("y", np.int64, shape="n"),
               assumptions=assumptions.replace("2**31", str(2**31)).replace("2**33", str(2**33)))  # fmt: skip
    assert str(knl.temporaries["t"].dtype) == dtype


def test_an_iname_is_as_wide_as_the_data_that_bounds_it() -> None:
    text = "for i\n  <> m = ends[i]\n  for j\n    <> t = j\n    y[i] = y[i] + t\n  end\nend"
    for dtype in (np.int32, np.int64):
        data = [G("ends", dtype, shape="n"), G("y", np.int64, shape="n"), ...]
        knl = pl.make_kernel(["{[i]: 0 <= i < n}", "{[j]: 0 <= j < m}"], text, data, silenced_warnings="*")
        assert knl.temporaries["t"].dtype == dtype


FAR = [
    ("x[i - n + 8] + i", lambda i, x: x + i), ("max(x[i - n + 8], i)", np.maximum), ("i & 4095", lambda i, x: i & 4095),
    ("~i ^ (i >> x[i - n + 8])", lambda i, x: ~i ^ (i >> x)),
    ("if(x[i - n + 8] > 2, i, -i)", lambda i, x: np.where(x > 2, i, -i)),
    ("if(x[i - n + 8] + 5 < i, 1, 2)", lambda i, x: np.where(x + 5 < i, 1, 2)), ("i*x[i - n + 8]", lambda i, x: i * x),
]  # fmt: skip


@pytest.mark.few(6)
@pytest.mark.parametrize("n", [8, 2**31 + 3, 2**33 + 7])
@pytest.mark.parametrize(("value", "meaning"), FAR)
def test_inames_beyond_32_bits_meet_narrower_numbers(value: str, meaning: Callable[..., Any], n: int) -> None:
    text = f"<> t = i\ny[i - n + 8] = ({value}) + t"
    knl = made("{[i]: n - 8 <= i < n}", text, LONG, G("y", np.int64, shape="8"), G("x", np.int32, shape="8"),
               assumptions="n >= 8")  # fmt: skip
    i, x = np.arange(n - 8, n), np.arange(8, dtype=np.int32)
    agree(knl, meaning(i, x) + i, threads, 64, n=n, x=x)


COMPARE = (("<", operator.lt), ("<=", operator.le), (">", operator.gt), (">=", operator.ge), ("==", operator.eq),
           ("!=", operator.ne))  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64])
def test_numbers_of_inames_are_compared_exactly(dtype: Any) -> None:
    x, n = np.array([5, 0, 127, 3], dtype), 2**31 - 1
    i, parts, wanted = np.arange(n - 4, n), [], np.zeros(4, np.int64)
    for number, (symbol, compare) in enumerate(COMPARE):
        bits = 1 << 2 * number
        parts.append(f"if(x[i - n + 4] {symbol} 2*i, {bits}, 0) + if(n*3 - i {symbol} x[i - n + 4], {2 * bits}, 0)")
        wanted += bits * compare(x, 2 * i) + 2 * bits * compare(n * 3 - i, x)
    knl = made("{[i]: n - 4 <= i < n}", f"y[i - n + 4] = {' + '.join(parts)}", pl.ValueArg("n", np.int32),
               G("y", np.int64, shape="4"), G("x", dtype, shape="4"), assumptions="n >= 4")  # fmt: skip
    agree(knl, wanted, None, 64, n=n, x=x)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("sum(k, k)", lambda k: k.sum()), ("sum(k, k*k)", lambda k: (k * k).sum()),
        ("sum(k, n)", lambda k: len(k) ** 2),
        ("sum(k, n*n - k)", lambda k: (len(k) ** 2 - k).sum()),
    ],
)  # fmt: skip
def test_sums_of_numbers_of_inames_are_exact(value: str, wanted: Callable[..., Any]) -> None:
    knl = made("{[k]: 0 <= k < n}", f"<> t = {value}\ny[0] = t + {value}", G("y", np.int64, shape="1"))
    agree(knl, np.array([2 * wanted(np.arange(50000))]), None, 64, n=50000)


def test_a_temporary_made_of_a_rule_is_as_wide() -> None:
    knl = made("{[i]: 0 <= i < n}", "f(q) := q*q\ny[i] = f(i)", G("y", np.int64, shape="n"))
    ahead = pl.precompute(pl.split_iname(knl, "i", 8), "f", "i_inner")
    assert {str(temporary.dtype) for temporary in ahead.temporaries.values()} == {"int64"}
    agree(ahead, np.arange(50000) ** 2, None, 64, n=50000)


NUMBERS: list[tuple[str, Callable[[int], int]]] = [
    ("i // 3", lambda i: i // 3), ("i % 3", lambda i: i % 3), ("-i", operator.neg), ("2*i", lambda i: 2 * i),
    ("abs(i)", abs), ("min(i, 7)", lambda i: min(i, 7)), ("max(i, 7)", lambda i: max(i, 7)), ("~i", operator.invert),
    ("i >> 1", lambda i: i >> 1), ("i & 7", lambda i: i & 7), ("(i // 3)*5", lambda i: i // 3 * 5), ("i", int),
    ("(i + 7) // 4", lambda i: (i + 7) // 4), ("i ^ 1", lambda i: i ^ 1), ("(i | 6) // 5", lambda i: (i | 6) // 5),
    ("if(i > 0, i // 2, i // 3)", lambda i: i // 2 if i > 0 else i // 3),
]  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("begin", [-(2**31) - 2, 2**31 + 1, 2**32 - 1])
def test_inames_beyond_32_bits(begin: int) -> None:
    """Seed 46601743: the number that is written for the iname of one iteration is no operand of 32-bit arithmetic."""
    text = "\n".join(f"y[{k}, i - ({begin})] = {value}" for k, (value, _) in enumerate(NUMBERS))
    knl = made(f"{{[i]: {begin} <= i < {begin} + n}}", text, G("y", np.float64, shape=f"{len(NUMBERS)}, n"))
    one = pl.fix_parameters(knl, n=1)
    assert "int32(" not in pl.generate_code(one, target=pl.CTarget()).device_code
    agree(one, np.array([[function(begin)] for _, function in NUMBERS], np.float64))
    agree(knl, np.array([[function(begin), function(begin + 1)] for _, function in NUMBERS], np.float64), n=2)


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
@pytest.mark.parametrize(("value", "function"), [
    ("if(i*2 > 0, i*3, 0)", lambda i: 3 * i if i > 0 else 0), ("if(x[i - b] > 2, i*3, i)", lambda i: 3 * i),
    ("if(x[i - b]*2.5 < 1 or i < 0, 5, i ^ 3)", lambda i: i ^ 3),
    ("if(i > 0, if(x[0] > 1, 2*i, 2), 1) // 3", lambda i: 2 * i // 3),
])  # fmt: skip
def test_a_choice_between_numbers_of_inames_is_exact(value: str, function: Callable[[int], int], dtype: Any) -> None:
    """The branches were computed in the type of an iname, int32."""
    begin = 2**30
    text = f"y[i - {begin}] = {value}".replace("- b]", f"- {begin}]")
    data = G("y", dtype, shape="n"), *([G("x", np.float32, shape="n")] if "x[" in value else [])
    knl = made(f"{{[i]: {begin} <= i < {begin} + n}}", text, *data)
    given: dict[str, Any] = {"x": np.full(2, 3, np.float32)} if "x[" in value else {}
    agree(knl, np.array([function(begin), function(begin + 1)], dtype), n=2, **given)


@pytest.mark.few(5)
@pytest.mark.parametrize("tag", ["g.0", "g.1", "unr", "ilp", "vec", "unr_hint", "for"])
@pytest.mark.parametrize("begin", [2**31 - 3, -(2**31) - 3])
def test_inames_from_either_side_of_32_bits(begin: int, tag: str) -> None:
    """Seed 61101015: the number of a block, added to where its iname begins, was computed in 32 bits."""
    domain = f"{{[i, k]: {begin} <= i < {begin} + 4 and 0 <= k < 4}}"
    knl = made(domain, f"<> t = i\ny[k, i - ({begin})] = t", G("y", np.int64, shape="4, 4"))
    tagged = pl.tag_inames(knl, {"i": tag, "k": "l.0"})
    agree(tagged, np.repeat(np.arange(begin, begin + 4)[None, :], 4, axis=0), None, 64)
    agree(tagged, np.repeat(np.arange(begin, begin + 4)[None, :], 4, axis=0))


@pytest.mark.parametrize("begin", [2**31 - 3, -(2**31) - 3])
def test_the_first_block_of_an_iname_beyond_32_bits(begin: int) -> None:
    knl = made(f"{{[i]: {begin} <= i < {begin} + 6}}", "<> t = i\n<> u = t + 1")
    program = pl.generate_code(pl.tag_inames(knl, {"i": "g.0"}), target=pl.CudaTarget())
    assert begin < 0 or f"const long long bx = (long long)blockIdx.x + {begin}" in program.device_code
    run_on_fibres(program, {})  # where arithmetic that overflows is an error


@pytest.mark.parametrize(
    "subscript",
    ["i & 3", "(3*i + 5) // 2**30", "3*i % 2**33 // 2**30", "(i + 2**31) // 2**31", "(2*i & 1) + (i + i) % 8 // 2"],
)
def test_subscripts_by_an_iname_of_one_value_beyond_32_bits(subscript: str) -> None:
    """What is left are numbers, which C would add and multiply as ``int``."""
    i, x = 2**31 - 1, np.arange(16, dtype=np.int32)
    knl = made(f"{{[i, j]: i = {i} and 0 <= j < 4}}", f"y[j] = x[({subscript}) + j]",
               G("x", np.int32, shape="16"), G("y", np.int32, shape="4"))  # fmt: skip
    first = eval(subscript, {"i": i})
    agree(knl, x[first : first + 4], threads, x=x)
