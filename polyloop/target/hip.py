"""The HIP target: HIP C++ as hipRTC and hipcc accept it, without any header."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from polyloop.codegen.language import Definition, Language
from polyloop.edge.words import spelt
from polyloop.errors import CodegenError, Diagnostic
from polyloop.kernel.limits import DeviceLimits
from polyloop.target.base import Target
from polyloop.target.cuda import CUDA_LANGUAGE, CUDA_VECTORS
from polyloop.target.cudatypes import complex_definitions
from polyloop.target.hipdevice import hip_device
from polyloop.target.mathtable import CUDA_FUNCTIONS, bit_definitions

__all__ = ["HIP_ARCHITECTURES", "HipTarget"]

_HELPER: Final = CUDA_LANGUAGE.syntax.helper
_ALIGNED: Final = "__attribute__((aligned({bytes})))"
_MOST_BLOCKS: Final = 2**22 - 1
"""Blocks and threads along an axis are less than 2^32 together: AMD HIP, ``hipModuleLaunchKernel``."""
_SCRATCH: Final = {64: 131_056, 32: 262_136}
"""Scratch memory of a lane [bytes], by lanes of a wave: LLVM, AMDGPU/GCNSubtarget.h, ``getMaxWaveScratchSize``."""
_TYPES: Final = {name: text for name, text in CUDA_LANGUAGE.types.items() if not name.startswith("float8")}


@dataclass(frozen=True)
class _Architecture:
    """Lanes of a wave, and shared memory (LDS) of a block [bytes]."""

    wave: int
    shared_bytes: int = 64 * 1024


HIP_ARCHITECTURES: Final = {"gfx90a": _Architecture(64), "gfx942": _Architecture(64), "gfx1100": _Architecture(32)}
"""AMD Instinct MI200 and MI300 and Radeon RX 7900 (RDNA 3), by the names of LLVM.

"AMD Instinct MI200" and "MI300" and "RDNA3" Instruction Set Architecture, "Local Data Share" and "wavefront".
"""


def _definitions() -> Iterator[tuple[str, Definition]]:
    """Yield the types and functions that are not built in: 16-bit floating-point numbers, complex numbers, bits."""
    for dtype in ("float16", "bfloat16"):
        yield dtype, Definition(f"struct {dtype} {{ unsigned short bits; }};")
    half = "__builtin_bit_cast(unsigned short, (_Float16)a)"
    widened = "{ return (float)__builtin_bit_cast(_Float16, a.bits); }"
    yield "widen float16", Definition(f"{_HELPER} float to_float(float16 a) {widened}", ("float16",))
    for key, kind in (("narrow", "float"), ("narrow_double", "double")):
        text = f"{_HELPER} float16 to_float16({kind} a) {{ return {{{half}}}; }}"
        yield f"{key} float16", Definition(text, ("float16",))
    widened = "{ return __int_as_float(a.bits << 16); }"
    yield "widen bfloat16", Definition(f"{_HELPER} float to_float(bfloat16 a) {widened}", ("bfloat16",))
    narrowed = (
        f"{_HELPER} bfloat16 to_bfloat16(float a)\n"
        "{\n"
        "    const unsigned int bits = __float_as_uint(a);\n"
        "    const unsigned int rounded = bits + 0x7fff + (bits >> 16 & 1);  // halves to even\n"
        "    return {(unsigned short)(a != a ? 0x7fc0 : rounded >> 16)};\n"
        "}"
    )
    yield "narrow bfloat16", Definition(narrowed, ("bfloat16",))
    yield from complex_definitions(_ALIGNED)
    yield from bit_definitions(_HELPER, _TYPES, "__builtin_clz{long}({x})", "__builtin_ctz{long}({x})")


_POPCOUNTS: Final = {
    ("popcount", dtype): spelling.replace("__popc", "__builtin_popcount")
    for (name, dtype), spelling in CUDA_FUNCTIONS.items()
    if name == "popcount"
}

HIP_LANGUAGE: Final = Language(
    name="hip",
    types=_TYPES,
    syntax=replace(CUDA_LANGUAGE.syntax, aligned=_ALIGNED),
    functions=replace(
        CUDA_LANGUAGE.functions, spellings={**CUDA_FUNCTIONS, **_POPCOUNTS}, extremes={},
        fast={key: name for key, name in CUDA_LANGUAGE.functions.fast.items() if key[0] != "exp2"},
    ),
    loops=CUDA_LANGUAGE.loops,
    constants=replace(
        CUDA_LANGUAGE.constants,
        infinity={"float32": "__builtin_inff()", "float64": "__builtin_inf()"},
        not_a_number={"float32": '__builtin_nanf("")', "float64": '__builtin_nan("")'},
        table_bits="",
    ),
    definitions=dict(_definitions()),
    vectors=replace(CUDA_VECTORS, has_operators=True),
)
"""AMD HIP Programming Guide, "C++ language extensions" and "Math API"; the rest is Clang's C++."""


@cache
def _language(arch: str, *, full_blocks: bool) -> Language:
    """Return HIP C++ for an architecture."""
    known = HIP_ARCHITECTURES[arch]
    limits = DeviceLimits(
        max_grid_dims=(_MOST_BLOCKS, 65535, 65535), shared_bytes=known.shared_bytes,
        static_shared_bytes=known.shared_bytes, local_bytes=_SCRATCH[known.wave], warp_size=known.wave,
        has_shuffles=True,
    )  # fmt: skip
    syntax = replace(HIP_LANGUAGE.syntax, header=f"// HIP C++ for {arch}: waves of {known.wave} lanes")
    loops = replace(HIP_LANGUAGE.loops, full_blocks=full_blocks)
    return replace(HIP_LANGUAGE, syntax=syntax, loops=loops, limits=limits, device=hip_device(arch))


def HipTarget(arch: str = "gfx942", *, full_blocks: bool = True) -> Target:  # noqa: N802 - reads as the class
    """Return the HIP target: HIP C++ for a GPU of AMD, as hipRTC and hipcc compile it.

    Parameters
    ----------
    arch
        Architecture to compile for: ``"gfx90a"`` (Instinct MI200), ``"gfx942"`` (Instinct MI300) or ``"gfx1100"``
        (Radeon RX 7900).  The first two have waves of 64 lanes, the last one of 32.
    full_blocks
        As in :func:`CudaTarget`.

    Raises
    ------
    CodegenError
        ``bad-hip-target``.

    Notes
    -----
    ::

        s = sum(j, a[j])          # j:l.0, 64 threads
        ->
        x += __shfl_xor(x, step);          // step 1 to 32 in a wave of 64; 1 to 16 in one of 32, then LDS

    A wave is what CUDA calls a warp, and shuffles, votes and barriers of waves have its size.  A block has 64 KiB of
    shared memory (LDS), all of which is declared.  Asynchronous copies are ordinary ones, as on CUDA devices without
    them.  Copies of boxes, ``wgmma`` and ``mma.sync`` do not exist, nor do barriers of a whole launch: they are
    refused.  Matrix instructions are ``mfma_..`` (gfx90a, gfx942) and ``wmma_..`` (gfx1100) of :func:`tensorize`.
    Source: AMD HIP Programming Guide; AMD Instinct MI200, MI300 and RDNA3 Instruction Set Architecture.
    """
    if arch not in HIP_ARCHITECTURES:
        hint = f"architectures: {', '.join(HIP_ARCHITECTURES)}"
        message = f"arch={spelt(arch)} is no architecture whose wave size and instructions are known"
        raise CodegenError("HipTarget", None, [Diagnostic("bad-hip-target", message, (), (hint,))])
    language = _language(arch, full_blocks=full_blocks)
    assert language.limits is not None, "the HIP language has limits"
    more = "" if full_blocks else ", full_blocks=False"
    call = f"pl.HipTarget({arch!r}{more})"
    return Target("hip", language, language.limits, arch, full_blocks=full_blocks, call=call)
