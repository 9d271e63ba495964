"""Storage shared by several temporaries, for brute force."""

from __future__ import annotations

from polyloop.dataflow.address_spaces import place
from polyloop.expr.dtypes import DType
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.testing.symbols import UnsupportedError

__all__ = ["shared_pools"]


def shared_pools(kernel: LoopKernel) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the storage and the strides of each temporary in shared memory that shares it with another."""
    spaces = place(kernel).spaces
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    types: dict[str, DType | None] = {}
    for name, temporary in kernel.temporaries.items():
        if temporary.base_storage is not None and spaces[name] is AddressSpace.LOCAL:
            strides = temporary.strides()
            if types.setdefault(temporary.base_storage, temporary.dtype) != temporary.dtype:
                raise UnsupportedError("storage shared by several types")
            if not all(isinstance(stride, int) for stride in strides):
                raise UnsupportedError("shared storage of unknown strides")
            found[name] = (f"(storage {temporary.base_storage})", tuple(int(stride) for stride in strides))
    return found
