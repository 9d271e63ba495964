from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.kernels import F, blur, check_blur, check_matmul, check_triangle, matmul, spread, triangle

Golden = Callable[[str, str], None]


def tiled() -> pl.LoopKernel:
    knl = pl.split_iname(matmul(), "i", 8, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    return pl.split_iname(knl, "k", 8)


def register_tiled(tag: str) -> pl.LoopKernel:
    """Return a matrix product in which each thread computes 2 x 2 elements."""
    knl = pl.split_iname(matmul(), "i", 8, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", 4, inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 4, inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 4)
    knl = pl.prioritize_loops(knl, "k_outer, k_inner, i_inner_outer, j_inner_outer")
    knl = pl.add_prefetch(knl, "a", "i_inner_outer, i_inner_inner, k_inner")
    knl = pl.add_prefetch(knl, "b", "k_inner, j_inner_outer, j_inner_inner")
    return pl.tag_inames(knl, f"i_inner_outer:{tag}, j_inner_outer:{tag}")


def test_a_tile_with_its_halo(golden: Golden) -> None:
    base = blur()
    knl = pl.add_prefetch(spread(base), "a", "i_inner")
    check_blur(knl)
    golden("golden/prefetch_halo.cu", cuda(knl))
    same_after_replay(base, knl)
    assert "a_fetch[18] filled for each block (i_outer)" in str(knl.trace)
    assert cuda(spread(base).add_prefetch("a", ["i_inner"])) == cuda(knl)


def test_a_block_smaller_than_its_tile(golden: Golden) -> None:
    knl = pl.split_iname(blur(), "i", 64, outer_tag="g.0")
    knl = pl.split_iname(knl, "i_inner", 16, inner_tag="l.0")
    knl = pl.add_prefetch(knl, "a", "i_inner_outer, i_inner_inner")
    check_blur(knl, (3, 17, 65, 66, 67, 100))
    golden("golden/prefetch_small_block.cu", cuda(knl))


def test_tiling_without_threads(golden: Golden) -> None:
    knl = pl.add_prefetch(pl.split_iname(blur(), "i", 16), "a", "i_inner")
    check_blur(knl)
    golden("golden/prefetch_no_threads.cu", cuda(knl))


@pytest.mark.parametrize("tag", ["l.0", "for", "unr_hint", None])
def test_the_copy_runs_as_it_is_told(tag: str | None) -> None:
    check_blur(pl.add_prefetch(spread(blur()), "a", "i_inner", default_tag=tag), (3, 18, 40))


def test_threads_in_a_sequential_loop_over_tiles() -> None:
    check_blur(pl.add_prefetch(pl.split_iname(blur(), "i", 16, inner_tag="l.0"), "a", "i_inner"))


def test_names_and_places_can_be_chosen() -> None:
    knl = pl.add_prefetch(
        spread(blur()),
        "a",
        "i_inner",
        "row",
        temporary_name="tile",
        temporary_address_space=pl.AddressSpace.LOCAL,
        fetch_outer_inames="i_outer",
        prefetch_insn_id="load",
    )
    check_blur(knl, (3, 18))
    assert "__shared__ float tile[18]" in cuda(knl)
    assert "load" in str(knl)
    same_after_replay(blur(), knl)


def test_without_a_sweep_each_thread_keeps_its_own() -> None:
    knl = pl.add_prefetch(spread(blur()), "a")
    check_blur(knl, (3, 18))
    assert "__shared__" not in cuda(knl)


@pytest.mark.parametrize("sweep", ["", "j_inner"])
def test_what_depends_on_the_thread_is_not_spread_over_others(sweep: str) -> None:
    shapes = {"x, y": "n", "out": "n, n", "a": "2*n"}
    data = [*(pl.GlobalArg(names, F, shape=shape) for names, shape in shapes.items()), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "out[i, j] = x[i]*y[j] + a[i + j]", data, name="outer")
    knl = pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 4, outer_tag="g.1", inner_tag="l.1")
    knl = pl.add_prefetch(knl, "a", sweep)
    assert "__shared__" not in cuda(knl)
    for n in (1, 4, 9):
        x, y, a = (np.arange(m, dtype=F) for m in (n, n, 2 * n))
        expected = np.multiply.outer(x, y) + np.add.outer(np.arange(n), np.arange(n)).astype(F)
        check(knl, {"x": x, "y": y, "a": a}, {"out": expected})


def test_a_tiled_matrix_product() -> None:
    knl = pl.add_prefetch(pl.add_prefetch(tiled(), "a", "i_inner, k_inner"), "b", "k_inner, j_inner")
    check_matmul(knl, (1, 7, 8, 9, 17))
    assert cuda(pl.assume(knl, "n mod 8 = 0")).count("__syncthreads") == 2


@pytest.mark.parametrize("tag", ["for", "unr_hint"])
def test_a_matrix_product_with_several_elements_a_thread(tag: str) -> None:
    check_matmul(register_tiled(tag), (1, 4, 8, 9, 17))


def test_a_matrix_product_with_unrolled_elements(golden: Golden) -> None:
    knl = pl.assume(register_tiled("unr"), "n mod 8 = 0")
    check_matmul(knl, (8, 16))
    golden("golden/register_tiled.cu", cuda(knl))


def test_a_copy_stays_outside_of_loops_it_does_not_depend_on() -> None:
    knl = matmul()
    for iname in ("i", "j", "k"):
        knl = pl.split_iname(knl, iname, 4)
    knl = pl.prioritize_loops(knl, "i_outer, j_outer, k_outer, i_inner, j_inner, k_inner")
    knl = pl.add_prefetch(pl.add_prefetch(knl, "a", "i_inner, k_inner"), "b", "k_inner, j_inner")
    check_matmul(knl, (1, 4, 5, 9))
    check_matmul(pl.tag_inames(knl, "i_outer:g.1, j_outer:g.0"), (1, 4, 5, 9))


def test_a_triangle(golden: Golden) -> None:
    knl = pl.split_iname(triangle(), "i", 8, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    knl = pl.add_prefetch(knl, "u", "i_inner, j_inner")
    check_triangle(knl)
    golden("golden/prefetch_triangle.cu", cuda(knl))


def test_a_triangular_sum() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j <= i}",
        "s[i] = sum(j, a[i, j] * x[j])",
        [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("x, s", F, shape="n"), ...],
        assumptions="n >= 1",
    )
    knl = pl.split_iname(spread(knl, "i", 8), "j", 8)
    for staged in (pl.add_prefetch(knl, "x", "j_inner"), pl.add_prefetch(knl, "a", "i_inner, j_inner")):
        for n in (1, 8, 9, 20):
            a = np.random.default_rng(n).integers(-3, 4, (n, n)).astype(F)
            (x,) = vectors(n, 1)
            check(staged, {"a": a, "x": x}, {"s": np.tril(a) @ x})


def test_two_instructions_share_a_copy() -> None:
    knl = pl.make_kernel(
        "{[i]: 1 <= i < n - 1}",
        "b[i] = a[i-1]\nc[i] = a[i+1]",
        [pl.GlobalArg("a, b, c", F, shape="n"), ...],
        assumptions="n >= 3",
    )
    knl = pl.add_prefetch(spread(knl), "a", "i_inner")
    assert cuda(knl).count("__shared__") == 1
    for n in (3, 18, 40):
        a, b, c = vectors(n, 3)
        b[0] = b[-1] = c[0] = c[-1] = 5
        want_b, want_c = b.copy(), c.copy()
        want_b[1:-1], want_c[1:-1] = a[:-2], a[2:]
        check(knl, {"a": a, "b": b, "c": c}, {"b": want_b, "c": want_c})


def mixed() -> pl.LoopKernel:
    """A vector that is read inside the sum and outside of it."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i, k < n}",
        "out[i] = sum(k, a[k] * b[i, k]) + a[i]",
        [pl.GlobalArg("a, out", F, shape="n"), pl.GlobalArg("b", F, shape="n, n"), ...],
        name="mixed",
        assumptions="n >= 1",
    )
    return pl.split_iname(spread(knl, "i", 8), "k", 8)


def test_only_the_uses_inside_the_sweep_are_redirected() -> None:
    knl = pl.add_prefetch(mixed(), "a", "k_inner")
    for n in (1, 8, 9, 20):
        b = np.random.default_rng(n).integers(-3, 4, (n, n)).astype(F)
        (a,) = vectors(n, 1)
        check(knl, {"a": a, "b": b}, {"out": b @ a + a})


def test_an_array_written_before_is_fetched_after() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "a[i] = 2*a[i]   {id=x}\nb[j] = a[j]     {id=y, dep=x}",
        [pl.GlobalArg("a, b", F, shape="n"), ...],
        assumptions="n >= 1",
    )
    knl = pl.add_prefetch(pl.split_iname(knl, "j", 16), "a", "j_inner")
    for n in (1, 16, 20):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"a": 2 * a, "b": 2 * a})


def scan() -> pl.LoopKernel:
    knl = pl.make_kernel("{[i]: 1 <= i < n}", "a[i] = a[i-1] + 1", [pl.GlobalArg("a", F, shape="n"), ...], name="scan")
    return pl.split_iname(knl, "i", 16)


def gathered() -> pl.LoopKernel:
    data: list[Any] = [pl.GlobalArg("a, b", F, shape="n"), pl.GlobalArg("p", np.int32, shape="n"), ...]
    return pl.split_iname(pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[p[i]]", data, name="gathered"), "i", 16)


def once() -> pl.LoopKernel:
    return pl.split_iname(blur(), "i", 16)


Case = tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], pl.LoopKernel], str]
REFUSALS: dict[str, Case] = {
    "unknown_array": (matmul, lambda knl: pl.add_prefetch(knl, "aa", "i"), "unknown-array"),
    "unknown_iname": (matmul, lambda knl: pl.add_prefetch(knl, "a", "ii"), "unknown-iname"),
    "unknown_outer_iname": (once, lambda knl: pl.add_prefetch(knl, "a", fetch_outer_inames="x"), "unknown-iname"),
    "not_constant": (matmul, lambda knl: pl.add_prefetch(knl, "a", "i"), "footprint-not-constant"),
    "not_read": (once, lambda knl: pl.add_prefetch(knl, "out", "i_inner"), "not-used"),
    "not_around": (
        lambda: pl.add_prefetch(tiled(), "a", "k_inner", temporary_name="t", prefetch_insn_id="first"),
        lambda knl: pl.add_prefetch(knl, "a", "k_inner"),
        "sweep-unused",
    ),
    "not_affine": (gathered, lambda knl: pl.add_prefetch(knl, "a", "i_inner"), "not-affine"),
    "outer_missing": (
        once, lambda knl: pl.add_prefetch(knl, "a", "i_inner", fetch_outer_inames=""), "outer-missing"),
    "temporary_name_taken": (
        once, lambda knl: pl.add_prefetch(knl, "a", "i_inner", temporary_name="out"), "name-taken"),
    "temporary_reserved": (
        once, lambda knl: pl.add_prefetch(knl, "a", "i_inner", temporary_name="float"), "reserved-name"),
    "instruction_taken": (
        once, lambda knl: pl.add_prefetch(knl, "a", "i_inner", prefetch_insn_id="insn"), "name-taken"),
    "iname_reserved": (once, lambda knl: pl.add_prefetch(knl, "a", "i_inner", "for"), "reserved-name"),
    "iname_twice": (tiled, lambda knl: pl.add_prefetch(knl, "a", "i_inner, k_inner", "p, p"), "name-taken"),
    "too_many_inames": (once, lambda knl: pl.add_prefetch(knl, "a", "i_inner", "p, q"), "wrong-rank"),
    "no_such_space": (
        once, lambda knl: pl.add_prefetch(knl, "a", "i_inner", temporary_address_space="shared"), "bad-address-space"),
    "no_such_tag": (once, lambda knl: pl.add_prefetch(knl, "a", "i_inner", default_tag="l.9"), "bad-tag"),
    "axis_twice": (
        lambda: spread(blur()), lambda knl: pl.add_prefetch(knl, "a", "i_inner", default_tag="g.0"), "axis-twice"),
    "uses_apart": (mixed, lambda knl: pl.add_prefetch(knl, "a", "i_inner"), "uses-apart"),
    "recurrence": (scan, lambda knl: pl.add_prefetch(knl, "a", "i_inner"), "illegal-order"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = REFUSALS[case]
    golden(f"messages/add_prefetch_{case}.txt", refused(make(), call, code))


def test_private_memory_cannot_hold_what_others_fetch(golden: Golden) -> None:
    knl = pl.add_prefetch(spread(blur()), "a", "i_inner", temporary_address_space="private")
    text = refused(knl, pl.generate_code, "copy-incomplete", pl.VerificationError)
    golden("messages/schedule_private_prefetch.txt", text)


def test_shared_memory_has_an_end(golden: Golden) -> None:
    knl = pl.split_iname(matmul(), "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.add_prefetch(pl.split_iname(knl, "k", 4096), "a", "i_inner, k_inner")
    golden("messages/schedule_shared_too_large.txt",
           refused(knl, pl.generate_code, "shared-too-large", pl.VerificationError))  # fmt: skip


@pytest.mark.parametrize("rule", [False, True])
def test_an_atomic_update_keeps_its_own_read(rule: bool) -> None:
    text = ["f(p) := y[p]", f"y[i] = {'f(i)' if rule else 'y[i]'} + x[i] {{id=update, atomic}}"]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("x, y", F, shape="n"), ...], assumptions="n >= 1")
    call = pl.precompute if rule else pl.add_prefetch
    with pytest.raises(pl.TransformError) as caught:
        call(knl, "f" if rule else "y", ())
    assert caught.value.codes == ("staged-atomic",)
    assert "updates between the two would be lost" in str(caught.value)
    pl.add_prefetch(knl, "x", ())


@pytest.mark.parametrize("array", ["m", "p"])
def test_a_sum_that_shares_its_loop_with_a_written_one(array: str) -> None:
    """The copy belongs to the written loop, into which the terms of the sum go (rule 4), not to one beside it."""
    base = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        for i
            <> here = p[i]
            for j
                <> away = p[j] - here
            end
            a[i] = sum(j, m[j]*away)
        end
        """,
        [pl.GlobalArg("p, a, m", F, shape="n"), ...],
        name="pairs",
        assumptions="n >= 1",
    )
    knl = pl.split_iname(base, "i", 4, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 4)
    knl = pl.add_prefetch(knl, array, "j_inner")
    for n in (1, 4, 9):
        p, m = vectors(n, 2)
        check(knl, {"p": p, "m": m}, {"a": (m[None] * (p[None] - p[:, None])).sum(1)})
    same_after_replay(base, knl)


@pytest.mark.parametrize(("size", "sweep"), [
    ("4", "i"), ("4", "j"), ("4", "k"), ("4", "i, j"), ("4", "j, k"), ("4", "i, j, k"), ("n", "k"), ("n", "i, j, k"),
])  # fmt: skip
def test_elements_of_two_uses_are_fetched_within_their_array(size: str, sweep: str) -> None:
    """Of ``a[b, i, k]`` and ``a[b, k, j]`` a row is fetched: the hull of both had places from ``j - 3`` on."""
    base = pl.make_kernel(
        f"{{[b, i, j, k]: 0 <= b < n and 0 <= i, j, k < {size}}}", "c[b, i, j] = sum(k, a[b, i, k]*a[b, k, j])",
        [pl.GlobalArg("a, c", F, shape=f"n, {size}, {size}"), ...],
    )  # fmt: skip
    knl = pl.add_prefetch(base, "a", sweep, temporary_address_space="global" if size == "n" else "auto")
    shape = knl.temporaries["a_fetch"].shape
    assert shape is not None
    assert {*map(str, shape)} <= {"1", size}
    for n in (0, 1, 3):
        extent = n if size == "n" else 4
        a = np.random.default_rng(n).random((n, extent, extent)).astype(F)
        np.testing.assert_allclose(pl.compile(knl, target=pl.CTarget())(a=a, n=n).c, a @ a, rtol=1e-5)


def test_whole_axes_of_reads_by_different_inames_and_rules_that_keep_their_uses() -> None:
    data = [pl.GlobalArg("u, y", np.float64, shape="K, 4, 4"), pl.GlobalArg("D", np.float64, shape="4, 4"), ...]
    text = """
        ur(a, b) := sum(o, D[a, o]*u[e, o, b])
        y[e, i, j] = sum(m, D[m, i]*ur(m, j) + D[m, j]*ur(i, m))
        """
    knl = pl.make_kernel("{[e, i, j, m, o]: 0 <= e < K and 0 <= i, j, m, o < 4}", text, data)
    knl = pl.tag_inames(knl, "e:g.0, i:l.0, j:l.1").add_prefetch("D[:, :]", fetch_outer_inames="e")
    assert "D_fetch" in str(knl.substitutions["ur"])
    knl = knl.precompute("ur(m, j), ur(i, m)", "i, j, m")
    assert {*knl.evaluations} == {"D_fetch", "ur_value"}
    rng = np.random.default_rng(0)
    u, d = rng.integers(-4, 5, (2, 4, 4)).astype(float), rng.integers(-4, 5, (4, 4)).astype(float)
    ur = d @ u
    expected = d.T @ ur + ur @ d
    np.testing.assert_array_equal(pl.interpret(knl, u=u, D=d)["y"], expected)
    for wrong in ("ur(m, q)", "ur(m*m, j)", "ur(m)"):
        with pytest.raises(pl.TransformError, match="bad-value"):
            knl.precompute(wrong, "m")
