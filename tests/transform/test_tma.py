"""Copies of boxes by the copy engine (``pipeline(.., via="tma")``)."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from examples import matmul_wgmma
from polyloop.codegen.program import GeneratedProgram
from polyloop.errors import CodegenError, VerificationError
from polyloop.runtime.arguments import Binder
from polyloop.runtime.cuda import tensormaps
from polyloop.runtime.cuda.tensormaps import BYTES, driver_map
from polyloop.runtime.fibres import fibre_library, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda, resources
from polyloop.runtime.views import HostMemory
from tests.generated import bare, flat
from tests.transform.test_wgmma import BF16, TARGET, check, inames, product, tiled
from tests.transform.test_wgmma_lag import given, of_several

Golden = Callable[[str, str], None]
F4 = np.float32
PLAIN = pl.CudaTarget("sm_90")
ANY = "m >= 1 and n >= 1 and p >= 1 and p mod 8 = 0 and n mod 8 = 0"


def boxed(knl: pl.LoopKernel, stages: int = 3, *, panels: bool = False) -> pl.LoopKernel:
    return tiled(knl, stages, panels=panels, via="tma")


def same(knl: pl.LoopKernel, target: pl.Target = PLAIN, **arrays: Any) -> str:
    """Compare a kernel on fibres and in C with the interpreter; return its text for the GPU."""
    arrays = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arrays.items()}
    program = pl.generate_code(knl, target=target)
    given = {a.name: arrays[a.name] for a in knl.arguments if a.name in arrays}
    wanted = pl.interpret(knl, **{name: np.copy(value) for name, value in given.items()})
    runs = run_on_fibres(program, given, library=fibre_library(program, quick=True))
    for order, outputs in runs.items():
        for name in outputs.keys():  # noqa: SIM118 - iterating over a result gives its values
            np.testing.assert_array_equal(outputs[name], wanted[name], err_msg=order)
    found = pl.compile(knl, target=pl.CTarget())(**{name: np.copy(value) for name, value in given.items()})
    for name in found.keys():  # noqa: SIM118
        np.testing.assert_array_equal(found[name], wanted[name])
    return program.device_code


# {{{ products by wgmma


@pytest.mark.few(1)
@pytest.mark.parametrize(("lag", "stages"), [(0, 2), (1, 3), (2, 4)])
def test_numbers_of_products(lag: int, stages: int) -> None:
    knl = boxed(product(64, groups=2, lag=lag), stages)
    check(knl, 128, 64, 320)
    check(knl, 128, 64, 64)  # a loop that is shorter than the pipeline


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", [(96, 56, 64), (64, 64, 72), (8, 8, 8), (130, 72, 136)])
@pytest.mark.parametrize(("lag", "stages"), [(0, 2), (1, 3)])
def test_numbers_at_the_edges_of_tiles(shape: tuple[int, int, int], lag: int, stages: int) -> None:
    check(boxed(product(64, lag=lag, assume=ANY), stages), *shape)


@pytest.mark.few(1)
@pytest.mark.parametrize("n", [64, 256])
def test_panels_are_boxes_of_their_own(n: int) -> None:
    knl = product(n, text="c[i, j] = sum(k, a[i, k]*b[k, j])", b_shape="p, n", lag=1)
    text = check(boxed(knl, 3, panels=n > 64), 64, 2 * n, 192, turned="b")
    body = text[text.index('extern "C"') :]
    assert flat(body).count("b_map, ") == 2 * n // 64, "in the prologue and in the loop"


def test_sums_one_after_the_other_go_on_with_the_ring() -> None:
    knl = of_several(1)
    knl = pl.add_prefetch(knl, "a", f"{inames(knl, 'i')}, kk, ki", temporary_name="a_tile")
    knl = pl.add_prefetch(knl, "b", f"{inames(knl, 'j')}, kk, ki", temporary_name="b_tile")
    for name in ("a_tile", "b_tile"):
        knl = pl.swizzle(knl, name, bits=3, base=3, shift=3)
    program = pl.generate_code(pl.pipeline(knl, "ko", stages=3, via="tma"), target=TARGET)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (3, 64, 320)), rng.integers(-3, 4, (3, 64, 320))
    arrays = {"a": a.astype(BF16), "b": b.astype(BF16), "c": np.zeros((3, 64, 64), F4)}
    for order, found in run_on_fibres(program, arrays).items():
        np.testing.assert_array_equal(found["c"], np.einsum("tik,tjk->tij", a, b).astype(F4), err_msg=order)


def test_the_text(golden: Golden) -> None:
    text = pl.generate_code(boxed(product(64, groups=2, lag=1), 4), target=TARGET).device_code
    golden("golden/tma.cu", text)


def altered(text: str) -> dict[str, str]:
    """Return emitted text with one mistake each."""
    text = bare(text)
    slot = "b_tile[(ko + 1) % 3]"
    assert text.count(slot) == 1
    return {
        "no wait": text.replace("        ring_wait(&b_tile_ring[0], ko % 3, &b_tile_phases);\n", ""),
        "no barrier": text.replace("        __syncthreads();\n", ""),
        "another slot": text.replace(slot, "b_tile[(ko + 2) % 3]"),
        "another box": re.sub(r"64 \* ko \+ 64,(\s+64 \* bx)", r"64 * ko,\1", text),
        "too many bytes": text.replace("b_tile_ring[(ko + 1) % 3], 8192)", "b_tile_ring[(ko + 1) % 3], 8208)"),
        "one phase": text.replace("    *phases ^= 1u << slot;\n", ""),
        "not opened": text.replace("        ring_open(&b_tile_ring[0], 3);\n", ""),
    }  # fmt: skip


def is_wrong(program: GeneratedProgram, text: str, terms: int, rows: int = 64) -> bool:
    """Return True if fibres refuse *text* in place of that of a product of 64 columns, or its result is another one."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (rows, terms)), rng.integers(-3, 4, (64, terms))
    arrays = {"a": a.astype(BF16), "b": b.astype(BF16), "c": np.zeros((rows, 64), F4)}
    try:
        outputs = run_on_fibres(replace(program, device_code=text), arrays)
    except VerificationError:
        return True
    return any(not np.array_equal(found["c"], (a @ b.T).astype(F4)) for found in outputs.values())


@pytest.mark.few(3)
@pytest.mark.parametrize("mistake", [
    "no wait", "no barrier", "another slot", "another box", "too many bytes", "one phase", "not opened",
])  # fmt: skip
def test_fibres_see_mistakes(mistake: str) -> None:
    program = pl.generate_code(boxed(product(64, lag=1)), target=TARGET)
    text = altered(program.device_code)[mistake]
    assert text != program.device_code
    assert is_wrong(program, text, 384)
    assert not is_wrong_as_it_is()


@cache
def is_wrong_as_it_is() -> bool:
    program = pl.generate_code(boxed(product(64, lag=1)), target=TARGET)
    return is_wrong(program, program.device_code, 384)


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.nvrtc
@pytest.mark.parametrize("lag", [0, 1])
def test_large_blocks_spill_nothing_and_keep_products_apart(lag: int) -> None:
    knl = matmul_wgmma.on_groups_of_warps(
        matmul_wgmma.program(), "wgmma_m64n256k16_bf16", 128, 256, stages=4, group=16, lag=lag, via="tma"
    )
    compiled = compile_cuda(pl.generate_code(knl, target=TARGET).device_code, "sm_90a")
    assert "serialized" not in compiled.log, compiled.log
    assert all(used.local_bytes == 0 for used in resources(compiled.cubin).values())


def test_the_engine_fills_shared_memory_past_the_first_cache() -> None:
    sizes = {"m": 256, "n": 256, "p": 256}
    boxes, threads = (pl.explain(tiled(product(64, groups=2, lag=1), 4, via=via), sizes) for via in ("tma", "cp.async"))
    assert boxes.footprints == threads.footprints
    for found in boxes.accesses:
        if found.array in ("a", "b"):
            assert (found.turns, found.sectors, found.used_bytes) == (0, 4, 128)
        if found.array in ("a_tile", "b_tile"):
            blocks, rows = 2 * 4, 128 if found.array == "a_tile" else 64
            assert found.requests == blocks * 256 * rows * 2 // 128
    assert sum(a.turns * a.requests for a in boxes.accesses) < sum(a.turns * a.requests for a in threads.accesses)


# }}}
# {{{ other kernels


def stencil(rows: int, columns: int, *, along_rows: bool = False) -> pl.LoopKernel:
    edge = 1 if along_rows else 0
    knl = pl.make_kernel(
        f"{{[t, i, j]: 0 <= t < nt and 1 <= i < n - 1 and {edge} <= j < n - {edge}}}",
        f"o[t, i, j] = u[t, i-1, j] + u[t, i+1, j] + u[t, i, j-{edge}] + u[t, i, j+{edge}]",
        [pl.GlobalArg("u, o", F4, shape="nt, n, n"), ...], assumptions="n >= 3 and nt >= 1 and n mod 4 = 0",
    )  # fmt: skip
    knl = pl.split_iname(knl, "i", rows, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", columns, outer_tag="g.0", inner_tag="l.0")
    return pl.add_prefetch(pl.prioritize_loops(knl, "t"), "u", "i_inner, j_inner")


def test_halos_have_negative_subscripts() -> None:
    u = np.random.default_rng(0).integers(-9, 9, (5, 36, 36)).astype(F4)
    text = same(pl.pipeline(stencil(14, 32), "t", 3, via="tma"), u=u, o=np.zeros_like(u))
    assert "box_3d(&u_fetch[0][0][0], &u_map, &u_fetch_ring[0], 32 * bx, 14 * by - 1, 0);" in text


def moved(
    dtype: Any = F4, columns: int = 32, *, unit: int = 4, text: str = "o[t, i, j] = u[t, i, j] + u[t, i, j]",
    domain: str = "0 <= t < nt and 0 <= i < m and 0 <= j < n", shape: str = "nt, m, n", swizzle: int | None = None,
    rows: int = 8, order: str = "", stages: int = 2,
) -> pl.LoopKernel:  # fmt: skip
    """Return a kernel with a tile of some rows and columns in shared memory, which boxes fill."""
    knl = pl.make_kernel(
        f"{{[t, i, j]: {domain}}}", text,
        [pl.GlobalArg("u", dtype, shape=shape), pl.GlobalArg("o", dtype, shape="nt, m, n"), ...],
        assumptions=f"nt >= 1 and m >= 1 and n >= 1 and n mod {unit} = 0",
    )  # fmt: skip
    knl = pl.split_iname(knl, "i", rows, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", columns, outer_tag="g.0", inner_tag="l.0")
    knl = pl.add_prefetch(pl.prioritize_loops(knl, "t"), "u", "i_inner, j_inner", temporary_address_space="local")
    if order:
        knl = pl.tag_array_axes(knl, "u_fetch", order)
    if swizzle is not None:
        knl = pl.swizzle(knl, "u_fetch", bits=swizzle, base=2, shift=3)
    return pl.pipeline(knl, "t", stages, via="tma")


def values(dtype: Any, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 5, shape).astype(dtype)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("dtype", "unit"),
    [(np.float64, 2), (np.int8, 16), (np.int16, 8), (np.complex64, 2), (np.uint32, 4), (np.bool_, 16)],
)
def test_elements_of_all_sizes(dtype: Any, unit: int) -> None:
    same(moved(dtype, unit=unit), u=values(dtype, 4, 10, 48))


def test_rows_of_128_bytes_may_be_swizzled() -> None:
    assert "u_fetch[t % 2][0][ty][tx ^ ((ty & 7) << 2)]" in same(moved(swizzle=3), u=values(F4, 4, 10, 48))


def test_the_edge_is_that_of_the_domain() -> None:
    knl = moved(shape="nt, m + 3, n + 4")
    same(knl, u=values(F4, 4, 13, 52))
    program = pl.generate_code(knl, target=PLAIN)
    (described,) = program.launches[0].maps
    assert [str(extent) for extent in described.extents] == ["n", "m", "nt"]


def test_a_box_may_run_against_its_readers() -> None:
    knl = moved(text="o[t, i, j] = u[t, i, n - 1 - j]", unit=32)
    assert "n - 32 * bx - 32" in same(knl, u=values(F4, 3, 8, 64))


def test_the_tile_of_a_turned_array_is_a_box() -> None:
    same(moved(text="o[t, i, j] = u[t, j, i]", shape="nt, n, 8*m"), u=values(F4, 2, 36, 24), o=np.zeros((2, 3, 36), F4))


def test_a_name_that_is_taken() -> None:
    knl = pl.rename_argument(moved(), "o", "u_map")
    assert "const __grid_constant__ TensorMap u_map_0" in same(knl, u=values(F4, 2, 8, 32))
    knl = pl.rename_argument(moved(), "o", "ring_wait")
    assert "*__restrict__ ring_wait_" in same(knl, u=values(F4, 2, 8, 32))


def test_wide_indices() -> None:
    text = pl.generate_code(moved(), target=PLAIN, index_bits=64).device_code
    assert compile_cuda(text, "sm_90").cubin


def test_threads_that_read_nothing_meet_the_others_between_phases() -> None:
    text = same(one_reader(), u=values(F4, 7, 32), v=values(F4, 7, 64))
    loop = text[text.index("for (int t = 0") :]
    assert loop.index("ring_wait(") < loop.index("__syncthreads();") < loop.index("ring_expect(")


def one_reader() -> pl.LoopKernel:
    """Return a kernel of which one thread alone reads a box."""
    knl = pl.make_kernel(
        ["{[t, i]: 0 <= t < nt and 0 <= i < 64}", "{[j]: 0 <= j < 32}"],
        """
        for t
            o[t, i] = v[t, i]
            s[t] = sum(j, u[t, j])
        end
        """,
        [pl.GlobalArg("u", F4, shape="nt, 32"), pl.GlobalArg("v, o", F4, shape="nt, 64"),
         pl.GlobalArg("s", F4, shape="nt")],
        assumptions="nt >= 1",
    )  # fmt: skip
    knl = pl.tag_inames(knl, {"i": "l.0"})
    knl = pl.add_prefetch(knl, "u", "j", temporary_address_space="local")
    return pl.pipeline(knl, "t", 3, via="tma")


def test_a_pipeline_that_never_runs() -> None:
    knl = moved(domain="0 <= t < m and 1 <= i < m and 0 <= j < n", shape="m, m, n", text="o[t, i, j] = u[t, i, n-1-j]")
    knl = pl.fix_parameters(pl.split_array_axis(knl, "u_fetch", 1, 2), m=1)
    assert pl.generate_code(knl, target=pl.CTarget()).device_code


# }}}
# {{{ refusals


def refusal(knl: Callable[[], pl.LoopKernel], target: pl.Target = PLAIN) -> pl.PolyloopError:
    with pytest.raises((CodegenError, VerificationError, pl.TransformError)) as error:
        pl.generate_code(knl(), target=target)
    return error.value


def in_place() -> pl.LoopKernel:
    """Return a kernel of one block that reads what it has written."""
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < 20 and 0 <= i < 64}", "u[t + 2, i] = u[t, 63 - i]", [pl.GlobalArg("u", F4, shape="22, 64")]
    )
    knl = pl.add_prefetch(pl.tag_inames(knl, {"i": "l.0"}), "u", "i")
    return pl.pipeline(knl, "t", 2, via="tma")


@pytest.mark.parametrize(
    ("name", "code", "make"),
    [
        ("apart", "not-a-box", lambda: moved(text="o[t, i, j] = u[t, i, 2*j]", shape="nt, m, 2*n")),
        ("triangle", "box-edge", lambda: moved(domain="0 <= t < nt and 0 <= i < m and 0 <= j < n and j <= i")),
        ("rows", "box-unaligned", lambda: moved(unit=2)),
        ("short", "box-unaligned", lambda: pl.pipeline(stencil(16, 16, along_rows=True), "t", 3, via="tma")),
        ("left", "box-unaligned", lambda: pl.pipeline(stencil(14, 30, along_rows=True), "t", 3, via="tma")),
        ("swizzle", "not-a-box", lambda: moved(swizzle=2)),
        ("wide", "not-a-copy", lambda: moved(np.complex128, unit=1)),
        ("large", "not-a-box", lambda: moved(np.int8, 512, unit=16, rows=1)),
        ("turned", "not-a-box", lambda: moved(order="N2,N0,N1")),
        ("slots", "not-a-box", lambda: pl.split_array_axis(moved(stages=4), "u_fetch", 0, 2)),
        ("written", "not-a-box", in_place),
        ("condition", "box-edge", lambda: moved(text="o[t, i, j] = u[t, i, j] {if=j > 3}")),
    ],
)
def test_what_is_no_box_is_refused(name: str, code: str, make: Callable[[], pl.LoopKernel], golden: Golden) -> None:
    error = refusal(make)
    assert error.codes == (code,)
    golden(f"messages/tma_{name}.txt", str(error))


def test_devices_without_a_copy_engine(golden: Golden) -> None:
    error = refusal(moved, pl.CudaTarget("sm_80"))
    assert error.codes == ("unsupported-device-function",)
    golden("messages/tma_too_old.txt", str(error))


def test_a_fetch_of_each_thread_is_no_box() -> None:
    knl = pl.make_kernel(
        "{[t, i, j]: 0 <= t < 8 and 0 <= i < 32 and 0 <= j < 16}", "o[t, i] = sum(j, u[t, i, j])",
        [pl.GlobalArg("u, o", F4), ...],
    )  # fmt: skip
    knl = pl.tag_inames(knl, {"i": "l.0"})
    knl = pl.add_prefetch(knl, "u", "j", temporary_address_space="local")
    with pytest.raises(pl.TransformError) as error:
        pl.pipeline(knl, "t", 2, via="tma")
    assert error.value.codes == ("not-a-copy",)


def test_a_box_that_is_waited_for_twice_is_refused() -> None:
    knl = moved()
    arrival = next(i for i in knl.instructions if i.id == "arrival_u_fetch")
    tags = {x: tag for x, tag in knl.iname_tags.items() if x not in arrival.inames or str(tag) != "box"}
    error = refusal(lambda: replace(knl, iname_tags=tags))  # its loops are no box any more
    assert error.codes == ("copy-not-started",)


# }}}
# {{{ descriptions of arrays


class Driver:
    """A driver that keeps what it is passed."""

    def call(self, name: str, place: ctypes.c_void_p, *arguments: Any) -> None:
        self.name, self.aligned = name, (place.value or 0) % 64 == 0
        self.arguments = [list(a) if isinstance(a, ctypes.Array) else a.value for a in arguments]
        ctypes.memset(place, 7, BYTES)


def test_the_driver_is_told_bytes_and_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    monkeypatch.setattr("polyloop.runtime.cuda.tensormaps.raw_driver", lambda: driver)
    program = pl.generate_code(moved(swizzle=3), target=PLAIN)
    binding = Binder(program, HostMemory()).bind({"u": values(F4, 4, 10, 48)}, poison=False)
    (described,) = program.launches[0].maps
    assert driver_map(described, binding, 4096) == b"\7" * BYTES
    assert driver.name == "cuTensorMapEncodeTiled"
    assert driver.aligned
    uint32, rank, none, swizzle_128, promoted = 2, 3, 0, 3, 2  # pieces of 128 bytes, as rows begin in the middle of 256
    extents, strides, box = [48, 10, 4], [4 * 48, 4 * 480], [32, 8, 1]
    assert driver.arguments == [
        uint32, rank, 4096, extents, strides, box, [1, 1, 1], none, swizzle_128, promoted, none,
    ]  # fmt: skip
    assert program.launches[0].arguments[-1] == described.name


@pytest.mark.parametrize(("rows", "promoted"), [((256, 512), 3), ((192, 512), 2), ((10000,), 2), ((), 3)])
def test_the_cache_reads_wide_pieces_where_rows_begin_with_one(rows: tuple[int, ...], promoted: int) -> None:
    assert tensormaps._promotion(rows) == promoted


def test_nothing_is_described_of_what_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyloop.runtime.cuda.tensormaps.raw_driver", Driver)
    sizes = "m >= 1 and n >= 1 and p >= 0 and m mod 64 = 0 and n mod 64 = 0 and p mod 64 = 0"
    program = pl.generate_code(boxed(product(64, assume=sizes)), target=TARGET)
    arrays = {"a": np.zeros((64, 0), BF16), "b": np.zeros((64, 0), BF16), "m": 64, "n": 64}
    binding = Binder(program, HostMemory()).bind(arrays, poison=False)
    assert driver_map(program.launches[0].maps[0], binding, 0) == bytes(BYTES)


# }}}
# {{{ GPU


@pytest.mark.gpu
@pytest.mark.parametrize(("lag", "stages"), [(0, 3), (1, 3), (1, 4)])
@pytest.mark.parametrize("case", ["nt", "nn", "edges"])
def test_the_gpu_agrees(case: str, lag: int, stages: int) -> None:
    match case:
        case "nn":
            knl = product(256, groups=2, lag=lag, text="c[i, j] = sum(k, a[i, k]*b[k, j])", b_shape="p, n")
            sizes = (128, 256, 64) if stages == 4 else (256, 512, 1600)
        case "edges":
            knl, sizes = product(64, groups=2, lag=lag, assume=ANY), (200, 72, 1608)
        case _:
            knl, sizes = product(128, groups=2, lag=lag), (1024, 1024, 2048)
    arrays, wanted = given(*sizes, turned=case == "nn")
    found = pl.compile(boxed(knl, stages, panels=case == "nn"), target=TARGET)(**arrays)["c"]
    np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["halo", "int8", "float64", "swizzled", "part"])
def test_the_gpu_copies_boxes(case: str) -> None:
    kernels: Mapping[str, Callable[[], tuple[pl.LoopKernel, np.ndarray[Any, Any]]]] = {
        "halo": lambda: (pl.pipeline(stencil(14, 32), "t", 3, via="tma"), values(F4, 5, 36, 36)),
        "int8": lambda: (moved(np.int8, unit=16), values(np.int8, 4, 10, 48)),
        "float64": lambda: (moved(np.float64, unit=2), values(np.float64, 4, 10, 48)),
        "swizzled": lambda: (moved(swizzle=3), values(F4, 4, 10, 48)),
        "part": lambda: (moved(shape="nt, m + 3, n + 4"), values(F4, 4, 13, 52)),
    }
    knl, u = kernels[case]()
    given = {"u": u, "o": np.zeros_like(u)} if case == "halo" else {"u": u}
    wanted = pl.interpret(knl, **{name: value.copy() for name, value in given.items()})["o"]
    np.testing.assert_array_equal(np.asarray(pl.compile(knl, target=PLAIN)(**given)["o"]), wanted)


# }}}
