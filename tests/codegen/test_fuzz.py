"""Random programs of two statements: the instances that the generated C executes, in order, against enumeration.

The generated assignments are turned into calls that record which instance they are.
"""

from __future__ import annotations

import random
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import islpy as isl
import numpy as np
import pymbolic.primitives as p
import pytest
from pymbolic import parse

from polyloop.codegen.generate import generate
from polyloop.expr.operations import OPERATIONS
from polyloop.expr.rewrite import substitute
from polyloop.kernel.tree import Loop, Run, Tree
from polyloop.schedule.plan import Schedule, Statement, Update
from polyloop.target.c import C_LANGUAGE
from tests.codegen.building import array, schedule, value
from tests.codegen.running import COMPILER, needs_compiler

SIZES = (1, 4, 7, 12)
SET, PARAM = isl.dim_type.set, isl.dim_type.param
Point = tuple[int, ...]

HEAD = """
#include <stdio.h>
#define PUSH(code) printf("%d\\n", code)
"""


@dataclass(frozen=True)
class Case:
    """A random program: its schedule, and the order of its instances for each size."""

    schedule: Schedule
    order: dict[int, list[Point]]
    is_ordered: bool


def constraints(rng: random.Random, names: tuple[str, str]) -> str:
    parts = []
    for name in names:
        factor = rng.choice([1, 1, 1, 2, 4])
        upper = "n" if rng.random() < 0.7 else str(rng.randint(3, 9))
        parts.append(f"{rng.choice([0, 0, 1, -2])} <= {factor}{name} < {upper}")
    for _ in range(rng.randint(0, 2)):
        a, b = rng.randint(-3, 3), rng.randint(-3, 3)
        parts.append(f"{a}{names[0]} + {b}{names[1]} + {rng.randint(-1, 1)}n + {rng.randint(-4, 8)} >= 0")
    if rng.random() < 0.2:
        parts.append(f"({names[0]} + {rng.randint(0, 2)}) mod {rng.choice([2, 3])} = 0")
    if rng.random() < 0.1:
        parts.append(f"({names[1]} + {names[0]} + n) mod {rng.choice([2, 3])} <= 1")
    return " and ".join(parts)


def random_domain(rng: random.Random, name: str, extra: str) -> isl.Set:
    text = constraints(rng, ("i", "j"))
    if rng.random() < 0.2:
        text = f"({text}) or ({constraints(rng, ('i', 'j'))})"
    return isl.Set(f"[n] -> {{ {name}[i, j] : ({text}){extra} }}")


def split(domain: isl.Set, name: str, factor: int) -> isl.Set:
    """Return the domain over ``(io, ii, j)`` where ``i = factor * io + ii``."""
    return domain.apply(
        isl.Map(f"{{ {name}[i, j] -> {name}[io, ii, j] : i = {factor}io + ii and 0 <= ii < {factor} }}")
    )


TREES: tuple[Tree, ...] = (
    (Loop("i", (Loop("j", (Run("A"), Run("B"))),)),),
    (Loop("i", (Loop("j", (Run("A"),)), Loop("j", (Run("B"),)))),),
    (Loop("i", (Loop("j", (Run("A"),)),)), Loop("i", (Loop("j", (Run("B"),)),))),
)
KEYS = (
    lambda t: (t[1], t[2], t[0]),
    lambda t: (t[1], t[0], t[2]),
    lambda t: (t[0], t[1], t[2]),
)


def code(number: int, i: str, j: str) -> object:
    return parse(f"{1000000 * number + 100100} + 1000*({i}) + ({j})")


def axes(expr: object) -> object:
    return substitute(expr, {"bx": p.Variable("g.0"), "tx": p.Variable("l.0")})


def random_case(number: int, rng: random.Random) -> Case | None:
    kind = rng.choice(["plain", "plain", "tiled", "axes"])
    extra = " and 0 <= i and 0 <= j < 13" if kind == "axes" else ""
    domains = {name: random_domain(rng, name, extra) for name in "AB"}
    shape = rng.randrange(3)
    tree = TREES[shape]
    tiles: list[str] = []
    slabs: dict[str, tuple[int, int]] = {}
    local: tuple[int, ...] = ()
    statements = []
    for index, (name, original) in enumerate(domains.items()):
        domain = original
        dims: tuple[str, ...] = ("i", "j")
        text = code(index, "i", "j")
        if kind == "tiled":
            domain, dims = split(original, name, 4), ("io", "ii", "j")
            text = code(index, "4*io + ii", "j")
        elif kind == "axes":
            dims, text = ("g.0", "l.0"), axes(code(index, "bx", "tx"))
        statements.append(Statement(name, name.lower(), dims, domain, parse("rec[0]"), text, Update(OPERATIONS["sum"])))
    if kind == "tiled":
        tiles = ["io"]
        tree = _tiled(tree)
        if rng.random() < 0.3:
            slabs = {"io": (rng.randint(0, 1), rng.randint(0, 2))}
    elif kind == "axes":
        tree, local = (Run("A"), Run("B")), (13,)
    if any(d.is_empty() for d in domains.values()) and kind == "axes":
        return None
    divisor = rng.choice([1, 1, 1, 4])
    built = schedule(
        f"k{number}", "n", "n >= 1" if divisor == 1 else f"n >= 1 and n mod {divisor} = 0",
        [array("rec", "1", np.int64, output=True), value("n")], statements, tree,
        local_size=local, tiles=tiles, slabs=slabs,
    )  # fmt: skip
    order = {n: sorted(points(domains, n), key=KEYS[shape]) for n in SIZES if n % divisor == 0}
    return Case(built, order, kind != "axes")


def _tiled(tree: Tree) -> Tree:
    return tuple(
        Loop("io", (Loop("ii", node.body),)) if isinstance(node, Loop) and node.iname == "i" else node for node in tree
    )


def points(domains: dict[str, isl.Set], n: int) -> list[Point]:
    found: list[Point] = []
    for index, domain in enumerate(domains.values()):
        fixed = domain.fix_val(PARAM, domain.find_dim_by_name(PARAM, "n"), n).project_out(PARAM, 0, 1)

        def note(point: isl.Point, index: int = index) -> None:
            i, j = (point.get_coordinate_val(SET, k).to_python() for k in range(2))
            found.append((index, i, j))

        fixed.foreach_point(note)
    return found


def executed(cases: list[Case], folder: Path) -> dict[tuple[int, int], list[Point]]:
    """Return the instances that the generated programs execute."""
    helpers, functions, calls = [], [], []
    for number, case in enumerate(cases):
        program = generate(case.schedule, C_LANGUAGE)
        preamble, function = program.device_code.split("\nvoid ", 1)
        helpers.append(preamble)
        recorded = re.sub(r"rec\[0\] \+= (.*?);( *//.*)?$", r"PUSH((int)(\1));", function, flags=re.MULTILINE)
        functions.append(f"static void {recorded}")
        calls += [f'    printf("# {number} {n}\\n"); {case.schedule.name}(&rec, {n});' for n in case.order]
    main = "\n".join(["int main(void) {", "    int64_t rec = 0;", *calls, "    return 0;", "}"])
    source = "\n".join([*helpers, HEAD, *functions, main])
    path = folder / "fuzz.c"
    path.write_text(source)
    assert COMPILER is not None
    subprocess.run([COMPILER, "-std=c11", "-O0", "-w", str(path), "-o", str(folder / "fuzz"), "-lm"], check=True)
    output = subprocess.run([str(folder / "fuzz")], capture_output=True, text=True, check=True).stdout
    found: dict[tuple[int, int], list[Point]] = {}
    for line in output.splitlines():
        if line.startswith("#"):
            _, number_text, size = line.split()
            current = found.setdefault((int(number_text), int(size)), [])
        else:
            value_read = int(line)
            current.append((value_read // 1000000, value_read // 1000 % 1000 - 100, value_read % 1000 - 100))
    return found


def check(seed: int, count: int, folder: Path) -> None:
    rng = random.Random(seed)
    cases = [case for number in range(count) if (case := random_case(number, rng)) is not None]
    found = executed(cases, folder)
    for number, case in enumerate(cases):
        for n, expected in case.order.items():
            got = found.get((number, n), [])
            if not case.is_ordered:
                got.sort()
                expected.sort()
            domains = [str(s.domain) for s in case.schedule.statements.values()]
            text = generate(case.schedule, C_LANGUAGE).device_code
            assert got == expected, f"case {number} of seed {seed} at n={n}: {domains}\n{text}"


@pytest.mark.few(2)
@needs_compiler
@pytest.mark.parametrize("seed", range(6))
def test_every_instance_runs_once_and_in_order(seed: int, tmp_path: Path) -> None:
    check(seed, 50, tmp_path)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_every_instance_runs_once_and_in_order_at_length(seed: int, tmp_path: Path) -> None:
    check(seed, 100, tmp_path)
