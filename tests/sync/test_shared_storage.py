"""Temporaries of one storage against enumeration: random programs that write and read three of them."""

from __future__ import annotations

import random
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow.address_spaces import place
from polyloop.sync.storage_aliasing import pool_obligations
from polyloop.testing.brute import Event, execute
from polyloop.testing.symbols import Symbols

MEMBERS = ("t", "u", "v")
THREADS = 3


class Sample(NamedTuple):
    """A program, and the tags of its inames."""

    text: str
    inames: list[str]
    tags: dict[str, str]

    @staticmethod
    def draw(rng: random.Random) -> Sample:
        inames: list[str] = []

        def statement(kind: str, member: str) -> str:
            i = f"i{len(inames)}"
            inames.append(i)
            other = rng.choice([name for name in MEMBERS if name != member])
            index = rng.choice((i, f"{THREADS - 1} - {i}"))
            match kind:
                case "write":
                    condition = " {if=a[g, 0] > 2}" if rng.random() < 0.1 else ""
                    return f"{member}[{i}] = a[g, {i}]{condition}"
                case "read":
                    return f"b{len(inames)}[g, {i}] = {member}[{index}]"
                case _:
                    return f"{other}[{i}] = {member}[{index}]"

        begin = [f"{name}[z] = 0" for name in MEMBERS]
        rng.shuffle(begin)
        body = []
        for _ in range(rng.randint(1, 3)):
            member = rng.choice(MEMBERS)
            body += [statement("write", member), statement(rng.choice(("read", "read", "copy")), member)]
        if rng.random() < 0.5:
            first, second = rng.sample(range(len(body)), 2)
            body[first], body[second] = body[second], body[first]
        text = "\n".join(["for z", *begin, "end", "for g", *body, "end"])
        tags = dict.fromkeys([*inames, "z"], "l.0") if rng.random() < 0.6 else {}
        return Sample(text, inames, tags)

    def kernel(self) -> pl.LoopKernel:
        inner = ", ".join([*self.inames, "z"])
        data = [
            pl.GlobalArg("a", np.int32, shape=f"2, {THREADS}"),
            *(
                pl.TemporaryVariable(name, np.int32, shape=THREADS, address_space="local", base_storage="pool")
                for name in MEMBERS
            ),
            ...,
        ]
        domain = f"{{[g, {inner}]: 0 <= g < 2 and 0 <= {inner} < {THREADS}}}"
        return pl.tag_inames(pl.make_kernel(domain, self.text, data), self.tags)


def are_in_use_together(events: list[Event]) -> bool:
    """Return whether one member is written between a write of another and a read of that, or at the same time.

    Threads are in one block; instances of one statement on different threads have no order.
    """
    used = [event for event in events if event.array in MEMBERS]
    for read in used:
        if read.is_write:
            continue
        same = [e.by.time for e in used if e.is_write and (e.array, e.index) == (read.array, read.index)]
        before = [time for time in same if time < read.by.time]
        if before and any(
            max(before) < other.by.time < read.by.time for other in used if other.is_write and other.array != read.array
        ):
            return True
    return any(
        one.by.time == other.by.time and one.by.thread != other.by.thread and one.array != other.array
        for one in used if one.is_write
        for other in used
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:dead-instruction")
@pytest.mark.parametrize("seed", range(120))
def test_members_of_a_storage_are_refused_where_enumeration_finds_two_in_use(seed: int) -> None:
    sample = Sample.draw(random.Random(seed))
    kernel = sample.kernel()
    found = {finding.code for obligation in pool_obligations(place(kernel)) for finding in obligation.find()}
    data = [np.array(firsts, np.int32).repeat(THREADS).reshape(2, THREADS) for firsts in product((0, 9), repeat=2)]
    runs = [execute(kernel, {}, {"a": a}, Symbols(), recording=True) for a in data]
    together = any(are_in_use_together(run.events) for run in runs)
    assert found == ({"storage-in-use"} if together else set()), sample.text
