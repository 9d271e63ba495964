"""Header of an exported program."""

from __future__ import annotations

from collections.abc import Iterator

from polyloop.export.interface import Array, Interface, Number
from polyloop.export.status import DEVICE, KIND, statuses
from polyloop.expr.printer import show
from polyloop.kernel.arrays import ArrayArg

__all__ = ["header_text", "parameter_text", "signature"]


_HALVES = {
    "float16": ("cuda_fp16.h", "__half"), "bfloat16": ("cuda_bf16.h", "__nv_bfloat16"),
    "float8_e4m3fn": ("cuda_fp8.h", "__nv_fp8_e4m3"), "float8_e5m2": ("cuda_fp8.h", "__nv_fp8_e5m2"),
}  # fmt: skip
"""Header and type of floats of 8 and 16 bits in C++ for CUDA; in C they are bits."""
_OPENCL = (
    "#ifndef CL_TARGET_OPENCL_VERSION", "#define CL_TARGET_OPENCL_VERSION 120", "#endif", "#ifdef __APPLE__",
    "#include <OpenCL/cl.h>", "#else", "#include <CL/cl.h>", "#endif", "",
)  # fmt: skip


def parameter_text(interface: Interface, entry: Array | Number) -> str:
    """Return the declaration of a parameter."""
    if isinstance(entry, Number):
        return f"{entry.ctype} {entry.spelling}"
    if interface.is_opencl:
        return f"cl_mem {entry.spelling}"
    ctype = f"{interface.prefix}_{entry.half}" if interface.is_cuda and entry.half else entry.ctype
    return f"{'' if entry.is_written else 'const '}{ctype} *{entry.spelling}"


def _halves(interface: Interface) -> Iterator[str]:
    """Yield the definitions of the types of floats of 8 and 16 bits."""
    used = sorted({array.half for array in interface.arrays if array.half}) if interface.is_cuda else []
    for half in used:
        header, ctype = _HALVES[half]
        name = f"{interface.prefix}_{half}"
        yield from ("#ifdef __cplusplus", f"#include <{header}>", f"typedef {ctype} {name};", "#else",
                    f"typedef uint{8 if half.startswith('float8') else 16}_t {name}; /* its bits */", "#endif", "")


def signature(interface: Interface) -> str:
    """Return the function's declaration, without the semicolon."""
    parameters = [parameter_text(interface, entry) for entry in interface.parameters]
    if interface.is_cuda:
        parameters.append("struct CUstream_st *stream")
    if interface.is_opencl:
        parameters.append("cl_command_queue queue")
    return f"int {interface.prefix}({', '.join(parameters) or 'void'})"


def header_text(interface: Interface) -> str:
    """Return the text of the header, for C and C++."""
    prefix, program = interface.prefix, interface.program
    guard = f"POLYLOOP_EXPORT_{prefix.upper()}_H"
    described = {a.name: a for a in program.arguments if isinstance(a, ArrayArg)}
    where = " in the memory of the GPU" if interface.is_cuda else ""
    what = "buffer begins with" if interface.is_opencl else "pointer is that of"
    lines = [f"/* Kernel '{program.kernel}'. Each {what} the first element{where}:"]
    for entry in interface.arrays:
        pair = ", real and imaginary part" if entry.dtype.kind == "c" else ""
        aligned = "" if interface.is_opencl else f"; aligned to {entry.alignment} bytes"
        lines.append(f" *   {described[entry.name].shown()}{pair}{aligned}")
    conditions = [show(check.condition) for check in program.checks]
    lines += [f" * Sizes must fulfil: {', '.join(conditions)}."] if conditions else []
    lines += [" * Arrays that are written overlap no others.",
              f" * The result is 0, or a status of the list; divided by {KIND} it is the kind of the fault.", " */"]
    listed = [f"    {prefix.upper()}_OK = 0"]
    listed += [f"    {s.name(prefix)} = {s.value} /* {s.text.replace('*/', '* /')} */" for s in statuses(interface)]
    enumerators = [line.replace(" /*", ", /*") if "/*" in line else f"{line}," for line in listed[:-1]] + listed[-1:]
    device = [f"/* From {DEVICE * KIND} on, a status is that plus a cudaError_t. A call does not wait for the GPU. */"]
    stream = ["struct CUstream_st;", ""] if interface.is_cuda else []
    released = []
    if interface.is_opencl:
        device = [f"/* From {DEVICE * KIND} on, a status is that minus an error of OpenCL. A call waits for no kernel.",
                  " * Each thread builds the program at its first call in a context, and keeps it. */"]
        released = ["/* Releases what the calling thread keeps: programs, and the contexts that they belong to. */",
                    f"void {prefix}_release(void);", ""]
    return "\n".join([
        f"#ifndef {guard}", f"#define {guard}", "", "#include <stdbool.h>", "#include <stdint.h>", "",
        *(_OPENCL if interface.is_opencl else ()), *_halves(interface),
        "#ifdef __cplusplus", 'extern "C" {', "#endif", "", *stream,
        f"enum {prefix}_status {{", *enumerators, "};", "",
        *lines, *(device if interface.is_cuda or interface.is_opencl else []), f"{signature(interface)};", "",
        "/* The text of a status, which lives as long as the program. */",
        f"const char *{prefix}_status_text(int status);", "", *released,
        "#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {guard} */", "",
    ])  # fmt: skip
