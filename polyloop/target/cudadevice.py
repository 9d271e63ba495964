"""Device functions of CUDA C for cooperation of threads."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from polyloop.codegen.device.entries import (
    Arrivals,
    Atomics,
    Clusters,
    Entry,
    Loads,
    LookBack,
    Reductions,
    Shuffles,
    Stores,
    Threads,
    Together,
    Word,
)  # fmt: skip
from polyloop.poly.axes import BLOCK_AXES
from polyloop.target.cudaboxes import BOXES, ROLES
from polyloop.target.cudacopies import COPIES
from polyloop.target.cudamatrices import cuda_matrices, shared_matrices

__all__ = ["ATOMICS", "THREADS", "TOTALS", "cuda_device", "cuda_together"]

THREADS: Final = Threads(
    axes={
        "g.0": "blockIdx.x",
        "g.1": "blockIdx.y",
        "g.2": "blockIdx.z",
        "l.0": "threadIdx.x",
        "l.1": "threadIdx.y",
        "l.2": "threadIdx.z",
    },
    block_barrier="__syncthreads();",
    warp_barrier="__syncwarp();",
    shared="__shared__ ",
    dynamic_shared="extern __shared__ __align__({bytes}) char {name}[];",
    blocks="gridDim.x",
)
_CLUSTERS: Final = Clusters(
    head="__cluster_dims__({0}, 1, 1)",
    arrive=["void ()", 'asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");'],
    wait=["void ()", 'asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");'],
    barrier=[
        "void ()",
        'asm volatile("barrier.cluster.arrive.release.aligned;\\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");',
    ],
    place=[
        "void * (const void *here, unsigned int rank)",
        "void *there;",
        'asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(here), "r"(rank));',
        "return there;",
    ],
)
"""PTX ISA, "barrier.cluster" and "mapa", from sm_90 on: an arrival is a release, a wait an acquire of the cluster."""
_ARRIVALS: Final = Arrivals(
    last=lambda barrier: [
        "bool (unsigned int *arrived, unsigned int blocks)",
        "__shared__ unsigned int before;",
        f"{barrier}  // all threads have stored",
        "if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {",
        "    __threadfence();  // what they have stored is there before the count",
        "    before = atomicInc(arrived, blocks - 1);  // the last block leaves 0",
        "    __threadfence();  // what others have stored is read behind the count",
        "}",
        barrier,
        "return before == blocks - 1;",
    ],
    barrier="__syncthreads();",
    count={axis: f"gridDim.{letter}" for axis, letter in zip(BLOCK_AXES, "xyz", strict=True)},
)
"""CUDA C++ Programming Guide, "Memory Fence Functions": the sum that the last block to finish adds up."""
_LOADS: Final = Loads(once="__ldcs")
_STORES: Final = Stores(once="__stcs")
_SHUFFLES: Final = Shuffles("__shfl_sync", "__shfl_xor_sync", "__shfl_up_sync", "__shfl_down_sync")

_TRUTHS: Final = {("any", "bool"): "__any_sync({0}, {1})", ("all", "bool"): "__all_sync({0}, {1})"}
_INTEGERS: Final = {
    (operation, dtype): f"__reduce_{word}_sync({{0}}, {{1}})"
    for operation, word in (("sum", "add"), ("min", "min"), ("max", "max"))
    for dtype in ("int32", "uint32")
}
"""CUDA C++ Programming Guide, "Warp Reduce Functions": from sm_80 on."""
_BLOCK: Final = {"any": "__syncthreads_or({0})", "all": "__syncthreads_and({0})"}

_WIDE_ATOMICS: Final = {("sum", "float32", count): "atomicAdd({0}, {1})" for count in (2, 4)}
"""CUDA C++ Programming Guide, "atomicAdd()": float2 and float4 in global memory, for compute capability 9.0."""
_WORD32: Final = "unsigned int"
_WORD64: Final = "unsigned long long"
_ATOMIC_NAMES: Final = {
    "sum": "Add", "min": "Min", "max": "Max", "and": "And", "or": "Or", "xor": "Xor", "exchange": "Exch",
}  # fmt: skip
_ATOMIC_TYPES: Final = {
    **dict.fromkeys(("and", "or", "xor"), ("int32", "uint32", "uint64")),
    **dict.fromkeys(("min", "max"), ("int32", "uint32", "int64", "uint64")),
    "sum": ("int32", "uint32", "uint64", "float32", "float64"),
    "exchange": ("int32", "uint32", "uint64", "float32"),
}
ATOMICS: Final = Atomics(
    native={
        (operation, dtype): f"atomic{_ATOMIC_NAMES[operation]}(&{{0}}, {{1}})"
        for operation, dtypes in _ATOMIC_TYPES.items()
        for dtype in dtypes
    } | {
        (operation, "int64"): f"atomic{_ATOMIC_NAMES[operation]}(({_WORD64} *)&{{0}}, ({_WORD64})({{1}}))"
        for operation in ("sum", "and", "or", "xor", "exchange")
    },
    swap="atomicCAS({0}, {1}, {2})",
    words={
        "half": Word("unsigned short", "{0}.bits", "{{{0}}}"),
        "float32": Word(_WORD32, "__float_as_uint({0})", "__uint_as_float({0})"),
        "float64": Word(_WORD64, f"({_WORD64})__double_as_longlong({{0}})", "__longlong_as_double((long long){0})"),
        "int32": Word(_WORD32, f"({_WORD32})({{0}})", "(int){0}"),
        "uint32": Word(_WORD32, "{0}", "{0}"),
        "int64": Word(_WORD64, f"({_WORD64})({{0}})", "(long long){0}"),
        "uint64": Word(_WORD64, "{0}", "{0}"),
    },
)  # fmt: skip
"""CUDA C++ Programming Guide, "Atomic Functions": what exists on all devices from sm_70 on."""

TOTALS: Final = {
    "float32": Word(_WORD64, "__float_as_uint({0})", f"__uint_as_float(({_WORD32}){{0}})"),
    "int32": Word(_WORD64, f"({_WORD32}){{0}}", "(int){0}"),
    "uint32": Word(_WORD64, "{0}", f"({_WORD32}){{0}}"),
}
_VOLTA: Final = 70
_AMPERE: Final = 80
_HOPPER: Final = 90
_WITHOUT_COPIES: Final = frozenset({"50", "52", "53", "60", "61", "62", "70", "72", "75"})


_WAIT_FOR_BLOCKS: Final = """\
static __device__ __forceinline__ void wait_for_blocks(unsigned int *grid_state, unsigned int arrivals)
{
    __syncthreads();  // all threads of this block have come
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
%s    }
    __syncthreads();  // all blocks have come
}"""
_BY_FENCES: Final = """\
        __threadfence();
        atomicAdd(grid_state, 1u);  // it grows from wait to wait, modulo 2**32
        while ((int)(*(volatile unsigned int *)grid_state - arrivals) < 0) {}
        __threadfence();
"""
_BY_RELEASE: Final = """\
        unsigned int come;  // it grows from wait to wait, modulo 2**32
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(grid_state) : "memory");
        do
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(come) : "l"(grid_state) : "memory");
        while ((int)(come - arrivals) < 0);
"""
"""PTX ISA, "Memory Consistency Model": from sm_70 on, and without a fence of the whole GPU in front and behind."""


def _capability(arch: str) -> int:
    return int("".join(c for c in arch if c.isdigit()) or 0)


def cuda_together(launch_bounds: str, arch: str) -> Together:
    """Return the entry for all launches of a program in one, for an architecture such as ``"sm_90a"``."""
    wait = _WAIT_FOR_BLOCKS % (_BY_RELEASE if _capability(arch) >= _VOLTA else _BY_FENCES)
    return Together(
        function='extern "C" __global__ void',
        launch_bounds=launch_bounds,
        block="const uint3 blockIdx",  # it hides the one of the launch that all are in
        make_block="const uint3 {name} = {{{x}, {y}, {z}}};",
        own="blockIdx.x",
        count="gridDim.x",
        table="const {type} *__restrict__ {name}",
        state="unsigned int *{name}",
        barrier=(wait, "wait_for_blocks"),
    )


def cuda_device(arch: str) -> tuple[Entry, ...]:
    """Return the device functions of an architecture, such as ``"sm_80"`` or ``"sm_90a"``."""
    digits, capability = "".join(c for c in arch if c.isdigit()), _capability(arch)
    look_back = LookBack(
        take="atomicAdd({0}, 1)",
        fence="__threadfence();",
        ballot="__ballot_sync({0}, {1})",
        first="__ffs({0}) - 1",
        mask=_WORD32,
        pause="__nanosleep({0});" if capability >= _VOLTA else "",
        words=TOTALS,
    )
    reductions = Reductions(_TRUTHS if digits and capability < _AMPERE else _TRUTHS | _INTEGERS, _BLOCK)
    matrices = (cuda_matrices(arch), *([shared_matrices()] if arch == "sm_90a" else []))
    copies: tuple[Entry, ...] = () if digits in _WITHOUT_COPIES else (COPIES,)
    roles = ROLES if arch.endswith("a") else replace(ROLES, fewer="", more="")  # PTX ISA: an instruction of sm_90a
    copies += (BOXES, roles, _CLUSTERS) if capability >= _HOPPER else ()
    atomics = replace(ATOMICS, wide=_WIDE_ATOMICS) if capability >= _HOPPER else ATOMICS
    return (THREADS, _ARRIVALS, _LOADS, _STORES, _SHUFFLES, reductions, atomics, look_back, *copies, *matrices)
