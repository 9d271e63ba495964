"""The benchmark of verification runs and reports; growth is checked by counts, which do not depend on the machine."""

from __future__ import annotations

import json

import pytest

import polyloop as pl
from benchmarks.verification import main, pipeline, unproven
from polyloop.schedule.build import build_verified


@pytest.mark.usefixtures("young_heap")
def test_the_benchmark_reports_every_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--repeat", "1", "--longest", "10", "--json"]) == 0
    timings = json.loads(capsys.readouterr().out)
    assert [timing["kernel"] for timing in timings] == ["product", "pipeline of 10"]
    assert all(timing["ms"] > 0 and timing["relations"] > 10 for timing in timings)
    assert main(["--repeat", "1", "--longest", "10"]) == 0
    assert "120 ms for the pipeline of 30" in capsys.readouterr().out


def test_a_pipeline_of_twice_the_length_takes_twice_the_relations() -> None:
    counts = []
    for stages in (10, 20):
        proofs = build_verified(unproven(pipeline(stages)), pl.CudaTarget().limits).proofs
        counts.append((len(proofs), sum(proof.relations for proof in proofs)))
    (few, small), (many, large) = counts
    assert many <= 2 * few
    assert large <= 2.1 * small
