"""``a + b + c`` is ``(a + b) + c``: each operation has the type of its own operands, as in Python and NumPy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import disagreement, run_on_fibres

N = 4
DATA: dict[str, np.ndarray[Any, Any]] = {
    "u": np.array([100, 200, 255, 1], np.uint8),
    "v": np.array([200, 3, 255, 0], np.uint8),
    "b": np.array([127, -128, 100, -1], np.int8),
    "h": np.array([32767, 300, -32768, 5], np.int16),
    "k": np.array([2**31 - 1, 7, -(2**31), 2**20], np.int32),
    "m": np.array([1, 2**40, -5, 2**31], np.int64),
    "w": np.array([2**32 - 1, 7, 5, 2**31], np.uint32),
    "q": np.array([2**63, 7, 5, 2**40], np.uint64),
    "x": np.array([0.1, 1e8, -3.5, 2.0**24], np.float32),
    "z": np.array([0.2, 1.0, -1e300, 1.0], np.float64),
}
CHAINS = (
    "u + v + k", "k + u + v", "u + 200 + h", "u*v*k", "u*v + h", "u*u*v*m", "k*k*m", "k*m*k", "k + k + m", "k - u - v",
    "u - v - k", "b + b + h + k", "b*b*b*k", "w*w*q", "w + w + q", "h - b*b - k", "k - u*v*h", "(u + v) + k",
    "k + (u + v)", "(u ^ 200) ^ h", "u ^ 200 ^ h", "(u | 128) | h | k", "u & v & k", "(b & -2) & h", "(w ^ w) ^ m",
    "x + x + z", "x*x*z", "x - x - z", "(u + v)*h + k", "h + u + v + m", "u*2*h", "u + 2 + 3 + h", "(u + v + h)*k",
    "k*(u + v + h)", "-(w*q)",
)  # fmt: skip


def kernel(chains: Mapping[str, str], types: Mapping[str, np.dtype[Any]]) -> pl.LoopKernel:
    """Return a kernel that stores chains in arrays of their names."""
    program = "\n".join(f"{out}[i] = " + re.sub("[a-z]", r"\g<0>[i]", text) for out, text in chains.items())
    named = {name: value.dtype for name, value in DATA.items() if f"{name}[" in program} | dict(types)
    arguments = [pl.GlobalArg(name, dtype, shape=str(N)) for name, dtype in named.items()]
    return pl.make_kernel(f"{{[i]: 0 <= i < {N}}}", program, arguments)


def test_operands_are_combined_from_left_to_right() -> None:
    chains = {f"y{number}": text for number, text in enumerate(CHAINS)}
    with np.errstate(all="ignore"):
        expected = {out: eval(text, dict(DATA)) for out, text in chains.items()}
    knl = kernel(chains, {out: value.dtype for out, value in expected.items()})
    fibres = run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), DATA)
    assert disagreement(fibres, rtol=0, atol=0) is None
    for found in (pl.interpret(knl, **DATA), pl.compile(knl, target=pl.CTarget())(**DATA), fibres["random"]):
        for out, text in chains.items():
            np.testing.assert_array_equal(found[out], expected[out], err_msg=text)


def test_a_constant_has_to_fit_what_it_meets_first() -> None:
    with pytest.raises(pl.KernelError) as caught:
        kernel({"y": "u + 300 + h"}, {"y": np.dtype(np.int16)})
    assert caught.value.codes == ("bad-constant",)
    kernel({"y": "h + u + 300"}, {"y": np.dtype(np.int16)})


def test_chains_of_one_type_have_no_casts() -> None:
    text = pl.generate_code(kernel({"y": "x + x + z"}, {"y": np.dtype(np.float64)}), target=pl.CTarget()).device_code
    assert "y[i] = x[i] + x[i] + z[i];" in text


def test_inames_are_exact_before_they_meet_data() -> None:
    knl = pl.make_kernel("{[i]: m <= i < m + 2}", "y[i - m] = i*3*x[0]", [
        pl.GlobalArg("x", np.float32, shape="1"), pl.GlobalArg("y", np.float32, shape="2"), pl.ValueArg("m", np.int64),
    ], assumptions="m >= 0")  # fmt: skip
    m = 2**24 + 1
    want = np.array([m * 3, (m + 1) * 3], np.float32)
    assert pl.compile(knl, target=pl.CTarget())(x=np.ones(1, np.float32), m=m).y.tolist() == want.tolist()
    assert pl.interpret(knl, x=np.ones(1, np.float32), m=m).y.tolist() == want.tolist()


def test_nodes_of_every_kind_have_a_text() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "y[i] = 2*sum(j, a[j]) + cast(float32, 3)", [
        pl.GlobalArg("a", np.float32, shape="n"), ...,
    ])  # fmt: skip
    assert str(knl.instructions[0].expression) == "2*sum(j, a[j]) + cast(float32, 3)"
