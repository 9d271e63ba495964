"""Launches against enumeration: random programs whose blocks pass elements to each other, and to themselves."""

from __future__ import annotations

import random
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow.address_spaces import place
from polyloop.kernel.arrays import AddressSpace
from polyloop.sync.launches import launch_cuts, numbers_of, passages
from polyloop.sync.races import needs, shared_arrays

F = np.float32
BLOCKS = 6


class Sample(NamedTuple):
    """One statement at each position of a program.

    Attributes
    ----------
    spans
        Positions of statements between which a launch has to end.
    kept
        Positions of a write and a read of an element that belongs to a block.
    """

    text: str
    spans: list[tuple[int, int]]
    kept: list[tuple[int, int]]

    @staticmethod
    def draw(rng: random.Random) -> Sample:
        count = rng.randint(3, 7)
        lines, spans, kept = [], [], []
        own = {k for k in range(count) if rng.random() < 0.5}
        for k in range(count):
            terms = [f"a[i{k}]"]
            for earlier in rng.sample(range(k), min(k, rng.randint(0, 2))):
                if earlier in own:
                    kept.append((earlier, k))
                    terms.append(f"w{earlier}[i{k}]")
                elif rng.random() < 0.6:
                    spans.append((earlier, k))
                    terms.append(f"w{earlier}[{BLOCKS - 1} - i{k}]")
                else:
                    terms.append(f"w{earlier}[i{k}]")
            lines.append(f"w{k}[i{k}] = {' + '.join(terms)}")
        used = {earlier for earlier, _ in kept}
        lines.append(f"out[z] = a[z]{''.join(f' + w{k}[z]' for k in sorted(own - used))}")
        kept += [(k, count) for k in sorted(own - used)]
        return Sample("\n".join(lines), spans, kept)

    def kernel(self) -> pl.LoopKernel:
        count = self.text.count("\n")
        own = sorted({k for k, _ in self.kept})
        names = ", ".join([*(f"i{k}" for k in range(count)), "z"])
        data = [
            pl.GlobalArg("a", F, shape=BLOCKS),
            *(pl.TemporaryVariable(f"w{k}", F, shape=BLOCKS) for k in own),
            *(pl.GlobalArg(f"w{k}", F, shape=BLOCKS) for k in range(count) if k not in own),
            ...,
        ]
        knl = pl.make_kernel(f"{{[{names}]: 0 <= {names} < {BLOCKS}}}", self.text, data)
        return pl.tag_inames(knl, dict.fromkeys(knl.inames, "g.0"))


def are_cut(spans: list[tuple[int, int]], cuts: tuple[int, ...]) -> bool:
    return all(any(first < cut <= second for cut in cuts) for first, second in spans)


@pytest.mark.filterwarnings("ignore:dead-instruction")
@pytest.mark.parametrize("seed", range(60))
def test_launches_are_as_few_as_possible_and_carry_as_little_as_possible(seed: int) -> None:
    sample = Sample.draw(random.Random(seed))
    placement = place(sample.kernel())
    found = [need for array in shared_arrays(placement) for need in needs(placement, array)]
    divided = launch_cuts(placement, found)
    assert not divided.loops
    cuts = tuple(divided.at(()))
    count = len(placement.statements)
    assert are_cut(sample.spans, cuts), sample.text
    fewer = combinations(range(1, count), len(cuts) - 1) if cuts else ()
    assert not any(are_cut(sample.spans, some) for some in fewer), sample.text

    homes: dict[str, tuple[int, int]] = {}
    for first, second in sample.kept:
        if placement.spaces[f"w{first}"] is not AddressSpace.GLOBAL:
            homes[f"w{first}"] = (first, max(second, homes.get(f"w{first}", (0, 0))[1]))

    lines = sample.text.split("\n")
    used = {name: [n for n, line in enumerate(lines) if f"{name}[" in line] for name in (f"w{k}" for k in range(count))}
    passed = [(at[0], at[-1]) for name, at in used.items() if at and name not in homes]

    def cost(cut: int) -> tuple[int, int, int]:
        kept, others = (sum(low < cut <= high for low, high in spans) for spans in (homes.values(), passed))
        return kept, others, -cut

    if len(cuts) == 1:
        assert cuts[0] == min((cut for cut in range(1, count) if are_cut(sample.spans, (cut,))), key=cost), sample.text

    positions = [numbers_of(placement, divided)[name] for name in placement.statements]
    assert positions == [sum(cut <= k for cut in cuts) for k in range(count)]
    carried: dict[str, set[tuple[int, int]]] = {}
    for first, second in sample.kept:
        if positions[first] != positions[second] and f"w{first}" in homes:
            carried.setdefault(f"w{first}", set()).add((positions[first], positions[second]))
    assert passages(placement, divided) == {name: sorted(pairs) for name, pairs in sorted(carried.items())}


@pytest.mark.filterwarnings("ignore:dead-instruction")
def test_the_samples_have_launches_that_values_pass() -> None:
    samples = [Sample.draw(random.Random(seed)) for seed in range(60)]
    cut = [place(sample.kernel()) for sample in samples[:20] if sample.spans and sample.kept]
    assert any(
        passages(p, launch_cuts(p, [need for array in shared_arrays(p) for need in needs(p, array)])) for p in cut
    )
