"""The project's own rules: types, style, layers, sizes, and what an import costs."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import polyloop
from polyloop.runtime.hip.clang import hip_available
from polyloop.runtime.nvrtc import nvrtc_available
from polyloop.runtime.opencl.devices import opencl_available
from tests.conftest import sphinx_available

ROOT = Path(__file__).parents[1]
MAX_LINES = 600
MAX_MODULES = 30
MAX_SIBLINGS = 8
MAX_FIELDS = 10
MAX_IMPORT_SECONDS = 0.25
DEPENDENCIES_SECONDS = 0.15

MANY_SIBLINGS = {
    "codegen/generate.py": 12,  # the list of the passes, each of which it calls
}
"""Modules that import more of their own package than they should: the list only gets shorter."""

MANY_FIELDS = {
    "codegen.program.GeneratedProgram": 18,  # a result that users read, by these names
    "kernel.arrays.ArrayArg": 13,  # Loopy's names; transforms of layouts replace them one by one
    "kernel.arrays.TemporaryVariable": 12,  # the same
    "kernel.instruction.Instruction": 20,  # Loopy's names, which insn.copy() takes; read one by one
    "kernel.kernel.LoopKernel": 30,  # Loopy's names; read and replaced one by one
    "kernel.objects.Assignment": 15,  # arguments of Loopy's class
    "kernel.text.specs.ConstantArg": 11,  # the same
    "kernel.text.specs.GlobalArg": 11,  # the same
    "kernel.text.specs.TemporaryVariable": 11,  # the same
    "runtime.explanation.AccessFacts": 15,  # results that users read, and the names of to_dict()
    "runtime.explanation.Explanation": 13,  # the same
    "runtime.explanation.LaunchFacts": 16,  # the same
    "transform.reductions.split_scan.SplitScan": 12,  # arguments of a public function
    "transform.staging.precompute.Precompute": 14,  # arguments of Loopy's function
    "transform.staging.prefetch.AddPrefetch": 17,  # the same
}
"""Dataclasses with more fields than they should have: the list only gets shorter."""

IMPORT_PROGRAM = """
import time
start = time.process_time()
import {modules}
print(time.process_time() - start)
"""


def run(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, env=environment
    )


def test_ruff_finds_nothing() -> None:
    done = run("-m", "ruff", "check", "--no-cache", ".")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_mypy_strict_finds_nothing() -> None:
    done = run("-m", "mypy")
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_package_imports_from_a_layer_above_it() -> None:
    done = run("-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("folder", ["polyloop", "tests", "benchmarks", "examples"])
def test_no_file_has_more_than_600_lines(folder: str) -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in ROOT.joinpath(folder).rglob("*.py")}
    assert lengths
    assert {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > MAX_LINES} == {}


def test_no_folder_has_more_than_30_modules() -> None:
    folders = [path.parent for path in ROOT.joinpath("polyloop").rglob("__init__.py")]
    counts = {str(f.relative_to(ROOT)): len([*f.glob("*.py")]) - 1 for f in folders}
    assert counts
    assert {folder: n for folder, n in counts.items() if n > MAX_MODULES} == {}


def siblings(path: Path) -> set[str]:
    """Return the modules and packages of its own folder that the module at *path* imports."""
    own = ".".join(path.relative_to(ROOT).parent.parts)
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                names.update(alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                names.update(f"{module}.{alias.name}" for alias in node.names)
    found = {name.removeprefix(f"{own}.").split(".")[0] for name in names if name.startswith(f"{own}.")}
    there = {entry.stem for entry in path.parent.iterdir() if entry.suffix in {"", ".py", ".pyi"}}
    return found & there


def test_no_module_imports_more_than_8_of_its_own_package() -> None:
    """A smaller number than the one in the list has to be written there, or its row taken out."""
    modules = [path for path in ROOT.joinpath("polyloop").rglob("*.py") if path.name != "__init__.py"]
    counts = {str(path.relative_to(ROOT / "polyloop")): len(siblings(path)) for path in modules}
    assert counts
    assert {name: n for name, n in counts.items() if n > MAX_SIBLINGS} == MANY_SIBLINGS


def field_counts() -> dict[str, int]:
    """Return the numbers of fields of all dataclasses of the package, inherited ones included."""
    found: dict[str, int] = {}
    for entry in pkgutil.walk_packages(polyloop.__path__, "polyloop."):
        for value in vars(importlib.import_module(entry.name)).values():
            if isinstance(value, type) and is_dataclass(value) and value.__module__ == entry.name:
                found[f"{entry.name}.{value.__name__}".removeprefix("polyloop.")] = len(fields(value))
    return found


def test_no_dataclass_has_more_than_10_fields() -> None:
    """A smaller number than the one in the list has to be written there, or its row taken out."""
    counts = field_counts()
    assert counts
    assert {name: n for name, n in counts.items() if n > MAX_FIELDS} == MANY_FIELDS


def decorated(tree: ast.Module, *names: str) -> Iterator[ast.FunctionDef]:
    """Yield the functions with a decorator of one of these names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            words = {word for decorator in node.decorator_list for word in re.findall(r"\w+", ast.unparse(decorator))}
            if not words.isdisjoint(names):
                yield node


def test_there_is_one_way_to_remember() -> None:
    """No table is by ``id`` or by weak keys, of what was used last, or filled by hand: see polyloop/memo.py."""
    for path in ROOT.joinpath("polyloop").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
        names = {node.id for node in used}
        if path.name not in {"memo.py", "repeat.py"}:  # a call is compared with the last one by what was passed
            assert names.isdisjoint({"id", "WeakKeyDictionary", "OrderedDict"}), path
        for function in decorated(tree, "memoised"):
            *_, last = function.body
            if function.name == "_steps_from":  # for hints on results that were forgotten; nothing is decided by it
                continue
            is_empty = isinstance(last, ast.Return) and ast.unparse(last) in {"return {}", "return []"}
            assert not is_empty, f"{path}: {function.name} is a table to be filled by others"
        for function in decorated(tree, "lru_cache", "cache"):
            given = ast.unparse(function.args)
            kept = re.search(r"\b(LoopKernel|Placement|Placed|Lowered|Program|Statement|Instruction|isl)\b", given)
            assert kept is None, f"{path}: {function.name} keeps alive what should keep its values"


def test_each_package_says_what_it_holds() -> None:
    for path in ROOT.joinpath("polyloop").rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


VAGUE = re.compile(r"\s*(What|Where|Which|Whether|Who|Whose|How|When)\b")
RIDDLE = re.compile(r"\s*(Return|Yield) (how|where|what|which|who|whose|when|why)\b")
PRONOUN = re.compile(r"\b(nobody|anybody|somebody|everybody)\b", re.IGNORECASE)


def descriptions(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a file, and the strings that describe a variable or a field, with their lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text), lineno=line)):
                yield line, text


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    """The name of the thing comes first: a question in its place tells only those who know the answer."""
    files = sorted(ROOT.joinpath("polyloop").rglob("*.py"))
    found = [(path, line, text) for path in files for line, text in descriptions(path) if VAGUE.match(text)]
    assert [f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}" for path, line, text in found] == []


def test_docstrings_name_what_a_function_returns() -> None:
    """``Return the number of blocks`` says more than ``Return how many``."""
    files = sorted(ROOT.joinpath("polyloop").rglob("*.py"))
    found = [(path, line, text) for path in files for line, text in descriptions(path) if RIDDLE.match(text)]
    assert [f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}" for path, line, text in found] == []


def test_no_text_speaks_of_nobody() -> None:
    found = []
    for path in sorted(ROOT.joinpath("polyloop").rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        found += [f"{path.relative_to(ROOT)}:{n}: {line}" for n, line in enumerate(lines, 1) if PRONOUN.search(line)]
    assert found == []


def seconds_to_import(modules: str, byte_code: Path) -> float:
    """Return what one import takes, with byte code as after an installation: the first run writes it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(byte_code)
    return float(run("-c", IMPORT_PROGRAM.format(modules=modules), environment=environment).stdout)


def test_import_takes_less_than_250_ms(tmp_path: Path) -> None:
    """The dependencies alone take about 150 ms on an idle machine; on a busy one the limit grows as they do."""
    pairs = [
        (seconds_to_import("islpy, numpy, pymbolic", tmp_path), seconds_to_import("polyloop", tmp_path))
        for _ in range(8)
    ]
    dependencies, taken = (min(times) for times in zip(*pairs, strict=True))
    limit = MAX_IMPORT_SECONDS * max(1.0, dependencies / DEPENDENCIES_SECONDS)
    assert taken < limit, f"import polyloop took {1000 * taken:.0f} ms, limit {1000 * limit:.0f} ms"


@pytest.mark.parametrize(
    "module",
    ["cuda", "pycuda", "PIL", "matplotlib", "graphviz", "polyloop.viz.picture", "IPython", "torch", "jax", "scipy"],
)
def test_import_loads_no_optional_package(module: str) -> None:
    done = run("-c", f"import sys, polyloop; print({module!r} in sys.modules)")
    assert done.stdout.strip() == "False", done.stdout + done.stderr


def test_every_module_says_what_is_public() -> None:
    assembling = {"__main__.py", "__init__.py"}
    paths = [path for path in ROOT.joinpath("polyloop").rglob("*.py") if path.name not in assembling]
    assert paths
    assert [str(path.relative_to(ROOT)) for path in paths if "__all__" not in path.read_text(encoding="utf-8")] == []


def test_the_package_is_marked_as_typed() -> None:
    spec = importlib.util.find_spec("polyloop")
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).with_name("py.typed").exists()


@pytest.mark.skipif("POLYLOOP_REQUIRE_NVRTC" not in os.environ, reason="NVRTC is required in .ci/run only")
def test_nvrtc_is_there_where_it_is_required() -> None:
    is_there, detail = nvrtc_available()
    assert is_there, detail


@pytest.mark.skipif("POLYLOOP_REQUIRE_OPENCL" not in os.environ, reason="OpenCL is required in .ci/run only")
def test_opencl_is_there_where_it_is_required() -> None:
    is_there, detail = opencl_available()
    assert is_there, detail


@pytest.mark.skipif("POLYLOOP_REQUIRE_HIP" not in os.environ, reason="Clang for HIP is required in .ci/run only")
def test_a_compiler_for_hip_is_there_where_it_is_required() -> None:
    is_there, detail = hip_available()
    assert is_there, detail


@pytest.mark.skipif("POLYLOOP_REQUIRE_SPHINX" not in os.environ, reason="Sphinx is required in .ci/run only")
def test_sphinx_is_there_where_it_is_required() -> None:
    is_there, detail = sphinx_available()
    assert is_there, detail
