"""Compile generated C with gcc and call it."""
# types of elements and constants come in every spelling that NumPy takes

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyloop.codegen.program import GeneratedProgram
from polyloop.kernel.arrays import ArrayArg

__all__ = ["compile_c", "needs_compiler", "run_c"]

COMPILER = shutil.which("gcc") or shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (gcc or cc)")


def compile_c(source: str, folder: Path) -> ctypes.CDLL:
    """Return the shared library of *source*; warnings other than of unused things are errors."""
    assert COMPILER is not None
    stem = hashlib.sha256(source.encode()).hexdigest()[:16]
    path, library = folder / f"{stem}.c", folder / f"{stem}.so"
    path.write_text(source)
    flags = ["-std=c11", "-O1", "-shared", "-fPIC"]
    flags += ["-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-maybe-uninitialized"]
    done = subprocess.run(
        [COMPILER, *flags, str(path), "-o", str(library), "-lm"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stderr}\n{source}"
    return ctypes.CDLL(str(library))


def run_c(program: GeneratedProgram, folder: Path, **values: Any) -> None:
    """Run a program of the C target on NumPy arrays and numbers, in place."""
    function = getattr(compile_c(program.device_code, folder), program.launches[0].name)
    function.restype = None
    by_name = {argument.name: argument for argument in program.arguments}
    arguments = []
    for name in program.launches[0].arguments:
        argument, given = by_name[name], values[name]
        dtype: Any = argument.dtype
        if isinstance(argument, ArrayArg):
            assert given.dtype == dtype
            assert given.flags.c_contiguous
            arguments.append(given.ctypes.data_as(ctypes.c_void_p))
        else:
            arguments.append(np.ctypeslib.as_ctypes_type(dtype)(given))
    function(*arguments)
