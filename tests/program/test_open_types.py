"""A variable that begins with a constant takes the type of what it is combined with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl

ACCUMULATE = """
for i
    <> acc = {}
    for j
        acc = acc + x[i, j]
    end
    y[i] = acc
end
"""


def accumulate(start: str, dtype: Any) -> pl.LoopKernel:
    arguments = [pl.GlobalArg("x", dtype, shape="n, n"), pl.GlobalArg("y", dtype, shape="n"), ...]
    return pl.make_kernel("{[i, j]: 0 <= i, j < n}", ACCUMULATE.format(start), arguments)


@pytest.mark.parametrize(("start", "given", "expected"), [
    ("0.0", "float32", "float32"), ("0", "float32", "float32"), ("0.0", "float64", "float64"),
    ("0.0", "float16", "float32"), ("0", "float16", "float32"), ("0.0", "complex64", "complex64"),
    ("0", "complex128", "complex128"), ("0", "int8", "int32"), ("0", "uint8", "int32"), ("0", "int32", "int32"),
    ("0", "uint32", "uint32"), ("0", "int64", "int64"), ("0", "uint64", "uint64"), ("0.0", "int32", "float64"),
    ("1e300", "float32", "float32"), ("2**40", "int32", "int64"), ("False", "float32", "float32"),
    ("0j", "float32", "complex64"),
])  # fmt: skip
def test_an_accumulator_has_the_type_of_what_it_collects(start: str, given: str, expected: str) -> None:
    if start == "0j":
        arguments = [pl.GlobalArg("x", np.float32, shape="n, n"), pl.GlobalArg("y", np.complex64, shape="n"), ...]
        knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", ACCUMULATE.format(start), arguments)
    else:
        knl = accumulate(start, given)
    assert knl.temporaries["acc"].dtype == np.dtype(expected)


def test_no_double_is_in_a_program_of_floats() -> None:
    text = pl.generate_code(accumulate("0.0", np.float32), target=pl.CudaTarget()).device_code
    assert "double" not in text
    assert "float acc = 0.0f;" in text


@pytest.mark.parametrize(("text", "given", "expected"), [
    ("<> t = 0.5\ny[i] = t*x[i]", "float32", "float32"),
    ("<> t = 0.5*i\ny[i] = t*x[i]", "float32", "float32"),
    ("<> t = 0.5\n<> s = exp(t) + 1\ny[i] = s*x[i]", "float32", "float32"),
    ("<> t = 0.5\ny[i] = t", "float32", "float32"),
    ("<> t = 0.5\ny[i] = if(x[i] > t, x[i], 1)", "float32", "float32"),
    ("<> t = 0.5\ny[i] = x[i]*t", "int32", "float64"),
    ("<> t = 1\ny[i] = x[i] + t", "uint64", "uint64"),
    ("<> t = 1\ny[i] = x[i] + t", "uint8", "int32"),
    ("<> t = 1\ny[i] = x[i] + t", "int64", "int64"),
    ("<> t = 1\ny[i] = x[i]*t", "float32", "int32"),
    ("<> t = 1j\ny[i] = x[i]*t", "complex64", "complex64"),
])  # fmt: skip
def test_a_constant_in_a_variable_takes_the_type_that_it_meets(text: str, given: str, expected: str) -> None:
    body = "for i\n" + "\n".join(f"    {line}" for line in text.splitlines()) + "\nend"
    knl = pl.make_kernel("{[i]: 0 <= i < n}", body, [pl.GlobalArg("x, y", given, shape="n"), ...])
    assert knl.temporaries["t"].dtype == np.dtype(expected)


def test_two_widths_make_the_wider_one() -> None:
    body = "for i\n    <> t = 0.5\n    y[i] = x[i]*t\n    z[i] = w[i]*t\nend"
    arguments = [pl.GlobalArg("x, y", np.float32, shape="n"), pl.GlobalArg("z, w", np.float64, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", body, arguments)
    assert knl.temporaries["t"].dtype == np.float64


@pytest.mark.parametrize("body", [ACCUMULATE.format("0.0"), "for i\n    <> acc = 0.5\n    y[i] = acc*x[i, i]\nend"])
def test_types_wait_for_what_is_still_open(body: str) -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", body)
    assert knl.temporaries["acc"].dtype is None
    with pytest.raises(pl.VerificationError, match="'x' is not known"):
        pl.generate_code(knl, target=pl.CTarget())
    typed = pl.add_dtypes(knl, {"x": np.float32})
    assert typed.temporaries["acc"].dtype == np.float32


def test_what_meets_nothing_is_what_numpy_makes_of_it() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 0.5\nz[i] = 3")
    assert [(a.name, a.dtype) for a in knl.arguments if a.name in "yz"] == [
        ("y", np.dtype("float64")), ("z", np.dtype("int32")),
    ]  # fmt: skip
