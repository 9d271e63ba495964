"""Arguments of OpenCL programs on a queue, and the times of calls there."""

# ruff: noqa: ANN401  # PyOpenCL is optional, and imported at the moment of use
from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from polyloop.runtime.opencl.devices import default_queue

__all__ = ["QueueClock", "on_queue", "queue_of", "versions_of"]


@dataclass(frozen=True, slots=True)
class QueueClock:
    """Times of the host's clock until a queue has executed all calls; many calls make the way there small."""

    queue: Any

    def seconds(self, call: Callable[[], object], repeat: int) -> float:
        """Return the time of one of *repeat* calls."""
        self.queue.finish()
        begin = time.perf_counter()
        for _ in range(repeat):
            call()
        self.queue.finish()
        return (time.perf_counter() - begin) / repeat


def queue_of(kernel: str, arch: str, sets: Sequence[Mapping[str, Any]]) -> Any:
    """Return the queue of the first array of PyOpenCL in *sets*, otherwise one of the device that *arch* names.

    Raises
    ------
    CompilerError
        ``no-opencl``.
    """
    own = (getattr(value, "queue", None) for given in sets for value in given.values())
    found = next((queue for queue in own if queue is not None), None)
    if found is not None:
        return found
    return default_queue(kernel, arch.partition(" ")[2])


def on_queue(queue: Any, sets: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return *sets* with NumPy arrays copied to the device of *queue*."""
    to_device = import_module("pyopencl.array").to_device
    return [
        {name: to_device(queue, value) if isinstance(value, np.ndarray) else value for name, value in given.items()}
        for given in sets
    ]


def versions_of(queue: Any) -> str:
    """Return the name of a queue's device, and the versions of its driver and platform."""
    device = queue.device
    return f"{device.name}, driver {device.driver_version}, {device.platform.version}"
