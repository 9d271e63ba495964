"""Finding a C or C++ compiler and turning text into a loaded shared library."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from polyloop.edge.locks import OwnLock
from polyloop.errors import CompilerError, Diagnostic
from polyloop.poly.budget import seconds_of_a_call
from polyloop.runtime.cache import CacheKey, open_cache
from polyloop.runtime.teams import alone_in_children

__all__ = [
    "Compiler",
    "Prelude",
    "build_library",
    "compile_library",
    "export_flags",
    "find_compiler",
    "has_own_headers",
    "load_library",
    "numbered_source",
    "open_library",
    "portable_flags",
    "processor_identity",
    "thread_flags",
]

# Value-changing options stay off: sums are not reassociated, and products not contracted unless the program says so,
# so that a C kernel gives the same bits everywhere.  errno is never read.
_EXACT: Final = "-ffp-contract=off"
_C_FLAGS: Final = ("-std=c11", "-O3", "-fPIC", "-shared")
_CONTRACTED: Final = "#pragma STDC FP_CONTRACT ON"
# GCC takes half the width of the registers of AVX-512 unless it is told: a register tile of a product then needs twice
# as many (1152 x 1152: 94 GFLOP/s, with the flag 122).
_VECTORS: Final = "#pragma omp simd"
_WIDE: Final = "-mprefer-vector-width=512"
# GCC 12 (12.2, from -O2 on) divides a loop of several stores into loops and library calls in an order that loses
# dependences between them, with and without `restrict`.  How loops are divided is the program's business anyway.
_WHOLE_LOOPS: Final = ("-fno-tree-loop-distribution", "-fno-tree-loop-distribute-patterns")
# GCC 12.2 (-O3) vectorises some sums that are written with unsigned numbers, as ours that wrap are, to wrong results,
# but not where signed ones wrap too: then it drops the conversions.  Programs without such sums keep what the compiler
# may assume of their indices.
_WRAP: Final = "-fwrapv"
_WRAPS: Final = re.compile(r"\((?:unsigned int|uint64_t)\)|\b\d+u(?:ll)?\b")
# GCC 12.2 (from -O2 on) makes vectors of two or three conversions from double to float and back without the rounding.
_ROUNDS: Final = re.compile(r"\(float\)|\bfloat \w+")
# GCC 12.2 and 13.3 (-O3, for processors with AVX2 and without AVX-512) turn a load under a condition that is the same
# for all iterations into a gather whose mask is 1 in place of -1 where it is a constant: nothing is loaded.
_GATHERS: Final = ("use_gather_2parts", "use_gather_4parts", "use_gather_8parts", "use_gather")
_OPENMP: Final = "-fopenmp"
_CANDIDATES: Final = {"c": ("CC", ("cc", "gcc", "clang"), "cc"), "c++": ("CXX", ("c++", "g++", "clang++"), "c++")}
_OWN_FAULT: Final = "this is a fault of the code generator unless the kernel holds C text of yours"
_NO_HALVES: Final = "float16 needs GCC 12 or Clang 15, or a later one (on x86): set CC"
_LIBRARY: Final = "library.so"
_PRELUDE, _ITEM = "prelude.h", "prelude.o"
_PROBE: Final = "int polyloop_probe(void) { return 0; }\n"
_PROBE_SECONDS: Final = 10.0  # for a compiler to say its version, or whether it takes a flag
_CALLS: Final = 10  # budgets of a call that a compiler has for a program
_INCLUDE: Final = re.compile(
    r"^[ \t]*(?:#|%:|\?\?=)[ \t]*(?:include|include_next|import|embed)\b[ \t]*(.*?)[ \t]*$", re.MULTILINE
)
_STANDARD_HEADER: Final = re.compile(  # of C, C++ and POSIX: they come with the compiler, whose version is known
    r"<(?:assert|complex|ctype|errno|fenv|float|immintrin|inttypes|iso646|limits|math|signal|stdalign|stdarg|stdatomic|stdbool"
    r"|stddef|stdint|stdio|stdlib|stdnoreturn|string|sys/mman|tgmath|time|ucontext|wchar|wctype)\.h>"
    r"|<(?:algorithm|array|atomic|bit|cmath|complex|cstddef|cstdint|cstdlib|cstring|limits|tuple|type_traits|utility)>"
)
_BODY: Final = '#line 1 "kernel.cu"\n'
_LANGUAGE_NAME: Final = {"c": "C", "c++": "C++"}


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler: its command, its language and its identity.

    ``identity`` is its resolved path and the first line of its version text.
    """

    command: tuple[str, ...]
    language: str
    identity: str

    def accepts(self, flag: str) -> bool:
        """Return whether the compiler takes *flag* without complaint."""
        with _PROBES.now:
            return _accepts(self, flag)


_PROBES: Final = OwnLock()
"""Held by the thread of this process that asks a compiler; the others find what it was told."""


def find_compiler(language: str = "c") -> Compiler:
    """Return the first compiler that works: ``$CC``, ``cc``, ``gcc``, ``clang``, the ``ziglang`` wheel.

    Parameters
    ----------
    language
        ``"c"``, or ``"c++"`` (``$CXX``, ``c++``, ``g++``, ``clang++``, ``ziglang``).

    Raises
    ------
    CompilerError
        ``no-c-compiler``, with the commands tried; ``bad-compiler-command``.
    """
    variable, names, _ = _CANDIDATES[language]
    with _PROBES.now:
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
    commands = [_command(language, chosen)] if chosen.strip() else []
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


def _command(language: str, chosen: str) -> list[str]:
    try:
        return shlex.split(chosen)
    except ValueError as err:
        variable = _CANDIDATES[language][0]
        raise CompilerError("compile", None, [Diagnostic(
            "bad-compiler-command", f"{variable}={chosen!r} is no command", (str(err),),
            (f"set {variable} to a command as a shell has it, such as gcc or 'clang -m64'",))]) from None


def _version(command: tuple[str, ...]) -> str | None:
    try:
        done = _run([*command, "--version"], os.curdir, _PROBE_SECONDS)
    except CompilerError:
        return None
    text = done.stdout.strip().splitlines()
    return text[0] if done.returncode == 0 and text else None


@functools.lru_cache(maxsize=64)
def _accepts(compiler: Compiler, flag: str, *, linked: bool = False) -> bool:
    """Return whether *compiler* takes *flag*; the disk cache keeps a yes, for this compiler and processor."""
    kind = ("-fPIC", "-shared") if linked else ("-c",)
    probe = CacheKey("probe", _PROBE, f"{compiler.identity} on {_processor()}", (compiler.language, flag, *kind))
    cache = None if linked else open_cache()  # what is linked need not come with the compiler
    if cache is not None and cache.read(probe) is not None:
        return True
    with _writing(), tempfile.TemporaryDirectory(prefix="polyloop-") as directory:
        source = Path(directory) / "probe.c"
        source.write_text(_PROBE)
        command = [*compiler.command, "-Werror", flag, *kind, "-x", compiler.language, str(source),
                   "-o", str(source.with_suffix(".o"))]
        is_taken = _run(command, directory, _PROBE_SECONDS).returncode == 0
    if is_taken and cache is not None:
        cache.put(probe, {})
    return is_taken


def processor_identity() -> str:
    """Return a hash that differs between processors for which a compiler makes other code."""
    return _processor()


@functools.lru_cache(maxsize=1)
def _processor() -> str:
    """Return the properties of the processor that ``-march=native`` depends on, as a hash."""
    text = f"{platform.machine()} {platform.processor()}"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    wanted = re.compile(r"(model name|flags|Features|CPU part|CPU implementer)\s*:")
    text += "\n".join(sorted({line for line in lines if wanted.match(line)}))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.lru_cache(maxsize=1)
def _scratch(process: int) -> Path:
    """Return the directory of *process*, this one, for libraries that could not be cached; it goes with the process.

    A process that was forked off has its own, and leaves its parent's alone.
    """
    path = Path(tempfile.mkdtemp(prefix="polyloop-"))

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


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
        ``no-c-compiler``, ``bad-compiler-command``, ``no-openmp``, ``c-compiler-failed``, ``compiler-too-slow``,
        ``cannot-write``, ``unsafe-cache-dir``.
    """
    built = _built(source, language, flags, kind, check_flags)
    if built.entry is not None:
        return built.entry / _LIBRARY
    with _writing():
        path = _scratch(os.getpid()) / f"{built.digest}.so"
        path.write_bytes(built.library)
        return path


@dataclass(frozen=True, slots=True)
class Prelude:
    """Text that programs have in common.

    Attributes
    ----------
    header
        Text ahead of each program; GCC compiles it once.
    definitions
        Functions and variables that the header declares, compiled once and linked to each program.
    """

    header: str
    definitions: str


def open_library(source: str, *, language: str = "c", flags: tuple[str, ...] | None = None, kind: str = "c",
                 check_flags: tuple[str, ...] = (), prelude: Prelude | None = None) -> ctypes.CDLL:
    """Compile *source* as :func:`build_library` does, and load the result even if the cache changes meanwhile.

    Parameters
    ----------
    prelude
        What *source* has in common with other programs.

    Raises
    ------
    CompilerError
        Those of :func:`build_library`; ``cannot-load``.
    """
    return _loaded(_built(source, language, flags, kind, check_flags, prelude).library)


@dataclass(frozen=True, slots=True)
class _Built:
    """A library as bytes; its name, and its entry in the disk cache, if it has one."""

    library: bytes
    digest: str
    entry: Path | None


def portable_flags(compiler: Compiler, source: str) -> tuple[str, ...]:
    """Return the flags for *source* with *compiler*, without those of this machine's processor."""
    gathers = tuple(name for name in _GATHERS if compiler.accepts(f"-mtune-ctrl=^{name}"))
    return (*_C_FLAGS, *filter(compiler.accepts, export_flags(source, gathers)))


def export_flags(source: str, gathers: tuple[str, ...] = _GATHERS) -> tuple[str, ...]:
    """Return the flags that *source* counts on: a compiler has to get those that it takes."""
    flags = ["-fno-math-errno", "-ffp-contract=fast" if _CONTRACTED in source else _EXACT, *_WHOLE_LOOPS]
    if gathers:
        flags.append(f"-mtune-ctrl={','.join(f'^{name}' for name in gathers)}")
    if _VECTORS in source:
        flags.append(_WIDE)
    if _WRAPS.search(source):
        flags.append(_WRAP)
    if "double" in source and _ROUNDS.search(source):
        flags.append("-fno-tree-slp-vectorize")
    return tuple(flags)


def thread_flags(compiler: Compiler, source: str) -> tuple[str, ...]:
    """Return the flag for *source* if it has directives of OpenMP.

    Raises
    ------
    CompilerError
        ``no-openmp``, if loops would silently be executed by one thread.
    """
    if "#pragma omp" not in source:
        return ()
    with _PROBES.now:
        has_openmp = _accepts(compiler, _OPENMP, linked=True)
    if has_openmp:
        return (_OPENMP,)
    if "#pragma omp parallel" not in source:
        return ()
    name = _LANGUAGE_NAME[compiler.language]
    raise CompilerError("compile", None, [Diagnostic(
        "no-openmp", f"the {name} compiler has no OpenMP, by which threads share loops over blocks",
        (f"'{' '.join(compiler.command)} {_OPENMP}' does not compile and link an empty function",),
        ("install OpenMP for it (libgomp comes with GCC, libomp goes with Clang), set CC to another compiler, "
         "or leave out openmp=True",))])


def _built(
    source: str, language: str, flags: tuple[str, ...] | None, kind: str, check_flags: tuple[str, ...],
    prelude: Prelude | None = None,
) -> _Built:  # fmt: skip
    compiler = find_compiler(language)
    identity = compiler.identity
    if flags is None:
        flags = portable_flags(compiler, source)
        if compiler.accepts("-march=native"):
            flags = (*flags, "-march=native")
            identity = f"{identity} on {_processor()}"
    flags = (*flags, *thread_flags(compiler, source))
    shared = (prelude.header, prelude.definitions) if prelude else ()
    whole = "\n".join([*shared[:1], source])
    headers = _headers(compiler, whole, (*flags, *check_flags)) if has_own_headers(whole) else ()
    key = CacheKey(kind, source, identity, (*flags, "|", *check_flags, *(headers or ()), *map(_digest, shared)))

    def make() -> dict[str, bytes]:
        return {_LIBRARY: compile_library(compiler, source, flags, check_flags, prelude=prelude)}

    cache = None if headers is None else open_cache()
    if cache is None:
        return _Built(make()[_LIBRARY], key.digest, None)
    files = cache.made(key, make, {_LIBRARY})
    entry = cache.root / key.digest
    return _Built(files[_LIBRARY], key.digest, entry if entry.is_dir() else None)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def has_own_headers(source: str) -> bool:
    """Return whether *source* includes files other than standard headers, so that its meaning depends on them."""
    lines = _INCLUDE.findall(source)
    return ".incbin" in source or any(_STANDARD_HEADER.fullmatch(line) is None for line in lines)


def _headers(compiler: Compiler, source: str, flags: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the content of the headers of *source*, as a part of its key; None if that cannot be known."""
    if ".incbin" in source or "embed" in source:
        return None
    with _writing(), tempfile.TemporaryDirectory(prefix="polyloop-") as directory:
        text = Path(directory) / _text_name(compiler)
        text.write_text(source, errors="surrogateescape")
        done = _run([*compiler.command, *_unlinked(flags), "-E", str(text)], directory)
        if done.returncode != 0:
            return None
        return "headers", hashlib.sha256(done.stdout.replace(directory, "").encode(errors="replace")).hexdigest()


def _text_name(compiler: Compiler) -> str:
    return "kernel.c" if compiler.language == "c" else "kernel.cpp"


def compile_library(
    compiler: Compiler, source: str, flags: tuple[str, ...], check_flags: tuple[str, ...] = (),
    beside: Mapping[str, bytes] | None = None, prelude: Prelude | None = None,
) -> bytes:  # fmt: skip
    """Return the shared library of *source*; *beside* are files that it includes, by name.

    Raises
    ------
    CompilerError
        ``c-compiler-failed``, ``compiler-too-slow``, ``cannot-write``.
    """
    with _writing(), tempfile.TemporaryDirectory(prefix="polyloop-") as directory:
        for name, content in (beside or {}).items():
            (Path(directory) / name).write_bytes(content)
        text = Path(directory) / _text_name(compiler)
        library = Path(directory) / _LIBRARY
        text.write_text(source, encoding="utf-8", errors="surrogateescape")
        first: tuple[str, ...] = ()
        linked: tuple[str, ...] = ()
        if prelude is not None:
            common = _prepared(compiler, prelude, flags, check_flags)
            first, linked = ("-include", str(common / _PRELUDE)), (str(common / _ITEM),)
        steps = [[*compiler.command, *flags, *first, *linked, str(text), "-o", str(library), "-lm"]]
        if check_flags:
            item = Path(directory) / "kernel.o"
            steps = [[*compiler.command, *_unlinked(flags), *check_flags, *first, "-c", str(text), "-o", str(item)],
                     [*compiler.command, *flags, *linked, str(item), "-o", str(library), "-lm"]]
        for command in steps:
            done = _run(command, directory)
            if done.returncode != 0 or (command is steps[-1] and not library.is_file()):
                raise _refused(compiler, source, command, done.stderr.replace(directory + os.sep, ""))
        return library.read_bytes()


def _unlinked(flags: tuple[str, ...]) -> list[str]:
    return [flag for flag in flags if flag != "-shared"]


def _refused(compiler: Compiler, source: str, command: Sequence[str], log: str) -> CompilerError:
    hint = _NO_HALVES if "_Float16" in source and "_Float16" in log else _OWN_FAULT
    return CompilerError("compile", None, [Diagnostic(
        "c-compiler-failed", f"the {_LANGUAGE_NAME[compiler.language]} compiler refused the source",
        (f"command: {shlex.join(command[:-4])}", f"log:\n{log.strip()}", f"source:\n{numbered_source(source, log)}"),
        (hint,))])


def _prepared(compiler: Compiler, prelude: Prelude, flags: tuple[str, ...], check_flags: tuple[str, ...]) -> Path:
    """Return a directory of this process with the header and the object of *prelude*.

    Raises
    ------
    CompilerError
        ``c-compiler-failed``, ``compiler-too-slow``, ``cannot-write``.
    """
    text = prelude.header + prelude.definitions
    key = CacheKey("prelude", text, compiler.identity, (*flags, "|", *check_flags))
    with _PROBES.now, _writing():
        folder = _scratch(os.getpid()) / key.digest
        if not folder.is_dir():
            cache = open_cache()
            make = functools.partial(_precompiled, compiler, prelude, flags, check_flags)
            files = make() if cache is None else cache.made(key, make, {_PRELUDE, _ITEM})
            fresh = Path(tempfile.mkdtemp(dir=folder.parent))
            for name, content in files.items():
                (fresh / name).write_bytes(content)
            fresh.rename(folder)
        return folder


def _precompiled(
    compiler: Compiler, prelude: Prelude, flags: tuple[str, ...], check_flags: tuple[str, ...]
) -> dict[str, bytes]:
    """Return the files of *prelude*: the header, its compiled form if the compiler has one, and the object."""
    with tempfile.TemporaryDirectory(prefix="polyloop-") as directory:
        header, text, item = (Path(directory) / name for name in (_PRELUDE, _text_name(compiler), _ITEM))
        ahead = header.with_suffix(".h.gch")
        header.write_text(prelude.header, encoding="utf-8")
        text.write_text(f"{prelude.header}\n{prelude.definitions}", encoding="utf-8")
        plain = [*compiler.command, *_unlinked(flags)]
        command = [*plain, "-O1", "-c", str(text), "-o", str(item)]
        done = _run(command, directory)
        if done.returncode != 0:
            raise _refused(compiler, prelude.definitions, command, done.stderr.replace(directory + os.sep, ""))
        if "clang" not in compiler.identity:  # whose compiled headers look for the text that they were made of
            _run([*plain, *check_flags, "-x", f"{compiler.language}-header", str(header), "-o", str(ahead)], directory)
        return {path.name: path.read_bytes() for path in (header, ahead, item) if path.is_file()}


def _run(command: Sequence[str], directory: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a compiler and its child processes for at most *seconds*, by default the time of ten calls.

    Raises
    ------
    CompilerError
        ``compiler-too-slow``; ``no-c-compiler``, if the command cannot be run any more.
    """
    limit = _CALLS * seconds_of_a_call() if seconds is None else seconds
    try:
        with subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=directory,
            encoding="utf-8", errors="replace", start_new_session=os.name == "posix",
        ) as process:  # fmt: skip
            try:
                out, log = process.communicate(timeout=limit)
            except BaseException:  # too slow, or interrupted: no process of the compiler's stays behind
                _end(process)
                raise
            return subprocess.CompletedProcess(process.args, process.returncode, out, log)
    except subprocess.TimeoutExpired:
        raise CompilerError("compile", None, [Diagnostic(
            "compiler-too-slow", f"the compiler did not end within {limit:g} s", (f"command: {shlex.join(command)}",),
            (f"set CC to another one, or let it take longer: with pl.time_budget({limit:g})",))]) from None
    except OSError as err:
        raise CompilerError("compile", None, [Diagnostic(
            "no-c-compiler", f"the compiler '{command[0]}' cannot be run", (str(err),), ("set CC",))]) from None


def _end(process: subprocess.Popen[str]) -> None:
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Convert an ``OSError`` while writing files for the compiler to a diagnostic with remedies.

    Raises
    ------
    CompilerError
        ``cannot-write``.
    """
    try:
        yield
    except OSError as err:
        raise CompilerError("compile", None, [Diagnostic(
            "cannot-write", "the files of the compiler cannot be written", (str(err),),
            ("make room in the directory for temporary files, or name another one: TMPDIR",
             "raise the limit on the size of files: ulimit -f unlimited"))]) from None


def numbered_source(source: str, log: str, around: int = 2, most: int = 60) -> str:
    """Return the lines of *source* that *log* speaks of, with their numbers and some context.

    A ``#line 1 "kernel.cu"`` in *source* restarts the numbering of lines.
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
        return _loaded(path.read_bytes())
    except OSError as err:
        raise _cannot_load(err) from None


def _loaded(library: bytes) -> ctypes.CDLL:
    """Load a library from a private file that is unlinked at once, so that no process can change it.

    A file that is cut off while it is in use ends the process.
    """
    with _writing():
        descriptor, name = tempfile.mkstemp(suffix=".so", prefix="polyloop-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(library)
            loaded = ctypes.CDLL(name)
            alone_in_children(loaded)
            return loaded
        except OSError as err:
            if file.closed and os.path.getsize(name) == len(library):
                raise _cannot_load(err) from None
            raise
        finally:
            os.unlink(name)


def _cannot_load(err: OSError) -> CompilerError:
    return CompilerError("compile", None, [Diagnostic(
        "cannot-load", "the compiled kernel could not be loaded", (str(err),),
        ("check that the compiler builds for this machine (CC)",))])
