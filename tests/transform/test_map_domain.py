from __future__ import annotations

from collections.abc import Callable, Iterable

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.nvrtc import compile_cuda
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.kernels import (
    F,
    blur,
    check_blur,
    check_matmul,
    check_normalise,
    check_triangle,
    matmul,
    normalise,
    sweep,
    triangle,
)

Golden = Callable[[str, str], None]
SKEW = "{[i, j] -> [i, j + i]}"


def wavefront() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 1 <= i, j < n}",
        "a[i, j] = a[i-1, j] + a[i, j-1] {id=update}",
        [pl.GlobalArg("a", np.int32, shape="n, n"), ...],
        name="wavefront",
        assumptions="n >= 1",
    )


def check_wavefront(knl: pl.LoopKernel, sizes: Iterable[int] = (1, 2, 5, 8, 9)) -> None:
    for n in sizes:
        a = np.random.default_rng(n).integers(-3, 4, (n, n)).astype(np.int32)
        want = a.copy()
        for i in range(1, n):
            for j in range(1, n):
                want[i, j] = want[i - 1, j] + want[i, j - 1]
        check(knl, {"a": a}, {"a": want})


def test_a_wavefront_runs_in_parallel_after_a_skew(golden: Golden) -> None:
    knl = pl.map_domain(wavefront(), "{[i, j] -> [t, i]: t = i + j}")
    check_wavefront(knl)
    assert "for (int t = 2;" in cuda(knl)
    knl = pl.split_iname(knl, "i", 4, inner_tag="l.0")
    check_wavefront(knl)
    text = cuda(knl)
    golden("golden/wavefront.cu", text)
    assert "__syncwarp();" in text
    same_after_replay(wavefront(), knl)


@pytest.mark.nvrtc
def test_nvrtc_takes_the_wavefront() -> None:
    knl = pl.split_iname(pl.map_domain(wavefront(), SKEW), "i", 4, inner_tag="l.0")
    for arch in ("sm_80", "sm_90"):
        compile_cuda(cuda(knl), arch=arch)


def test_the_new_inames_nest_as_the_map_lists_them() -> None:
    assert pl.map_domain(wavefront(), SKEW).instructions[0].inames == ("i", "j")
    assert pl.map_domain(wavefront(), "{[i, j] -> [j + i, i]}").instructions[0].inames == ("j", "i")
    assert pl.map_domain(wavefront(), "{[i, j] -> [s, i, j]: s = floor((i + j)/8)}").instructions[0].inames == (
        "s", "i", "j",
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        SKEW,
        "{[i, j] -> [i + j, j]}",
        "{[i, j] -> [i + 2*j, j]}",
        "{ [i, j] -> [i, j' = i + j] }",
        "{[i, j] -> [u, v]: u = i + j and v = i - j}",
        "{[i, j] -> [j, i]}",
        "{[i, j] -> [i - 1, j - 1]}",
        "{[i, j] -> [io, jo, i, j]: io = floor(i/4) and jo = floor(j/4)}",
        "{[i, j] -> [b, d, u, j]: u = i + j and b = floor(u/4) and d = floor(j/3)}",
        "{[i] -> [io, ii]: i = 4*io + ii and 0 <= ii < 4}",
        "[n] -> {[i, j] -> [n*0 + i, j]}",
        "{[i, j] -> [i, s]: s == j + i}",
    ],
)
def test_legal_maps_of_a_wavefront(text: str) -> None:
    check_wavefront(wavefront().map_domain(text))


def test_isl_maps_and_their_replay() -> None:
    knl = pl.map_domain(wavefront(), isl.BasicMap("{[i, j] -> [t, j]: t = i + j}"))
    check_wavefront(knl, (1, 4))
    same_after_replay(wavefront(), knl)
    check_wavefront(pl.map_domain(wavefront(), isl.Map("{[i, j] -> [i, j + i]}")), (1, 4))


def test_reversal_and_rotation() -> None:
    check_blur(pl.map_domain(blur(), "{[i] -> [k]: k = n - 1 - i}"))
    check_triangle(pl.map_domain(triangle(), "{[i, j] -> [i, i - j]}"))
    data = [pl.GlobalArg("a, b", F, shape="16"), ...]
    ring = pl.make_kernel("{[i]: 0 <= i < 16}", "b[i] = 2*a[i]", data, name="ring")
    knl = pl.map_domain(ring, "{[i] -> [k]: k = (i + 5) mod 16}")
    (a,) = vectors(16, 1)
    check(knl, {"a": a}, {"b": 2 * a})
    check(pl.tag_inames(knl, "k:l.0"), {"a": a}, {"b": 2 * a})


def test_diamonds() -> None:
    """Tiles of a stencil in time whose edges are the two cones of dependence; tiles run in the order of their sums."""
    data = [pl.GlobalArg("a", np.int32, shape="t_end + 1, n"), ...]
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < t_end and 1 <= i < n - 1}",
        "a[t+1, i] = a[t, i-1] + a[t, i] + a[t, i+1]",
        data,
        name="diamonds",
        assumptions="n >= 1 and t_end >= 0",
    )
    base = knl
    knl = pl.map_domain(knl, "{[t, i] -> [u, v, t, i]: u = floor((t + i)/4) and v = floor((t - i)/4)}")
    knl = pl.map_domain(knl, "{[u, v] -> [u + v, v]}")
    for steps, n in ((0, 1), (1, 3), (3, 4), (5, 9), (8, 12)):
        a = np.random.default_rng(n).integers(-3, 4, (steps + 1, n)).astype(np.int32)
        want = a.copy()
        for t in range(steps):
            want[t + 1, 1:-1] = want[t, :-2] + want[t, 1:-1] + want[t, 2:]
        check(knl, {"a": a}, {"a": want})
    same_after_replay(base, knl)


def test_imperfect_nests_keep_what_they_have() -> None:
    check_normalise(pl.map_domain(normalise(), "{[i, j] -> [i, j + i]}"))
    check_normalise(pl.map_domain(normalise(), "{[i, k] -> [i, k - i]}"))
    check_normalise(pl.map_domain(normalise(), "{[i] -> [m - i]}"))


def test_a_reduction_adds_in_another_order(golden: Golden) -> None:
    knl = pl.map_domain(matmul(), "{[k] -> [n - 1 - k]}")
    check_matmul(knl)
    check_matmul(pl.map_domain(matmul(), "{[i, k] -> [i, s]: s = k + i}"))
    check_matmul(pl.map_domain(pl.split_iname(matmul(), "k", 4), "{[k_outer, k_inner] -> [k_outer, 3 - k_inner]}"))
    data = [pl.GlobalArg("a", F, shape="n"), ...]
    ordered = pl.make_kernel("{[k]: 0 <= k < n}", "s = reduce(ordered(sum), k, a[k])", data)
    text = refused(ordered, lambda knl: pl.map_domain(knl, "{[k] -> [n - k]}"), "illegal-order")
    golden("messages/map_domain_ordered.txt", text)


def test_rules_and_predicates_are_rewritten() -> None:
    knl = pl.make_kernel(
        ["{[i, j]: 0 <= i < n and 0 <= j <= i}", "{[k]: 0 <= k <= i}"],
        """
        row(x) := sum(k, a[x, k] + i)
        b[i, j] = row(j) + i   {if=j > 0 and c[i] > 0}
        """,
        [pl.GlobalArg("a", np.int32, shape="n, n"), pl.GlobalArg("b", np.int32, shape="n, n"),
         pl.GlobalArg("c", np.int32, shape="n"), ...],
        name="rows", assumptions="n >= 1",
    )  # fmt: skip
    for text in (SKEW, "{[i, j] -> [t, j]: t = n - i}", "{[i, j, k] -> [i, j, k + 3]}", "{[k] -> [r]: r = -k}"):
        changed = pl.map_domain(knl, text)
        for n in (1, 2, 7):
            rng = np.random.default_rng(n)
            a, b = rng.integers(-3, 4, (2, n, n)).astype(np.int32)
            c = rng.integers(-1, 2, n).astype(np.int32)
            want = b.copy()
            for i in range(n):
                for j in range(1, i + 1):
                    if c[i] > 0:
                        want[i, j] = (a[j, : i + 1] + i).sum() + i
            check(changed, {"a": a, "b": b, "c": c}, {"b": want})


def test_loops_in_several_domains_are_mapped_together() -> None:
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[k]: 0 <= k < i}", "{[j]: 0 <= j <= i}"],
        "c[i, j] = sum(k, a[i, k]) + j",
        [pl.GlobalArg("a, c", np.int32, shape="n, n"), ...],
        name="pieces",
        assumptions="n >= 1",
    )
    for text in ("{[i, j] -> [t, j]: t = i + j}", "{[j, i] -> [n - j, n - i]}", "{[k, i] -> [i + k, i]}"):
        changed = pl.map_domain(knl, text)
        for n in (1, 2, 6):
            a, c = np.random.default_rng(n).integers(-3, 4, (2, n, n)).astype(np.int32)
            want = c.copy()
            for i in range(n):
                want[i, : i + 1] = a[i, :i].sum() + np.arange(i + 1)
            check(changed, {"a": a, "c": c}, {"c": want})


def test_written_loops_keep_their_blocks() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        for i
            for j
                b[i, j] = 2*a[i, j]
            end
            for j
                c[i, j] = b[i, n - 1 - j]
            end
        end
        """,
        [pl.GlobalArg("a, b, c", F, shape="n, n"), ...],
        name="blocks",
        assumptions="n >= 1",
    )
    changed = pl.map_domain(knl, SKEW)
    assert cuda(changed).count("for (int i") == 1
    assert cuda(changed).count("for (int j") == 2
    for n in (1, 2, 5):
        (a,) = np.random.default_rng(n).integers(-3, 4, (1, n, n)).astype(F)
        check(changed, {"a": a}, {"b": 2 * a, "c": 2 * a[:, ::-1]})


def test_a_prefetch_stays_right_or_is_refused() -> None:
    knl = pl.split_iname(blur(), "i", 8, outer_tag="g.0")
    knl = pl.add_prefetch(knl, "a", ["i_inner"], default_tag=None)
    check_blur(pl.map_domain(knl, "{[i_inner] -> [7 - i_inner]}"))
    knl = pl.split_iname(matmul(), "k", 4)
    knl = pl.add_prefetch(knl, "a", ["k_inner"], default_tag=None)
    check_matmul(pl.map_domain(knl, "{[i, j] -> [i, j + i]}"))
    check_matmul(pl.map_domain(knl, "{[k_outer] -> [s]: s = n - k_outer}"))


def weighted() -> pl.LoopKernel:
    return pl.make_kernel(
        ["{[i, j]: 0 <= i, j < n}", "{[k]: 0 <= k < n}"],
        "f(x) := sum(k, a[x, k]*k)\nb[i, j] = f(i) + a[i, j]",
        [pl.GlobalArg("a, b", np.int32, shape="n, n"), ...],
        name="weighted",
        assumptions="n >= 1",
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("text", ["{[k] -> [z]: z = n - k}", "{[i] -> [n - i]}", "{[k] -> [ko, k]: ko = floor(k/2)}"])
def test_sums_computed_ahead_after_a_map(text: str) -> None:
    knl = pl.split_iname(pl.map_domain(weighted(), text), "i", 4)
    knl = pl.precompute(knl, "f", ["i_inner"], default_tag=None)
    swapped = pl.map_domain(knl, "{[j, i_inner] -> [j, i_inner]}")
    assert swapped.instructions[1].inames == ("i_outer", "j", "i_inner")
    for changed in (knl, swapped, pl.map_domain(knl, "{[i_inner] -> [3 - i_inner]}")):
        for n in (1, 4, 5):
            a = np.random.default_rng(n).integers(-3, 4, (n, n)).astype(np.int32)
            want = (a * np.arange(n)).sum(1)[:, None].astype(np.int32) + a
            check(changed, {"a": a}, {"b": want}, fibres=n == 5)


def test_sums_that_read_nothing_are_told_apart() -> None:
    text = "b[i] = sum(k, k) + 2*sum([k, l], k*l)"
    data = [pl.GlobalArg("b", np.int32, shape="n"), ...]
    knl = pl.make_kernel("{[i, k, l]: 0 <= i, k, l < n}", text, data, name="numbers", assumptions="n >= 1")
    for text in ("{[k] -> [n - k]}", "{[k] -> [ko, k]: ko = floor(k/4)}", "{[l] -> [n + l]}"):
        changed = pl.map_domain(knl, text)
        for n in (1, 5):
            total = n * (n - 1) // 2
            check(changed, {"n": n}, {"b": np.full(n, total + 2 * total * total, np.int32)})


def test_what_was_known_of_a_tile_is_forgotten() -> None:
    knl = pl.split_iname(blur(), "i", 8, slabs=(1, 1))
    changed = pl.map_domain(knl, "{[i_outer] -> [b]: b = n - i_outer}")
    assert not changed.slabs
    assert not changed.tile_inames
    check_blur(changed)
    refused(changed, lambda knl: pl.split_iname(knl, "i_outer", 2), "unknown-iname")


def csr() -> pl.LoopKernel:
    return pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[k]: first <= k < last}"],
        """
        <> first = start[i]
        <> last = start[i+1]
        y[i] = sum(k, v[k])
        """,
        [pl.GlobalArg("start", np.int32, shape="n + 1"), pl.GlobalArg("v", np.int32, shape="m"),
         pl.GlobalArg("y", np.int32, shape="n"), ...],
        name="csr", assumptions="n >= 1 and m >= 0",
    )  # fmt: skip


def test_the_loop_around_a_loop_with_bounds_from_data() -> None:
    knl = pl.map_domain(csr(), "{[i] -> [n - i]}")
    start = np.array([0, 2, 2, 5], dtype=np.int32)
    v = np.arange(5, dtype=np.int32)
    check(knl, {"start": start, "v": v}, {"y": np.array([1, 0, 9], dtype=np.int32)})


def two_nests() -> pl.LoopKernel:
    return pl.make_kernel(
        ["{[i, j]: 0 <= i < 16 and 0 <= j < 4}", "{[k]: 0 <= k < 100}"],
        "b[i, j] = 1 {id=both}\nc[k] = 2 {id=alone}",
        [pl.GlobalArg("b", F, shape="16, 4"), pl.GlobalArg("c", F, shape="100"), ...],
        name="two_nests",
    )


def test_inames_that_never_meet_are_mapped_each_for_itself() -> None:
    knl = pl.map_domain(two_nests(), "{[i, k] -> [15 - i, 99 - k]}")
    check(knl, {}, {"b": np.ones((16, 4), F), "c": np.full(100, 2, F)})
    refused(two_nests(), lambda knl: pl.map_domain(knl, "{[i, k] -> [i, s]: s = k and k < 50}"), "map-not-bijective")
    refused(two_nests(), lambda knl: pl.map_domain(knl, "{[i, k] -> [i + k, k]}"), "partly-mapped")


Case = tuple[Callable[[], pl.LoopKernel], str, str]
REFUSALS: dict[str, Case] = {
    "reversed": (wavefront, "{[i, j] -> [i, n - j]}", "illegal-order"),
    "interchange": (sweep, "{[i, j] -> [j, i]}", "illegal-order"),
    "not_injective": (wavefront, "{[i, j] -> [t]: t = i + j}", "map-not-bijective"),
    "merges_two": (wavefront, "{[i] -> [floor(i/2)]}", "map-not-bijective"),
    "makes_two": (wavefront, "{[i, j] -> [i, k]: j <= k <= j + 1}", "map-not-bijective"),
    "leaves_out": (wavefront, "{[i] -> [k]: k = i and i < 5}", "map-not-bijective"),
    "cases": (wavefront, "{[i] -> [k]: (i < 5 and k = i) or (i >= 5 and k = i + 1)}", "map-not-affine"),
    "no_map": (wavefront, "{[i, j]: i < j}", "bad-map"),
    "syntax": (wavefront, "{[i] -> [k]: k = i +}", "bad-map"),
    "unknown_name": (wavefront, "{[i] -> [k]: k = i + z}", "bad-map"),
    "no_parameter": (wavefront, "[j] -> {[i] -> [k]: k = i + j}", "bad-map"),
    "unknown_iname": (wavefront, "{[q] -> [k]: k = q}", "unknown-iname"),
    "iname_twice": (wavefront, "{[i, i] -> [k]: k = i}", "bad-map"),
    "name_taken": (wavefront, "{[i] -> [a]: a = i}", "name-taken"),
    "other_iname": (wavefront, "{[i] -> [j]: j = i}", "name-taken"),
    "one_name_twice": (wavefront, "{[i, j] -> [t, t]: t = i + j}", "name-taken"),
    "keyword": (wavefront, "{[i] -> [int]: int = i}", "reserved-name"),
    "partly": (normalise, "{[i, j] -> [t, j]: t = i + j}", "partly-mapped"),
    "tagged": (lambda: pl.tag_inames(blur(), "i:g.0"), "{[i] -> [k]: k = i + 1}", "iname-tagged"),
    "data": (csr, "{[k] -> [r]: r = -k}", "data-decides"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, text, code = REFUSALS[case]
    golden(f"messages/map_domain_{case}.txt", refused(make(), lambda knl: pl.map_domain(knl, text), code))


@pytest.mark.parametrize(
    ("case", "call"),
    [
        ("wavefront_rows", lambda knl: pl.tag_inames(knl, "i:l.0")),
        ("wavefront_columns", lambda knl: pl.tag_inames(knl, "j:l.0")),
        ("wavefront_split", lambda knl: pl.split_iname(knl, "i", 4, inner_tag="l.0")),
    ],
)
def test_a_refused_parallel_loop_names_the_skew_that_helps(
    case: str, call: Callable[[pl.LoopKernel], pl.LoopKernel], golden: Golden
) -> None:
    text = refused(wavefront(), call, "illegal-parallel")
    golden(f"messages/map_domain_{case}.txt", text)
    (hint,) = (line for line in text.splitlines() if "skew first" in line)
    skewed = eval(hint.partition("skew first: ")[2], {"pl": pl, "knl": pl.fix_parameters(wavefront(), n=6)})
    check_wavefront(call(skewed), (6,))


def test_a_skew_by_a_loop_of_any_order_is_no_advice() -> None:
    # Alignments of many pairs: 'p + i' would make 'i' parallel too, by running each pair one step after the one before.
    knl = pl.make_kernel(
        "{[p, i, j]: 0 <= p < 8 and 0 <= i, j < n}",
        "h[p, i + 1, j + 1] = max(h[p, i, j], h[p, i, j + 1] - 1, h[p, i + 1, j] - 1)",
        [pl.GlobalArg("h", np.int32, shape="8, n + 1, n + 1"), ...],
    )
    text = refused(knl, lambda knl: pl.tag_inames(knl, "i:l.0"), "illegal-parallel")
    assert 'Hint: skew first: pl.map_domain(knl, "{[i, j] -> [i, j + i]}")' in text


def test_a_refused_interchange_names_the_skew_that_helps() -> None:
    text = refused(sweep(), lambda knl: pl.prioritize_loops(knl, "j, i"), "illegal-order")
    assert f'Hint: skew first: pl.map_domain(knl, "{SKEW}")' in text
    knl = pl.prioritize_loops(pl.map_domain(sweep(), SKEW), "j, i")
    for n in (0, 1, 2, 5):
        a = np.random.default_rng(n).integers(-3, 4, (n, n)).astype(F)
        want = a.copy()
        for i in range(1, n):
            for j in range(n - 1):
                want[i, j] = want[i - 1, j + 1] + 1
        check(knl, {"a": a}, {"a": want})


def test_shift() -> None:
    for amount in (3, -2, "n", "2*n - 1", 0):
        knl = pl.shift(blur(), "i", amount)
        check_blur(knl)
        same_after_replay(blur(), knl)
    check_matmul(matmul().shift("k", "-n"))
    check_wavefront(pl.shift(wavefront(), "j", -1), (1, 4))


def test_reverse(golden: Golden) -> None:
    knl = pl.reverse(blur(), "i")
    check_blur(knl)
    same_after_replay(blur(), knl)
    assert "for (int i = 1; i < n - 1; ++i)" in cuda(knl)
    check_matmul(matmul().reverse("k"))
    check_triangle(pl.reverse(pl.reverse(triangle(), "j"), "i"))
    golden("messages/reverse_wavefront.txt", refused(wavefront(), lambda knl: pl.reverse(knl, "i"), "illegal-order"))
    refused(wavefront(), lambda knl: pl.reverse(knl, "z"), "unknown-iname")
    refused(wavefront(), lambda knl: pl.shift(knl, "z", 1), "unknown-iname")
    refused(wavefront(), lambda knl: pl.shift(knl, "i", "z"), "bad-map")
    refused(wavefront(), lambda knl: pl.shift(knl, "i", "j"), "bad-map")
