"""Machine code of NVIDIA's as text, by the tools of the CUDA toolkit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from polyloop.errors import CompilerError, Diagnostic

__all__ = ["disassembled"]

_TOOLS: Final = {"nvdisasm": ("-c", "-g"), "cuobjdump": ("-sass",)}
_SECONDS: Final = 120


def disassembled(cubin: bytes) -> str:
    """Return the SASS of *cubin*, with the lines of the user's if it was compiled with them.

    Raises
    ------
    CompilerError
        ``no-disassembler``, ``disassembler-failed``.
    """
    tool, options = _found()
    with tempfile.TemporaryDirectory(prefix="polyloop-") as directory:
        file = Path(directory) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [str(tool), *options, str(file)]
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS, text=True,
                                  errors="replace", stdin=subprocess.DEVNULL)  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _failed(tool, f"{type(error).__name__}: {error}") from None
    if done.returncode:
        raise _failed(tool, done.stderr.strip()[-1000:])
    return done.stdout


def _failed(tool: Path, said: str) -> CompilerError:
    hint = "an older tool does not know the instructions of newer devices: install the one of your CUDA version"
    return CompilerError("sass", None, [Diagnostic(
        "disassembler-failed", f"'{tool}' does not read the machine code", (said,), (hint,))])


def _found() -> tuple[Path, tuple[str, ...]]:
    for name, options in _TOOLS.items():
        for place in _places():
            if (found := shutil.which(name, path=place)) is not None:
                return Path(found), options
    raise CompilerError("sass", None, [Diagnostic(
        "no-disassembler", "neither nvdisasm nor cuobjdump is there, which print machine code",
        ("looked for on PATH, in CUDA_HOME, CUDA_PATH and /usr/local/cuda, and in Python packages",),
        ("pip install nvidia-cuda-nvdisasm", ".ptx and .resources need no tool"))])


def _places() -> Iterator[str]:
    """Yield the folders in which tools may be, the user's choice first."""
    yield os.environ.get("PATH", os.defpath)
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if root:
            yield str(Path(root) / "bin")
    packages = Path(sysconfig.get_path("purelib"))
    yield from map(str, sorted(packages.glob("nvidia/*/bin")))
    yield str(packages / "triton" / "backends" / "nvidia" / "bin")
