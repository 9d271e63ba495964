"""Parameter buffers of the functions of a cubin."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from polyloop.codegen.program import DeviceLaunch, GeneratedProgram
from polyloop.runtime.arguments import Binding
from polyloop.runtime.cuda.tensormaps import driver_map
from polyloop.runtime.packed import Passed
from polyloop.runtime.resources import KernelImage
from polyloop.runtime.steps import Step

__all__ = ["Cell", "Parameters"]

Cell = tuple[int, type[Any]]
"""Place of a number in a parameter buffer: its offset [bytes], and its type of ctypes."""


class Parameters:
    """Makes the parameter buffers of launches, laid out as a cubin says.

    Parameters
    ----------
    images
        The functions of the cubin.
    """

    def __init__(self, images: Mapping[str, KernelImage]) -> None:
        self._images = images

    def of_step(
        self, step: Step, pointers: Mapping[str, int], binding: Binding, known: dict[str, bytes]
    ) -> bytes:
        """Return the buffer of one launch; *known* keeps those of functions for the next iterations."""
        name = step.launch.name
        if name not in known:
            known[name] = self.pack(step, pointers, binding)
        own = self.own(step, binding)
        if not own:
            return known[name]
        buffer = bytearray(known[name])
        for offset, data in own:
            buffer[offset : offset + len(data)] = data
        return bytes(buffer)

    def own(self, step: Step, binding: Binding) -> tuple[tuple[int, bytes], ...]:
        """Return the values of the inames of one launch as bytes, each with its offset [bytes]."""
        launch, layout = step.launch, self._images[step.launch.name].parameters
        found = []
        for (offset, size), name in zip(layout, launch.arguments, strict=True):
            if name in step.inames:
                data = binding.scalar(name, step).tobytes()
                assert len(data) == size, f"'{name}' has {len(data)} bytes, and its parameter {size}"
                found.append((offset, data))
        return tuple(found)

    def pack(self, step: Step, pointers: Mapping[str, int], binding: Binding) -> bytes:
        """Return the whole buffer of one launch."""
        launch = step.launch
        layout = self._images[launch.name].parameters
        assert len(layout) == len(launch.arguments), f"'{launch.name}' has {len(layout)} parameters in its cubin"
        buffer = bytearray(max((offset + size for offset, size in layout), default=0))
        maps = {described.name: described for described in launch.maps}
        for name, (offset, size) in zip(launch.arguments, layout, strict=True):
            if name in maps:
                data = driver_map(maps[name], binding, pointers[maps[name].array])
            else:
                data = np.uint64(pointers[name]).tobytes() if name in pointers else binding.scalar(name, step).tobytes()
            assert len(data) == size, f"'{name}' has {len(data)} bytes, and its parameter {size}"
            buffer[offset : offset + size] = data
        return bytes(buffer)

    def common(
        self, program: GeneratedProgram, pointers: Mapping[str, int], binding: Binding
    ) -> dict[str, bytes]:
        """Return the buffer of each function of *program*, with 0 for what :meth:`own` says of one launch."""
        first = (Step(launch, (1, 1, 1), {loop.iname: 0 for loop in launch.around}) for launch in program.launches)
        return {step.launch.name: self.pack(step, pointers, binding) for step in first}

    def cells(self, launch: DeviceLaunch, passed: Passed) -> list[Cell | None]:
        """Return, for each value that launches take, its place in the buffer of one; None if that is not passed it."""
        places = dict(zip(launch.arguments, self._images[launch.name].parameters, strict=True))
        found: list[Cell | None] = []
        for name, kind in passed.kinds.items():
            place = places.get(name)
            if place is not None:
                assert ctypes.sizeof(kind) == place[1], f"'{name}' has a parameter of another size"
            found.append(None if place is None else (place[0], kind))
        return found
