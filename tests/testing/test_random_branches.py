"""Random branches with loops in them: the loop around runs on threads where brute force finds nothing wrong."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from polyloop.testing.brute import judge
from polyloop.testing.drawing.draws import drawn_source
from polyloop.testing.drawing.random_branches import BRANCHES, branch_recipe, branch_source


def private(seed: int) -> bool:
    """Judge the transformed kernel of *seed* by brute force; return whether its loop runs on threads."""
    kernel = branch_source(seed).make()
    try:
        for step in branch_recipe(seed):
            kernel = step(kernel)
    except pl.TransformError as error:
        if error.codes[0] in ("illegal-parallel", "race", "write-race"):
            return False
        raise
    rng = np.random.default_rng(seed)
    data = {name: rng.integers(-1, 4, 7).astype(np.int32) for name in ("a", "b", "out")}
    assert not [*judge(kernel, {"n": 4}, data)], seed
    return True


@pytest.mark.few(1)
@pytest.mark.parametrize("seeds", [range(4), range(20, 40), range(40, 60), range(60, 80)])
def test_loops_around_branches_run_on_threads(seeds: range) -> None:
    assert 0 < sum(map(private, seeds)) < len(seeds)


def test_the_fuzzer_draws_them() -> None:
    assert any(BRANCHES in drawn_source(seed).features for seed in range(100))
