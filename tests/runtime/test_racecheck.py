"""Each derived barrier is needed: without it the order of threads decides, and compute-sanitizer says so."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from polyloop.codegen.program import GeneratedProgram
from polyloop.runtime.fibres import run_on_fibres
from tests.runtime.hazards import HAZARDS, Hazard, needed, sample, without_barrier

ROOT = Path(__file__).parents[2]
BARRIERS = {
    "matmul": 2, "halo": 1, "with_an_idle_barrier": 2, "double_buffer": 1, "loaded_ahead": 2, "warp_exchange": 1,
    "both_kinds": 2,
}  # fmt: skip
CASES = [(name, number) for name, count in BARRIERS.items() for number in range(count)]


def is_right(hazard: Hazard, program: GeneratedProgram) -> bool:
    """Return whether every order of threads gives the expected result."""
    return all(
        np.allclose(result[name], wanted, rtol=1e-5)
        for seed in range(3)
        for result in run_on_fibres(program, hazard.arguments, seed=seed).values()
        for name, wanted in hazard.expected.items()
    )


@pytest.mark.parametrize("name", HAZARDS)
def test_the_untouched_text_is_right_in_every_order(name: str) -> None:
    hazard, program = sample(name)
    assert is_right(hazard, program)
    assert len(re.findall(r"__sync\w+\(\);", program.device_code)) == len(needed(hazard.kernel)) == BARRIERS[name]


@pytest.mark.parametrize(("name", "number"), CASES)
def test_without_a_barrier_it_is_wrong_in_some_order_just_if_that_is_needed(name: str, number: int) -> None:
    hazard, program = sample(name)
    assert is_right(hazard, without_barrier(program, number)) != needed(hazard.kernel)[number]


def test_of_all_these_barriers_one_is_idle() -> None:
    idle = [(name, number) for name, number in CASES if not needed(sample(name)[0].kernel)[number]]
    assert idle == [("with_an_idle_barrier", 1)]


def hazards(*arguments: str) -> int:
    """Return how many hazards racecheck sees in a run of ``tests.runtime.hazards``."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        pytest.skip("compute-sanitizer is not on PATH")
    command = [tool, "--tool", "racecheck", "--racecheck-report", "all"]
    command += [sys.executable, "-m", "tests.runtime.hazards", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    summary = re.search(r"RACECHECK SUMMARY: (\d+) hazards? displayed", done.stdout)
    assert summary is not None, done.stdout + done.stderr
    return int(summary[1])


@pytest.mark.gpu
@pytest.mark.parametrize("name", HAZARDS)
def test_racecheck_finds_nothing_in_the_untouched_text(name: str) -> None:
    assert hazards(name) == 0


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "number"), CASES)
def test_racecheck_misses_a_barrier_just_if_it_is_needed(name: str, number: int) -> None:
    assert (hazards(name, str(number)) > 0) == needed(sample(name)[0].kernel)[number]
