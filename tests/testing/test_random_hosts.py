"""Random loops around blocks: their schedules, executed launch by launch."""

from __future__ import annotations

from contextlib import suppress

import pytest

import polyloop as pl
from polyloop.frozen import replace
from polyloop.kernel.limits import DeviceLimits
from polyloop.schedule.build import build_verified
from polyloop.testing.brute import judge
from polyloop.testing.drawing.draws import drawn_source
from polyloop.testing.drawing.random_hosts import HOSTS, host_recipe, host_source
from polyloop.testing.drawing.random_kernels import is_allowed


def scheduled(seed: int) -> int | None:
    """Judge the schedule of *seed* by brute force, and return the number of its loops of the host, None if refused."""
    kernel = host_source(seed).make()
    for step in host_recipe(seed):
        with suppress(pl.PolyloopError):
            kernel = step(kernel)
    try:
        verified = build_verified(kernel, DeviceLimits())
    except pl.VerificationError:
        return None
    launches, spaces = verified.schedule.launches, verified.placement.spaces
    temporaries = {x: replace(t, address_space=spaces[x]) for x, t in kernel.temporaries.items() if x in spaces}
    built = replace(kernel, temporaries={**kernel.temporaries, **temporaries})
    for n in (0, 1, 5):
        if is_allowed(kernel, n):
            assert not [*judge(built, {"n": n}, {}, launches=launches)], seed
    return len({launch.home for launch in launches if launch.home})


@pytest.mark.few(2)
@pytest.mark.parametrize("begin", range(0, 60, 15))
def test_launches_of_random_programs_are_legal(begin: int) -> None:
    found = [scheduled(seed) for seed in range(begin, begin + 15)]
    assert sum(1 for count in found if count) > 1
    assert sum(1 for count in found if count == 0) > 0


def test_the_fuzzer_draws_them() -> None:
    assert any(HOSTS in drawn_source(seed).features for seed in range(60))
