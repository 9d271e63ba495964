"""CUDA C to cubin and PTX with NVRTC, linked by nvJitLink; needs no GPU and no driver."""
# ruff: noqa: ANN401  # the binding has no types

from __future__ import annotations

import functools
import hashlib
import importlib
from dataclasses import dataclass
from typing import Any, Final

from polyloop.codegen.program import BuildOptions
from polyloop.errors import CompilerError, Diagnostic
from polyloop.runtime.cache import CacheKey, open_cache
from polyloop.runtime.ccompile import has_own_headers, numbered_source
from polyloop.runtime.cuda.disassembler import disassembled
from polyloop.runtime.cuda.linking import linked, linker_version
from polyloop.runtime.resources import Resources, resources

__all__ = ["CompiledCuda", "Resources", "compile_cuda", "nvrtc_available", "resources"]

_BASE_OPTIONS: Final = ("--define-macro=POLYLOOP_NVRTC",)
_STANDARD: Final = "c++17"
_PLAIN: Final = BuildOptions()
_OWN_FAULT: Final = "this is a fault of the code generator unless the kernel holds C text of yours"
_HINTS: Final = {
    "Unresolved extern":
        "link the device code that defines it: pl.CudaTarget(link=[..]), or put its text into the preamble",
    "cannot open source file": 'say where the header is: pl.CudaTarget(options=["-I.."])',
    "unrecognized option": "pl.CudaTarget(options=[..]) takes options of NVRTC, which are not all those of nvcc",
}  # fmt: skip
"""Part of the compiler's log -> hint."""


@dataclass(frozen=True, slots=True)
class CompiledCuda:
    """Machine code, PTX and the compiler's remarks."""

    cubin: bytes
    ptx: str
    log: str

    @property
    def sass(self) -> str:
        """The machine code as text; see :func:`polyloop.runtime.cuda.disassembler.disassembled`."""
        return disassembled(self.cubin)


@functools.lru_cache(maxsize=1)
def _load() -> tuple[Any, str]:
    """Return the NVRTC binding and its version, or raise ImportError or RuntimeError.

    ``cuda.core`` sits on the same binding but asks the driver for its version when it makes
    PTX, which would tie compiling to a machine with a GPU.
    """
    nvrtc = importlib.import_module("cuda.bindings.nvrtc")
    status, major, minor = nvrtc.nvrtcVersion()
    assert status == 0, f"nvrtcVersion failed: {status}"
    return nvrtc, f"nvrtc {major}.{minor}"


def _nvrtc() -> tuple[Any, str]:
    try:
        return _load()
    except (ImportError, RuntimeError) as err:  # the binding raises RuntimeError if the library is absent
        raise CompilerError("compile", None, [Diagnostic(
            "no-nvrtc", "NVRTC, the CUDA compiler library, is not installed",
            (f"{err.__class__.__name__}: {err}",), ('pip install "polyloop[cuda]"',))]) from None


def nvrtc_available() -> tuple[bool, str]:
    """Return whether CUDA C can be compiled here, and if not, why."""
    try:
        return True, _nvrtc()[1]
    except CompilerError as err:
        return False, f"{err.found[0].message} ({err.found[0].notes[0]})"


def compile_cuda(
    source: str, arch: str = "sm_90", options: tuple[str, ...] = (), build: BuildOptions = _PLAIN
) -> CompiledCuda:
    """Compile CUDA C for one architecture, through the disk cache if it takes no text from files of the user's.

    A key is compiled by one thread of all processes: the others wait, and find it in the cache.

    Parameters
    ----------
    arch
        ``"sm_80"``, ``"sm_90"``, ...
    options
        More NVRTC options, such as ``"--fmad=false"``.
    build
        What a target says of compiling and linking.

    Raises
    ------
    CompilerError
        ``no-nvrtc``, ``nvrtc-failed`` (with the log and the numbered source), ``no-nvjitlink``, ``link-failed``,
        ``unsafe-cache-dir``.
    """
    nvrtc, version = _nvrtc()
    flags = (f"--gpu-architecture={arch}", f"--std={build.std or _STANDARD}", *_BASE_OPTIONS, *options, *build.options)
    flags += ("--generate-line-info",) if build.lineinfo else ()
    if build.linked:
        version += f", {linker_version()}"
    digests = tuple(f"link={hashlib.sha256(code.data).hexdigest()}" for code in build.linked)
    key = CacheKey("cuda", source, version, (*flags, *digests))
    reads_files = has_own_headers(source) or any("include" in option for option in build.options)
    cache = None if reads_files else open_cache()

    def make() -> dict[str, bytes]:
        result = _linked(nvrtc, source, arch, flags, build) if build.linked else _compile(nvrtc, source, flags)
        return {"kernel.cubin": result.cubin, "kernel.ptx": result.ptx.encode(), "log.txt": result.log.encode()}

    files = make() if cache is None else cache.made(key, make, {"kernel.cubin", "kernel.ptx", "log.txt"})
    return CompiledCuda(files["kernel.cubin"], files["kernel.ptx"].decode(), files["log.txt"].decode())


def _linked(nvrtc: Any, source: str, arch: str, flags: tuple[str, ...], build: BuildOptions) -> CompiledCuda:
    """Compile to LTO-IR, and link with the device code of others; the PTX is that of the text alone."""
    intermediate = _compile(nvrtc, source, (*flags, "-dlto"), _LTO)
    ptx = _compile(nvrtc, source, (*flags, "--relocatable-device-code=true")).ptx
    cubin = linked(intermediate.cubin, build.linked, arch, lineinfo=build.lineinfo)
    return CompiledCuda(cubin, ptx, intermediate.log)


_LTO: Final = "LTOIR"


def _compile(nvrtc: Any, source: str, flags: tuple[str, ...], kind: str = "CUBIN") -> CompiledCuda:
    """Compile to machine code, or to what *kind* says; then there is no PTX."""
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, None, None)
    assert status == 0, f"nvrtcCreateProgram failed: {status}"
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        log = _fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        log_text = log.rstrip(b"\0").decode(errors="replace").strip()
        if status != 0:
            raise CompilerError("compile", None, [Diagnostic(
                "nvrtc-failed", "NVRTC refused the generated source",
                (f"status: {status.name}, options: {' '.join(flags)}", f"log:\n{log_text}",
                 f"source:\n{numbered_source(source, log_text)}"),
                (next((hint for sign, hint in _HINTS.items() if sign in log_text), _OWN_FAULT),))])
        cubin = _fetch(getattr(nvrtc, f"nvrtcGet{kind}Size"), getattr(nvrtc, f"nvrtcGet{kind}"), program)
        if kind == _LTO:
            return CompiledCuda(cubin, "", log_text)
        ptx = _fetch(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
        return CompiledCuda(cubin, ptx.rstrip(b"\0").decode(), log_text)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _fetch(size_of: Any, read: Any, program: Any) -> bytes:
    status, size = size_of(program)
    assert status == 0, f"NVRTC gave no size: {status}"
    if size <= 1:  # nothing but the closing NUL; bytes of length one are shared by the interpreter
        return b""
    data: bytes = b" " * int(size)  # the binding writes into it
    (status,) = read(program, data)
    assert status == 0, f"NVRTC gave no data: {status}"
    return data
