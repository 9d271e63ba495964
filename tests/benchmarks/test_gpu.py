"""The benchmark's kernels are right and compile; what it prints has a line for each figure."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import polyloop as pl
from benchmarks.__main__ import BENCHMARKS
from benchmarks.__main__ import main as benchmarks_main
from benchmarks.gpu import handwritten, run
from benchmarks.gpu.case import Random
from benchmarks.gpu.cases import CASES
from benchmarks.gpu.device import Device, _driver_version
from benchmarks.gpu.peers import PEERS, load_peers
from benchmarks.gpu.report import Figure, Run, as_json, as_markdown, as_table, from_json, with_run
from polyloop.kernel.devices import DEVICES
from polyloop.runtime.gpu import gpu_available
from polyloop.runtime.nvrtc import compile_cuda

UNROLLED = {"prefix sum, one pass", *(name for name in CASES if "GEMM" in name)}
"""Programs whose C text takes compilers up to a minute; their recipes run on fibres as programs of ``examples/``."""
IN_C = [pytest.param(name, marks=pytest.mark.slow) if name in UNROLLED else name for name in CASES]


@pytest.mark.parametrize("name", IN_C)
def test_each_kernel_is_what_it_says(name: str) -> None:
    case = CASES[name]
    inputs = case.inputs(case.small, np.random.default_rng(0))
    got = pl.compile(case.build(), target=pl.CTarget())(**inputs)
    for output, (at, values) in case.expected(inputs).items():
        assert run.relative_error(np.asarray(getattr(got, output)), at, values) < case.rtol
    assert case.moved(case.small) > 0


@pytest.mark.few(8)
@pytest.mark.nvrtc
@pytest.mark.parametrize("name", CASES)
def test_each_kernel_compiles(name: str) -> None:
    text = pl.generate_code(CASES[name].build(), target=CASES[name].target).device_code
    assert compile_cuda(text, CASES[name].arch).cubin


def test_peers_do_work_that_is_measured() -> None:
    assert {case for peer in PEERS.values() for case in peer.calls} <= set(CASES)


def test_a_peer_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    load = importlib.import_module

    def only_ours(name: str) -> object:
        if name != "benchmarks.gpu.handwritten":
            raise ImportError(name)
        return load(name)

    monkeypatch.setattr("benchmarks.gpu.peers.importlib.import_module", only_ours)
    found, missing = load_peers()
    assert list(found) == ["CUDA C"]
    assert missing == ["torch", "cupy", "triton"]


@pytest.mark.nvrtc
@pytest.mark.parametrize(("name", "macros"), [
    ("copy", ()), ("transpose", ()), ("stencil", ()), ("gemm", ("EXACT=0",)), ("gemm", ("EXACT=1",)),
    ("softmax", ("THREADS=64", "VECTORS=4")), ("softmax", ("THREADS=1024", "VECTORS=4")),
    ("row_sums", ("LANES=8", "VECTORS=1")), ("row_sums", ("LANES=256", "VECTORS=16")), ("csr_product", ("LANES=8",)),
    ("floyd_warshall", ()),
])
def test_what_is_written_by_hand_compiles(name: str, macros: tuple[str, ...]) -> None:
    assert handwritten.compiled(name, "sm_90", *macros).cubin


def test_the_version_of_the_driver_is_found(tmp_path: Path) -> None:
    path = tmp_path / "version"
    assert _driver_version(path) == "unknown"
    path.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\nGCC 12.2.0\n")
    assert _driver_version(path) == "580.159.04"


def test_every_unit_has_a_peak_rate() -> None:
    assert all(DEVICES["H200"].rate(case.unit) is not None for case in CASES.values())


def test_large_arrays_are_random_to_their_ends() -> None:
    rng = Random(np.random.PCG64(0))
    for draw in (rng.random, rng.standard_normal):
        first, second = (draw((3, 2**20 + 1), np.float32) for _ in range(2))
        assert first.dtype == np.float32
        assert len(np.unique(first)) > 2**20
        assert (first != second).mean() > 0.99
    assert rng.random() != rng.random()


FIGURES = [
    Figure("copy", "n=268435456", {"polyloop": 0.5, "torch": 0.51}, 2**31, 0, 0.0, 0.499),
    Figure("fp32 GEMM", "n=4096", {"polyloop": 4.0}, 3 * 2**26, 2 * 4096**3, 1e-7, 2.7, {"triton": 0.25}),
]
RUN = Run(FIGURES, {"date": "2026-11-21", "device": "a GPU"}, {"copy [TB/s]": 4.284}, ["torch"], ["cupy"])


def test_the_table_has_a_line_for_each_figure() -> None:
    lines = as_table(FIGURES, ["torch"]).splitlines()
    assert lines[2] == "| copy | n=268435456 | 0.500 ms | 4.29 TB/s | 0.510 ms | 102 % | 100 % | 0.0e+00 |"
    assert lines[3] == "| fp32 GEMM | n=4096 | 4.000 ms | 34.4 TFLOP/s | - | - | 68 % | 1.0e-07 |"
    assert {line.count("|") for line in lines} == {9}


def test_the_text_names_what_is_not_in_the_table() -> None:
    assert as_markdown(RUN).splitlines()[:4] == [
        "2026-11-21, device a GPU; copy 4.284 TB/s.",
        "Not on this machine, and left out: cupy.",
        "fp32 GEMM, n=4096: triton differs by 2.5e-01 and is left out.",
        "",
    ]


def test_a_run_is_saved_and_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "run.json"
    saved.write_text(as_json(RUN))
    assert from_json(saved.read_text()) == RUN
    assert run.main(["--saved", str(saved)]) == 0
    assert capsys.readouterr().out == as_markdown(RUN) + "\n"


def test_the_documentation_has_a_place_for_the_newest_run() -> None:
    document = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text()
    once = with_run(document, RUN)
    assert as_markdown(RUN) in once
    assert with_run(once, RUN) == once
    assert once.count("## ") == document.count("## ")


def test_an_element_that_was_not_written_is_an_error() -> None:
    assert run.relative_error(np.array([1, np.nan]), [0], np.array([1.0])) == float("inf")


@pytest.mark.parametrize(("got", "expected", "error"), [
    ([1.0, 2.0], [1.0, 2.0], 0.0), ([0.0, 0.0], [0.0, 0.0], 0.0), ([1.0, 3.0], [1.0, 2.0], 0.5),
    ([1.0, np.inf], [1.0, 2.0], np.inf), ([1.0, 2.0], [1.0, np.nan], np.inf), ([1.0, 2.0], [0.0, 0.0], np.inf),
])  # fmt: skip
def test_errors_are_numbers(got: list[float], expected: list[float], error: float) -> None:
    with np.errstate(all="ignore"):
        assert run.relative_error(np.array(got), [0, 1], np.array(expected)) == error


@pytest.mark.parametrize("error", [1.0, float("inf"), float("nan")])
def test_what_is_wrong_is_said_and_not_written(
    error: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = next(iter(CASES))
    assert not run.is_right(replace(FIGURES[0], kernel=name, error=error))
    saved, document = tmp_path / "run.json", tmp_path / "docs" / "benchmarks.md"
    document.parent.mkdir()
    text = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text()
    document.write_text(text)
    monkeypatch.setattr(run, "_ROOT", tmp_path)
    for right in (False, True):
        figures = [replace(FIGURES[0], kernel=name, error=0.0 if right else error)]
        saved.write_text(as_json(replace(RUN, figures=figures)))
        assert run.main(["--saved", str(saved), "--write"]) == int(not right)
        assert (f"{name}, n=268435456: the result is wrong" in capsys.readouterr().err) != right
        assert (document.read_text() == text) != right


@pytest.mark.parametrize("name", CASES)
def test_data_is_rotated_past_the_cache(name: str) -> None:
    l2_bytes = 60 * 2**20  # of an H200
    for sizes in CASES[name].sizes:
        assert CASES[name].moved(sizes) * run.sets_of(CASES[name], sizes, l2_bytes) >= 2 * l2_bytes


@pytest.mark.skipif(gpu_available()[0], reason="there is a GPU")
def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks_main(["gpu"]) == 2
    assert capsys.readouterr().err.startswith("no GPU: ")
    assert benchmarks_main([]) == 2
    assert f"{{{','.join(BENCHMARKS)}}}" in capsys.readouterr().err


def test_rivals_and_their_data_are_taken_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    device = object.__new__(Device)
    seen: list[str] = []

    def timed(_: Device, call: Callable[[], object]) -> float:
        call()
        return float(len(seen))

    monkeypatch.setattr(Device, "_timed", timed)
    monkeypatch.setattr(Device, "synchronize", lambda _: seen.clear())
    rivals = [[partial(seen.append, f"{name}{number}") for number in range(3)] for name in "ab"]
    assert device.in_turn(rivals) == [20.0, 21.0]
    assert seen[:7] == ["a0", "b1", "a2", "b0", "a1", "b2", "a0"]
    assert len(seen) == 40
    assert device.milliseconds(rivals[0]) == 10.5


@pytest.mark.gpu
def test_a_small_run_on_a_gpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    small = {name: replace(case, sizes=(case.small,)) for name, case in CASES.items()}
    monkeypatch.setattr("benchmarks.gpu.run.CASES", small)
    assert run.main(["--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["figures"]) == len(CASES)
