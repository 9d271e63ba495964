"""Device functions of HIP C++ for cooperation of threads: waves of 32 or 64 lanes, and matrix instructions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from polyloop.codegen.device.entries import Entry, LookBack, Matrices, Reductions, Shuffles
from polyloop.kernel.intrinsic import MatrixIntrinsic
from polyloop.target.cudadevice import ATOMICS, THREADS, TOTALS
from polyloop.target.cudamatrices import PACK, PACK_BYTES

__all__ = ["hip_device"]

_WAVE_BARRIER: Final = '__builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront"); __builtin_amdgcn_wave_barrier();'
"""The lanes of a wave run together: what they need is that neither compiler nor caches reorder their accesses."""
_THREADS: Final = replace(
    THREADS, warp_barrier=_WAVE_BARRIER,
    dynamic_shared="extern __shared__ __attribute__((aligned({bytes}))) char {name}[];",
)  # fmt: skip
_SHUFFLES: Final = Shuffles("__shfl", "__shfl_xor", "__shfl_up", "__shfl_down", has_masks=False)
"""HIP, "Warp shuffle functions": active lanes take part; the masks of ``__shfl_sync`` came with ROCm 6.2."""
_REDUCTIONS: Final = Reductions(
    {("any", "bool"): "__any({1}) != 0", ("all", "bool"): "__all({1}) != 0"},
    {"any": "__syncthreads_or({0})", "all": "__syncthreads_and({0})"},
)
"""HIP, "Warp vote and ballot functions" and "Synchronization functions"."""

_HALF: Final = replace(ATOMICS.words["half"], swap="__sync_val_compare_and_swap({0}, {1}, {2})")
_ATOMICS: Final = replace(
    ATOMICS,
    native={key: text for key, text in ATOMICS.native.items() if key not in {("min", "int64"), ("max", "int64")}},
    words={**ATOMICS.words, "half": _HALF},
)
"""HIP, "Atomic functions"; numbers of 16 bits are updated by Clang's compare-and-swap: HIP has no function for it."""

_LOOK_BACK: Final = LookBack(
    take="atomicAdd({0}, 1)",
    fence="__threadfence();",
    ballot="__ballot({1})",
    first="__ffsll({0}) - 1",
    mask="unsigned long long",
    pause="",
    words=TOTALS,
)


def hip_device(arch: str) -> tuple[Entry, ...]:
    """Return the device functions of an architecture, such as ``"gfx90a"``."""
    matrices = Matrices(
        partial(_lacks, arch), _multiply, None, _convert, PACK, _pair, "__float_as_uint", "__uint_as_float",
        PACK_BYTES,
    )  # fmt: skip
    return (_THREADS, _SHUFFLES, _REDUCTIONS, _ATOMICS, _LOOK_BACK, matrices)


# {{{ matrix instructions

_ELEMENTS: Final = {"float16": "_Float16", "bfloat16": "short", "float32": "float", "float64": "double"}
"""Element types of the vectors that Clang's built-in functions take."""


def _lacks(arch: str, intrinsic: MatrixIntrinsic) -> tuple[str, str] | None:
    """Return the reason why the device lacks the instruction, and a hint; None if it has it."""
    if arch in intrinsic.devices:
        return None
    if not intrinsic.devices:
        return (
            f"it is an instruction of CUDA devices, and the code is for {arch}",
            "take one of the AMD devices: mfma_.. of gfx90a and gfx942, wmma_.. of gfx1100",
        )
    return (
        f"it is an instruction of {' and '.join(intrinsic.devices)}, and the code is for {arch}",
        f'generate code for such a device: HipTarget("{intrinsic.devices[0]}"), or take another instruction',
    )


def _multiply(intrinsic: MatrixIntrinsic) -> list[str]:
    """Return the function around the instruction: its operands are vectors in the order of the registers."""
    element = _ELEMENTS[intrinsic.operands.name]
    result = "double" if intrinsic.is_double else "float"
    count = intrinsic.registers("d")
    names = [f"d{n}" for n in range(count)]
    register = "double" if intrinsic.is_double else "unsigned int"
    parameters = [f"{result} &{name}" for name in names]
    parameters += [f"const {register} (&{x})[{intrinsic.registers(x) // intrinsic.per_register}]" for x in "ab"]
    lines = [f"void ({', '.join(parameters)})"]
    length = intrinsic.registers("a")
    lines.append(f"typedef {result} sums __attribute__((ext_vector_type({count})));")
    given = [f"__builtin_bit_cast({element}, {x}[0])" for x in "ab"]
    if length > 1:
        lines.append(f"typedef {element} operand __attribute__((ext_vector_type({length})));")
        given = [f"__builtin_bit_cast(operand, {x})" for x in "ab"]
    suffix, modifiers = ("", ", 0, 0, 0") if intrinsic.instruction.startswith("v_mfma") else ("_w32", "")
    builtin = f"__builtin_amdgcn_{intrinsic.instruction.removeprefix('v_')}{suffix}"
    call = f"{builtin}({', '.join(given)}, sums{{{', '.join(names)}}}{modifiers})"
    return [*lines, f"const sums d = {call};", *(f"{name} = d[{n}];" for n, name in enumerate(names))]


def _convert(intrinsic: MatrixIntrinsic) -> list[str]:
    """Return the function that makes an operand of a float; no instruction of these devices takes a shorter type."""
    raise AssertionError(f"{intrinsic.name} takes its operands as they are")


def _pair(convert: str) -> list[str]:
    """Return the function that loads two neighbours as operands."""
    return [
        "void (unsigned int &r0, unsigned int &r1, const float *pair)",
        "const float2 x = *(const float2 *)pair;",
        f"r0 = {convert}(x.x);",
        f"r1 = {convert}(x.y);",
    ]


# }}}
