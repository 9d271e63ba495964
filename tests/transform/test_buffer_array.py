"""``buffer_array``: what is worked on in a buffer is what the program works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.nvrtc import compile_cuda
from tests.transform.checking import check, cuda, refused, same_after_replay
from tests.transform.kernels import F

Golden = Callable[[str, str], None]


def rows(text: str = "c[i] = c[i] + a[i, k]", **options: Any) -> pl.LoopKernel:
    """Sums of rows, added to what is there."""
    data = [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("c", F, shape="n"), ...]
    return pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < m}", text, data, name="rows", **options)


def spread(knl: pl.LoopKernel, length: int = 4) -> pl.LoopKernel:
    return pl.split_iname(knl, "i", length, outer_tag="g.0", inner_tag="l.0")


def check_rows(knl: pl.LoopKernel, sizes: Iterable[tuple[int, int]]) -> None:
    for n, m in sizes:
        rng = np.random.default_rng(n + 10 * m)
        a, c = (rng.integers(-4, 5, shape).astype(F) for shape in ((n, m), (n,)))
        check(knl, {"a": a, "c": c}, {"c": c + a.sum(1)}, fibres=n * m > 0)


def test_a_sum_in_a_register(golden: Golden) -> None:
    base = rows()
    knl = pl.buffer_array(spread(base), "c", "k")
    check_rows(knl, ((0, 1), (1, 0), (1, 1), (3, 2), (4, 5), (9, 4)))
    golden("golden/buffer_register.cu", cuda(knl))
    same_after_replay(base, knl)
    assert "# c_buf[]; loaded in i_outer, i_inner; stored in i_outer, i_inner" in str(knl.trace)
    assert cuda(spread(base).buffer_array("c", ["k"])) == cuda(knl)


def test_what_is_collected_is_added_back(golden: Golden) -> None:
    base = rows()
    knl = pl.buffer_array(spread(base), "c", "k", init_expression=0, store_expression="base + buffer")
    check_rows(knl, ((1, 1), (3, 2), (4, 5), (9, 4)))
    golden("golden/buffer_collected.cu", cuda(knl))
    same_after_replay(base, knl)
    product = pl.buffer_array(rows("c[i] = c[i] * a[i, k]"), "c", "k", "1", "buffer*base")
    a, c = np.arange(1, 7, dtype=F).reshape(2, 3), np.array([2, 3], F)
    check(product, {"a": a, "c": c}, {"c": c * a.prod(1)})


def test_a_tile_in_shared_memory() -> None:
    knl = spread(pl.split_iname(rows(), "k", 4))
    knl = pl.prioritize_loops(knl, "k_outer, k_inner")
    knl = pl.buffer_array(knl, "c", "i_inner, k_inner, k_outer", temporary_address_space="local")
    assert "__shared__ float c_buf[4]" in cuda(knl)
    check_rows(knl, ((1, 1), (3, 2), (4, 5), (9, 4)))


def test_a_buffer_inside_a_loop_is_stored_and_loaded_again() -> None:
    knl = pl.prioritize_loops(pl.split_iname(rows(), "k", 4), "k_outer, i, k_inner")
    knl = pl.buffer_array(knl, "c", "k_inner")
    check_rows(knl, ((1, 1), (3, 2), (4, 5), (9, 4)))


def test_what_is_only_written_is_not_loaded(golden: Golden) -> None:
    data = [pl.GlobalArg("a, out", F, shape="n"), ...]
    base = pl.make_kernel(
        "{[i]: 1 <= i < n - 1}", "out[i] = a[i-1] + a[i+1]", data, name="halo", assumptions="n >= 3"
    )
    knl = pl.split_iname(base, "i", 8, outer_tag="g.0", inner_tag="l.0")
    knl = pl.add_prefetch(knl, "a", "i_inner")
    knl = pl.buffer_array(knl, "out", "i_inner", temporary_address_space="local")
    golden("golden/buffer_stencil.cu", cuda(knl))
    assert "init_out_buf" not in cuda(knl)
    for n in (3, 9, 10, 11, 20):
        a, out = np.arange(n, dtype=F), np.full(n, -1, F)
        want = out.copy()
        want[1:-1] = a[:-2] + a[2:]
        check(knl, {"a": a, "out": out}, {"out": want})
    same_after_replay(base, knl)


def test_what_is_set_first_is_not_loaded() -> None:
    data = [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("c", F, shape="n", is_input=False), ...]
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < m}",
        """
        for i
            c[i] = 0
            for k
                c[i] = c[i] + a[i, k] {id=add}
            end
        end
        """,
        data,
        name="rows",
    )
    knl = pl.buffer_array(spread(knl), "c", "k")
    assert "init_c_buf" not in cuda(knl)
    for n, m in ((1, 1), (4, 3), (5, 4), (9, 2)):
        a = np.arange(n * m, dtype=F).reshape(n, m)
        check(knl, {"a": a}, {"c": a.sum(1)})


def test_what_a_condition_leaves_alone_is_loaded() -> None:
    shapes = ((F, "a", "n, m"), (F, "c", "n"), (np.int32, "f", "n"))
    data = [*(pl.GlobalArg(name, dtype, shape=shape) for dtype, name, shape in shapes), ...]
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < m}", "c[i] = a[i, k] {if=f[i] > k}", data, name="chosen"
    )
    knl = pl.buffer_array(spread(knl), "c", "k")
    assert "init_c_buf" in str(knl)
    for n, m in ((1, 1), (4, 3), (9, 2)):
        a, c, f = np.arange(n * m, dtype=F).reshape(n, m), np.full(n, -1, F), np.arange(n, dtype=np.int32) % 4
        want = np.where(f > 0, a[np.arange(n), np.minimum(np.maximum(f, 1), m) - 1], c)
        check(knl, {"a": a, "c": c, "f": f}, {"c": want})


def test_elements_apart_are_packed() -> None:
    knl = pl.split_iname(pl.split_iname(rows(), "i", 8, outer_tag="g.0"), "i_inner", 2, inner_tag="l.0")
    knl = pl.prioritize_loops(knl, "k, i_inner_outer")
    knl = pl.buffer_array(knl, "c", "k, i_inner_outer")
    assert "float c_buf[4];" in cuda(knl)
    check_rows(knl, ((1, 1), (7, 2), (8, 3), (17, 4)))


def test_an_element_and_its_neighbours() -> None:
    """A recurrence through a buffer: what one iteration writes the next one reads."""
    data = [pl.GlobalArg("x", F, shape="n"), ...]
    base = pl.make_kernel("{[i]: 1 <= i < n}", "x[i] = x[i] + x[i-1]", data, name="scan", assumptions="n >= 1")
    knl = pl.buffer_array(pl.split_iname(base, "i", 4), "x", "i_inner")
    for box in (False, True):
        knl = pl.buffer_array(pl.split_iname(base, "i", 4), "x", "i_inner", fetch_bounding_box=box)
        for n in (1, 2, 4, 5, 6, 13):
            x = np.arange(n, dtype=F)
            check(knl, {"x": x}, {"x": np.cumsum(x, dtype=F)})


def test_names_places_and_instructions_can_be_chosen() -> None:
    text = "c[i] = c[i] + a[i, k] {id=one}\nc[i] = 2*c[i] {id=two}"
    data = [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("c", F, shape="n"), ...]
    knl = pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < m}", text, data, name="rows")
    knl = pl.buffer_array(knl, "c", "k", within="id:one", temporary_name="s", temporary_address_space="private")
    assert "s = c[i];\n" in cuda(knl)
    for n, m in ((1, 1), (4, 3)):
        a, c = np.arange(n * m, dtype=F).reshape(n, m), np.arange(n, dtype=F)
        check(knl, {"a": a, "c": c}, {"c": 2 * (c + a.sum(1))})


def test_transforms_after_the_buffer() -> None:
    knl = pl.buffer_array(rows(), "c", "k")
    knl = pl.rename_iname(spread(pl.split_iname(knl, "k", 3)), "k_inner", "kk")
    check_rows(knl, ((1, 1), (3, 2), (4, 5), (9, 4)))
    fixed = pl.fix_parameters(knl, m=5)
    a, c = np.ones((6, 5), F), np.arange(6, dtype=F)
    check(fixed, {"a": a, "c": c}, {"c": c + 5})
    text = refused(knl, lambda k: pl.tag_inames(k, "kk:l.1"), "illegal-parallel")
    assert "'c'" in text


def test_a_temporary_of_the_program() -> None:
    """A tile in shared memory, of which each thread works on a part in registers."""
    knl = pl.make_kernel(
        "{[g, t, k]: 0 <= g < n and 0 <= t < 8 and 0 <= k < 5}",
        """
        s[t] = a[g, t] {inames=g:t}
        s[t] = s[t] * 2 + k {inames=g:t:k, id=work}
        out[g, t] = s[7 - t] {inames=g:t, dep=work}
        """,
        [pl.GlobalArg("a, out", F, shape="n, 8"), pl.TemporaryVariable("s", F, shape=(8,), address_space="local"), ...],
        name="parts",
    )
    knl = pl.buffer_array(pl.tag_inames(knl, "g:g.0, t:l.0"), "s", "k", within="id:work")
    for n in (1, 3):
        a = np.arange(8 * n, dtype=F).reshape(n, 8)
        want = a
        for k in range(5):
            want = want * 2 + k
        check(knl, {"a": a}, {"out": want[:, ::-1]})


CASES: dict[str, tuple[str, Callable[[pl.LoopKernel], object]]] = {
    "unknown": ("unknown-array", lambda k: pl.buffer_array(k, "d", "k")),
    "unknown_iname": ("unknown-iname", lambda k: pl.buffer_array(k, "c", "kk")),
    "only_read": ("not-used", lambda k: pl.buffer_array(k, "a", "k")),
    "whole_array": ("footprint-not-constant", lambda k: pl.buffer_array(k, "c", "i, k")),
    "initial_value_read": ("copy-incomplete", lambda k: pl.buffer_array(k, "c", "k", init_expression="0")),
    "never_stored": ("buffer-not-stored", lambda k: pl.buffer_array(k, "c", "k", store_expression=False)),
    "expression": ("buffer-expression", lambda k: pl.buffer_array(k, "c", "k", "1", "base + buffer")),
    "expression_name": ("buffer-expression", lambda k: pl.buffer_array(k, "c", "k", "n", None)),
    "temporary_taken": ("name-taken", lambda k: pl.buffer_array(k, "c", "k", temporary_name="a")),
    "no_such_space": ("bad-address-space", lambda k: pl.buffer_array(k, "c", "k", temporary_address_space="fast")),
    "no_such_tag": ("bad-tag", lambda k: pl.buffer_array(k, "c", "k", default_tag="x.0")),
}


@pytest.mark.parametrize("case", CASES)
def test_refusals(case: str, golden: Golden) -> None:
    code, call = CASES[case]
    golden(f"messages/buffer_array_{case}.txt", refused(rows(), call, code))


def refused_with(knl: pl.LoopKernel, code: str, *args: Any, **options: Any) -> str:
    return refused(knl, lambda k: pl.buffer_array(k, *args, **options), code)


def test_an_access_elsewhere_is_refused(golden: Golden) -> None:
    data = [pl.GlobalArg("c, d", F, shape="n"), pl.GlobalArg("a", F, shape="n, m"), ...]
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < m}",
        """
        for i
            for k
                c[i] = c[i] + a[i, k] {id=add}
                d[i] = c[i] {id=look}
            end
        end
        """,
        data,
        name="looked_at",
    )
    golden("messages/buffer_array_overwritten_early.txt", refused_with(knl, "illegal-order", "c", "k", within="id:add"))
    both = pl.buffer_array(knl, "c", "k")
    a, c = np.ones((3, 2), F), np.arange(3, dtype=F)
    check(both, {"a": a, "c": c}, {"c": c + 2, "d": c + 2})




def threads_and_neighbours() -> pl.LoopKernel:
    """Threads write elements of a row, and then read those of their neighbours."""
    text = """
        for g, k
            for i
                x[g, i] = x[g, i] + a[g, i, k] {id=one}
            end
            for j
                y[g, j] = y[g, j] + x[g, j+1] {id=two}
            end
        end
        """
    data = [pl.GlobalArg("x, y", F, shape="n, 9"), pl.GlobalArg("a", F, shape="n, 8, 3"), ...]
    domain = "{[g, i, j, k]: 0 <= g < n and 0 <= i, j < 8 and 0 <= k < 3}"
    return pl.make_kernel(domain, text, data, name="exchange")


def test_each_thread_with_a_copy_of_its_own_is_refused(golden: Golden) -> None:
    knl = pl.tag_inames(threads_and_neighbours(), "g:g.0, i:l.0, j:l.0")
    options = {"temporary_address_space": "private", "default_tag": "for"}
    text = refused_with(knl, "buffer-stale", "x", "i, j, k", **options)
    golden("messages/buffer_array_private_to_threads.txt", text)
    shared = pl.buffer_array(knl, "x", "i, j, k")
    for n in (1, 2):
        rng = np.random.default_rng(n)
        x, y, a = (rng.integers(-4, 5, shape).astype(F) for shape in ((n, 9), (n, 9), (n, 8, 3)))
        wx, wy = x.copy(), y.copy()
        for k in range(3):
            wx[:, :8] += a[:, :, k]
            wy[:, :8] += wx[:, 1:]
        check(shared, {"x": x, "y": y, "a": a}, {"x": wx, "y": wy})


def test_tiles_that_overlap_follow_each_other() -> None:
    """Each iteration has a buffer of three elements, of which the next one has one too."""
    text = "x[g, 2*i] = a[g, i] {id=one}\nx[g, 2*i + 1] = x[g, 2*i] {id=two}\nx[g, 2*i + 2] = x[g, 2*i + 1] {id=three}"
    data = [pl.GlobalArg("x", F, shape="n, 10"), pl.GlobalArg("a", F, shape="n, 4"), ...]
    knl = pl.make_kernel("{[g, i]: 0 <= g < n and 0 <= i < 4}", text, data, name="overlap")
    knl = pl.tag_inames(knl, "g:g.0")
    kept = pl.buffer_array(knl, "x", "i", temporary_address_space="local")
    a, x = np.arange(8, dtype=F).reshape(2, 4), np.full((2, 10), 9, F)
    want = x.copy()
    want[:, 0:8:2], want[:, 1:8:2], want[:, 8] = a, a, a[:, 3]
    check(kept, {"a": a, "x": x}, {"x": want})
    own = pl.buffer_array(knl, "x", "")
    check(own, {"a": a, "x": x}, {"x": want})
    refused(own, lambda k: pl.tag_inames(k, "i:l.0"), "illegal-parallel")


def test_an_update_by_all_threads_counts_once() -> None:
    """The row sums have no thread iname: the first thread stores what each of them computed."""
    text = "c[g] = c[g] + a[g, k]\nd[g, i] = 2*a[g, i]"
    data = [pl.GlobalArg("a, d", F, shape="n, 4"), pl.GlobalArg("c", F, shape="n"), ...]
    knl = pl.make_kernel("{[g, i, k]: 0 <= g < n and 0 <= i, k < 4}", text, data, name="once")
    knl = pl.tag_inames(knl, "g:g.0, i:l.0")
    for options in ({}, {"init_expression": "0", "store_expression": "base + buffer"}):
        buffered = pl.buffer_array(knl, "c", "k", **options)  # type: ignore[arg-type] # mypy takes each for any option
        a, c = np.arange(12, dtype=F).reshape(3, 4), np.arange(3, dtype=F)
        check(buffered, {"a": a, "c": c}, {"c": c + a.sum(1), "d": 2 * a})


def test_a_condition_that_looks_at_the_array_is_refused(golden: Golden) -> None:
    knl = rows("c[i] = c[i] + a[i, k] {if=c[i] < 10}")
    golden("messages/buffer_array_condition.txt", refused_with(knl, "buffer-stale", "c", "k"))


def test_what_is_not_an_addition_is_refused(golden: Golden) -> None:
    knl = rows("c[i] = c[i] + a[i, k]*c[i]")
    golden(
        "messages/buffer_array_not_an_update.txt",
        refused_with(knl, "buffer-not-update", "c", "k", "0", "base + buffer"),
    )


def test_atomic_updates_are_refused(golden: Golden) -> None:
    knl = rows("c[i] = c[i] + a[i, k] {atomic}")
    golden("messages/buffer_array_atomic.txt", refused_with(knl, "buffer-atomic", "c", "k"))


def test_copies_are_not_copied_again(golden: Golden) -> None:
    knl = pl.buffer_array(pl.split_iname(rows(), "k", 4), "c", "k_outer, k_inner")
    text = refused(knl, lambda k: pl.add_prefetch(k, "c_buf", "k_inner"), "already-staged")
    golden("messages/buffer_array_then_prefetch.txt", text)
    refused_with(knl, "already-staged", "c_buf", "k_inner", temporary_name="again")
    fetched = pl.add_prefetch(pl.split_iname(rows(), "i", 4), "c", "")
    refused_with(fetched, "already-staged", "c", "k")


def test_a_loop_of_the_buffer_around_another_is_refused(golden: Golden) -> None:
    knl = pl.prioritize_loops(rows(), "i, k")
    golden("messages/buffer_array_loops.txt", refused_with(knl, "priority-conflict", "c", "i"))


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc_compiles_it(arch: str) -> None:
    knl = pl.tag_inames(threads_and_neighbours(), "g:g.0, i:l.0, j:l.0")
    compile_cuda(cuda(pl.buffer_array(knl, "x", "i, j, k")), arch=arch)


def test_sums_of_another_type_are_no_updates_of_a_buffer() -> None:
    """Each partial sum is converted to the element's type as it is stored, and a buffer would convert the terms."""
    for dtype, fits in ((np.int32, False), (np.float16, False), (np.float32, True)):
        data = [pl.GlobalArg("s", dtype, shape="1"), pl.GlobalArg("m", np.float32, shape="2")]
        knl = pl.make_kernel("{[j]: 0 <= j < 2}", "s[0] = s[0] + m[j]", data)
        options: Any = {"init_expression": "0", "store_expression": "base + buffer"}
        if fits:
            pl.buffer_array(knl, "s", ["j"], **options)
            continue
        with pytest.raises(pl.TransformError) as error:
            pl.buffer_array(knl, "s", ["j"], **options)
        assert error.value.codes == ("buffer-not-update",)
