"""Device code of several compilers linked by nvJitLink; needs no GPU and no driver.

Source: "nvJitLink", CUDA Toolkit documentation.
"""
# ruff: noqa: ANN401  # the binding has no types

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

from polyloop.codegen.program import DeviceCode
from polyloop.errors import CompilerError, Diagnostic

__all__ = ["linked", "linker_version"]


@functools.lru_cache(maxsize=1)
def _library() -> tuple[Any, str]:
    """Return the binding and its version.

    Raises
    ------
    CompilerError
        ``no-nvjitlink``.
    """
    try:
        library = importlib.import_module("cuda.bindings.nvjitlink")
        major, minor = library.version()
    except (ImportError, RuntimeError) as error:  # the binding raises RuntimeError if the library is absent
        raise CompilerError("compile", None, [Diagnostic(
            "no-nvjitlink", "nvJitLink, which links device code, is not installed",
            (f"{type(error).__name__}: {error}",), ('pip install "polyloop[cuda]"',))]) from None
    return library, f"nvjitlink {major}.{minor}"


def linker_version() -> str:
    """Return name and version of the linker."""
    return _library()[1]


def linked(intermediate: bytes, others: Sequence[DeviceCode], arch: str, *, lineinfo: bool = False) -> bytes:
    """Return the cubin of *intermediate*, which is LTO-IR, and the code of *others*.

    Raises
    ------
    CompilerError
        ``link-failed``, with the log.
    """
    library, _ = _library()
    options = [f"-arch={arch}", "-lto", *(["-lineinfo"] if lineinfo else [])]
    handle = library.create(len(options), options)
    try:
        try:
            library.add_data(handle, library.InputType.LTOIR, intermediate, len(intermediate), "kernel")
            for code in others:
                library.add_data(handle, library.InputType.ANY, code.data, len(code.data), code.name)
            library.complete(handle)
        except library.nvJitLinkError as error:
            raise CompilerError("compile", None, [Diagnostic(
                "link-failed", "nvJitLink refused the device code",
                (f"{error}", f"linked with: {', '.join(map(repr, others))}", f"log:\n{_log(library, handle)}"),
                (f"pass code for {arch} that defines what foreign functions declare: pl.CudaTarget(link=[..])",
                 'functions of CUDA C++ need extern "C", unless c_name is the mangled name'))]) from None
        cubin = bytearray(library.get_linked_cubin_size(handle))
        library.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    finally:
        library.destroy(handle)


def _log(library: Any, handle: int) -> str:
    log = bytearray(library.get_error_log_size(handle))
    if log:
        library.get_error_log(handle, log)
    return log.rstrip(b"\0").decode(errors="replace").strip()
