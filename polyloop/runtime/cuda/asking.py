"""Calls whose loops end as memory says: the host reads elements between launches."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from typing import Final

import numpy as np

from polyloop.codegen.program import AskedElement
from polyloop.runtime.arguments import Binding
from polyloop.runtime.cuda.parameters import Parameters
from polyloop.runtime.cuda.rawdriver import RawDriver
from polyloop.runtime.evaluate import Read
from polyloop.runtime.packed import Launch

__all__ = ["AskingCall", "reader"]

_ELSEWHERE: Final = 201
"""The driver's status for another context, CUDA_ERROR_INVALID_CONTEXT: nothing was launched."""
_MOST_KEPT: Final = 4096
"""Launches of a call that are kept with their arguments packed."""


def reader(driver: RawDriver, binding: Binding, pointers: Mapping[str, int], stream: int) -> Read | None:
    """Return the function that reads an element of memory once the work on *stream* is done.

    None if nothing can be read, as the work is captured: then all iterations are launched.
    """
    if driver.is_captured(stream):
        return None

    def read(element: AskedElement) -> np.generic:
        into, size = np.empty(1, element.dtype), element.dtype.itemsize
        place = ctypes.c_uint64(pointers[element.array] + element.place * size)
        driver.call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(into.ctypes.data), place, ctypes.c_size_t(size),
                    ctypes.c_void_p(stream or None))
        driver.synchronize(stream)
        found: np.generic = into[0]
        return found

    return read


class AskingCall:
    """A bound call that reads at each repetition; launches that it met are kept with their arguments packed.

    Parameters
    ----------
    functions
        The driver's handles, by name.
    """

    def __init__(
        self, driver: RawDriver, functions: Mapping[str, ctypes.c_void_p], binding: Binding,
        pointers: Mapping[str, int], *, parameters: Parameters,
    ) -> None:  # fmt: skip
        self._driver, self._functions, self._binding, self._pointers = driver, functions, binding, pointers
        self._parameters, self._context = parameters, driver.current_context()
        self._known: dict[tuple[object, ...], Launch] = {}

    def on(self, stream: int) -> Launch:
        """Return a function that launches on *stream*."""
        return functools.partial(self._launch, stream)

    def _launch(self, stream: int) -> int:
        if self._driver.current_context() != self._context:
            return _ELSEWHERE
        own = dict[str, bytes]()
        for step in self._binding.launches.asking(reader(self._driver, self._binding, self._pointers, stream)):
            launch = step.launch
            passed = (value for name, value in step.inames.items() if name in launch.arguments)
            key = (stream, launch.name, step.grid, *passed)
            found = self._known.get(key)
            if found is None:
                found = self._driver.prepared(
                    self._functions[launch.name], step.grid, launch.block, shared=launch.dynamic_shared_bytes,
                    parameters=self._parameters.of_step(step, self._pointers, self._binding, own))(stream)
                if len(self._known) < _MOST_KEPT:
                    self._known[key] = found
            if status := found():
                return status
        return 0
