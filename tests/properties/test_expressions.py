"""Random expressions over all types: the interpreter, C, and CUDA C on fibres compute what NumPy computes.

Each expression is built together with its value, by a promotion of its own: integers agree bit for bit, floating-point
numbers within the rounding errors of their operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.testing.drawing.typed_drawers import BITS, PLAIN

N: Final = 16
INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
COMPLEX: Final = ("complex64", "complex128")
Array = np.ndarray[Any, Any]


def dtype_of(name: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def inputs() -> dict[str, Array]:
    rng = np.random.default_rng(1)
    found: dict[str, Array] = {"bool": rng.integers(0, 2, N).astype(bool)}
    for name in INTEGERS:
        limits = np.iinfo(name)
        edges = [0, 1, limits.max, limits.min, limits.max - 1, 7, 3, 2]
        found[name] = np.array(edges + [int(x) for x in rng.integers(max(limits.min, -99), 99, N - 8)], dtype=name)
    for name in FLOATS:
        found[name] = np.concatenate([[0.5, -1.0, 3.0, -0.25], rng.uniform(-4, 4, N - 4)]).astype(dtype_of(name))
    for name in COMPLEX:
        found[name] = (rng.uniform(-2, 2, N) + 1j * rng.uniform(-2, 2, N)).astype(name)
    return found


DATA: Final = inputs()


@dataclass(frozen=True, repr=False)
class Node:
    """Text, what it is worth, and how large the terms were that it was made of."""

    text: str
    value: Array
    scale: Array

    def __repr__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        return str(self.value.dtype.name)

    @property
    def is_leaf(self) -> bool:
        return self.text.endswith("[i]")


def node(text: str, value: Array, *scales: Array) -> Node:
    with np.errstate(all="ignore"):
        own = np.abs(value.astype(np.complex128))
    return Node(text, value, np.maximum.reduce([own, *scales]))


def common(*names: str) -> str:
    """Return the common type as the documentation has it."""
    distinct = sorted(set(names))
    inexact = [name for name in distinct if name in (*FLOATS, *COMPLEX)]
    if not inexact:
        return str(np.result_type(*distinct))
    if inexact == ["bfloat16", "float16"]:
        return "float32"
    if inexact == ["bfloat16"]:
        return "bfloat16"
    return str(np.result_type(*[name.replace("bfloat16", "float16") for name in inexact]))


def as_computed(value: Array, name: str) -> Array:
    return value.astype("float32" if name in ("float16", "bfloat16") else name)


def stored(value: Array, name: str) -> Array:
    """Return *value*, computed in float32, as a value of the type *name*; the next operation takes it unrounded."""
    return value.astype(np.float32 if name in ("float16", "bfloat16") else name)


def leaves() -> st.SearchStrategy[Node]:
    return st.sampled_from(sorted(DATA)).map(lambda name: node(f"v_{name}[i]", DATA[name]))


def leaf(names: tuple[str, ...]) -> st.SearchStrategy[Node]:
    return st.sampled_from(names).map(lambda name: node(f"v_{name}[i]", DATA[name]))


@st.composite
def integers(draw: st.DrawFn, depth: int) -> Node:
    """Return an expression over integers, which wrap."""
    if depth == 0:
        return draw(leaf(INTEGERS))
    a, b = draw(integers(depth - 1)), draw(integers(depth - 1))
    with np.errstate(all="ignore"):
        if draw(st.booleans()):
            return changed(draw, a)
        if "uint64" in (a.name, b.name) and any(name.startswith("i") for name in (a.name, b.name)):
            return a
        return combined(draw, a, b)


def changed(draw: st.DrawFn, a: Node) -> Node:
    """Return an expression of one operand and constants."""
    kind = draw(st.sampled_from(("divide", "shift", "count", "cast", "power", "opposite")))
    if kind == "cast":
        name = draw(st.sampled_from(INTEGERS))
        return node(f"cast({name}, {a.text})", a.value.astype(name))
    if kind == "count":
        function = draw(st.sampled_from(("popcount", "clz", "ctz")))
        return node(f"{function}({a.text})", _COUNTS[function](a.value))
    if kind == "shift":
        count = draw(st.integers(0, a.value.dtype.itemsize * 8 - 1))
        symbol = draw(st.sampled_from(("<<", ">>")))
        shift = np.left_shift if symbol == "<<" else np.right_shift
        return node(f"({a.text} {symbol} {count})", shift(a.value, a.value.dtype.type(count)))
    if kind == "opposite":
        opposite = node(f"(-{a.text})", -a.value)
        return draw(st.sampled_from((opposite, node(f"abs({a.text})", np.abs(a.value)))))
    if kind == "power":
        exponent = draw(st.integers(0, 6))
        return node(f"({a.text}**{exponent})", a.value**exponent)
    divisor = draw(st.sampled_from((3, 7, 100) if a.name.startswith("u") else (3, -3, 7, -100, -1)))
    symbol = draw(st.sampled_from(("//", "%")))
    apply = np.floor_divide if symbol == "//" else np.remainder
    return node(f"({a.text} {symbol} ({divisor}))", apply(a.value, a.value.dtype.type(divisor)))


def combined(draw: st.DrawFn, a: Node, b: Node) -> Node:
    """Return an expression of two operands."""
    kind = draw(st.sampled_from(("plain", "plain", "bits", "extreme", "choice", "divide", "shift")))
    name = common(a.name, b.name)
    x, y = a.value.astype(name), b.value.astype(name)
    if kind == "plain":
        symbol = draw(st.sampled_from(sorted(PLAIN)))
        return node(f"({a.text} {symbol} {b.text})", PLAIN[symbol](x, y))
    if kind == "divide":
        symbol = draw(st.sampled_from(("//", "%")))
        apply = np.floor_divide if symbol == "//" else np.remainder
        return node(f"({a.text} {symbol} ({b.text} | 1))", apply(x, y | y.dtype.type(1)))
    if kind == "shift":
        symbol = draw(st.sampled_from(("<<", ">>")))
        shift = np.left_shift if symbol == "<<" else np.right_shift
        return node(f"({a.text} {symbol} {b.text})", shift(x, y))
    if kind == "bits":
        symbol = draw(st.sampled_from(sorted(BITS)))
        return node(f"({a.text} {symbol} {b.text})", BITS[symbol](x, y))
    if kind == "extreme":
        function = draw(st.sampled_from(("min", "max")))
        return node(f"{function}({a.text}, {b.text})", (np.minimum if function == "min" else np.maximum)(x, y))
    symbol = draw(st.sampled_from(("<", "<=", "==", "!=")))
    condition = {"<": x < y, "<=": x <= y, "==": x == y, "!=": x != y}[symbol]
    return node(f"if({a.text} {symbol} {b.text}, {a.text}, {b.text})", np.where(condition, x, y))


def _bits(value: Array) -> list[int]:
    return [int(x) % (1 << (8 * value.dtype.itemsize)) for x in value]


def _trailing(bits: int, width: int) -> int:
    return (bits & -bits).bit_length() - 1 if bits else width


_COUNTS: Final[dict[str, Callable[[Array], Array]]] = {
    "popcount": lambda a: np.array([x.bit_count() for x in _bits(a)], np.int32),
    "clz": lambda a: np.array([8 * a.dtype.itemsize - x.bit_length() for x in _bits(a)], np.int32),
    "ctz": lambda a: np.array([_trailing(x, 8 * a.dtype.itemsize) for x in _bits(a)], np.int32),
}
_FUNCTIONS: Final[dict[str, Callable[[Array], Array]]] = {
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "atan": np.arctan, "floor": np.floor, "cbrt": np.cbrt,
}  # fmt: skip
_SMALL: Final = ("bool", "int8", "int16", "uint8", *FLOATS, *COMPLEX)


_PARTS: Final[dict[str, Callable[[Array], Array]]] = {"real": np.real, "imag": np.imag, "abs": np.abs}


@st.composite
def numbers(draw: st.DrawFn, depth: int) -> Node:
    """Return an expression with a floating-point value, real or complex."""
    if depth == 0:
        return draw(leaf((*FLOATS, *COMPLEX)))
    a = draw(numbers(depth - 1))
    with np.errstate(all="ignore"):
        if draw(st.booleans()):
            return transformed(draw, a)
        b = draw(leaf(_SMALL)) if draw(st.integers(0, 4)) else draw(numbers(depth - 1))
        return joined(draw, a, b)


def transformed(draw: st.DrawFn, a: Node) -> Node:
    """Return an expression of one operand and constants."""
    name = held(a)
    kind = draw(st.sampled_from(("constant", "function", "cast", "part")))
    if kind == "function" and a.is_leaf and a.name in FLOATS:
        function = draw(st.sampled_from(sorted(_FUNCTIONS)))
        return Held.of(f"{function}({a.text})", _FUNCTIONS[function](as_computed(a.value, name)), name)
    if kind == "part" and name in COMPLEX:
        part = draw(st.sampled_from(sorted(_PARTS)))
        value = _PARTS[part](a.value)
        return Held.of(f"{part}({a.text})", value, str(value.dtype), a.scale)
    if kind == "cast":
        to = draw(st.sampled_from(COMPLEX if name in COMPLEX else (*FLOATS, *COMPLEX)))
        value = as_computed(a.value, name).astype(dtype_of(to))
        return Held.of(f"cast({to}, {a.text})", as_computed(value, to), to, a.scale)
    number = draw(st.sampled_from((2, 0.1, -1.5, 3)))
    value = as_computed(a.value, name) * as_computed(np.array(number), name)
    return Held.of(f"({number}*{a.text})" if number != -1.5 else f"({a.text}*(-1.5))", value, name, a.scale)


def joined(draw: st.DrawFn, a: Node, b: Node) -> Node:
    """Return an expression of two operands."""
    both = common(held(a), held(b))
    x, y = as_computed(a.value, both), as_computed(b.value, both)
    kind = draw(st.sampled_from(("plain", "plain", "choice", "divide")))
    if kind == "choice":
        text = f"if(v_int8[i] > 1, {a.text}, {b.text})"
        return Held.of(text, np.where(DATA["int8"] > 1, x, y), both, a.scale, b.scale)
    if kind == "divide" and b.is_leaf and b.name in (*FLOATS, *COMPLEX):
        return Held.of(f"({a.text}/{b.text})", x / y, both, a.scale / np.abs(b.value.astype(np.complex128)))
    symbol = draw(st.sampled_from(sorted(PLAIN)))
    scale = a.scale * b.scale if symbol == "*" else a.scale + b.scale
    return Held.of(f"({a.text} {symbol} {b.text})", PLAIN[symbol](x, y), both, scale)


@dataclass(frozen=True, repr=False)
class Held(Node):
    """A value that is kept in float32 while its type says 16 bits."""

    kind: str = ""

    @staticmethod
    def of(text: str, value: Array, kind: str, *scales: Array) -> Held:
        made = node(text, as_computed(value, kind), *scales)
        return Held(made.text, made.value, made.scale, kind)


def held(a: Node) -> str:
    return a.kind if isinstance(a, Held) else a.name


def kernel_of(nodes: list[Node]) -> pl.LoopKernel:
    text = "\n".join(f"o{k}[i] = {each.text}" for k, each in enumerate(nodes))
    used = [name for name in DATA if f"v_{name}[" in text]
    arguments = [pl.GlobalArg(f"v_{name}", DATA[name].dtype, shape="n") for name in used]
    outputs = [pl.GlobalArg(f"o{k}", dtype_of(held(each)), shape="n") for k, each in enumerate(nodes)]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", f"for i\n{text}\nend", [*arguments, *outputs, ...], assumptions="n >= 1")
    return pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")


def check(nodes: list[Node], results: Any, what: str) -> None:
    for k, each in enumerate(nodes):
        got = np.asarray(results[f"o{k}"])
        expected = each.value.astype(dtype_of(held(each)))
        assert got.dtype == expected.dtype, each.text
        if expected.dtype.kind in "biu":
            np.testing.assert_array_equal(got, expected, err_msg=f"{what}: {each.text}")
            continue
        kind = "float64" if expected.dtype.name in ("float64", "complex128") else expected.dtype.name
        eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 2.0**-52}.get(kind, 2.0**-23)
        wide, right = got.astype(np.complex128), expected.astype(np.complex128)
        with np.errstate(all="ignore"):
            is_wide = not any(name in each.text for name in ("float32", "complex64", "float16"))
            inner = 2.0**-52 if is_wide else 2.0**-23
            bound = np.abs(right) * eps + 64 * inner * each.scale + 2.0**-24
            close = (np.abs(wide - right) <= bound) | (wide == right) | ~np.isfinite(right)
        assert close.all(), f"{what}: {each.text} is {got[~close]}, not {expected[~close]}"


def arguments_of(knl: pl.LoopKernel) -> dict[str, Any]:
    return {f"v_{name}": value for name, value in DATA.items() if any(a.name == f"v_{name}" for a in knl.arguments)}


EXPRESSIONS: Final = st.lists(st.one_of(integers(3), integers(2), numbers(3), numbers(2)), min_size=12, max_size=24)


def compare(nodes: list[Node], *, on_fibres: bool) -> None:
    knl = kernel_of(nodes)
    arguments = arguments_of(knl)
    check(nodes, pl.interpret(knl, n=N, **arguments), "interpreter")
    check(nodes, dict(pl.compile(knl, target=pl.CTarget())(n=N, **arguments).items()), "C")
    if on_fibres:
        program = pl.generate_code(knl, target=pl.CudaTarget())
        result = run_on_fibres(program, {"n": N, **arguments}, orders=("forward",))["forward"]
        check(nodes, dict(result.items()), "CUDA")


# An example holds many expressions and costs seconds: what fails is named in the message, and not shrunk.
PHASES: Final = (Phase.explicit, Phase.reuse, Phase.generate)
QUICK: Final = settings(
    max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), phases=PHASES
)


@QUICK
@given(EXPRESSIONS)
def test_targets_compute_what_numpy_computes(nodes: list[Node]) -> None:
    compare(nodes, on_fibres=True)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(EXPRESSIONS)
def test_targets_compute_what_numpy_computes_at_length(nodes: list[Node]) -> None:
    compare(nodes, on_fibres=True)


@pytest.mark.nvrtc
@QUICK
@given(EXPRESSIONS)
def test_nvrtc_takes_random_expressions(nodes: list[Node]) -> None:
    assert compile_cuda(pl.generate_code(kernel_of(nodes), target=pl.CudaTarget()).device_code, "sm_80").cubin
