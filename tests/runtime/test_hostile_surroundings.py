"""Compilers that hang or babble, caches that were tampered with, forks, and places where nothing can be written."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import CompilerError
from polyloop.runtime import ccompile
from polyloop.runtime.cache import CacheKey, DiskCache, open_cache
from polyloop.runtime.ccompile import build_library, has_own_headers, load_library, open_library

ANSWER = "int answer(void) { return 42; }\n"
KEY = CacheKey("c", "int x;\n", "cc 1.0", ("-O3",))

CALL = """
import warnings; warnings.simplefilter("ignore")
import numpy as np, polyloop as pl
def go(name, factor):
    knl = pl.make_kernel("{[i]: 0 <= i < n}", f"y[i] = {factor}*x[i]",
                         [pl.GlobalArg("x, y", np.float64, shape="n"), ...], name=name)
    return pl.compile(knl, pl.CTarget())(x=np.ones(3)).y
"""


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POLYLOOP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def script(path: Path, text: str) -> str:
    path.write_text("#!/bin/sh\n" + textwrap.dedent(text))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def refusal(call: Callable[[], object]) -> CompilerError:
    with pytest.raises(CompilerError) as error:
        call()
    return error.value


def run_python(text: str, **environment: str | None) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
    command = [sys.executable, "-c", CALL + textwrap.dedent(text)]
    root = Path(__file__).parents[2]
    return subprocess.run(command, env=known, cwd=root, capture_output=True, text=True, check=False, timeout=300)


# {{{ compilers


def test_a_compiler_that_hangs_is_ended(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ccompile, "_PROBE_SECONDS", 1.0)
    left = tmp_path / "left"
    hanging = script(tmp_path / "hangs", f"""\
        case "$*" in *--version*) echo hangs 1.0;; *) sleep 300 & echo $! > {left}; wait;; esac
    """)
    monkeypatch.setenv("CC", hanging)
    begin = monotonic()
    error = refusal(lambda: build_library(ANSWER))
    assert monotonic() - begin < 30
    assert error.codes == ("compiler-too-slow",)
    assert "did not end within 1 s" in str(error)
    number = left.read_text().strip()
    last = monotonic() + 20
    while _runs(number) and monotonic() < last:  # a killed process is still there until it is scheduled
        sleep(0.01)
    assert not _runs(number), "its child runs on"


def _runs(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_program_that_takes_too_long_to_compile_is_ended(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = script(tmp_path / "slow", 'case "$*" in *kernel.c*) sleep 300;; *) echo slow 1.0;; esac\n')
    monkeypatch.setenv("CC", slow)
    with pl.time_budget(0.1):
        error = refusal(lambda: build_library(ANSWER))
    assert error.codes == ("compiler-too-slow",)
    assert "pl.time_budget(1)" in str(error)


def test_a_compiler_whose_version_hangs_is_passed_over(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ccompile, "_PROBE_SECONDS", 1.0)
    monkeypatch.setenv("CC", script(tmp_path / "mute", "sleep 300\n"))
    assert load_library(build_library(ANSWER)).answer() == 42


@pytest.mark.parametrize("text", ["gcc '", 'gcc "-O2', "gcc \\"])
def test_a_compiler_command_that_no_shell_takes_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("CC", text)
    error = refusal(lambda: ccompile.find_compiler("c"))
    assert error.codes == ("bad-compiler-command",)
    assert repr(text) in str(error)


def test_what_a_compiler_says_may_be_in_any_encoding(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    babbling = script(tmp_path / "babbles", r"""
        case "$*" in *--version*) printf 'caf\351 1.0\n';; *) printf '\377\376kernel.c:1: no\n' >&2; exit 1;; esac
    """)
    monkeypatch.setenv("CC", babbling)
    error = refusal(lambda: build_library(ANSWER))
    assert error.codes == ("c-compiler-failed",)
    assert "kernel.c:1: no" in str(error)


def test_a_compiler_that_makes_nothing_has_failed(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", script(tmp_path / "idle", "echo idle 1.0\n"))
    assert refusal(lambda: build_library(ANSWER)).codes == ("c-compiler-failed",)


# }}}
# {{{ headers


def kernel_with_header(header: Path) -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i]: 0 <= i < n}",
        [pl.CInstruction("i", "y[i] = FACTOR * x[i];", read_variables=["x", "i"], assignees=["y[i]"], id="scale")],
        [pl.GlobalArg("x, y", np.float64, shape="n"), ...],
        preambles=[("factor", f'#include "{header}"')],
    )


def test_a_header_that_changes_is_another_program(fresh_cache: Path, tmp_path: Path) -> None:
    header, inner = tmp_path / "factor.h", tmp_path / "inner.h"
    header.write_text(f'#include "{inner}"\n')
    x = np.arange(3.0)
    for factor in (2, 3, 2):
        inner.write_text(f"#define FACTOR {factor}\n")
        np.testing.assert_array_equal(pl.compile(kernel_with_header(header), pl.CTarget())(x=x).y, factor * x)
    cache = open_cache(fresh_cache)
    assert cache is not None
    assert len(cache.entries()) == 2


@pytest.mark.parametrize(("source", "has"), [
    ("#include <math.h>\n#include <stdint.h>\nint x;\n", False),
    ('#include "mine.h"\n', True),
    ("#include <mine.h>\n", True),
    ("  #  include <math.h>\n%: include MINE\n", True),
    ('__asm__(".incbin \\"table\\"");\n', True),
    ("int include = 1;\n", False),
])
def test_own_headers_are_recognised(source: str, has: bool) -> None:
    assert has_own_headers(source) is has


# }}}
# {{{ the cache


def nest_deeply(entry: Path) -> None:
    (entry / "record.json").write_text("[" * 100_000)


def hold_nul(entry: Path) -> None:
    change(entry, lambda record: record["files"].update({"a\0b": [1, "x"]}))


def hold_a_path(entry: Path) -> None:
    change(entry, lambda record: record["files"].update({"../../etc/passwd": [1, "x"]}))


def hold_half_a_character(entry: Path) -> None:
    change(entry, lambda record: record.update(compiler="\udcff", flags=["\ud800"]))


def hold_numbers(entry: Path) -> None:
    change(entry, lambda record: record.update(files={"library.so": 5}))


def be_a_pipe(entry: Path) -> None:
    (entry / "library.so").unlink()
    os.mkfifo(entry / "library.so")


def have_a_pipe_for_its_record(entry: Path) -> None:
    (entry / "record.json").unlink()
    os.mkfifo(entry / "record.json")


def be_cut_off(entry: Path) -> None:
    os.truncate(entry / "library.so", 2)


def point_elsewhere(entry: Path) -> None:
    (entry / "library.so").unlink()
    (entry / "library.so").symlink_to("/dev/zero")


def be_a_directory(entry: Path) -> None:
    (entry / "source.txt").unlink()
    (entry / "source.txt").mkdir()


def grow(entry: Path) -> None:
    os.truncate(entry / "record.json", 2**33)


def change(entry: Path, how: Callable[[dict[str, Any]], object]) -> None:
    record = json.loads((entry / "record.json").read_text())
    how(record)
    (entry / "record.json").write_text(json.dumps(record))


@pytest.mark.parametrize("tamper", [
    nest_deeply, hold_nul, hold_a_path, hold_half_a_character, hold_numbers, be_a_pipe, have_a_pipe_for_its_record,
    be_cut_off, point_elsewhere, be_a_directory, grow,
])  # fmt: skip
def test_an_entry_that_was_tampered_with_is_not_used(tmp_path: Path, tamper: Callable[[Path], None]) -> None:
    cache = open_cache(tmp_path / "cache")
    assert cache is not None
    entry = cache.put(KEY, {"library.so": b"abc"})
    assert entry is not None
    tamper(entry)
    assert len(cache.verify()) == 1
    assert cache.read(KEY) is None
    assert cache.put(KEY, {"library.so": b"abc"}) is not None
    assert cache.read(KEY) == {"library.so": b"abc"}


def test_random_changes_of_an_entry_are_found(tmp_path: Path) -> None:
    """Whatever bytes a record has, an entry is used only if it holds what was stored."""
    rng = np.random.default_rng(0)
    cache = DiskCache(tmp_path)
    for _ in range(300):
        entry = cache.put(KEY, {"library.so": b"abc"})
        assert entry is not None
        path = entry / str(rng.choice(["record.json", "source.txt", "library.so"]))
        data = bytearray(path.read_bytes())
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] = rng.integers(256)
        path.write_bytes(bytes(data[: rng.integers(len(data) + 1)] if rng.random() < 0.3 else data))
        assert cache.read(KEY) in (None, {"library.so": b"abc"})


def test_a_loaded_library_does_not_depend_on_the_cache(fresh_cache: Path) -> None:
    """A library whose file is cut off while it is in use ends the process with SIGBUS; so its file is private."""
    path = build_library(ANSWER)
    loaded = [open_library(ANSWER), load_library(path)]
    os.truncate(path, 0)
    assert [library.answer() for library in loaded] == [42, 42]
    assert open_library(ANSWER).answer() == 42


# }}}
# {{{ processes


def test_a_child_that_ends_leaves_the_scratch_of_its_parent() -> None:
    done = run_python("""
        import os, sys
        from polyloop.runtime.ccompile import build_library, load_library
        assert load_library(build_library("int f(void) { return 1; }")).f() == 1
        child = os.fork()
        if child == 0:
            assert load_library(build_library("int f(void) { return 2; }")).f() == 2
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert load_library(build_library("int f(void) { return 3; }")).f() == 3
        print(go("b", 3.0).tolist())
    """, POLYLOOP_CACHE_DIR="/dev/null/x")
    assert done.stdout == "[3.0, 3.0, 3.0]\n", done.stderr


def test_no_home_is_no_cache() -> None:
    done = run_python("""
        import os, pathlib
        def unknown(cls=None): raise RuntimeError("Could not determine home directory.")
        pathlib.Path.home = classmethod(unknown)
        print(go("a", 2.0).tolist())
    """, HOME=None, XDG_CACHE_HOME=None, POLYLOOP_CACHE_DIR=None)
    assert done.stdout == "[2.0, 2.0, 2.0]\n", done.stderr


def test_where_no_file_can_be_written_the_error_says_so() -> None:
    done = run_python("""
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        try:
            go("a", 2.0)
        except pl.CompilerError as error:
            print(error.codes)
    """, POLYLOOP_CACHE_DIR="/dev/null/x")
    assert done.stdout == "('cannot-write',)\n", done.stderr


def test_no_directory_for_temporary_files_is_said() -> None:
    done = run_python("""
        import tempfile
        tempfile.tempdir = "/nowhere/at/all"
        try:
            go("a", 2.0)
        except pl.CompilerError as error:
            print(error.codes)
    """, POLYLOOP_CACHE_DIR="/dev/null/x")
    assert done.stdout == "('cannot-write',)\n", done.stderr


# }}}
