"""Occupancy: resident blocks of a kernel per multiprocessor, and the resource that limits them.

The rules are those of NVIDIA's occupancy calculator: registers are allocated to warps in granules, and the warps that
fit into the register file are rounded down to a granule; shared memory is allocated to blocks in granules, with what
the system reserves for each block.  A compute unit of AMD is a multiprocessor here, and a wave a warp.
"""

from __future__ import annotations

from dataclasses import dataclass

from polyloop.kernel.devices import MULTIPROCESSORS, StreamingMultiprocessor

__all__ = ["Occupancy", "block_limits", "occupancy"]


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Resident blocks and warps of one multiprocessor.

    Attributes
    ----------
    fraction
        Resident warps as a part of the most that the hardware holds.
    limited_by
        ``"threads"``, ``"blocks"``, ``"registers"`` or ``"shared memory"``.
    """

    blocks: int
    warps: int
    fraction: float
    limited_by: str


def block_limits(
    sm: StreamingMultiprocessor, threads: int, registers: int | None, shared_bytes: int
) -> dict[str, int]:
    """Return resource -> number of blocks that fit on a multiprocessor; see :func:`occupancy`."""
    warps = -(-threads // sm.warp_size)
    shared = -(-(shared_bytes + sm.shared_reserved_per_block) // sm.shared_granule) * sm.shared_granule
    limits = {"threads": sm.threads // (warps * sm.warp_size), "blocks": sm.blocks}
    if registers is not None:
        per_warp = -(-max(1, registers) * sm.warp_size // sm.register_granule) * sm.register_granule
        most = sm.registers // per_warp // sm.warp_granule * sm.warp_granule
        limits["registers"] = most // warps if registers <= sm.registers_per_thread else 0
    limits["shared memory"] = sm.shared_bytes // shared if shared else sm.blocks
    return limits


def occupancy(architecture: int | str, threads: int, registers: int | None, shared_bytes: int) -> Occupancy | None:
    """Return the number of resident blocks on a multiprocessor, and the resource that limits it.

    Parameters
    ----------
    architecture
        Compute capability, such as 80 or 90, or the architecture of an AMD GPU, such as ``"gfx942"``.
    threads
        Threads per block.
    registers
        Per thread; None if they are not known: then they are no limit.
    shared_bytes
        Per block, static and dynamic.

    Returns
    -------
    Occupancy or None
        None for an architecture that is not in the table.
    """
    sm = MULTIPROCESSORS.get(architecture)
    if sm is None or threads < 1:
        return None
    warps = -(-threads // sm.warp_size)
    limits = block_limits(sm, threads, registers, shared_bytes)
    blocks = min(limits.values())
    limited_by = next(name for name, limit in limits.items() if limit == blocks)
    return Occupancy(blocks, blocks * warps, blocks * warps * sm.warp_size / sm.threads, limited_by)
