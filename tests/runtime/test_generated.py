"""Generated programs on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime import generated
from polyloop.target import source


@pytest.fixture
def on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POLYLOOP_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("POLYLOOP_PROGRAM_CACHE", "1")
    return tmp_path


def twice(factor: int = 2) -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b", np.float64, shape="n"), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", f"b[i] = {factor}*a[i]", data)


def test_a_program_is_generated_once(on_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = generated.generated(twice(), pl.CTarget())
    assert first == pl.generate_code(twice(), pl.CTarget())
    made: list[pl.LoopKernel] = []
    whole = source.generate_code

    def generate(knl: pl.LoopKernel, *rest: Any, **more: Any) -> pl.GeneratedProgram:
        made.append(knl)
        return whole(knl, *rest, **more)

    monkeypatch.setattr(source, "generate_code", generate)
    assert generated.generated(twice(), pl.CTarget()) == first
    assert not made
    generated.generated(twice(), pl.CudaTarget())  # each of these is another program
    generated.generated(twice(), pl.CTarget(), 64)
    generated.generated(twice(3), pl.CTarget())
    assert len(made) == 3
    monkeypatch.setattr(generated, "_package", lambda: "another version")
    generated.generated(twice(), pl.CTarget())
    assert len(made) == 4
    monkeypatch.setenv("POLYLOOP_PROGRAM_CACHE", "0")
    generated.generated(twice(), pl.CTarget())
    assert len(made) == 5


def test_an_entry_that_is_damaged_is_made_again(on_disk: Path) -> None:
    first = generated.generated(twice(), pl.CTarget())
    (file,) = on_disk.glob("*/program.json")
    file.write_bytes(file.read_bytes().replace(b"a", b"b", 1))
    assert generated.generated(twice(), pl.CTarget()) == first
    assert pl.loads(file.read_bytes()) == first


def test_warnings_come_from_the_disk_as_well(on_disk: Path) -> None:
    data = [pl.GlobalArg("a, b", np.float64, shape="n"), pl.TemporaryVariable("t", np.float64, shape=8), ...]
    text = "for i\nt[i % 8] = a[i]\nb[i] = t[i % 8]\nend"

    def noted() -> list[str]:
        knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            generated.generated(pl.tag_inames(knl, "i:g.0"), pl.CudaTarget())
        return [str(entry.message) for entry in found]

    assert noted() == noted()


@pytest.mark.slow
def test_a_process_that_finds_its_programs_imports_no_code_generation(on_disk: Path) -> None:
    script = ("import sys, numpy, polyloop as pl; knl = pl.make_kernel('{[i]: 0 <= i < n}', 'b[i] = 2*a[i]'); "
              "print(knl(a=numpy.arange(3.)).b, 'polyloop.codegen.generate' in sys.modules)")
    command = [sys.executable, "-c", script]
    run = [subprocess.run(command, env=os.environ, text=True, capture_output=True, check=True).stdout for _ in "12"]
    assert run == ["[0. 2. 4.] True\n", "[0. 2. 4.] False\n"]
