"""Machine code of bundles: a shared object, or cubins and PTX."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from polyloop.errors import CodegenError, Diagnostic
from polyloop.export.interface import Interface
from polyloop.runtime.ccompile import compile_library, find_compiler, portable_flags, thread_flags
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.target.base import Target

__all__ = ["binaries", "given_architectures"]

_ARCHITECTURE: Final = re.compile(r"sm_\d+[af]?")


def given_architectures(
    kernel: str, target: Target, architectures: Sequence[str], *, bundle: bool
) -> tuple[str, ...]:
    """Return the architectures to compile for.

    Raises
    ------
    CodegenError
        ``bad-architecture``.
    """
    found = tuple(dict.fromkeys(architectures))
    bad = next((entry for entry in found if _ARCHITECTURE.fullmatch(entry) is None), None)
    if bad is not None or (found and not (bundle and target.name == "cuda")):
        message = f"architectures={list(found)} fits no export of this kind"
        message = message if bad is None else f"'{bad}' is no architecture"
        raise CodegenError("export", kernel, [Diagnostic(
            "bad-architecture", message, ("architectures are those of cubins in a bundle for CUDA",),
            ('pass target=pl.CudaTarget(), bundle=True, architectures=["sm_80", "sm_90"]',))])
    return found or ((target.arch,) if target.arch else ())


def binaries(
    interface: Interface, files: Mapping[str, bytes], architectures: Sequence[str]
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Compile *files*; return the compiled ones, and what the manifest says of them.

    Raises
    ------
    CompilerError
        ``no-c-compiler``, ``c-compiler-failed``, ``no-nvrtc``, ``nvrtc-failed``.
    """
    if interface.is_cuda:
        return _cubins(interface, architectures)
    name = f"lib{interface.prefix}.so"
    system = {"system": sys.platform, "machine": platform.machine()}
    return {name: _library(interface, files)}, {"library": name, **system}


def _cubins(interface: Interface, architectures: Sequence[str]) -> tuple[dict[str, bytes], dict[str, Any]]:
    made, listed = dict[str, bytes](), dict[str, str]()
    ptx = ""
    for architecture in architectures:
        compiled = compile_cuda(interface.program.device_code, architecture, build=interface.program.build)
        file = f"{interface.prefix}.{architecture}.cubin"
        made[file], listed[architecture] = compiled.cubin, file
        ptx = ptx or compiled.ptx
    file = f"{interface.prefix}.ptx"
    made[file] = ptx.encode()
    return made, {"cubins": listed, "ptx": file, "ptx_architecture": architectures[0]}


def _library(interface: Interface, files: Mapping[str, bytes]) -> bytes:
    """Return the shared object, for any processor of this machine's kind."""
    compiler, source, launcher = find_compiler(), interface.program.device_code, f"{interface.prefix}.c"
    flags = (*portable_flags(compiler, source), *thread_flags(compiler, source))
    others = {name: text for name, text in files.items() if name != launcher}
    return compile_library(compiler, files[launcher].decode(), flags, beside=others)
