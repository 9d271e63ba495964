"""Both libraries that reach the CUDA driver, and the choice between them.

What holds of each is in ``library_cases.py``: it runs in a process of its own for each library on a GPU, and with
``cuda.core`` on a driver that is made for it (``fake_driver``), under the real ``cuda.bindings``.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from polyloop.errors import CompilerError
from polyloop.runtime.ccompile import find_compiler
from polyloop.runtime.cuda.choice import VARIABLE, cuda_library
from tests.runtime.fake_machine import FakePycuda
from tests.runtime.fake_pycuda import FakeDriver

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
has_core = pytest.mark.skipif(
    not sys.platform.startswith("linux") or importlib.util.find_spec("cuda") is None
    or importlib.util.find_spec("cuda.core") is None, reason="cuda.core is not installed")


def cases(backend: str, tmp_path: Path, **more: str) -> str:
    """Run the cases with a library; return the report."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(HERE / "library_cases.py")]
    environment = {**os.environ, VARIABLE: backend, "POLYLOOP_CACHE_DIR": str(tmp_path / "cache"), **more}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def fake_driver(folder: Path) -> Path:
    """Build the driver that is not there."""
    library = folder / "libcuda.so.1"
    command = [*find_compiler("c").command, "-shared", "-fPIC", "-O1", "-o", str(library),
               str(HERE / "fake_driver" / "libcuda.c"), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


@has_core
@pytest.mark.nvrtc
def test_cuda_core_on_a_driver_that_is_not_there(tmp_path: Path) -> None:
    library = fake_driver(tmp_path)
    paths = f"{tmp_path}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    report = cases("cuda.core", tmp_path, LD_LIBRARY_PATH=paths, POLYLOOP_FAKE_DRIVER=str(library))
    assert "passed" in report
    assert "failed" not in report


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["pycuda", "cuda.core"])
def test_gpu_cases_of_each_library(backend: str, tmp_path: Path) -> None:
    pytest.importorskip("pycuda.driver" if backend == "pycuda" else "cuda.core")
    print(cases(backend, tmp_path))


def test_a_library_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "cupy")
    cuda_library.cache_clear()
    with pytest.raises(CompilerError) as error:
        cuda_library()
    assert str(error.value) == (
        "call: POLYLOOP_CUDA_BACKEND='cupy' is no library that kernels are launched through [unknown-cuda-backend]\n"
        "  Hint: libraries: pycuda, cuda.core\n"
        "  Hint: unset POLYLOOP_CUDA_BACKEND to use the first that is installed")


def test_pycuda_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with FakePycuda(FakeDriver({})):
        assert cuda_library().name == "pycuda"
