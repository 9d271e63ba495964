"""Copies of whole tiles, with zeros where there is nothing to copy, and the sums that need no edges then."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from examples import matmul_float64_mma, matmul_mma
from polyloop.dataflow.address_spaces import place
from polyloop.optimize.over_execution import Edges, at_edges
from polyloop.runtime.fibres import disagreement, fibre_library, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.schedule.build import prepared

DOMAIN = "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}"


def program(text: str = "c[i, j] = sum(k, a[i, k]*b[k, j])", domain: str = DOMAIN) -> pl.LoopKernel:
    return pl.make_kernel(
        domain,
        text,
        [
            pl.GlobalArg("a", np.float32, shape="m, p"),
            pl.GlobalArg("b", np.float32, shape="p, n"),
            pl.GlobalArg("c", np.float32, shape="m, n"),
            ...,
        ],
        name="product",
        assumptions="m >= 1 and n >= 1 and p >= 1",
    )


def tiled(knl: pl.LoopKernel, *, parts: bool = True, stages: int = 3) -> pl.LoopKernel:
    """Return *knl* with blocks of 8 by 8 elements, 2 by 2 a thread, and tiles that are copied asynchronously."""
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_iname="ib")
    knl = pl.split_iname(knl, "ib", 4, outer_iname="iu", inner_iname="it", outer_tag="unr", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_iname="jb")
    knl = pl.split_iname(knl, "jb", 4, outer_iname="ju", inner_iname="jt", outer_tag="unr", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 4, outer_iname="ko", inner_iname="ki")
    knl = pl.prioritize_loops(knl, "ko, ki, iu, ju")
    knl = pl.add_prefetch(knl, "a", "iu, it, ki")
    knl = pl.add_prefetch(knl, "b", "ju, jt, ki")
    for tile, axis in (("a_fetch", "iu"), ("b_fetch", "ju")) if parts else ():
        knl = pl.add_prefetch(
            knl, tile, compute_at="ki", storage_axes=axis, temporary_address_space="private",
            prefetch_insn_id=f"fetch_{tile[0]}_tile", temporary_name=f"{tile[0]}_part",
        )  # fmt: skip
    return pl.pipeline(knl, "ko", stages=stages, via="cp.async")


def edges(knl: pl.LoopKernel) -> Edges:
    return at_edges(place(prepared(knl)))


def cuda(knl: pl.LoopKernel, arch: str = "sm_80") -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows of odd length are stored element by element
        return pl.generate_code(knl, target=pl.CudaTarget(arch))


def agrees(code: Any, library: Any, arrays: dict[str, Any], wanted: Any, rtol: float = 1e-5) -> None:
    found = run_on_fibres(code, arrays, library=library)
    assert disagreement(found, rtol=1e-6, atol=1e-6) is None
    np.testing.assert_allclose(found["random"].c, wanted, rtol, rtol)


# {{{ products on threads


@pytest.mark.parametrize("parts", [False, True])
def test_every_size_agrees_with_numpy_in_any_order_of_threads(parts: bool) -> None:
    code = cuda(tiled(program(), parts=parts))
    library = fibre_library(code)
    rng = np.random.default_rng(1)
    for m in (1, 8, 9, 17):
        for n, p in ((1, 1), (9, 3), (8, 4), (6, 13)):
            a, b = rng.random((m, p), np.float32), rng.random((p, n), np.float32)
            agrees(code, library, {"a": a, "b": b}, a @ b)


def test_there_is_one_text_for_all_blocks_and_all_terms() -> None:
    text = cuda(tiled(program())).device_code
    body = text[text.index("__global__") :]
    assert " else " not in body
    assert body.count("for (int ko") == 1
    main = body[body.index("for (int ko") : body.index("cp_async_wait<0>")]
    assert "if (" not in main
    assert "cp_async_4_zfill" in main


def test_who_runs_for_whole_tiles() -> None:
    found = edges(tiled(program()))
    assert found.filled == {"fetch_a", "fetch_b", "arrival_a_fetch", "arrival_b_fetch"}
    assert found.unawaited == {"fetch_a", "fetch_b"}
    others = {"fetch_a_tile", "fetch_b_tile", "insn_init", "insn_update"}
    assert found.placement.phantoms == found.filled | others
    (proof,) = [proof for proof in pl.verify(tiled(program())).proofs if proof.subject == "phantoms"]
    assert proof.says.endswith(" have no readers, or add products of zeros")


def test_what_is_not_a_number_stays_where_it_is() -> None:
    a, b = np.ones((9, 5), np.float32), np.ones((5, 9), np.float32)
    a[8, 4] = np.inf
    b[:, 3] = np.nan
    code = cuda(tiled(program()))
    found = run_on_fibres(code, {"a": a, "b": b})["random"].c
    assert np.array_equal(np.isnan(found), np.isnan(a @ b))
    assert np.array_equal(np.isinf(found), np.isinf(a @ b))


def test_terms_that_are_missing_inside_of_a_matrix_are_no_zeros() -> None:
    knl = tiled(program(domain="{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p and k <= i}"))
    code = cuda(knl)
    a, b = np.ones((9, 9), np.float32), np.ones((9, 9), np.float32)
    b[4:] = np.inf
    found = run_on_fibres(code, {"a": a, "b": b})["random"].c
    np.testing.assert_array_equal(found, np.where(np.arange(9) < 4, np.arange(9) + 1, np.inf)[:, None] + np.zeros(9))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("c[i, j] = sum(k, exp(a[i, k])*exp(b[k, j]))", lambda a, b: np.exp(a) @ np.exp(b)),
        ("c[i, j] = sum(k, a[i, k]*b[k, j] + 1)", lambda a, b: a @ b + np.float32(5)),
        ("c[i, j] = max(k, a[i, k]*b[k, j])", lambda a, b: (a[:, :, None] * b).max(axis=1)),
        ("c[i, j] = sum(k, a[i, k]/b[k, j])", lambda a, b: a @ (1 / b)),
        ("c[i, j] = sum(k, (0 - a[i, k])*b[k, j]*2)", lambda a, b: -2 * a @ b),
        ("c[i, j] = 3 + sum(k, a[i, k]*b[k, j]*2)", lambda a, b: 3 + 2 * a @ b),
    ],
)
def test_terms_that_zeros_would_change_are_those_of_the_program(text: str, wanted: Any) -> None:
    rng = np.random.default_rng(2)
    a, b = -1 - rng.random((9, 5), np.float32), 1 + rng.random((5, 10), np.float32)
    code = cuda(tiled(program(text)))
    agrees(code, None, {"a": a, "b": b}, wanted(a, b))


def test_a_loop_around_the_pipelined_one_starts_no_copies_that_nobody_waits_for() -> None:
    knl = pl.make_kernel(
        "{[l, i, j, k]: 0 <= l < q and 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[l, i, j] = sum(k, a[l, i, k]*b[l, k, j])",
        [
            pl.GlobalArg("a", np.float32, shape="q, m, p"),
            pl.GlobalArg("b", np.float32, shape="q, p, n"),
            pl.GlobalArg("c", np.float32, shape="q, m, n"),
            ...,
        ],
        name="products",
        assumptions="q >= 1 and m >= 1 and n >= 1 and p >= 1",
    )
    knl = tiled(pl.prioritize_loops(knl, "l"), parts=False)
    assert not edges(knl).unawaited
    code = cuda(knl)
    library, rng = fibre_library(code), np.random.default_rng(3)
    for q, m, n, p in ((1, 1, 1, 1), (3, 9, 7, 5), (2, 8, 8, 8), (2, 3, 9, 13)):
        a, b = rng.random((q, m, p), np.float32), rng.random((q, p, n), np.float32)
        agrees(code, library, {"a": a, "b": b}, a @ b)


# }}}
# {{{ products on tensor cores


@pytest.mark.few(2)
@pytest.mark.parametrize("multiple", [1, 2, 4, 8])
def test_products_on_tensor_cores_take_any_size(multiple: int) -> None:
    code = cuda(matmul_mma.transformed(multiple))
    body = code.device_code[code.device_code.index("__global__") :]
    assert " else " not in body
    assert body.count("mma_m16n8k16_bf16(") == 1
    library, rng = fibre_library(code), np.random.default_rng(4)
    for m, n, p in ((1, 1, 1), (65, 3, 5), (63, 8, 4), (2, 1, 13), (64, 8, 8)):
        arrays = matmul_mma.inputs(rng, m, n * multiple, p * multiple)
        if p == 5:
            arrays["a"][3, -1], arrays["b"][0, 2] = np.inf, np.nan
        agrees(code, library, arrays, matmul_mma.expected(**arrays)["c"], 1e-4)


def test_products_of_doubles_on_tensor_cores_have_one_text() -> None:
    body = cuda(matmul_float64_mma.transformed(), "sm_90").device_code
    body = body[body.index("__global__") :]
    assert " else " not in body
    assert body.count("for (int ko") == 1


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("multiple", [1, 2, 4])
def test_the_texts_compile(multiple: int, arch: str) -> None:
    assert compile_cuda(cuda(matmul_mma.transformed(multiple), arch).device_code, arch).cubin


# }}}


def test_sums_that_share_a_place_with_others_are_those_of_the_program() -> None:
    """Rows follow one another in one variable: a row beyond the matrix would write where one of the program's is."""
    knl = pl.split_iname(program(), "i", 8, outer_tag="g.1", inner_iname="ib")
    knl = pl.split_iname(knl, "ib", 4, outer_iname="iu", inner_iname="it", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 4, outer_tag="g.0", inner_iname="jt", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 4, outer_iname="ko", inner_iname="ki").prioritize_loops("iu, ko, ki")
    knl = pl.add_prefetch(pl.add_prefetch(knl, "a", "it, ki"), "b", "jt, ki")
    assert not edges(pl.pipeline(knl, "ko", stages=2, via="cp.async")).placement.phantoms


def test_a_tile_of_another_type_is_filled_too() -> None:
    domain = "{[g, x, y, i, j, k]: 0 <= g and 0 <= x, y, i, k < 16 and 0 <= j < 8 and 16*g + x < m and 16*g + i < m}"
    knl = pl.make_kernel(
        domain,
        """
        for g
            for x, y
                <float16> tile[x, y] = a[16*g + x, y]  {id=fetch}
            end
            for i, j
                c[16*g + i, j] = sum(k, tile[i, k]*b[k, j])  {id=product}
            end
        end
        """,
        [
            pl.GlobalArg("a", np.float32, shape="m, 16"),
            pl.GlobalArg("b", np.float16, shape="16, 8"),
            pl.GlobalArg("c", np.float32, shape="m, 8"),
            ...,
        ],
        assumptions="m >= 1",
    )
    knl = pl.set_temporary_address_space(knl, "tile", "local").tag_inames("g:g.0")
    knl = pl.tensorize(knl, "id:product", "mma_m16n8k16_f16").tag_inames("y:l%16").split_iname("x", 2, inner_tag="l/16")
    knl = pl.add_prefetch(knl, "b", "j_lane, j_reg, k", default_tag="l.auto")
    assert edges(knl).filled == {"fetch", "fetch_b"}
    code, rng = cuda(knl), np.random.default_rng(2)
    library = fibre_library(code)
    b = rng.random((16, 8)).astype(np.float16)
    for m in (1, 19):
        a = rng.random((m, 16), np.float32)
        wanted = a.astype(np.float16).astype(np.float32) @ b.astype(np.float32)
        agrees(code, library, {"a": a, "b": b}, wanted)
