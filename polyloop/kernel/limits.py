"""What a device can do, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DeviceLimits"]


@dataclass(frozen=True)
class DeviceLimits:
    """Limits that schedules and generated code must respect.

    The defaults hold for every CUDA device of compute capability 5.0 to 10.0: CUDA C++ Programming Guide,
    "Technical Specifications per Compute Capability"; ``shared_bytes`` is the limit of statically declared
    shared memory (same guide, "Shared Memory" of each capability), not what can be had dynamically.

    Attributes
    ----------
    max_threads_per_block
        Product of the block's extents [threads].
    max_block_dims
        Extent of a block along x, y, z [threads].
    shared_bytes
        Statically declared shared memory of one block [bytes].
    warp_size
        Threads in a row that are a warp, which can wait for each other by themselves; 1 where there are no warps.
    """

    max_threads_per_block: int = 1024
    max_block_dims: tuple[int, int, int] = (1024, 1024, 64)
    shared_bytes: int = 48 * 1024
    warp_size: int = 32
