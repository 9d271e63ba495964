"""Calls that were checked before: found again by everything that the checks looked at, launched as they were packed.

A call from Python that is checked afresh costs more than most small kernels run for.  What the checks and the packing
of arguments depend on is the *key* of a call: of each array its address, type, shape and strides, of each number its
type and its bits.  A second call with the same key needs none of them.  No key holds an array, so nothing is kept
alive; an address that another array of the same layout has taken over is as good as before.
"""
# ruff: noqa: ANN401  # arrays of libraries without types

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

__all__ = ["MOST_REPEATS", "PackedCall", "call_key"]

MOST_REPEATS: Final = 1024
"""Calls that one kernel remembers."""


@dataclass(frozen=True, slots=True)
class PackedCall:
    """All launches of a call with their arguments packed.

    Attributes
    ----------
    launches
        Called in order, with the handle of a stream; False: the context of the launch is not current.
    stream
        Gives the stream that the arrays' library is using.
    """

    launches: Sequence[Callable[[int], bool]]
    stream: Callable[[], int] | None = None

    def run(self, stream: int | None) -> bool:
        """Launch everything, by default on the stream that the arrays' library is using.

        Returns False where nothing was launched, because another context is current.
        """
        if stream is None:
            stream = 0 if self.stream is None else self.stream()
        for number, launch in enumerate(self.launches):
            if not launch(stream):
                assert number == 0, "the context changed between two launches of one call"
                return False
        return True


def call_key(arguments: Mapping[str, Any]) -> tuple[object, ...] | None:
    """Return what tells a call from others, None where an argument is of a kind that has no key."""
    key: list[object] = []
    for name, value in arguments.items():
        kind = type(value)
        probe = _PROBES.get(kind, _UNSEEN)
        if probe is _UNSEEN:
            probe = _PROBES[kind] = _probe(kind)
        found = None if probe is None else probe(value)
        if found is None:
            return None
        key += (name, kind, found)
    return tuple(key)


def _numpy_key(array: np.ndarray[Any, Any]) -> object:
    if not array.shape:
        return None  # may be passed as a number, and then its address says nothing
    interface = array.__array_interface__
    return interface["data"], array.dtype, array.shape, array.strides


def _torch_key(tensor: Any) -> object:
    # neg and conj: views whose memory holds other values than they have
    return (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.is_neg(), tensor.is_conj())


def _cupy_key(array: Any) -> object:
    return array.data.ptr, array.dtype, array.shape, array.strides


def _pycuda_key(array: Any) -> object:
    return None if array.gpudata is None else (int(array.gpudata), array.dtype, array.shape, array.strides)


def _bits(number: np.generic) -> object:
    return number.tobytes()


def _same(number: object) -> object:
    return number


_Probe = Callable[[Any], object]

_LIBRARIES: Final[Mapping[tuple[str, str], _Probe]] = {
    ("torch", "Tensor"): _torch_key,
    ("torch", "Parameter"): _torch_key,
    ("cupy", "ndarray"): _cupy_key,
    ("pycuda", "GPUArray"): _pycuda_key,
}


def _probe(kind: type) -> _Probe | None:
    """Return how to take the key of a value of type *kind*."""
    if issubclass(kind, np.generic) and not issubclass(kind, np.void):
        return _bits
    return _LIBRARIES.get((kind.__module__.partition(".")[0], kind.__qualname__))


def _UNSEEN(_: Any) -> object:  # noqa: N802  # a mark, never called
    raise AssertionError("not a probe")


_PROBES: Final[dict[type, _Probe | None]] = {
    np.ndarray: _numpy_key,
    int: _same,
    bool: _same,
    float: struct.Struct("d").pack,  # -0.0 equals 0.0, and has other bits
    complex: lambda value: struct.pack("dd", value.real, value.imag),
}
