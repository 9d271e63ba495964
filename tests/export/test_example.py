"""The programs in C and C++ of ``examples/embedding``: built by CMake, run, compared with NumPy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from polyloop.runtime.gpu import device_architecture, gpu_available

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples/embedding"


def built(program: str, folder: Path, *options: str, needs: tuple[str, ...] = ("cmake",)) -> Path:
    """Return the built program."""
    if missing := [name for name in needs if shutil.which(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    for command in (
        ["cmake", "-S", str(PROGRAMS / program), "-B", str(folder), f"-DPython3_EXECUTABLE={sys.executable}", *options],
        ["cmake", "--build", str(folder)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "poisson"


@pytest.fixture(scope="module")
def poisson(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program in C."""
    return built("c_program", tmp_path_factory.mktemp("poisson"))


@pytest.fixture(scope="module")
def poisson_on_gpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program in C++."""
    arch = device_architecture() or "sm_90"
    return built("cuda_program", tmp_path_factory.mktemp("poisson"), f"-DARCH={arch}", needs=("cmake", "nvcc"))


@pytest.fixture(scope="module")
def poisson_in_cpp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program in C++ for the processor."""
    return built("cpp_program", tmp_path_factory.mktemp("poisson"))


def test_it_solves_in_cpp(poisson_in_cpp: Path, tmp_path: Path) -> None:
    solved(poisson_in_cpp, tmp_path / "u.bin", 37, 5)
    done = subprocess.run([poisson_in_cpp, "2", "1", tmp_path / "u.bin"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "jacobi_step: the kernel assumes n >= 3 (status 6001)\n")


@pytest.mark.few(1)
@pytest.mark.parametrize(("n", "steps"), [(3, 1), (17, 5), (130, 20)])
def test_it_solves_as_numpy_does(poisson: Path, tmp_path: Path, n: int, steps: int) -> None:
    solved(poisson, tmp_path / "u.bin", n, steps)


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "steps"), [(3, 1), (17, 5), (130, 20), (1500, 4)])
def test_it_solves_on_a_gpu(poisson_on_gpu: Path, tmp_path: Path, n: int, steps: int) -> None:
    solved(poisson_on_gpu, tmp_path / "u.bin", n, steps)


def test_nvcc_builds_the_program_for_a_gpu(poisson_on_gpu: Path, tmp_path: Path) -> None:
    """Without a GPU, it says so."""
    done = subprocess.run([poisson_on_gpu, "2", "1", tmp_path / "u.bin"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    if gpu_available()[0]:
        assert done.stderr == "jacobi_step: the kernel assumes n >= 3 (status 6001)\n"
    else:
        assert done.stderr.startswith(("CUDA driver version is insufficient", "no CUDA-capable device"))


def solved(program: Path, file: Path, n: int, steps: int) -> None:
    """Run *program* and compare what it writes and prints with NumPy."""
    done = subprocess.run([program, str(n), str(steps), str(file)], capture_output=True, text=True, check=True)
    f, u = 1.0 / np.arange(1, n * n + 1, dtype=np.float64).reshape(n, n), np.zeros((n, n))
    for _ in range(steps):
        new = np.zeros_like(u)
        new[1:-1, 1:-1] = 0.25 * (f[1:-1, 1:-1] + u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        u = new
    np.testing.assert_allclose(np.fromfile(file).reshape(n, n), u, rtol=1e-13, atol=1e-15)
    left = f[1:-1, 1:-1] + u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    np.testing.assert_allclose(float(done.stdout), np.sum(left**2), rtol=1e-12)


def test_a_size_that_was_not_assumed_is_a_status(poisson: Path, tmp_path: Path) -> None:
    done = subprocess.run([poisson, "2", "1", str(tmp_path / "u.bin")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "jacobi_step: the kernel assumes n >= 3 (status 6001)\n"
    assert not (tmp_path / "u.bin").exists()
