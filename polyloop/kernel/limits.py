"""Device limits, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from polyloop.display import Shown, brief

__all__ = ["WARP_SIZE", "DeviceLimits"]

WARP_SIZE: Final = 32
"""Threads of a warp, on every CUDA device [threads]."""


@dataclass(frozen=True)
class DeviceLimits(Shown):
    """Limits that schedules and generated code must respect.

    The defaults hold for every CUDA device of compute capability 5.0 to 12.1: CUDA C++ Programming Guide,
    "Technical Specifications per Compute Capability", and "Shared Memory" of each capability.

    Attributes
    ----------
    max_threads_per_block
        Product of the block's extents [threads].
    max_block_dims
        Extent of a block along x, y, z [threads].
    max_grid_dims
        Extent of a grid along x, y, z [blocks].
    shared_bytes
        Shared memory of one block, static and dynamic [bytes].
    static_shared_bytes
        Shared memory that can be declared; a kernel with more takes it as one array of which the launch says the size
        [bytes].
    local_bytes
        Private arrays of one thread [bytes].
    warp_size
        Threads in a row that are a warp, which can wait for each other by themselves; 1 where there are no warps.
    has_shuffles
        Whether the threads of a warp can read each other's registers.
    has_threads
        Whether threads run at the same time, so that an idle one may execute dead instances.
    has_one_shape
        Whether the blocks of all launches of a program have one shape, as those of one launch have.
    """

    max_threads_per_block: int = 1024
    max_block_dims: tuple[int, int, int] = (1024, 1024, 64)
    max_grid_dims: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    shared_bytes: int = 48 * 1024
    static_shared_bytes: int = 48 * 1024
    local_bytes: int = 512 * 1024
    warp_size: int = WARP_SIZE
    has_shuffles: bool = False
    has_threads: bool = True
    has_one_shape: bool = False

    __repr__ = brief
