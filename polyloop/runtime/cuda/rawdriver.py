"""Functions of the CUDA driver that its libraries do not offer, or offer too slowly, with the errors of the library."""

from __future__ import annotations

import functools

from polyloop.runtime.cuda.choice import cuda_library, refuse_forked
from polyloop.runtime.cuda.driver import DriverFunctions

__all__ = ["RawDriver", "raw_driver"]


class RawDriver(DriverFunctions):
    """Driver functions called through ctypes: those that take other libraries' streams, or have to be cheap."""

    def _error(self, name: str, status: int) -> Exception:
        refuse_forked()
        return cuda_library().failure(f"{name} failed: {self.text_of(status)}")


@functools.lru_cache(maxsize=1)
def raw_driver() -> RawDriver:
    """Return the functions of the driver library of this process."""
    return RawDriver()
