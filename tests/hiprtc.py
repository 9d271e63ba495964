"""hipRTC by ctypes, where a library of HIP is installed: it compiles without a GPU."""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import cache
from typing import Any

__all__ = ["compiled", "hiprtc"]


@cache
def hiprtc() -> Any:
    """Return the library with hipRTC, None if there is none."""
    for name in ("libhiprtc.so", "libamdhip64.so", ctypes.util.find_library("amdhip64"), "libamdhip64.so.5"):
        try:
            library = ctypes.CDLL(name) if name else None
        except OSError:
            continue
        if library is not None and hasattr(library, "hiprtcCreateProgram"):
            return library
    return None


def compiled(source: str, arch: str) -> tuple[bytes, str]:
    """Return the code object of *source*, empty if hipRTC refuses it, and what it says."""
    library, program, size = hiprtc(), ctypes.c_void_p(), ctypes.c_size_t()
    assert library.hiprtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.hip", 0, None, None) == 0
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture={arch}".encode())
    status = library.hiprtcCompileProgram(program, 1, options)
    library.hiprtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(max(1, size.value))
    library.hiprtcGetProgramLog(program, log)
    code = b""
    if status == 0:
        library.hiprtcGetCodeSize(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        library.hiprtcGetCode(program, buffer)
        code = buffer.raw
    library.hiprtcDestroyProgram(ctypes.byref(program))
    return code, log.value.decode(errors="replace")
