"""Random programs of scalars, reductions and written loops: what is accepted runs as the reference program says."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl

F = np.float64
DATA = [pl.GlobalArg("a, b", F, shape="6"), pl.GlobalArg("c", F, shape="6, 6")]


def _element(rng: random.Random, inames: list[str]) -> str:
    name = rng.choice("abc")
    if not inames:
        return f"{name}[0, 0]" if name == "c" else f"{name}[0]"
    if name == "c":
        return f"c[{rng.choice(inames)}, {rng.choice(inames)}]"
    iname = rng.choice(inames)
    return f"{name}[{rng.choice([iname, iname, iname, f'5 - {iname}'])}]"


def _reduction(rng: random.Random, inames: list[str], scalars: list[str]) -> str:
    own = rng.choice([iname for iname in "ij" if iname not in inames])
    terms = [
        rng.choice(scalars) if scalars and rng.random() < 0.6 else _element(rng, [*inames, own])
        for _ in range(rng.randint(1, 2))
    ]
    return f"sum({own}, {' - 2*'.join(terms)})"


def _program(seed: int) -> str:
    rng = random.Random(seed)
    lines: list[str] = []
    scalars: list[str] = []
    count = rng.randint(2, 5)
    for number in range(count):
        inames = rng.choice([["i"], ["j"], ["i", "j"], []])
        value = rng.choice(scalars) if scalars and rng.random() < 0.5 else _element(rng, inames)
        if rng.random() < 0.5 and len(inames) < 2:
            value = f"{_reduction(rng, inames, scalars)} + {value}"
        if rng.random() < 0.45 and number + 1 < count:
            line = f"<> v{number} = {value}"
            scalars.append(f"v{number}")
        elif scalars and rng.random() < 0.2:
            line = f"{rng.choice(scalars)} = {value}"
        else:
            line = f"{_element(rng, inames)} = {value}"
        if inames and rng.random() < 0.3:
            line = f"for {', '.join(inames)}\n{line}\nend"
        lines.append(line)
    return "\n".join(lines)


STEPS: list[Callable[[pl.LoopKernel], pl.LoopKernel]] = [
    lambda knl: knl,
    lambda knl: pl.split_iname(knl, "i", 4),
    lambda knl: pl.split_iname(knl, "j", 3),
    lambda knl: pl.tag_inames(knl, {"i": "g.0"}),
    lambda knl: pl.tag_inames(knl, {"j": "l.0"}),
    lambda knl: pl.prioritize_loops(knl, ["j", "i"]),
]


def _agrees(seed: int) -> bool:
    """Check one program and its transforms; return whether it was accepted at all."""
    try:
        knl = pl.make_kernel("{[i, j]: 0 <= i, j < 6}", _program(seed), [*DATA, ...])
    except pl.KernelError as error:
        if not set(error.codes) <= {"ambiguous-loop", "ambiguous-nest"}:
            raise
        return False
    rng = np.random.default_rng(seed)
    given = {name: rng.integers(-2, 3, shape).astype(F) for name, shape in (("a", 6), ("b", 6), ("c", (6, 6)))}
    expected = pl.interpret(knl, **given)
    for step in STEPS:
        try:
            run = pl.compile(step(knl), target=pl.CTarget())
        except pl.PolyloopError:
            assert step is not STEPS[0], f"seed {seed}: the program itself is refused"
            continue
        result = run(**{name: value.copy() for name, value in given.items()})
        for name, value in expected.items():
            np.testing.assert_array_equal(result[name], value, err_msg=f"seed {seed}: {name}\n{_program(seed)}")
    return True


def test_random_programs() -> None:
    assert sum(_agrees(seed) for seed in range(4)) >= 2


@pytest.mark.slow
def test_more_random_programs() -> None:
    assert sum(_agrees(seed) for seed in range(4, 80)) >= 38
