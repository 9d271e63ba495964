"""Finding a C or C++ compiler and turning text into a loaded shared library."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from polyloop.errors import CompilerError, Diagnostic
from polyloop.runtime.cache import CacheKey, open_cache

__all__ = ["Compiler", "build_library", "find_compiler", "load_library", "numbered_source"]

# Value-changing options stay off: sums are not reassociated and products not contracted, so that
# a C kernel gives the same bits everywhere.  Nobody reads errno.
_C_FLAGS: Final = ("-std=c11", "-O3", "-fPIC", "-shared", "-fno-math-errno", "-ffp-contract=off")
# GCC 12 (12.2, from -O2 on) divides a loop of several stores into loops and library calls in an order that loses
# dependences between them, with and without `restrict`.  How loops are divided is the program's business anyway.
_WHOLE_LOOPS: Final = ("-fno-tree-loop-distribution", "-fno-tree-loop-distribute-patterns")
_CANDIDATES: Final = {"c": ("CC", ("cc", "gcc", "clang"), "cc"), "c++": ("CXX", ("c++", "g++", "clang++"), "c++")}
_OWN_FAULT: Final = "this is a fault of the code generator unless the kernel holds C text of yours"
_NO_HALVES: Final = "float16 needs GCC 12 or Clang 15, or a later one (on x86): set CC"
_BODY: Final = '#line 1 "kernel.cu"\n'
_LANGUAGE_NAME: Final = {"c": "C", "c++": "C++"}


@dataclass(frozen=True, slots=True)
class Compiler:
    """A command that compiles *language*, and what makes it different from others.

    ``identity`` is its resolved path and the first line of its version text.
    """

    command: tuple[str, ...]
    language: str
    identity: str

    def accepts(self, flag: str) -> bool:
        """Return whether the compiler takes *flag* without complaint."""
        return _accepts(self, flag)


def find_compiler(language: str = "c") -> Compiler:
    """Return the first compiler that works: ``$CC``, ``cc``, ``gcc``, ``clang``, the ``ziglang`` wheel.

    Parameters
    ----------
    language
        ``"c"``, or ``"c++"`` (``$CXX``, ``c++``, ``g++``, ``clang++``, ``ziglang``).

    Raises
    ------
    CompilerError
        ``no-c-compiler``, with what was looked for.
    """
    variable, names, _ = _CANDIDATES[language]
    found = _find(language, os.environ.get(variable, ""), os.environ.get("PATH", ""))
    if found is not None:
        return found
    chosen = os.environ.get(variable, "")
    first = f"${variable} ('{chosen}')" if chosen else f"${variable} (not set)"
    looked = [first, *names, "the Python package 'ziglang'"]
    raise CompilerError("compile", None, [Diagnostic(
        "no-c-compiler", f"no {_LANGUAGE_NAME[language]} compiler was found",
        (f"looked for {', '.join(looked)}",),
        (f'pip install "ziglang", install gcc or clang, or set {variable}',))])


@functools.lru_cache(maxsize=16)
def _find(language: str, chosen: str, path: str) -> Compiler | None:
    _, names, zig = _CANDIDATES[language]
    commands = [shlex.split(chosen)] if chosen.strip() else []
    commands += [[name] for name in names]
    if importlib.util.find_spec("ziglang") is not None:
        commands.append([sys.executable, "-m", "ziglang", zig])
    for command in commands:
        program = shutil.which(command[0], path=path or None)
        if program is None:
            continue
        version = _version((program, *command[1:]))
        if version is not None:
            identity = f"{Path(program).resolve()} {' '.join(command[1:])} {version}"
            return Compiler((program, *command[1:]), language, identity)
    return None


def _version(command: tuple[str, ...]) -> str | None:
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = done.stdout.strip().splitlines()
    return text[0] if done.returncode == 0 and text else None


@functools.lru_cache(maxsize=64)
def _accepts(compiler: Compiler, flag: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="polyloop-") as directory:
        source = Path(directory) / "probe.c"
        source.write_text("int polyloop_probe(void) { return 0; }\n")
        command = [*compiler.command, "-Werror", flag, "-x", compiler.language, "-c", str(source),
                   "-o", str(source.with_suffix(".o"))]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


@functools.lru_cache(maxsize=1)
def _processor() -> str:
    """Return what ``-march=native`` depends on, as a hash."""
    text = f"{platform.machine()} {platform.processor()}"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    wanted = re.compile(r"(model name|flags|Features|CPU part|CPU implementer)\s*:")
    text += "\n".join(sorted({line for line in lines if wanted.match(line)}))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.lru_cache(maxsize=1)
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """Return the directory for libraries that could not be cached; it goes with the process."""
    return tempfile.TemporaryDirectory(prefix="polyloop-")


def build_library(source: str, *, language: str = "c", flags: tuple[str, ...] | None = None, kind: str = "c",
                  check_flags: tuple[str, ...] = ()) -> Path:
    """Compile *source* to a shared library, through the disk cache, and return its path.

    Parameters
    ----------
    flags
        Instead of the usual ones (C11, full optimization, IEEE arithmetic, this processor).
    kind
        Names the class of programs in the cache.
    check_flags
        Used for compiling but not for linking (instrumentation that brings its own handlers).

    Raises
    ------
    CompilerError
        ``no-c-compiler``, ``c-compiler-failed``, ``unsafe-cache-dir``.
    """
    compiler = find_compiler(language)
    identity = compiler.identity
    if flags is None:
        flags = (*_C_FLAGS, *filter(compiler.accepts, _WHOLE_LOOPS))
        if compiler.accepts("-march=native"):
            flags = (*flags, "-march=native")
            identity = f"{identity} on {_processor()}"
    if "#pragma omp" in source and compiler.accepts("-fopenmp"):
        flags = (*flags, "-fopenmp")
    key = CacheKey(kind, source, identity, (*flags, "|", *check_flags))
    cache = open_cache()
    entry = cache.get(key) if cache is not None else None
    if entry is not None:
        return entry / "library.so"
    data = _compile(compiler, source, flags, check_flags)
    entry = cache.put(key, {"library.so": data}) if cache is not None else None
    if entry is not None:
        return entry / "library.so"
    path = Path(_scratch().name) / f"{key.digest}.so"
    path.write_bytes(data)
    return path


def _compile(compiler: Compiler, source: str, flags: tuple[str, ...], check_flags: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="polyloop-") as directory:
        text = Path(directory) / ("kernel.c" if compiler.language == "c" else "kernel.cpp")
        library = Path(directory) / "library.so"
        text.write_text(source)
        compile_only = [f for f in flags if f not in ("-shared",)]
        steps = [[*compiler.command, *flags, str(text), "-o", str(library), "-lm"]]
        if check_flags:
            item = Path(directory) / "kernel.o"
            steps = [[*compiler.command, *compile_only, *check_flags, "-c", str(text), "-o", str(item)],
                     [*compiler.command, *flags, str(item), "-o", str(library), "-lm"]]
        for command in steps:
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
            if done.returncode != 0:
                log = done.stderr.replace(directory + os.sep, "")
                hint = _NO_HALVES if "_Float16" in source and "_Float16" in log else _OWN_FAULT
                raise CompilerError("compile", None, [Diagnostic(
                    "c-compiler-failed", f"the {_LANGUAGE_NAME[compiler.language]} compiler refused the source",
                    (f"command: {shlex.join(command[:-4])}", f"log:\n{log.strip()}",
                     f"source:\n{numbered_source(source, log)}"),
                    (hint,))])
        return library.read_bytes()


def numbered_source(source: str, log: str, around: int = 2, most: int = 60) -> str:
    """Return the lines of *source* that *log* speaks of, with their numbers and some context.

    A ``#line 1 "kernel.cu"`` in *source* begins the numbering anew.
    """
    lines = (source.partition(_BODY)[2] or source).splitlines()
    named = {int(n) for n in re.findall(r"\bkernel\.\w+[:(](\d+)", log)}
    shown = sorted({k for n in named for k in range(n - around, n + around + 1) if 1 <= k <= len(lines)})
    shown = (shown or list(range(1, len(lines) + 1)))[:most]
    return "\n".join(f"{'>' if k in named else ' '}{k:5d} | {lines[k - 1]}" for k in shown)


def load_library(path: Path) -> ctypes.CDLL:
    """Load a shared library that :func:`build_library` made.

    Raises
    ------
    CompilerError
        ``cannot-load``: the system does not accept the library.
    """
    try:
        return ctypes.CDLL(str(path))
    except OSError as err:
        raise CompilerError("compile", None, [Diagnostic(
            "cannot-load", "the compiled kernel could not be loaded", (str(err),),
            ("check that the compiler builds for this machine (CC)",))]) from None
