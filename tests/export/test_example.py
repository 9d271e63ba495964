"""The program in C of ``examples/embedding``: built by CMake, run, compared with NumPy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "examples/embedding/c_program"


@pytest.fixture(scope="module")
def poisson(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built program."""
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("CMake is not installed")
    folder = tmp_path_factory.mktemp("poisson")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for command in (
        [cmake, "-S", str(PROGRAM), "-B", str(folder), f"-DPython3_EXECUTABLE={sys.executable}"],
        [cmake, "--build", str(folder)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "poisson"


@pytest.mark.parametrize(("n", "steps"), [(3, 1), (17, 5), (130, 20)])
def test_it_solves_as_numpy_does(poisson: Path, tmp_path: Path, n: int, steps: int) -> None:
    file = tmp_path / "u.bin"
    done = subprocess.run([poisson, str(n), str(steps), str(file)], capture_output=True, text=True, check=True)
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
