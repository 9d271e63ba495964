"""Counters of blocks that arrive: memory that is 0 before each run of a program, and after it.

Calls on one stream run one after the other, so that they can share counters; those on two streams cannot.  A stream is
known by its number in the driver, which no later one has (CUDA Driver API, ``cuStreamGetId``).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable
from typing import Any, Final

from polyloop.runtime.arguments import Workspace
from polyloop.runtime.cuda.library import CudaLibrary
from polyloop.runtime.cuda.rawdriver import RawDriver

__all__ = ["Counters"]

_MOST_STREAMS: Final = 64


class Counters:
    """The counters of a program in one context, for each stream that it is called on."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, str], list[tuple[Any, int]]] = {}
        self._lock = threading.Lock()

    def on(self, driver: RawDriver, library: CudaLibrary, handle: int, arrays: Iterable[Workspace]) -> dict[str, int]:
        """Return the addresses of *arrays* of zeros for calls on a stream, in the current context.

        There are none for arrays that each call has to allocate: where the work of the stream is captured, and may run
        on any stream later, where there are many streams, or the driver does not number them.
        """
        wanted = [array for array in arrays if array.zeroed]
        if not wanted or not driver.has("cuStreamGetId") or driver.is_captured(handle):
            return {}
        number = ctypes.c_ulonglong()
        driver.call("cuStreamGetId", ctypes.c_void_p(handle), ctypes.byref(number))
        with self._lock:
            return {array.name: address for array in wanted
                    if (address := self._of(driver, library, handle, (number.value, array.name), array.nbytes))}

    def _of(self, driver: RawDriver, library: CudaLibrary, handle: int, key: tuple[int, str], nbytes: int) -> int:
        kept = self._kept.get(key, [])
        if kept and kept[-1][1] >= nbytes:
            return int(kept[-1][0])
        if not kept and len(self._kept) >= _MOST_STREAMS:
            return 0
        size = max(256, 1 << (nbytes - 1).bit_length())
        memory = library.allocate(size)
        driver.call("cuMemsetD8Async", ctypes.c_uint64(int(memory)), ctypes.c_ubyte(0), ctypes.c_size_t(size),
                    ctypes.c_void_p(handle))
        self._kept[key] = [*kept, (memory, size)]  # earlier calls may still use what is smaller
        return int(memory)
