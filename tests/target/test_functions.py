"""The functions of expressions: the interpreter, C, and CUDA C agree, for every type that a function takes."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from polyloop.expr.functions import FUNCTIONS, Domain, ResultType
from polyloop.expr.promotion import DEFAULT_INT
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.target.c import C_LANGUAGE
from polyloop.target.cuda import CUDA_LANGUAGE
from polyloop.target.numeric import NUMERIC
from polyloop.target.opencl import OPENCL_LANGUAGE

REALS: Final = ("float32", "float64")
HALVES: Final = ("float16", "bfloat16")
COMPLEX: Final = ("complex64", "complex128")
INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SPECIAL: Final = [0.0, -0.0, 0.5, 1.0, -1.0, 1.5, -2.5, 0.3, 3.0, 7.25, np.inf, -np.inf, np.nan, -0.75, 11.0, -3.0]
_ELSEWHERE: Final = {"min", "max"}


def array_of(name: str) -> np.ndarray[Any, Any]:
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    if name in INTEGERS:
        limits = np.iinfo(name)
        low = max(limits.min + 1, -(2**62))
        values = [0, 1, 2, 3, 6, 7, 12, 100, limits.max, limits.max - 1, 16, 64, low, low + 1, 5, 9]
        return np.array(values, dtype)
    if name in COMPLEX:
        return np.array([complex(x, y) for x in (0.5, -1.25, 2.0, 0.1) for y in (0.25, -0.5, 1.5, -2.0)], dtype)
    return np.array(SPECIAL).astype(dtype)


def calls() -> list[tuple[str, str, str]]:
    """Return every function with every type: name, type, text."""
    found = []
    for name, function in FUNCTIONS.items():
        types: tuple[str, ...] = (*REALS, *HALVES, "int32")
        if function.domain is Domain.INTEGER:
            types = INTEGERS
        elif function.domain is Domain.NUMBER:
            types += COMPLEX
        elif function.result is ResultType.SAME:
            types += INTEGERS
        field = f".{function.fields[-1]}" if function.fields else ""
        for dtype in dict.fromkeys(types):
            last = ["k[i]"] if function.integer_last else []
            arguments = ["x[i]", "y[i]", "x[i]"][: function.arity - len(last)] + last
            found.append((name, dtype, f"{name}({', '.join(arguments)}){field}"))
    return found


def kernel_of(dtype: str) -> tuple[pl.LoopKernel, dict[str, Any], list[str]]:
    """Return a kernel with every function of one type, its arguments, and the texts by output."""
    texts = [text for _, own, text in calls() if own == dtype]
    x = array_of(dtype)
    arguments = {"x": x, "y": np.roll(x, 5), "k": np.arange(16, dtype=np.int32) - 8}
    lines = "\n".join(f"    o{number}[i] = {text}" for number, text in enumerate(texts))
    data = [pl.GlobalArg("x, y", x.dtype, shape="n"), pl.GlobalArg("k", np.int32, shape="n")]
    data += [pl.GlobalArg(f"o{number}", shape="n") for number in range(len(texts))]
    if not any("k[i]" in text for text in texts):
        del arguments["k"], data[1]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", f"for i\n{lines}\nend", data, assumptions="n >= 1")
    return pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0"), arguments, texts


def compare(result: Any, right: np.ndarray[Any, Any], what: str) -> None:
    """Compare a result with that of the interpreter."""
    got = np.asarray(result)
    assert got.dtype == right.dtype, what
    if right.dtype.kind in "biu":
        np.testing.assert_array_equal(got, right, err_msg=what)
        return
    eps = {"float64": 1e-13, "complex128": 1e-13, "float16": 2e-3, "bfloat16": 2e-2}.get(str(right.dtype), 5e-6)
    wide = np.complex128 if right.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(wide), right.astype(wide), eps, eps / 10, err_msg=what)


@pytest.mark.few(5)
@pytest.mark.parametrize("dtype", [*REALS, *HALVES, *COMPLEX, *INTEGERS])
def test_the_targets_agree_on_every_function(dtype: str) -> None:
    knl, arguments, texts = kernel_of(dtype)
    expected = pl.interpret(knl, **arguments)
    program = pl.generate_code(knl, target=pl.CudaTarget())
    results = {
        "C": dict(pl.compile(knl, target=pl.CTarget())(**arguments).items()),
        "CUDA": dict(run_on_fibres(program, arguments, orders=("forward",))["forward"].items()),
    }
    for number, text in enumerate(texts):
        for what, result in results.items():
            compare(result[f"o{number}"], expected[f"o{number}"], f"{what}: {text} for {arguments}")


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [*REALS, *HALVES, *INTEGERS])
def test_opencl_agrees_on_every_function(dtype: str) -> None:
    knl, arguments, texts = kernel_of(dtype)
    expected, result = pl.interpret(knl, **arguments), pl.compile(knl, target=pl.OpenCLTarget())(**arguments)
    for number, text in enumerate(texts):
        compare(result[f"o{number}"], expected[f"o{number}"], f"OpenCL: {text} for {arguments}")


@pytest.mark.few(5)
@pytest.mark.nvrtc
@pytest.mark.parametrize("dtype", [*REALS, *HALVES, *COMPLEX, *INTEGERS])
def test_nvrtc_takes_every_function(dtype: str) -> None:
    knl, _, _ = kernel_of(dtype)
    assert compile_cuda(pl.generate_code(knl, target=pl.CudaTarget()).device_code, "sm_80").cubin


def test_every_function_is_in_all_tables() -> None:
    for name in FUNCTIONS.keys() - _ELSEWHERE:
        assert name in NUMERIC
    for language in (C_LANGUAGE, CUDA_LANGUAGE, OPENCL_LANGUAGE):
        spelt = {name for name, _ in language.functions.spellings} | {name for name, _ in language.functions.results}
        of_complex = set[str]() if "complex64" in language.types else {"real", "imag", "conj"}
        assert FUNCTIONS.keys() - spelt - _ELSEWHERE <= {"sign", "gcd", "sincos"} | of_complex


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        ("clz", np.int8(1), 7), ("clz", np.uint16(0), 16), ("clz", np.int64(-1), 0), ("clz", np.uint32(255), 24),
        ("ctz", np.int8(-128), 7), ("ctz", np.uint64(0), 64), ("ctz", np.int32(12), 2),
        ("popcount", np.int8(-1), 8), ("popcount", np.int16(-1), 16), ("popcount", np.uint64(2**63 + 1), 2),
    ],
)  # fmt: skip
def test_bits_are_counted_in_the_type_of_the_argument(function: str, value: Any, expected: int) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 1}", f"o[i] = {function}(x[i])",
                         [pl.GlobalArg("x", value.dtype, shape="1"), pl.GlobalArg("o", shape="1")])  # fmt: skip
    for run in (lambda **a: pl.interpret(knl, **a), pl.compile(knl, target=pl.CTarget())):
        result = run(x=np.array([value])).o
        assert result.dtype == DEFAULT_INT
        assert result.tolist() == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("round(2.5d)", 3.0), ("rint(2.5d)", 2.0), ("round(-2.5d)", -3.0), ("sinpi(1e15)", 0.0), ("cospi(0.5)", 0.0),
        ("exp10(3)", 1000.0), ("tgamma(5)", 24.0), ("remainder(5.0, 3.0)", -1.0), ("fmod(5.0, 3.0)", 2.0),
        ("fdim(1.0, 3.0)", 0.0), ("cbrt(27.0)", 3.0), ("rsqrt(4.0)", 0.5), ("nextafter(1.0, 2.0)", 1 + 2.0**-52),
        ("ldexp(0.75, 4)", 12.0), ("sign(-3.5)", -1.0), ("hypot(3.0, 4.0)", 5.0), ("arg(-1.0)", np.pi),
    ],
)  # fmt: skip
def test_values_from_the_manual(text: str, expected: float) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 1}", f"o[i] = {text}", [pl.GlobalArg("o", np.float64, shape="1")])
    for run in (lambda: pl.interpret(knl), pl.compile(knl, target=pl.CTarget())):
        assert run().o[0] == pytest.approx(expected, rel=1e-15, abs=1e-300)


def test_a_name_that_c_does_not_have_can_be_the_users() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "sign(x) := 2*x\nreal[i] = sign(imag[i])",
                         [pl.GlobalArg("real, imag", np.float32, shape="n")])  # fmt: skip
    assert pl.compile(knl, target=pl.CTarget())(imag=np.ones(2, np.float32)).real.tolist() == [2, 2]


@pytest.mark.parametrize("wide", [np.int64, np.uint64])
@pytest.mark.parametrize("one", ["w[i]**0", "1{suffix}", "cast({wide}, 1)"])
def test_a_constant_of_64_bits_is_as_wide_in_c(wide: Any, one: str) -> None:
    """Found by random expressions: a plain 1 let the difference wrap around in 32 bits."""
    narrow = np.int32 if wide is np.int64 else np.uint32
    data = [pl.GlobalArg("y, w", wide, shape="3"), pl.GlobalArg("v", narrow, shape="3")]
    one = one.format(suffix="l" if wide is np.int64 else "ul", wide=wide.__name__)
    knl = pl.make_kernel("{[i]: 0 <= i < 3}", f"y[i] = {one} - v[i] + 0*w[i]", data)
    ends = np.iinfo(narrow)
    arguments: dict[str, Any] = {"w": np.arange(3, dtype=wide), "v": np.array([ends.min, 1, ends.max], narrow)}
    expected = arguments["w"] ** 0 - arguments["v"].astype(wide)
    np.testing.assert_array_equal(pl.interpret(knl, **arguments).y, expected)
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(**arguments).y, expected)
    for found in run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), arguments).values():
        np.testing.assert_array_equal(found["y"], expected)


@pytest.mark.parametrize("value", [-(2**63), -(2**31), -5, 0, 2**31, 2**63 - 1])
def test_constants_of_64_bits_keep_their_value(value: int) -> None:
    data = [pl.GlobalArg("y", np.int64, shape="2"), pl.GlobalArg("v", np.int32, shape="2")]
    knl = pl.make_kernel("{[i]: 0 <= i < 2}", f"y[i] = cast(int64, {value}) + v[i]", data)
    v = np.array([0, 0 if abs(value) > 2**32 else 7], np.int32)
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(v=v).y, value + v.astype(np.int64))
    for found in run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), {"v": v}).values():
        np.testing.assert_array_equal(found["y"], value + v.astype(np.int64))
