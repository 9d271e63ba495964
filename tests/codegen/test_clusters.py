"""Clusters of blocks: the axis c.0, reductions over it, what is refused; CUDA C on fibres, NVRTC, a GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.program import GeneratedProgram
from polyloop.runtime.fibres import disagreement, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.target.cuda import with_one_launch
from tests.codegen.running import needs_compiler

F = np.float32
CUDA = pl.CudaTarget("sm_90a")
ROWS = "{[i, k]: 0 <= i < n and 0 <= k < m}"


def rows(text: str = "y[i] = sum(k, a[i, k])", dtype: Any = F, out: Any = None) -> pl.LoopKernel:
    data = [pl.GlobalArg("a", dtype, shape="n, m"), pl.GlobalArg("y", out, shape="n"), ...]
    return pl.make_kernel(ROWS, text, data, assumptions="n >= 1 and m >= 1", name="rows", silenced_warnings="*")


def by_cluster(knl: pl.LoopKernel, blocks: int, threads: int) -> pl.LoopKernel:
    """Return a kernel of rows with the terms of each divided among the threads of the blocks of a cluster."""
    knl = pl.split_iname(knl, "k", blocks*threads, outer_iname="step", inner_iname="k_in")
    return pl.split_iname(knl, "k_in", threads, outer_iname="c", inner_iname="t", outer_tag="c.0", inner_tag="l.0")


def text_of(knl: pl.LoopKernel) -> GeneratedProgram:
    return pl.generate_code(knl, target=CUDA)


def on_fibres(program: GeneratedProgram, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    outputs = run_on_fibres(program, arguments)
    assert disagreement(outputs) is None
    return dict(outputs["random"].items())


# {{{ reductions


def test_a_row_by_a_cluster() -> None:
    knl = by_cluster(pl.tag_inames(rows(), "i:g.0"), 4, 128)
    text = text_of(knl).device_code
    assert text[text.index("// The sum"):text.index("#if", text.index("// The sum"))] == """\
// The sum of x over the 512 threads of the cluster, on each of them; the whole cluster calls it.
static __device__ __forceinline__ float rows_cluster_sum_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    #pragma unroll
    for (int n = 1; n < 4; ++n)
        x += partial[n];
    if (threadIdx.x < 4)
        *(float *)in_block(&partial[4 + (blockIdx.x % 4)], threadIdx.x) = x;
    cluster_barrier();  // the part of each block is there
    x = partial[4];
    #pragma unroll
    for (int n = 1; n < 4; ++n)
        x += partial[4 + n];
    return x;
}
"""
    head = text.index("__launch_bounds__(128) rows(")
    assert text[:head].endswith('extern "C" __global__ void __cluster_dims__(4, 1, 1) ')
    assert text[text.index("{\n", head):] == """\
{
    cluster_arrive();
    const int bx = blockIdx.x / 4;
    const int rank = blockIdx.x % 4;
    const int tx = threadIdx.x;
    __shared__ float partial[8];
    float acc = 0.0f;
    for (int k = 128 * rank + tx; k < m; k += 512)
        acc += a[bx * m + k];
    cluster_wait();  // all blocks of the cluster have begun
    acc = rows_cluster_sum_float32(acc, partial);
    if (rank == 0 && tx == 0)
        y[bx] = acc;
}
"""


OPERATIONS: Mapping[str, tuple[str, Any]] = {
    "sum": ("y[i] = sum(k, a[i, k])", lambda a: a.sum(1)),
    "max": ("y[i] = max(k, a[i, k])", lambda a: a.max(1)),
    "argmin": ("<> v, <> at = argmin(k, a[i, k], k)\n y[i] = at", lambda a: a.argmin(1)),
    "shifted": (
        "<> top = max(k, a[i, k])\n y[i] = sum(k, a[i, k] - top)", lambda a: (a - a.max(1, keepdims=True)).sum(1)
    ),
    "any": ("y[i] = any(k, a[i, k] > 6)", lambda a: (a > 6).any(1)),
}
BLOCKS = {
    "c": (3, 0, 0), "c and a warp": (4, 32, 0), "c and less than a warp": (2, 6, 0), "c and a block": (8, 96, 0),
    "c and an axis, along another": (4, 8, 3), "c, along the threads": (2, 0, 5),
}  # fmt: skip


def divided(knl: pl.LoopKernel, blocks: int, across: int, along: int) -> pl.LoopKernel:
    """Return a kernel of rows by clusters: terms across so many threads, rows along others."""
    if across:
        knl = pl.split_iname(knl, "k", across, inner_iname="t", outer_iname="k_outer", inner_tag="l.0")
        knl = pl.split_iname(knl, "k_outer", blocks, inner_tag="c.0")
    else:
        knl = pl.split_iname(knl, "k", blocks, inner_tag="c.0")
    if not along:
        return pl.tag_inames(knl, "i:g.0")
    return pl.split_iname(knl, "i", along, outer_tag="g.0", inner_tag="l.1" if across else "l.0")


@needs_compiler
@pytest.mark.parametrize("shape", BLOCKS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_reductions_over_clusters(operation: str, shape: str) -> None:
    text, of_rows = OPERATIONS[operation]
    program = text_of(divided(rows(text, np.int32, np.int32), *BLOCKS[shape]))
    for n, m in ((1, 1), (7, 5), (4, 1000)):
        a = np.random.default_rng(m).integers(-9, 9, (n, m), np.int32)
        np.testing.assert_array_equal(on_fibres(program, {"a": a})["y"], of_rows(a))


@pytest.mark.nvrtc
@pytest.mark.parametrize("shape", BLOCKS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_reductions_over_clusters_compile(operation: str, shape: str) -> None:
    for dtype in (np.int32, np.float64):
        compile_cuda(text_of(divided(rows(OPERATIONS[operation][0], dtype), *BLOCKS[shape])).device_code, "sm_90a")


def pairs() -> pl.LoopKernel:
    """Return softmax scales by clusters: pairs of a maximum and a sum relative to it, which are combined together."""
    top = "max(a.top, b.top)"
    rest = f"a.rest*exp(a.top - {top}) + b.rest*exp(b.top - {top})"
    lse = pl.ReductionOperation("lse", (top, rest), neutral=("least", 0), fields=("top", "rest"))
    data = [pl.GlobalArg("x", np.float64, shape="n, m"), pl.GlobalArg("y", np.float64, shape="n"), ...]
    knl = pl.make_kernel(ROWS, "<> top, rest = lse(k, x[i, k], 1)\n y[i] = top + log(rest)", data, name="pairs",
                         assumptions="n >= 1 and m >= 1", reductions=[lse])
    return by_cluster(pl.tag_inames(knl, "i:g.0"), 4, 64)


@needs_compiler
def test_pairs_of_a_maximum_and_a_sum() -> None:
    program = text_of(pairs())
    x = np.random.default_rng(5).normal(0, 30, (3, 700))
    found = run_on_fibres(program, {"x": x})
    assert disagreement(found) is None
    np.testing.assert_allclose(found["random"]["y"], np.logaddexp.reduce(x, axis=1), rtol=1e-12)


@pytest.mark.nvrtc
def test_pairs_compile() -> None:
    compile_cuda(text_of(pairs()).device_code, "sm_90a")


def in_a_loop(text: str = "y[i] = sum(k, a[i, k])") -> pl.LoopKernel:
    """Return a kernel whose clusters add up many rows, one after the other, in the same places."""
    knl = pl.split_iname(rows(text, np.int32, np.int32), "i", 20, outer_tag="g.0")
    return by_cluster(knl, 4, 32)


@needs_compiler
def test_places_are_used_again_behind_a_barrier_of_the_cluster() -> None:
    program = text_of(in_a_loop())
    body = program.device_code[program.device_code.index('extern "C"'):]
    assert body.count("cluster_barrier();") == 2  # in full blocks of rows, and at their end
    a = np.random.default_rng(2).integers(-9, 9, (50, 131), np.int32)
    np.testing.assert_array_equal(on_fibres(program, {"a": a})["y"], a.sum(1))


@needs_compiler
def test_a_second_sum_is_the_barrier_between_two_uses_of_the_first() -> None:
    program = text_of(in_a_loop(OPERATIONS["shifted"][0]))
    a = np.random.default_rng(2).integers(-9, 9, (50, 131), np.int32)
    np.testing.assert_array_equal(on_fibres(program, {"a": a})["y"], OPERATIONS["shifted"][1](a))
    body = program.device_code[program.device_code.index('extern "C"'):]
    assert body.count("cluster_barrier();") == 0


def without(program: GeneratedProgram, text: str) -> GeneratedProgram:
    """Return *program* without a statement in the body of its function."""
    begin = program.device_code.index('extern "C"')
    head, body = program.device_code[:begin], program.device_code[begin:]
    assert text in body
    return replace(program, device_code=head + body.replace(text, ""))


@needs_compiler
def test_fibres_find_a_barrier_that_is_missing() -> None:
    a = np.random.default_rng(2).integers(-9, 9, (50, 131), np.int32)
    outputs = run_on_fibres(without(text_of(in_a_loop()), "cluster_barrier();"), {"a": a})
    assert any((found.y != a.sum(1)).any() for found in outputs.values())


@needs_compiler
def test_fibres_find_a_store_to_a_block_that_has_not_begun() -> None:
    program = text_of(by_cluster(pl.tag_inames(rows(), "i:g.0"), 4, 32))
    with pytest.raises(pl.VerificationError, match="barrier"):  # a second arrival without a wait
        run_on_fibres(without(program, "cluster_wait();"), {"a": np.ones((3, 131), F)})
    program = without(without(program, "cluster_wait();"), "cluster_arrive();")
    outputs = run_on_fibres(program, {"a": np.ones((3, 131), F)})
    assert any((found.y != 131).any() for found in outputs.values())


@needs_compiler
def test_fibres_find_a_barrier_that_a_block_does_not_reach() -> None:
    program = text_of(by_cluster(pl.tag_inames(rows(), "i:g.0"), 4, 32))
    body = program.device_code.replace("    cluster_wait();  //", "    if (rank == 2) return; cluster_wait();  //")
    with pytest.raises(pl.VerificationError, match="others never reach"):
        run_on_fibres(replace(program, device_code=body), {"a": np.ones((3, 131), F)})


@needs_compiler
def test_fibres_find_a_use_of_a_block_that_has_ended() -> None:
    program = text_of(by_cluster(pl.tag_inames(rows(), "i:g.0"), 4, 32))
    body = program.device_code.replace(
        "    if (rank == 0 && tx == 0)", "    acc += *(float *)in_block(partial, 3 - rank); if (rank == 0 && tx == 0)"
    )
    assert body != program.device_code
    with pytest.raises(pl.VerificationError, match="shared memory of one that has ended"):
        run_on_fibres(replace(program, device_code=body), {"a": np.ones((3, 131), F)})


# }}}
# {{{ blocks of a cluster without a reduction over them


@needs_compiler
@pytest.mark.parametrize("first", [0, 2])
def test_blocks_of_a_cluster_by_themselves(first: int) -> None:
    domain = f"{{[i, c, t]: 0 <= i < n and {first} <= c < {first + 3} and 0 <= t < 32}}"
    data = [pl.GlobalArg("a, b", F, shape=f"n, {first + 3}, 32"), pl.GlobalArg("d", F, shape="n"), ...]
    text = "b[i, c, t] = a[i, c, t] + c\n d[i] = 2*i"
    knl = pl.tag_inames(pl.make_kernel(domain, text, data), "i:g.0, c:c.0, t:l.0")
    program = text_of(knl)
    assert "__cluster_dims__(3, 1, 1)" in program.device_code
    assert "cluster_barrier" not in program.device_code
    a = np.random.default_rng(0).random((5, first + 3, 32), F)
    found = on_fibres(program, {"a": a, "b": np.zeros_like(a)})
    want = a + np.arange(first + 3, dtype=F)[:, None]
    np.testing.assert_array_equal(found["b"][:, first:], want[:, first:])
    np.testing.assert_array_equal(found["d"], 2*np.arange(5))


@needs_compiler
def test_a_launch_without_an_iname_on_the_cluster_has_none() -> None:
    data = [pl.GlobalArg("a, y, z", F, shape="n"), ...]
    text = "y[i] = sum(k, a[k])\n z[j] = y[n - 1 - j] {dep=*}"
    knl = pl.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", text, data, assumptions="n >= 1", name="two")
    knl = pl.tag_inames(pl.split_iname(knl, "k", 4, inner_tag="c.0"), "i:g.0, j:g.0")
    program = text_of(knl)
    assert re.findall(r"void ([^(]*\(.*?\)) ?__|void two_1", program.device_code)
    assert program.device_code.count("__cluster_dims__(4, 1, 1)") == 1
    a = np.arange(9, dtype=F)
    np.testing.assert_array_equal(on_fibres(program, {"a": a})["z"], np.full(9, 36, F))


@needs_compiler
def test_clusters_are_numbered_in_panels() -> None:
    data = [pl.GlobalArg("a", np.int32, shape="n, m, p"), pl.GlobalArg("y", np.int32, shape="n, m"), ...]
    text = "y[i, j] = sum(k, a[i, j, k])"
    knl = pl.make_kernel("{[i, j, k]: 0 <= i < n and 0 <= j < m and 0 <= k < p}", text, data, name="panels",
                         assumptions="n >= 1 and m >= 1 and p >= 1")
    knl = pl.split_iname(knl, "k", 4, inner_iname="c", inner_tag="c.0")
    knl = pl.order_blocks(pl.tag_inames(knl, "i:g.0, j:g.1"), "i", 3)
    a = np.random.default_rng(0).integers(-9, 9, (7, 5, 11), np.int32)
    np.testing.assert_array_equal(on_fibres(text_of(knl), {"a": a})["y"], a.sum(2))
    with pytest.raises(pl.CodegenError, match="cannot take turns: they are in clusters") as refused:
        text_of(pl.persist_blocks(knl, 4))
    assert refused.value.codes == ("bad-block-order",)
    with pytest.raises(pl.TransformError, match=r"'c' is tagged 'c\.0'"):
        pl.order_blocks(knl, "c", 2)


def test_explain_and_pictures_show_clusters() -> None:
    knl = in_a_loop()
    found = pl.explain(knl, {"n": 2000, "m": 4096}, "H100")
    assert (found.launches[0].cluster, found.launches[0].cluster_barriers) == (4, 41)
    assert "400 blocks of 32 threads in clusters of 4" in str(found)
    assert "a thread meets 41 barriers of its cluster" in str(found)
    shown = str(knl.loops)
    assert "clusters of 4 blocks" in shown
    assert "c.0: c  [blocks of a cluster]" in shown
    assert "== wait for the blocks of the cluster to begin" in shown
    assert "because of partial: insn -> insn in a later iteration of i_inner" in shown


def test_one_launch_of_all_has_no_clusters() -> None:
    with pytest.raises(pl.CodegenError, match="in clusters") as refused:
        pl.generate_code(in_a_loop(), target=with_one_launch(CUDA))
    assert refused.value.codes == ("unsupported-launches",)


# }}}
# {{{ refusals


def test_blocks_of_a_cluster_have_no_order() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 4}", "y[i] = y[i] + a[i, j]",
                         [pl.GlobalArg("a", F, shape="n, 4"), pl.GlobalArg("y", F, shape="n"), ...])
    with pytest.raises(pl.TransformError, match="both would run at the same time") as refused:
        pl.tag_inames(knl, "j:c.0")
    assert refused.value.codes == ("write-race",)


def test_a_cluster_has_a_constant_number_of_blocks() -> None:
    with pytest.raises(pl.PolyloopError, match="the number of its values is no constant") as refused:
        pl.tag_inames(rows(), "k:c.0")
    assert refused.value.codes == ("bad-cluster",)


def test_a_cluster_has_eight_blocks_at_most() -> None:
    with pytest.raises(pl.CodegenError, match="a cluster of 16 blocks is too large") as refused:
        text_of(by_cluster(pl.tag_inames(rows(), "i:g.0"), 16, 32))
    assert refused.value.codes == ("bad-cluster",)


@pytest.mark.parametrize("target", [pl.CudaTarget("sm_80"), pl.CTarget(), pl.OpenCLTarget(), pl.HipTarget()])
def test_targets_without_clusters(target: pl.Target) -> None:
    with pytest.raises(pl.CodegenError, match="has no clusters of blocks") as refused:
        pl.generate_code(by_cluster(pl.tag_inames(rows(), "i:g.0"), 4, 32), target=target)
    assert refused.value.codes == ("unsupported-device-function",)


def test_sums_in_order_are_not_divided() -> None:
    knl = pl.split_iname(rows("y[i] = reduce(ordered(sum), k, a[i, k])"), "k", 4, inner_iname="c")
    with pytest.raises(pl.TransformError, match=r"cannot be 'c\.0'") as refused:
        pl.tag_inames(knl, "c:c.0")
    assert refused.value.codes == ("parallel-reduction",)


def sums_of_some_rows(tag: str) -> pl.LoopKernel:
    """Return a kernel that adds up as many rows of a for each i as data says."""
    domain = ["{[i]: 0 <= i < 4}", "[many] -> {[j, k]: 0 <= j < many and 0 <= k < 64}"]
    data = [pl.GlobalArg("counts", np.int32, shape="4"), pl.GlobalArg("a", np.int32, shape="rows, 64"),
            pl.GlobalArg("y", np.int32, shape="4"), pl.TemporaryVariable("many", np.int32), ...]
    text = "for i\n many = counts[i]\n y[i] = sum(j, sum(k, a[j, k]))\n end"
    knl = pl.make_kernel(domain, text, data, silenced_warnings="*", name="some")
    return pl.tag_inames(knl, {"i": tag})


def test_blocks_of_a_cluster_meet_under_no_condition_on_data() -> None:
    knl = pl.split_iname(sums_of_some_rows("l.0"), "k", 4, inner_iname="c")
    with pytest.raises(pl.PolyloopError, match="among the threads of a cluster") as refused:
        text_of(pl.tag_inames(knl, "c:c.0"))
    assert refused.value.codes == ("divergent-reduction",)


@needs_compiler
def test_blocks_of_a_cluster_that_meet_nobody_else_may() -> None:
    program = text_of(pl.tag_inames(sums_of_some_rows("c.0"), "k:l.0"))
    a = np.random.default_rng(0).integers(-9, 9, (7, 64), np.int32)
    found = on_fibres(program, {"a": a, "counts": np.array([3, 7, 0, 1], np.int32)})
    np.testing.assert_array_equal(found["y"], [a[:count].sum() for count in (3, 7, 0, 1)])


# }}}
# {{{ on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("shape", BLOCKS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_reductions_over_clusters_on_a_gpu(operation: str, shape: str) -> None:
    text, of_rows = OPERATIONS[operation]
    run = pl.compile(divided(rows(text, np.int32, np.int32), *BLOCKS[shape]), target=CUDA)
    for n, m in ((1, 1), (7, 5), (400, 1000)):
        a = np.random.default_rng(m).integers(-9, 9, (n, m), np.int32)
        np.testing.assert_array_equal(run(a=a).y, of_rows(a))


@pytest.mark.gpu
def test_many_sums_one_after_the_other_on_a_gpu() -> None:
    a = np.random.default_rng(2).integers(-9, 9, (5000, 131), np.int32)
    for text in ("sum", "shifted"):
        run = pl.compile(in_a_loop(OPERATIONS[text][0]), target=CUDA)
        np.testing.assert_array_equal(run(a=a).y, OPERATIONS[text][1](a))


# }}}
