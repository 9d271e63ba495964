"""``pl.explain`` on a processor: bounds from counts and rates, caches, cores, advice; rates that are measured once."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.devices import Figure
from polyloop.kernel.processors import Cache, Processor
from polyloop.runtime.bounds import measured
from tests.runtime.hosts import PROGRAMS

F = np.float32
CACHES = (
    Cache(1, 32 << 10, 1, Figure(2e11, "given")),
    Cache(2, 1 << 20, 1, Figure(1e11, "given")),
    Cache(3, 16 << 20, 4, Figure(3e10, "given")),
)
MINE = Processor(
    "four cores", 4, 32, CACHES, Figure(4e10, "given"), Figure(1.5e10, "given"),
    {"float32": Figure(1e11, "given"), "fused float32": Figure(2e11, "given"), "float64": Figure(5e10, "given")},
)  # fmt: skip


def _product(**target: bool) -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [pl.GlobalArg("a, b, c", F), ...],
        name="product",
        target=pl.CTarget(**target) if target else None,
    )


def _tiled(knl: pl.LoopKernel) -> pl.LoopKernel:
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="ilp")
    return pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="vec")


def _sums(length: int = 1024) -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b, c", np.float64, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = b[i] + c[i]", data, name="sums")
    return pl.split_iname(knl, "i", length, outer_tag="g.0")


def _seconds(facts: object) -> dict[str, float]:
    assert isinstance(facts, type(pl.explain(_sums(), {"n": 1}, MINE)))
    return {bound.resource: bound.seconds for bound in facts.bounds}


SIZES = {"m": 256, "n": 512, "p": 64}


def test_a_tile_of_registers_is_bound_by_arithmetic() -> None:
    facts = pl.explain(_tiled(_product()), SIZES, MINE)
    products = 256 * 512 * 64
    asked = 4 * (products // 16 + products // 8 + 256 * 512)  # a tile of 8 x 16 loads 8 and 16 elements for each k
    moved = 4 * (256 * 64 + 64 * 512 + 256 * 512)
    assert facts.flops == {"float32": 2 * products}
    assert (facts.dram_bytes, facts.requested_bytes) == (moved, asked)
    assert _seconds(facts) == pytest.approx(
        {"float32": 2 * products / 1e11, "L1 cache": asked / (4 * 2e11), "L2 cache": moved / (4 * 1e11)}
    )
    assert facts.bound is not None
    assert facts.bound.resource == "float32"
    assert "1024 blocks on 4 of 4 cores" in str(facts)
    assert "contract=True" in facts.suggestions[0]


def test_fused_products_take_half_the_time() -> None:
    plain, fused = (pl.explain(_tiled(_product(openmp=True, contract=c)), SIZES, MINE) for c in (False, True))
    assert _seconds(fused)["float32"] == _seconds(plain)["float32"] / 2
    assert not any("contract" in line for line in fused.suggestions)


@pytest.mark.parametrize(
    ("n", "resource", "rate"),
    [(4 << 10, "L1 cache", 8e11), (10**5, "L2 cache", 4e11), (1 << 19, "L3 cache", 1.2e11), (1 << 22, "memory", 4e10)],
)
def test_the_smallest_cache_that_holds_all_is_what_is_read(n: int, resource: str, rate: float) -> None:
    facts = pl.explain(_sums(), {"n": n}, MINE)
    assert facts.bound is not None
    assert (facts.bound.resource, facts.bound.amount) == (resource, 24 * n)
    assert facts.bound.rate == pytest.approx(rate)
    assert ("after a first call" in str(facts)) == (resource != "memory")


def test_cores_without_blocks_do_nothing() -> None:
    two, all_of_them = (pl.explain(_sums(length), {"n": 1 << 22}, MINE) for length in (1 << 21, 1 << 10))
    assert two.launches[0].resident == 2
    assert _seconds(two)["memory"] == pytest.approx(24 * (1 << 22) / 3e10)
    assert _seconds(all_of_them)["memory"] == pytest.approx(24 * (1 << 22) / 4e10)
    assert "2 of them leave 2 of 4 cores idle" in two.suggestions[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pl.PolyloopWarning)  # serial-launch
        serial = pl.explain(_product(), SIZES, MINE)
    assert serial.launches[0].resident == 1
    assert serial.suggestions[0].startswith("blocks for 4 cores")
    alone = pl.explain(_tiled(_product(openmp=False, contract=False)), SIZES, MINE)
    assert alone.launches[0].limited_by == "openmp=False"
    assert alone.suggestions[0] == "pl.CTarget(openmp=True): one of 4 cores works"


def test_a_step_in_memory_is_named() -> None:
    data = [pl.GlobalArg("a, b", F, shape="n, n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "b[i, j] = a[j, i]", data, name="turned")
    facts = pl.explain(pl.split_iname(knl, "i", 8, outer_tag="g.0"), {"n": 300}, MINE)
    assert any("reads a[j, i_inner + 8*i_outer] with a step of 300 elements along 'j'" in x for x in facts.suggestions)
    assert not any("writes b" in line for line in facts.suggestions)


def test_launches_in_loops_of_the_host_are_explained() -> None:
    for name, program in sorted(PROGRAMS.items())[:3]:
        knl = program.kernel()
        facts = pl.explain(knl, dict.fromkeys(knl.parameters, 40), MINE)
        assert facts.launches, name
        assert facts.seconds > 0
        assert str(facts)


def test_bounds_and_processors_are_values() -> None:
    facts = pl.explain(_sums(), {"n": 1000}, MINE)
    assert pl.loads(pl.dumps(facts)) == facts
    assert pl.loads(pl.dumps(MINE)) == MINE
    assert "sums" in str(pl.draw_roofline(_sums(), {"n": 1000}, MINE))


# {{{ this machine


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Measure little, and into a cache of its own."""
    for name, value in (("_REPEATS", 3), ("_FEW", 1), ("_MOST", 1 << 22), ("_ROUNDS", 64)):
        monkeypatch.setattr(measured, name, value)
    monkeypatch.setenv("POLYLOOP_CACHE_DIR", str(tmp_path))
    measured._kept.cache_clear()


@pytest.mark.usefixtures("quick")
def test_the_processor_is_measured_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured.this_processor()
    assert found.cores >= 1
    assert found.vector_bytes in (16, 32, 64)
    assert [cache.level for cache in found.caches] == sorted(cache.level for cache in found.caches)
    figures = [found.dram, found.core_dram, *found.rates.values(), *(cache.bandwidth for cache in found.caches)]
    assert all(figure.value > 1e6 for figure in figures)
    assert found.dram.value <= found.core_dram.value * found.cores
    measured._kept.cache_clear()
    monkeypatch.setattr(measured._Measuring, "all", lambda *_: pytest.fail("it is measured again"))
    assert measured.this_processor() == found
    assert pl.explain(_sums(), {"n": 1 << 20}, "cpu").device == found.name
    measured._kept.cache_clear()


def test_what_the_system_says_of_caches(tmp_path: Path) -> None:
    said = [("Data", 1, "48K", "0"), ("Instruction", 1, "64K", "0"), ("Unified", 3, "30M", "0-3,8-9"),
            ("Unified", 2, "2048K", "0,8")]  # fmt: skip
    for number, values in enumerate(said):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, value in zip(("type", "level", "size", "shared_cpu_list"), values, strict=True):
            (folder / name).write_text(f"{value}\n")
    (tmp_path / "index9").mkdir()
    assert [*measured._levels(tmp_path)] == [(1, 48 << 10, 1), (2, 2 << 20, 2), (3, 30 << 20, 6)]


def test_a_machine_that_says_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measured, "_SYSTEM", tmp_path)
    with pytest.raises(pl.ArgumentError, match=r"unknown-processor(.|\n)*polyloop\.kernel\.processors\.Processor"):
        pl.explain(_sums(), {"n": 10}, "cpu")


def test_no_memory_to_measure_with_is_refused() -> None:
    library = SimpleNamespace(reading=lambda *_: -1.0)
    with pytest.raises(pl.CompilerError, match="no memory to measure with: 2 times 4096 bytes"):
        measured._Measuring(library, 2).reading(4096, 2)  # type: ignore[arg-type]


# }}}
