"""What calls cost the host: new numbers, bound calls, the first call of a bundle."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import polyloop as pl
from benchmarks import launch

ROOT = Path(__file__).parents[2]
F = np.float32


def microseconds(*calls: Callable[[], object]) -> list[float]:
    """Return the least time of one of many calls, of several kinds that take turns [us]."""
    best = [float("inf")] * len(calls)
    for _ in range(40):
        for number, call in enumerate(calls):
            begin = time.perf_counter()
            for _ in range(200):
                call()
            best[number] = min(best[number], (time.perf_counter() - begin) / 200)
    return [1e6 * seconds for seconds in best]


def test_a_new_number_costs_less_than_a_microsecond() -> None:
    data = [pl.GlobalArg("x, z", F, shape="n"), pl.ValueArg("s", F), ...]
    run = pl.compile(pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = s*x[i]", data, name="scaled"), target=pl.CTarget())
    x, z = np.ones(16, F), np.zeros(16, F)
    numbers, drawn = itertools.count(), itertools.count()
    same, new, drawing = microseconds(
        lambda: run(x=x, z=z, s=1.0), lambda: run(x=x, z=z, s=float(next(numbers))), lambda: float(next(drawn)))
    assert new - drawing - same < 1.0, f"{same:.2f} us with one number, {new - drawing:.2f} us with new ones"


def test_calls_that_take_turns_cost_what_repeated_ones_do() -> None:
    data = [pl.GlobalArg("x, z", F, shape="n"), ...]
    run = pl.compile(pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = 2*x[i]", data, name="doubled"), target=pl.CTarget())
    x, z, other = np.ones(16, F), np.zeros(16, F), np.zeros(16, F)

    def twice(first: np.ndarray, second: np.ndarray) -> None:
        run(x=x, z=first)
        run(x=x, z=second)

    same, turns = microseconds(lambda: twice(z, z), lambda: twice(z, other))
    assert turns < 1.25 * same, f"{same / 2:.2f} us a call with one output, {turns / 2:.2f} us with two in turn"
    assert z.tolist() == other.tolist() == [2.0] * 16


@pytest.mark.gpu
def test_gpu_a_bound_call_costs_less_than_a_launch_of_cuda_core(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("cuda.core")
    assert launch.main([]) == 0
    printed = capsys.readouterr().out
    print(printed)
    rows = (line.split("|")[1:3] for line in printed.splitlines()[2:])
    found = {name.strip(): float(value) for name, value in rows}
    assert found["polyloop, bound"] < found["cuda.core launch"]
    number = found["polyloop, torch tensors, a new number each time"]
    drawn = itertools.count()
    (drawing,) = microseconds(lambda: float(next(drawn)))
    assert number - drawing - found["polyloop, torch tensors"] < 1.0


_FIRST = """
import sys, time, torch, polyloop as pl
x, y = torch.arange(5, dtype=torch.float32, device="cuda"), torch.ones(5, device="cuda")
torch.cuda.synchronize()
begin = time.perf_counter()
pl.load({folder!r})(x=x, y=y, a=2.0)
torch.cuda.synchronize()
print(time.perf_counter() - begin)
assert y.tolist() == [1, 3, 5, 7, 9], y
"""


@pytest.mark.gpu
def test_gpu_a_bundle_is_loaded_and_called_in_less_than_50_ms(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    data = [pl.GlobalArg("x, y", F, shape="n"), pl.ValueArg("a", F), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = y[i] + a*x[i]", data, name="axpy")
    knl = knl.split_iname("i", 128, outer_tag="g.0", inner_tag="l.0")
    pl.export(knl, tmp_path, target=pl.CudaTarget(), bundle=True)
    # as where the package is installed, which compiles its modules once
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path / "bytecode")
    seconds = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", _FIRST.format(folder=str(tmp_path))], capture_output=True,
                              text=True, check=True, cwd=ROOT, env=environment)  # fmt: skip
        seconds.append(float(done.stdout))
    print(seconds)
    assert min(seconds) < 0.050, seconds
