"""Mutation testing of the proofs: ``python -m tests.mutants --count 30 --jobs 2``.

A mutant is the package with one operator, number, condition or loop of a proof changed (by cosmic-ray,
``pip install -e ".[mutation]"``).  Tests of that proof's package are run on it, then, if it is still alive, the quick
set.  A mutant that survives says that a guard is dead, only makes refusals stricter or is held by no test.  All of
these tests have to pass on the package as it is.

Mutants are drawn at random from all of them, and the same ones for the same seed and source.  Those that change
annotations alone are left out.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("verification", "sync", "optimize")
"""Packages of ``polyloop`` whose mutants are drawn."""
LEFT_OUT = (
    "core/RemoveDecorator",
    "core/ReplaceComparisonOperator_Eq_Is",
    "core/ReplaceComparisonOperator_Is_Eq",
    "core/ReplaceComparisonOperator_IsNot_NotEq",
)
"""Operators that change nothing: what is remembered may as well be forgotten, and equal constants are the same."""
BROKEN = "tests/properties/test_pipeline.py::test_random_kernels_broken_as_no_transform_does"
NEAR = {
    "verification": (
        BROKEN,
        "tests/verification",
        "tests/transform/test_scans.py",
        "tests/transform/test_housekeeping.py::test_refusals",
        "tests/transform/test_buffer_array.py::test_refusals",
        "tests/transform/test_tensorize.py::test_what_is_refused",
    ),
    "sync": (
        BROKEN,
        "tests/sync",
        "tests/schedule",
        "tests/runtime/test_host_loops.py",
        "tests/transform/test_scan_over_blocks.py",
        "tests/transform/test_wgmma_lag.py",
    ),
}
"""Tests that are run first on mutants of a package; ``tests/<package>`` where nothing is said."""
_NO_RUN = (4, 5)
"""Exit statuses of pytest for wrong arguments, and for no test."""
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly")


@dataclass(frozen=True)
class Mutant:
    """One change of one module.

    Attributes
    ----------
    module
        The module's path below the repository's root.
    operator
        cosmic-ray's name of the operator.
    occurrence
        The number of the place in the module that the operator changes.
    line
        The line of the change.
    """

    module: str
    operator: str
    occurrence: int
    line: int
    arguments: str = "{}"

    def source(self) -> str | None:
        """Return the module's changed text, None if only annotations are changed or the text is no Python."""
        before = (ROOT / self.module).read_text(encoding="utf-8")
        operator = get_operator(self.operator)(**json.loads(self.arguments))
        after = mutate_code(before, operator, self.occurrence)
        try:
            return None if after is None or _meaning(after) == _meaning(before) else after
        except SyntaxError:  # the stars of an unpacking were taken for an operator
            return None

    @property
    def near(self) -> tuple[str, ...]:
        """The tests that are run first."""
        package = Path(self.module).parts[1]
        return NEAR.get(package, (f"tests/{package}",))

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.operator.removeprefix('core/')} #{self.occurrence}"


@dataclass(frozen=True)
class Outcome:
    """The end of a mutant: ``killed by`` a test, its ``time limit`` or nothing (``survived``)."""

    mutant: Mutant
    killed_by: str
    seconds: float


class _Unannotated(ast.NodeTransformer):
    """Removes annotations, which nothing evaluates."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        self.generic_visit(node)
        return node


def _meaning(text: str) -> str:
    return ast.dump(_Unannotated().visit(ast.parse(text)))


def mutants(packages: Sequence[str]) -> Iterator[Mutant]:
    """Yield all mutants of *packages*, of :data:`PACKAGES`, in the order of modules and lines."""
    paths = [path for name in packages for path in sorted((ROOT / "polyloop" / name).glob("*.py"))]
    with tempfile.TemporaryDirectory() as folder, use_db(str(Path(folder) / "all.sqlite"), WorkDB.Mode.create) as found:
        init(paths, found, {})
        items = [item.mutations[0] for item in found.work_items]
    for item in sorted(items, key=lambda m: (str(m.module_path), m.start_pos, m.operator_name, m.occurrence)):
        if item.operator_name not in LEFT_OUT:
            module = str(Path(item.module_path).relative_to(ROOT))
            arguments = json.dumps(dict(item.operator_args))
            yield Mutant(module, item.operator_name, item.occurrence, item.start_pos[0], arguments)


def drawn(count: int, seed: int, packages: Sequence[str]) -> list[tuple[Mutant, str]]:
    """Return *count* mutants at random, with their texts."""
    everyone = list(mutants(packages))
    random.Random(seed).shuffle(everyone)
    found: list[tuple[Mutant, str]] = []
    for mutant in everyone:
        if len(found) == count:
            break
        if (text := mutant.source()) is not None:
            found.append((mutant, text))
    return found


class Workplace:
    """A copy of the repository in which one mutant at a time is tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("polyloop", "tests", "benchmarks", "examples", "docs"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "setup.cfg", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
            shutil.copy(ROOT / name, folder / name)

    def run(self, arguments: Sequence[str], limit: float) -> str:
        """Return which test fails, nothing if none does."""
        path = os.pathsep.join([str(self.folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", *OPTIONS, *arguments]
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return f"time limit of {limit:.0f} s"
        if done.returncode == 0:
            return ""
        if done.returncode in _NO_RUN and "ImportError" not in done.stderr:
            raise RuntimeError(f"{' '.join(command)} runs no tests:\n{done.stdout}{done.stderr}")
        lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return lines[0] if lines else f"exit status {done.returncode}"

    def judge(self, mutant: Mutant, text: str, limit: float, stages: Sequence[Sequence[str]]) -> Outcome:
        """Return what becomes of *mutant* in *stages*, each the arguments of a call of pytest."""
        begin, path = time.monotonic(), self.folder / mutant.module
        kept = path.read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8")
        try:
            killed = next((by for stage in stages if (by := self.run(stage, limit))), "")
        finally:
            path.write_text(kept, encoding="utf-8")
        return Outcome(mutant, killed, time.monotonic() - begin)


def tried(chosen: Sequence[tuple[Mutant, str]], jobs: int, limit: float, *, wide: bool) -> Iterator[Outcome]:
    """Yield what becomes of the mutants *chosen*, *jobs* at a time, each of which may take *limit* seconds a stage.

    Raises
    ------
    SystemExit
        If a test fails on the package as it is: every mutant would be killed by it.
    """
    stages: list[tuple[str, ...]] = [("-m", "quick")]
    if wide:
        stages.append(("--ignore=tests/test_project.py",))
    with tempfile.TemporaryDirectory() as folder:
        free: SimpleQueue[Workplace] = SimpleQueue()
        for number in range(jobs):
            free.put(Workplace(Path(folder) / str(number)))

        def unchanged(stage: Sequence[str]) -> Outcome | None:
            place = free.get()
            try:
                if failed := place.run(stage, limit):
                    sys.exit(f"without any mutant: {failed}")
            finally:
                free.put(place)
            return None

        def one(entry: tuple[Mutant, str]) -> Outcome | None:
            place = free.get()
            try:
                return place.judge(*entry, limit, [entry[0].near, *stages])
            finally:
                free.put(place)

        with ThreadPoolExecutor(jobs) as pool:
            before = [*dict.fromkeys(mutant.near for mutant, _ in chosen), *stages]
            waited: list[Future[Outcome | None]] = [pool.submit(unchanged, stage) for stage in before]
            waited += [pool.submit(one, entry) for entry in chosen]
            try:
                for done in as_completed(waited):
                    if (outcome := done.result()) is not None:
                        yield outcome
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def main() -> int:
    """Run the command line; the exit status is 1 if a mutant survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=30, metavar="N", help="mutants that are drawn")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the draw")
    parser.add_argument("--jobs", type=int, default=2, metavar="J", help="mutants tried at once")
    parser.add_argument("--limit", type=float, default=900, metavar="T", help="seconds of each stage")
    parser.add_argument("--wide", action="store_true", help="run the whole suite on those that are still alive")
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="file of outcomes, as JSON; those in it are not tried again"
    )
    parser.add_argument("packages", nargs="*", default=PACKAGES, metavar="PACKAGE", help="packages of polyloop")
    given = parser.parse_args()
    outcomes: list[Outcome] = []
    if given.save and given.save.exists():
        read = json.loads(given.save.read_text(encoding="utf-8"))
        outcomes += [Outcome(Mutant(**kept["mutant"]), kept["killed_by"], kept["seconds"]) for kept in read]
    known = {outcome.mutant for outcome in outcomes}
    chosen = [entry for entry in drawn(given.count, given.seed, given.packages) if entry[0] not in known]
    for outcome in tried(chosen, given.jobs, given.limit, wide=given.wide):
        outcomes.append(outcome)
        print(f"{outcome.seconds:5.0f} s  {outcome.mutant}  {outcome.killed_by or 'SURVIVED'}", flush=True)
        if given.save:
            given.save.write_text(json.dumps([asdict(found) for found in outcomes], indent=1), encoding="utf-8")
    alive = [outcome for outcome in outcomes if not outcome.killed_by]
    print(f"{len(outcomes)} mutants, {len(outcomes) - len(alive)} killed, {len(alive)} survived")
    return bool(alive)


if __name__ == "__main__":
    sys.exit(main())
