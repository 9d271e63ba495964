"""Whatever users hold can be copied and sent to other processes, or says why not."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.gallery import GALLERY

ROOT = Path(__file__).parents[2]
F32 = np.float32
WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle 2": lambda value: pickle.loads(pickle.dumps(value, 2)),
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
}


def double() -> pl.LoopKernel:
    return pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", F32, shape="n"), ...], name="dbl")


def refused() -> pl.PolyloopError:
    with pytest.raises(pl.TransformError) as caught:
        pl.split_iname(double(), "zz", 3)
    return caught.value


@cache
def values() -> dict[str, Any]:
    kernel = pl.split_iname(double(), "i", 32, outer_tag="g.0", inner_tag="l.0")
    run = pl.compile(kernel, target=pl.CTarget())
    return {
        "kernel": kernel,
        "compiled kernel": run,
        "result": run(x=np.ones(3, F32)),
        "outputs": pl.interpret(kernel, x=np.ones(3, F32)),
        "trace": kernel.trace,
        "recipe": pl.Recipe.of(kernel).with_parameters(block="1.inner_length"),
        "program": pl.generate_code(kernel),
        "code": pl.generate_code_v2(kernel),
        "explanation": pl.explain(kernel, {"n": 99}, device="H100"),
        "certificate": pl.verify(kernel),
        "equivalence": pl.check_equivalence(kernel, double(), target=pl.CTarget()),
        "counts": pl.get_op_map(kernel),
        "footprints": pl.gather_access_footprint_bytes(kernel),
        "dependences": pl.dependences(kernel),
        "conflicts": pl.get_bank_conflicts(kernel),
        "function": pl.make_function("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", name="f"),
        "foreign": pl.ForeignFunction("log2p", (F32,), preamble="static float log2p(float x) { return x; }"),
        "argument": pl.GlobalArg("x", F32, shape=pl.auto),
        "target": pl.CudaTarget("sm_80"),
        "operation": pl.ReductionOperation("norm", "sqrt(a*a + b*b)", neutral=0),
        "error": refused(),
        "warning": pl.PolyloopWarning("make_kernel", "dbl", refused().found[0]),
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [
    "kernel", "compiled kernel", "result", "outputs", "trace", "recipe", "program", "code", "explanation",
    "certificate", "equivalence", "counts", "footprints", "dependences", "conflicts", "function", "foreign", "argument",
    "target", "operation", "error", "warning",
])  # fmt: skip
def test_values_are_copied(name: str, way: str) -> None:
    value = values()[name]
    made = WAYS[way](value)
    assert type(made) is type(value)
    assert str(made) == str(value)


def test_auto_is_one_object() -> None:
    assert all(way(pl.auto) is pl.auto for way in WAYS.values())


def test_a_compiled_kernel_that_was_sent_runs() -> None:
    made = pickle.loads(pickle.dumps(values()["compiled kernel"]))
    assert made(x=np.ones(3, F32)).y.tolist() == [2, 2, 2]
    assert made.regenerate(64).index_bits == 64


def test_a_result_that_was_sent_has_its_outputs() -> None:
    result = values()["result"]
    for way in WAYS.values():
        assert way(result).y.tolist() == [2, 2, 2]
    assert copy.deepcopy(result).y is not result.y


def test_a_bound_call_says_why_not() -> None:
    call = values()["compiled kernel"].bind(x=np.ones(3, F32))
    for way in WAYS.values():
        with pytest.raises(pl.ArgumentError) as caught:
            way(call)
        assert str(caught.value) == (
            "call on kernel 'dbl': a bound call cannot be pickled or copied: it is made for arrays where they lie "
            "[not-picklable]\n"
            "  Hint: pickle the compiled kernel and the arrays, and bind them where they are loaded"
        )


def test_an_error_keeps_what_it_says() -> None:
    error = refused()
    for way in WAYS.values():
        made = way(error)
        assert (made.operation, made.kernel, made.found, made.args) == (
            error.operation, error.kernel, error.found, error.args,
        )  # fmt: skip


def fails(_: object) -> None:
    pl.split_iname(double(), "zz", 3)


def test_an_error_comes_back_from_another_process() -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool, pytest.raises(pl.TransformError) as caught:
        pool.map_async(fails, [1]).get(timeout=60)
    assert caught.value.codes == ("unknown-iname",)


_PROGRAM = """
import pickle, sys
import polyloop as pl
for kernel in pickle.load(sys.stdin.buffer):
    sys.stdout.write(pl.generate_code(kernel, target=pl.CudaTarget()).device_code + chr(0))
"""
_KEPT_APART = ("hashed_noise", "slope_limiter")  # their references are functions without a name


def picklable() -> list[str]:
    return [name for name in sorted(GALLERY) if "cuda" not in GALLERY[name].refused and name not in _KEPT_APART]


@pytest.mark.few(1)
@pytest.mark.parametrize("part", range(4))
def test_a_kernel_that_was_sent_has_the_same_text(part: int) -> None:
    kernels = [GALLERY[name].build() for name in picklable()[part::20]]
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", _PROGRAM], input=pickle.dumps(kernels), cwd=ROOT,
                          capture_output=True, check=True)  # fmt: skip
    texts = done.stdout.decode().split("\0")[:-1]
    assert texts == [pl.generate_code(kernel, target=pl.CudaTarget()).device_code for kernel in kernels]


@pytest.mark.slow
def test_every_kernel_that_was_sent_has_the_same_text() -> None:
    for name in picklable():
        kernel = GALLERY[name].build()
        made = pickle.loads(pickle.dumps(kernel))
        assert str(made) == str(kernel), name
        assert pl.generate_code(made).device_code == pl.generate_code(kernel).device_code, name


@pytest.mark.parametrize("place", [0.1, 0.5, 0.99])
def test_a_truncated_pickle_is_refused(place: float) -> None:
    text = pickle.dumps(double())
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        pickle.loads(text[: int(place * len(text))])
