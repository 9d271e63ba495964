"""Copies of boxes in CUDA C: functions around PTX instructions of the copy engine of sm_90 and later.

NVIDIA calls it the tensor memory accelerator.

PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor", and "Parallel Synchronization and
Communication Instructions: mbarrier".  A phase of a barrier ends when the thread that starts copies has arrived, and as
many bytes as it expects.  For threads with roles, also "Parallel Synchronization and Communication Instructions: bar",
and "Miscellaneous Instructions: setmaxnreg".
"""

from __future__ import annotations

from typing import Final

from polyloop.codegen.device.entries import Boxes, Roles

__all__ = ["BOXES", "ROLES"]

_PLACE: Final = "const unsigned int {0} = (unsigned int)__cvta_generic_to_shared({1});"


def _load(rank: int) -> list[str]:
    """Return the function for arrays of *rank* axes."""
    names = [f"x{axis}" for axis in range(rank)]
    places = ", ".join(f"%{number}" for number in range(3, 3 + rank))
    values = ", ".join(f'"r"({name})' for name in names)
    return [
        f"void (void *to, const TensorMap *map, unsigned long long *slot, {', '.join(f'int {x}' for x in names)})",
        _PLACE.format("place", "to"),
        _PLACE.format("barrier", "slot"),
        f'asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes '
        f'[%0], [%1, {{{places}}}], [%2];" :: "r"(place), "l"(map), "r"(barrier), {values} : "memory");',
    ]


def _store(rank: int) -> list[str]:
    """Return the function for arrays of *rank* axes."""
    names = [f"x{axis}" for axis in range(rank)]
    places = ", ".join(f"%{number}" for number in range(2, 2 + rank))
    values = ", ".join(f'"r"({name})' for name in names)
    return [
        f"void (const TensorMap *map, const void *from, {', '.join(f'int {x}' for x in names)})",
        _PLACE.format("place", "from"),
        f'asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group '
        f'[%0, {{{places}}}], [%1];" :: "l"(map), "r"(place), {values} : "memory");',
    ]


def _stored(waiting: str) -> list[str]:
    text = f"cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group{waiting} 0;"
    return ["void ()", f'asm volatile("{text}" ::: "memory");']


_FENCE: Final = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
BOXES: Final = Boxes(
    type=("TensorMap", "struct __align__(64) TensorMap { unsigned char opaque[128]; };  // CUtensorMap"),
    parameter="const __grid_constant__ TensorMap {0}",
    open=[
        "void (unsigned long long *ring, int slots)",
        "for (int slot = 0; slot < slots; ++slot) {",
        f"    {_PLACE.format('barrier', 'ring + slot')}",
        '    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier) : "memory");',
        "}",
        'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");',
        _FENCE,
    ],
    expect=[
        "void (unsigned long long *slot, int bytes)",
        _PLACE.format("barrier", "slot"),
        'asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) '
        ': "memory");',
    ],
    load=_load,
    wait=[
        "void (unsigned long long *ring, int slot, unsigned int *phases)",
        _PLACE.format("barrier", "ring + slot"),
        'asm volatile("{\\n.reg .pred done;\\nagain:\\n"',
        '             "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\\n"',
        '             "@!done bra again;\\n}" :: "r"(barrier), "r"(*phases >> slot & 1) : "memory");',
        "*phases ^= 1u << slot;",
    ],
    store=_store,
    stored=(_stored(".read"), _stored("")),
    publish=["void ()", _FENCE],
)
ROLES: Final = Roles(
    open=[
        "void (unsigned long long *ring, int slots, int frees)",
        "for (int slot = 0; slot < slots; ++slot) {",
        f"    {_PLACE.format('barrier', 'ring + slot')}",
        '    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(frees) : "memory");',
        "}",
        'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");',
    ],
    free=[
        "void (unsigned long long *slot)",
        _PLACE.format("barrier", "slot"),
        "__syncwarp();",
        "if (threadIdx.x % 32 == 0)",
        '    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");',
    ],
    free_of_group=[
        "void (unsigned long long *slot)",
        _PLACE.format("barrier", "slot"),
        "if (threadIdx.x % 128 == 0)",
        '    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");',
    ],
    barrier='asm volatile("bar.sync 1, {threads};" ::: "memory");',
    fewer='asm volatile("setmaxnreg.dec.sync.aligned.u32 {registers};");',
    more='asm volatile("setmaxnreg.inc.sync.aligned.u32 {registers};");',
    launch_bounds="__launch_bounds__({threads}, 1)",
)
