"""Random kernels of several launches, in which private, shared and global values live on, on every target."""

from __future__ import annotations

import random

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.fibres import disagreement, run_on_fibres

F = np.float32
Shape = tuple[int, int, int]


def random_phases(rng: random.Random) -> tuple[LoopKernel, Shape]:
    """Return a kernel that writes a temporary and an output again and again, and reads what any phase before wrote.

    Outputs are read by other blocks, shared temporaries by other threads of the block.
    """
    groups, rows, lanes = rng.choice((1, 2, 3)), rng.choice((1, 2, 3)), rng.choice((4, 8, 32))
    phases = rng.randint(2, 4)
    lines, temporaries = [], []
    made: list[tuple[str, int, str]] = []
    source = "a"
    for phase in range(phases):
        name, space, extent = f"t{phase}", rng.choice(("private", "local", "auto")), rng.choice((0, 0, 2))
        shape = f"{groups}, {rows}, {lanes}" + (f", {extent}" if extent else "")
        temporaries.append(pl.TemporaryVariable(name, F, shape=shape, address_space=space))
        for number in range(max(extent, 1)):
            element = f"g, y, x, {number}" if extent else "g, y, x"
            value = f"{source}[g, y, x]*{number + 1} + {phase}"
            lines.append(f"for g, y, x\n {name}[{element}] = {value}\nend")
        made.append((name, extent, space))
        lines.append(f"for g, y, x\n {_use(rng, phase, rng.choice(made), source, (groups, rows, lanes))}\nend")
        lines += ["... gbarrier"] if rng.random() < 0.3 else []
        source = f"o{phase}"
    arrays = ", ".join(["a", *(f"o{phase}" for phase in range(phases))])
    kernel = pl.make_kernel(
        f"{{[g, y, x]: 0 <= g < {groups} and 0 <= y < {rows} and 0 <= x < {lanes}}}",
        "\n".join(lines),
        [pl.GlobalArg(arrays, F, shape=f"{groups}, {rows}, {lanes}"), *temporaries],
        silenced_warnings="*",
    )
    return pl.tag_inames(kernel, "g:g.0, y:l.1, x:l.0"), (groups, rows, lanes)


def _use(rng: random.Random, phase: int, read: tuple[str, int, str], source: str, shape: Shape) -> str:
    name, extent, space = read
    groups, rows, lanes = shape
    y = rng.choice(("y", f"{rows - 1} - y")) if space == "local" else "y"
    x = rng.choice(("x", f"{lanes - 1} - x", f"(x + 1) % {lanes}")) if space != "private" else "x"
    element = f"g, {y}, {x}" + (f", {rng.randrange(extent)}" if extent else "")
    block = rng.choice(("g", f"{groups - 1} - g"))
    return f"o{phase}[g, y, x] = {name}[{element}] + {source}[{block}, y, x]"


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(12))
def test_values_live_on(seed: int) -> None:
    kernel, shape = random_phases(random.Random(seed))
    kernel = pl.save_and_reload_temporaries(kernel)
    a = np.random.default_rng(seed).integers(-9, 9, shape).astype(F)
    expected = pl.interpret(kernel, a=a)
    results = run_on_fibres(pl.generate_code(kernel, target=pl.CudaTarget()), {"a": a}, seed=seed)
    assert disagreement(results) is None
    found = {**results, "C": pl.compile(kernel, target=pl.CTarget())(poison=True, a=a)}
    for where, result in found.items():
        for name, wanted in expected.items():
            np.testing.assert_array_equal(result[name], wanted, err_msg=f"{where}: {name}")


def test_the_samples_save_values_and_use_barriers_of_both_kinds() -> None:
    texts = []
    for seed in range(12):
        kernel = pl.save_and_reload_temporaries(random_phases(random.Random(seed))[0])
        texts.append(pl.generate_code(kernel, target=pl.CudaTarget()).device_code)
    together = "".join(texts)
    assert all(word in together for word in ("_saved[", "__syncwarp();", "__syncthreads();"))
