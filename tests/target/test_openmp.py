"""The C target on several threads: blocks of a launch are shared, and nothing else changes."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import stat
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from examples import matmul_processor, prefix_sum_single_pass
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Assign, Declare, For
from polyloop.codegen.tree.cprinter import print_block
from polyloop.codegen.tree.parallel import behind_pointers, in_vectors, shared_by_threads
from polyloop.runtime.ccompile import find_compiler
from polyloop.runtime.views import empty_numpy

THREADS = pl.CTarget(openmp=True)
PRAGMA = "#pragma omp parallel for"


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")


def _text(knl: pl.LoopKernel, target: Any = THREADS) -> str:
    return pl.generate_code(knl, target=target).device_code


def _product() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [pl.GlobalArg("a, b, c", np.float32), ...],
    )
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 16)
    knl = pl.add_prefetch(knl, "a", "i_inner, k_inner")
    return pl.add_prefetch(knl, "b", "k_inner, j_inner")


def test_a_target_says_how_it_is_made() -> None:
    assert repr(THREADS) == "pl.CTarget(openmp=True)"
    assert repr(pl.CTarget()) == "pl.CTarget()"
    assert pl.CTarget(openmp=True) == THREADS != pl.CTarget()
    assert repr(pl.CTarget(openmp=True, contract=True)) == "pl.CTarget(openmp=True, contract=True)"
    assert eval(repr(pl.CTarget(contract=True)), {"pl": pl}) == pl.CTarget(contract=True)
    assert repr(pl.CTarget(openmp=True, full_blocks=False)) == "pl.CTarget(openmp=True, full_blocks=False)"


def test_threads_share_the_blocks_of_both_axes() -> None:
    lines = _text(_product()).splitlines()
    at = next(number for number, line in enumerate(lines) if "#pragma omp" in line)
    assert [line.strip() for line in lines[at : at + 3]] == [
        f"{PRAGMA} collapse(2)",
        "for (int by = 0; by < (m + 15) / 16; ++by) {",
        "for (int bx = 0; bx < (n + 15) / 16; ++bx) {",
    ]


def test_nothing_else_is_another_text() -> None:
    plain = _text(_product(), pl.CTarget()).splitlines()
    assert [line for line in _text(_product()).splitlines() if "#pragma omp" not in line] == plain


def test_tiles_are_right_on_three_threads() -> None:
    run, rng = pl.compile(_product(), target=THREADS), np.random.default_rng(0)
    for m, n, p in ((1, 1, 1), (70, 90, 50), (33, 16, 130)):
        a, b = rng.integers(-4, 5, (m, p)).astype(np.float32), rng.integers(-4, 5, (p, n)).astype(np.float32)
        np.testing.assert_array_equal(run(a=a, b=b).c, a @ b)


def test_a_bound_by_the_outer_axis_is_not_collapsed() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j <= i}", "a[i, j] = i - j", [pl.GlobalArg("a", np.int32), ...])
    knl = pl.tag_inames(knl, {"i": "g.1", "j": "g.0"})
    text = _text(knl)
    assert text.count(PRAGMA) == 1
    assert "collapse" not in text
    expected = np.tril(np.subtract.outer(np.arange(40), np.arange(40)))
    assert np.array_equal(np.tril(pl.compile(knl, target=THREADS)(a=np.zeros((40, 40), np.int32)).a), expected)


def test_loops_of_the_host_are_around_those_that_threads_share() -> None:
    knl = pl.make_kernel(
        "{[t, i, k]: 0 <= t < steps and 1 <= i < n - 1 and 1 <= k < n - 1}",
        """
        for t
            v[i] = (u[i - 1] + u[i] + u[i + 1])*0.25 {id=step}
            u[k] = v[k] {id=back, dep=step}
        end
        """,
        [pl.GlobalArg("u, v", np.float64, shape="n"), ...],
    )
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 32, outer_tag="g.0", inner_tag="l.0")
    text = _text(knl)
    assert text.index("#pragma omp parallel\n") < text.index("for (int t") < text.index("#pragma omp for")
    assert text.count("#pragma omp for") == 2
    u = np.random.default_rng(1).random(500)
    wanted = u.copy()
    for _ in range(7):
        wanted[1:-1] = (wanted[:-2] + wanted[1:-1] + wanted[2:]) * 0.25
    got = pl.compile(knl, target=THREADS)(u=u.copy(), v=np.zeros(500), steps=7)
    np.testing.assert_allclose(got.u, wanted, rtol=1e-14)


def _updated(operator: str, dtype: Any) -> pl.LoopKernel:
    update = {"min": "min(total[0], x[i])", "max": "max(total[0], x[i])"}.get(operator, f"total[0] {operator} x[i]")
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        f"total[0] = {update} {{atomic}}",
        [pl.GlobalArg("x", dtype, shape="n"), pl.GlobalArg("total", dtype, shape="1")],
    )
    return pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")


KINDS = [
    *[("+", t) for t in (np.int8, np.uint16, np.int32, np.uint32, np.int64, np.float32, np.float64)],
    ("*", np.uint32), ("*", np.int64), ("&", np.uint8), ("|", np.int32), ("^", np.uint64),
    *[(o, t) for o in ("min", "max") for t in (np.int8, np.int32, np.uint64, np.float32, np.float64)],
    *[(o, np.float16) for o in ("+", "*", "min", "max")],
]  # fmt: skip


@pytest.mark.few(10)
@pytest.mark.parametrize(("operator", "dtype"), KINDS, ids=[f"{o}-{np.dtype(t)}" for o, t in KINDS])
def test_no_update_of_another_thread_is_lost(operator: str, dtype: Any) -> None:
    knl, kind = _updated(operator, dtype), np.dtype(dtype).kind
    n, rng = (3000 if np.dtype(dtype).itemsize > 2 else 400), np.random.default_rng(3)
    x = rng.integers(0, 4 if kind == "f" else 100, n).astype(dtype)
    if operator == "*":
        x = np.where(rng.random(n) < 0.02, 2, 1).astype(dtype) | (0 if kind == "f" else 1) if kind != "f" else x * 0 + 1
    start = np.array([0 if operator in "+|^max" else x[0] if operator != "*" else 1], dtype)
    functions: dict[str, Any] = {
        "+": np.add, "*": np.multiply, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
        "min": np.minimum, "max": np.maximum,
    }  # fmt: skip
    with np.errstate(over="ignore"):
        wanted = functions[operator].reduce(np.concatenate([start, x]), dtype=dtype)
    for _ in range(3):
        got = pl.compile(knl, target=THREADS)(x=x, total=start.copy()).total[0]
        assert got == wanted


def test_complex_numbers_have_no_atomic_updates() -> None:
    with pytest.raises(pl.CodegenError, match="unsupported-atomic"):
        _text(_updated("+", np.complex64))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say what is resident")
def test_what_a_call_allocates_is_first_touched_by_its_threads() -> None:
    """A page belongs to the memory near the thread that writes it first, so nothing may write it before."""
    size = 64 << 20

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    fresh = empty_numpy(np.dtype(np.float32), (size // 4,), (1,), poison=False)
    untouched = resident() - before
    fresh.fill(1.0)
    assert untouched < size // 8 < size // 2 < resident() - before


def test_a_scan_in_one_pass_is_refused() -> None:
    with pytest.raises(pl.CodegenError, match="scans over blocks in one pass") as refused:
        _text(prefix_sum_single_pass.transformed())
    assert refused.value.codes == ("unsupported-device-function",)


def test_a_launch_without_blocks_is_said_to_be_serial() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]", [pl.GlobalArg("a, b", np.float32, shape="n")])
    with pytest.warns(pl.PolyloopWarning, match="serial-launch") as caught:
        pl.compile(knl, target=THREADS)
    assert "outer_tag=\"g.0\"" in str(caught[0].message)
    program = pl.generate_code(pl.split_iname(knl, "i", 64, outer_tag="g.0"), target=THREADS)
    assert not program.notes
    assert not pl.generate_code(knl, target=pl.CTarget()).notes


def test_a_nest_beside_blocks_is_said_to_be_serial() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "a[i] = 2*x[i] {id=one}\nb[j] = x[j] + 1 {id=two}",
                         [pl.GlobalArg("a, x, b", np.float32, shape="n"), ...], assumptions="m <= n")  # fmt: skip
    knl = pl.split_iname(knl, "i", 64, outer_tag="g.0")
    with pytest.warns(pl.PolyloopWarning, match="one thread executes the loops of 'two'"):
        program = pl.generate_code(knl, target=THREADS)
    assert [name for name, _ in program.notes] == ["two"]
    for target in (THREADS, pl.OpenCLTarget(), pl.CudaTarget()):
        (remark,) = pl.verify(knl, target=target).remarks
        assert remark.code == "serial-launch"
        assert "executes the loops of 'two'" in remark.message
    (remark,) = pl.verify(knl, target=pl.CTarget()).remarks
    assert "openmp=True" in remark.hints[0]
    knl = pl.split_iname(knl, "j", 64, outer_tag="g.0")
    assert not any(pl.verify(knl, target=target).remarks for target in (THREADS, pl.CudaTarget()))


def test_a_compiler_without_openmp_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "plain-cc"
    compiler.write_text(
        '#!/bin/sh\nfor flag; do [ "$flag" = -fopenmp ] && exit 1; done\n'
        f'exec {find_compiler("c").command[0]} "$@"\n'
    )
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(compiler))
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]", [pl.GlobalArg("a, b", np.float32, shape="n")])
    knl = pl.split_iname(knl, "i", 64, outer_tag="g.0")
    a = np.arange(100, dtype=np.float32)
    with pytest.raises(pl.CompilerError, match="no-openmp"):
        pl.compile(knl, target=THREADS)(a=a)
    assert np.array_equal(pl.compile(knl, target=pl.CTarget())(a=a).b, 2 * a)


def test_blocks_that_would_share_a_variable_have_no_text() -> None:
    one = c.integer(1)
    loop = For("int", "bx", c.integer(0), c.binary(c.OPERATORS["<"], c.Name("bx"), c.Name("n")),
               (Declare("int", "y", (), c.Name("t", "t")),), axis="g")  # fmt: skip
    assert shared_by_threads((Declare("const int", "t", (), one), loop), PRAGMA)[1].pragma == PRAGMA  # type: ignore[union-attr]
    with pytest.raises(AssertionError, match="blocks would share t"):
        shared_by_threads((Declare("int", "t"), loop), PRAGMA)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_child_by_fork_does_not_wait_for_threads_that_it_does_not_have() -> None:
    run, a = pl.compile(_product(), target=THREADS), np.ones((40, 40), np.float32)
    assert run(a=a, b=a).c[0, 0] == 40
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pytest has other threads
        child = context.Process(target=lambda: run(a=a, b=a))
        child.start()
    child.join(30)
    ended = not child.is_alive()
    child.kill()
    assert ended
    assert child.exitcode == 0
    assert run(a=a, b=a).c[0, 0] == 40


def _lanes(body: str, **extents: str) -> list[str]:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", body, [
        pl.GlobalArg(name, np.float32, shape=shape) for name, shape in extents.items()])  # fmt: skip
    lines = _text(pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="vec")).splitlines()
    return [line.strip() for line in lines]


def test_lanes_that_set_elements_of_their_own_are_vectors() -> None:
    lines = _lanes("b[i] = 2*a[i]", a="n", b="n")
    at = lines.index("#pragma omp simd")
    assert lines[at + 1].startswith("for (int i_inner = 0;")


@pytest.mark.parametrize("body", ["b[i // 2] = a[i]", "b[0] = b[0] + a[i] {atomic}"])
def test_lanes_that_set_one_element_are_in_order(body: str) -> None:
    assert "#pragma omp simd" not in _lanes(body, a="n", b="n")


def test_each_vector_loop_has_one_statement() -> None:
    text = "\n".join(_lanes("b[i] = a[i] {id=x}\nc[i] = b[i]", a="n", b="n", c="n"))
    first, second = text.split("#pragma omp simd")[1:]
    assert "b[i] = a[i];" in first
    assert "c[i] = b[i];" not in first
    assert "c[i] = b[i];" in second


def test_a_register_tile_has_the_same_bits_as_one_thread() -> None:
    rng = np.random.default_rng(0)
    run, plain = (pl.compile(matmul_processor.transformed(), target=t) for t in (THREADS, pl.CTarget()))
    for m, n, p in ((1, 1, 1), (13, 33, 5), (150, 400, 70)):
        a, b = rng.random((m, p), np.float32), rng.random((p, n), np.float32)
        assert np.array_equal(run(a=a, b=b).c, plain(a=a, b=b).c)


def test_products_and_sums_round_once_if_asked() -> None:
    arguments = [pl.GlobalArg("a, b, c", np.float64, shape="n")]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "c[i] = a[i]*b[i] + c[i]", arguments)
    text = _text(knl, pl.CTarget(contract=True))
    assert "#pragma STDC FP_CONTRACT ON" in text
    assert "FP_CONTRACT" not in _text(knl, pl.CTarget())
    a = b = np.array([1 + 2.0**-30])
    c = np.array([-(1 + 2.0**-29)])
    exactly = {pl.compile(knl, target=pl.CTarget(contract=on))(a=a, b=b, c=c.copy()).c[0] for on in (True, False)}
    assert exactly <= {0.0, 2.0**-60}
    assert pl.compile(knl, target=pl.CTarget())(a=a, b=b, c=c.copy()).c[0] == 0.0


def test_panels_begin_in_cache_lines_and_are_used_through_pointers() -> None:
    lines = [line.strip() for line in _text(matmul_processor.transformed()).splitlines()]
    at = lines.index("_Alignas(64) float b_panel_memory[64][256];")
    assert lines[at + 1 : at + 3] == [
        "float (*volatile b_panel_at)[256] = b_panel_memory;",
        "float (*const b_panel)[256] = b_panel_at;",
    ]
    assert "float part[6][2][16];" in lines  # a register tile has no address that anything else may have
    assert "volatile" not in _text(matmul_processor.transformed(), pl.CTarget())


def test_a_row_of_a_panel_is_used_through_a_pointer_to_elements() -> None:
    lanes = For("int", "v", c.integer(0), c.binary(c.OPERATORS["<"], c.Name("v"), c.integer(8)), (), axis="v")
    row, small = Declare("float", "row", (2048,)), Declare("float", "small", (1024,))
    assert behind_pointers((row, small), lambda name: f"{name}_0") == (row, small)  # nothing keeps vectors here
    changed, same, _ = behind_pointers((row, small, lanes), lambda name: f"{name}_0")
    assert print_block((changed,)) == [
        "    _Alignas(64) float row_memory_0[2048];",
        "    float *volatile row_at_0 = row_memory_0;",
        "    float *const row = row_at_0;",
    ]
    assert same == small


def test_loops_over_panels_are_not_divided_and_those_over_register_tiles_are() -> None:
    text = _text(matmul_processor.transformed())
    assert "ko_full" not in text
    assert "for (int ko = 0; ko < (p + 63) / 64; ++ko) {" in text
    assert "i_tile < i_tile_full" in text


def _triangle() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, k < n and 0 <= j <= i}",
        "c[i, j] = sum(k, a[i, k]*a[j, k])",
        [pl.GlobalArg("a, c", np.float64, shape="n, n"), ...],
        name="triangle",
        assumptions="n >= 1",
    )
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.0")
    knl = pl.split_iname(knl, "i_inner", 2, inner_tag="ilp")
    return pl.split_iname(knl, "k", 8, inner_tag="ilp")


def test_blocks_with_unequal_work_are_taken_by_turns() -> None:
    assert f"{PRAGMA} schedule(dynamic)" in _text(_triangle())
    assert "schedule" not in _text(_product())


def test_nests_of_different_lengths_in_one_launch_are_taken_by_turns() -> None:
    knl = pl.make_kernel(
        "{[i, j, k, l]: 0 <= i, j, k, l < n}",
        "q[i] = sum(j, a[i, j]*p[j])\ns[k] = sum(l, a[l, k]*r[l])",
        [pl.GlobalArg("a", np.float64, shape="n, n"), pl.GlobalArg("p, q, r, s", np.float64, shape="n"), ...],
        name="two", assumptions="n >= 1",
    )  # fmt: skip
    alike = pl.split_iname(pl.split_iname(knl, "i", 8, outer_tag="g.0"), "k", 8, outer_tag="g.0")
    apart = pl.split_iname(pl.split_iname(knl, "i", 8, outer_tag="g.0"), "k", 64, outer_tag="g.0")
    assert "schedule" not in _text(alike)
    assert f"{PRAGMA} schedule(dynamic)" in _text(apart)


def test_sums_side_by_side_are_vectors_and_rows_side_by_side_are_not() -> None:
    text = _text(_triangle())
    loops = [(a.strip(), b.strip()) for a, b in itertools.pairwise(text.splitlines()) if "#pragma" in a]
    assert "#pragma omp simd" in {a for a, b in loops if "int k_inner" in b}
    assert all("unroll" in a for a, b in loops if "int i_inner_inner" in b)
    run, rng = pl.compile(_triangle(), target=THREADS), np.random.default_rng(0)
    for n in (1, 7, 40):
        a = rng.integers(-4, 5, (n, n)).astype(np.float64)
        np.testing.assert_array_equal(run(a=a, c=np.zeros((n, n))).c, np.tril(a @ a.T))


def test_iterations_that_go_through_memory_in_steps_are_written_out() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "b[j, i] = 2*a[i, j]",
                         [pl.GlobalArg("a, b", np.float32, shape="n, n"), ...], assumptions="n >= 1")  # fmt: skip
    text = _text(pl.split_iname(pl.tag_inames(knl, "i:g.0"), "j", 8, inner_tag="ilp"))
    assert "simd" not in text


def test_full_blocks_of_vectors_have_a_text_without_tests() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}", "s[j] = sum(i, a[i, j])",
        [pl.GlobalArg("a", np.float32, shape="n, n"), pl.GlobalArg("s", np.float32, shape="n"), ...],
        name="columns", assumptions="n >= 1",
    )  # fmt: skip
    knl = pl.split_iname(knl, "j", 32, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 8, outer_tag="ilp", inner_tag="vec")
    text = _text(knl)
    assert text.count("if (32 * bx + 31 < n) {") == 1
    full, _, cut = text.partition("} else {")
    assert "min_int32(8" not in full.partition("if (32 * bx")[2]
    assert "min_int32(8" in cut
    assert "} else {" not in _text(knl, pl.CTarget(openmp=True, full_blocks=False))
    assert "} else {" not in _text(knl, pl.CTarget())
    run, rng = pl.compile(knl, target=THREADS), np.random.default_rng(0)
    for n in (1, 32, 70):
        a = rng.integers(-4, 5, (n, n)).astype(np.float32)
        np.testing.assert_array_equal(run(a=a).s, a.sum(0))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y[i] = exp(x[i])", "'expf' is called for one lane at a time"),
        ("y[0] = y[0] + x[i] {atomic}", "an atomic update is of a single element"),
        ("y[i] = sqrt(x[i])", ""),
    ],
    ids=["called", "atomic", "instruction"],
)
def test_lanes_that_are_no_vector_are_named(body: str, reason: str) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", body, [pl.GlobalArg("x, y", np.float32, shape="n"), ...],
                         assumptions="n >= 1")  # fmt: skip
    knl = pl.split_iname(pl.split_iname(knl, "i", 64, outer_tag="g.0"), "i_inner", 16, inner_tag="vec")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [one for one in pl.verify(knl, target=THREADS).remarks if one.code == "not-vectorized"]
    assert [one.notes for one in found] == ([(reason,)] if reason else [])


def test_without_directives_lanes_are_loops_and_said_to_be() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", np.float32, shape="n"), ...])
    knl = pl.split_iname(knl, "i", 16, inner_tag="vec")
    (remark,) = pl.verify(knl, target=pl.CTarget()).remarks
    assert (remark.code, "'i_inner'" in remark.message) == ("not-vectorized", True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [one.code for one in pl.verify(knl, target=THREADS).remarks] == ["serial-launch"]


def _loop(target: str, value: str, test: str = "k < n") -> For:
    """Return ``for (int k = 0; test; ++k) x[target] = value``; names in brackets are subscripts."""

    def code(text: str) -> c.Code:
        name, bracket, index = text.rstrip("]").partition("[")
        if not bracket:
            return c.Name(text)
        first, times, factor = index.partition("*")
        inside = c.product(c.integer(int(first)), c.Name(factor)) if times else c.Name(first)
        return c.Subscript(c.Name(name), inside)

    first, *more = (c.binary(c.OPERATORS["<"], c.Name("k"), code(part[4:])) if part.startswith("k < ") else code(part)
                    for part in test.split(" && "))  # fmt: skip
    return For("int", "k", c.integer(0), c.binary(c.AND, first, *more) if more else first,
               (Assign(code(target), "=", code(value), "copy"),))  # fmt: skip


@pytest.mark.parametrize(
    ("loop", "is_vector"),
    [
        (_loop("x[k]", "y[k]"), True),
        (_loop("x[k]", "y[0*m]"), True),
        (_loop("x[k]", "x[m]"), False),  # an element that the loop may set
        (_loop("x[2*k]", "y[k]"), False),  # no neighbours
        (_loop("x[m]", "y[k]"), False),  # one element
        (_loop("x[k]", "y[k]", "k < n && goes"), False),  # no loop that OpenMP takes
        (_loop("x[k]", "y[k]", "k < x[m]"), False),  # its end may be set
    ],
)
def test_loops_that_set_neighbours_of_an_array_that_they_do_not_read_are_vectors(loop: For, is_vector: bool) -> None:
    (found,) = in_vectors((loop,), "#pragma omp simd")
    assert isinstance(found, For)
    assert bool(found.pragma) == is_vector
