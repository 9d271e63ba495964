"""The programs of ``examples/embedding`` inside of PyTorch, JAX and SciPy, run as their READMEs say."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from tests.interop.libraries import required

ROOT = Path(__file__).parents[2]
PROGRAMS = [
    ("torch", "torch_module/module.py", [], "10 steps on "),
    ("jax", "jax_layer/layer.py", [], "10 steps, 5 batches, on "),
    ("scipy", "sparse_cg/solve.py", ["40"], "1600 unknowns: "),
    ("torch", "sparse_cg/solve_gpu.py", ["20"], "400 unknowns on "),
]


@pytest.mark.parametrize(("library", "program", "arguments", "words"), PROGRAMS)
def test_a_program_runs_and_agrees_with_the_library(
    library: str, program: str, arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    required(library)
    path = ROOT / "examples/embedding" / program
    assert f"python {path.name}" in (path.parent / "README.md").read_text(encoding="utf-8")
    monkeypatch.syspath_prepend(path.parent)
    monkeypatch.setattr(sys, "argv", [str(path), *arguments])
    monkeypatch.delitem(sys.modules, "kernels", raising=False)  # each program has one
    runpy.run_path(str(path), run_name="__main__")
    monkeypatch.delitem(sys.modules, "kernels")
    monkeypatch.delitem(sys.modules, "solve", raising=False)
    printed = capsys.readouterr().out
    assert words in printed
    assert "agree" in printed
