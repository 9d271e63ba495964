"""Wide loads and stores on a loop tagged ``vec``: where they are emitted, where not and why; NVRTC keeps them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from tests.generated import bare
from tests.transform.checking import check, cuda, vectors

F = np.float32
Golden = Callable[[str, str], None]
SIZES = (0, 1, 3, 4, 5, 8, 31, 64, 67)


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    """What is not vectorized is told; here that is looked at by itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "not-vectorized", pl.PolyloopWarning)
        yield


def kernel(text: str, *data: Any, domain: str = "{[i]: 0 <= i < n}", assume: str = "n >= 0") -> pl.LoopKernel:
    data = data or (pl.GlobalArg("x, y", F, shape="n"),)
    return pl.make_kernel(domain, text, [*data, ...], name="wide", assumptions=assume)


def vectorized(knl: pl.LoopKernel, lanes: int = 4, iname: str = "i") -> pl.LoopKernel:
    knl = pl.split_iname(knl, iname, lanes, inner_tag="vec")
    return pl.split_iname(knl, f"{iname}_outer", 8, outer_tag="g.0", inner_tag="l.0")


def notes(knl: pl.LoopKernel) -> list[str]:
    """Return why accesses are made lane by lane."""
    program = pl.generate_code(knl, target=pl.CudaTarget())
    return [f"{note.message}: {'; '.join((*note.notes, *note.hints))}" for _, note in program.notes]


# {{{ texts


def axpy() -> pl.LoopKernel:
    return kernel("y[i] = a*x[i] + y[i]", pl.GlobalArg("x, y", F, shape="n"), pl.ValueArg("a", F))


def test_axpy_loads_and_stores_vectors(golden: Golden) -> None:
    knl = vectorized(axpy())
    golden("golden/wide_axpy.cu", cuda(knl))
    assert not notes(knl)
    for n in SIZES:
        x, y = vectors(n, 2)
        check(knl, {"x": x, "y": y, "a": F(3)}, {"y": 3 * x + y})


def test_without_a_remainder_there_is_no_scalar_loop() -> None:
    knl = vectorized(pl.assume(axpy(), "n mod 4 = 0"))
    assert "else" not in cuda(knl)
    assert "for" not in bare(cuda(knl))
    for n in (0, 4, 8, 64):
        x, y = vectors(n, 2)
        check(knl, {"x": x, "y": y, "a": F(3)}, {"y": 3 * x + y})


def test_a_copy_is_one_line() -> None:
    text = cuda(vectorized(kernel("y[i] = x[i]")))
    assert "*(float4 *)&y[position] = *(const float4 *)&x[position];" in text


def test_rows_that_begin_anywhere_are_copied_in_one_piece() -> None:
    """Rows of 9 elements: vectors go across the ends of rows, and quotients cancel in their addresses."""
    data = [pl.GlobalArg("x, y", F, shape="n, 9")]
    knl = kernel("y[i, k] = x[i, k]", *data, domain="{[i, k]: 0 <= i < n and 0 <= k < 9}")
    knl = pl.split_iname(pl.join_inames(knl, "i, k", "f"), "f", 4, inner_tag="vec")
    text = cuda(pl.split_iname(knl, "f_outer", 8, outer_tag="g.0", inner_tag="l.0"))
    assert "*(float4 *)&y[position] = *(const float4 *)&x[position];" in text
    assert "/ 9" not in text
    for n in (0, 1, 4, 7):
        x = vectors(9 * n, 1)[0].reshape(n, 9)
        check(knl, {"x": x}, {"y": x})


def test_rows_with_a_gap_are_not_in_one_piece() -> None:
    data = [pl.GlobalArg("x", F, shape="n, 9", strides=(10, 1)), pl.GlobalArg("y", F, shape="n, 9")]
    knl = kernel("y[i, k] = x[i, k]", *data, domain="{[i, k]: 0 <= i < n and 0 <= k < 9}")
    knl = pl.split_iname(pl.join_inames(knl, "i, k", "f"), "f", 4, inner_tag="vec")
    text = cuda(pl.split_iname(knl, "f_outer", 8, outer_tag="g.0", inner_tag="l.0"))
    assert "(const float4 *)&x" not in text
    assert "(float4 *)&y" in text


def test_in_a_sequential_loop_full_vectors_come_first(golden: Golden) -> None:
    knl = pl.split_iname(kernel("<> t = 2*x[i]\ny[i] = t*t + x[i]"), "i", 4, inner_tag="vec")
    golden("golden/wide_loop.cu", cuda(knl))
    for n in SIZES:
        (x,) = vectors(n, 1)
        check(knl, {"x": x}, {"y": 4 * x * x + x})


def test_a_vector_is_loaded_once_for_several_statements() -> None:
    text = cuda(vectorized(kernel("<> t = 2*x[i]\n<> u = x[i]*t\ny[i] = u + x[i]")))
    assert text.count("*(const float4 *)&x[") == 1


def test_vectors_of_separate_loops_have_the_same_name() -> None:
    knl = kernel(
        "<> mean = sum(i, x[i])/n\n<> var = sum(j, (x[j] - mean)**2)/n\ny[k] = (x[k] - mean)/sqrt(var + 1)",
        domain="{[i, j, k]: 0 <= i, j, k < n}",
        assume="n >= 4 and n mod 4 = 0",
    )
    for iname in "ijk":
        knl = pl.split_iname(knl, iname, 4, inner_tag="vec")
    assert cuda(knl).count("const float4 x_v = *(const float4 *)&x[") == 3
    for n in (4, 12):
        (x,) = vectors(n, 1)
        check(knl, {"x": x}, {"y": (x - x.mean()) / np.sqrt(x.var() + 1)}, rtol=1e-6)


def test_a_register_tile_reads_vectors_of_shared_memory(golden: Golden) -> None:
    knl = product()
    golden("golden/wide_product.cu", cuda(pl.assume(knl, "n mod 16 = 0")))
    for n in (1, 15, 16, 17):
        a, b = np.random.default_rng(n).integers(-3, 4, (2, n, n)).astype(F)
        check(knl, {"a": a, "b": b}, {"c": a @ b})


def product() -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b, c", F, shape="n, n"), ...]
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}", "c[i, j] = sum(k, a[i, k]*b[k, j])", data, name="product", assumptions="n >= 1"
    )
    knl = pl.split_iname(pl.split_iname(knl, "i", 16, outer_tag="g.1"), "i_inner", 4, outer_tag="ilp", inner_tag="l.1")
    knl = pl.split_iname(pl.split_iname(knl, "j", 16, outer_tag="g.0"), "j_inner", 4, outer_tag="l.0", inner_tag="vec")
    knl = pl.split_iname(knl, "k", 8)
    knl = pl.add_prefetch(knl, "a", ["i_inner_outer", "i_inner_inner", "k_inner"])
    return pl.add_prefetch(knl, "b", ["k_inner", "j_inner_outer", "j_inner_inner"])


# }}}
# {{{ types


@pytest.mark.parametrize(
    ("dtype", "lanes", "ctype"),
    [
        ("float32", 2, "float2"),
        ("float32", 4, "float4"),
        ("float32", 8, "float32x8"),
        ("float64", 2, "double2"),
        ("float64", 4, "float64x4"),
        ("int32", 4, "int4"),
        ("uint32", 4, "uint4"),
        ("int64", 2, "longlong2"),
        ("int8", 4, "char4"),
        ("int8", 16, "int8x16"),
        ("uint16", 8, "uint16x8"),
        ("float16", 8, "float16x8"),
        ("float16", 2, "float16x2"),
        ("complex64", 2, "complex64x2"),
    ],
)
def test_each_type_has_its_vectors(dtype: str, lanes: int, ctype: str) -> None:
    knl = vectorized(kernel("y[i] = x[i] + x[i]", pl.GlobalArg("x, y", np.dtype(dtype), shape="n")), lanes)
    text = cuda(knl)
    assert f"const {ctype} x_v = *(const {ctype} *)&x[" in text
    assert f"*({ctype} *)&y[" in text
    assert not notes(knl)
    size = min(16, lanes * np.dtype(dtype).itemsize)
    assert pl.generate_code(knl).alignments == (("x", size), ("y", size))
    for n in (1, lanes, 3 * lanes + 1):
        x = np.random.default_rng(n).integers(0, 50, n).astype(dtype)
        check(knl, {"x": x}, {"y": x + x})


def test_vectors_of_bfloat16_are_16_bytes() -> None:
    knl = vectorized(kernel("y[i] = 2*x[i]", pl.GlobalArg("x, y", "bfloat16", shape="n")), 8)
    assert "struct __align__(16) bfloat16x8 { bfloat16 e[8]; };" in cuda(knl)


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("dtype", "lanes", "suffix", "count"),
    [
        ("float32", 4, "v4.f32", 1),
        ("float32", 8, "v4.f32", 2),
        ("float64", 2, "v2.f64", 1),
        ("bfloat16", 8, "v4.u32", 1),
    ],
)
def test_the_machine_code_moves_vectors(dtype: str, lanes: int, suffix: str, count: int, arch: str) -> None:
    knl = kernel("y[i] = x[i]*x[i]", pl.GlobalArg("x, y", dtype, shape="n"), assume=f"n >= 0 and n mod {lanes} = 0")
    ptx = compile_cuda(cuda(vectorized(knl, lanes)), arch).ptx
    loads = re.findall(r"ld\.global(?:\.nc)?\.(\S+)", ptx)
    assert loads == [suffix] * count
    assert re.findall(r"st\.global\.(\S+)", ptx) == [suffix] * count


@pytest.mark.nvrtc
def test_the_machine_code_reads_vectors_of_shared_memory() -> None:
    ptx = compile_cuda(cuda(pl.assume(product(), "n mod 16 = 0")), "sm_90").ptx
    assert "ld.shared.v4.f32" in ptx
    assert "st.global.v4.f32" in ptx


# }}}
# {{{ what is not vectorized, and why


@pytest.mark.parametrize(
    ("knl", "told"),
    [
        (
            lambda: kernel("y[i] = x[2*i]", pl.GlobalArg("x", F, shape="2*n"), pl.GlobalArg("y", F, shape="n")),
            "'x[2*(4*(8*bx + tx) + i_inner)]' in 'insn' is accessed lane by lane, not as a vector: "
            "from one lane to the next it is 2 elements, not one; "
            "let 'i_inner' be part of the subscript along the contiguous axis",
        ),
        (
            lambda: kernel("y[i] = x[i + 1]", pl.GlobalArg("x", F, shape="n + 1"), pl.GlobalArg("y", F, shape="n")),
            "'x[4*(8*bx + tx) + i_inner + 1]' in 'insn' is accessed lane by lane, not as a vector: "
            "its first lane is 1 beyond a multiple of 4 elements; "
            "shift or pad the array, so that vectors begin where rows do",
        ),
        (
            lambda: kernel("y[i] = x[3, i]", pl.GlobalArg("x", F, shape="4, n"), pl.GlobalArg("y", F, shape="n")),
            "'x[3, 4*(8*bx + tx) + i_inner]' in 'insn' is accessed lane by lane, not as a vector: "
            "3*n, a part of its address, is not known to be a multiple of 4; "
            'assume it, or pad the rows: pl.assume(knl, "n mod 4 = 0")',
        ),
        (
            lambda: kernel("y[i] = x[k[i]]", pl.GlobalArg("x, y", F, shape="n"), pl.GlobalArg("k", "int32", shape="n")),
            "'x[k[4*(8*bx + tx) + i_inner]]' in 'insn' is accessed lane by lane, not as a vector: "
            "its subscripts are not affine",
        ),
        (
            lambda: kernel("y[i] = if(i >= 4, x[i - 4], 0)"),
            "'x[4*(8*bx + tx) + i_inner - 4]' in 'insn' is accessed lane by lane, not as a vector: "
            "a condition decides whether it is read",
        ),
        (
            lambda: kernel(
                "y[i] = x[i]", pl.GlobalArg("x", F, shape="n", offset=pl.auto), pl.GlobalArg("y", F, shape="n")
            ),
            "'x[4*(8*bx + tx) + i_inner]' in 'insn' is accessed lane by lane, not as a vector: "
            "the offset x_offset, a part of its address, is not known to be a multiple of 4; "
            'assume it, or pad the rows: pl.assume(knl, "x_offset mod 4 = 0")',
        ),
        (
            lambda: kernel("y[i] = x[i]", pl.GlobalArg("x, y", np.complex128, shape="n")),
            "'x[4*(8*bx + tx) + i_inner]' in 'insn' is accessed lane by lane, not as a vector: "
            "an element has 16 bytes, and no access more than 16",
        ),
    ],
    ids=["stride", "shifted", "rows", "indirect", "condition", "offset", "complex128"],
)
def test_what_is_accessed_lane_by_lane_is_told(knl: Callable[[], pl.LoopKernel], told: str) -> None:
    made = vectorized(knl())
    assert notes(made)[0] == told


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("y[i] = 2*x[i] {id=insn, if=x[i] > 0}", "a condition on data may differ from lane to lane"),
        ("y[i] = max(y[i], x[i]) {id=insn, atomic}", "an atomic update is of a single element"),
        ("y[i] = x[i] {id=insn, if=i % 4 < 3}", "3 of its lanes run, and vectors have 2, 4, 8 or 16 elements"),
        ("y[i] = x[i] {id=insn, if=i % 3 == 0}", "which lanes run depends on a quotient or a union of domains"),
    ],
    ids=["condition", "atomic", "three", "every third"],
)
def test_a_statement_without_vectors_is_told(text: str, reason: str) -> None:
    knl = pl.split_iname(kernel(text), "i", 4, inner_tag="vec")
    said = "'insn' runs lane by lane, not on vectors: " + reason + "; tag the loop 'ilp' where that is meant"
    assert notes(knl) == [said]


def test_what_a_condition_keeps_is_read_from_memory_not_from_the_vector_in_the_making() -> None:
    knl = vectorized(kernel("y[i] = 2*x[i] if x[i] > 0 else y[i]"))
    assert "y_v.x = x_v.x > 0.0f ? 2.0f * x_v.x : y[position];" in cuda(knl)
    for n in SIZES:
        x, y = vectors(n, 2)
        x = x - F(0.5)
        check(knl, {"x": x, "y": y}, {"y": np.where(x > 0, 2 * x, y)})


def test_only_the_ends_of_rows_are_kept() -> None:
    text = "y[i, j] = 2*x[i, j] if j > 0 and j < n - 1 else y[i, j]"
    data = pl.GlobalArg("x, y", F, shape="n, n")
    knl = kernel(text, data, domain="{[i, j]: 0 <= i, j < n}", assume="n >= 4 and n mod 4 = 0")
    knl = pl.split_iname(pl.split_iname(knl, "j", 4, inner_tag="vec"), "j_outer", 8, outer_tag="g.0", inner_tag="l.0")
    for n in (4, 8, 36):
        x, y = vectors(n * n, 2)
        x, y = x.reshape(n, n), y.reshape(n, n)
        kept = 2 * x
        kept[:, 0], kept[:, -1] = y[:, 0], y[:, -1]
        check(knl, {"x": x, "y": y}, {"y": kept})


def tiled_transpose(read: str, *, is_padded: bool) -> pl.LoopKernel:
    data = pl.GlobalArg("a, b", F, shape="n, n")
    text = f"<> tile[r, c] = a[32*bi + r, 32*bj + c] {{id=fetch}}\nb[32*bj + r, 32*bi + c] = {read} {{id=put}}"
    domain = "{[bi, bj, r, c]: 0 <= bi, bj < n/32 and 0 <= r, c < 32}"
    knl = kernel(text, data, domain=domain, assume="n >= 32 and n mod 32 = 0")
    knl = pl.set_temporary_address_space(knl, "tile", "local")
    if is_padded:
        knl = pl.add_padding(knl, "tile", 0, 33 * 4)
    knl = pl.split_iname(knl, "c", 4, outer_tag="l.0", inner_tag="vec")
    return pl.tag_inames(knl, "r:l.1, bi:g.1, bj:g.0")


def test_a_tile_that_is_read_along_columns_is_meant_so() -> None:
    assert not notes(tiled_transpose("tile[c, r]", is_padded=False))
    assert not notes(tiled_transpose("tile[c, r]", is_padded=True))
    found = notes(tiled_transpose("tile[r, c]", is_padded=True))  # without the padding it would be a vector
    assert len(found) == 1


def test_the_warning_can_be_silenced_and_names_the_kernel() -> None:
    def shifted(**options: Any) -> pl.LoopKernel:
        data = [pl.GlobalArg("x", F, shape="n + 1"), pl.GlobalArg("y", F, shape="n"), ...]
        knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i + 1] {id=move}", data, name="shift", **options)
        return pl.split_iname(knl, "i", 4, inner_tag="vec")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pl.generate_code(shifted(silenced_warnings="not-vectorized(move)"))
        pl.generate_code(shifted(), target=pl.CTarget())
        assert not caught
        pl.generate_code(shifted())
    (warning,) = caught
    assert str(warning.message) == (
        "not-vectorized: generate_code on kernel 'shift': "
        "'x[4*i_outer + i_inner + 1]' in 'move' is accessed lane by lane, not as a vector\n"
        "  Note: its first lane is 1 beyond a multiple of 4 elements\n"
        "  Hint: shift or pad the array, so that vectors begin where rows do"
    )


Case: TypeAlias = tuple[dict[str, Any], dict[str, Any]]
Build: TypeAlias = Callable[[], pl.LoopKernel]
CASES: dict[str, tuple[Build, Callable[[int], Case]]] = {}


def case(make: Callable[[int], Case]) -> Callable[[Build], Build]:
    """Run the decorated kernel with the arguments, and for the outputs, that *make* gives for a size."""

    def enter(build: Build) -> Build:
        CASES[build.__name__] = (build, make)
        return build

    return enter


def _shifted(n: int) -> Case:
    (x,) = vectors(n + 2, 1)
    return {"x": x}, {"y": x[:-2] + x[1:-1] + x[2:]}


@case(_shifted)
def stencil() -> pl.LoopKernel:
    text = "y[i] = x[i] + x[i + 1] + x[i + 2]"
    return vectorized(kernel(text, pl.GlobalArg("x", F, shape="n + 2"), pl.GlobalArg("y", F, shape="n")))


def _guarded(n: int) -> Case:
    (x,) = vectors(n, 1)
    return {"x": x}, {"y": np.concatenate((np.zeros(min(n, 4), F), x[: max(0, n - 4)]))}


@case(_guarded)
def read_under_a_condition() -> pl.LoopKernel:
    return vectorized(kernel("y[i] = if(i >= 4, x[i - 4], 0)"))


def _in_place(n: int) -> Case:
    (x,) = vectors(n + 4, 1)
    return {"x": x}, {"x": np.concatenate((x[4:] + 1, x[n:]))}


@case(_in_place)
def moved_in_place() -> pl.LoopKernel:
    return pl.split_iname(kernel("x[i] = x[i + 4] + 1", pl.GlobalArg("x", F, shape="n + 4")), "i", 4, inner_tag="vec")


def _added_before(n: int) -> Case:
    x, y = vectors(n, 1)[0], vectors(n + 8, 1)[0]
    want = y.copy()
    want[3 : n + 3] += np.maximum(x, y[4 : n + 4])
    return {"x": x, "y": y}, {"y": want}


@case(_added_before)
def elements_of_a_vector_are_stored_where_they_lie() -> pl.LoopKernel:
    """``y[i + 4]`` is loaded as a vector, and stored lane by lane: an update of its elements is one in memory."""
    arrays = pl.GlobalArg("x", F, shape="n"), pl.GlobalArg("y", F, shape="n + 8")
    return pl.split_iname(kernel("y[i + 3] = y[i + 3] + max(x[i], y[i + 4])", *arrays), "i", 4, inner_tag="vec")


def _not_at_zero(n: int) -> Case:
    x, y = vectors(n + 3, 2)
    want = y.copy()
    want[3:] = 2 * x[3:]
    return {"x": x, "y": y}, {"y": want}


@case(_not_at_zero)
def begins_inside_a_vector() -> pl.LoopKernel:
    data = pl.GlobalArg("x, y", F, shape="n + 3")
    return vectorized(kernel("y[i] = 2*x[i]", data, domain="{[i]: 3 <= i < n + 3}"))


def _strided(n: int) -> Case:
    x, y = vectors(n, 2)
    want = y.copy()
    want[::3] = x[::3]
    return {"x": x, "y": y}, {"y": want}


@case(_strided)
def every_third() -> pl.LoopKernel:
    return vectorized(kernel("y[i] = x[i]", domain="{[i]: 0 <= i < n and i mod 3 = 0}"))


def _rows(n: int) -> Case:
    x = np.random.default_rng(n).integers(-4, 5, (3, n)).astype(F)
    return {"x": x}, {"y": x + x.sum(0)}


@case(_rows)
def sums_of_columns() -> pl.LoopKernel:
    knl = kernel(
        "<> s = sum(k, x[k, i])\ny[j, i] = x[j, i] + s",
        pl.GlobalArg("x, y", F, shape="3, n"),
        domain="{[i, j, k]: 0 <= i < n and 0 <= j, k < 3}",
    )
    return vectorized(knl)


def _dot(n: int) -> Case:
    x, y = vectors(n, 2)
    return {"x": x, "y": y}, {"s": (x * y).sum()}


@case(_dot)
def terms_of_a_sum() -> pl.LoopKernel:
    knl = kernel("s = sum(i, x[i]*y[i])", pl.GlobalArg("x, y", F, shape="n"), pl.GlobalArg("s", F, shape=()))
    return pl.split_iname(knl, "i", 4, inner_tag="vec")


def _chosen(n: int) -> Case:
    x, y = vectors(n, 2)
    return {"x": x, "y": y, "flag": np.ones(1, np.int32)}, {"y": 2 * x}


@case(_chosen)
def under_a_condition_of_all_lanes() -> pl.LoopKernel:
    data = (pl.GlobalArg("x, y", F, shape="n"), pl.GlobalArg("flag", np.int32, shape="1"))
    return vectorized(kernel("y[i] = 2*x[i] {if=flag[0] > 0}", *data))


@case(_chosen)
def under_a_condition_of_each_lane() -> pl.LoopKernel:
    data = (pl.GlobalArg("x, y", F, shape="n"), pl.GlobalArg("flag", np.int32, shape="1"))
    return vectorized(kernel("y[i] = 2*x[i] {if=flag[0] + x[i]*x[i] > 0}", *data))


def _plus_one(n: int) -> Case:
    (x,) = vectors(n, 1)
    return {"x": x}, {"y": x + 1}


@case(_plus_one)
def two_vectors_for_each_thread() -> pl.LoopKernel:
    knl = pl.split_iname(kernel("y[i] = x[i] + 1"), "i", 4, inner_tag="vec")
    return pl.split_iname(knl, "i_outer", 2, outer_tag="g.0", inner_tag="ilp")


@pytest.mark.few(5)
@pytest.mark.parametrize("name", sorted(CASES))
def test_vectors_and_single_elements_agree_with_numpy(name: str) -> None:
    build, make = CASES[name]
    knl = build()
    for n in (1, 3, 4, 5, 16, 33):
        check(knl, *make(n))


def test_no_vector_under_a_condition_that_lanes_may_differ_in() -> None:
    assert "float4" not in cuda(under_a_condition_of_each_lane())
    assert "float4" in cuda(under_a_condition_of_all_lanes())


# }}}
# {{{ alignment


@pytest.mark.parametrize("rows", [1, 2])
def test_vectors_of_loops_that_are_written_out_have_names_of_their_own(rows: int) -> None:
    knl = pl.make_kernel(
        [f"{{[{u}, {i}]: 0 <= {u} < {rows} and 0 <= {i} < 4}}" for u, i in (("u", "i"), ("v", "j"))],
        """
        for u, i
          y[u, i] = x[u, i] + 1 {id=first}
        end
        for v, j
          x[v, j] = 2 {dep=first}
        end
        """,
        [pl.GlobalArg("x, y", F, shape=(rows, 4)), ...],
    )
    knl = pl.tag_inames(knl, "i:vec, j:vec, u:unr, v:unr")
    ones = np.ones((rows, 4), F)
    check(knl, {"x": ones}, {"x": 2 * ones, "y": 2 * ones})


def test_slabs_of_numbers_are_no_loops() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < 6}",
        "for i\ny[i] = x[i] + i\n... gbarrier\nx[i] = 2*i\nend",
        [pl.GlobalArg("x, y", np.float64, shape=6), ...],
        seq_dependencies=True,
    )
    knl = pl.split_iname(pl.unchecked(knl, "one thread", claims="races"), "i", 4, inner_tag="vec", slabs=(1, 1))
    assert "i_outer" not in cuda(knl)
    check(knl, {"x": np.ones(6)}, {"x": 2.0 * np.arange(6), "y": 1.0 + np.arange(6)})


def test_arrays_must_begin_where_vectors_may() -> None:
    program = pl.generate_code(vectorized(axpy()))
    whole = np.zeros(17, F)
    begin = next(k for k in range(4) if whole[k:].__array_interface__["data"][0] % 16)
    with pytest.raises(pl.ArgumentError) as refused:
        run_on_fibres(program, {"x": whole[begin : begin + 8], "y": np.zeros(8, F), "a": F(1)})
    assert refused.value.codes == ("misaligned-argument",)
    assert "'x' does not begin at a multiple of 16 bytes" in str(refused.value)


def test_c_needs_no_alignment() -> None:
    knl = vectorized(axpy())
    assert pl.generate_code(knl, target=pl.CTarget()).alignments == ()
    y = np.zeros(9, F)
    run = pl.compile(knl, target=pl.CTarget())
    run(x=np.ones(9, F)[1:], y=y[1:], a=F(2))
    assert (y[1:] == 2).all()


# }}}
