"""Debug build of C programs, which traps signed overflow: ``POLYLOOP_SANITIZE=1``.

Overflow of a kernel's values is defined: the generated code uses arithmetic that wraps.  So a trap is a fault of the
code generator, or of C text of the user's.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

from polyloop.codegen.program import GeneratedProgram
from polyloop.errors import Diagnostic, VerificationError
from polyloop.runtime.ccompile import build_library, find_compiler, load_library

__all__ = ["checked_library", "is_checked", "raise_faults"]

_FLAGS: Final = ("-std=c11", "-O1", "-w", "-fPIC", "-shared", "-fno-math-errno", "-ffp-contract=off")
_CHECKS: Final = ("-fsanitize=signed-integer-overflow", "-fsanitize=shift", "-fsanitize=integer-divide-by-zero",
                  "-fsanitize=bounds", "-fsanitize=vla-bound", "-fsanitize=bool")
_WHAT: Final = ("add_overflow", "sub_overflow", "mul_overflow", "negate_overflow", "shift_out_of_bounds",
                "divrem_overflow", "out_of_bounds", "vla_bound_not_positive", "load_invalid_value")
_HANDLERS: Final = (
    "#include <stdint.h>\n"
    "int polyloop_fault, polyloop_line;\n"
    "struct polyloop_location { const char *file; uint32_t line, column; };\n"
    "static void polyloop_note(int fault, struct polyloop_location *at) {\n"
    "    if (!polyloop_fault) polyloop_fault = fault, polyloop_line = (int)at->line;\n"
    "}\n"
    + "".join(
        f'__attribute__((visibility("hidden"), used)) void __ubsan_handle_{name}(struct polyloop_location *at) '
        f"{{ polyloop_note({number}, at); }}\n"
        for number, name in enumerate(_WHAT, 1)
    )
    + '#line 1 "kernel.c"\n'
)


def is_checked() -> bool:
    """Return whether programs of the C target are to be built so."""
    return os.environ.get("POLYLOOP_SANITIZE", "") == "1"


def checked_library(program: GeneratedProgram) -> ctypes.CDLL:
    """Return the loaded library of *program*, for :func:`raise_faults`."""
    compiler = find_compiler()
    checks = tuple(flag for flag in _CHECKS if compiler.accepts(flag))
    source = _HANDLERS + program.device_code
    return load_library(build_library(source, flags=_FLAGS, kind="checked", check_flags=checks))


def raise_faults(program: GeneratedProgram, library: ctypes.CDLL) -> None:
    """Raise an error for the first fault since the last call, if there was one.

    Raises
    ------
    VerificationError
        ``integer-overflow``, ``division-by-zero``, ``out-of-bounds``.
    """
    fault, line = (ctypes.c_int.in_dll(library, name) for name in ("polyloop_fault", "polyloop_line"))
    if not fault.value:
        return
    found, at = _WHAT[fault.value - 1], line.value
    fault.value = line.value = 0
    lines = program.device_code.splitlines()
    text = f"line {at}: {lines[at - 1].strip()}" if 0 < at <= len(lines) else f"line {at}"
    codes = {"divrem_overflow": "division-by-zero", "out_of_bounds": "out-of-bounds"}
    raise VerificationError("call", program.kernel, [Diagnostic(
        codes.get(found, "integer-overflow"), f"integer arithmetic is undefined: {found.replace('_', ' ')}", (text,),
        ("this is a fault of the code generator unless the kernel holds C text of yours",))])
