"""One team of threads executes all launches of a program: texts, and results that are those of one thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Assign, Block, Declare, For, Node, Verbatim
from polyloop.codegen.tree.cprinter import print_block
from polyloop.codegen.tree.team import in_one_team
from polyloop.frozen import replace
from polyloop.target.c import OPENMP_LANGUAGE

THREADS = pl.CTarget(openmp=True)
TEAM = OPENMP_LANGUAGE.loops.team


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")


def _body(knl: pl.LoopKernel) -> str:
    """Return the text of the function without the loops inside of blocks."""
    text = pl.generate_code(knl, target=THREADS).device_code
    lines = text[text.index("\n{") :].splitlines()
    return "\n".join(line for line in lines if "#pragma omp" in line or ("for (" in line and "bx" not in line))


def _blocks(knl: pl.LoopKernel, **lengths: int) -> pl.LoopKernel:
    for iname, length in lengths.items():
        knl = pl.split_iname(knl, iname, length, outer_tag="g.0")
    return knl


def _elimination() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[k, i, j, r]: 0 <= k < n and k < i, j, r < n}",
        """
        for k
            for i
                a[i, k] = a[i, k]/a[k, k]
            end
            for r, j
                a[r, j] = a[r, j] - a[r, k]*a[k, j]
            end
        end
        """,
        [pl.GlobalArg("a", np.float64, shape="n, n")],
        name="elimination",
        assumptions="n >= 1",
    )
    return _blocks(knl, r=4)


@pytest.mark.filterwarnings("ignore:serial-launch")
def test_one_thread_executes_what_is_no_loop_over_blocks() -> None:
    knl = _elimination()
    assert [line.strip() for line in _body(knl).splitlines()][:5] == [
        "#pragma omp parallel",
        "for (int k = 0; k < n - 1; ++k) {",
        "#pragma omp single",
        "for (int i = k + 1; i < n; ++i)",
        "#pragma omp for",
    ]
    a = np.random.default_rng(0).random((37, 37)) + 37*np.eye(37)
    wanted = a.copy()
    for k in range(37):
        wanted[k + 1 :, k] /= wanted[k, k]
        wanted[k + 1 :, k + 1 :] -= np.outer(wanted[k + 1 :, k], wanted[k, k + 1 :])
    run = pl.compile(knl, target=THREADS)
    for _ in range(5):
        np.testing.assert_allclose(run(a=a.copy()).a, wanted, rtol=1e-12)


def test_threads_wait_before_what_a_condition_reads_may_change() -> None:
    knl = pl.make_kernel(
        "{[it, i, j]: 0 <= it < most and 0 <= i, j < n}",
        """
        for it
            y[i] = x[n - 1 - i]*0.5 {if=go[0] > 0}
            x[j] = y[j] + 1 {if=go[0] > 0}
            go[0] = go[0] - 1 {if=go[0] > 0}
        end
        """,
        [pl.GlobalArg("x, y", np.float64, shape="n"), pl.GlobalArg("go", np.int32, shape="1"), ...],
        name="settle",
    )
    knl = _blocks(knl, i=4, j=8)
    assert [line.strip() for line in _body(knl).splitlines() if "inner" not in line] == [
        "#pragma omp parallel",
        "for (int it = 0; it < most && go[0] > 0; ++it) {",
        "#pragma omp barrier",
        "#pragma omp for",
        "#pragma omp for",
        "#pragma omp single",
    ]
    x, run = np.random.default_rng(0).random(50), pl.compile(knl, target=THREADS)
    wanted = x.copy()
    for _ in range(30):
        wanted = wanted[::-1]*0.5 + 1
    for _ in range(10):
        got = run(x=x.copy(), y=np.zeros(50), go=np.array([30], np.int32), most=1000)
        assert got.go[0] == 0
        np.testing.assert_array_equal(got.x, wanted)


def test_a_last_launch_has_no_wait_of_its_own() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}", ["y[i] = 2*x[n - 1 - i]", "z[j] = y[n - 1 - j] + 1"],
        [pl.GlobalArg("x, y, z", np.float32, shape="n"), ...], name="turned")  # fmt: skip
    knl = pl.split_iname(_blocks(knl, i=64, j=64), "j_inner", 16, inner_tag="vec")
    plain, past = ["#pragma omp parallel", "#pragma omp for", "#pragma omp for nowait"], pl.write_once(knl, "z")
    for one in (knl, past):
        words = [line.strip() for line in _body(one).splitlines() if "#pragma omp" in line and "simd" not in line]
        assert words == plain
        x = np.arange(1000, dtype=np.float32)
        np.testing.assert_array_equal(pl.compile(one, target=THREADS)(x=x).z, 2*x + 1)


def test_one_launch_and_no_loop_has_a_team_of_its_own() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", np.float32, shape="n"), ...])
    assert "#pragma omp parallel for" in _body(_blocks(knl, i=64))


def _shared(*body: Node) -> For:
    name = c.Name("bx")
    return For("int", "bx", c.integer(0), c.binary(c.OPERATORS["<"], name, c.Name("n")), body,
               pragma="#pragma omp parallel for", axis="g")  # fmt: skip


def _set(target: str, value: str, kind: str = "", temporary: str = "") -> Assign:
    return Assign(c.Name(target, temporary), "=", c.Name(value), "", kind)


@pytest.mark.parametrize(
    ("between", "is_one"),
    [
        ((), True),
        ((_set("y", "n"),), True),
        ((Declare("const int", "m", value=c.Name("n")),), True),
        ((_set("s", "n", "int", "s"),), False),  # the second loop uses s, which the others would not have
        ((Declare("int", "s"),), False),
    ],
    ids=["nothing", "an array", "a constant", "a variable", "a declaration"],
)
def test_no_thread_uses_a_variable_that_another_one_declares(between: Block, is_one: bool) -> None:
    assert TEAM is not None
    block = (_shared(_set("x", "n")), *between, _shared(_set("z", "s")))
    text = "\n".join(print_block(in_one_team(block, TEAM)))
    assert ("#pragma omp single" in text) == (is_one and any(isinstance(node, Assign) for node in between))
    assert text.count("#pragma omp parallel") == (1 if is_one else 2)


def test_text_with_a_team_of_its_own_is_in_no_other() -> None:
    assert TEAM is not None
    text = "#pragma omp parallel\nuse(x);"
    block = (_shared(_set("x", "n")), Verbatim((), text, "", frozenset()), _shared(_set("z", "n")))
    assert in_one_team(block, TEAM) == block
    assert len(in_one_team((block[0], replace(block[1], text="use(x);"), block[2]), TEAM)) == 1


def test_a_kernel_of_many_launches_is_that_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = pl.make_kernel(
        "{[t, i, j, k]: 0 <= t < steps and 1 <= i, j < n - 1 and 0 <= k < n}",
        """
        for t
            for i
                v[i] = u[i - 1] + 2*u[i + 1]
            end
            for k
                <> s = s0[0] + k
            end
            for j
                u[j] = v[j - 1] - v[j + 1] + t
            end
        end
        """,
        [pl.GlobalArg("u, v", np.int64, shape="n"), pl.GlobalArg("s0", np.int64, shape="1"), ...],
        name="steps",
        assumptions="n >= 3",
    )
    knl, results = _blocks(knl, i=8, j=16), list[Any]()
    u = np.random.default_rng(0).integers(-9, 9, 100)
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        got = pl.compile(knl, target=THREADS)(u=u.copy(), v=np.zeros(100, np.int64), s0=np.ones(1, np.int64), steps=9)
        results.append((got.u, got.v))
    for one in results[1:]:
        np.testing.assert_array_equal(one, results[0])
