from __future__ import annotations

import ctypes
import os
import stat
from pathlib import Path

import pytest

from polyloop.errors import CompilerError
from polyloop.runtime import ccompile
from polyloop.runtime.cache import open_cache
from polyloop.runtime.ccompile import build_library, find_compiler, load_library, numbered_source

ANSWER = "int answer(void) { return 42; }\n"


@pytest.fixture
def fresh_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("POLYLOOP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_library_is_built_once(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build_library(ANSWER)
    assert first.parent.parent == fresh_cache

    def fail(*_: object) -> bytes:
        raise AssertionError("compiled twice")

    monkeypatch.setattr(ccompile, "compile_library", fail)
    assert build_library(ANSWER) == first
    assert load_library(first).answer() == 42


def test_a_corrupt_library_is_built_again(fresh_cache: Path) -> None:
    library = build_library(ANSWER)
    library.write_bytes(b"nonsense")
    assert load_library(build_library(ANSWER)).answer() == 42
    cache = open_cache(fresh_cache)
    assert cache is not None
    assert cache.verify() == []


def test_other_flags_are_another_entry(fresh_cache: Path) -> None:
    one = build_library(ANSWER)
    assert build_library(ANSWER, flags=("-O0", "-fPIC", "-shared")) != one
    cache = open_cache(fresh_cache)
    assert cache is not None
    assert len(cache.entries()) == 2


def test_it_works_without_a_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POLYLOOP_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert load_library(build_library(ANSWER)).answer() == 42


def test_openmp_pragmas_switch_openmp_on(fresh_cache: Path) -> None:
    if not find_compiler().accepts("-fopenmp"):
        pytest.skip("the compiler has no OpenMP")
    source = """\
int count(void) { int n = 0;
#ifdef _OPENMP
#pragma omp parallel for reduction(+:n)
    for (int i = 0; i < 100; i++) n++;
#endif
    return n; }
"""
    assert load_library(build_library(source)).count() == 100


def test_arithmetic_is_not_contracted(fresh_cache: Path) -> None:
    source = "double residue(double a, double b) { return a * b - a * b; }\n"
    function = load_library(build_library(source)).residue
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double] * 2
    assert function(1.0 + 2.0**-30, 1.0 - 2.0**-31) == 0.0


def test_a_refused_source_is_shown_with_its_lines(fresh_cache: Path) -> None:
    with pytest.raises(CompilerError) as err:
        build_library("int f(void)\n{\n    return undeclared;\n}\n")
    assert err.value.codes == ("c-compiler-failed",)
    text = str(err.value)
    assert text.startswith("compile: the C compiler refused the source [c-compiler-failed]\n  Note: command: ")
    assert ">    3 |     return undeclared;" in text
    assert "Hint: this is a fault of the code generator unless the kernel holds C text of yours" in text


def test_numbers_begin_anew_after_a_line_directive() -> None:
    source = 'header\n#line 1 "kernel.cu"\nfirst\nsecond\n'
    assert numbered_source(source, "kernel.cu:2:7: error", around=0) == ">    2 | second"


def test_the_compiler_in_cc_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "mycc"
    script.write_text("#!/bin/sh\necho mycc 7.7\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", f"{script} -m64")
    found = find_compiler()
    assert found.command == (str(script), "-m64")
    assert found.identity == f"{script.resolve()} -m64 mycc 7.7"


@pytest.mark.parametrize(("language", "variable", "expected"), [
    ("c", "CC", "looked for $CC ('nothing-of-the-kind'), cc, gcc, clang, the Python package 'ziglang'"),
    ("c++", "CXX", "looked for $CXX ('nothing-of-the-kind'), c++, g++, clang++, the Python package 'ziglang'"),
])
def test_without_a_compiler_the_error_says_what_was_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, language: str, variable: str, expected: str
) -> None:
    monkeypatch.setenv(variable, "nothing-of-the-kind")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(CompilerError) as err:
        find_compiler(language)
    assert str(err.value) == f"""\
compile: no {language.upper()} compiler was found [no-c-compiler]
  Note: {expected}
  Hint: pip install "ziglang", install gcc or clang, or set {variable}"""


def test_a_library_that_does_not_load_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(os.urandom(64))
    with pytest.raises(CompilerError) as err:
        load_library(broken)
    assert err.value.codes == ("cannot-load",)
