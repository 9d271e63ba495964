from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import polyloop as pl
from benchmarks.gpu.cases import CASES
from examples import matmul_mma
from polyloop.cli.kernels import DEMO_KERNELS
from polyloop.cost.coalescing import sectors
from polyloop.cost.occupancy import Occupancy, block_limits, occupancy
from polyloop.cost.traffic import address_of, traffic
from polyloop.kernel.devices import DEVICES, MULTIPROCESSORS
from polyloop.schedule.counts import census_of

F = np.float32
EXAMPLES = Path(__file__).parents[2] / "examples"
Golden = Callable[[str, str], None]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CASES))
def test_every_benchmark_is_explained(name: str) -> None:
    case = CASES[name]
    (sizes, *_) = case.sizes
    sizes = {**sizes, "m": 1024, "entries": 16384, "count": 16} if name == "CSR product" else sizes
    found = pl.explain(case.build(), sizes, "H200")
    assert found.launches
    assert found.seconds > 0


def _copy(along: str, other: str, text: str = "out[i, j] = a[i, j]", shape: str = "n, n") -> pl.LoopKernel:
    data = [pl.GlobalArg("a, out", F, shape=shape), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data, name="copied", assumptions="n >= 1")
    knl = pl.split_iname(knl, along, 16, outer_tag="g.0", inner_tag="l.0")
    return pl.split_iname(knl, other, 16, outer_tag="g.1", inner_tag="l.1")


# {{{ sectors


def _by_hand(n: int, nx: int, ny: int, address: Callable[[int, int], int]) -> tuple[int, int]:
    """Return the requests and sectors of blocks of nx x ny threads over n x n points, thread by thread."""
    touched = set()
    for bx, by, tx, ty in product(range(-(-n // nx)), range(-(-n // ny)), range(nx), range(ny)):
        x, y = bx * nx + tx, by * ny + ty
        if x < n and y < n:
            touched.add((bx, by, (tx + nx * ty) // 32, 4 * address(x, y) // 32))
    return len({entry[:3] for entry in touched}), len(touched)


@pytest.mark.parametrize("n", [1, 15, 33, 299])
@pytest.mark.parametrize(
    ("along", "text", "shape", "address"),
    [
        ("j", "out[i, j] = a[i, j]", "n, n", lambda x, y, n: y * n + x),
        ("i", "out[i, j] = a[i, j]", "n, n", lambda x, y, n: x * n + y),
        ("j", "out[i, j] = a[2*i, 3*j]", "2*n, 3*n", lambda x, y, n: 2 * y * 3 * n + 3 * x),
        ("j", "out[i, j] = a[i, j // 4]", "n, n", lambda x, y, n: y * n + x // 4),
    ],
)
def test_sectors_are_those_of_every_thread(
    n: int, along: str, text: str, shape: str, address: Callable[[int, int, int], int]
) -> None:
    knl = _copy(along, "i" if along == "j" else "j", text, shape)
    census = census_of(knl, redundant=True)
    entry = next(entry for entry in traffic(census.placement) if entry.direction == "load")
    where = address_of(census.kernel, entry)
    assert where is not None
    domain = census.of_access(entry.placed, entry.access)
    found = sectors(census.placement, entry, where, domain, {"n": n})
    assert found is not None
    assert found.is_exact
    assert (found.requests, found.sectors) == _by_hand(n, 16, 16, lambda x, y: address(x, y, n))
    assert census.requests(entry.placed, domain, ()).eval_with_dict({"n": n}) == found.requests


# }}}
# {{{ occupancy


@pytest.mark.parametrize(
    ("architecture", "threads", "registers", "shared", "blocks", "limited_by"),
    [
        # CUDA C++ Best Practices Guide, "Calculating Occupancy": 37 registers a thread on devices of capability 7.0
        (70, 128, 37, 0, 12, "registers"),
        (70, 320, 37, 0, 4, "registers"),
        (80, 128, 37, 0, 12, "registers"),
        (90, 320, 37, 0, 4, "registers"),
        # Ampere and Hopper Tuning Guides, "Occupancy": 64 warps and 32 blocks on a multiprocessor, 65536 registers
        (80, 32, 16, 0, 32, "blocks"),
        (90, 256, 32, 0, 8, "threads"),
        (90, 256, 33, 0, 6, "registers"),
        (90, 1024, 64, 0, 1, "registers"),
        # the same, "Shared memory": 164 and 228 KiB, of which 1 KiB is reserved for each block
        (80, 128, 32, 163 * 1024, 1, "shared memory"),
        (90, 128, 32, 227 * 1024, 1, "shared memory"),
        (80, 128, 32, 48 * 1024, 3, "shared memory"),
        (90, 128, 32, 48 * 1024, 4, "shared memory"),
    ],
)
def test_occupancy_is_as_published(
    architecture: int, threads: int, registers: int, shared: int, blocks: int, limited_by: str
) -> None:
    warps = blocks * threads // 32
    expected = Occupancy(blocks, warps, warps * 32 / MULTIPROCESSORS[architecture].threads, limited_by)
    assert occupancy(architecture, threads, registers, shared) == expected


def test_what_does_not_fit_has_no_block() -> None:
    assert block_limits(MULTIPROCESSORS[90], 128, 256, 0)["registers"] == 0
    assert block_limits(MULTIPROCESSORS[80], 128, 32, 164 * 1024)["shared memory"] == 0
    assert occupancy(12, 128, 32, 0) is None


def test_peak_rates_are_those_of_lanes_and_clock() -> None:
    lanes = {"H200": 128, "H100": 128, "A100": 64, "MI250X": 64, "MI300X": 128, "RX 7900 XTX": 256}
    for name, device in DEVICES.items():
        peak = 2 * lanes[name] * device.multiprocessors * device.clock.value
        assert device.rates["float32"].value == pytest.approx(peak, rel=0.01)
        assert all(figure.source for figure in (device.clock, device.dram, *device.rates.values()))


# }}}
# {{{ the whole


def test_a_tiled_product_is_explained() -> None:
    facts = pl.explain(DEMO_KERNELS["matmul"].build(), {"n": 1024}, device="H200")
    assert facts.flops == {"float32": 2 * 1024**3}
    assert facts.operations == {"float32": {"add": 1024**3, "mul": 1024**3}}
    assert facts.dram_bytes == 3 * 4 * 1024**2
    assert facts.requested_bytes == 4 * (2 * 1024**3 // 16 + 1024**2)
    assert facts.bound is not None
    assert facts.bound.resource == "L1 and shared memory"
    # of the products of a warp: a quarter of a turn for a (four of a row at once), one for b; stores and loads of tiles
    assert facts.bound.amount == 1.25 * 1024**3 / 32 + 4 * 1024**3 / 16 / 32 + 1024**2 / 32
    (launch,) = facts.launches
    assert (launch.blocks, launch.threads, launch.barriers, launch.occupancy) == (64 * 64, 256, 128, 1.0)
    assert json.loads(json.dumps(facts.to_dict()))["bound"] == "L1 and shared memory"
    assert "<b>matmul on NVIDIA H200" in (facts._repr_html_() or "")


@pytest.mark.parametrize(
    ("along", "sectors_a_warp", "words"),
    [("j", 4, "wider loads"), ("i", 16, "let warps run along 'j_inner' instead of 'i_inner'")],
)
def test_advice_names_the_iname_that_warps_should_run_along(along: str, sectors_a_warp: int, words: str) -> None:
    facts = pl.explain(_copy(along, "i" if along == "j" else "j"), {"n": 4096})
    assert [access.sectors for access in facts.accesses] == [sectors_a_warp] * 2
    assert words in facts.suggestions[0]


def test_bank_conflicts_are_part_of_the_bound() -> None:
    knl = DEMO_KERNELS["stencil"].build()
    facts = pl.explain(knl, {"h": 4096, "w": 4096})
    assert any("pl.swizzle" in line for line in facts.suggestions)
    padded = pl.explain(pl.add_padding(knl, "u_fetch", 0, 192), {"h": 4096, "w": 4096})
    assert padded.seconds < facts.seconds


def test_loads_that_registers_hold_are_not_counted_again() -> None:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j < 4 and 0 <= k < 8}",
        "out[i, j] = sum(k, a[i] * w[k, j])",
        [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("w", F, shape="8, 4"), ...],
        name="spread",
        assumptions="n >= 1",
    )
    knl = pl.tag_inames(pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0"), {"j": "unr"})
    facts = pl.explain(knl, {"n": 640})
    assert {access.text: access.requests for access in facts.accesses if access.direction == "load"} == {
        "a[i_inner + 64*i_outer]": 20,
        "w[k, j]": 20 * 32,
    }


def test_what_data_decides_is_noted() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "y[i] = x[idx[i]]",
        [pl.GlobalArg("x", F, shape="m"), pl.GlobalArg("idx", np.int32, shape="n"), ...],
        name="gather",
        assumptions="n >= 1",
    )
    facts = pl.explain(pl.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0"), {"n": 1 << 20, "m": 10})
    assert facts.footprints == {"y write": 4 << 20, "idx read": 4 << 20, "x read": 40}
    assert facts.is_estimate
    assert facts.notes == (
        "where 'insn' accesses 'x' is not known: one sector a warp",
        "data decides which elements of 'x' are read: 10 are supposed, another one for each access",
    )
    assert "bound by DRAM: about" in str(facts)


def test_loops_that_data_bounds_are_others_for_each_thread() -> None:
    knl = pl.make_kernel(
        ["{ [row]: 0 <= row < n }", "[begin, end] -> { [j]: begin <= j < end }"],
        """
        <> begin = starts[row]
        <> end = starts[row + 1]
        y[row] = sum(j, values[j])
        """,
        [pl.GlobalArg("starts", np.int32, shape="n + 1"), pl.GlobalArg("values", F, shape="nnz"), ...],
        name="rows",
        assumptions="n >= 1",
    )
    knl = pl.split_iname(knl, "row", 128, outer_tag="g.0", inner_tag="l.0")
    facts = pl.explain(knl, {"n": 1000, "nnz": 7000, "begin": 0, "end": 7})
    assert facts.footprints == {"y write": 4000, "starts read": 4004, "values read": 28000}
    assert [access.array for access in facts.accesses if not access.is_known] == ["values"]


@pytest.mark.nvrtc
def test_a_compiled_kernel_has_registers() -> None:
    (launch,) = pl.explain(DEMO_KERNELS["matmul"].build(), {"n": 64}, "A100", compile=True).launches
    assert launch.registers is not None
    assert launch.registers > 16


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_whole_programs_are_explained(path: Path) -> None:
    module = runpy.run_path(str(path))
    knl = module["transformed"]()
    census = census_of(knl, redundant=True)
    bounds = {name for placed in census.placement.statements.values() for name in placed.lowered.bounds}
    facts = pl.explain(knl, dict.fromkeys((*census.kernel.parameters, *bounds), 512))
    assert facts.seconds > 0
    assert json.dumps(facts.to_dict())


# }}}
# {{{ refusals


@pytest.mark.parametrize(
    ("case", "sizes", "device"),
    [("sizes", {}, "H200"), ("device", {"n": 4}, "H20"), ("assumption", {"n": 0}, "H200")],
)
def test_refusals(case: str, sizes: Mapping[str, int], device: str, golden: Golden) -> None:
    with pytest.raises(pl.ArgumentError) as caught:
        pl.explain(_copy("i", "j"), sizes, device)
    golden(f"messages/explain_{case}.txt", str(caught.value))


# }}}


def test_tensor_cores_do_what_matrix_instructions_add_up() -> None:
    facts = pl.explain(matmul_mma.transformed(), {"m": 4096, "n": 4096, "p": 4096}, "H200")
    assert {bound.resource for bound in facts.bounds} >= {"DRAM", "tensor bfloat16"}
    (tensor,) = (bound for bound in facts.bounds if bound.resource == "tensor bfloat16")
    assert tensor.amount == 2 * 4096**3
    assert {"bfloat16", "float32"}.isdisjoint(bound.resource for bound in facts.bounds)
    assert "intensity: 0" not in str(facts)


def test_statements_that_the_schedule_joined_run_where_their_instruction_does() -> None:
    case = CASES["prefix sum, one pass"]
    facts = pl.explain(case.build(), {"n": 1 << 28}, "H200")
    assert {access.launch for access in facts.accesses} <= {launch.name for launch in facts.launches}
    assert facts.bounds[0].resource == "DRAM"


def narrow(width: int) -> pl.LoopKernel:
    """Return sums of short rows, of which 128 threads copy a tile."""
    knl = pl.make_kernel(
        f"{{[i, c]: 0 <= i < n and 0 <= c < {width}}}", "y[i] = sum(c, x[i, c])",
        [pl.GlobalArg("x", np.float32, shape=f"n, {width}"), pl.GlobalArg("y", np.float32, shape="n"), ...],
    )  # fmt: skip
    knl = knl.split_iname("i", 128, outer_tag="g.0", inner_tag="l.0")
    return knl.add_prefetch("x", ["i_inner", "c"], default_tag="l.auto")


@pytest.mark.parametrize(("width", "busy"), [(3, 126), (5, 125), (7, 126)])
def test_idle_threads_of_a_copy_are_counted(width: int, busy: int) -> None:
    notes = pl.explain(narrow(width), {"n": 1 << 20}).notes
    idle = f"{128 - busy} {'are' if busy < 127 else 'is'} idle"
    assert notes == (f"'fetch_x' is executed by {busy} of the 128 threads of a block: {idle}",)


def test_where_all_threads_have_work_there_is_no_note() -> None:
    assert pl.explain(narrow(4), {"n": 1 << 20}).notes == ()
    assert pl.explain(DEMO_KERNELS["matmul"].build(), {"n": 1024}).notes == ()


def test_threads_beyond_a_small_problem_are_idle() -> None:
    (note,) = pl.explain(narrow(4), {"n": 100}).notes
    assert note == "'insn' is executed by 100 of the 128 threads of a block: 28 are idle"
