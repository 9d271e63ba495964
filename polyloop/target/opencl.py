"""The OpenCL target: OpenCL C 1.2 for the compiler of any device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Final

from polyloop.codegen.device.entries import Atomics, Entry, SubGroups, Threads, Word
from polyloop.codegen.language import Constants, Definition, Functions, Language, LoopStyle, Syntax, Vectors
from polyloop.display import Shown
from polyloop.edge.words import spelt
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.records import VECTORS
from polyloop.kernel.limits import DeviceLimits
from polyloop.target.base import Target
from polyloop.target.float8 import Words, float8_definitions
from polyloop.target.mathtable import OPENCL_FAST_FUNCTIONS, OPENCL_FUNCTIONS

__all__ = ["OPENCL_LANGUAGE", "OpenCLDevice", "OpenCLTarget", "has_sub_groups"]

VERSIONS: Final = ("1.2", "2.0", "2.1", "2.2", "3.0")
"""Versions of OpenCL C that a program can be compiled as; the text is that of 1.2."""
_MOST_BLOCKS: Final = 2**31 - 1
_HELPER: Final = "static inline"
_TYPES: Final = {
    "bool": "bool",
    "int8": "char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "uchar",
    "uint16": "ushort",
    "uint32": "uint",
    "uint64": "ulong",
    "float16": "half_bits",
    "bfloat16": "bfloat16",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "float32": "float",
    "float64": "double",
}
_INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class OpenCLDevice(Shown):
    """Limits and abilities of a device, on which a program for OpenCL relies.

    The defaults are those of most GPUs; a call refuses a device that has less than its program takes.

    Attributes
    ----------
    name
        Name of the device, which programs run on by default; empty for any.
    max_threads
        Work-items of a work-group.
    max_block
        Extents of a work-group along x, y, z [work-items].
    shared_bytes
        Local memory of a work-group [bytes].
    has_doubles
        Whether the device computes in float64.
    has_long_atomics
        Whether it updates 64-bit integers atomically, which atomic updates of float64 are made of too.
    has_sub_groups
        Whether it has sub-groups (``cl_khr_subgroups``, and from version 3.0 on a feature of the language).
    has_unroll
        Whether its compiler takes ``#pragma unroll``, in any version of the language (``cl_nv_pragma_unroll``).
    """

    name: str = ""
    max_threads: int = 1024
    max_block: tuple[int, int, int] = (1024, 1024, 64)
    shared_bytes: int = 48 * 1024
    has_doubles: bool = True
    has_long_atomics: bool = True
    has_sub_groups: bool = False
    has_unroll: bool = False

    def __repr__(self) -> str:
        changed = (
            f"{field.name}={value!r}" for field in fields(self) if (value := getattr(self, field.name)) != field.default
        )
        return f"pl.OpenCLDevice({', '.join(changed)})"

    @classmethod
    def of(cls, device: Any) -> OpenCLDevice:  # noqa: ANN401  # PyOpenCL is optional
        """Return the data of a ``pyopencl.Device``."""
        known = frozenset(device.extensions.split())
        x, y, z = (*device.max_work_item_sizes, 1, 1)[:3]
        return cls(
            name=device.name,
            max_threads=device.max_work_group_size,
            max_block=(x, y, z),
            shared_bytes=device.local_mem_size,
            has_doubles=bool(device.double_fp_config),
            has_long_atomics={"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"} <= known,
            has_sub_groups=has_sub_groups(device),
            has_unroll="cl_nv_pragma_unroll" in known,
        )

    @property
    def limits(self) -> DeviceLimits:
        """The limits that schedules respect: no warps, and local memory that is declared, all of it."""
        return DeviceLimits(
            max_threads_per_block=self.max_threads, max_block_dims=self.max_block,
            max_grid_dims=(_MOST_BLOCKS, _MOST_BLOCKS, _MOST_BLOCKS), shared_bytes=self.shared_bytes,
            static_shared_bytes=self.shared_bytes, warp_size=1,
        )  # fmt: skip


def has_sub_groups(device: Any) -> bool:  # noqa: ANN401  # PyOpenCL is optional
    """Return whether a ``pyopencl.Device`` has sub-groups."""
    if not {"cl_khr_subgroups", "cl_intel_subgroups"}.isdisjoint(device.extensions.split()):
        return True
    major, minor = map(int, getattr(device, "version", "OpenCL 1.2").split()[1].split(".")[:2])
    return (major, minor) >= (2, 1) and device.max_num_sub_groups > 0


# {{{ tables

_THREADS: Final = Threads(
    axes={
        f"{letter}.{number}": f"get_{scope}_id({number})"
        for letter, scope in (("g", "group"), ("l", "local"))
        for number in range(3)
    },
    block_barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    warp_barrier="",
    shared="__local ",
    global_space="__global ",
    shared_space="__local ",
    shared_barrier="barrier(CLK_LOCAL_MEM_FENCE);",
)
_UPDATES: Final = {"sum": "add", "min": "min", "max": "max", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg"}
_WORDS: Final = {
    "int32": Word("uint", "as_uint({0})", "as_int({0})"),
    "uint32": Word("uint", "{0}", "{0}"),
    "float32": Word("uint", "as_uint({0})", "as_float({0})"),
}
_SWAP: Final = "atom_cmpxchg({0}, {1}, {2})"
_LONG_WORDS: Final = {
    "int64": Word("ulong", "as_ulong({0})", "as_long({0})", _SWAP),
    "uint64": Word("ulong", "{0}", "{0}", _SWAP),
    "float64": Word("ulong", "as_ulong({0})", "as_double({0})", _SWAP),
}


def _atomics(*, long: bool) -> Atomics:
    """Return the atomic updates: OpenCL C 1.2, section 6.12.11, and ``cl_khr_int64_base_atomics`` for 64 bits."""
    native = {
        (operation, dtype): f"atomic_{name}(&{{0}}, {{1}})"
        for operation, name in _UPDATES.items()
        for dtype in ("int32", "uint32")
    }
    native["exchange", "float32"] = "atomic_xchg(&{0}, {1})"
    words = dict(_WORDS)
    if long:
        native |= {
            (operation, dtype): f"atom_{name}(&{{0}}, {{1}})"
            for operation, name in _UPDATES.items()
            for dtype in ("int64", "uint64")
        }
        words |= _LONG_WORDS
    return Atomics(native, "atomic_cmpxchg({0}, {1}, {2})", words)


_SUB_GROUPS: Final = SubGroups(
    reductions={
        (operation, dtype): f"sub_group_reduce_{name}({{0}})"
        for operation, name, dtypes in (
            ("sum", "add", ("int32", "uint32", "int64", "uint64", "float32", "float64")),
            ("min", "min", ("int32", "uint32", "int64", "uint64")),
            ("max", "max", ("int32", "uint32", "int64", "uint64")),
        )
        for dtype in dtypes
    },
    lane="get_sub_group_local_id()",
    number="get_sub_group_id()",
    count="get_num_sub_groups()",
)
"""The OpenCL C Specification 3.0, section 6.15.19, and ``cl_khr_subgroups`` for 2.0 to 2.2."""
_SUB_GROUP_HEADER: Final = """\
#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif"""

_WORDS8: Final = Words(
    _HELPER, ("uchar", "uint", "ulong"),
    "typedef struct {{ {byte} bits; }} {name};  // a floating-point number of 8 bits",
    "as_uint({0})", "as_float({0})", "as_ulong({0})", "as_double({0})", suffix="ul",
)  # fmt: skip


def _definitions() -> Iterator[tuple[str, Definition]]:
    """Yield the types and functions that OpenCL C lacks: 16-bit floating-point numbers as values, trailing zeros."""
    yield "half_bits", Definition("typedef struct { ushort bits; } half_bits;  // a half, on any device")
    yield "bfloat16", Definition("typedef struct { ushort bits; } bfloat16;  // the upper half of a float")
    widened = "{ return vload_half(0, (const half *)&a.bits); }"
    yield "widen float16", Definition(f"{_HELPER} float half_to_float(half_bits a) {widened}", ("half_bits",))
    for key, name, kind in (("narrow", "to_half", "float"), ("narrow_double", "double_to_half", "double")):
        text = (
            f"{_HELPER} half_bits {name}({kind} a)\n"
            "{\n"
            "    half_bits r;\n"
            "    vstore_half_rte(a, 0, (half *)&r.bits);\n"
            "    return r;\n"
            "}"
        )
        yield f"{key} float16", Definition(text, ("half_bits",))
    widened = "{ return as_float((uint)a.bits << 16); }"
    yield "widen bfloat16", Definition(f"{_HELPER} float bfloat16_to_float(bfloat16 a) {widened}", ("bfloat16",))
    narrowed = (
        f"{_HELPER} bfloat16 to_bfloat16(float a)\n"
        "{\n"
        "    uint bits = as_uint(a);\n"
        "    bfloat16 r = {(ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};  // halves to even\n"
        "    if (isnan(a))\n"
        "        r.bits = 0x7fc0;\n"
        "    return r;\n"
        "}"
    )
    yield "narrow bfloat16", Definition(narrowed, ("bfloat16",))
    yield from float8_definitions(_WORDS8)
    for dtype in _INTEGERS:
        own = _TYPES[f"u{dtype.removeprefix('u')}"]
        body = f"{{ {own} x = ({own})a; return (int)popcount(({own})(~x & ({own})(x - 1))); }}"
        yield f"ctz {dtype}", Definition(f"{_HELPER} int ctz_{dtype}({_TYPES[dtype]} a) {body}")


def _vectors() -> Mapping[str, str]:
    """Return the names of vectors; those of 3 components take the memory of 4, and are structures here."""
    return {name: name.replace("longlong", "long") for name in VECTORS if not name.endswith("3")}


OPENCL_LANGUAGE: Final = Language(
    name="opencl",
    types=_TYPES,
    syntax=Syntax(
        header="",
        function="__kernel void",
        helper=_HELPER,
        restrict="restrict",
        launch_bounds="__attribute__((reqd_work_group_size({x}, {y}, {z})))",
        aligned="__attribute__((aligned({bytes})))",
        long="l",
        passed={"bool": "uchar"},
        words=("opencl_words", "opencl_declared"),
    ),
    functions=Functions(
        OPENCL_FUNCTIONS,
        fast=OPENCL_FAST_FUNCTIONS,
        results={("sincos", dtype): "{1} = sincos({0}, &{2})" for dtype in ("float32", "float64")},
    ),
    loops=LoopStyle(unroll="", unroll_hint="", unroll_by=""),
    constants=Constants(
        infinity={"float32": "INFINITY", "float64": "(double)INFINITY"},
        not_a_number={"float32": "NAN", "float64": "(double)NAN"},
        table="__constant ",
        large_table="__constant ",
        # Initializers of private arrays are lost between barriers by PoCL 3.0.
        clearing="for (int n = 0; n < {count}; ++n)\n    (&{first})[n] = 0;",
        # Not every compiler takes INFINITY and NAN for constants.
        table_infinity={"float32": "(1.0f / 0.0f)", "float64": "(1.0 / 0.0)"},
        table_nan={"float32": "(0.0f / 0.0f)", "float64": "(0.0 / 0.0)"},
    ),
    definitions=dict(_definitions()),
    vectors=Vectors(
        names=_vectors(),
        make="({type})",
        nothing="({type})(0)",
        empty="({type}){{0}}",
        structure="typedef struct {aligned} {{ {body} }} {name};",
        packed="packed_{name}",
        has_operators=True,
        most_aligned=32,
    ),
    limits=OpenCLDevice().limits,
    device=(_THREADS, _atomics(long=True)),
)
"""The OpenCL C Specification 1.2, which later versions keep."""

# }}}


_UNROLL: Final = "__attribute__((opencl_unroll_hint({count})))"
_HINTS: Final = LoopStyle(_UNROLL, "__attribute__((opencl_unroll_hint))", _UNROLL)
"""The OpenCL C Specification 2.0, section 6.11.5; earlier versions have nothing of the kind."""
_PRAGMAS: Final = LoopStyle("#pragma unroll {count}", "#pragma unroll", "#pragma unroll {count}")
"""``cl_nv_pragma_unroll``, of NVIDIA."""


@cache
def _language(device: OpenCLDevice, version: str, *, full_blocks: bool) -> Language:
    """Return OpenCL C for a *device*: without the types and atomic updates that it lacks."""
    types = {name: own for name, own in _TYPES.items() if device.has_doubles or name != "float64"}
    style = OPENCL_LANGUAGE.loops if version == VERSIONS[0] else _HINTS
    loops = replace(_PRAGMAS if device.has_unroll else style, full_blocks=full_blocks)
    entries: tuple[Entry, ...] = (_THREADS, _atomics(long=device.has_long_atomics))
    syntax = OPENCL_LANGUAGE.syntax
    if device.has_sub_groups and version != VERSIONS[0]:
        entries, syntax = (*entries, _SUB_GROUPS), replace(syntax, header=_SUB_GROUP_HEADER)
    return replace(OPENCL_LANGUAGE, types=types, syntax=syntax, loops=loops, limits=device.limits, device=entries)


def OpenCLTarget(  # noqa: N802 - reads as the class
    device: Any = None,  # noqa: ANN401  # a pyopencl.Device, where PyOpenCL is installed
    *,
    version: str = "1.2",
    full_blocks: bool = True,
) -> Target:
    """Return the OpenCL target: OpenCL C, which PyOpenCL compiles for a device and runs there.

    Parameters
    ----------
    device
        A ``pyopencl.Device``, or an :class:`OpenCLDevice`, whose limits and abilities the text keeps to.  By default
        those of most GPUs: work-groups of 1024, 48 KiB of local memory, float64, atomic updates of 64 bits.
    version
        The version of OpenCL C that a program is written in and compiled as, ``"1.2"`` to ``"3.0"``.  From 2.0 on, and
        for a *device* of NVIDIA, loops that are to be unrolled say so; from 2.0 on sums over a work-group go through
        sub-groups where the *device* has them.
    full_blocks
        As in :func:`CudaTarget`.

    Raises
    ------
    CodegenError
        ``bad-opencl-target``.

    Notes
    -----
    ::

        y[i] = 2*x[i]          # i:g.0, l.0
        ->
        __kernel void __attribute__((reqd_work_group_size(256, 1, 1)))
        scale(__global const float *restrict x, __global float *restrict y, int n)
        {
            const int bx = get_group_id(0);
            const int tx = get_local_id(0);
            if (256 * bx + tx < n)
                y[256 * bx + tx] = 2.0f * x[256 * bx + tx];
        }

    There are no warps: work-items that share values meet at barriers of the work-group, and reductions and scans go
    through local memory, but for those of a work-group on a device with sub-groups.  Source: The OpenCL C
    Specification, version 1.2.
    """
    if version not in VERSIONS:
        hint = f"versions: {', '.join(VERSIONS)}"
        raise CodegenError("OpenCLTarget", None, [Diagnostic(
            "bad-opencl-target", f"version={spelt(version)} is no version of OpenCL C", (), (hint,))])
    known = OpenCLDevice() if device is None else device
    if not isinstance(known, OpenCLDevice):
        if not all(hasattr(known, name) for name in ("extensions", "max_work_group_size", "double_fp_config")):
            raise CodegenError("OpenCLTarget", None, [Diagnostic(
                "bad-opencl-target", f"device={spelt(device)} is no device of PyOpenCL", (),
                ("pass a pyopencl.Device, such as queue.device, or pl.OpenCLDevice(..)",))])
        known = OpenCLDevice.of(known)
    language = _language(known, version, full_blocks=full_blocks)
    assert language.limits is not None, "the OpenCL language has limits"
    said = [] if known == OpenCLDevice() else [repr(known)]
    said += [] if version == VERSIONS[0] else [f"version={version!r}"]
    said += [] if full_blocks else ["full_blocks=False"]
    arch = f"{version} {known.name}".rstrip()
    call = f"pl.OpenCLTarget({', '.join(said)})"
    return Target("opencl", language, language.limits, arch, full_blocks=full_blocks, call=call)
