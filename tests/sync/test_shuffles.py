"""Shuffles against enumeration: random kernels in which lanes read each other's elements."""

from __future__ import annotations

import random
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow.address_spaces import place
from polyloop.frozen import replace
from polyloop.kernel.tags import LocalAxis
from polyloop.sync.warp_shuffle import exchange_problems

F = np.float32
STEPS = 3
LANES = (2, 4, 8, 16, 32)


class Read(NamedTuple):
    """``t[row, lane]`` in the iterations for which *guard* holds; *condition* says whether data decides too."""

    row: str
    lane: str
    guard: str
    condition: bool


class Sample(NamedTuple):
    """Writes of ``t[write]`` and two reads, by *rows* rows of threads with so many *lanes*."""

    lanes: int
    rows: int
    write: str
    reads: tuple[Read, Read]

    @staticmethod
    def draw(rng: random.Random) -> Sample:
        lanes, rows = rng.choice((2, 3, 4, 4, 8, 8, 8)), rng.randint(1, 3)
        flat = rng.random() < 0.2
        write = rng.choice(("x", "x", "L - 1 - x")) if flat else rng.choice((*["y, x"] * 8, "y, L - 1 - x"))

        def read() -> Read:
            row = "" if flat else rng.choice(("y", "y", "y", "y", "y", "0", "k" if rows == STEPS else "y"))
            lane = rng.choice(("x", "L - 1 - x", "(x + 1) % L", "0", "L - 1", "k % 2", "x // 2", "(x + k) % L"))
            guards = ("0 == 0", "0 == 0", "0 == 0", "k < 2", "y < 1", "k + y < 3", "x < L - 1", "x >= 1", "x + k < 3")
            return Read(row, lane, rng.choice(guards), rng.random() < 0.1)

        return Sample(lanes, rows, write, (read(), read()))

    def kernel(self) -> pl.LoopKernel:
        lanes, rows = self.lanes, self.rows

        def text(entry: str, number: int) -> str:
            entry = entry.replace("L", str(lanes)).replace("==", "=")
            return entry.replace("y", f"y{number}").replace("x", f"x{number}")

        row = "y0" if "y" in self.write else "0"
        lines, domain = [f"t[{text(self.write, 0)}] = g[k, {row}, x0]"], [f"0 <= k < {STEPS}"]
        domain += [f"0 <= y{number} < {rows} and 0 <= x{number} < {lanes}" for number in (0, 1, 2)]
        for number, read in enumerate(self.reads, 1):
            indices = ", ".join(text(entry, number) for entry in (read.row, read.lane) if entry)
            condition = " {if=g[0, 0, 0] > 1}" if read.condition else ""
            lines.append(f"o{number}[k, y{number}, x{number}] = t[{indices}]{condition}")
            domain.append(text(read.guard, number))
        sets = f"{{[k, y0, x0, y1, x1, y2, x2]: {' and '.join(domain)}}}"
        data = [
            pl.GlobalArg("g", F, shape=f"{STEPS}, {rows}, {lanes}"),
            pl.GlobalArg("o1, o2", F, shape=f"{STEPS}, {rows}, {lanes}"),
            pl.TemporaryVariable("t", F, shape=(rows, lanes) if "," in self.write else (lanes,)),
            ...,
        ]
        knl = pl.make_kernel(sets, "\n".join(["for k", *lines, "end"]), data, seq_dependencies=True)
        tags = {f"{name}{number}": LocalAxis(axis) for axis, name in enumerate("xy") for number in (0, 1, 2)}
        knl = pl.set_temporary_address_space(knl, "t", "local")
        knl = replace(knl, iname_tags=tags)
        return replace(knl, temporaries={"t": replace(knl.temporaries["t"], is_shuffled=True)})

    def is_possible(self) -> bool:
        """Return whether each thread writes its own element, and all lanes of a row, or none, read those of the row."""
        if self.lanes not in LANES or "L" in self.write or ("y" not in self.write and self.rows > 1):
            return False
        for read in self.reads:
            if read.row not in {"y", ""}:
                return False
            if read.lane != "x" and (read.condition or not self.is_by_rows(read.guard)):
                return False
        return True

    def is_by_rows(self, guard: str) -> bool:
        """Return whether all lanes of a row pass *guard* in an iteration, or none."""
        return all(
            len({bool(eval(guard, {}, {"k": k, "y": y, "x": x, "L": self.lanes})) for x in range(self.lanes)}) == 1
            for k, y in product(range(STEPS), range(self.rows))
        )


@pytest.mark.parametrize("seed", range(100))
def test_shuffles_reach_what_enumeration_finds_in_a_row(seed: int) -> None:
    sample = Sample.draw(random.Random(seed))
    found = [finding.code for finding in exchange_problems(place(sample.kernel()), "t")]
    assert found == ([] if sample.is_possible() else ["bad-exchange"]), sample


def test_rows_of_three_lanes_are_refused_with_the_lengths_that_are_not() -> None:
    sample = Sample(3, 1, "y, x", (Read("y", "0", "0 == 0", condition=False),) * 2)
    (found,) = exchange_problems(place(sample.kernel()), "t")
    assert found.notes == ("axis 'l.0' is 3 threads long",)
    assert found.hints == ("let 'l.0' be the 32 lanes of a warp, or 2, 4, 8 or 16 of them",)


@pytest.mark.parametrize(
    ("dtype", "is_moved"), [(np.int8, False), (np.float16, False), (np.complex64, False), (np.int32, True), (F, True)]
)
def test_shuffles_move_numbers_of_4_or_8_bytes(dtype: type, *, is_moved: bool) -> None:
    knl = Sample(4, 1, "y, x", (Read("y", "0", "0 == 0", condition=False),) * 2).kernel()
    knl = replace(knl, temporaries={"t": replace(knl.temporaries["t"], dtype=np.dtype(dtype))})
    notes = [note for finding in exchange_problems(place(knl), "t") for note in finding.notes]
    assert notes == ([] if is_moved else [f"its type is {np.dtype(dtype)}"])
