"""Engines between processes: Gloo through torch.distributed, and MPI through mpi4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import polyloop as pl

ROOT = Path(__file__).parents[2]
WORKER = [sys.executable, "-m", "tests.distributed.worker"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
               "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
needs_mpi = pytest.mark.skipif(find_spec("mpi4py") is None or MPIEXEC is None, reason="mpi4py is not installed")


def gloo(what: str, size: int, folder: Path, backend: str = "gloo") -> list[str]:
    """Run the worker on ranks of torch.distributed, and return what each printed."""
    store = folder / f"store-{what}"
    ranks = [subprocess.Popen([*WORKER, backend, what, str(store), str(rank), str(size)], cwd=ROOT, env=ENVIRONMENT,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(size)]
    try:
        results = [rank.communicate(timeout=300) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * size, "\n".join(error for _, error in results)
    return [out.strip() for out, _ in results]


def mpi(what: str, size: int) -> list[str]:
    """Run the worker on ranks of MPI, and return the lines that they printed."""
    assert MPIEXEC is not None
    done = subprocess.run([MPIEXEC, "-n", str(size), *WORKER, "mpi", what], cwd=ROOT, env=ENVIRONMENT,
                          capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall("equal|done|ranks-disagree", done.stdout)  # lines of ranks may come as one


@needs_torch
@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow),
                                  pytest.param(4, marks=pytest.mark.slow)])
def test_all_programs_run_on_ranks_of_gloo(size: int, tmp_path: Path) -> None:
    assert gloo("all", size, tmp_path) == ["equal"] * size


@needs_torch
def test_tensors_and_dtensors_are_parts(tmp_path: Path) -> None:
    assert gloo("tensors", 2, tmp_path) == [
        "distribute on kernel 'heat': 'u' is placed as (Shard(1)), and the division has (Shard(0)) [wrong-placement]\n"
        "  Hint: u.redistribute(placements=[Shard(0)])\ndone"] * 2


@needs_torch
@pytest.mark.slow
def test_the_benchmark_of_ranks_runs_on_processors() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "benchmarks.ranks", "--backend",
         "gloo", "--small", "--repeats", "1"],
        cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("bytes sent as counted") == 6
    assert done.stdout.count("efficiency") == 4


@needs_torch
def test_a_rank_that_ends_is_an_error_of_its_neighbour(tmp_path: Path) -> None:
    first, _ = gloo("lost", 2, tmp_path)
    assert first == "rank-lost"


@needs_torch
def test_other_sizes_are_found_at_the_first_call(tmp_path: Path) -> None:
    assert gloo("disagree", 2, tmp_path) == ["ranks-disagree\ndone"] * 2


@needs_torch
@pytest.mark.gpu
@pytest.mark.parametrize("size", [1, 2])
def test_all_programs_run_on_gpus_through_nccl(size: int, tmp_path: Path) -> None:
    torch: Any = import_module("torch")
    if torch.cuda.device_count() < size:
        pytest.skip(f"{torch.cuda.device_count()} GPUs are here")
    assert gloo("all", size, tmp_path, "nccl") == ["equal"] * size


@needs_torch
@pytest.mark.gpu
def test_a_gpu_whose_rank_ends_is_an_error_of_its_neighbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = import_module("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip(f"{torch.cuda.device_count()} GPUs are here")
    monkeypatch.setitem(ENVIRONMENT, "TORCH_NCCL_BLOCKING_WAIT", "1")
    first, _ = gloo("lost", 2, tmp_path, "nccl")
    assert first == "rank-lost"


@needs_mpi
@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow),
                                  pytest.param(4, marks=pytest.mark.slow)])
def test_all_programs_run_on_ranks_of_mpi(size: int) -> None:
    assert mpi("all", size) == ["equal"] * size


@needs_mpi
def test_other_sizes_are_found_through_mpi() -> None:
    assert sorted(mpi("disagree", 2)) == ["done", "done", "ranks-disagree", "ranks-disagree"]


@needs_mpi
@pytest.mark.slow
def test_an_error_of_a_rank_ends_all_ranks_of_mpi() -> None:
    """Without an end by force, MPI would wait at the end of each process for what the others still await."""
    assert MPIEXEC is not None
    done = subprocess.run([MPIEXEC, "-n", "3", *WORKER, "mpi", "fail"], cwd=ROOT, env=ENVIRONMENT,
                          capture_output=True, text=True, errors="replace", check=False, timeout=120)
    assert done.returncode != 0
    assert "ValueError: of this rank" in done.stderr
    assert "rank-lost" in done.stderr


@pytest.mark.parametrize(("make", "library"), [(pl.TorchEngine, "torch"), (pl.MpiEngine, "mpi4py.MPI")])
def test_an_engine_without_its_library_says_so(
    make: type[pl.TorchEngine | pl.MpiEngine], library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(pl.CommunicationError) as err:
        make()
    assert err.value.codes == ("no-engine",)
