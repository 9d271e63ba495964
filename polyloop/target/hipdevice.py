"""Device functions of HIP C++ for cooperation of threads: waves of 32 or 64 lanes, and matrix instructions."""

from __future__ import annotations

from functools import partial
from typing import Final

from polyloop.codegen.device.entries import (
    Atomics,
    Entry,
    LookBack,
    Matrices,
    Reductions,
    Shuffles,
    Threads,
    Word,
)  # fmt: skip
from polyloop.kernel.intrinsic import MatrixIntrinsic

__all__ = ["hip_device"]

_WAVE_BARRIER: Final = '__builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront"); __builtin_amdgcn_wave_barrier();'
"""The lanes of a wave run together: what they need is that neither compiler nor caches reorder their accesses."""
_THREADS: Final = Threads(
    axes={
        "g.0": "blockIdx.x",
        "g.1": "blockIdx.y",
        "g.2": "blockIdx.z",
        "l.0": "threadIdx.x",
        "l.1": "threadIdx.y",
        "l.2": "threadIdx.z",
    },
    block_barrier="__syncthreads();",
    warp_barrier=_WAVE_BARRIER,
    shared="__shared__ ",
    dynamic_shared="extern __shared__ __attribute__((aligned({bytes}))) char {name}[];",
    blocks="gridDim.x",
)
_SHUFFLES: Final = Shuffles("__shfl", "__shfl_xor", "__shfl_up", "__shfl_down", has_masks=False)
"""HIP, "Warp shuffle functions": active lanes take part; the masks of ``__shfl_sync`` came with ROCm 6.2."""
_REDUCTIONS: Final = Reductions({("any", "bool"): "__any({1}) != 0", ("all", "bool"): "__all({1}) != 0"})

_WORD32: Final = "unsigned int"
_WORD64: Final = "unsigned long long"
_ATOMIC_NAMES: Final = {
    "sum": "Add", "min": "Min", "max": "Max", "and": "And", "or": "Or", "xor": "Xor", "exchange": "Exch",
}  # fmt: skip
_ATOMIC_TYPES: Final = {
    **dict.fromkeys(("and", "or", "xor"), ("int32", "uint32", "uint64")),
    **dict.fromkeys(("min", "max"), ("int32", "uint32", "uint64")),
    "sum": ("int32", "uint32", "uint64", "float32", "float64"),
    "exchange": ("int32", "uint32", "uint64", "float32"),
}
_HALF_SWAP: Final = "__sync_val_compare_and_swap({0}, {1}, {2})"
_ATOMICS: Final = Atomics(
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
        "half": Word("unsigned short", "{0}.bits", "{{{0}}}", _HALF_SWAP),
        "float32": Word(_WORD32, "__float_as_uint({0})", "__uint_as_float({0})"),
        "float64": Word(_WORD64, f"({_WORD64})__double_as_longlong({{0}})", "__longlong_as_double((long long){0})"),
        "int32": Word(_WORD32, f"({_WORD32})({{0}})", "(int){0}"),
        "uint32": Word(_WORD32, "{0}", "{0}"),
        "int64": Word(_WORD64, f"({_WORD64})({{0}})", "(long long){0}"),
        "uint64": Word(_WORD64, "{0}", "{0}"),
    },
)  # fmt: skip
"""HIP, "Atomic functions"; numbers of 16 bits are updated by Clang's compare-and-swap: HIP has no function for it."""

_LOOK_BACK: Final = LookBack(
    take="atomicAdd({0}, 1)",
    fence="__threadfence();",
    ballot="__ballot({1})",
    first="__ffsll({0}) - 1",
    mask=_WORD64,
    pause="",
    words={
        "float32": Word(_WORD64, "__float_as_uint({0})", f"__uint_as_float(({_WORD32}){{0}})"),
        "int32": Word(_WORD64, f"({_WORD32}){{0}}", "(int){0}"),
        "uint32": Word(_WORD64, "{0}", f"({_WORD32}){{0}}"),
    },
)


def hip_device(arch: str) -> tuple[Entry, ...]:
    """Return the device functions of an architecture, such as ``"gfx90a"``."""
    matrices = Matrices(
        partial(_lacks, arch), _multiply, None, _convert, _PACK, _pair, "__float_as_uint", "__uint_as_float",
        _PACK_BYTES,
    )  # fmt: skip
    return (_THREADS, _SHUFFLES, _REDUCTIONS, _ATOMICS, _LOOK_BACK, matrices)


# {{{ matrix instructions

_PACK: Final = (
    "unsigned int (unsigned short low, unsigned short high)", "return low | (unsigned int)high << 16;",
)  # fmt: skip
_PACK_BYTES: Final = (
    "unsigned int (unsigned char x0, unsigned char x1, unsigned char x2, unsigned char x3)",
    "return x0 | (unsigned int)x1 << 8 | (unsigned int)x2 << 16 | (unsigned int)x3 << 24;",
)
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
