"""Operators of subscripts and signs of terms bind in C as they do in the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres
from tests.codegen.running import needs_compiler

N = 24
RNG = np.random.default_rng(0)
EDGES = [0, 1, 2, 3, 2**31 - 1, 2**31, 2**32 - 1]
DATA: dict[str, Any] = {
    "u": np.array([*EDGES, *RNG.integers(0, 2**32, N - len(EDGES))], np.uint32),
    "w": RNG.integers(0, 2**63, N).astype(np.uint64),
    "h": RNG.integers(-(2**15), 2**15, N).astype(np.int16),
    "b": RNG.integers(0, 2**8, N).astype(np.uint8),
    "f": RNG.random(N) + 1,
    "x": RNG.random((N + 40, 9)),
    "z": RNG.random(250),
}


def everywhere(cases: dict[str, tuple[Any, type]]) -> None:
    """Check expressions, one output each, against their values."""
    text = "\n".join(f"    o{k}[i] = {each}" for k, each in enumerate(cases))
    used = [name for name in DATA if f"{name}[" in text]
    arrays = [pl.GlobalArg(name, DATA[name].dtype, shape=DATA[name].shape if name in "xz" else "n") for name in used]
    outputs = [pl.GlobalArg(f"o{k}", dtype, shape="n") for k, (_, dtype) in enumerate(cases.values())]
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", f"for i\n{text}\nend", [*arrays, *outputs, ...], assumptions=f"n = {N}",
        silenced_warnings="*",
    )  # fmt: skip
    given = {name: DATA[name] for name in used} | {"n": N}
    threads = pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    on_fibres = run_on_fibres(pl.generate_code(threads, target=pl.CudaTarget()), given)
    in_c = pl.compile(knl, target=pl.CTarget())(**given)
    results: list[Any] = [pl.interpret(knl, **given), in_c, *on_fibres.values()]
    for found in results:
        for k, (each, (expected, _)) in enumerate(cases.items()):
            np.testing.assert_allclose(found[f"o{k}"], expected, rtol=1e-14, err_msg=each)


I = np.arange(N)  # noqa: E741 - as in the kernels
U, W, H, B, F = (DATA[name] for name in "uwhbf")
PLACES: dict[str, Any] = {
    "i & 3": I & 3,
    "(i & 3) ^ (i & 4)": (I & 3) ^ (I & 4),
    "(i & 3) | (i & 4)": (I & 3) | (I & 4),
    "(i & 1) << 2": (I & 1) << 2,
    "(i & 28) >> 2": (I & 28) >> 2,
    "if(i < 3, i, 4)": np.where(I < 3, I, 4),
    "b[i] & 7": B & 7,
    "(b[i] ^ 5) & 7": (B ^ 5) & 7,
    "b[i] >> 5": B >> 5,
    "if(b[i] < 9, b[i], 4)": np.where(B < 9, B, 4),
    "(-b[i]) % 7": -B.astype(int) % 7,
    "min(b[i] & 7, i & 3)": np.minimum(B & 7, I & 3),
}


@needs_compiler
def test_subscripts_that_bind_less_than_sums() -> None:
    """``x[i, i & 3]`` was ``x[i * 9 + i & 3]``."""
    x, z = DATA["x"], DATA["z"]
    everywhere({f"x[i, {text}]": (x[I, at], np.float64) for text, at in PLACES.items()})
    everywhere({f"x[{text}, {text}]": (x[at, at], np.float64) for text, at in PLACES.items()})
    everywhere({f"z[9*i - ({text}) + 7]": (z[9 * I - at.astype(int) + 7], np.float64) for text, at in PLACES.items()})


@needs_compiler
def test_a_minus_inside_of_a_term_is_not_its_sign() -> None:
    """``x + (-u) % m`` was ``x - u % m``."""
    everywhere({
        "f[i] + (-u[i]) // 3": (F + (-U) // np.uint32(3), np.float64),
        "f[i] + (-u[i]) % 7": (F + (-U) % np.uint32(7), np.float64),
        "w[i] + (-u[i]) % 7": (W + (-U) % np.uint32(7), np.uint64),
        "w[i] + (-u[i]) // 7": (W + (-U) // np.uint32(7), np.uint64),
        "f[i] + (-u[i]) / 3.0": (F + (-U) / 3.0, np.float64),
        "f[i] + (-u[i]) / max(u[i], 1)": (F + (-U) / np.maximum(U, 1), np.float64),
        "f[i] + (-f[i]) / 3.0": (F + (-F) / 3.0, np.float64),
        "f[i] + (-b[i]) % 7": (F + (-B) % np.uint8(7), np.float64),
        "f[i] + (-2*f[i]) / 3.0": (F + (-2 * F) / 3.0, np.float64),
        "f[i] - (-u[i]) % 7": (F - (-U) % np.uint32(7), np.float64),
    })  # fmt: skip


def wrapped(values: Any, dtype: Any) -> Any:
    return values.astype(np.int64).astype(dtype)


@needs_compiler
def test_integers_wrap_before_they_meet_another_type() -> None:
    whole = B.astype(int)
    everywhere({
        "b[i]*h[i]*(b[i]/3)": (wrapped(whole * H, np.int16) * (B / 3), np.float64),
        "(b[i]*h[i])*(h[i]/7)": (wrapped(whole * H, np.int16) * (H / 7), np.float64),
        "b[i]*b[i]*(b[i]/3)": (wrapped(whole * B, np.uint8) * (B / 3), np.float64),
        "b[i] + b[i] + h[i]/3": (wrapped(whole + B, np.uint8) + H / 3, np.float64),
        "b[i] + b[i] + 0.5": (wrapped(whole + B, np.uint8) + 0.5, np.float64),
        "u[i] - 4294967295 + 65536 - h[i]": (wrapped(U.astype(int) - 2**32 + 1 + 65536, np.uint32) - H, np.int64),
        "u[i] - 7 - h[i]": (wrapped(U.astype(int) - 7, np.uint32) - H, np.int64),
    })  # fmt: skip
