"""The library through which this process reaches the CUDA driver."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Final

from polyloop.edge.words import spelt
from polyloop.errors import CompilerError, Diagnostic
from polyloop.runtime.cuda.library import CudaLibrary
from polyloop.runtime.cuda.withcudacore import CudaCoreLibrary
from polyloop.runtime.cuda.withpycuda import PycudaLibrary
from polyloop.runtime.foreign.view import ArrayKind

__all__ = ["VARIABLE", "cuda_library", "library_of", "refuse_forked"]

VARIABLE: Final = "POLYLOOP_CUDA_BACKEND"
"""Environment variable with the name of a library; without it, the first one that is installed."""
_LIBRARIES: Final[Mapping[str, Callable[[], CudaLibrary]]] = {
    "pycuda": PycudaLibrary, "cuda.core": CudaCoreLibrary,
}  # fmt: skip


@functools.lru_cache(maxsize=1)
def cuda_library() -> CudaLibrary:
    """Return the library, initialised.

    Raises
    ------
    ModuleNotFoundError
        None is installed, or the one that is asked for is not.
    NoDriverError
        The driver is not installed, or does not start.
    CompilerError
        ``unknown-cuda-backend``.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked:
        if asked not in _LIBRARIES:
            raise CompilerError("call", None, [Diagnostic(
                "unknown-cuda-backend", f"{VARIABLE}={spelt(asked)} is no library that kernels are launched through",
                (), (f"libraries: {', '.join(_LIBRARIES)}", f"unset {VARIABLE} to use the first that is installed"))])
        return _LIBRARIES[asked]()
    try:
        return PycudaLibrary()
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("pycuda"):
            raise
        try:
            return CudaCoreLibrary()
        except ModuleNotFoundError:
            raise error from None


def refuse_forked() -> None:
    """Refuse to use the driver in a process that was forked from the one that uses it.

    Raises
    ------
    CompilerError
        ``cuda-after-fork``.
    """
    first = cuda_library().process
    if first != os.getpid():
        raise CompilerError("call", None, [Diagnostic(
            "cuda-after-fork", "CUDA was used before this process was forked, and does not work in it",
            (f"process {first} uses the GPU, and process {os.getpid()} is a copy of it",
             "contexts of the CUDA driver do not survive fork()"),
            ('start processes by multiprocessing.get_context("spawn")',
             "or fork before the first call of a kernel, and before pl.compile() without a target"))])


def library_of(kind: ArrayKind) -> CudaLibrary:
    """Return the library that makes arrays of *kind*, which may be another one than launches go through.

    Beside arrays that only describe themselves it is that of launches.
    """
    found = cuda_library()
    return found if kind in {found.arrays, ArrayKind.CUDA} else _other(kind)


@functools.cache
def _other(kind: ArrayKind) -> CudaLibrary:
    return PycudaLibrary() if kind is ArrayKind.PYCUDA else CudaCoreLibrary()
