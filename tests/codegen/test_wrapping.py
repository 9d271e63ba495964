"""Integers as numbers: values wrap as NumPy's do, and numbers of inames and sizes alone are exact.

The interpreter, C in the checked build and CUDA C on fibres, which trap on signed overflow, agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres
from tests.codegen.running import needs_compiler

pytestmark = needs_compiler
G = pl.GlobalArg
Array = np.ndarray[Any, Any]
Step = Callable[[pl.LoopKernel], pl.LoopKernel]
SIGNED = (np.int32, np.int64)


@pytest.fixture(autouse=True)
def _checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYLOOP_SANITIZE", "1")


def made(domain: str, text: str, *data: Any) -> pl.LoopKernel:
    return pl.make_kernel(domain, text, [*data, ...], silenced_warnings="*")


def agree(knl: pl.LoopKernel, wanted: Array, step: Step | None = None, bits: int | None = None, **given: Any) -> None:
    """Check that every target stores *wanted* in y."""

    def fresh() -> dict[str, Any]:
        return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in given.items()}

    np.testing.assert_array_equal(pl.interpret(knl, **fresh()).y, wanted)
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(**fresh()).y, wanted)
    program = pl.generate_code(knl if step is None else step(knl), pl.CudaTarget(), index_bits=bits)
    for result in run_on_fibres(program, fresh()).values():
        np.testing.assert_array_equal(result.y, wanted)


def edges(dtype: Any, count: int) -> Array:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    given = np.array([low, high, -1, low + 1, high - 1, 0, 1, 2, 3, -7], dtype)
    rest = np.random.default_rng(count).integers(low, high, count - len(given), dtype, endpoint=True)
    return np.concatenate([given, rest])


# {{{ values


@pytest.mark.parametrize("dtype", SIGNED)
@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("x[i]*3 + z[i] - 5*x[i]*z[i] - 7", lambda x, z: x * 3 + z - 5 * x * z - 7),
        ("-x[i] + abs(z[i])", lambda x, z: -x + abs(z)),
        ("(x[i] << 3) - (z[i] << (x[i] & 15))", lambda x, z: (x << 3) - (z << (x & 15))),
        ("x[i] << z[i]", np.left_shift),
        ("x[i] >> z[i]", np.right_shift),
        ("x[i]**2 + z[i]**3 + (x[i] + 1)**7", lambda x, z: x**2 + z**3 + (x + 1) ** 7),
        ("x[i] // (z[i] | 1)", lambda x, z: x // (z | 1)),
        ("x[i] % (z[i] | 1) + x[i] // (-1) + x[i] % (-1)", lambda x, z: x % (z | 1) + x // -1 + x % -1),
        ("max(x[i] + z[i], x[i]) - min(z[i] - 1, x[i])", lambda x, z: np.maximum(x + z, x) - np.minimum(z - 1, x)),
        ("if(x[i] + 1 < x[i], x[i] - z[i], 2*z[i])", lambda x, z: np.where(x + 1 < x, x - z, 2 * z)),
    ],
)  # fmt: skip
def test_values_wrap(dtype: Any, text: str, meaning: Callable[[Array, Array], Array]) -> None:
    x, z = edges(dtype, 64), edges(dtype, 64)[::-1].copy()
    with np.errstate(all="ignore"):
        wanted = meaning(x, z)
    agree(made("{[i]: 0 <= i < n}", f"y[i] = {text}", G("x, y, z", dtype, shape="n")), wanted, x=x, z=z)


@pytest.mark.parametrize("dtype", SIGNED)
@pytest.mark.parametrize(("operation", "reference"), [("sum", np.sum), ("product", np.prod)])
@pytest.mark.parametrize("place", ["sequential", "threads", "blocks"])
def test_reductions_wrap(dtype: Any, operation: str, reference: Callable[..., Array], place: str) -> None:
    x = np.random.default_rng(1).integers(1, np.iinfo(dtype).max, (4, 32), dtype) | 1
    knl = made("{[i, j]: 0 <= i < n and 0 <= j < 32}", f"y[i] = {operation}(j, x[i, j])",
               G("x", dtype, shape="n, 32"), G("y", dtype, shape="n"))  # fmt: skip
    steps: dict[str, Step] = {
        "sequential": lambda k: k,
        "threads": lambda k: pl.tag_inames(k, {"i": "g.0", "j": "l.0"}),
        "blocks": lambda k: pl.split_iname(k, "i", 2, outer_tag="g.0", inner_tag="l.0"),
    }
    agree(knl, reference(x, axis=1, dtype=dtype), steps[place], x=x)


@pytest.mark.parametrize("dtype", SIGNED)
@pytest.mark.parametrize("symbol", ["+", "*"])
def test_updates_wrap(dtype: Any, symbol: str) -> None:
    x, start = edges(dtype, 32) | 1, np.array([7], dtype)
    wanted = start + x.sum(dtype=dtype) if symbol == "+" else start * x.prod(dtype=dtype)
    knl = made("{[i]: 0 <= i < 32}", f"y[0] = y[0] {symbol} x[i] {{atomic}}", G("x", dtype, shape="32"),
               G("y", dtype, shape="1"))  # fmt: skip
    agree(knl, wanted, lambda k: pl.split_iname(k, "i", 8, outer_tag="g.0", inner_tag="l.0"), x=x, y=start)


# }}}
# {{{ numbers of inames and sizes


def as_type(values: list[Any], dtype: Any) -> Array:
    """Return Python's numbers as NumPy has them; integers take as many bits as fit."""
    kind = np.dtype(dtype)
    if kind.kind not in "iu":
        return np.array(values, dtype)
    return np.array([value % 2**64 for value in values], np.uint64).astype(dtype)


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (np.int64, "i*1000000000"), (np.int64, "i*6364136223846793005 + 1442695040888963407"),
        (np.uint64, "i*6364136223846793005 + 1442695040888963407"), (np.int32, "i*1103515245 + 12345"),
        (np.int32, "(i*1103515245 + 12345) % 97"), (np.float64, "(i*1103515245 + 12345)*0.5"),
        (np.int64, "abs(i - 3)*2000000000"), (np.int64, "min(i*2000000000, 5000000000)"), (np.int64, "(i - 3)**5"),
        (np.int16, "(i - 3)//2 + (i - 7) % 3"), (np.uint8, "i*3 - 7"), (np.int64, "(i*(i - 2))*400000"),
        (np.float32, "2*i + 1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("bits", [32, 64])
def test_numbers_of_inames_are_exact(dtype: Any, text: str, bits: int) -> None:
    python = compile(text, "<text>", "eval")
    wanted = as_type([eval(python, {"i": i, "min": min, "abs": abs}) for i in range(9)], dtype)
    knl = made("{[i]: 0 <= i < 9}", f"y[i] = {text}", G("y", dtype, shape="9"))
    agree(knl, wanted, lambda k: pl.split_iname(k, "i", 4, outer_tag="g.0", inner_tag="l.0"), bits)


@pytest.mark.few(15)
@pytest.mark.parametrize(("text", "meaning"), [
    ("i", lambda i, n: i), ("i//7 - 3*n", lambda i, n: i // 7 - 3 * n), ("n - i", lambda i, n: n - i),
    ("(3*i + n) % 1000", lambda i, n: (3 * i + n) % 1000),
    ("if(i + i > n + n - 4, i, n)", lambda i, n: i if 2 * i > 2 * n - 4 else n),
])  # fmt: skip
@pytest.mark.parametrize("n", [5, 2**31 - 1, 2**31, 2**31 + 2, 2**32, 2**33 + 1])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_numbers_far_out(text: str, meaning: Callable[[int, int], int], n: int, dtype: Any) -> None:
    knl = made("{[i]: n - 3 <= i < n}", f"y[i - n + 3] = {text}", G("y", dtype, shape="3"), pl.ValueArg("n", np.int64))
    agree(knl, np.array([meaning(i, n) for i in range(n - 3, n)], dtype), bits=64, n=n)


def test_a_number_takes_the_type_of_what_it_meets() -> None:
    x = np.zeros(8, np.int64)
    knl = made("{[i]: 0 <= i < n}", "y[i] = x[i] + i*1000000000", G("x, y", np.int64, shape="n"))
    agree(knl, np.arange(8) * 1000000000, x=x)
    assert "y[i] = x[i] + i * 1000000000ull;" in pl.generate_code(knl, pl.CudaTarget()).device_code


def test_a_number_that_64_bits_do_not_hold_is_refused() -> None:
    data = [G("y", np.int64, shape="3"), pl.ValueArg("n", np.int64)]
    knl = made("{[i]: n - 3 <= i < n}", "y[i - n + 3] = i*i // 7", *data)
    with pytest.raises(pl.ArgumentError, match="does not fit into 64 bits") as error:
        pl.compile(knl, target=pl.CTarget())(n=2**33)
    assert error.value.codes == ("index-overflow",)


# }}}
# {{{ text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("2*x[i] + 1", "2u * x[i] + 1u;"), ("x[i] - z[i]", "(unsigned int)x[i] - z[i];"),
        ("-x[i]", "-(unsigned int)x[i];"), ("x[i]*z[i] < 5", "(int)((unsigned int)x[i] * z[i]) < 5;"),
        ("2*i + 1", "2 * i + 1;"), ("x[i] & 7", "x[i] & 7;"),
    ],
)  # fmt: skip
def test_the_text(text: str, line: str) -> None:
    knl = made("{[i]: 0 <= i < n}", f"y[i] = {text}", G("x, y, z", np.int32, shape="n"))
    assert f"y[i] = {line}" in pl.generate_code(knl, pl.CudaTarget()).device_code


def test_an_update_keeps_its_operator() -> None:
    knl = made("{[i]: 0 <= i < n}", "y[i] = y[i] + x[i]\nz[i] = z[i] + 1", G("x, y, z", np.int32, shape="n"))
    text = pl.generate_code(knl, pl.CTarget()).device_code
    assert "y[i] += (unsigned int)x[i];" in text
    assert "z[i] += 1u;" in text


# }}}


def test_constants_that_64_bits_do_not_hold_are_refused_and_data_is_not() -> None:
    knl = made("{[i]: 0 <= i < n}", "y[i] = if(4611686018427387904*((i*i) % 4) > n, 1, 0)", G("y", np.int32, shape="n"))
    with pytest.raises(pl.ArgumentError) as caught:
        pl.compile(knl, target=pl.CTarget())(n=5)
    assert caught.value.codes == ("index-overflow",)
    assert "18446744073709551616 <= 9223372036854775807 is false\n" in str(caught.value)
    data: list[Any] = [G("y", np.int32, shape="n"), G("x", np.int32, shape="m"), G("c", np.int64, shape="n")]
    data.append(pl.ValueArg("m", np.int64))
    knl = made("{[i]: 0 <= i < n}", "y[i] = x[c[i] + i]", *data)
    agree(knl, np.array([3, 3, 3], np.int32), bits=64, x=np.arange(10, dtype=np.int32), c=np.array([3, 2, 1]), n=3)


UPDATES = ["y[0] + k[i]", "y[0] - k[i]", "y[0]*k[i]", "y[0] ^ k[i]", "y[0] | k[i]", "y[0] + k[i]*k[i]"]


@pytest.mark.parametrize("text", UPDATES)
def test_atomic_updates_take_the_bits_that_fit(text: str) -> None:
    arrays = G("y", np.int32, shape="1"), G("k", np.int64, shape="n")
    knl = made("{[i]: 0 <= i < n}", f"y[0] = {text} {{atomic}}", *arrays)
    k, y = np.array([2**31 - 5, 2**40 - 1, 3]), np.array([7], np.int32)
    found = y.astype(np.int64)
    for value in k:
        found = eval(text.replace("[i]", "").replace("[0]", ""), {"y": found, "k": value})
    agree(knl, found.astype(np.int32), lambda knl: pl.split_iname(knl, "i", 4, inner_tag="l.0"), k=k, y=y)


def test_an_atomic_minimum_has_the_type_of_its_element() -> None:
    arrays = G("y", np.int32, shape="1"), G("k", np.int64, shape="n")
    with pytest.raises(pl.KernelError) as caught:
        made("{[i]: 0 <= i < n}", "y[0] = min(y[0], k[i]) {atomic}", *arrays)
    assert caught.value.codes == ("type-conflict",)


OPPOSITES: list[tuple[str, Callable[[Array, Array], Array]]] = [
    ("w[i] + (-u[i])", lambda w, u: w + (-u)),
    ("w[i] - (-u[i])", lambda w, u: w - (-u)),
    ("w[i] + -u[i]*u[i]", lambda w, u: w + -u * u),
    ("w[i] + -(2*u[i])", lambda w, u: w + -(2 * u)),
    ("-u[i]*w[i]", lambda w, u: -u * w),
    ("-(u[i]*w[i])", lambda w, u: -(u * w)),
    ("w[i] - (-u[i])*w[i]", lambda w, u: w - (-u) * w),
    ("w[i] - u[i]", lambda w, u: w - u),
    ("w[i] + opposite(u[i])", lambda w, u: w + (-u)),
    ("less(-u[i])", lambda w, u: w - (-u)),
]


@pytest.mark.parametrize("narrow", [np.uint8, np.int8, np.uint32, np.int32])
@pytest.mark.parametrize("wide", [np.int64, np.float64])
def test_an_opposite_has_the_type_of_what_it_is_of(wide: Any, narrow: Any) -> None:
    """``w + (-u)`` is no difference: of an unsigned ``u``, the opposite is a large number, which is added."""
    u = np.array([np.iinfo(narrow).min, np.iinfo(narrow).max, 0, 1, 2, 100], narrow)
    w = np.arange(6).astype(wide)
    with np.errstate(all="ignore"):
        wanted = np.stack([meaning(w, u) for _, meaning in OPPOSITES])
    rules = ["opposite(q) := -q", "less(q) := w[i] - q"]
    texts = [f"y[{k}, i] = {text}" for k, (text, _) in enumerate(OPPOSITES)]
    data = G("w", wide, shape="n"), G("y", wide, shape=f"{len(OPPOSITES)}, n"), G("u", narrow, shape="n")
    agree(made("{[i]: 0 <= i < n}", "\n".join([*rules, *texts]), *data), wanted, w=w, u=u)


def test_an_update_adds_an_opposite_in_its_type() -> None:
    u = np.array([0, 1, 255, 7], np.uint8)
    text = "y[i] = 0\ny[i] += -u[i]\ny[i] -= -u[i]*2"
    knl = made("{[i]: 0 <= i < n}", text, G("y", np.int64, shape="n"), G("u", np.uint8, shape="n"))
    with np.errstate(all="ignore"):
        agree(knl, (-u).astype(np.int64) - (-u * np.uint8(2)), u=u)
