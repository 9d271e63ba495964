"""Generated programs on disk: a kernel that an earlier process compiled is not scheduled, proven and generated again.

The key of an entry is the kernel, the target, and the state of the package's files, so that an entry is never older
than the code that would make it anew.  A process that finds all of its programs here does not import code generation.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from polyloop.codegen.program import GeneratedProgram
from polyloop.errors import PolyloopError, warn
from polyloop.kernel.kernel import LoopKernel
from polyloop.memo import memoised
from polyloop.runtime.cache import CacheKey, open_cache
from polyloop.serial.form import dumps, loads
from polyloop.target.base import Target
from polyloop.target.c import CTarget
from polyloop.target.cuda import CudaTarget

__all__ = ["generated"]

_FILE: Final = "program.json"
_PLAIN: Final = {"c": CTarget(), "cuda": CudaTarget()}


@memoised
def generated(kernel: LoopKernel, target: Target, index_bits: int | None = None) -> GeneratedProgram:
    """Return the program that :func:`polyloop.generate_code` returns, with its warnings, from the disk if it is there.

    ``POLYLOOP_PROGRAM_CACHE=0`` leaves the disk alone.

    Raises
    ------
    VerificationError, CodegenError
        As :func:`polyloop.generate_code`.
    """
    key = _key(kernel, target, index_bits)
    cache = None if key is None else open_cache()
    if cache is not None and key is not None and (found := _read(cache.read(key))) is not None:
        warn("generate_code", kernel.name, found.notes, kernel.silenced_warnings)
        return found
    # not imported above: most of a process that finds everything would be the import of code generation
    source: Any = importlib.import_module("polyloop.target.source")
    program: GeneratedProgram = source.generate_code(kernel, target, index_bits=index_bits)
    if cache is not None and key is not None:
        data = _written(program)
        if data is not None:
            cache.put(key, {_FILE: data})
    return program


def _key(kernel: LoopKernel, target: Target, index_bits: int | None) -> CacheKey | None:
    """Return the key of a program; None where it is not kept, as for a kernel with functions of the user's."""
    if os.environ.get("POLYLOOP_PROGRAM_CACHE") == "0":
        return None
    plain = next((name for name, other in _PLAIN.items() if target == other), None)  # the form of targets imports all
    data = _written(kernel if plain is not None else (kernel, target))
    flags = (f"index_bits={index_bits}", plain or "")
    return None if data is None else CacheKey("program", data.decode(), _package(), flags)


def _written(value: object) -> bytes | None:
    try:
        return dumps(value)
    except (PolyloopError, TypeError):
        return None


def _read(files: dict[str, bytes] | None) -> GeneratedProgram | None:
    """Return the program of an entry; None if there is none, or none of this version."""
    try:
        found = None if files is None else loads(files[_FILE])
    except (PolyloopError, KeyError):
        return None
    return found if isinstance(found, GeneratedProgram) else None


@lru_cache(maxsize=1)
def _package() -> str:
    """Return the state of the package's files: their names, sizes, and times of change."""
    root = Path(__file__).parent.parent
    text = "\n".join(f"{name} {size} {time}" for name, size, time in sorted(_files(str(root))))
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".txt", ".h", ".cpp")):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns
            elif not entry.name.startswith(("_", ".")) and entry.is_dir():
                yield from _files(entry.path)
