"""Blocks that would have to wait for each other against enumeration: random programs whose races are denied."""

from __future__ import annotations

import random
import re
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow.address_spaces import place
from polyloop.frozen import replace
from polyloop.kernel.tags import GroupAxis
from polyloop.sync.block_waits import block_violations
from polyloop.sync.launches import launch_cuts
from polyloop.sync.races import needs, shared_arrays

F = np.float32
SIZE = 4


class Access(NamedTuple):
    """``x[i + over_time*t + shift]`` of a statement in the loop over i of *nest*; or 3 - i, if not *forward*."""

    nest: int
    number: int
    is_write: bool
    forward: bool
    over_time: int
    shift: int

    def text(self) -> str:
        i = f"i{self.nest}" if self.forward else f"{SIZE - 1} - i{self.nest}"
        return f"x[{i} + {self.over_time}*t + {self.shift}]"

    def element(self, t: int, i: int) -> int:
        return (i if self.forward else SIZE - 1 - i) + self.over_time * t + self.shift


class Sample(NamedTuple):
    """Statements in up to three loops over blocks, in *steps* iterations of a loop over t, or in no loop."""

    accesses: list[Access]
    steps: int

    @staticmethod
    def draw(rng: random.Random) -> Sample:
        nests = rng.randint(1, 3)
        found = []
        for number in range(rng.randint(nests, 3)):
            for is_write in (True, False):
                if is_write or rng.random() < 0.7:
                    own = rng.random() < 0.7
                    shift = 2 if own else rng.choice((1, 2, 3))
                    over_time = 0 if own else rng.choice((0, 0, 1, SIZE))
                    is_forward = own or rng.random() < 0.5
                    found.append(Access(min(number, nests - 1), number, is_write, is_forward, over_time, shift))
        return Sample(found, rng.choice((0, 1, 3, 3)))

    def text(self) -> str:
        lines: list[str] = []
        for number in sorted({access.number for access in self.accesses}):
            (target,) = (a for a in self.accesses if a.number == number and a.is_write)
            reads = [a.text() for a in self.accesses if a.number == number and not a.is_write]
            if f"for i{target.nest}" not in lines:
                lines += [*(["end"] if lines else []), f"for i{target.nest}"]
            lines.append(f"{target.text()} = {' + '.join([f'a[t, i{target.nest}]', *reads])}")
        lines.append("end")
        return "\n".join(["for t", *lines, "end"] if self.steps else lines)

    def kernel(self) -> pl.LoopKernel:
        """Return the program on blocks, with races on x denied."""
        data = [pl.GlobalArg("x", F, shape=40), pl.GlobalArg("a", F, shape=f"3, {SIZE}"), ...]
        inames = ", ".join(sorted({f"i{a.nest}" for a in self.accesses}))
        time = ("t, ", f"0 <= t < {self.steps} and ") if self.steps else ("", "")
        domain = f"{{[{time[0]}{inames}]: {time[1]}0 <= {inames} < {SIZE}}}"
        text = self.text() if self.steps else re.sub(r"\bt\b", "0", self.text())
        knl = pl.make_kernel(domain, text, data, seq_dependencies=True)
        knl = pl.unchecked(knl, "tried here", arrays="x")
        return replace(knl, iname_tags={name: GroupAxis(0) for name in knl.inames if name != "t"})

    def must_wait(self) -> bool:
        """Return whether the loop over t, or the order of two loops in it, orders accesses of different blocks."""
        for first, second in product(self.accesses, repeat=2):
            if not (first.is_write or second.is_write):
                continue
            for t, i, u, j in product(range(self.steps), range(SIZE), range(self.steps), range(SIZE)):
                is_before = t < u or (t == u and first.nest < second.nest)
                if is_before and i != j and first.element(t, i) == second.element(u, j):
                    return True
        return False


@pytest.fixture
def without_host_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host run no loop around launches."""
    monkeypatch.setattr("polyloop.sync.host_loops.obstacle", lambda *_: "the host runs none")


@pytest.mark.filterwarnings("ignore:dead-instruction")
@pytest.mark.parametrize("seed", range(48))
def test_the_host_runs_the_loop_where_enumeration_finds_an_order_between_blocks(seed: int) -> None:
    sample = Sample.draw(random.Random(seed))
    placement = place(sample.kernel())
    assert not [*block_violations(placement)]
    cuts = launch_cuts(placement, [need for array in shared_arrays(placement) for need in needs(placement, array)])
    one_nest = len({access.nest for access in sample.accesses}) == 1  # statements of one have no order that is denied
    if sample.must_wait() or not one_nest or len(sample.accesses) == 1:
        assert [block[-1] for block in cuts.loops] == (["t"] if sample.must_wait() else []), sample.text()


@pytest.mark.filterwarnings("ignore:dead-instruction")
@pytest.mark.parametrize("seed", range(48))
@pytest.mark.usefixtures("without_host_loops")
def test_blocks_wait_where_enumeration_finds_an_order_between_them(seed: int) -> None:
    sample = Sample.draw(random.Random(seed))
    found = {finding.code for finding in block_violations(place(sample.kernel()))}
    assert found == ({"blocks-wait"} if sample.must_wait() else set()), sample.text()


@pytest.mark.parametrize(
    ("steps", "second", "says", "hint"),
    [
        (1, 1, "between two instructions of one loop", "divide the loop"),
        (3, 0, "in the loop 't'", "call the kernel once for each value of 't'"),
    ],
)
@pytest.mark.usefixtures("without_host_loops")
def test_a_wait_names_its_loop_if_there_is_one(steps: int, second: int, says: str, hint: str) -> None:
    write = Access(0, 0, is_write=True, forward=True, over_time=0, shift=2)
    other = Access(second, 1, is_write=True, forward=True, over_time=0, shift=20)
    read = Access(second, 1, is_write=False, forward=True, over_time=0, shift=3)
    (found,) = block_violations(place(Sample([write, other, read], steps).kernel()))
    assert says in found.message
    assert found.hints[0].startswith(hint)
