"""Programs as PolyBench has them: the kernel and the C by hand find the same, also where tiles are cut."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from benchmarks.polybench.run import PROGRAMS, TARGET, by_hand, main

_CHEAP = {"recursive"}


def test_there_are_twenty() -> None:
    assert len({program.name for program in PROGRAMS}) == 20


@pytest.mark.parametrize(
    "name", [p.name if p.name in _CHEAP else pytest.param(p.name, marks=pytest.mark.slow) for p in PROGRAMS]
)
def test_both_find_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    program = next(program for program in PROGRAMS if program.name == name)
    run = pl.compile(program.build(), target=TARGET)
    for n in (7, 21) if "heat" in name or "doitgen" in name else (9, 150, 261):
        ours, theirs = program.inputs(n), program.inputs(n)
        run(**ours)
        by_hand(program, n)(theirs)()
        for array, value in ours.items():
            np.testing.assert_allclose(value, theirs[array], rtol=1e-9, atol=1e-12, err_msg=array)


def test_an_unknown_program_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["gemmm"])
    assert "no program 'gemmm'; programs: gemm, " in capsys.readouterr().err
