"""What ``explain`` says, held against a real GPU: no kernel beats its bound, and the driver holds as many blocks."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from benchmarks.gpu.cases import CASES
from benchmarks.gpu.device import Device
from polyloop.cli.kernels import DEMO_KERNELS
from polyloop.cost.occupancy import occupancy
from polyloop.kernel.devices import DEVICES, MULTIPROCESSORS
from polyloop.runtime.gpu import device_architecture, gpu_available
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.runtime.resources import read_cubin
from polyloop.schedule.build import build_schedule

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_available()[0], reason=f"no GPU: {gpu_available()[1]}"),
]


def _name() -> str:
    name = Device().name
    if not any(short in name for short in DEVICES):
        pytest.skip(f"there is no table of {name}")
    return name


@pytest.mark.parametrize("name", sorted(CASES))
def test_no_kernel_is_faster_than_its_bound(name: str) -> None:
    device, case, arch = Device(), CASES[name], device_architecture() or "sm_90"
    if case.arch == f"{arch}a":
        arch = case.arch
    elif case.arch.endswith("a"):
        pytest.skip(f"{arch} has no instructions of {case.arch}")
    (sizes, *_) = case.sizes
    knl = case.build()
    if any(statement.bounds for statement in build_schedule(knl, pl.CudaTarget(arch).limits).statements.values()):
        pytest.skip("data decides how long its loops are")
    facts = pl.explain(knl, sizes, _name())
    inputs = case.inputs(sizes, np.random.default_rng(0))
    arrays = {key: device.array(value) if isinstance(value, np.ndarray) else value for key, value in inputs.items()}
    run = pl.compile(knl, target=pl.CudaTarget(arch)).bind(**arrays)
    assert 1e-3 * device.milliseconds([run]) > 0.97 * facts.seconds


@pytest.mark.parametrize("name", sorted(DEMO_KERNELS))
def test_the_driver_holds_as_many_blocks(name: str) -> None:
    arch = device_architecture() or ""
    capability = int(arch.removeprefix("sm_"))
    if capability not in MULTIPROCESSORS:
        pytest.skip(f"there are no limits of {arch}")
    Device()  # a context
    driver: Any = importlib.import_module("cuda.bindings.driver")
    cubin = compile_cuda(pl.generate_code(DEMO_KERNELS[name].build()).device_code, arch).cubin
    image = read_cubin(cubin)[name]
    _, module = driver.cuModuleLoadData(cubin)
    _, function = driver.cuModuleGetFunction(module, name.encode())
    for threads in (32, 64, 96, 128, 192, 256):
        for dynamic in (0, 1000, 8 * 1024, 24 * 1024, 40 * 1024):
            status, blocks = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, dynamic)
            assert int(status) == 0
            held = occupancy(capability, threads, image.registers, image.shared_bytes + dynamic)
            assert held is not None
            assert held.blocks == blocks, (threads, dynamic, image.registers)
