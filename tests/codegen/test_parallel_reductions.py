"""Reductions over thread axes: every shape of block, every operation, every type, and loops around them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import fibre_library, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.testing.brute import judge
from tests.generated import bare, code_of

F = np.float32
ROWS = "{[i, k]: 0 <= i < n and 0 <= k < m}"


def rows(text: str = "y[i] = sum(k, a[i, k])", dtype: Any = F, out: Any = None) -> pl.LoopKernel:
    data = [pl.GlobalArg("a", dtype, shape="n, m"), pl.GlobalArg("y", out, shape="n")]
    return pl.make_kernel(ROWS, text, data, assumptions="n >= 1 and m >= 1", name="rows", silenced_warnings="*")


def results(kernels: Sequence[pl.LoopKernel], given: Sequence[dict[str, Any]]) -> Iterator[tuple[int, np.ndarray]]:
    """Yield what each kernel computes on fibres, in each order of the threads, and on the C target."""
    named = [replace(knl, name=f"k{number}") for number, knl in enumerate(kernels)]
    programs = [pl.generate_code(knl, target=pl.CudaTarget()) for knl in named]
    library = fibre_library(*programs, quick=True)
    for number, (program, arguments) in enumerate(zip(programs, given, strict=True)):
        for outputs in run_on_fibres(program, arguments, library=library).values():
            yield number, np.asarray(outputs["y"])
        yield number, np.asarray(pl.compile(kernels[number], target=pl.CTarget())(**arguments)["y"])


# {{{ the text


def test_a_row_by_a_block() -> None:
    knl = pl.split_iname(pl.tag_inames(rows(), "i:g.0"), "k", 128, inner_tag="l.0")
    assert code_of(pl.generate_code(knl, target=pl.CudaTarget()).device_code) == """\
// The sum of x over the 128 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float rows_block_sum_float32(float x, float *partial)
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
    return x;
}

extern "C" __global__ void __launch_bounds__(128) rows(
    const float *__restrict__ a,
    float *__restrict__ y,
    int n,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial[4];
    float acc = 0.0f;
    for (int k = tx; k < m; k += 128)
        acc += a[bx * m + k];
    acc = rows_block_sum_float32(acc, partial);
    if (tx == 0)
        y[bx] = acc;
}
"""


def test_a_row_by_a_warp_needs_no_shared_memory() -> None:
    knl = pl.split_iname(pl.split_iname(rows(), "i", 8, outer_tag="g.0", inner_tag="l.1"), "k", 32, inner_tag="l.0")
    assert pl.generate_code(knl, target=pl.CudaTarget()).device_code.split(" rows(")[1] == """
    const float *__restrict__ a,
    float *__restrict__ y,
    int n,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * bx + ty;
    float acc = 0.0f;
    if (i < n) {
        for (int k = tx; k < m; k += 32)
            acc += a[i * m + k];
    }
    acc = rows_warp_sum_float32(acc);
    if (tx == 0 && i < n)
        y[i] = acc;
}
"""


def test_the_threads_of_a_block_as_loops() -> None:
    knl = pl.split_iname(pl.tag_inames(rows(), "i:g.0"), "k", 128, inner_tag="l.0")
    text = pl.generate_code(knl, target=pl.CTarget()).device_code
    assert text[text.index("        float total") :] == """\
        float total = 0.0f;
        for (int tx = 0; tx < 128; ++tx)
            total += acc[tx];
        for (int tx = 0; tx < 128; ++tx)
            acc[tx] = total;
        y[bx] = acc[0];
    }
}
"""


def test_shared_memory_is_not_used_again_before_all_have_read_it() -> None:
    knl = pl.split_iname(rows(), "k", 64, inner_tag="l.0")
    assert "            y[i] = acc;\n        __syncthreads();\n" in bare(pl.generate_code(knl).device_code)
    two = rows("<> big = max(k, a[i, k])\ny[i] = sum(k, a[i, k] - big)")
    text = pl.generate_code(pl.split_iname(two, "k", 64, inner_tag="l.0")).device_code
    assert "__syncthreads" not in text[text.index('extern "C"') :], "each waits for the readers of the other's"
    assert "block barrier within" in str(pl.verify(pl.split_iname(two, "k", 64, inner_tag="l.0")))


def test_rows_in_registers_have_shared_memory_of_their_own() -> None:
    knl = pl.split_iname(pl.split_iname(rows(), "i", 4, outer_tag="g.0", inner_tag="ilp"), "k", 64, inner_tag="l.0")
    text = pl.generate_code(knl, target=pl.CudaTarget()).device_code
    assert "__shared__ float partial[4][2];" in text
    assert "            acc[i_inner] = rows_block_sum_float32(acc[i_inner], partial[i_inner]);\n" in text
    assert "__syncthreads" not in text[text.index('extern "C"') :]
    loop = pl.split_iname(pl.split_iname(rows(), "i", 4, inner_tag="ilp"), "k", 64, inner_tag="l.0")
    assert pl.generate_code(loop, target=pl.CudaTarget()).device_code.count("__syncthreads") == 3
    a = np.random.default_rng(0).random((7, 100), F)
    for _, y in results([knl, loop], [{"a": a}] * 2):
        assert np.allclose(y, a.sum(1), rtol=1e-5)


# }}}
# {{{ numbers


@pytest.mark.slow
def test_every_extent() -> None:
    extents = [*range(1, 41), 64, 96, 100, 256, 999, 1000, 1024]
    base = pl.tag_inames(rows(dtype=np.int64), "i:g.0")
    kernels = [pl.split_iname(base, "k", extent, inner_tag="l.0") for extent in extents]
    given = [{"a": np.random.default_rng(e).integers(0, 1 << 40, (2, 2 * e + 1))} for e in extents]
    for number, y in results(kernels, given):
        assert (y == given[number]["a"].sum(1)).all(), extents[number]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(32, 8), (8, 32), (4, 4, 4), (3, 5), (16, 2, 2), (33, 2), (2, 33), (1, 40), (6, 4)])
def test_every_shape_of_block(sizes: tuple[int, ...]) -> None:
    names = "pqr"[: len(sizes)]
    kernels, given, wanted = [], [], []
    for count in range(1, len(sizes) + 1):
        for over in itertools.combinations(names, count):
            left = [name for name in names if name not in over]
            extents = dict(zip(names, sizes, strict=True))
            domain = " and ".join(f"0 <= {name} < {size}" for name, size in extents.items())
            knl = pl.make_kernel(
                f"{{[{', '.join(names)}]: {domain}}}",
                f"y[{', '.join(left) or 0}] = sum(({', '.join(over)}), a[{', '.join(names)}])",
                [
                    pl.GlobalArg("a", np.int32, shape=sizes),
                    pl.GlobalArg("y", np.int32, shape=tuple(extents[name] for name in left) or (1,)),
                ],
            )
            kernels.append(pl.tag_inames(knl, {name: f"l.{axis}" for axis, name in enumerate(names)}))
            a = np.random.default_rng(count).integers(0, 1 << 20, sizes).astype(np.int32)
            given.append({"a": a})
            wanted.append(a.sum(tuple(names.index(name) for name in over)))
    for number, y in results(kernels, given):
        assert (y.reshape(np.shape(wanted[number])) == wanted[number]).all(), number


OPERATIONS = {
    **{f"sum {t}": ("sum(k, a[i, k])", t) for t in ("int8", "uint16", "int32", "uint64", "float16", "complex64")},
    **{f"{m} {t}": (f"{m}(k, a[i, k])", t) for m in ("min", "max") for t in ("int8", "uint32", "int64", "float32")},
    "product complex": ("product(k, a[i, k])", "complex128"),
    "product": ("product(k, a[i, k])", "float64"),
    "any": ("any(k, a[i, k] > 2)", "int32"),
    "all": ("all(k, a[i, k] < 5)", "int32"),
    "argmax": ("argmax(k, a[i, k], k).index", "float32"),
    "argmin": ("argmin(k, a[i, k], k).value", "int32"),
}


def _case(name: str) -> tuple[pl.LoopKernel, dict[str, Any]]:
    expression, dtype = OPERATIONS[name]
    rng = np.random.default_rng(len(name))
    a = rng.integers(0, 6, (3, 77)).astype(dtype)
    if "product" in name:
        a = (1 + 0.01 * rng.random((3, 77))).astype(dtype) * (1j if "complex" in name else 1)
    return rows(f"y[i] = {expression}", dtype), {"a": a}


@pytest.mark.slow
@pytest.mark.parametrize("threads", [64, 32, 20])
def test_every_operation(threads: int) -> None:
    kernels, given, wanted = [], [], []
    for name in OPERATIONS:
        knl, arguments = _case(name)
        wanted.append(pl.interpret(knl, **arguments)["y"])
        knl = pl.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.1")
        kernels.append(pl.split_iname(knl, "k", threads, inner_tag="l.0"))
        given.append(arguments)
    for number, y in results(kernels, given):
        assert np.allclose(y, wanted[number], rtol=1e-5), list(OPERATIONS)[number]


def test_operations_of_the_whole_block() -> None:
    kernels, given, wanted = [], [], []
    for name in ("any", "all", "argmax", "sum int32", "sum float16"):
        knl, arguments = _case(name)
        wanted.append(pl.interpret(knl, **arguments)["y"])
        kernels.append(pl.split_iname(pl.tag_inames(knl, "i:g.0"), "k", 64, inner_tag="l.0"))
        given.append(arguments)
    for number, y in results(kernels, given):
        assert np.allclose(y, wanted[number], rtol=1e-5), number


def test_softmax_by_a_block() -> None:
    knl = pl.make_kernel(
        "{[i, j, k, q]: 0 <= i < n and 0 <= j, k, q < m}",
        """
        for i
            <> big = max(k, a[i, k])
            <> total = sum(q, exp(a[i, q] - big))
            y[i, j] = exp(a[i, j] - big) / total
        end
        """,
        [pl.GlobalArg("a, y", F, shape="n, m")],
        assumptions="n >= 1 and m >= 1",
    )
    for iname in "jkq":
        knl = pl.split_iname(knl, iname, 32, inner_tag="l.0")
    kernels = [pl.tag_inames(knl, "i:g.0"), knl, pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.1")]
    a = np.random.default_rng(0).random((5, 70), F)
    for _, y in results(kernels, [{"a": a}] * len(kernels)):
        assert np.allclose(y, np.exp(a) / np.exp(a).sum(1)[:, None], rtol=1e-5)


def test_reductions_in_reductions() -> None:
    text = "y[i] = sum(k, a[i, k])*max(q, a[i, q]) + sum(k, a[i, k]*sum(j, a[i, j]))"
    data = [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("y", F, shape="n")]
    domain = "{[i, j, k, q]: 0 <= i < n and 0 <= j, k, q < m}"
    knl = pl.make_kernel(domain, text, data, assumptions="n >= 1 and m >= 1", silenced_warnings="*")
    for iname, tag in (("k", "l.0"), ("q", "l.0"), ("j", "l.1")):
        knl = pl.split_iname(knl, iname, 8, inner_tag=tag)
    assert not list(judge(knl, {"n": 1, "m": 9}, {}, most=10**5))
    a = np.random.default_rng(0).random((3, 21), F)
    for _, y in results([knl, pl.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.2")], [{"a": a}] * 2):
        assert np.allclose(y, a.sum(1) * a.max(1) + a.sum(1) ** 2, rtol=1e-5)


def test_threads_without_terms_by_a_remainder() -> None:
    domains = ["[n] -> {[i]: 0 <= i < n}", "[n] -> {[k]: 0 <= k < n and k mod 3 = 1}"]
    data = [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("y", F, shape="n")]
    knl = pl.split_iname(pl.make_kernel(domains, "y[i] = sum(k, a[i, k])", data), "k", 33, inner_tag="l.0")
    assert "for (int tx = 0; tx < 31; ++tx)" in pl.generate_code(knl, target=pl.CTarget()).device_code
    a = np.random.default_rng(0).random((50, 50), F)
    for _, y in results([knl], [{"a": a}]):
        assert np.allclose(y, a[:, 1::3].sum(1), rtol=1e-5)


def test_a_sum_on_the_threads_that_its_result_is_spread_over() -> None:
    data = [pl.GlobalArg("x, y", F, shape="n, m")]
    knl = pl.make_kernel("{[i, j, k]: 0 <= i < n and 0 <= j, k < m}", "y[i, j] = x[i, j]/sum(k, x[i, k])", data)
    with pytest.raises(pl.TransformError) as refusal:
        pl.split_iname(pl.split_iname(knl, "j", 32, inner_tag="l.0"), "k", 32, inner_tag="l.0")
    assert "or let the reduction be an instruction of its own" in str(refusal.value)


# }}}
# {{{ warps and lanes


CSR = """
    for i
        <> begin = first[i]
        <> count = first[i + 1] - begin
        y[i] = sum(j, a[begin + j])
    end
    """


def csr() -> pl.LoopKernel:
    return pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < count}"],
        CSR,
        [
            pl.GlobalArg("first", np.int32, shape="n + 1"),
            pl.GlobalArg("a", F, shape="entries"),
            pl.GlobalArg("y", F, shape="n"),
            ...,
        ],
        name="csr",
        assumptions="n >= 1",
    )


def test_a_warp_a_row() -> None:
    knl = pl.split_iname(csr(), "i", 8, outer_tag="g.0", inner_tag="w")
    knl = pl.split_iname(knl, "j", 32, inner_tag="lane")
    text = pl.generate_code(knl, target=pl.CudaTarget()).device_code
    assert "__launch_bounds__(256)" in text
    assert "acc = csr_warp_sum_float32(acc);" in text
    first = np.array([0, 3, 3, 80, 112, 200, 200, 201, 201, 240, 241], np.int32)
    a = np.random.default_rng(0).random(241, F)
    for _, y in results([knl], [{"first": first, "a": a}]):
        assert np.allclose(y, [a[b:e].sum() for b, e in itertools.pairwise(first)], rtol=1e-5)


@pytest.mark.parametrize(("lanes", "threads"), [(1, 1), (5, 8), (16, 16), (20, 32), (32, 32)])
def test_lanes_are_as_many_as_a_power_of_two(lanes: int, threads: int) -> None:
    knl = pl.split_iname(pl.tag_inames(rows(), "i:g.0"), "k", lanes, inner_tag="lane")
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert program.launches[0].block == (threads, 1, 1)
    assert "__shared__" not in program.device_code
    a = np.random.default_rng(lanes).random((2, 50), F)
    for _, y in results([knl], [{"a": a}]):
        assert np.allclose(y, a.sum(1), rtol=1e-5)


def test_warps_have_32_threads() -> None:
    knl = pl.split_iname(rows(), "i", 4, outer_tag="g.0", inner_tag="w")
    knl = pl.split_iname(knl, "k", 8, inner_tag="lane")
    assert pl.generate_code(knl, target=pl.CudaTarget()).launches[0].block == (32, 4, 1)
    alone = pl.split_iname(rows(), "i", 4, outer_tag="g.0", inner_tag="w")
    text = pl.generate_code(alone, target=pl.CudaTarget()).device_code
    assert "if (tx == 0" in text, "one thread of the warp stores"


def test_more_lanes_than_a_warp_has() -> None:
    with pytest.raises(pl.TransformError) as refusal:
        pl.split_iname(rows(), "k", 64, inner_tag="lane")
    assert [finding.code for finding in refusal.value.found] == ["too-many-lanes"]


# }}}
# {{{ brute force, and what is refused


@pytest.mark.parametrize("m", [1, 2, 3, 4, 7])
def test_each_term_once(m: int) -> None:
    knl = rows("<> big = max(k, a[i, k])\ny[i] = sum(k, a[i, k] - big)")
    knl = pl.split_iname(knl, "k", 3, inner_tag="l.0")
    for outer, inner in (("g.0", "l.1"), (None, "ilp"), (None, None)):
        tiled = pl.split_iname(knl, "i", 2, outer_tag=outer, inner_tag=inner)
        assert not list(judge(tiled, {"n": 3, "m": m}, {}))


@pytest.mark.few(1)
@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_nvrtc_compiles_them(arch: str) -> None:
    for name in OPERATIONS:
        for threads in (96, 32, 7):
            knl = pl.split_iname(pl.tag_inames(_case(name)[0], "i:g.0"), "k", threads, inner_tag="l.0")
            compile_cuda(pl.generate_code(knl, target=pl.CudaTarget(arch)).device_code, arch)


# }}}
