"""Boxes that the copy engine stores to an array (``buffer_array(.., default_tag="box")``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from examples import matmul_wgmma
from polyloop.errors import VerificationError
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda, resources
from tests.generated import bare, flat
from tests.transform.test_tma import ANY, F4, PLAIN, Golden, boxed, is_wrong, same
from tests.transform.test_wgmma import BF16, TARGET, check, inames, product
from tests.transform.test_wgmma_lag import of_several

stored = cache(matmul_wgmma.stored_by_boxes)


# {{{ products by wgmma


@pytest.mark.few(2)
@pytest.mark.parametrize("shares", ["b_tile", "a_tile", ""])
@pytest.mark.parametrize("lag", [0, 1])
def test_numbers_of_products(shares: str, lag: int) -> None:
    text = check(stored(boxed(product(64, groups=2, lag=lag), 4), shares), 128, 64, 320)
    assert text.count("store_box_2d(&c_map, &c_tile") == 2
    assert "    publish_stores();\n    __syncthreads();\n    if (tx == 0) {\n        store_box_2d(" in bare(text)
    assert text.count("publish_stores();") == 1, "nowhere else are elements stored by threads that the engine reads"


@pytest.mark.parametrize(("line", "count"), [("publish_stores();\n", 1), ("products_begin();\n", 1)])
def test_fibres_see_a_fence_that_is_missing(line: str, count: int) -> None:
    """Between stores of threads and reads of the engine, and between registers of threads and of products."""
    program = pl.generate_code(stored(boxed(product(64, lag=1), 4), ""), target=TARGET)
    text = bare(program.device_code)
    assert text.count(line) == count
    assert is_wrong(program, text.replace(line, ""), 320)
    assert not is_wrong(program, text, 320)


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", [(96, 56, 64), (64, 64, 72), (8, 8, 8), (130, 72, 136)])
@pytest.mark.parametrize("shares", ["b_tile", ""])
def test_numbers_at_the_edges_of_tiles(shape: tuple[int, int, int], shares: str) -> None:
    check(stored(boxed(product(64, lag=1, assume=ANY), 4), shares), *shape)


def test_copies_of_threads_may_leave_their_place_too() -> None:
    knl = matmul_wgmma.on_groups_of_warps(matmul_wgmma.program(), "wgmma_m64n64k16_bf16", 64, 64, lag=1)
    check(stored(knl), 130, 72, 136, turned="b")


@pytest.mark.few(1)
@pytest.mark.parametrize("tag", ["box", "l.auto"])
def test_the_next_tile_is_fetched_behind_a_fence(tag: str) -> None:
    """The engine would fill the place while what threads have stored there is still on its way."""
    knl = of_several(1)
    knl = pl.add_prefetch(knl, "a", f"{inames(knl, 'i')}, kk, ki", temporary_name="a_tile")
    knl = pl.add_prefetch(knl, "b", f"{inames(knl, 'j')}, kk, ki", temporary_name="b_tile")
    for name in ("a_tile", "b_tile"):
        knl = pl.swizzle(knl, name, bits=3, base=3, shift=3)
    knl = pl.pipeline(knl, "ko", stages=3, via="tma")
    names = f"{inames(knl, 'i')}, {inames(knl, 'j')}"
    knl = pl.buffer_array(
        knl, "c", names, default_tag=tag, temporary_name="c_tile", temporary_address_space="local"
    )
    if tag == "box":
        knl = pl.tag_array_axes(pl.split_array_axis(knl, "c_tile", 1, 32), "c_tile", "N1,N2,N0")
        knl = pl.swizzle(knl, "c_tile", bits=3, base=2, shift=3)
    knl = pl.alias_temporaries(knl, ["b_tile", "c_tile"])
    program = pl.generate_code(knl, target=TARGET)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (3, 64, 320)), rng.integers(-3, 4, (3, 64, 320))
    arrays = {"a": a.astype(BF16), "b": b.astype(BF16), "c": np.zeros((3, 64, 64), F4)}
    for order, found in run_on_fibres(program, arrays).items():
        np.testing.assert_array_equal(found["c"], np.einsum("tik,tjk->tij", a, b).astype(F4), err_msg=order)
    body = program.device_code[program.device_code.index('extern "C"') :]
    assert "publish_stores(); __syncthreads();" in flat(body[body.index("&c_tile[") :])


@pytest.mark.nvrtc
def test_large_blocks_spill_nothing_and_keep_products_apart() -> None:
    knl = matmul_wgmma.on_groups_of_warps(
        matmul_wgmma.program(), "wgmma_m64n256k16_bf16", 128, 256, stages=4, group=16, lag=1, via="tma"
    )
    compiled = compile_cuda(pl.generate_code(stored(knl), target=TARGET).device_code, "sm_90a")
    assert "serialized" not in compiled.log, compiled.log
    assert all(used.local_bytes == 0 for used in resources(compiled.cubin).values())


# }}}
# {{{ other kernels


def transposed(
    dtype: Any = F4, columns: int = 32, *, rows: int = 8, unit: int = 4, text: str = "o[j, i] = u[i, j]",
    domain: str = "0 <= i < m and 0 <= j < n", shape: str = "n, m", tag: str = "box",
) -> pl.LoopKernel:  # fmt: skip
    """Return a kernel that stores tiles of some rows and columns as boxes."""
    knl = pl.make_kernel(
        f"{{[i, j]: {domain}}}", text,
        [pl.GlobalArg("u", dtype, shape="m, n"), pl.GlobalArg("o", dtype, shape=shape), ...],
        assumptions=f"m >= 1 and n >= 1 and m mod {unit} = 0",
    )  # fmt: skip
    knl = pl.split_iname(knl, "i", columns, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", rows, outer_tag="g.0", inner_tag="l.0")
    return pl.buffer_array(
        knl, "o", "i_inner, j_inner", temporary_name="tile", temporary_address_space="local", default_tag=tag
    )


def values(dtype: Any, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("dtype", "unit"),
    [(np.float64, 2), (np.int8, 16), (np.int16, 8), (np.complex64, 2), (np.uint32, 4), (np.bool_, 16)],
)
def test_elements_of_all_sizes(dtype: Any, unit: int) -> None:
    text = same(transposed(dtype, unit=unit), u=values(dtype, 48, 21))
    assert "store_box_2d(&o_map, &tile[0][0], 32 * by, 8 * bx); boxes_read();" in flat(text)


def test_rows_of_128_bytes_may_be_swizzled() -> None:
    text = same(pl.swizzle(transposed(), "tile", bits=3, base=2, shift=3), u=values(F4, 48, 21))
    assert "__shared__ __align__(1024) float tile" in text


def test_elements_beyond_the_domain_are_left_alone() -> None:
    knl = transposed(domain="0 <= i < m and 0 <= j < n - 3", shape="n, m")
    same(knl, u=values(F4, 48, 21), o=values(F4, 21, 48))


def test_boxes_begin_anywhere_along_other_axes() -> None:
    same(transposed(text="o[j + 5, i] = u[i, j]", shape="n + 7, m"), u=values(F4, 48, 21), o=values(F4, 28, 48))


def test_elements_that_are_stored_again_are_waited_for() -> None:
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < nt and 0 <= i < 64}", "o[i] = u[t, i]",
        [pl.GlobalArg("u", F4, shape="nt, 64"), pl.GlobalArg("o", F4, shape="64"), ...], assumptions="nt >= 1",
    )  # fmt: skip
    knl = pl.tag_inames(knl, {"i": "l.0"})
    knl = pl.buffer_array(
        pl.prioritize_loops(knl, "t"), "o", "i", temporary_name="tile", temporary_address_space="local",
        default_tag="box",
    )  # fmt: skip
    text = same(knl, u=values(F4, 5, 64))
    assert "boxes_stored();" in text
    assert "boxes_read();" not in text


def test_one_thread_stores_what_it_wrote() -> None:
    """There is no barrier in a block of one thread; the order of its own accesses needs the fence."""
    knl = pl.make_kernel("{[b, i]: 0 <= b < n and 0 <= i < 32}", "o[b, i] = 2*u[b, i]",
                         [pl.GlobalArg("u, o", F4, shape="n, 32"), ...])  # fmt: skip
    knl = pl.buffer_array(pl.tag_inames(knl, {"b": "g.0"}), "o", "i", temporary_name="tile",
                          temporary_address_space="local", default_tag="box")  # fmt: skip
    text = same(knl, u=values(F4, 3, 32))
    body = text[text.index('extern "C"') :]
    assert body.index("tile[i] =") < body.index("publish_stores();") < body.index("store_box_2d(&o_map")


def test_c_text_may_stand_beside_boxes() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < 64}",
        ["o[i] = u[i]", pl.CInstruction("i", "p[i] = 2*u[i];", read_variables="u", assignees="p[i]")],
        [pl.GlobalArg("u, o, p", F4, shape="64")],
    )
    knl = pl.buffer_array(pl.tag_inames(knl, {"i": "l.0"}), "o", "i", temporary_name="tile",
                          temporary_address_space="local", default_tag="box")  # fmt: skip
    assert "store_box_1d(&o_map, &tile[0]" in pl.generate_code(knl, target=PLAIN).device_code


def test_the_text(golden: Golden) -> None:
    text = pl.generate_code(stored(boxed(product(64, groups=2, lag=1), 4)), target=TARGET).device_code
    golden("golden/tma_stores.cu", text)


# }}}
# {{{ mistakes and refusals


@pytest.mark.parametrize("mistake", ["no wait", "no barrier", "another box", "another place"])
def test_fibres_see_mistakes(mistake: str) -> None:
    program = pl.generate_code(transposed(), target=PLAIN)
    u = values(F4, 64, 16)

    def wrong(text: str) -> bool:
        try:
            outputs = run_on_fibres(replace(program, device_code=text), {"u": u, "o": np.zeros((16, 64), F4)})
        except VerificationError:
            return True
        return any(not np.array_equal(found["o"], u.T) for found in outputs.values())

    text = {
        "no wait": program.device_code.replace("        boxes_read();\n", ""),
        "no barrier": bare(program.device_code).replace("    __syncthreads();\n", ""),
        "another box": program.device_code.replace("32 * by, 8 * bx);", "8 * bx, 32 * by);"),
        "another place": program.device_code.replace("&tile[0][0]", "&tile[1][0]"),
    }[mistake]
    assert text != program.device_code
    assert wrong(text)
    assert not wrong(program.device_code)


def read_again() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < 64}", ["o[i] = u[i]", "p[i] = o[i]"], [pl.GlobalArg("u, o, p", F4, shape="64")]
    )
    return pl.buffer_array(
        pl.tag_inames(knl, {"i": "l.0"}), "o", "i", within="id:insn", temporary_name="tile",
        temporary_address_space="local", default_tag="box",
    )  # fmt: skip


def fetched() -> pl.LoopKernel:
    """Return a fetch that is no copy on its way."""
    knl = pl.make_kernel("{[i]: 0 <= i < 64}", "o[i] = u[63 - i]", [pl.GlobalArg("u, o", F4, shape="64")])
    return pl.add_prefetch(pl.tag_inames(knl, {"i": "l.0"}), "u", "i", default_tag="box")


def alone() -> pl.LoopKernel:
    """Return a kernel of one thread."""
    knl = pl.make_kernel("{[i]: 0 <= i < 32}", "o[i] = u[i]", [pl.GlobalArg("u, o", F4, shape="32")])
    return pl.buffer_array(knl, "o", "i", temporary_name="tile", temporary_address_space="local", default_tag="box")


@pytest.mark.parametrize(
    ("name", "code", "make"),
    [
        ("apart", "not-a-box", lambda: transposed(text="o[j, 2*i] = u[i, j]", shape="n, 2*m")),
        ("triangle", "box-edge", lambda: transposed(domain="0 <= i < m and 0 <= j < n and j <= i")),
        ("rows", "box-unaligned", lambda: transposed(unit=2)),
        ("left", "box-unaligned", lambda: transposed(text="o[j, i + 1] = u[i, j]", shape="n, m + 4")),
        ("read", "not-a-box", read_again),
        ("fetch", "not-a-box", fetched),
        ("private", "not-a-box", lambda: pl.set_temporary_address_space(alone(), "tile", "private")),
    ],
)
def test_what_is_no_box_is_refused(name: str, code: str, make: Callable[[], pl.LoopKernel], golden: Golden) -> None:
    with pytest.raises((pl.TransformError, VerificationError, pl.CodegenError)) as error:
        pl.generate_code(make(), target=PLAIN)
    assert error.value.codes == (code,)
    golden(f"messages/tma_store_{name}.txt", str(error.value))


def shared(via: str) -> pl.LoopKernel:
    """Return a kernel with a temporary that is in use while a copy into another one is on its way, and then not."""
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < nt and 0 <= i < 64}",
        ["<> w = u[t, 63 - i]", "<> s[i] = 2*w", "o[t, i] = s[63 - i]"],
        [pl.GlobalArg("u, o", F4, shape="nt, 64"), ...], assumptions="nt >= 1",
    )  # fmt: skip
    knl = pl.tag_inames(knl, {"i": "l.0"})
    knl = pl.set_temporary_address_space(pl.add_prefetch(knl, "u", "i"), "s", "local")
    return pl.pipeline(knl, "t", 2, via=via)


@pytest.mark.parametrize("via", ["cp.async", "tma"])
def test_a_copy_on_its_way_holds_its_place(via: str, golden: Golden) -> None:
    with pytest.raises(pl.TransformError) as error:
        pl.alias_temporaries(shared(via), ["u_fetch", "s"])
    assert error.value.codes == ("storage-in-use",)
    golden(f"messages/storage_{via.replace('.', '_')}.txt", str(error.value))


def test_two_tiles_on_their_way_have_two_places() -> None:
    with pytest.raises(pl.TransformError) as error:
        pl.alias_temporaries(boxed(product(64, lag=1), 3), ["a_tile", "b_tile"])
    assert error.value.codes == ("storage-in-use",)


# }}}
# {{{ GPU


@pytest.mark.gpu
@pytest.mark.parametrize("shares", ["b_tile", ""])
@pytest.mark.parametrize("shape", [(1024, 1024, 2048), (200, 72, 1608)])
def test_the_gpu_agrees(shape: tuple[int, int, int], shares: str) -> None:
    knl = stored(boxed(product(64, groups=2, lag=1, assume=ANY), 4), shares)
    rng = np.random.default_rng(0)
    m, n, p = shape
    a, b = rng.integers(-3, 4, (m, p)), rng.integers(-3, 4, (n, p))
    found = pl.compile(knl, target=TARGET)(a=a.astype(BF16), b=b.astype(BF16))["c"]
    np.testing.assert_array_equal(np.asarray(found), (a @ b.T).astype(F4))


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["int8", "float64", "swizzled", "part", "again"])
def test_the_gpu_stores_boxes(case: str) -> None:
    kernels: Mapping[str, Callable[[], tuple[pl.LoopKernel, np.ndarray[Any, Any]]]] = {
        "int8": lambda: (transposed(np.int8, unit=16), values(np.int8, 96, 45)),
        "float64": lambda: (transposed(np.float64, unit=2), values(np.float64, 98, 45)),
        "swizzled": lambda: (pl.swizzle(transposed(), "tile", bits=3, base=2, shift=3), values(F4, 96, 45)),
        "part": lambda: (transposed(domain="0 <= i < m and 0 <= j < n - 3"), values(F4, 96, 45)),
        "again": lambda: (transposed(text="o[j + 5, i] = u[i, j]", shape="n + 7, m"), values(F4, 96, 45)),
    }
    knl, u = kernels[case]()
    shape = (52, u.shape[0]) if case == "again" else u.shape[::-1]
    given = {"u": u, "o": np.zeros(shape, u.dtype)}
    wanted = pl.interpret(knl, **{name: value.copy() for name, value in given.items()})["o"]
    np.testing.assert_array_equal(np.asarray(pl.compile(knl, target=PLAIN)(**given)["o"]), wanted)


# }}}
