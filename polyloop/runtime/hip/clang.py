"""Clang with the AMDGPU backend, and the device libraries of ROCm, where they are installed."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from polyloop.errors import CompilerError, Diagnostic

__all__ = ["Clang", "DeviceLibraries", "clang_for", "device_libraries", "hip_available"]

_OLDEST, _NEWEST = 17, 24
"""Versions of LLVM by which compilers and linkers are called; gfx942 came with 17."""
_BACKEND: Final = "amdgcn"
_PROBE_SECONDS: Final = 20.0
_OPTIONS: Final = ("finite_only_off", "unsafe_math_off", "daz_opt_off", "correctly_rounded_sqrt_on")
_OCML: Final = "ocml.bc"


@dataclass(frozen=True)
class Clang:
    """A compiler with the AMDGPU backend: its command, that of its linker (empty without one), and its version."""

    command: tuple[str, ...]
    linker: tuple[str, ...]
    version: str


@dataclass(frozen=True)
class DeviceLibraries:
    """Folder with the bitcode of ocml, the mathematical functions of AMD GPUs."""

    folder: Path

    def flags(self, arch: str, wave: int) -> list[str]:
        """Return the flags that link what a program uses."""
        names = [_OCML, *(f"oclc_{name}.bc" for name in _OPTIONS)]
        names.append(f"oclc_wavefrontsize64_{'on' if wave > 32 else 'off'}.bc")
        names.append(self._version(arch))
        return [word for name in names for word in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang",
                                                    str(self.folder / name))]  # fmt: skip

    def _version(self, arch: str) -> str:
        """Return the file that says the architecture; libraries older than it have the one of its forerunner."""
        forerunners = {"gfx942": "90a", "gfx1100": "1030"}
        for name in (arch.removeprefix("gfx"), forerunners.get(arch, "90a")):
            if (self.folder / f"oclc_isa_version_{name}.bc").exists():
                return f"oclc_isa_version_{name}.bc"
        return "oclc_isa_version_90a.bc"


def _rocm() -> Iterator[Path]:
    """Yield the folders in which ROCm may be installed."""
    yield from (Path(root) for root in (os.environ.get("ROCM_PATH"), os.environ.get("HIP_PATH")) if root)
    yield Path("/opt/rocm")


def _linker(command: str) -> tuple[str, ...]:
    return (found,) if (found := shutil.which(command)) else ()


def _candidates() -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield commands of compilers, each with that of its linker: ROCm's, that of Zig's wheel, those on the path."""
    for root in _rocm():
        yield (str(root / "llvm/bin/clang"),), (str(root / "llvm/bin/ld.lld"),)
    spec = importlib.util.find_spec("ziglang")
    if spec is not None and spec.submodule_search_locations:
        zig = str(Path(spec.submodule_search_locations[0]) / "zig")
        yield (zig, "clang"), (zig, "ld.lld")
    for version in range(_NEWEST, _OLDEST - 1, -1):
        yield (f"clang-{version}",), _linker(f"ld.lld-{version}") or _linker("ld.lld")
    yield ("clang",), _linker("ld.lld")


def _output(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(  # a compiler, asked what it is
            command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


@functools.lru_cache(maxsize=1)
def _find() -> Clang | None:
    for command, linker in _candidates():
        own = shutil.which(command[0])
        if own is None:
            continue
        whole = (own, *command[1:])
        version = _output([*whole, "--version"]).partition("\n")[0]
        number = next((word.split(".")[0] for word in version.split() if word[:1].isdigit()), "0")
        if not number.isdigit() or int(number) < _OLDEST or _BACKEND not in _output([*whole, "--print-targets"]):
            continue
        return Clang(whole, linker if linker and shutil.which(linker[0]) else (), version)
    return None


def clang_for(kernel: str | None = None) -> Clang:
    """Return the compiler.

    Raises
    ------
    CompilerError
        ``no-hip-compiler``.
    """
    found = _find()
    if found is None:
        raise CompilerError("compile_hip", kernel, [Diagnostic(
            "no-hip-compiler", f"no Clang of version {_OLDEST} or later with a backend for AMD GPUs is installed",
            ("looked for ROCm, the package ziglang, and clang on the path",),
            ('pip install "polyloop[hip]" has one',))])
    return found


def hip_available() -> tuple[bool, str]:
    """Return whether HIP C++ can be compiled here, and by what; if not, why."""
    try:
        return True, clang_for().version
    except CompilerError as error:
        return False, f"{error.found[0].message} ({error.found[0].notes[0]})"


@functools.lru_cache(maxsize=1)
def device_libraries() -> DeviceLibraries | None:
    """Return the device libraries of ROCm, None where they are not installed."""
    said = os.environ.get("HIP_DEVICE_LIB_PATH")
    folders = [Path(said)] if said else []
    folders += [root / "amdgcn/bitcode" for root in _rocm()]
    folders += sorted(Path("/usr/lib").glob("*/amdgcn/bitcode"))
    return next((DeviceLibraries(folder) for folder in folders if (folder / _OCML).exists()), None)
