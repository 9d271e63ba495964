"""The CUDA target: CUDA C++ as NVRTC accepts it, without any header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from polyloop.codegen.device.entries import Atomics
from polyloop.codegen.language import Constants, Definition, Functions, Language, LoopStyle, Syntax, Vectors
from polyloop.codegen.program import BuildOptions, DeviceCode
from polyloop.edge.checks import EXPLAINED
from polyloop.edge.words import spelt
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.records import VECTORS
from polyloop.kernel.limits import DeviceLimits
from polyloop.target.base import Target
from polyloop.target.cudacopies import copy_definitions
from polyloop.target.cudadevice import cuda_device, cuda_together
from polyloop.target.cudatypes import complex_operators, cuda_definitions, standard_halves
from polyloop.target.mathtable import CUDA_FAST_FUNCTIONS, CUDA_FUNCTIONS, bit_definitions

__all__ = ["CUDA_LANGUAGE", "CUDA_VECTORS", "CudaTarget", "own_architecture", "with_one_launch", "with_standard_halves"]

_LIMITS: Final = DeviceLimits(has_shuffles=True)
_HOPPER: Final = 90
_SHARED_KIB: Final = {
    "sm_70": 96, "sm_72": 96, "sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_87": 163, "sm_88": 99, "sm_89": 99,
    "sm_90": 227, "sm_100": 227, "sm_103": 227, "sm_110": 227, "sm_120": 99, "sm_121": 99,
}  # fmt: skip
"""CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": shared memory per block [KiB]."""
_EXTREME_TYPES: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

_HELPER: Final = "static __device__ __forceinline__"
_TYPES: Final = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "float32": "float",
    "float64": "double",
    "complex64": "complex64",
    "complex128": "complex128",
}

CUDA_VECTORS: Final = Vectors(
    names={name: name for name in VECTORS},
    make="make_{type}",
    nothing="{type}{{}}",
    empty="{type}{{}}",
    structure="struct {aligned} {name} {{ {body} }};",
)
CUDA_LANGUAGE: Final = Language(
    name="cuda",
    types=_TYPES,
    syntax=Syntax(
        header="",
        function='extern "C" __global__ void',
        helper=_HELPER,
        restrict="__restrict__",
        launch_bounds="__launch_bounds__({threads})",
        aligned="__align__({bytes})",
        static_assert="static_assert",
    ),
    functions=Functions(
        CUDA_FUNCTIONS,
        fast=CUDA_FAST_FUNCTIONS,
        extremes={(operation, dtype): operation for operation in ("min", "max") for dtype in _EXTREME_TYPES},
        results={
            ("sincos", "float32"): "sincosf({0}, &{1}, &{2})",
            ("sincos", "float64"): "sincos({0}, &{1}, &{2})",
        },
        operators=complex_operators(),
        has_overloads=True,
    ),
    loops=LoopStyle(unroll="#pragma unroll", unroll_hint="#pragma unroll", unroll_by="#pragma unroll {count}"),
    constants=Constants(
        # NVRTC knows neither INFINITY, which is defined below, nor NAN: bit patterns of IEEE 754.
        infinity={"float32": "INFINITY", "float64": "(double)INFINITY"},
        not_a_number={"float32": "__int_as_float(0x7fc00000)", "float64": "__longlong_as_double(0x7ff8000000000000ll)"},
        # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": 64 KB of constant memory.
        table="__constant__ ",
        large_table="__device__ const ",
        table_bytes=64 * 1024,
        # NVRTC calls no function in a constant initializer, and has no __builtin_inff or the like.
        table_bits="__builtin_bit_cast({type}, {bits})",
    ),
    definitions={
        **dict(cuda_definitions()),
        **dict(bit_definitions(_HELPER, _TYPES, "__clz{long}({x})", "__ffs{long}({x}) - 1")),
        **copy_definitions(),
        "INFINITY": Definition("#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#endif"),
    },
    vectors=CUDA_VECTORS,
    limits=_LIMITS,
    device=cuda_device(""),
)


@cache
def _language(arch: str, min_blocks: int, *, full_blocks: bool, lineinfo: bool) -> Language:
    """Return the CUDA language for architecture *arch*, with the limits of its blocks.

    Kernels are to leave room for *min_blocks* blocks, if that is not 0, and to have a text for *full_blocks*.  With
    *lineinfo* the text names the line of the user's of each statement.
    """
    limits = replace(_LIMITS, shared_bytes=_SHARED_KIB.get(arch.rstrip("af"), 48) * 1024)
    syntax, loops = CUDA_LANGUAGE.syntax, replace(CUDA_LANGUAGE.loops, full_blocks=full_blocks)
    loops = replace(loops, line="#line {line} {file}") if lineinfo else loops
    if min_blocks:
        syntax = replace(syntax, launch_bounds=f"__launch_bounds__({{threads}}, {min_blocks})")
    return replace(CUDA_LANGUAGE, syntax=syntax, loops=loops, limits=limits, device=cuda_device(arch))


def own_architecture(capability: int) -> str:
    """Return the architecture with all instructions of the devices of a compute capability: ``sm_90a`` for 90."""
    return f"sm_{capability}" + ("a" if capability == _HOPPER else "")


def CudaTarget(  # noqa: N802 - reads as the class
    arch: str = "sm_90", *, min_blocks: Annotated[int, EXPLAINED] = 0, full_blocks: bool = True,
    options: Annotated[Sequence[str], EXPLAINED] = (), std: str = "", lineinfo: bool = False,
    link: Annotated[Sequence[str | Path | bytes], EXPLAINED] = (),
) -> Target:  # fmt: skip
    """Return the CUDA target.

    Parameters
    ----------
    arch
        Architecture to compile for, such as ``"sm_80"``.  ``"sm_90a"`` has instructions that devices of another compute
        capability than 9.0 have not, such as ``wgmma``.
    min_blocks
        How many blocks of a kernel a multiprocessor is to hold at least: the compiler limits registers accordingly, and
        spills other values.  0 leaves the choice to the compiler.
    full_blocks
        True: blocks that are inside of the arrays have code of their own, without the boundary tests of other blocks.
        False: one code for all blocks, with a test before each part of an unrolled loop: the compiler has no more loads
        on their way than it passed tests, and takes fewer registers.
    options
        Further options of NVRTC: ``["-I/opt/mylib/include", "--maxrregcount=64"]``.  Headers that foreign functions and
        preambles include are looked for where ``-I`` says.
    std
        Version of C++ for the text of the user's: ``"c++17"`` or ``"c++20"``; generated text is C++17.
    lineinfo
        True: machine code tells the line that it comes from, so that profilers and debuggers lead to the statement: to
        the script for kernels of Python functions, to the line of the kernel's text, ``NAME.loops``, for others.
    link
        Device code with functions that the program calls: cubins, PTX, LTO-IR, fatbins, objects or libraries, as bytes
        or as paths of files, which are read now.  nvJitLink links it, with optimization across files where it is
        LTO-IR.  A foreign function declares what is called.

    Raises
    ------
    CodegenError
        ``bad-architecture``, ``bad-min-blocks``, ``bad-cuda-option``, ``no-file``.
    """
    if type(min_blocks) is not int or min_blocks < 0:
        hint = "min_blocks=2 asks for room for two blocks, 0 for nothing"
        raise CodegenError("CudaTarget", None, [Diagnostic(
            "bad-min-blocks", f"min_blocks={spelt(min_blocks)} is no number of blocks", (), (hint,))])
    if _ARCHITECTURE.fullmatch(arch) is None:
        raise CodegenError("CudaTarget", None, [Diagnostic(
            "bad-architecture", f"no architecture {spelt(arch)}", (),
            ('names are such as "sm_80", "sm_90" and "sm_90a"',))])
    build = BuildOptions(_options(options), _standard(std), lineinfo, tuple(map(_device_code, _several(link, "link"))))
    language = _language(arch, min_blocks, full_blocks=full_blocks, lineinfo=lineinfo)
    assert language.limits is not None, "the CUDA language has limits"
    return Target("cuda", language, language.limits, arch, min_blocks, full_blocks, build=build)


_ARCHITECTURE: Final = re.compile(r"sm_[1-9][0-9]{1,2}[af]?")
_OWN_OPTIONS: Final = re.compile(
    r"-{1,2}(gpu-architecture|arch|std|dlto|relocatable-device-code|rdc|generate-line-info|lineinfo)\b.*", re.DOTALL)
"""Options of NVRTC that have parameters here, or depend on them."""
_STANDARDS: Final = ("c++17", "c++20")


def _bad_option(message: str, hint: str) -> CodegenError:
    return CodegenError("CudaTarget", None, [Diagnostic("bad-cuda-option", message, (), (hint,))])


def _several(given: object, name: str) -> Sequence[object]:
    if isinstance(given, str | bytes | Path) or not isinstance(given, Sequence):
        raise _bad_option(f"{name}={spelt(given)} is no list", f"pass a list: {name}=[..]")
    return given


def _options(given: object) -> tuple[str, ...]:
    found = []
    for option in _several(given, "options"):
        if not isinstance(option, str) or not option.startswith("-"):
            hint = "options begin with '-': \"-I/opt/mylib/include\""
            raise _bad_option(f"{spelt(option)} is no option of NVRTC", hint)
        if _OWN_OPTIONS.fullmatch(option):
            hint = "say it by the parameters of CudaTarget: arch, std, lineinfo, link"
            raise _bad_option(f"{spelt(option)} is an option that polyloop gives by itself", hint)
        found.append(option)
    return tuple(found)


def _standard(given: str) -> str:
    if given and given not in _STANDARDS:
        raise _bad_option(f"std={spelt(given)} is no version of C++ that generated text can be compiled as",
                          f"versions: {', '.join(_STANDARDS)}")
    return given


def _device_code(given: object) -> DeviceCode:
    if isinstance(given, bytes) and given:
        return DeviceCode("bytes", given)
    if not isinstance(given, str | Path):
        raise _bad_option(f"link has {spelt(given)}, which is no device code", "pass the bytes, or the path of a file")
    path = Path(given)
    try:
        return DeviceCode(path.name, path.read_bytes())
    except OSError as error:
        raise CodegenError("CudaTarget", None, [Diagnostic(
            "no-file", f"'{path}' cannot be read", (f"{type(error).__name__}: {error.strerror}",),
            ("link takes paths of files with device code, or the bytes",))]) from None


@cache
def with_one_launch(target: Target) -> Target:
    """Return a target for CUDA whose programs have all launches in one, with barriers of the grid between them.

    Arrays then change within a launch, so that no pointer is ``__restrict__``: reads must not go through the cache for
    what does not change.
    """
    language = target.language
    syntax = replace(language.syntax, function=f"{_HELPER} void", launch_bounds="", restrict="")
    device = (*language.device, cuda_together(language.syntax.launch_bounds, target.arch))
    limits = replace(target.limits, has_one_shape=True)
    return replace(target, limits=limits, language=replace(language, syntax=syntax, device=device))


@cache
def with_standard_halves(target: Target) -> Target:
    """Return a target for CUDA whose text has ``__half`` and ``__nv_bfloat16`` of CUDA's own headers.

    ::

        struct float16 { unsigned short bits; };        // before: NVRTC needs no header
        #include <cuda_fp16.h>                          // after: the type of other CUDA programs
    """
    language = target.language
    types, functions, definitions, words = standard_halves()
    device = tuple(replace(entry, words={**entry.words, **words}) if isinstance(entry, Atomics) else entry
                   for entry in language.device)
    spellings = {**language.functions.spellings, **functions}
    replaced = {*types, *map(" ".join, functions)}
    return replace(target, language=replace(
        language, types={**language.types, **types}, functions=replace(language.functions, spellings=spellings),
        definitions=definitions | {name: own for name, own in language.definitions.items() if name not in replaced},
        device=device))
