"""Lanes of a statement that reads what it writes: proven exactly where they are legal by brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import polyloop as pl
from polyloop.frozen import replace
from polyloop.kernel.tags import GroupAxis, InameTag, Interleave
from polyloop.testing.pairs import legality
from polyloop.transform.loops.auto_local import assign_auto

F = np.float64
TEXTS = [
    "c[r, i] = b[r]\na[r + {0}, i + {1}, j + {2}] = a[r + 1, i + 1, j + 1] + b[r]",
    "a[r + {0}, i + {1}, j + {2}] = b[r] + b[i]*sum(k, b[k]*a[r + 1, i + 1, j + 1])",
]


LANES = Interleave()
TAGS: list[dict[str, InameTag]] = [
    {"i": LANES}, {"j": Interleave(unrolled=False)}, {"i": LANES, "j": LANES}, {"r": LANES, "j": LANES},
    {"i": GroupAxis(0), "j": LANES},
]  # fmt: skip


def is_proven(knl: pl.LoopKernel) -> bool:
    """Return whether the order of a kernel is proven; a private value that launches would have to carry is no order."""
    try:
        pl.verify(knl)
    except pl.PolyloopError as error:
        return {finding.code for finding in error.found} == {"private-across-launches"}
    return True


@pytest.mark.few(4)
@pytest.mark.parametrize("tags", TAGS, ids=[" ".join(tags) for tags in TAGS])
@pytest.mark.parametrize("text", TEXTS)
def test_lanes_are_proven_exactly_where_they_are_legal(text: str, tags: dict[str, InameTag]) -> None:
    verdicts = set()
    for offsets in product((0, 1, 2), repeat=3):
        knl = pl.make_kernel(
            "{[r, i, j, k]: 0 <= r < 2 and 0 <= i, j, k < 3}",
            text.format(*offsets),
            [pl.GlobalArg("a", F, shape="4, 5, 5"), pl.GlobalArg("b", F, shape=6), pl.GlobalArg("c", F, shape="2, 3")],
            name="lanes",
            silenced_warnings="*",
        )
        knl = pl.prioritize_loops(knl, "r, i, j")
        knl = replace(knl, iname_tags={**knl.iname_tags, **tags})
        verdict = is_proven(knl)
        found = legality(assign_auto(knl), [2], 0)
        assert verdict == (found is None), f"{offsets}: {found}"
        verdicts.add(verdict)
    assert verdicts == {True, False}
