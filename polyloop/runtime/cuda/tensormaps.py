"""Descriptions of arrays for copy engines, made at each launch: those of the CUDA driver, and those of fibres."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Final

from polyloop.runtime.arguments import Binding
from polyloop.runtime.cuda.rawdriver import raw_driver
from polyloop.runtime.evaluate import evaluate
from polyloop.schedule.copy_engine import TensorMap

__all__ = ["BYTES", "driver_map", "fibre_map"]

BYTES: Final = 128
"""Size of a description: CUDA Driver API, ``CUtensorMap``."""
_ALIGNMENT: Final = 64
_KINDS: Final[Mapping[int, int]] = {1: 0, 2: 1, 4: 2, 8: 4}
"""``CUtensorMapDataType`` of unsigned integers, by their size: bits are copied as they are, and zeros are zeros."""
_TF32: Final = 11
"""``CU_TENSOR_MAP_DATA_TYPE_TFLOAT32``: the engine rounds float32 to 11 bits."""
_SWIZZLES: Final[Mapping[int, int]] = {0: 0, 128: 3}
_WIDE, _NARROW = 3, 2
"""``CU_TENSOR_MAP_L2_PROMOTION_L2_256B`` and ``.._L2_128B``: what the second-level cache reads at once."""
_WIDE_BYTES: Final = 256
_MOST_AXES: Final = 5


def _sizes(described: TensorMap, binding: Binding) -> tuple[list[int], list[int]]:
    """Return extents [elements] and strides [bytes] of one call."""
    values = dict(binding.sizes)
    values |= {name: int(value) for name, value in binding.scalars.items() if value.dtype.kind in "iu"}
    extents = [evaluate(extent, values) for extent in described.extents]
    return extents, [evaluate(stride, values) * described.dtype.itemsize for stride in described.strides]


def _promotion(strides: Sequence[int]) -> int:
    """Return the size of pieces that the cache reads; where rows begin anywhere, wide ones bring much for nothing."""
    return _NARROW if any(stride % _WIDE_BYTES for stride in strides) else _WIDE


def driver_map(described: TensorMap, binding: Binding, address: int) -> bytes:
    """Return the description of the array at *address*; zeros if nothing of it is copied.

    Raises
    ------
    Exception
        That of the CUDA library: the driver refuses the strides, or the sizes.
    """
    extents, strides = _sizes(described, binding)
    if min(extents) <= 0:
        return bytes(BYTES)
    rank = len(extents)
    room = ctypes.create_string_buffer(BYTES + _ALIGNMENT)
    place = -(-ctypes.addressof(room) // _ALIGNMENT) * _ALIGNMENT
    wide, wide_strides, narrow = ctypes.c_uint64 * rank, ctypes.c_uint64 * (rank - 1), ctypes.c_uint32 * rank
    kind = _TF32 if described.rounds else _KINDS[described.dtype.itemsize]
    raw_driver().call(
        "cuTensorMapEncodeTiled", ctypes.c_void_p(place), ctypes.c_int(kind),
        ctypes.c_uint32(rank), ctypes.c_void_p(address), wide(*extents), wide_strides(*strides[1:]),
        narrow(*described.box), narrow(*[1] * rank), ctypes.c_int(0), ctypes.c_int(_SWIZZLES[described.swizzle]),
        ctypes.c_int(_promotion(strides[1:])), ctypes.c_int(0),
    )  # fmt: skip
    return ctypes.string_at(place, BYTES)


def fibre_map(described: TensorMap, binding: Binding, address: int) -> bytes:
    """Return the description of the array at *address* that fibres read (``fibres.h``)."""
    extents, strides = _sizes(described, binding)
    rank = len(extents)
    rest = [0] * (_MOST_AXES - rank)
    found = struct.pack(
        "<Q5q5q5iHBBB", address, *(max(0, extent) for extent in extents), *rest, *strides, *rest, *described.box, *rest,
        described.swizzle, rank, described.dtype.itemsize, described.rounds,
    )  # fmt: skip
    return found.ljust(BYTES, b"\0")
