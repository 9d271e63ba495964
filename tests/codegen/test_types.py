"""Types in generated text: what is cast, what is rounded, what is approximated; and what cannot be said is refused."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from polyloop.expr.records import struct_alignment
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from tests.generated import code_of

N = 19


def kernel(text: str, out: Any = None, **arrays: Any) -> pl.LoopKernel:
    """Return a kernel over ``i`` with arrays, and by-value arguments for NumPy scalars."""
    data: list[Any] = []
    for name, value in arrays.items():
        if isinstance(value, np.ndarray):
            data.append(pl.GlobalArg(name, value.dtype, shape="n"))
        else:
            data.append(pl.ValueArg(name, np.asarray(value).dtype))
    data += [pl.GlobalArg("o", out, shape="n"), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", text, data, assumptions="n >= 1")


def everywhere(text: str, out: Any = None, **arrays: Any) -> list[np.ndarray[Any, Any]]:
    """Return ``o`` from the interpreter, C, and CUDA on fibres."""
    knl = kernel(text, out, **arrays)
    split = pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    program = pl.generate_code(split, target=pl.CudaTarget())
    return [
        pl.interpret(knl, **arrays).o,
        pl.compile(knl, target=pl.CTarget())(**arrays).o,
        run_on_fibres(program, arrays, orders=("forward",))["forward"].o,
    ]


def line(text: str, target: Any, out: Any = None, **arrays: Any) -> str:
    source = pl.generate_code(kernel(text, out, **arrays), target=target).device_code
    found = next(each for each in source.splitlines() if each.lstrip().startswith("o["))
    return found.strip().removeprefix("o[i] = ").removesuffix(";")


def numbers(dtype: Any) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(-3, 3, N).astype(dtype)


HALF, SINGLE, BRAIN, PAIR = numbers("f2"), numbers("f4"), numbers(ml_dtypes.bfloat16), numbers("c8")
MANY = np.arange(N, dtype="i4") + 100_000
COUNT, WORD, BYTE = np.arange(N, dtype="i4"), np.arange(N, dtype="u4"), np.arange(N, dtype="i1") * 13


# {{{ integers


@pytest.mark.parametrize(
    ("text", "arrays", "expected"),
    [
        ("o[i] = x[i] - u[i]", {"x": SINGLE, "u": WORD}, SINGLE - WORD.astype("f4")),
        ("o[i] = x[i] - 2*u[i]", {"x": SINGLE, "u": WORD}, SINGLE - 2 * WORD.astype("f4")),
        ("o[i] = q[i] - u[i]", {"q": COUNT.astype("i8"), "u": WORD + 5}, np.full(N, -5, "i8")),
        ("o[i] = q[i]*q[i]*w[i]", {"q": MANY, "w": COUNT.astype("i8")}, MANY * MANY * COUNT.astype("i8")),
        ("o[i] = w[i]*(q[i]*q[i])", {"q": MANY, "w": COUNT.astype("i8")}, MANY * MANY * COUNT.astype("i8")),
        ("o[i] = q[i]*w[i]*q[i]", {"q": MANY, "w": COUNT.astype("i8")}, MANY * COUNT.astype("i8") * MANY),
        ("o[i] = u[i] & 0xFFFFFFFF", {"u": WORD}, WORD),
        ("o[i] = h[i]*h[i]", {"h": np.full(N, 65535, "u2")}, np.full(N, 1, "u2")),
        ("o[i] = b[i]*b[i]*b[i]", {"b": BYTE}, BYTE * BYTE * BYTE),
        ("o[i] = 1l << i", {}, 1 << np.arange(N, dtype="i8")),
        ("o[i] = (i + 1)**3 - q[i]**9", {"q": np.full(N, -2, "i4")}, (COUNT + 1) ** 3 + 512),
        ("o[i] = (i - 9) // 4 + (i - 9) % 4", {}, (COUNT - 9) // 4 + (COUNT - 9) % 4),
        ("o[i] = 5l*i + 2u", {}, 5 * COUNT.astype("i8") + 2),
    ],
)
def test_integers(text: str, arrays: dict[str, Any], expected: np.ndarray[Any, Any]) -> None:
    given = arrays or {"q": COUNT}
    for result in everywhere(text if arrays else f"{text} + 0*q[i]", **given):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", ["i1", "i4", "u8"])
def test_shifts_by_any_count_are_numpys(dtype: str) -> None:
    x = np.array([1, 2, 77, np.iinfo(dtype).max, np.iinfo(dtype).min] * 4, dtype)[:N]
    bits = 8 * np.dtype(dtype).itemsize
    counts = [0, 1, 3, bits - 1, bits, bits + 1, 100, 5] + ([-1, -100] if dtype[0] == "i" else [])
    s = np.resize(np.array(counts), N).astype(dtype)
    for symbol, apply in (("<<", np.left_shift), (">>", np.right_shift)):
        for result in everywhere(f"o[i] = x[i] {symbol} s[i]", x=x, s=s):
            np.testing.assert_array_equal(result, apply(x, s))


def test_a_count_that_is_known_to_fit_needs_no_function() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", "o[i] = x[i] >> i", [pl.GlobalArg("x, o", np.int32, shape="8")])
    assert "x[i] >> i;" in pl.generate_code(knl, target=pl.CTarget()).device_code


def test_an_integer_to_a_negative_power_is_refused() -> None:
    knl = kernel("o[i] = q[i]**p[i]", q=COUNT, p=COUNT)
    with pytest.raises(pl.ArgumentError) as error:
        pl.interpret(knl, q=COUNT, p=-COUNT - 1)
    assert error.value.codes == ("negative-power",)
    assert "and the exponent is -1" in str(error.value)


@pytest.mark.parametrize("symbol", ["+", "*"])
def test_a_chain_of_500_terms(symbol: str) -> None:
    x = np.ones(N, "f4")
    for result in everywhere("o[i] = " + f" {symbol} ".join(["x[i]"] * 500), x=x):
        np.testing.assert_array_equal(result, np.full(N, 500 if symbol == "+" else 1, "f4"))


# }}}
# {{{ integers and floating-point numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("o[i] = 2*x[i] + i", "2.0f * x[i] + i"),
        ("o[i] = (i + 0.5)*x[i]", "(i + 0.5f) * x[i]"),
        ("o[i] = x[i]*(i/n)", "x[i] * ((float)i / n)"),
        ("o[i] = x[i]*q[i]", "x[i] * q[i]"),
        ("o[i] = x[i]*sqrt(i + 0.5)", "x[i] * sqrtf(i + 0.5f)"),
        ("o[i] = 1.5f*x[i]", "1.5f * x[i]"),
        ("o[i] = 1.5d*x[i]", "1.5 * x[i]"),
        ("o[i] = x[i]*sqrt(q[i])", "x[i] * sqrt((double)q[i])"),
        ("o[i] = (x[i] + 1)**2", "square_float32(x[i] + 1.0f)"),
    ],
)
def test_nothing_becomes_double_by_itself(text: str, expected: str) -> None:
    assert line(text, pl.CTarget(), x=SINGLE, q=COUNT) == expected
    assert line(text, pl.CudaTarget(), x=SINGLE, q=COUNT) == expected


def test_a_value_without_width_takes_that_of_the_array_it_is_stored_in() -> None:
    assert line("o[i] = (i + 0.5)/3", pl.CTarget(), np.float32) == "(i + 0.5f) / 3.0f"
    assert line("o[i] = (i + 0.5)/3", pl.CTarget(), np.float64) == "(i + 0.5) / 3.0"
    assert line("o[i] = (i + 0.5)*3", pl.CTarget(), np.int32) == "(i + 0.5) * 3.0"


# }}}
# {{{ 16 bits


def test_half_precision_is_computed_in_single_and_rounded_where_it_is_stored() -> None:
    x, y = HALF.astype("f4"), BRAIN.astype("f4")
    for result in everywhere("o[i] = h[i]*h[i] + 0.1*h[i]", h=HALF):
        np.testing.assert_array_equal(result, (x * x + np.float32(0.1) * x).astype("f2"))
    for result in everywhere("o[i] = b[i]/3 - 1", b=BRAIN):
        np.testing.assert_array_equal(result, (y / 3 - 1).astype(ml_dtypes.bfloat16))
    for result in everywhere("o[i] = h[i]*b[i]", h=HALF, b=BRAIN):
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, x * y)
    for result in everywhere("<> t = b[i]*b[i]\no[i] = t + 0.0f", b=BRAIN):
        np.testing.assert_array_equal(result, (y * y).astype(ml_dtypes.bfloat16).astype("f4"))
    for result in everywhere("o[i] = cast(float16, x[i]) + 0.0f", x=SINGLE):
        np.testing.assert_array_equal(result, SINGLE.astype("f2").astype("f4"))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_bit_pattern_survives_a_copy_and_a_round_trip(dtype: Any) -> None:
    x = np.arange(2**16, dtype="u2").view(dtype)
    for result in everywhere("o[i] = x[i]", x=x):
        np.testing.assert_array_equal(result.view("u2"), x.view("u2"))
    finite = x[np.isfinite(x.astype("f4"))]
    for result in everywhere("o[i] = 1*x[i]", x=finite):
        np.testing.assert_array_equal(result.view("u2"), finite.view("u2"))


@pytest.mark.parametrize("wide", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_rounding_to_16_bits(dtype: Any, wide: Any) -> None:
    rng = np.random.default_rng(3)
    near = rng.integers(0, 2**16, 4000).astype("u2").view(dtype)
    near = near[np.isfinite(near.astype("f4"))].astype(wide)
    moved = near * (1 + 2.0**-9 * rng.integers(-4, 5, len(near)))
    x = np.concatenate([moved, near, near * (1 + 2.0**-30)]).astype(wide)
    edges = [65504, 65519.99, 65520, 65536, 1e30, -1e30, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25, 6e-8, 0.0, -0.0]
    x = np.concatenate([x, np.array(edges, wide)])
    with np.errstate(all="ignore"):
        expected = x.astype(dtype)
        results = everywhere("o[i] = x[i]", dtype, x=x)
    for result in results:
        np.testing.assert_array_equal(result.astype("f4"), expected.astype("f4"))


def test_a_sum_of_halves_is_accumulated_in_single_precision() -> None:
    x = np.full(4096, 0.1, "f2")
    knl = pl.make_kernel("{[i, k]: 0 <= i < 1 and 0 <= k < n}", "o[i] = sum(k, x[k])",
                         [pl.GlobalArg("x", np.float16, shape="n"), pl.GlobalArg("o", shape="1")])  # fmt: skip
    expected = [np.float16(4096 * np.float32(np.float16(0.1)))]
    assert pl.interpret(knl, x=x).o.tolist() == expected
    compiled = pl.compile(knl, target=pl.CTarget())
    assert compiled(x=x).o.tolist() == expected
    assert "float acc" in compiled.source


def test_a_half_is_passed_by_value_as_a_float() -> None:
    for result in everywhere("o[i] = a*h[i]", h=HALF, a=np.float16(0.1)):
        np.testing.assert_array_equal(result, (np.float32(np.float16(0.1)) * HALF.astype("f4")).astype("f2"))


def test_a_half_in_a_record_is_rounded_and_widened_too() -> None:
    sample = pl.record("sample", [("z", np.complex64), ("weight", np.float16), ("number", np.int32)])
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i].weight = 3*x[i].weight\ny[i].z = x[i].weight*x[i].z",
                         [pl.GlobalArg("x, y", sample, shape="n")], assumptions="n >= 1")  # fmt: skip
    x = np.zeros(N, sample)
    x["weight"], x["z"] = HALF, PAIR
    program = pl.generate_code(knl, target=pl.CudaTarget())
    for result in (
        pl.interpret(knl, x=x).y,
        pl.compile(knl, target=pl.CTarget())(x=x).y,
        run_on_fibres(program, {"x": x}, orders=("forward",))["forward"].y,
    ):
        np.testing.assert_array_equal(result["weight"], (3 * HALF.astype("f4")).astype("f2"))
        np.testing.assert_allclose(result["z"], HALF.astype("f4") * PAIR, rtol=1e-6)
    assert compile_cuda(program.device_code, "sm_80").cubin


# }}}
# {{{ complex numbers


def test_complex_arithmetic_mixes_with_real_numbers() -> None:
    text = "o[i] = (2 + 1j)*z[i] - x[i]/z[i] + q[i] - conj(z[i])*1j + if(x[i] > 0, z[i], x[i])"
    z = PAIR.astype("c16")
    chosen = np.where(SINGLE > 0, PAIR, SINGLE)
    expected = (2 + 1j) * z - SINGLE / z + COUNT - np.conj(z) * 1j + chosen
    for result in everywhere(text, z=PAIR, x=SINGLE, q=COUNT):
        assert result.dtype == np.complex64
        np.testing.assert_allclose(result, expected, rtol=3e-6)


def test_complex_sums_and_values() -> None:
    knl = pl.make_kernel("{[i, k]: 0 <= i < 1 and 0 <= k < n}", "o[i] = a*sum(k, z[k]) + product(k, z[k])",
                         [pl.GlobalArg("z", np.complex128, shape="n"), pl.ValueArg("a", np.dtype("c16")),
                          pl.GlobalArg("o", shape="1")])  # fmt: skip
    z = np.exp(1j * np.arange(7.0))
    expected = 2j * z.sum() + z.prod()
    arguments = {"z": z, "a": 2j}
    program = pl.generate_code(knl, target=pl.CudaTarget())
    for result in (
        pl.interpret(knl, **arguments).o,
        pl.compile(knl, target=pl.CTarget())(**arguments).o,
        run_on_fibres(program, arguments, orders=("forward",))["forward"].o,
    ):
        np.testing.assert_allclose(result, [expected], rtol=1e-14)
    assert compile_cuda(program.device_code, "sm_80").cubin


def test_division_does_not_overflow_on_the_way() -> None:
    z = np.array([1e30 + 1e30j, 3e-30 - 4e-30j], "c8")
    for result in everywhere("o[i] = z[i]/z[i] + 0*x[i]", z=z, x=np.zeros(2, "f4")):
        np.testing.assert_allclose(result, [1, 1], rtol=1e-6)


def test_a_complex_value_is_not_stored_in_a_real_array() -> None:
    with pytest.raises(pl.KernelError) as error:
        kernel("o[i] = z[i]*x[i]", np.float32, z=PAIR, x=SINGLE)
    (found,) = error.value.found
    assert (found.code, found.message) == ("type-conflict", "a complex number is stored in 'o', which is float32")
    assert found.hints == ("store real(...) or imag(...), or let 'o' be complex64",)


def test_a_complex_number_is_no_condition() -> None:
    with pytest.raises(pl.KernelError, match="a complex number is no condition"):
        kernel("o[i] = 1 {if=z[i]}", z=PAIR)


def test_cuda_wants_complex_numbers_aligned_as_a_whole() -> None:
    assert struct_alignment(np.dtype("c8"), wide=True) == 8
    assert struct_alignment(np.dtype("c16"), wide=True) == 16
    assert struct_alignment(np.dtype("c8"), wide=False) == np.dtype("c8").alignment
    assert pl.record("sample", [("n", np.int32), ("z", np.complex64)]).itemsize == 16
    sample = np.dtype([("n", np.int32), ("z", np.complex64)])  # 12 bytes
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i].z = 2*x[i].z", [pl.GlobalArg("x, y", sample, shape="n")])
    with pytest.raises(pl.CodegenError) as error:
        pl.generate_code(knl, target=pl.CudaTarget())
    assert error.value.codes == ("unsupported-dtype",)
    assert "its field 'z' (complex64) needs a multiple of 8 bytes" in str(error.value)
    x = np.ones(2, sample)
    assert pl.compile(knl, target=pl.CTarget())(x=x, y=x.copy()).y["z"].tolist() == [2, 2]


def test_cuda_text_of_complex_numbers_holds_only_what_it_uses() -> None:
    source = pl.generate_code(kernel("o[i] = 2*z[i]", z=PAIR), target=pl.CudaTarget()).device_code
    text = "struct __align__(8) complex64 { float re, im; };"
    assert code_of(source).startswith(f"#ifndef POLYLOOP_COMPLEX64\n#define POLYLOOP_COMPLEX64\n{text}\n#endif\n\n")
    assert source.count("operator") == 1
    assert "o[i] = 2.0f * z[i];" in source


# }}}
# {{{ precision


def test_fast_functions_only_on_request() -> None:
    text = "o[i] = exp(x[i])/x[i] {id=it}"
    knl = kernel(text, x=SINGLE)
    assert line(text, pl.CudaTarget(), x=SINGLE) == "expf(x[i]) / x[i]"
    data = [pl.GlobalArg("x, o", np.float32, shape="n")]
    fast = pl.make_kernel("{[i]: 0 <= i < n}", text, data, assumptions="n >= 1", precision="fast")
    assert "o[i] = __fdividef(__expf(x[i]), x[i]);" in pl.generate_code(fast, target=pl.CudaTarget()).device_code
    assert "o[i] = expf(x[i]) / x[i];" in pl.generate_code(fast, target=pl.CTarget()).device_code
    split = pl.split_iname(fast, "i", 16, outer_tag="g.0", inner_tag="l.0")
    assert "__expf(" in pl.generate_code(split, target=pl.CudaTarget()).device_code
    wide = pl.split_iname(pl.assume(fast, "n mod 4 = 0"), "i", 4, inner_tag="vec")
    assert pl.generate_code(wide, target=pl.CudaTarget()).device_code.count("__expf(x_v.") == 4
    np.testing.assert_array_equal(pl.interpret(fast, x=SINGLE).o, pl.interpret(knl, x=SINGLE).o)


def test_fast_erf_is_right_to_six_digits() -> None:
    data = [pl.GlobalArg("x, o", np.float32, shape="n")]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "o[i] = erf(x[i])", data, assumptions="n >= 1", precision="fast")
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert "o[i] = fast_erf(x[i]);" in program.device_code
    x = np.concatenate([np.linspace(-6, 6, 20001), [0, -0.0, 1e-30, 1e30, -1e30, np.inf, -np.inf]]).astype(np.float32)
    wanted = np.array([math.erf(float(value)) for value in x])
    found = run_on_fibres(program, {"x": x, "o": np.zeros_like(x)})
    assert all(np.abs(one["o"] - wanted).max() < 1e-6 for one in found.values())
    assert all(np.isnan(one["o"]).all() for one in run_on_fibres(program, {"x": x * np.nan, "o": x}).values())


def test_an_instruction_has_a_precision_of_its_own() -> None:
    text = "a[i] = sin(x[i]) {precision=fast}\nb[i] = sin(x[i])\nwith {precision=fast}\n    c[i] = log(x[i])\nend"
    data = [pl.GlobalArg("x, a, b, c", np.float32, shape="n")]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data, assumptions="n >= 1")
    source = pl.generate_code(knl, target=pl.CudaTarget()).device_code
    assert "a[i] = __sinf(x[i]);" in source
    assert "b[i] = sinf(x[i]);" in source
    assert "c[i] = __logf(x[i]);" in source
    exact = text.replace("b[i] = sin(x[i])", "b[i] = sin(x[i]) {precision=exact}")
    knl = pl.make_kernel("{[i]: 0 <= i < n}", exact, data, assumptions="n >= 1", precision="fast")
    assert "b[i] = sinf(x[i]);" in pl.generate_code(knl, target=pl.CudaTarget()).device_code


def test_no_such_precision() -> None:
    with pytest.raises(pl.KernelError, match="'rough' is no precision"):
        kernel("o[i] = x[i] {precision=rough}", x=SINGLE)
    with pytest.raises(pl.KernelError, match=r"no precision 'rough' \[bad-value\]"):
        pl.make_kernel("{[i]: 0 <= i < n}", "o[i] = i", precision="rough")


# }}}
