"""Examples, exported: their results as bundles, and their launchers for CUDA, compiled as C."""

from __future__ import annotations

import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.export.test_source import FAKE, GCC, WARNINGS, build

NAMES = (
    "argmin_two_launches",  # records in temporary arrays
    "csr_warps", "matmul_batched", "prefix_sum", "segmented_scan",
    "softmax_halves", "spectral_laplacian", "stencil_3d_vectors",
    "flash_attention",  # much shared memory
)  # fmt: skip
NVCC = shutil.which("nvcc")
pytestmark = pytest.mark.skipif(GCC is None, reason="GCC is not installed")


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMES)
def test_bundles_of_examples_compute_what_numpy_says(tmp_path: Path, name: str) -> None:
    example: Any = import_module(f"examples.{name}")
    run = pl.load(pl.export(example.transformed(), tmp_path, pl.CTarget(), bundle=True))
    for sizes in example.SIZES[:3]:
        arrays = example.inputs(np.random.default_rng(1), **sizes)
        wanted = example.expected(**arrays)
        found = run(**{key: value.copy() if isinstance(value, np.ndarray) else value for key, value in arrays.items()})
        for output, want in wanted.items():
            scale = float(np.max(np.abs(want), initial=0))
            difference = np.asarray(found[output]).astype(np.asarray(want).dtype) - want
            assert float(np.max(np.abs(difference), initial=0)) <= getattr(example, "RTOL", 1e-5) * scale


@pytest.mark.parametrize("name", NAMES)
def test_launchers_of_examples_are_compiled(tmp_path: Path, name: str) -> None:
    example: Any = import_module(f"examples.{name}")
    knl = example.transformed()
    pl.export(knl, tmp_path, pl.CudaTarget(getattr(example, "ARCH", "sm_80")), prefix="it")
    build(tmp_path, *WARNINGS, "-Wno-unused-function", f"-I{FAKE}", "-c", "it.c")


HALVES = """
#include "it.h"
static __half *of(it_float16 *x) { return x; }
static const __nv_bfloat16 *of(const it_bfloat16 *x) { return x; }
int call(__half *x, const __nv_bfloat16 *y) { return it(of(x), of(y), 5, 0); }
"""


@pytest.mark.skipif(NVCC is None, reason="needs nvcc")
@pytest.mark.nvrtc
def test_halves_are_the_standard_types_in_cpp(tmp_path: Path) -> None:
    arguments = [pl.GlobalArg("x", np.float16), pl.GlobalArg("y", "bfloat16"), pl.ValueArg("n", np.int32)]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "x[i] = 2*y[i]", arguments)
    knl = knl.split_iname("i", 64, outer_tag="g.0", inner_tag="l.0")
    folder = pl.export(knl, tmp_path, pl.CudaTarget("sm_80"), prefix="it")
    build(folder, *WARNINGS, "-Wno-unused-function", f"-I{FAKE}", "-c", "it.c")
    (tmp_path / "use.cu").write_text(HALVES)
    assert NVCC is not None
    for file in ("it_kernel.cu", "use.cu"):
        command = [NVCC, "-arch=sm_80", "-c", file]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
