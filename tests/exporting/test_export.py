"""Exported libraries: built by CMake, called from C, and right; wrong calls get a status."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pymbolic import primitives as p

import polyloop as pl
from examples import dot_two_launches, matmul_processor, matmul_tiled, prefix_sum, softmax
from polyloop.exporting.conditions import DEFINITIONS, Inexpressible, as_c, bare
from polyloop.exporting.interface import Interface
from polyloop.runtime.evaluate import evaluate, names_in
from polyloop.runtime.steps import Steps
from tests.gallery import GALLERY

PROGRAM = Path(__file__).parents[2] / "examples" / "embedding" / "c_program"
has_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="CMake is not installed")


def _library(folder: Path, *kernels: pl.LoopKernel, target: Any = None) -> ctypes.CDLL:
    """Return a library of exported kernels, built by CMake."""
    pl.export(kernels, folder, target=target or pl.CTarget(), library="exported")
    _run("cmake", "-S", folder, "-B", folder / "build", "-DBUILD_SHARED_LIBS=ON", "-DCMAKE_BUILD_TYPE=Release")
    _run("cmake", "--build", folder / "build")
    return ctypes.CDLL(str(next((folder / "build").glob("libexported.*"))))


def _run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _generate() -> Any:
    spec = importlib.util.spec_from_file_location("generate", PROGRAM / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _message(library: ctypes.CDLL, name: str, status: int) -> str:
    function = getattr(library, f"{name}_message")
    function.restype = ctypes.c_char_p
    return str(function(status).decode())


def _pointer(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _workspace(library: ctypes.CDLL, name: str, *sizes: int) -> np.ndarray[Any, Any]:
    function = getattr(library, f"{name}_workspace_bytes")
    function.restype = ctypes.c_size_t
    memory = np.full(function(*sizes) + 256, 255, np.uint8)
    return memory[-memory.ctypes.data % 256 :]


@has_cmake
def test_two_kernels_in_one_library(tmp_path: Path) -> None:
    library = _library(tmp_path, matmul_tiled.transformed(), dot_two_launches.transformed())
    rng = np.random.default_rng(0)
    a, b, c = rng.random((17, 20), np.float32), rng.random((20, 33), np.float32), np.zeros((17, 33), np.float32)
    assert library.matmul_tiled_run(_pointer(a), _pointer(b), _pointer(c), 17, 20, 33) == 0
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    x, out = rng.random(100_000, np.float32), np.zeros((), np.float32)
    space = _workspace(library, "dot", len(x))
    assert library.dot_run(_pointer(x), _pointer(x), _pointer(out), len(x), _pointer(space)) == 0
    np.testing.assert_allclose(out, x @ x, rtol=1e-4)


@has_cmake
def test_a_wrong_call_changes_nothing_and_says_why(tmp_path: Path) -> None:
    library = _library(tmp_path, dot_two_launches.transformed())
    x, out = np.ones(1000, np.float32), np.full((), 7, np.float32)
    space = _workspace(library, "dot", 1000)
    a, to, memory = _pointer(x), _pointer(out), _pointer(space)
    odd, inner = ctypes.c_void_p(x.ctypes.data + 2), ctypes.c_void_p(space.ctypes.data + 64)
    for arguments, message in (
        ((a, a, to, 0, memory), "the kernel assumes n >= 1"),
        ((a, a, to, -5, memory), "an array would have a negative extent"),
        ((None, a, to, 1000, memory), "an array is a null pointer"),
        ((a, a, to, 1000, None), "an array is a null pointer"),
        ((a, a, _pointer(x[999:]), 1000, memory), "an array that is written shares memory"),
        ((a, odd, to, 10, memory), "an array is not aligned"),
        ((a, a, to, 10, inner), "an array is not aligned"),
        ((a, a, to, 2**31 - 1, memory), "does not fit into 32 bits"),
    ):
        status = library.dot_run(*arguments)
        assert status > 0
        assert message in _message(library, "dot", status)
        assert out == 7
    assert _message(library, "dot", 0) == "success"
    assert _message(library, "dot", 99) == _message(library, "dot", -1) == "unknown status"


@has_cmake
def test_threads_and_vectors(tmp_path: Path) -> None:
    library = _library(tmp_path, matmul_processor.transformed(), target=matmul_processor.TARGET)
    rng = np.random.default_rng(0)
    a, b, c = rng.random((150, 40), np.float32), rng.random((40, 390), np.float32), np.zeros((150, 390), np.float32)
    assert library.matmul_processor_run(_pointer(a), _pointer(b), _pointer(c), 150, 390, 40) == 0
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)


@has_cmake
def test_a_program_in_c(tmp_path: Path) -> None:
    generate = _generate()
    kernels, target = [generate.matvec(), generate.heat()], pl.CTarget(openmp=True)
    pl.export(kernels, tmp_path / "kernels", target=target, library="kernels")
    _run("cmake", "-S", PROGRAM, "-B", tmp_path / "build", f"-DKERNELS={tmp_path / 'kernels'}")
    _run("cmake", "--build", tmp_path / "build")
    lines = _run(tmp_path / "build" / "c_program").splitlines()
    assert lines == ["success: -2 -2", "the kernel assumes m >= 1", "success: 1.000000"]
    _run("cmake", "--install", tmp_path / "build", "--prefix", tmp_path / "installed")
    assert (tmp_path / "installed" / "include" / "heat.h").is_file()
    (package,) = (tmp_path / "installed").rglob("kernels.pc")
    assert "-lkernels" in package.read_text()


def test_the_manifest_has_what_was_written(tmp_path: Path) -> None:
    paths = pl.export(prefix_sum.transformed(), tmp_path / "deep" / "folder", target=pl.CTarget())
    found = json.loads((tmp_path / "deep" / "folder" / "manifest.json").read_text())
    assert found["format"] == 1
    assert found["library"] == "prefix_sum"
    (kernel,) = found["kernels"]
    assert kernel["function"] == "prefix_sum_run"
    assert [entry["name"] for entry in kernel["arguments"]] == ["a", "b", "n"]
    assert kernel["arguments"][0] | {"offset": 0} == {
        "name": "a", "parameter": "a", "dtype": "float32", "shape": ["n"], "strides": ["1"], "offset": 0,
        "is_input": True, "is_output": False,
    }  # fmt: skip
    others = [path for path in paths if path.name != "manifest.json"]
    assert found["files"] == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(others)}


def test_the_same_kernel_gives_the_same_files(tmp_path: Path) -> None:
    first, second = (pl.export(softmax.transformed(), tmp_path / name, target=pl.CTarget()) for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def _expressions() -> Iterator[tuple[list[str], Any]]:
    """Yield conditions, grids and extents of the gallery, each with its sizes."""
    for name in sorted(GALLERY):
        for target in (pl.CTarget(), pl.CudaTarget()):
            try:
                own = Interface(pl.generate_code(GALLERY[name].build(), target=target))
            except pl.PolyloopError:  # what a target does not take, or no interface can express
                continue
            sizes, program = {scalar.name for scalar in own.sizes}, own.program
            found = [check.condition for check in (*program.checks, *program.index_checks)]
            found += [extent for launch in program.launches for extent in launch.grid]
            found += [extent for array in own.arrays for extent in (*(array.shape or ()), *(array.strides or ()))]
            yield from ((sorted(names_in(e)), e) for e in dict.fromkeys(found) if names_in(e) <= sizes)


def test_expressions_in_c_have_the_values_of_the_library(tmp_path: Path) -> None:
    found: list[tuple[list[str], Any]] = []
    functions: list[str] = []
    for names, expression in _expressions():
        try:
            text = as_c(expression, {name: f"(polyloop_exact)v[{n}]" for n, name in enumerate(names)})
        except Inexpressible:
            continue
        functions.append(f"long long f{len(found)}(const long long *v) {{ (void)v; return (long long){text}; }}")
        found.append((names, expression))
    (tmp_path / "all.c").write_text("\n".join([DEFINITIONS, *functions]))
    _run("cc", "-shared", "-fPIC", "-O1", tmp_path / "all.c", "-o", tmp_path / "all.so")
    library, rng = ctypes.CDLL(str(tmp_path / "all.so")), np.random.default_rng(0)
    assert len(found) > 500
    for number, (names, expression) in enumerate(found):
        function = getattr(library, f"f{number}")
        function.restype = ctypes.c_longlong
        for _ in range(4):
            values = [int(rng.choice([-7, -1, 0, 1, 2, 5, 31, 32, 1000, 2**20 + 3])) for _ in names]
            given = (ctypes.c_longlong * (len(values) + 1))(*values)
            assert function(given) == evaluate(expression, dict(zip(names, values, strict=True))), str(expression)


FAKE = """
#pragma once
#include <cstdio>
#include <cstddef>
#define __global__
#define __launch_bounds__(...)
struct dim3 {
    unsigned int x, y, z;
    dim3(unsigned int a = 1, unsigned int b = 1, unsigned int c = 1) : x(a), y(b), z(c) {}
};
static dim3 blockIdx, threadIdx, gridDim;
typedef struct CUstream_st *cudaStream_t;
enum cudaError_t { cudaSuccess = 0, cudaErrorUnknown = 999 };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
static inline cudaError_t cudaFuncSetAttribute(const void *, int, int) { return cudaSuccess; }
static inline cudaError_t cudaLaunchKernel(const void *, dim3 g, dim3 b, void **a, size_t shared, cudaStream_t stream)
{
    std::printf("%u %u %u %u %u %u %d %d\\n", g.x, g.y, g.z, b.x, b.y, b.z, (int)shared, *(int *)a[COUNT]);
    return stream == nullptr ? cudaSuccess : cudaErrorUnknown;
}
"""


def test_the_launcher_for_cuda_starts_what_the_library_starts(tmp_path: Path) -> None:
    """Launches of a program with loops of the host are recorded by a runtime of our own."""
    knl, target = _generate().heat(), pl.CudaTarget("sm_90")
    pl.export(knl, tmp_path, target=target)
    (tmp_path / "cuda_runtime.h").write_text(FAKE.replace("COUNT", "2"))
    (tmp_path / "main.cpp").write_text("""
        #include <cstdio>
        #include "heat.h"
        int main() {
            static double u[3000], v[3000];
            int status = heat_run(u, v, 3000, 2, nullptr);
            std::printf("%s\\n", heat_message(status));
            status = heat_run(u, v, 3000, 1, u);
            std::printf("%s\\n", heat_message(status));
            status = heat_run(u, u, 3000, 1, nullptr);
            std::printf("%s\\n", heat_message(status));
        }
    """)
    shutil.copy(tmp_path / "heat.cu", tmp_path / "heat.cpp")
    sources = (tmp_path / "heat.cpp", tmp_path / "main.cpp")
    _run("g++", "-std=c++17", "-I", tmp_path, *sources, "-o", tmp_path / "main")
    program = pl.generate_code(knl, target=target)
    steps = list(Steps(program.launches, {"n": 3000, "steps": 2}))
    expected = [
        " ".join(map(str, (*step.grid, *step.launch.block, step.launch.dynamic_shared_bytes, 3000))) for step in steps
    ]
    assert len(expected) == 4
    lines = _run(tmp_path / "main").splitlines()
    assert lines[:5] == [*expected, "success"]
    assert lines[6] == "the device refused the launch: cudaGetLastError says why"
    assert lines[7] == "an array that is written shares memory with another one"


def test_what_the_interface_cannot_express_is_refused(tmp_path: Path) -> None:
    half = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = s*x[i]", [
        pl.GlobalArg("x, y", np.float16, shape="n"), pl.ValueArg("s", np.float16)], name="scaled")  # fmt: skip
    arguments = [pl.GlobalArg("x, y", np.float32, shape="n")]
    copy = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]", arguments, name="copy")
    refused_ones: tuple[tuple[Any, str, dict[str, Any]], ...] = (
        (half, "the number 's' of type float16 cannot be exported", {}),
        ([copy, copy], "two kernels have the name 'copy'", {}),
        ([], "there is no kernel to export", {}),
        (copy, "'2d' is no name of a library", {"library": "2d"}),
    )
    for kernels, words, more in refused_ones:
        with pytest.raises(pl.CodegenError, match=words) as refused:
            pl.export(kernels, tmp_path / "never", target=pl.CTarget(), **more)
        assert refused.value.codes[0] in ("cannot-export", "bad-library-name")
    assert not (tmp_path / "never").exists()


@has_cmake
def test_names_of_arguments_may_be_those_of_the_launcher(tmp_path: Path) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < end}", "workspace[i] = 2*status[i] + grid", [
        pl.GlobalArg("workspace, status", np.float32, shape="end"), pl.ValueArg("grid", np.float32),
        pl.ValueArg("end", np.int32)], name="names")  # fmt: skip
    library = _library(tmp_path, pl.split_iname(knl, "i", 8, outer_tag="g.0"))
    x, y = np.arange(20, dtype=np.float32), np.zeros(20, np.float32)
    assert library.names_run(_pointer(y), _pointer(x), ctypes.c_float(1), 20) == 0
    np.testing.assert_array_equal(y, 2 * x + 1)


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_a_library_for_cuda(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    kernels = [matmul_tiled.transformed(), dot_two_launches.transformed()]
    pl.export(kernels, tmp_path, target=pl.CudaTarget("sm_90"), library="gpu")
    _run("cmake", "-S", tmp_path, "-B", tmp_path / "build", "-DBUILD_SHARED_LIBS=ON", "-DCMAKE_BUILD_TYPE=Release")
    _run("cmake", "--build", tmp_path / "build")
    library = ctypes.CDLL(str(next((tmp_path / "build").glob("libgpu.*"))))
    a, b, c = (torch.rand(shape, device="cuda") for shape in ((170, 200), (200, 330), (170, 330)))
    pointers = [ctypes.c_void_p(x.data_ptr()) for x in (a, b, c)]
    assert library.matmul_tiled_run(*pointers, 170, 200, 330, None) == 0
    torch.cuda.synchronize()
    assert torch.allclose(c, a @ b, rtol=1e-3)


def test_exact_numbers() -> None:
    n = p.Variable("n")
    assert as_c(p.FloorDiv(n, 4), {"n": "n"}) == "polyloop_quotient(n, 4)"
    assert as_c(p.Product((3, -2)), {}) == "((polyloop_exact)3 * (-2))"
    assert bare("(a) + (b)") == "(a) + (b)"
    assert bare("(a + (b))") == "a + (b)"
    assert evaluate(p.FloorDiv(n, 4), {"n": -1}) == -1
