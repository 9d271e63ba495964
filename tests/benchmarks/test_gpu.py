"""The benchmark's kernels are right and compile; what it prints has a line for each figure."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import polyloop as pl
from benchmarks.__main__ import BENCHMARKS
from benchmarks.__main__ import main as benchmarks_main
from benchmarks.gpu import run
from benchmarks.gpu.cases import CASES
from benchmarks.gpu.peers import PEERS
from benchmarks.gpu.report import Figure, as_json, as_table
from polyloop.runtime.gpu import gpu_available
from polyloop.runtime.nvrtc import compile_cuda


@pytest.mark.parametrize("name", CASES)
def test_each_kernel_is_what_it_says(name: str) -> None:
    case = CASES[name]
    inputs = case.inputs(case.small, np.random.default_rng(0))
    got = pl.compile(case.build(), target=pl.CTarget())(**inputs)
    for output, (at, values) in case.expected(inputs).items():
        assert run.relative_error(np.asarray(getattr(got, output)), at, values) < case.rtol
    assert case.moved(case.small) > 0


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", CASES)
def test_each_kernel_compiles(name: str) -> None:
    text = pl.generate_code(CASES[name].build(), target=pl.CudaTarget()).device_code
    assert compile_cuda(text, "sm_90").cubin


def test_peers_do_work_that_is_measured() -> None:
    assert {case for calls, _ in PEERS.values() for case in calls} <= set(CASES)


FIGURES = [
    Figure("copy", "n=268435456", {"polyloop": 0.5, "torch": 0.51}, 2**31, 0, 0.0, 0.499),
    Figure("fp32 GEMM", "n=4096", {"polyloop": 4.0}, 3 * 2**26, 2 * 4096**3, 1e-7, 2.7),
]


def test_the_table_has_a_line_for_each_figure() -> None:
    lines = as_table(FIGURES, ["torch"]).splitlines()
    assert lines[2] == "| copy | n=268435456 | 0.500 ms | 4.29 TB/s | 0.510 ms | 102 % | 100 % | 0.0e+00 |"
    assert lines[3] == "| fp32 GEMM | n=4096 | 4.000 ms | 34.4 TFLOP/s | - | - | 68 % | 1.0e-07 |"
    assert {line.count("|") for line in lines} == {9}


def test_json_has_the_figures_and_the_facts() -> None:
    found = json.loads(as_json(FIGURES, {"device": "a GPU"}))
    assert found["device"] == "a GPU"
    assert [figure["times"] for figure in found["figures"]] == [{"polyloop": 0.5, "torch": 0.51}, {"polyloop": 4.0}]


def test_an_element_that_was_not_written_is_an_error() -> None:
    assert run.relative_error(np.array([1, np.nan]), [0], np.array([1.0])) == float("inf")


@pytest.mark.skipif(gpu_available()[0], reason="there is a GPU")
def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks_main(["gpu"]) == 2
    assert capsys.readouterr().err.startswith("no GPU: ")
    assert benchmarks_main([]) == 2
    assert f"{{{','.join(BENCHMARKS)}}}" in capsys.readouterr().err


@pytest.mark.gpu
def test_a_small_run_on_a_gpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    small = {name: replace(case, sizes=(case.small,)) for name, case in CASES.items()}
    monkeypatch.setattr("benchmarks.gpu.run.CASES", small)
    assert run.main(["--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["figures"]) == len(CASES)
