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
        ours = program.inputs(n)
        run(**ours)
        for text in filter(None, (program.text, program.tiles)):
            theirs = program.inputs(n)
            by_hand(program, n, text)(theirs)()
            for array, value in ours.items():
                np.testing.assert_allclose(value, theirs[array], rtol=1e-9, atol=1e-12, err_msg=array)


@pytest.mark.parametrize("threads", ["2", "8"])
def test_steps_of_time_are_tiled_for_few_threads(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    program = next(program for program in PROGRAMS if program.name == "jacobi_1d")
    ours, theirs = program.inputs(9000), program.inputs(9000)
    text = pl.generate_code(program.build(), target=TARGET).device_code
    assert ("int front" in text) == (threads == "2")
    pl.compile(program.build(), target=TARGET)(**ours)
    by_hand(program, 9000, program.tiles)(theirs)()
    for array, value in ours.items():
        np.testing.assert_allclose(value, theirs[array], rtol=1e-12, err_msg=array)


def test_an_unknown_program_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["gemmm"])
    assert "no program 'gemmm'; programs: gemm, " in capsys.readouterr().err
