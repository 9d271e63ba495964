"""Expressions: generated C computes what NumPy computes, with NumPy's types; CUDA accepts the same."""
# types of elements and constants come in every spelling that NumPy takes

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

from polyloop.codegen.expressions.arithmetic import ARITHMETIC
from polyloop.codegen.expressions.calls import CALLS
from polyloop.codegen.expressions.conditions import CONDITIONS
from polyloop.codegen.expressions.elements import ELEMENTS
from polyloop.codegen.expressions.stores import RECORDS
from polyloop.codegen.expressions.vectors import VECTORS
from polyloop.codegen.generate import generate
from polyloop.expr.parser import parse_expression
from polyloop.expr.typing import infer
from polyloop.kernel.tree import Loop, Run
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.schedule.plan import Schedule
from polyloop.target.c import C_LANGUAGE
from polyloop.target.cuda import CUDA_LANGUAGE
from tests.codegen.building import array, schedule, statement, value
from tests.codegen.running import needs_compiler, run_c

N = 40
TYPES = {
    "x": np.float32, "y": np.float32, "d": np.float64, "i4": np.int32, "j4": np.int32, "i8": np.int64, "b1": np.int8,
    "u4": np.uint32, "m": np.bool_, "pos": np.float32,
}  # fmt: skip


def inputs() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name, dtype in TYPES.items():
        kind = np.dtype(dtype).kind
        if name == "pos":
            found[name] = rng.uniform(0.1, 4, N).astype(dtype)
        elif kind == "f":
            found[name] = rng.uniform(-4, 4, N).astype(dtype)
        elif kind == "b":
            found[name] = rng.integers(0, 2, N).astype(bool)
        else:
            low = 1 if kind == "u" else -20
            found[name] = rng.integers(low, 21, N).astype(dtype)
    found["j4"][found["j4"] == 0] = 7
    return found


def dtype_of(expr: Any) -> np.dtype[np.generic]:
    lookup: dict[str, np.dtype[np.generic]] = {name: np.dtype(dtype) for name, dtype in TYPES.items()}
    lookup["i"] = np.dtype("int32")
    found = infer(expr, lookup.get)
    assert found is not None
    return found


def kernel(text: str, out: Any = None) -> Schedule:
    expr = parse_expression(text)
    dtype = dtype_of(expr) if out is None else np.dtype(out)
    s = statement("S", "i", "n", "0 <= i < n", "out[i]", expr)
    arguments = [*(array(name, "n", t) for name, t in TYPES.items()), array("out", "n", dtype, output=True), value("n")]
    return schedule("expr", "n", "n >= 1", arguments, [s], (Loop("i", (Run("S"),)),))


def computed(text: str, folder: Path, out: Any = None) -> np.ndarray[Any, Any]:
    built = kernel(text, out)
    result = next(a for a in built.contract.arguments if a.name == "out")
    values = np.zeros(N, result.dtype)
    run_c(generate(built, C_LANGUAGE), folder, out=values, n=N, **inputs())
    return values


Reference = Callable[[dict[str, np.ndarray[Any, Any]]], Any]
INDEX = np.arange(N, dtype=np.int32)

CASES: dict[str, Reference] = {
    "x[i] - (y[i] - x[i])": lambda v: v["x"] - (v["y"] - v["x"]),
    "x[i] / (y[i] / d[i])": lambda v: v["x"] / (v["y"] / v["d"]),
    "-x[i] * (-y[i])": lambda v: -v["x"] * -v["y"],
    "x[i] - -2 * y[i]": lambda v: v["x"] + 2 * v["y"],
    "0.1 * x[i] + 1": lambda v: np.float32(0.1) * v["x"] + 1,
    "0.1 * d[i] + 1": lambda v: 0.1 * v["d"] + 1,
    "i4[i] / j4[i]": lambda v: v["i4"] / v["j4"],
    "i4[i] // j4[i]": lambda v: v["i4"] // v["j4"],
    "i4[i] % j4[i]": lambda v: v["i4"] % v["j4"],
    "i8[i] // 3": lambda v: v["i8"] // 3,
    "i // 4 + i % 4": lambda v: INDEX // 4 + INDEX % 4,
    "(i - 20) // 4 + (i - 20) % 4": lambda v: (INDEX - 20) // 4 + (INDEX - 20) % 4,
    "u4[i] // 3 + u4[i] % 3": lambda v: v["u4"] // 3 + v["u4"] % 3,
    "x[i] // y[i]": lambda v: v["x"] // v["y"],
    "d[i] % 1.5": lambda v: v["d"] % 1.5,
    "x[i] ** 2 + y[i] ** 3": lambda v: v["x"] ** 2 + v["y"] ** 3,
    "(x[i] + y[i]) ** 2": lambda v: (v["x"] + v["y"]) ** 2,
    "pos[i] ** 0.5": lambda v: v["pos"] ** np.float32(0.5),
    "pos[i] ** -2": lambda v: v["pos"] ** np.float32(-2),
    "i4[i] ** 2 - i4[i] ** 7": lambda v: v["i4"] ** 2 - v["i4"] ** 7,
    "i4[i] * x[i]": lambda v: v["i4"] * v["x"],
    "i4[i] + u4[i]": lambda v: v["i4"] + v["u4"],
    "b1[i] * b1[i]": lambda v: v["b1"] * v["b1"],
    "i4[i] * i8[i]": lambda v: v["i4"] * v["i8"],
    "x[i] if x[i] > y[i] else -1": lambda v: np.where(v["x"] > v["y"], v["x"], np.float32(-1)),
    "1.5 if m[i] else 0.5": lambda v: np.where(v["m"], 1.5, 0.5),
    "(x[i] if m[i] else y[i]) * 2": lambda v: np.where(v["m"], v["x"], v["y"]) * np.float32(2),
    "min(x[i], y[i], 0.5) + max(x[i], y[i])": lambda v: (
        np.minimum(np.minimum(v["x"], v["y"]), np.float32(0.5)) + np.maximum(v["x"], v["y"])
    ),
    "min(i4[i], j4[i]) - max(i4[i], 3)": lambda v: np.minimum(v["i4"], v["j4"]) - np.maximum(v["i4"], 3),
    "max(i8[i], i4[i])": lambda v: np.maximum(v["i8"], v["i4"]),
    "m[i] and x[i] > 0 or not m[i] and i4[i] <= 2": lambda v: (v["m"] & (v["x"] > 0)) | (~v["m"] & (v["i4"] <= 2)),
    "i4[i] == j4[i] or i4[i] != 3": lambda v: (v["i4"] == v["j4"]) | (v["i4"] != 3),
    "(i4[i] & 7) | (j4[i] ^ 3)": lambda v: (v["i4"] & 7) | (v["j4"] ^ 3),
    "~i4[i] + (u4[i] >> 1)": lambda v: ~v["i4"] + (v["u4"] >> 1),
    "i4[i] << 2": lambda v: v["i4"] << 2,
    "cast(float32, i4[i]) * x[i]": lambda v: v["i4"].astype(np.float32) * v["x"],
    "cast(int32, x[i] * 3)": lambda v: (v["x"] * np.float32(3)).astype(np.int32),
    "cast(float64, 0.1) * x[i]": lambda v: 0.1 * v["x"].astype(np.float64),
    "sqrt(pos[i]) + rsqrt(pos[i])": lambda v: np.sqrt(v["pos"]) + 1 / np.sqrt(v["pos"]),
    "exp(x[i]) * sin(d[i])": lambda v: np.exp(v["x"]) * np.sin(v["d"]),
    "abs(i4[i]) + abs(b1[i])": lambda v: np.abs(v["i4"]) + np.abs(v["b1"]),
    "abs(x[i]) + fabs(d[i])": lambda v: np.abs(v["x"]) + np.abs(v["d"]),
    "sqrt(i4[i] * i4[i])": lambda v: np.sqrt((v["i4"] * v["i4"]).astype(np.float64)),
    "atan2(x[i], y[i]) + hypot(x[i], y[i])": lambda v: np.arctan2(v["x"], v["y"]) + np.hypot(v["x"], v["y"]),
    "fmax(x[i], 0) + fmin(y[i], 0)": lambda v: np.fmax(v["x"], 0) + np.fmin(v["y"], 0),
    "floor(x[i]) + ceil(d[i]) + tanh(x[i])": lambda v: np.floor(v["x"]) + np.ceil(v["d"]) + np.tanh(v["x"]),
    "isnan(x[i]) or isinf(x[i] / 0.0)": lambda v: np.full(N, True),
    "x[i] + 3000000000": lambda v: v["x"] + np.float64(3000000000),
    "x[i // 2] + y[n - 1 - i]": lambda v: v["x"][INDEX // 2] + v["y"][::-1],
    "x[abs(i4[i]) % n]": lambda v: v["x"][np.abs(v["i4"]) % N],
    "x[(i4[i] + i) % n]": lambda v: v["x"][(v["i4"] + INDEX) % N],
    "i * x[i]": lambda v: INDEX * v["x"],
}


@needs_compiler
@pytest.mark.parametrize("text", list(CASES))
def test_c_computes_what_numpy_computes(text: str, tmp_path: Path) -> None:
    with np.errstate(all="ignore"):
        expected = np.asarray(CASES[text](inputs()))
    got = computed(text, tmp_path)
    assert got.dtype.kind == expected.dtype.kind
    tolerance = 0 if expected.dtype.kind != "f" else 2e-6 if got.dtype == np.float32 or "x" in text else 1e-14
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def awkward_pairs(dtype: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return every pair of numbers that divisions get wrong."""
    finite = [0.0, 0.1, 0.3, 0.5, 1.0, 1.5, 3.0, 7.0, 1e-30, 1e30, 0.7, 2.1]
    numbers = np.array([sign * number for number in (*finite, np.inf) for sign in (1, -1)] + [np.nan], dtype)
    a, b = np.meshgrid(numbers, numbers)
    random = np.random.default_rng(5).uniform(-9, 9, (2, 400)).round(1).astype(dtype)
    return np.concatenate([a.ravel(), random[0]]), np.concatenate([b.ravel(), random[1]])


def divisions(dtype: Any, operator: str) -> Schedule:
    s = statement("S", "i", "n", "0 <= i < n", "out[i]", parse_expression(f"a[i] {operator} b[i]"))
    arguments = [array("a", "n", dtype), array("b", "n", dtype), array("out", "n", dtype, output=True), value("n")]
    return schedule("divide", "n", "n >= 1", arguments, [s], (Loop("i", (Run("S"),)),))


@needs_compiler
@pytest.mark.parametrize("on_fibres", [False, True])
@pytest.mark.parametrize("operator", ["//", "%"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_division_of_floats_is_numpys(dtype: Any, operator: str, on_fibres: bool, tmp_path: Path) -> None:
    a, b = awkward_pairs(dtype)
    with np.errstate(all="ignore"):
        expected = a // b if operator == "//" else a % b
    out = np.zeros_like(a)
    if on_fibres:
        program = generate(divisions(dtype, operator), CUDA_LANGUAGE)
        out = run_on_fibres(program, {"a": a, "b": b, "out": out, "n": len(a)})["forward"].out
    else:
        run_c(generate(divisions(dtype, operator), C_LANGUAGE), tmp_path, a=a, b=b, out=out, n=len(a))
    np.testing.assert_array_equal(out, expected)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(out[is_number]), np.signbit(expected[is_number]))


@pytest.mark.nvrtc
def test_nvrtc_accepts_every_expression() -> None:
    """One translation unit, one function an expression."""
    sources = [generate(kernel(text), CUDA_LANGUAGE).device_code for text in CASES]
    functions = [source.replace(" expr(", f" expr{number}(") for number, source in enumerate(sources)]
    assert compile_cuda("\n".join(functions), "sm_80").cubin



# {{{ text


def value_text(text: str, out: Any = None, *, cuda: bool = True) -> str:
    source = generate(kernel(text, out), CUDA_LANGUAGE if cuda else C_LANGUAGE).device_code
    line = next(line for line in source.splitlines() if line.lstrip().startswith("out["))
    return line.strip().removeprefix("out[i] = ").removesuffix(";")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.1 * x[i]", "0.1f * x[i]"),
        ("0.1 * d[i]", "0.1 * d[i]"),
        ("2 * x[i] - 1", "2.0f * x[i] - 1.0f"),
        ("x[i] - y[i] * x[i]", "x[i] - y[i] * x[i]"),
        ("x[i] - (y[i] - x[i])", "x[i] - (y[i] - x[i])"),
        ("x[i] * (y[i] * 2)", "x[i] * (y[i] * 2.0f)"),
        ("i4[i] / j4[i]", "(double)i4[i] / j4[i]"),
        ("i // 4", "i / 4"),
        ("(i - 1) % 4", "floormod_int32(i - 1, 4)"),
        ("x[i] ** 2", "x[i] * x[i]"),
        ("sqrt(x[i])", "sqrtf(x[i])"),
        ("sqrt(d[i])", "sqrt(d[i])"),
        ("x[2 * i + 1 - i]", "x[i + 1]"),
        ("x[n - 1 - i]", "x[n - i - 1]"),
        ("x[i] if m[i] else 0", "m[i] ? x[i] : 0.0f"),
        ("max(i4[i], 0)", "max(i4[i], 0)"),
        ("1e30 * x[i]", "1e+30f * x[i]"),
    ],
)
def test_text(text: str, expected: str) -> None:
    assert value_text(text) == expected


@pytest.mark.parametrize(
    ("value_", "out", "cuda", "expected"),
    [
        (np.inf, np.float32, True, "INFINITY"),
        (-np.inf, np.float32, True, "-INFINITY"),
        (-np.inf, np.float64, True, "-(double)INFINITY"),
        (np.inf, np.float32, False, "INFINITY"),
        (np.float32(-np.inf), np.float32, False, "-INFINITY"),
        (np.nan, np.float64, False, "(double)NAN"),
        (-(2**31), np.int32, True, "(-2147483647 - 1)"),
        (-(2**63), np.int64, True, "(-9223372036854775807ll - 1)"),
        (2**32 - 1, np.uint32, True, "4294967295u"),
        (True, np.bool_, True, "true"),
        (1, np.float32, True, "1.0f"),
    ],
)
def test_constants(value_: Any, out: Any, cuda: bool, expected: str) -> None:
    s = statement("S", "i", "n", "0 <= i < n", "out[i]", value_)
    built = schedule(
        "c", "n", "n >= 1", [array("out", "n", out, output=True), value("n")], [s], (Loop("i", (Run("S"),)),)
    )
    text = generate(built, CUDA_LANGUAGE if cuda else C_LANGUAGE).device_code
    assert f"out[i] = {expected};" in text


def test_a_long_sum_is_no_deeper_than_a_short_one() -> None:
    expr = p.Sum(tuple(p.Variable("x")[p.Variable("i")] for _ in range(500)))
    s = statement("S", "i", "n", "0 <= i < n", "x[i]", expr)
    built = schedule("long", "n", "n >= 1", [array("x", "n", output=True), value("n")], [s], (Loop("i", (Run("S"),)),))
    assert generate(built, C_LANGUAGE).device_code.count(" + x[i]") == 499


def test_each_kind_of_node_has_one_rule() -> None:
    kinds = [kind for table in (ELEMENTS, ARITHMETIC, CALLS, CONDITIONS, RECORDS) for kind in table]
    assert len(kinds) == len(set(kinds))
    assert VECTORS.keys() <= set(kinds)


# }}}
