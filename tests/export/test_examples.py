"""Examples, exported: their results as bundles, and their launchers for CUDA, compiled as C."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.nvrtc import compile_cuda
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


def _headers() -> Path | None:
    """Return the folder of ``cuda_fp16.h``: that of a wheel, or of the toolkit."""
    wheels = importlib.util.find_spec("nvidia")
    places = [Path(place) for place in (wheels.submodule_search_locations or () if wheels is not None else ())]
    found = [file.parent for place in places for file in place.glob("*/include/cuda_fp16.h")]
    toolkits = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    toolkits += [Path("/usr/local/cuda"), *Path("/usr/local").glob("cuda-*")]
    found += [place / "include" for place in toolkits if (place / "include/cuda_fp16.h").is_file()]
    return next(iter(found), None)


HEADERS = _headers()


def _stored(dtype: object) -> pl.LoopKernel:
    """Return a kernel that widens, rounds, exchanges between threads and updates atomically."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < 256}", "y[i] = max(j, x[i, j])\nz[into[i]] += x[i, 0] {atomic}\nw[i] = d[i]",
        [pl.GlobalArg("x", dtype, shape="n, 256"), pl.GlobalArg("y, w", dtype, shape="n"),
         pl.GlobalArg("z", dtype, shape="m"), pl.GlobalArg("d", np.float64, shape="n"),
         pl.GlobalArg("into", np.int32, shape="n"), pl.ValueArg("m, n", np.int32)], name="stored",
    )  # fmt: skip
    return knl.split_iname("j", 32, inner_tag="l.0").tag_inames({"i": "g.0"})


def _products(dtype: object) -> pl.LoopKernel:
    """Return a kernel that packs elements for matrix instructions."""
    knl = pl.make_kernel("{[i, j, k]: 0 <= i < 16 and 0 <= j < 8 and 0 <= k < 16}",  # one warp
                         "c[i, j] = sum(k, a[i, k]*b[k, j]) {id=product}",
                         [pl.GlobalArg("a, b", dtype), pl.GlobalArg("c", np.float32)], name="stored")  # fmt: skip
    return knl.tensorize("id:product", "mma_m16n8k16_bf16")


@pytest.mark.skipif(HEADERS is None, reason="needs the headers of CUDA")
@pytest.mark.nvrtc
@pytest.mark.parametrize(("make", "dtype"), [(_stored, "float16"), (_stored, "bfloat16"), (_products, "bfloat16")])
def test_exported_text_has_the_types_of_cuda(
    tmp_path: Path, make: Callable[[object], pl.LoopKernel], dtype: str
) -> None:
    """The machine code is that of the text without headers, of which bundles are made where there is no toolkit."""
    header, ctype = {"float16": ("cuda_fp16.h", "__half"), "bfloat16": ("cuda_bf16.h", "__nv_bfloat16")}[dtype]
    knl, target = make(dtype), pl.CudaTarget("sm_90")
    text = (pl.export(knl, tmp_path, target, bundle=True) / "stored_kernel.cu").read_text()
    assert text.count(f"#include <{header}>") == 1
    assert f"{ctype} *__restrict__" in text
    code = re.sub(r"//.*", "", text)
    assert re.search(r"\bb?float16\b|\.bits", code) is None
    made = compile_cuda(text, "sm_90", build=pl.CudaTarget("sm_90", options=[f"-I{HEADERS}"]).build)
    assert f".entry {knl.name}_kernel(" in made.ptx
    assert sorted(_instructions(made.ptx)) == sorted(_instructions((tmp_path / "stored.ptx").read_text()))


def _instructions(ptx: str) -> list[str]:
    """Return what converts, exchanges, updates and multiplies."""
    return re.findall(r"\b(?:shfl|atom|mma|st\.global|ld\.global)\.[\w.:]+", ptx)


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
    included = re.findall(r"#include <(\w+.h)>", (folder / "it_kernel.cu").read_text())
    assert sorted(included) == ["cuda_bf16.h", "cuda_fp16.h"]
    build(folder, *WARNINGS, "-Wno-unused-function", f"-I{FAKE}", "-c", "it.c")
    (tmp_path / "use.cu").write_text(HALVES)
    assert NVCC is not None
    for file in ("it_kernel.cu", "use.cu"):
        command = [NVCC, "-arch=sm_80", "-c", file]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
