"""``write_once``: stores that caches need not keep."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.nvrtc import compile_cuda
from tests.transform.checking import check, cuda, refused

Golden = Callable[[str, str], None]

THREADS = pl.CTarget(openmp=True)


def triad(dtype: type[np.generic] = np.float32) -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b, c", dtype, shape="n")]
    return pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = b[i] + 3*c[i]", data, name="triad")


def in_lines(dtype: type[np.generic] = np.float32, lanes: int = 16) -> pl.LoopKernel:
    knl = pl.split_iname(triad(dtype), "i", 8 * lanes, outer_tag="g.0")
    return pl.write_once(pl.split_iname(knl, "i_inner", lanes, inner_tag="vec"), "a")


def c_text(knl: pl.LoopKernel) -> str:
    return pl.generate_code(knl, target=THREADS).device_code


def test_whole_vectors_are_stored_past_the_caches(golden: Golden) -> None:
    text = c_text(in_lines())
    golden("golden/write_once.c", text)
    assert text.count("store_past_caches(&a[") == 1
    assert "pl.write_once(knl, ary_names=['a'])" in str(in_lines().trace)


@pytest.mark.few(2)
@pytest.mark.parametrize(("dtype", "lanes"), [(np.float32, 16), (np.float64, 8), (np.int32, 4), (np.uint8, 16)])
def test_results_are_those_of_plain_stores_wherever_an_array_begins(dtype: type[np.generic], lanes: int) -> None:
    run = pl.compile(in_lines(dtype, lanes), target=THREADS)
    assert run.program.device_code.count("store_past_caches(&a[") == 1
    rng = np.random.default_rng(0)
    for n, start in ((0, 0), (1, 0), (1000, 0), (1000, 1), (4099, 4), (4099, 8)):
        b, c = rng.integers(0, 9, (2, n)).astype(dtype)
        whole = np.zeros(n + 32, dtype)
        assert np.array_equal(run(a=whole[start : start + n], b=b, c=c).a, b + 3 * c)
        assert not whole[:start].any()
        assert not whole[start + n :].any()


def test_rows_and_launches_in_loops_of_the_host() -> None:
    """Each launch reads what other threads stored in the one before."""
    knl = pl.make_kernel(
        "{[t, i, j, k, l]: 0 <= t < 5 and 0 <= i, k < n and 0 <= j, l < n}",
        """
        for t
            v[t, i, j] = u[n - 1 - i, j] + t {id=there}
            u[k, l] = 2*w[k, l] {id=back, dep=there}
        end
        """,
        [pl.GlobalArg("u, w", np.float64, shape="n, n"), pl.GlobalArg("v", np.float64, shape="5, n, n"), ...],
    )
    for rows, columns in (("i", "j"), ("k", "l")):
        knl = pl.split_iname(pl.split_iname(knl, rows, 2, outer_tag="g.0"), columns, 8, inner_tag="vec")
    knl = pl.write_once(knl, "v")
    text = c_text(knl)
    assert text.count("show_stores();") == 1  # and none for the launch that stores nothing so
    assert text.index("for (int t") < text.index("show_stores();")
    u, w = np.random.default_rng(1).random((2, 50, 50))
    wanted = np.array([(u if t == 0 else 2 * w)[::-1] + t for t in range(5)])
    assert np.array_equal(pl.compile(knl, target=THREADS)(u=u.copy(), w=w).v, wanted)


def test_a_launch_of_one_thread_ends_with_the_fence() -> None:
    knl = pl.write_once(pl.split_iname(triad(), "i", 16, inner_tag="vec"), "a")
    with pytest.warns(pl.PolyloopWarning, match="serial-launch"):
        lines = c_text(knl).rstrip().splitlines()
    assert lines[-2:] == ["    show_stores();", "}"]


def test_other_stores_are_said_to_be_plain(golden: Golden) -> None:
    texts = []
    narrow = pl.split_iname(triad(np.int16), "i", 64, outer_tag="g.0", inner_tag="l.0")
    for knl, target in (
        (pl.write_once(pl.split_iname(triad(), "i", 64, outer_tag="g.0"), "a"), THREADS),
        (in_lines(), pl.CTarget()),
        (pl.write_once(narrow, "a"), pl.CudaTarget()),
    ):
        with pytest.warns(pl.PolyloopWarning, match="plain-stores") as caught:
            program = pl.generate_code(knl, target=target)
        assert [note.code for _, note in program.notes] == ["plain-stores"]
        assert "by other means" in str(pl.verify(knl, target=target))
        texts.append(str(caught[0].message))
    golden("messages/plain_stores.txt", "\n".join(texts))


@pytest.mark.filterwarnings("ignore:plain-stores")
def test_cuda_stores_numbers_and_vectors_so() -> None:
    knl = pl.split_iname(triad(), "i", 16, outer_tag="g.0", inner_tag="l.0")
    text = cuda(pl.write_once(knl, "a"))
    assert "__stcs(&a[i], b[i] + 3.0f * c[i]);" in text
    b, c = np.random.default_rng(0).integers(0, 9, (2, 37)).astype(np.float32)
    check(pl.write_once(knl, "a"), {"b": b, "c": c}, {"a": b + 3 * c})
    assert "__stcs((float4 *)&a[" in cuda(_vectors())
    check(_vectors(), {"b": b[:36], "c": c[:36]}, {"a": (b + 3 * c)[:36]})


def _vectors() -> pl.LoopKernel:
    knl = pl.split_iname(triad(), "i", 4, inner_tag="vec")
    knl = pl.split_iname(knl, "i_outer", 4, outer_tag="g.0", inner_tag="l.0")
    return pl.write_once(pl.assume(knl, "n mod 4 = 0"), "a")


@pytest.mark.nvrtc
def test_nvrtc_takes_it() -> None:
    assert "st.global.cs.v4" in compile_cuda(cuda(_vectors()), "sm_90").ptx
    for dtype in (np.float32, np.float64, np.int32, np.uint64):
        knl = pl.split_iname(triad(dtype), "i", 16, outer_tag="g.0", inner_tag="l.0")
        assert "st.global.cs" in compile_cuda(cuda(pl.write_once(knl, "a")), "sm_90").ptx


@pytest.mark.gpu
def test_a_gpu_stores_vectors_so() -> None:
    b, c = np.random.default_rng(0).integers(0, 9, (2, 4096)).astype(np.float32)
    assert np.array_equal(pl.compile(_vectors())(b=b, c=c).a, b + 3 * c)


def test_what_is_used_again_is_refused(golden: Golden) -> None:
    data = [pl.GlobalArg("a, b, c, d, e, x", np.float32, shape="n"), pl.GlobalArg("at", np.int32, shape="n"), ...]
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j < n and 0 <= k < n - 1}",
        """
        <> t = 2*x[i]
        a[i] = t
        b[i] = b[i] + x[i]
        c[at[i]] = x[i]
        d[i] = x[i]*s {id=first}
        for i
            d[0] = x[i] {id=again, dep=first}
        end
        e[i] = x[i] {id=one}
        e[k] = 1 {id=two, dep=one}
        """,
        data, name="several")  # fmt: skip
    codes = dict.fromkeys("txbcde", "bad-write-once") | {"s": "unknown-array"}
    texts = [refused(knl, partial(pl.write_once, ary_names=name), code) for name, code in codes.items()]
    golden("messages/write_once.txt", "\n".join(texts))
    pl.write_once(knl, "a")


def test_arrays_that_become_one_stay_so_if_all_are() -> None:
    data = [pl.GlobalArg("a, b, y", np.float32, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = y[i]\nb[i] = 2*y[i]", data, name="both")
    for names, count in (("a", 0), ("a, b", 2)):
        joined = pl.concatenate_arrays(pl.write_once(knl, names), ["a", "b"], "ab")
        assert cuda(joined).count("__stcs(&ab[") == count
