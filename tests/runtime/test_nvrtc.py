from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from polyloop.errors import CompilerError
from polyloop.runtime import nvrtc
from polyloop.runtime.nvrtc import compile_cuda, resources
from polyloop.runtime.resources import Occupancy, architecture, occupancy, read_cubin
from tests.runtime.programs import AXPY_CUDA, TRANSPOSE_CUDA

SPILLING = """\
extern "C" __global__ void __launch_bounds__(1024, 2) spilling(float* a, const int n)
{
    float t[80];
#pragma unroll
    for (int i = 0; i < 80; i++)
        t[i] = a[i * n + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 80; i++)
        a[(i + 7) * n + threadIdx.x] = t[i] * t[(i + 1) % 80];
}
"""
MIXED = """\
extern "C" __global__ void mixed(char flag, double2 z, float* a) { a[0] = flag + z.y; }
"""


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_cubin_and_ptx_come_from_one_compilation(arch: str) -> None:
    compiled = compile_cuda(AXPY_CUDA, arch)
    assert f".target {arch}" in compiled.ptx
    assert ".entry axpy(" in compiled.ptx
    assert architecture(compiled.cubin) == int(arch[3:])
    assert list(read_cubin(compiled.cubin)) == ["axpy"]


@pytest.mark.nvrtc
def test_a_program_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLYLOOP_CACHE_DIR", str(tmp_path / "cache"))
    first = compile_cuda(AXPY_CUDA)

    def fail(*_: object) -> None:
        raise AssertionError("compiled twice")

    monkeypatch.setattr(nvrtc, "_compile", fail)
    assert compile_cuda(AXPY_CUDA) == first
    with pytest.raises(AssertionError):
        compile_cuda(AXPY_CUDA, "sm_80")
    with pytest.raises(AssertionError):
        compile_cuda(AXPY_CUDA, options=("--fmad=false",))


@pytest.mark.nvrtc
def test_a_refused_source_is_shown_with_its_lines() -> None:
    with pytest.raises(CompilerError) as err:
        compile_cuda('extern "C" __global__ void k(float* a)\n{\n    a[0] = undeclared;\n}\n')
    text = str(err.value)
    assert err.value.codes == ("nvrtc-failed",)
    assert text.startswith("compile: NVRTC refused the generated source [nvrtc-failed]\n"
                           "  Note: status: NVRTC_ERROR_COMPILATION, options: --gpu-architecture=sm_90")
    assert 'kernel.cu(3): error: identifier "undeclared" is undefined' in text
    assert ">    3 |     a[0] = undeclared;" in text


@pytest.mark.nvrtc
def test_an_unknown_architecture_is_an_error() -> None:
    with pytest.raises(CompilerError) as err:
        compile_cuda(AXPY_CUDA, "sm_12")
    assert err.value.codes == ("nvrtc-failed",)


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> ModuleType:
        raise ImportError(f"No module named '{name}'")

    nvrtc._load.cache_clear()
    monkeypatch.setattr(importlib, "import_module", absent)
    try:
        with pytest.raises(CompilerError) as err:
            compile_cuda(AXPY_CUDA)
    finally:
        nvrtc._load.cache_clear()
    assert str(err.value) == """\
compile: NVRTC, the CUDA compiler library, is not installed [no-nvrtc]
  Note: ImportError: No module named 'cuda.bindings.nvrtc'
  Hint: pip install "polyloop[cuda]\""""


@pytest.mark.nvrtc
def test_parameters_lie_where_the_cubin_says() -> None:
    assert read_cubin(compile_cuda(MIXED).cubin)["mixed"].parameters == ((0, 1), (16, 16), (32, 8))


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_resources_of_what_nvrtc_makes(arch: str) -> None:
    found = resources(compile_cuda(TRANSPOSE_CUDA, arch).cubin, {"transpose": 256})["transpose"]
    assert found.shared_bytes == 16 * 17 * 4
    assert found.local_bytes == 0
    assert 8 <= found.registers <= 64
    assert found.occupancy == Occupancy(8, 64, 1.0, "threads")
    assert resources(compile_cuda(SPILLING, arch).cubin)["spilling"].local_bytes > 0


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_resources_are_those_that_ptxas_reports(arch: str, tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("there is no nvcc")
    (tmp_path / "k.cu").write_text(AXPY_CUDA + TRANSPOSE_CUDA + SPILLING)
    done = subprocess.run([nvcc, f"-arch={arch}", "-Xptxas", "-v", "-cubin", "-o", "k.cubin", "k.cu"], cwd=tmp_path,
                          capture_output=True, text=True, check=True)
    reported = {}
    for part in done.stderr.split("Compiling entry function '")[1:]:
        registers = re.search(r"Used (\d+) registers", part)
        stack = re.search(r"(\d+) bytes stack frame", part)
        shared = re.search(r"(\d+) bytes smem", part)
        assert registers is not None
        assert stack is not None
        reported[part.partition("'")[0]] = (int(registers[1]), int(shared[1]) if shared else 0, int(stack[1]))
    read = resources((tmp_path / "k.cubin").read_bytes())
    assert {name: (r.registers, r.shared_bytes, r.local_bytes) for name, r in read.items()} == reported
    assert reported.keys() == {"axpy", "transpose", "spilling"}
    assert reported["spilling"][2] > 0


# From the CUDA Occupancy Calculator's rules, by hand.
@pytest.mark.parametrize(("arch", "threads", "registers", "shared", "expected"), [
    (90, 256, 32, 0, Occupancy(8, 64, 1.0, "threads")),
    (90, 256, 128, 0, Occupancy(2, 16, 0.25, "registers")),
    (90, 256, 33, 0, Occupancy(6, 48, 0.75, "registers")),  # 40 registers a thread: 48 warps of 1280
    (90, 32, 16, 0, Occupancy(32, 32, 0.5, "blocks")),
    (90, 128, 32, 100 * 1024, Occupancy(2, 8, 0.125, "shared memory")),
    (80, 128, 32, 81 * 1024, Occupancy(2, 8, 0.125, "shared memory")),
    (80, 128, 32, 82 * 1024, Occupancy(1, 4, 0.0625, "shared memory")),
    (80, 1000, 32, 0, Occupancy(2, 64, 1.0, "threads")),
    (90, 1024, 65, 0, Occupancy(0, 0, 0.0, "registers")),
])
def test_occupancy(arch: int, threads: int, registers: int, shared: int, expected: Occupancy) -> None:
    assert occupancy(arch, threads, registers, shared) == expected


def test_occupancy_of_an_unknown_architecture_is_unknown() -> None:
    assert occupancy(35, 256, 32, 0) is None
