"""Random bounds and subscripts at sizes around 2^31 and 2^32 against Python's integers; the arrays are small.

A loop runs over a short window far out, so that what is computed on the way needs more bits than what is stored.
Everything runs with traps on overflow: C in the checked build, CUDA C on fibres.
"""

from __future__ import annotations

import random
from dataclasses import replace

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.arguments import Binder, IndexTooSmall
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.invoke import load
from polyloop.runtime.views import HostMemory
from tests.codegen.running import needs_compiler

ELEMENTS = 61
AROUND = (0, 1, 2, 2**15, 2**16 + 1, 2**30 - 1, 2**31 - 40, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32,
          2**33 + 5)  # fmt: skip
FACTORS = (1, 1, 2, 3, 7, 127, 7919, 65536, 2**20 + 1)


@pytest.fixture(autouse=True)
def _checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYLOOP_SANITIZE", "1")


def subscript(rng: random.Random) -> str:
    """Return a quasi-affine form of i and n, between 0 and ELEMENTS."""
    a, b, c = rng.choice(FACTORS), rng.choice((0, 0, 1, -1, 3, -5, 1000)), rng.choice((0, 1, 5, 60, -1, -7, 2**20))
    form = " + ".join(part for part in (f"{a}*i", f"{b}*n" if b else "", f"{c}" if c else "") if part)
    form = form.replace("+ -", "- ")
    match rng.randrange(5):
        case 0 | 1:
            return f"({form}) % {ELEMENTS}"
        case 2:
            return f"(({form}) // {rng.choice((2, 3, 8, 1000))}) % {ELEMENTS}"
        case 3:
            return f"((({form}) % {rng.choice((1000, 2**30, 2**20 + 7))})*{rng.choice(FACTORS)} + i) % {ELEMENTS}"
        case _:
            return f"(({form}) % 30) + ((i - n) % 31)"


def domain(rng: random.Random) -> tuple[str, str]:
    """Return a domain of i, a short window far out, and how far a value is from the first possible one."""
    width = rng.choice((1, 2, 5, 33))
    match rng.randrange(7):
        case 0:
            return f"n - {width} <= i < n", f"i - n + {width}"
        case 1:
            return f"-n <= i < {width} - n", "i + n"
        case 2:
            num, den = rng.choice(((5, 7), (3, 2), (1, 3), (9, 4)))
            return f"floor({num}*n/{den}) - {width} <= i < floor({num}*n/{den})", f"i - ({num}*n)//{den} + {width}"
        case 3:
            step = rng.choice((3, 7, 2**28 + 1, 1000003))
            return f"0 <= i < n and i mod {step} = 0 and i >= n - {width}*{step}", f"(i - n + {width}*{step})//{step}"
        case 4:
            step = rng.choice((4, 1024, 65536))
            return f"n - {width} <= {step}*i < n + {step}*{width}", f"i + (-(n - {width}))//{step}"
        case 5:
            bounds = f"0 <= i < {width} or (n - {width} <= i < n and i >= {width})"
            return bounds, f"if(i < {width}, i, i - n + 2*{width})"
        case _:
            return f"n - {width} <= i <= n", f"i - n + {width}"


class Case:
    """One kernel and its sizes."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        bounds, self.place = domain(rng)
        self.index = subscript(rng)
        self.n = max(0, rng.choice(AROUND) + rng.choice((0, 0, -3, 5)))
        self.n = min(self.n, 100_003) if " or " in bounds else self.n  # the loop runs over all between the two parts
        fitting = [dtype for dtype in (np.int32, np.uint32, np.int64) if self.n <= np.iinfo(dtype).max]
        self.dtype = np.dtype(rng.choice(fitting))
        self.bounds = f"[n] -> {{ [i] : {bounds} }}"
        self.split = rng.choice((0, 0, 4, 32))

    def points(self) -> list[int]:
        domain = isl.Set(self.bounds).fix_val(isl.dim_type.param, 0, self.n)
        found: list[int] = []
        domain.foreach_point(lambda point: found.append(point.get_coordinate_val(isl.dim_type.set, 0).to_python()))
        return found

    def kernel(self) -> pl.LoopKernel:
        return pl.make_kernel(
            self.bounds, f"y[{self.place}] = x[{self.index}]",
            [pl.GlobalArg("x", np.int32, shape=str(ELEMENTS)), pl.GlobalArg("y", np.int32, shape="200"),
             pl.ValueArg("n", self.dtype), ...],
            name="far", assumptions="n >= 0", silenced_warnings="*",
        )  # fmt: skip

    def expected(self) -> dict[int, int]:
        place, index = (compile(text.replace("if(", "choose("), "<text>", "eval") for text in (self.place, self.index))
        names = {"n": self.n, "choose": lambda condition, then, orelse: then if condition else orelse}
        return {eval(place, names, {"i": i}): eval(index, names, {"i": i}) for i in self.points()}


def run_anyhow(knl: pl.LoopKernel, **arguments: object) -> np.ndarray:
    """Run a kernel on fibres, with wider indices where those of 32 bits do not suffice."""
    program = pl.generate_code(knl, pl.CudaTarget())
    try:
        Binder(program, HostMemory()).bind(arguments)
    except IndexTooSmall:
        program = pl.generate_code(knl, pl.CudaTarget(), index_bits=64)
    found: np.ndarray = run_on_fibres(program, arguments, orders=("random",))["random"].y
    return found


@pytest.mark.few(10)
@needs_compiler
@pytest.mark.parametrize("seed", range(40))
def test_indices_far_out(seed: int) -> None:
    case = Case(seed)
    expected = case.expected()
    x = np.arange(1, ELEMENTS + 1, dtype=np.int32)
    wanted = np.zeros(200, np.int32)
    for place, index in expected.items():
        wanted[place] = x[index]
    knl = case.kernel()
    n = case.dtype.type(case.n)
    label = f"{case.bounds}; y[{case.place}] = x[{case.index}]; n = {case.n} {case.dtype}"
    found = pl.compile(knl, target=pl.CTarget())(x=x, y=np.zeros(200, np.int32), n=n).y
    np.testing.assert_array_equal(found, wanted, label)
    if case.split:
        is_sequential = any(part in case.bounds for part in (" or ", "-n", "mod"))  # not proven, or too many blocks
        outer, inner = (None, None) if is_sequential else ("g.0", "l.0")
        knl = pl.split_iname(knl, "i", case.split, outer_tag=outer, inner_tag=inner)
    found = run_anyhow(knl, x=x, y=np.zeros(200, np.int32), n=n)
    np.testing.assert_array_equal(found, wanted, label)


def narrow(target: pl.Target, n: int) -> None:
    """Run a program whose 32-bit indices are too narrow, as if nothing had checked the size."""
    data = [pl.GlobalArg("x", np.int32, shape=str(ELEMENTS)), pl.GlobalArg("y", np.int32, shape="3"), ...]
    knl = pl.make_kernel("{[i]: n - 3 <= i < n}", f"y[i - n + 3] = x[(7919*i) % {ELEMENTS}]", data)
    program = replace(pl.generate_code(knl, target), index_checks=())
    arguments = {"x": np.zeros(ELEMENTS, np.int32), "y": np.zeros(3, np.int32), "n": n}
    if program.target == "c":
        load(program)(**arguments)
    else:
        run_on_fibres(program, arguments, orders=("forward",))


@needs_compiler
@pytest.mark.parametrize("target", [pl.CTarget(), pl.CudaTarget()], ids=["c", "cuda"])
def test_an_index_that_is_too_narrow_is_trapped(target: pl.Target) -> None:
    narrow(target, 271_178)
    with pytest.raises(pl.VerificationError, match="7919") as error:
        narrow(target, 271_184)
    assert error.value.codes == ("integer-overflow",)


@pytest.mark.parametrize(
    ("bounds", "instruction", "extent", "checks"),
    [
        ("0 <= i < n", "y[i] = x[(7919*i) % 61]", "61", ["7919*n"]),
        ("0 <= i < floor(5*n/7)", "y[i] = 1", "n", ["5*n"]),
        ("0 <= i < n and i mod 1000 = 0", "y[i//1000] = 1", "n", ["n + 999"]),
        ("1 <= i < n - 1", "y[i] = x[i - 1] + x[i + 1]", "n", []),
        ("0 <= i < n", "y[i] = x[2*n - i - 1]", "2*n", ["2*n", "n + 1"]),
        ("0 <= i < n and 0 <= j < n", "z[i, j] = x[n - i + j - 1]", "2*n", ["n*n", "2*n", "n + 1"]),
    ],
)
def test_what_is_checked(bounds: str, instruction: str, extent: str, checks: list[str]) -> None:
    shapes = {"x": extent, "y": "n", "z": "n, n"}
    data = [pl.GlobalArg(name, np.int8, shape=shape) for name, shape in shapes.items() if f"{name}[" in instruction]
    inames = "i, j" if "j" in bounds else "i"
    knl = pl.make_kernel(f"{{[{inames}]: {bounds}}}", instruction, [*data, ...], assumptions="n >= 0")
    program = pl.generate_code(knl, pl.CTarget())
    found = [str(check.condition).removesuffix(" <= 2147483647") for check in program.index_checks]
    assert sorted(text for text in found if text != "n") == sorted(checks)
