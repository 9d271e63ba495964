"""Drawn programs on drawn meshes against the undivided program; kernels of ranks run in the interpreter.

The interpreter refuses an access outside of a rank's part, and a call that a kernel's assumptions exclude.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.distributed.completeness import incompleteness
from polyloop.distributed.ranks import RankProgram

D = np.float64


def interpreted(divided: pl.DistributedKernel, engine: pl.Engine) -> RankProgram:
    """Return the program of a rank whose kernels the interpreter runs, in place."""

    def runner(kernel: pl.LoopKernel) -> Callable[..., None]:
        def run(**arguments: Any) -> None:
            for name, value in pl.interpret(kernel, **arguments).items():
                arguments[name][...] = value

        return run

    compiled = {local.phase.number: runner(local.kernel) for local in divided.analysis.locals}
    assert divided.mesh is not None
    return RankProgram(divided.analysis, divided.mesh, divided.overlap, engine, compiled)


class Drawing:
    """A program of loops over divided arrays, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.rng = rng
        self.dims = int(rng.integers(1, 3))
        self.inames = ["i", "j"][: self.dims]
        self.arrays = ["u", "v", "w"][: int(rng.integers(2, 4))]
        self.has_time = bool(rng.integers(0, 2))
        self.has_sum = bool(rng.integers(0, 3) == 0)
        count = int(rng.integers(1, 4))
        lines = [line for _ in range(count) for line in self.loop()]
        if self.has_sum:
            inames = self.inames[0] if self.dims == 1 else f"[{', '.join(self.inames)}]"
            lines.append(f"s[0] = s[0] + sum({inames}, {self.arrays[0]}[{', '.join(self.inames)}])")
            if rng.integers(0, 2):
                lines.append("r[0] = 0.125*s[0]")
        self.lines = ["for t", *(f"    {line}" for line in lines), "end"] if self.has_time else lines
        divisions: list[tuple[int | None, ...]] = [(0,)] if self.dims == 1 else [(0, 1), (0, None), (None, 0), (1, 0)]
        self.axes = divisions[int(rng.integers(0, len(divisions)))]
        self.mesh = self.drawn_mesh()

    def drawn_mesh(self) -> tuple[int, ...]:
        rank = sum(axis is not None for axis in self.axes)
        choices = [mesh for mesh in product(range(1, 5), repeat=rank) if prod(mesh) <= 6]
        return choices[int(self.rng.integers(0, len(choices)))]

    def subscript(self, low: int, high: int) -> str:
        parts = []
        for iname in self.inames:
            offset = int(self.rng.integers(low, high + 1))
            parts.append(f"{iname} + {offset}" if offset > 0 else f"{iname} - {-offset}" if offset else iname)
        return ", ".join(parts)

    def read(self) -> str:
        array = self.arrays[int(self.rng.integers(0, len(self.arrays)))]
        match int(self.rng.integers(0, 8)):
            case 0:  # from the other end
                return f"{array}[{', '.join(f'n - 1 - {iname}' for iname in self.inames)}]"
            case 1 if self.dims == 2:
                return f"{array}[j, i]"
            case 2:  # one element for all
                return f"{array}[{', '.join('n - 2' for _ in self.inames)}]"
            case _:
                return f"{array}[{self.subscript(-2, 2)}]"

    def loop(self) -> list[str]:
        target = self.arrays[int(self.rng.integers(0, len(self.arrays)))]
        if self.rng.integers(0, 6) == 0:
            place = ", ".join(str(self.rng.integers(0, 3)) for _ in self.inames)
            other = ", ".join("n - 1" for _ in self.inames)
            return [f"{target}[{place}] = 0.5*{self.arrays[0]}[{other}]"]
        count = int(self.rng.integers(1, 4))
        terms = " + ".join(f"{0.25*int(self.rng.integers(1, 5))}*{self.read()}" for _ in range(count))
        written = ", ".join(self.inames) if self.rng.integers(0, 4) else self.subscript(-1, 1)
        return [f"for {', '.join(self.inames)}", f"    {target}[{written}] = {terms}", "end"]

    def kernel(self) -> pl.LoopKernel:
        shape = ", ".join(["n"] * self.dims)
        inames = ", ".join((["t"] if self.has_time else []) + self.inames)
        bounds = ("0 <= t < 3 and " if self.has_time else "") + f"2 <= {', '.join(self.inames)} < n - 2"
        data: list[Any] = [pl.GlobalArg(", ".join(self.arrays), D, shape=shape)]
        data += [pl.GlobalArg("s, r", D, shape="1")] if self.has_sum else []
        return pl.make_kernel(f"{{[{inames}]: {bounds}}}", "\n".join(self.lines), [*data, ...], name="drawn",
                              assumptions="n >= 4", silenced_warnings="*")

    def over(self) -> str:
        return ", ".join(f"{iname}:mesh.{axis}" for iname, axis in zip(self.inames, self.axes, strict=True)
                         if axis is not None)

    def spelled(self) -> str:
        return ", ".join("*" if axis is None else f"block.{axis}" for axis in self.axes)


def check(seed: int) -> str:
    """Divide a drawn program and compare; return the code of a refusal, or nothing."""
    drawn = Drawing(seed)
    try:
        kernel = drawn.kernel()
    except pl.KernelError as error:
        return f"kernel: {error.codes[0]}"
    blocks = dict.fromkeys(drawn.arrays, drawn.spelled())
    try:
        divided = pl.distribute(
            kernel, blocks, drawn.over(), drawn.mesh, overlap=bool(seed % 3),
            packed=drawn.arrays[:1] if seed % 4 > 1 else (), unpacked=drawn.arrays[:1] if seed % 2 else ())
    except pl.KernelError as error:
        return error.codes[0]
    n = int(drawn.rng.integers(4, 10))
    names = [name for name in (*drawn.arrays, "s", "r") if kernel.argument(name) is not None]
    shapes = {name: (1,) if name in "sr" else (n,) * drawn.dims for name in names}
    inputs = {name: np.round(drawn.rng.random(shape)*64)/64 for name, shape in shapes.items()}
    sizes = dict.fromkeys(kernel.parameters, n)
    expected = pl.interpret(kernel, **inputs, **sizes)
    plan = divided.plan(drawn.mesh, **sizes)
    assert incompleteness(plan) == ()
    links = divided.explain(drawn.mesh, **sizes).links

    def program(engine: pl.Engine) -> tuple[dict[str, Any], int]:
        run = interpreted(divided, engine)
        parts = {name: run.scatter(name, value, **sizes) for name, value in inputs.items()}
        run(**parts, **sizes)
        return {name: run.gather(name, part, **sizes) for name, part in parts.items()}, run.sent

    for rank, (found, sent) in enumerate(pl.run_ranks(prod(drawn.mesh), program, timeout=60)):
        assert sent == sum(size for (source, _), size in links.items() if source == rank)
        for name in expected:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, err_msg=f"seed {seed}: {name}")
    return ""


@pytest.mark.parametrize("seed", range(24))
def test_a_drawn_program_is_the_same_divided(seed: int) -> None:
    assert check(seed) in {"", "message-inside", "not-the-owner", "kernel: out-of-bounds"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_more_drawn_programs_are_the_same_divided(seed: int) -> None:
    outcomes = {check(10*seed + place) for place in range(10)}
    assert outcomes <= {"", "message-inside", "not-the-owner", "kernel: out-of-bounds"}
    assert "" in outcomes
