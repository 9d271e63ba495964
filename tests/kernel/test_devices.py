"""The published figures of a device agree with each other."""

from __future__ import annotations

import pytest

from polyloop.kernel.devices import DEVICES

# Operations of one multiprocessor in a clock: lanes, and dense operations of its four tensor cores (the white papers)
LANES = {80: 64, 90: 128}
TENSOR_FLOAT16 = {80: 2048, 90: 4096}
TENSOR_CLOCK = {80: 1.41e9, 90: 1.83e9}


@pytest.mark.parametrize("name", DEVICES)
def test_rates_are_those_of_the_multiprocessors(name: str) -> None:
    device = DEVICES[name]
    rates = {kind: found.value for kind, found in device.rates.items()}
    lanes = 2 * LANES[device.architecture] * device.multiprocessors * device.clock.value
    tensor = TENSOR_FLOAT16[device.architecture] * device.multiprocessors * TENSOR_CLOCK[device.architecture]
    assert rates["float32"] == pytest.approx(lanes, rel=2e-3)
    assert rates["float64"] == pytest.approx(lanes / 2, rel=6e-3)
    assert rates["tensor float64"] == pytest.approx(rates["float32"])
    assert rates["tensor float16"] == rates["tensor bfloat16"] == pytest.approx(tensor, rel=2e-3)
    assert rates["tensor tf32"] == pytest.approx(tensor / 2, rel=2e-3)
    assert all(found.source for found in device.rates.values())
