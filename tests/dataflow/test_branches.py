"""Temporaries that branches set are private to their iteration: such loops run on threads."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check

F = np.float32

BRANCHES = {
    "both": "if a[i] > 2\n<> t = a[i]\nelse\nt = 2*a[i]\nend\nout[i] = t*t",
    "three": "if a[i] > 2\n<> t = a[i]\nelif a[i] > 1\nt = 2*a[i]\nelse\nt = 5\nend\nout[i] = t*t",
    "nested": "if a[i] > 1\nif a[i] > 2\n<> t = a[i]\nelse\nt = 3\nend\nout[i] = t*t\nelse\nout[i] = 7\nend",
    "inside": "out[i] = 7\nif a[i] > 2\n<> t = a[i]\nout[i] = t*t\nend",
    "read again": "out[i] = 7\nif a[i] > 2\n<> t = a[i]\nend\nif a[i] > 2\nout[i] = t*t\nend",
    "sums": "if a[i] > 2\n<> t = 0.5\nt = t + a[j]\nelse\nt = 1\nt = 2*t + k {inames=i:k}\nend\nout[i] = t*t",
    "sum of one": "out[i] = 7\nif a[i] > 2\n<> t = 0.5\nt = t + a[j]\nout[i] = t*t\nend",
    "arrays": "if a[i] > 2\n<> w[j] = a[i] + j\nelse\nw[k] = k\nend\nout[i] = w[0] + w[2]",
    "elif arrays": "if a[i] > 2\n<> w[j] = a[i] + j\nelif a[i] > 1\nw[k] = k\nelse\nw[j] = 2*a[i]\nend\n"
    "out[i] = w[0] + w[2]",
    "nested arrays": "if a[i] > 1 and a[i] < 3\n<> w[j] = a[i] + j\nelse\nif a[i] > 2\nw[k] = k\nelse\nw[k] = 2*a[i]\n"
    "end\nend\nout[i] = w[0] + w[2]",
    "own condition": "<> x = a[i]\nfor j\nif x > 1\n<> t = 2*x\nx = x - 0.125*t\nend\nend\nout[i] = x",
    "overwritten": "if a[i] > 2\n<> t = a[i]\nelse\nt = 2*a[i]\nend\nt = t + 1 {if=a[i] > 1}\nout[i] = t*t",
}  # fmt: skip


def kernel(body: str) -> pl.LoopKernel:
    text = "for i\n" + body + "\nend"
    domains = [f"{{[{iname}]: 0 <= {iname} < {n}}}" for iname, n in (("i", "n"), ("j", 3), ("k", 3)) if iname in body]
    return pl.make_kernel(domains, text, [pl.GlobalArg("a, out", F, shape="n"), ...])


@pytest.mark.parametrize("body", BRANCHES.values(), ids=BRANCHES.keys())
def test_loops_run_on_threads(body: str) -> None:
    knl = kernel(body)
    a = (np.random.default_rng(1).random(100) * 4).astype(F)
    expected = pl.interpret(knl, a=a).out
    split = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    check(split, {"a": a}, {"out": expected})


@pytest.mark.parametrize(
    "body",
    [
        "if a[i] > 2\n<> t = a[i]\nend\nout[i] = t*t",
        "if a[i] > 2\n<> t = a[i]\nelif a[i] > 1\nt = 2*a[i]\nend\nout[i] = t*t",
        "if a[i] > 2\n<> t = a[i]\nend\nif a[i] > 1\nout[i] = t*t\nend",
        "if a[i] > 2\n<> t = a[i]\nout[i] = 1\nend\nout[i] = t {if=out[i] > 0}",
        "if a[i] > 2\n<> w[j] = a[i]\nelse\nw[k+1] = k\nend\nout[i] = w[0] + w[3]",
        "if a[i] > 2\n<> w[j] = a[i]\nelse\nw[k] = k {if=a[k] > 2}\nend\nout[i] = w[0]",
        "if a[i] > 2\n<> w[j] = a[i]\nelif a[i] > 1\nw[k] = k\nend\nout[i] = w[0]",
        "if a[i] > 2\n<> w[j] = a[i]\nelif a[i] > 1\nw[k] = k\nelse\nw[k+1] = k\nend\nout[i] = w[0] + w[3]",
        "if a[i] > 2\n<> w[j] = a[i]\nelif a[i] > 1\nw[k] = k\nout[i] = w[1]\nelse\nw[k] = 2*k\nout[i] = w[1]\nend\n"
        "if not a[i] > 3\nout[i] = w[0]\nw[k] = k\nend",
        "if a[i] > 2\n<> w[j] = a[i]\na[i] = 0\nend\nif not a[i] > 2\nw[k] = k\nend\nout[i] = w[0]",
        "if a[i] > 2\n<> w[j] = a[i]\nend\nout[i] = w[0]\nif not a[i] > 2\nw[k] = k\nend",
        "for j\nif a[j] > 2\n<> t = a[i]\nend\nend\nfor j\nif a[j] > 2\nout[i] = t\nend\nend",
        "for j\nif out[i] > 2\n<> t = a[i]\nend\nend\nfor k\nif out[i] > 2\nout[i] = t + out[i]\nend\nend",
    ],
)
def test_values_of_other_iterations_keep_a_loop_sequential(body: str) -> None:
    with pytest.raises(pl.TransformError, match="illegal-parallel"):
        pl.split_iname(kernel(body), "i", 32, outer_tag="g.0", inner_tag="l.0")


def test_conditions_that_change_between_prove_nothing() -> None:
    text = "for i\nif a[i] > 2\n<> t = a[i]\nend\na[i] = 3 - a[i]\nif a[i] > 2\nout[i] = t\nend\nend"
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("a, out", F, shape="n"), ...])
    with pytest.raises(pl.TransformError, match="illegal-parallel"):
        pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


FLAGS = {
    "number": ("out[i % 4] = 1", 1), "argument": ("out[i % 4] = c", 3), "found": ("out[0] = 1 {if=a[i] > 2}", 1),
}  # fmt: skip


@pytest.mark.parametrize("body", FLAGS)
def test_threads_may_store_one_number_in_one_element(body: str) -> None:
    text, value = FLAGS[body]
    data = [pl.GlobalArg("out", F, shape=4), pl.GlobalArg("a", F, shape="n"), pl.ValueArg("c", F), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text + "\ny[i] = c*a[i]", data)
    a, out = np.arange(100, dtype=F), np.zeros(4, F)
    expected = np.array([1, 0, 0, 0], F) if body == "found" else np.full(4, value, F)
    split = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    check(split, {"a": a, "out": out, "c": F(3)}, {"out": expected, "y": 3 * a})


@pytest.mark.parametrize("text", ["out[i % 4] = i", "out[i % 4] = a[i]", "out[0] = 1\nout[0] = 2"])
def test_threads_may_not_store_different_numbers(text: str) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "for i\n" + text + "\nend",
                         [pl.GlobalArg("out", F, shape=4), pl.GlobalArg("a", F, shape="n"), ...])  # fmt: skip
    with pytest.raises(pl.TransformError, match=r"write-race|illegal-parallel"):
        pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
