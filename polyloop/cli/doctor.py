"""``python -m polyloop doctor``: compilers, libraries and GPUs on this machine that polyloop can use."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import polyloop as pl
from polyloop.errors import CompilerError
from polyloop.runtime.ccompile import find_compiler
from polyloop.runtime.gpu import device_name, gpu_available
from polyloop.runtime.hip.clang import device_libraries, hip_available
from polyloop.runtime.nvrtc import nvrtc_available

__all__ = ["Finding", "findings", "report"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for.

    ``detail`` is its version or place, or why it cannot be used.
    """

    name: str
    is_there: bool
    detail: str


def _package(name: str) -> Finding:
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, False, f"not installed (pip install {name})")


def _compiler(language: str, label: str) -> Finding:
    try:
        compiler = find_compiler(language)
    except CompilerError as error:
        return Finding(label, False, "; ".join((*error.found[0].notes, *error.found[0].hints)))
    return Finding(label, True, f"{shlex.join(compiler.command)} ({compiler.identity.partition(' ')[2].strip()})")


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def findings() -> Iterator[Finding]:
    """Yield the findings, required parts first."""
    yield Finding("Python", True, platform.python_version())
    yield Finding("polyloop", True, pl.__version__)
    yield _package("islpy")
    yield _package("pymbolic")
    yield _package("numpy")
    yield _compiler("c", "C compiler")
    yield _compiler("c++", "C++ compiler")
    has_nvrtc, nvrtc = nvrtc_available()
    yield Finding("NVRTC", has_nvrtc, _first_line(nvrtc))
    yield _package("pycuda")
    yield _package("cuda-core")
    has_gpu, gpu = gpu_available()
    yield Finding("GPU", has_gpu, str(device_name()) if has_gpu else _first_line(gpu))
    has_clang, clang = hip_available()
    yield Finding("HIP compiler", has_clang, _first_line(clang))
    libraries = device_libraries()
    yield Finding("HIP library", libraries is not None,
                  "ocml.bc not found (ROCm, or rocm-device-libs)" if libraries is None else str(libraries.folder))
    yield _package("pillow")


def report() -> str:
    """Return the findings as text, one a line."""
    found = tuple(findings())
    width = max(len(finding.name) for finding in found)
    return "\n".join(f"{'yes' if f.is_there else 'no':3}  {f.name:<{width}}  {f.detail}" for f in found)
