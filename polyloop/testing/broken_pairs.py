"""Pairs of a random kernel and a random chain, changed at the end as no transform would change them.

A faulty transform, or one of a user's, may make any kernel.  The prover has to refuse it, unless it computes the same.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable, Iterator
from typing import Final

from polyloop.errors import KernelError, PolyloopWarning
from polyloop.frozen import replace
from polyloop.testing.agreement import Programs
from polyloop.testing.drawing.breaks import random_breaks
from polyloop.testing.drawing.draws import drawn_source
from polyloop.testing.pairs import Exploration, Pair, Tally, compared

__all__ = ["check_broken"]

_BREAKS: Final = 6
"""Changes of one kernel that are tried, each alone."""


def check_broken(seeds: Iterable[int]) -> Tally:
    """Draw a pair for each seed, change its kernel, and compare what is accepted with the interpreter."""
    tally = Tally()
    warnings.simplefilter("ignore", PolyloopWarning)
    return compared([entry for seed in seeds for entry in _broken(seed, tally)], tally)


def _broken(seed: int, tally: Tally) -> Iterator[tuple[Pair, Programs]]:
    """Yield the pairs of *seed*, one for each change, that are accepted."""
    tally.counts["pairs"] += 1
    rng = random.Random(seed + 1_000_000_007)
    whole = Exploration(drawn_source(seed), rng, Tally(), seed)
    try:
        whole.begin()
    except KernelError:
        return
    for step in whole.chain():
        whole.apply(step)
    for number, change in enumerate(random_breaks(rng, whole.kernel, _BREAKS)):
        part = Exploration(whole.source, rng, tally, seed, sizes=whole.sizes, steps=[*whole.steps], known=whole.known)
        part.kernel = whole.kernel
        try:
            part.apply(change)
            tally.counts["broken kernels"] += 1
            one = replace(part.kernel, name=f"{part.kernel.name}_{number}")  # beside the others in one library
            found = part.finish(one, whole.sizes)
        except Exception as error:  # as for pairs: the prover answers, whatever the kernel is
            part.crash(error)
            continue
        if found is not None:
            yield found
