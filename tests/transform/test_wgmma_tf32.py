"""Products of float32 by ``wgmma``, which takes 11 bits of its operands (tf32)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.arguments import Binder
from polyloop.runtime.cuda.tensormaps import driver_map
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda, resources
from polyloop.runtime.views import HostMemory
from tests.generated import flat
from tests.transform.test_tma import Driver, moved
from tests.transform.test_tma_stores import stored
from tests.transform.test_wgmma import TARGET, check, product, tiled

Golden = Callable[[str, str], None]
F4 = np.float32
ANY = "m >= 1 and n >= 1 and p >= 1 and p mod 4 = 0 and n mod 4 = 0"


def knl_of(n: int = 64, stages: int = 3, via: str = "tma", **options: Any) -> pl.LoopKernel:
    return tiled(product(n, dtype=F4, **options), stages, vec=4, via=via)


@pytest.mark.few(1)
@pytest.mark.parametrize("n", [8, 64, 256])
def test_numbers_at_several_widths(n: int) -> None:
    text = check(knl_of(n, 1), 128, 2 * n, 64, dtype=F4)
    assert f"wgmma_m64n{n}k8_tf32_kk(" in text
    assert f"wgmma.mma_async.sync.aligned.m64n{n}k8.f32.tf32.tf32" in text
    assert re.search(r'p, [" ]*1, 1;', flat(text)), "there is no turned operand of 32 bits"


@pytest.mark.few(1)
@pytest.mark.parametrize("via", ["cp.async", "tma"])
@pytest.mark.parametrize(("lag", "stages"), [(0, 2), (1, 3)])
def test_numbers_with_copies_ahead(via: str, lag: int, stages: int) -> None:
    check(knl_of(64, stages, via, groups=2, lag=lag), 256, 64, 160, dtype=F4)


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(96, 56, 32), (8, 8, 4), (130, 72, 68)])
@pytest.mark.parametrize("via", ["cp.async", "tma"])
def test_numbers_at_the_edges_of_tiles(shape: tuple[int, int, int], via: str) -> None:
    check(knl_of(64, 3, via, lag=1, assume=ANY), *shape, dtype=F4)


def test_results_may_be_stored_by_boxes() -> None:
    check(stored(knl_of(64, 4, lag=1, assume=ANY)), 130, 72, 68, dtype=F4)


def of_bits(value: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.full((64, 32), value, F4), np.full((64, 32), 1.0, F4)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("via", "value", "taken"),
    [
        ("tma", 1 + 3 * 2.0**-12, 1 + 2.0**-10), ("tma", 1 + 2.0**-12, 1.0), ("tma", 1 + 2.0**-11, 1.0),
        ("tma", -1 - 3 * 2.0**-12, -1 - 2.0**-10), ("cp.async", 1 + 3 * 2.0**-12, 1.0),
    ],
)  # fmt: skip
def test_the_engine_rounds_and_the_instruction_cuts(via: str, value: float, taken: float) -> None:
    a, b = of_bits(value)
    program = pl.generate_code(knl_of(64, 2, via), target=TARGET)
    for order, found in run_on_fibres(program, {"a": a, "b": b, "c": np.zeros((64, 64), F4)}).items():
        np.testing.assert_array_equal(found["c"], F4(32 * taken), err_msg=order)
    assert all(described.rounds for described in program.launches[0].maps)


def test_other_tiles_are_not_rounded() -> None:
    for knl in (moved(), tiled(product(64), 2, via="tma")):
        assert not any(described.rounds for described in pl.generate_code(knl, target=TARGET).launches[0].maps)


def test_the_driver_is_told_to_round(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    monkeypatch.setattr("polyloop.runtime.cuda.tensormaps.raw_driver", lambda: driver)
    program = pl.generate_code(knl_of(), target=TARGET)
    a, b = of_bits(1.0)
    driver_map(program.launches[0].maps[0], Binder(program, HostMemory()).bind({"a": a, "b": b}, poison=False), 4096)
    tfloat32 = 11
    assert driver.arguments[0] == tfloat32


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.nvrtc
@pytest.mark.parametrize("lag", [0, 1])
def test_large_blocks_spill_nothing_and_keep_products_apart(lag: int) -> None:
    knl = tiled(product(256, dtype=F4, groups=2, lag=lag, assume=ANY), 4, vec=4, via="tma")
    compiled = compile_cuda(pl.generate_code(knl, target=TARGET).device_code, "sm_90a")
    assert "serialized" not in compiled.log, compiled.log
    assert all(used.local_bytes == 0 for used in resources(compiled.cubin).values())


def test_a_second_operand_by_rows_of_k_is_refused(golden: Golden) -> None:
    knl = tiled(product(32, dtype=F4, text="c[i, j] = sum(k, a[i, k]*b[k, j])", b_shape="p, n"), 2, vec=4)
    with pytest.raises(pl.CodegenError) as error:
        pl.generate_code(knl, target=TARGET)
    assert error.value.codes == ("bad-tensorize",)
    golden("messages/wgmma_tf32_turned.txt", str(error.value))


@pytest.mark.gpu
@pytest.mark.parametrize("via", ["cp.async", "tma"])
@pytest.mark.parametrize("shape", [(1024, 1024, 2048), (200, 72, 1604)])
def test_the_gpu_agrees(shape: tuple[int, int, int], via: str) -> None:
    rng = np.random.default_rng(0)
    m, n, p = shape
    a, b = rng.integers(-3, 4, (m, p)), rng.integers(-3, 4, (n, p))
    found = pl.compile(knl_of(64, 4, via, groups=2, lag=1, assume=ANY), target=TARGET)(a=a.astype(F4), b=b.astype(F4))
    np.testing.assert_array_equal(np.asarray(found["c"]), (a @ b.T).astype(F4))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("via", "value", "taken"),
    [
        ("tma", 1 + 3 * 2.0**-12, 1 + 2.0**-10), ("tma", 1 + 2.0**-12, 1.0), ("tma", -1 - 3 * 2.0**-12, -1 - 2.0**-10),
        ("cp.async", 1 + 3 * 2.0**-12, 1.0),
    ],
)  # fmt: skip
def test_the_gpu_rounds_and_cuts(via: str, value: float, taken: float) -> None:
    a, b = of_bits(value)
    found = pl.compile(knl_of(64, 2, via), target=TARGET)(a=a, b=b)["c"]
    np.testing.assert_array_equal(np.asarray(found), F4(32 * taken))
