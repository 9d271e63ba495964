"""Rules and sums mean what Python's functions and generators of the same text mean, under names that collide."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl

NAMES = ("i", "q", "k", "n", "x", "f", "g")
N = 3


class Writer:
    """Writes expressions twice: as polyloop reads them, and as Python does."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.rules: dict[str, int] = {}

    def expression(self, known: frozenset[str], hidden: frozenset[str], depth: int) -> tuple[str, str]:
        """Return an expression over the variables *known*; rules in *hidden* have the names of parameters."""
        rng = self.rng
        draw = rng.random() if depth else rng.random() * 0.4
        if draw < 0.25 and known:
            return (rng.choice(sorted(known)),) * 2
        if draw < 0.4:
            return (str(rng.randint(0, 4)),) * 2
        if draw < 0.55:
            ours, python = self.expression(known, hidden, depth - 1)
            return f"a[({ours}) % {N}]", f"a[({python}) % {N}]"
        callable_ones = sorted(self.rules.keys() - hidden)
        if draw < 0.75 and callable_ones:
            name = rng.choice(callable_ones)
            parts = [self.expression(known, hidden, depth - 1) for _ in range(self.rules[name])]
            return tuple(f"{name}({', '.join(part[side] for part in parts)})" for side in (0, 1))  # type: ignore[return-value] # two
        if draw < 0.9:
            iname = rng.choice(("q", "k"))
            ours, python = self.expression(known | {iname}, hidden | {iname}, depth - 1)
            return f"sum({iname}, {ours})", f"sum(({python}) for {iname} in range({N}))"
        left, right = (self.expression(known, hidden, depth - 1) for _ in range(2))
        sign = rng.choice("+-*")
        return f"({left[0]}) {sign} ({right[0]})", f"({left[1]}) {sign} ({right[1]})"

    def rule(self, name: str) -> tuple[str, str]:
        """Return a rule, and a Python function."""
        parameters = self.rng.sample(NAMES, self.rng.randint(0, 3))
        known = frozenset(parameters)
        ours, python = self.expression(known, known, 3)
        self.rules[name] = len(parameters)
        listed = ", ".join(parameters)
        return f"{name}({listed}) := {ours}", f"{name} = lambda {listed}: {python}"


def program(seed: int) -> tuple[list[str], list[str]]:
    """Return the lines of a kernel, and of Python that computes ``w``."""
    rng = random.Random(seed)
    writer = Writer(rng)
    pairs = [writer.rule(name) for name in ("f", "g", "h")]
    iname = rng.choice(("i", "q", "k", "x"))
    hidden = frozenset({iname})
    value = writer.expression(hidden, hidden, 4)
    while rng.random() < 0.5 and len(value[0]) < 15:
        value = writer.expression(hidden, hidden, 4)
    turned = rng.random() < 0.3
    place = f"t({iname})" if turned else iname
    lines = [ours for ours, _ in pairs] + ["t(i) := n - 1 - i"] + [f"w[{place}] = a[{iname}] + {value[0]}"]
    python = [line for _, line in pairs] + [f"for {iname} in range({N}):"]
    return lines, [*python, f"    w[{f'{N} - 1 - {iname}' if turned else iname}] = a[{iname}] + {value[1]}"]


STEPS: tuple[Callable[[pl.LoopKernel, str], pl.LoopKernel], ...] = (
    lambda k, iname: k,
    lambda k, iname: pl.split_iname(k, iname, 2),
    lambda k, iname: pl.rename_iname(k, iname, "z"),
    lambda k, iname: pl.map_domain(k, f"{{[{iname}] -> [g]: g = 1 - {iname}}}"),
    lambda k, iname: pl.fix_parameters(k, n=N),
    lambda k, iname: pl.expand_subst(k),
    lambda k, iname: pl.duplicate_inames(k, iname, within="*"),
    lambda k, iname: pl.make_reduction_inames_unique(k),
    lambda k, iname: pl.rename_argument(k, "a", "z_a"),
)


def value_of(lines: list[str], a: np.ndarray[Any, Any], output: str = "w") -> list[int]:
    scope: dict[str, Any] = {"a": [int(x) for x in a], output: [0] * N}
    exec("\n".join(lines), scope)
    return list(scope[output])


def check(seed: int) -> None:
    lines, python = program(seed)
    a = np.random.default_rng(seed).integers(-3, 4, N)
    want = value_of(python, a)
    if max(map(abs, want)) > 2**30:
        return
    iname = python[-2].split()[1]
    data = [pl.GlobalArg("a, w", np.int64, shape="n"), ...]
    try:
        knl = pl.make_kernel(domain_of(iname), "\n".join(lines), data, assumptions="n >= 1", name="kernel")
    except pl.KernelError as error:
        if set(error.codes) <= {"iname-bound-twice"}:  # written in the statement itself
            return
        raise AssertionError(f"{seed}: {lines}") from error
    for number, step in enumerate(STEPS):
        try:
            after = step(knl, iname)
        except pl.TransformError as error:
            if set(error.codes) <= {"name-taken"}:
                continue
            raise AssertionError(f"{seed}, {number}: {lines}") from error
        got = pl.interpret(after, **{"a" if after.argument("a") else "z_a": a}).w
        assert list(got) == want, f"{seed}, {number}: {lines}\n{after}"


def domain_of(iname: str) -> str:
    names = ", ".join([iname, *(name for name in ("q", "k") if name != iname)])
    return f"{{[{names}]: 0 <= {names} < n}}"


def check_call(seed: int) -> None:
    """A callee with the rules of one program, called for each row by a kernel with those of another."""
    lines, python = program(seed)
    outer, outer_python = program(seed + 1_000_000)
    row = random.Random(seed).choice(("i", "q", "k", "x", "n_"))
    b = np.random.default_rng(seed).integers(-3, 4, (N, N))
    want = np.array([value_of(python, a) for a in b])
    beside = np.array(value_of([line.replace("w[", "v[") for line in outer_python], b[0], "v"))
    if max(np.abs(want).max(), np.abs(beside).max()) > 2**30:
        return
    data = [pl.GlobalArg("a, w", shape="n"), ...]
    inner, iname = python[-2].split()[1], outer_python[-2].split()[1]
    text = [line.replace("w[", "v[") for line in outer]
    text += [f"for {row}", f"    rows[{row}, :] = callee(b[{row}, :])", "end"]
    domains = [domain_of(iname), *([f"{{[{row}]: 0 <= {row} < n}}"] if row not in (iname, "q", "k") else [])]
    given = [pl.GlobalArg("a, v", np.int64, shape="n"), pl.GlobalArg("b, rows", np.int64, shape="n, n"), ...]
    try:
        callee = pl.make_function(domain_of(inner), "\n".join(lines), data, name="callee")
        knl = pl.make_kernel(domains, "\n".join(text), given, functions=[callee], name="kernel", assumptions="n >= 1")
    except pl.KernelError as error:
        if set(error.codes) <= {"iname-bound-twice"}:
            return
        raise AssertionError(f"{seed}: {lines} {text}") from error
    for after in (knl, pl.split_iname(knl, row, 2), pl.rename_iname(knl, row, "z"), pl.expand_subst(knl)):
        got = pl.interpret(after, a=b[0], b=b)
        assert (got.rows == want).all(), f"{seed}: {after}"
        assert (got.v == beside).all(), f"{seed}: {after}"


@pytest.mark.parametrize("part", range(2))
def test_callees_mean_what_python_means(part: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pl.PolyloopWarning)
        for seed in range(15 * part, 15 * (part + 1)):
            check_call(seed)


@pytest.mark.parametrize("part", range(4))
def test_rules_mean_what_python_means(part: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pl.PolyloopWarning)
        for seed in range(15 * part, 15 * (part + 1)):
            check(seed)
