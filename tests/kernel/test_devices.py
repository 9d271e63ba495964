"""The published figures of a device agree with each other."""

from __future__ import annotations

import pytest

from polyloop.kernel.devices import DEVICES

# Operations of one multiprocessor in a clock: lanes, and dense operations of its four tensor cores (the white papers)
LANES = {80: 64, 90: 128}
TENSOR_FLOAT16 = {80: 2048, 90: 4096}
TENSOR_CLOCK = {80: 1.41e9, 90: 1.83e9}


# The same of a compute unit of AMD, of a workgroup processor for gfx1100, which issues two operations at once
UNITS = {"gfx90a": 64, "gfx942": 128, "gfx1100": 256}
MATRIX_FLOAT16 = {"gfx90a": 1024, "gfx942": 2048, "gfx1100": 1024}


@pytest.mark.parametrize("name", [name for name, device in DEVICES.items() if isinstance(device.architecture, str)])
def test_rates_of_amd_are_those_of_the_compute_units(name: str) -> None:
    device = DEVICES[name]
    assert isinstance(device.architecture, str)
    rates = {kind: found.value for kind, found in device.rates.items()}
    clocks = device.multiprocessors * device.clock.value
    assert rates["float32"] == pytest.approx(2 * UNITS[device.architecture] * clocks, rel=5e-3)
    assert rates["tensor float16"] == rates["tensor bfloat16"] == pytest.approx(
        MATRIX_FLOAT16[device.architecture] * clocks, rel=5e-3
    )
    assert device.wavefronts == clocks * (2 if device.architecture == "gfx1100" else 1)
    assert all(found.source for found in device.rates.values())
    special = device.rate("special functions")
    assert special is not None
    assert "AMD" in special.source


@pytest.mark.parametrize("name", [name for name, device in DEVICES.items() if isinstance(device.architecture, int)])
def test_rates_are_those_of_the_multiprocessors(name: str) -> None:
    device = DEVICES[name]
    assert isinstance(device.architecture, int)
    rates = {kind: found.value for kind, found in device.rates.items()}
    lanes = 2 * LANES[device.architecture] * device.multiprocessors * device.clock.value
    tensor = TENSOR_FLOAT16[device.architecture] * device.multiprocessors * TENSOR_CLOCK[device.architecture]
    assert rates["float32"] == pytest.approx(lanes, rel=2e-3)
    assert rates["float64"] == pytest.approx(lanes / 2, rel=6e-3)
    assert rates["tensor float64"] == pytest.approx(rates["float32"])
    assert rates["tensor float16"] == rates["tensor bfloat16"] == pytest.approx(tensor, rel=2e-3)
    assert rates["tensor tf32"] == pytest.approx(tensor / 2, rel=2e-3)
    assert all(found.source for found in device.rates.values())
