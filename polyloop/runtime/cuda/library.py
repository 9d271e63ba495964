"""The library through which the CUDA driver is reached: devices, contexts, memory, and arrays in it.

There are two, PyCUDA (``withpycuda``) and NVIDIA's ``cuda.core`` with ``cuda.bindings`` (``withcudacore``); ``choice``
says which one a process uses.  What neither offers, or offers too slowly, is called in the driver itself
(``runtime/rawdriver.py``), the same for both: launches on streams of others, graphs, cooperative launches, tensor maps.
"""
# ruff: noqa: ANN401  # the libraries have no types

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from polyloop.runtime.foreign.view import ArrayKind

__all__ = ["CudaLibrary", "NoDriverError"]


class NoDriverError(Exception):
    """The driver is not installed, or does not start."""


class CudaLibrary(ABC):
    """A library that reaches the driver; contexts, memory and functions are its objects.

    Two contexts are equal if they are the same one of the driver.  Memory has its address as ``int(memory)``, and
    ``free()``; it frees itself when it goes.

    Attributes
    ----------
    name
        ``"pycuda"`` or ``"cuda.core"``.
    arrays
        The kind of :meth:`array`.
    errors
        Types of the errors of functions of the driver.
    process
        The process that initialised the driver; one that was forked from it cannot use it.
    """

    name: ClassVar[str]
    arrays: ClassVar[ArrayKind]
    errors: tuple[type[Exception], ...]
    process: int

    # {{{ devices

    @abstractmethod
    def device_count(self) -> int:
        """Return the number of devices."""

    @abstractmethod
    def capability(self, ordinal: int) -> tuple[int, int]:
        """Return the compute capability of a device."""

    @abstractmethod
    def device_name(self, ordinal: int) -> str:
        """Return the name of a device."""

    @abstractmethod
    def driver_version(self) -> int:
        """Return the version of CUDA that the driver knows, such as 13000."""

    # }}}

    # {{{ contexts

    @abstractmethod
    def current(self) -> Any | None:
        """Return the current context of this thread."""

    @abstractmethod
    def primary(self, ordinal: int) -> Any:
        """Return the primary context of a device, which is held until :meth:`release`."""

    @abstractmethod
    def push(self, context: Any) -> None:
        """Make a context current."""

    @abstractmethod
    def pop(self) -> None:
        """Make the context current that was so before the last :meth:`push`."""

    @abstractmethod
    def release(self, context: Any) -> None:
        """Give a primary context back, for good."""

    @abstractmethod
    def ordinal(self, context: Any) -> int:
        """Return the number of the device of *context*, which is current."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until all work in the current context is done."""

    # }}}

    # {{{ memory

    @abstractmethod
    def allocate(self, nbytes: int) -> Any:
        """Return new memory in the current context."""

    @abstractmethod
    def copy_in(self, memory: Any, host: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to the GPU."""

    @abstractmethod
    def copy_out(self, host: np.ndarray[Any, Any], memory: Any) -> None:
        """Copy from the GPU to a contiguous array."""

    @abstractmethod
    def fill(self, memory: Any, byte: int, nbytes: int) -> None:
        """Set bytes of *memory*."""

    @abstractmethod
    def array(self, memory: Any, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        """Return *memory* as an array of the library; strides in bytes."""

    # }}}

    # {{{ functions

    def load(self, cubin: bytes, shared: Mapping[str, int]) -> tuple[Any, Mapping[str, Any]] | None:
        """Load a cubin; return what keeps it loaded, and its functions for :meth:`start`.

        None: the library starts nothing, and the driver itself is called.

        Parameters
        ----------
        shared
            Function -> dynamic shared memory to allow [bytes]; 0 where none has to be allowed.
        """
        del cubin, shared
        return None

    def start(self, function: Any, grid: tuple[int, int, int], block: tuple[int, int, int], parameters: bytes, *,
              shared: int, stream: Any) -> None:
        """Launch a function of :meth:`load`, on a stream of the library; None: the default stream."""
        raise AssertionError(f"'{self.name}' loads no functions")

    # }}}

    @abstractmethod
    def failure(self, message: str) -> Exception:
        """Return the error of a function of the driver that failed."""
