from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import polyloop as pl
from polyloop.expr.rewrite import substitute
from polyloop.runtime.fibres import agree, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.runtime.resources import resources
from tests.transform.checking import check, cuda, refused, same_after_replay

Golden = Callable[[str, str], None]
F = np.float32
WAYS = [("shared", 2), ("shared", 3), ("registers", 2), ("cp.async", 2), ("cp.async", 3), ("cp.async", 4)]
FEW = {("shared", 2), ("registers", 2), ("cp.async", 3)}
MANY = [pytest.param(*way, marks=() if way in FEW else pytest.mark.slow) for way in WAYS]


def written() -> pl.LoopKernel:
    """c = a b."""
    shapes = {"a": "m, l", "b": "l, n", "c": "m, n"}
    data = [*(pl.GlobalArg(name, F, shape=shape) for name, shape in shapes.items()), ...]
    domain = "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < l}"
    return pl.make_kernel(domain, "c[i, j] = sum(k, a[i, k]*b[k, j])", data, name="product")


def product(*, tile: int = 16, depth: int = 8, each: int = 2, prefetch: bool = True) -> pl.LoopKernel:
    """Tiles of a and b in shared memory, some elements of c a thread."""
    knl = written()
    for x, axis in (("i", 1), ("j", 0)):
        knl = pl.split_iname(knl, x, tile, outer_iname=f"{x}o", outer_tag=f"g.{axis}")
        knl = pl.split_iname(knl, f"{x}_inner", tile // each, outer_iname=f"{x}r", inner_iname=f"{x}t")
        knl = pl.tag_inames(knl, {f"{x}r": "ilp", f"{x}t": f"l.{axis}"})
    knl = pl.split_iname(knl, "k", depth, outer_iname="ko", inner_iname="ki")
    if prefetch:
        knl = pl.add_prefetch(knl, "a", ["ir", "it", "ki"])
        knl = pl.add_prefetch(knl, "b", ["jr", "jt", "ki"])
    return knl


def matrices(m: int, n: int, depth: int) -> tuple[dict[str, object], dict[str, object]]:
    rng = np.random.default_rng(m + 10 * n + 100 * depth)
    a = rng.integers(-3, 4, (m, depth)).astype(F)
    b = rng.integers(-3, 4, (depth, n)).astype(F)
    return {"a": a, "b": b}, {"c": a @ b}


def windows() -> pl.LoopKernel:
    """Each block goes over the columns of its rows; the tile with its halo is in shared memory."""
    data = [pl.GlobalArg("x", F, shape="n + 2, m"), pl.GlobalArg("y", F, shape="n, m"), ...]
    text = "y[i, j] = x[i, j] + 2*x[i+1, j] + x[i+2, j]"
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", text, data, name="windows")
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 4, inner_tag="l.0")
    return pl.add_prefetch(knl, "x", ["i_inner", "j_inner"])


def pipelined(via: str, stages: int, **given: int) -> pl.LoopKernel:
    return pl.pipeline(product(**given), "ko", stages, via=via)  # type: ignore[arg-type]


@pytest.mark.few(1)
@pytest.mark.parametrize(("via", "stages"), MANY)
def test_products_of_all_sizes(via: str, stages: int) -> None:
    knl = pipelined(via, stages)
    for size in [(16, 16, 1), (16, 16, 8), (16, 16, 16), (16, 16, 19), (16, 16, 32), (1, 17, 9), (33, 7, 41)]:
        given, expected = matrices(*size)
        check(knl, given, expected)


@pytest.mark.parametrize(("via", "stages"), MANY)
def test_windows_of_all_sizes(via: str, stages: int) -> None:
    knl = pl.pipeline(windows(), "j_outer", stages, via=via)
    for n, m in [(1, 1), (8, 0), (8, 3), (9, 4), (7, 5), (16, 17)]:
        x = np.random.default_rng(n).integers(-3, 4, (n + 2, m)).astype(F)
        check(knl, {"x": x}, {"y": x[:-2] + 2 * x[1:-1] + x[2:]})


@pytest.mark.parametrize(("via", "stages"), [("shared", 2), ("registers", 2), ("cp.async", 3)])
def test_text(golden: Golden, via: str, stages: int) -> None:
    knl = pl.assume(pipelined(via, stages), "m mod 16 = 0 and n mod 16 = 0 and l >= 1")
    golden(f"golden/pipeline_{via.replace('.', '_')}.cu", cuda(knl))
    golden(f"golden/pipeline_{via.replace('.', '_')}.txt", str(knl))


def steady(text: str) -> str:
    """Return the first loop of full tiles, or the only one."""
    found = re.search(r"^( *)for \(int ko = 0; ko < [^;]*; .*?\n\1\}", text, re.MULTILINE | re.DOTALL)
    assert found is not None, text
    return found[0]


@pytest.mark.parametrize(("via", "stages"), WAYS)
def test_one_barrier_and_no_condition_in_each_iteration(via: str, stages: int) -> None:
    """Blocks at the edge share the text of the others where tiles go through registers: their loads have conditions.

    Asynchronous copies have one text for the last terms too.
    """
    loop = steady(cuda(pipelined(via, stages)))
    assert loop.count("__syncthreads();") == 1
    lines = loop.splitlines()
    guarded = [after for line, after in pairwise(lines) if "if (" in line]
    assert all("_fetch_next[" in line for line in guarded)
    assert not guarded or via == "registers"
    if via == "cp.async":
        assert loop.count("cp_async_commit();") == 1
        assert f"cp_async_wait<{stages - 2}>();\n" in loop
        assert loop.index("cp_async_wait") < loop.index("__syncthreads") < loop.index("cp_async_4") < loop.index("acc")


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_groups_are_counted_where_a_loop_skips_iterations(stages: int) -> None:
    data = [pl.GlobalArg("x, y", F, shape="n, 32"), ...]
    domain = "{[k, i]: 0 <= k < n and k mod 2 = 0 and 0 <= i < 32}"
    knl = pl.make_kernel(domain, "y[k, i] = y[k, i] + 2*x[k, 31 - i]", data, name="even")
    knl = pl.add_prefetch(pl.prioritize_loops(pl.tag_inames(knl, "i:l.0"), "k"), "x", "i")
    knl = pl.pipeline(knl, "k", stages, via="cp.async")
    for n in (1, 2, 6, 9):
        x = np.random.default_rng(n).integers(-4, 5, (n, 32)).astype(F)
        even = np.zeros_like(x)
        even[::2] = 2 * x[::2, ::-1]
        check(knl, {"x": x, "y": 0 * x}, {"y": even})


@pytest.mark.parametrize("change", ["wait", "commit", "late", "barrier"])
def test_fibres_see_what_is_missing_of_asynchronous_copies(change: str) -> None:
    program = pl.generate_code(pipelined("cp.async", 3), target=pl.CudaTarget())
    text = {
        "wait": program.device_code.replace("cp_async_wait<1>();", ""),
        "commit": re.sub(r"^ *cp_async_commit\(\);\n", "", program.device_code, flags=re.MULTILINE),
        "late": program.device_code.replace("cp_async_wait<1>();", "cp_async_wait<2>();"),
        "barrier": program.device_code.replace("__syncthreads();", ""),
    }[change]
    given, expected = matrices(16, 16, 21)
    outputs = run_on_fibres(replace(program, device_code=text), given)
    assert not all(np.array_equal(output.c, expected["c"]) for output in outputs.values())  # type: ignore[arg-type]


def test_vectors_are_copied_as_such() -> None:
    data = [pl.GlobalArg("x, y", F, shape="n, 64"), ...]
    domain = "{[r, k, t, v]: 0 <= r < n and 0 <= k < 4 and 0 <= t < 4 and 0 <= v < 4}"
    knl = pl.make_kernel(domain, "y[r, 16*k + 4*t + v] = 2*x[r, 63 - (16*k + 4*t + v)]", data, name="flip")
    knl = pl.tag_inames(knl, "r:g.0, t:l.0")
    knl = pl.add_prefetch(knl, "x", "t, v", default_tag=None)
    knl = pl.split_iname(knl, "x_dim_1", 4, outer_tag="l.0", inner_tag="vec")
    knl = pl.pipeline(knl, "k", 3, via="cp.async")
    text = cuda(knl)
    assert "cp_async_16(&" in text
    assert "cp_async_4" not in text
    x = np.random.default_rng(0).random((3, 64), dtype=F)
    check(knl, {"x": x}, {"y": 2 * x[:, ::-1]})


def test_older_devices_copy_where_copies_would_arrive() -> None:
    text = pl.generate_code(pipelined("cp.async", 2), target=pl.CudaTarget("sm_75")).device_code
    assert "cp_async" not in text
    given, expected = matrices(9, 7, 13)
    outputs = run_on_fibres(pl.generate_code(pipelined("cp.async", 2), target=pl.CudaTarget("sm_75")), given)
    assert agree(outputs)
    np.testing.assert_array_equal(outputs["random"].c, expected["c"])


def test_one_of_two_producers() -> None:
    knl = pl.pipeline(product(), "ko", producers="b_fetch")
    assert knl.temporaries["a_fetch"].shape == (16, 8)
    assert knl.temporaries["b_fetch"].shape == (2, 8, 16)
    given, expected = matrices(9, 10, 11)
    check(knl, given, expected)
    assert str(pl.pipeline(product(), "ko", producers="fetch_b")) == str(knl)


def test_the_trace_says_what_was_chosen() -> None:
    knl = pl.pipeline(product(), "ko", via="registers")
    assert "# fetched ahead: a_fetch, b_fetch\nknl = pl.pipeline(knl, iname='ko', via='registers')" in str(knl.trace)
    same_after_replay(written(), knl)


@pytest.mark.slow
def test_later_splits_and_renamings() -> None:
    given, expected = matrices(9, 10, 37)
    for via, stages in WAYS:
        knl = pipelined(via, stages)
        check(pl.rename_iname(knl, "ko", "step"), given, expected)
        check(pl.split_iname(knl, "ko", stages), given, expected)


def test_chunks_of_a_global_temporary_are_not_shared() -> None:
    knl = pl.set_temporary_address_space(product(), "b_fetch", "global")
    text = refused(knl, lambda k: pl.pipeline(k, "ko", via="cp.async"), "copy-not-shared")
    assert "asynchronous copies go to shared memory, and 'b_fetch' is global" in text


REFUSALS: dict[str, tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], object], str]] = {
    "iname": (product, lambda k: pl.pipeline(k, "k_outer"), "unknown-iname"),
    "parallel": (product, lambda k: pl.pipeline(k, "jo"), "iname-tagged"),
    "stages": (product, lambda k: pl.pipeline(k, "ko", 1), "bad-stages"),
    "registers": (product, lambda k: pl.pipeline(k, "ko", 3, via="registers"), "bad-stages"),
    "one_place": (product, lambda k: pl.pipeline(k, "ko", 1, via="cp.async"), "bad-stages"),
    "way": (product, lambda k: pl.pipeline(k, "ko", via="cp_async"), "unknown-way"),
    "producer": (product, lambda k: pl.pipeline(k, "ko", producers="a_fetched"), "unknown-producer"),
    "nothing": (lambda: product(prefetch=False), lambda k: pl.pipeline(k, "ko"), "no-producer"),
    "elsewhere": (product, lambda k: pl.pipeline(k, "ki", producers="b_fetch"), "not-in-loop"),
    "often": (
        lambda: pl.add_prefetch(product(prefetch=False), "b", ["jr", "jt"]),
        lambda k: pl.pipeline(k, "ko", producers="b_fetch"),
        "filled-often",
    ),
    "window": (product, lambda k: pl.pipeline(k, "ko", window=1), "not-sliding"),
    "again": (lambda: pipelined("shared", 2), lambda k: pl.pipeline(k, "ko"), "no-producer"),
    "twice": (lambda: pipelined("cp.async", 2), lambda k: pl.pipeline(k, "ko", producers="a_fetch"), "already-staged"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = REFUSALS[case]
    golden(f"messages/pipeline_{case}.txt", refused(make(), call, code))


def recurrence() -> pl.LoopKernel:
    """Each step fetches what the step before has computed."""
    text = """
        for s
            for i
                t[i] = (x[s, i] + x[s, i+1]) / 2
            end
            for j
                x[s+1, j] = t[j]
            end
        end
        """
    data = [pl.GlobalArg("x", F, shape="n + 1, 65"), pl.TemporaryVariable("t", F, shape=64), ...]
    knl = pl.make_kernel("{[s, i, j]: 0 <= s < n and 0 <= i, j < 64}", text, data, name="smooth")
    knl = pl.tag_inames(knl, "i:l.0, j:l.0")
    return pl.add_prefetch(knl, "x", "i")


@pytest.mark.parametrize("via", ["shared", "registers", "cp.async"])
def test_what_an_iteration_computes_is_not_fetched_before(via: str, golden: Golden) -> None:
    with pytest.raises(pl.TransformError) as caught:
        pl.pipeline(recurrence(), "s", via=via)
    assert set(caught.value.codes) == {"illegal-order"}
    golden(f"messages/pipeline_recurrence_{via.replace('.', '_')}.txt", str(caught.value))


def test_computed_values_are_no_copies(golden: Golden) -> None:
    knl = pl.make_kernel("{[k, i]: 0 <= k < n and 0 <= i < 32}", "g(p, q) := 2*x[p, q]\ny[k, i] = g(k, 31 - i)",
                         [pl.GlobalArg("x, y", F, shape="n, 32"), ...], name="twice")  # fmt: skip
    knl = pl.precompute(pl.tag_inames(knl, "i:l.0"), "g", "i")
    text = refused(knl, lambda k: pl.pipeline(k, "k", via="cp.async"), "not-a-copy")
    golden("messages/pipeline_computed.txt", text)
    x = np.random.default_rng(1).random((5, 32), dtype=F)
    check(pl.pipeline(knl, "k", via="registers"), {"x": x}, {"y": 2 * x[:, ::-1]})


@pytest.mark.parametrize("via", ["shared", "registers"])
def test_what_producers_need_comes_with_them(via: str) -> None:
    """The rule's values are computed from fetched rows, both an iteration ahead."""
    data = [pl.GlobalArg("x, y", F, shape="n, 64"), ...]
    text = "g(p, q) := x[p, q] + 2*x[p, 63 - q]\ny[k, i] = g(k, 63 - i)"
    knl = pl.make_kernel("{[k, i]: 0 <= k < n and 0 <= i < 64}", text, data, name="twice")
    knl = pl.precompute(pl.tag_inames(knl, "i:l.0"), "g", "i")
    knl = pl.add_prefetch(knl, "x", "g_dim_1")
    assert {"x_fetch", "g_value"} <= knl.evaluations.keys()
    x = np.random.default_rng(2).integers(-4, 5, (5, 64)).astype(F)
    for producers in (None, "g_value", "x_fetch"):
        piped = pl.pipeline(knl, "k", producers=producers, via=via)
        check(piped, {"x": x}, {"y": 2 * x + x[:, ::-1]})


def rows(domain: str, text: str, shape: str, tags: str) -> pl.LoopKernel:
    """Rows of 32 elements, each read back to front."""
    data = [pl.GlobalArg("x", F, shape="n, 5, 32"), pl.GlobalArg("y", F, shape=shape), ...]
    knl = pl.make_kernel(domain, text, data, name="rows")
    return pl.add_prefetch(pl.tag_inames(pl.prioritize_loops(knl, "r, k"), tags), "x", "i")


@pytest.mark.few(1)
@pytest.mark.parametrize(("via", "stages"), MANY)
def test_loops_of_all_kinds(via: str, stages: int) -> None:
    """Inside another loop, unrolled, and with a first iteration that differs from block to block."""
    whole = "{[r, k, i]: 0 <= r < n and 0 <= k < 5 and 0 <= i < 32}"
    later = "{[r, k, i]: 0 <= r < n and r <= k < 5 and 0 <= i < 32}"
    x = np.random.default_rng(7).integers(-4, 5, (4, 5, 32)).astype(F)
    back = 2 * x[:, :, ::-1]
    for tags in ("i:l.0", "r:g.0, i:l.0, k:unr"):
        knl = rows(whole, "y[r, k, i] = 2*x[r, k, 31 - i]", "n, 5, 32", tags)
        knl = pl.pipeline(knl, "k", stages, via=via)
        check(knl, {"x": x}, {"y": back})
    sums = np.stack([back[r, r:].sum(0) for r in range(4)])
    knl = rows(later, "y[r, i] = sum(k, 2*x[r, k, 31 - i])", "n, 32", "r:g.0, i:l.0")
    knl = pl.pipeline(knl, "k", stages, via=via)
    check(knl, {"x": x}, {"y": sums})


@pytest.mark.parametrize("apart", [False, True])
def test_one_place_is_filled_anew_behind_its_uses(apart: bool) -> None:
    """Copies for the next row begin when this one is in registers, and have arrived when that one begins."""
    text = f"""
        for k
            <> row[i] = x[k, {"63 - i" if apart else "i"}]
            <> total = sum(j, row[j])
            y[k, i2] = row[i2]*total
        end
        """
    data = [pl.GlobalArg("x, y", F, shape="n, 64"), pl.TemporaryVariable("row", F, shape=64), ...]
    knl = pl.make_kernel("{[k, i, j, i2]: 0 <= k < n and 0 <= i, j, i2 < 64}", text, data, name="rows")
    knl = pl.tag_inames(knl, "i:l.0, i2:l.0, j:l.0")
    knl = pl.add_prefetch(knl, "x", "i", temporary_name="place", temporary_address_space="local")
    knl = pl.pipeline(knl, "k", 1, via="cp.async")
    assert knl.temporaries["place"].shape == (1, 64)
    x = np.random.default_rng(5).integers(-4, 5, (5, 64)).astype(F)
    check(knl, {"x": x}, {"y": (x[:, ::-1] if apart else x)*x.sum(1, keepdims=True)})
    body = cuda(knl)
    body = body[body.index("for (int k = 0") :]
    assert body.index("cp_async_wait<0>") < body.index("row") < body.index("cp_async_4(") < body.index("total")
    between = body[: body.index("cp_async_4(")].count("__syncthreads();")
    assert between == (2 if apart else 0), "other threads read what a thread copies, or none does"


def stencil() -> pl.LoopKernel:
    """Blocks go down through the planes."""
    data = [pl.GlobalArg("u", F, shape="m + 2, n + 2, n + 2"), pl.GlobalArg("v", F, shape="m, n, n"), ...]
    text = """
        v[k, i, j] = u[k, i+1, j+1] + u[k+2, i+1, j+1] + u[k+1, i, j+1] + u[k+1, i+2, j+1]
            + u[k+1, i+1, j] + u[k+1, i+1, j+2] - 6*u[k+1, i+1, j+1]
        """
    knl = pl.make_kernel("{[k, i, j]: 0 <= k < m and 0 <= i, j < n}", " ".join(text.split()), data, name="stencil")
    knl = pl.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    return pl.add_prefetch(pl.prioritize_loops(knl, "k"), "u", ["i_inner", "j_inner"])


@pytest.mark.few(2)
@pytest.mark.parametrize(("via", "stages"), [("shared", 1), *MANY])
def test_windows_slide(via: str, stages: int) -> None:
    """Each plane is fetched once."""
    knl = pl.pipeline(stencil(), "k", stages, via=via, window=0)
    assert knl.temporaries["u_fetch"].shape == (3 + stages - 1, 6, 18)
    for m, n in [(1, 1), (2, 17), (5, 16)]:
        u = np.random.default_rng(m).integers(-4, 5, (m + 2, n + 2, n + 2)).astype(F)
        c = slice(1, -1)
        near = u[:-2, c, c] + u[2:, c, c] + u[c, :-2, c] + u[c, 2:, c] + u[c, c, :-2] + u[c, c, 2:]
        check(knl, {"u": u}, {"v": near - 6 * u[c, c, c]})


def test_registers_belong_to_threads(golden: Golden) -> None:
    text = """
        for k
            for i
                y[k, i] = x[k, 31 - i]
            end
        end
        """
    knl = pl.make_kernel("{[k, i]: 0 <= k < n and 0 <= i < 32}", text,
                         [pl.GlobalArg("x, y", F, shape="n, 32"), ...], name="rows")  # fmt: skip
    knl = pl.add_prefetch(knl, "x", "i")
    text = refused(knl, lambda k: pl.pipeline(k, "k", via="registers"), "threads-unknown")
    golden("messages/pipeline_threads.txt", text)


def test_halves_of_a_copy_belong_together(golden: Golden) -> None:
    later: dict[str, Any] = {"ko": p.Sum((p.Variable("ko"), 1))}
    back: dict[str, Any] = {"a_dim_1": p.Sum((7, p.Product((-1, p.Variable("a_dim_1")))))}
    knl = pl.assume(pipelined("cp.async", 3), "l mod 8 = 0")
    start = knl.instruction("fetch_a")
    wrong = {
        "copy-not-started": replace(start, expression=substitute(start.expression, back)),
        "copy-on-its-way": replace(start, assignee=substitute(start.assignee, later)),
    }
    for code, other in wrong.items():
        changed = replace(knl, instructions=tuple(other if i is start else i for i in knl.instructions))
        golden(f"messages/{code}.txt", refused(changed, cuda, code, pl.VerificationError))


@pytest.mark.few(4)
@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("via", "stages"), WAYS)
def test_they_compile(via: str, stages: int, arch: str) -> None:
    program = pl.generate_code(pipelined(via, stages), target=pl.CudaTarget(arch))
    assert compile_cuda(program.device_code, arch).cubin


@pytest.mark.nvrtc
@pytest.mark.parametrize(("via", "stages"), [("registers", 2), ("cp.async", 3), ("cp.async", 4)])
def test_large_tiles_stay_in_registers(via: str, stages: int) -> None:
    program = pl.generate_code(pipelined(via, stages, tile=128, depth=16, each=8), target=pl.CudaTarget("sm_90"))
    (launch,) = program.launches
    assert (launch.dynamic_shared_bytes > 0) == (stages > 3)
    found = resources(compile_cuda(program.device_code, "sm_90").cubin, {launch.name: 256})[launch.name]
    assert found.local_bytes == 0


@pytest.mark.gpu
@pytest.mark.parametrize(("via", "stages"), WAYS)
@pytest.mark.parametrize("tile", [8, 128])
def test_products_on_a_gpu(via: str, stages: int, tile: int) -> None:
    given = {"tile": 128, "depth": 16, "each": 8} if tile == 128 else {}
    run = pl.compile(pipelined(via, stages, **given), target=pl.CudaTarget())
    for size in [(128, 128, 1), (128, 128, 16), (129, 257, 33), (256, 384, 512), (300, 200, 1000)]:
        arrays, expected = matrices(*size)
        for _ in range(3):
            np.testing.assert_array_equal(run(**arrays).c, expected["c"])


def queue() -> pl.LoopKernel:
    """Each thread goes down a column with the values of three planes."""
    data = [pl.GlobalArg("x", F, shape="n + 2, 40"), pl.GlobalArg("y", F, shape="n, 40"), ...]
    text = "y[k, i] = x[k, i] + 2*x[k+1, i] + x[k+2, i]"
    knl = pl.make_kernel("{[k, i]: 0 <= k < n and 0 <= i < 40}", text, data, name="columns", assumptions="n >= 1")
    knl = pl.prioritize_loops(pl.tag_inames(knl, "i:l.0"), "k")
    return pl.pipeline(pl.add_prefetch(knl, "x", [], default_tag=None), "k", stages=1, window=0)


@pytest.mark.parametrize(("length", "loop"), [(None, "k"), (2, "k_outer"), (4, "k_outer"), (3, None), (6, None)])
def test_a_queue_in_registers_is_unrolled_by_its_places(length: int | None, loop: str | None) -> None:
    knl = queue() if length is None else pl.split_iname(queue(), "k", length, inner_tag="unr")
    if loop is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cuda(knl)
        return
    with pytest.warns(pl.PolyloopWarning, match="queue-not-unrolled") as caught:
        cuda(knl)
    (told,) = caught
    assert f"the 3 places of 'x_fetch' are taken in turns by loop '{loop}'" in str(told.message)
    hint = f'pl.split_iname(knl, "{loop}", 3, inner_tag="unr")'
    assert hint in str(told.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cuda(pl.split_iname(knl, loop, 3, inner_tag="unr"))  # what the hint says
        pl.generate_code(knl, target=pl.CTarget())


def test_copies_whose_threads_are_yet_to_be_chosen_stay_shared() -> None:
    """The buffer was taken for a private one, and the program refused."""
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < 5 and 0 <= i < 4}",
        "y[t, i] = x[t, i] + x[t, 3 - i]",
        [pl.GlobalArg("x, y", np.float32, shape="5, 4")],
    )
    knl = pl.add_prefetch(knl, "x", "i", default_tag="l.auto")
    knl = pl.pipeline(pl.tag_inames(knl, "i:l.0"), "t")
    pl.verify(knl)
    assert "__shared__ float x_fetch[2]" in pl.generate_code(knl, target=pl.CudaTarget()).device_code
