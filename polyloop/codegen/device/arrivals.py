"""Blocks that count their arrivals: the counters of a launch, and the call by which a block learns that it is the last.

::

    matmul_0: sums[..] = ..                                             // of its part
    if (arrives_last(arrived + by * gridDim.x + bx, gridDim.z)) {       // a barrier, a fence, and the count
        matmul_1: c[..] = sums[.., 0] + sums[.., 1] + ..
    }

Counters are 0 when memory is allocated for them, and the last block of each group leaves its own at 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from polyloop.codegen.device.entries import Arrivals, Roles, Together
from polyloop.codegen.device.helpers import helper_text
from polyloop.codegen.language import Language
from polyloop.codegen.loops.context import Known
from polyloop.codegen.loops.grid import hardware_axes
from polyloop.codegen.loops.joined import groups_of, launch_axes
from polyloop.codegen.names import Names, foreign_words, local_words
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.layout import order_tags
from polyloop.poly.axes import BLOCK_AXES
from polyloop.schedule.joined import launch_behind
from polyloop.schedule.plan import Launch, Schedule

__all__ = ["arrives_last", "counters_in", "with_launches_apart"]


def with_launches_apart(schedule: Schedule, language: Language) -> Schedule:
    """Return *schedule* with each launch started by the host, for languages whose blocks do not count.

    All launches in one cooperative launch have a barrier of the grid between them.
    """
    counts = language.find(Arrivals) is not None and language.find(Together) is None
    if counts or not any(launch.turns.joins for launch in schedule.launches):
        return schedule
    launches = (replace(launch, turns=replace(launch.turns, joins=None)) for launch in schedule.launches)
    return replace(schedule, launches=tuple(launches))


def counters_in(schedule: Schedule, language: Language, known: Known, arguments: Iterable[str]) -> dict[str, ArrayArg]:
    """Return the counters of each launch whose blocks count, with names that *arguments* do not have."""
    behind = {launch.name: launch_behind(schedule.launches, launch) for launch in schedule.launches}
    if not any(behind.values()):
        return {}
    temporaries = {t.name for launch in schedule.launches for t in launch.temporaries}
    names = Names(temporaries.union(arguments), local_words(language))
    names.taken.update(foreign_words(schedule, language.name), *(s.dims for s in schedule.statements.values()))
    found: dict[str, ArrayArg] = {}
    for launch in schedule.launches:
        joined = behind[launch.name]
        if joined is not None and joined.turns.joins is not None:
            axes = launch_axes(launch, schedule, known.context, known.divisibility)
            extent, dtype = groups_of(axes, joined.turns.joins), np.dtype(np.uint32)
            found[launch.name] = ArrayArg(
                names.fresh("arrived"), dtype, (extent,), (1,), is_input=False, dim_tags=order_tags(1, "C")
            )  # fmt: skip
    return found


def arrives_last(scope: Scope, launch: Launch, counted: str, counters: str, blocks: Mapping[str, str]) -> str:
    """Return the condition that a block of *launch* is the last of its group to arrive.

    *blocks* are the expressions of the indices of a block, by axis of the hardware.  Where threads have roles, those
    that copy have ended, and the others meet.
    """
    entry, name = scope.language.need(Arrivals), "arrives_last"
    barrier = entry.barrier
    if (crew := launch.turns.crew) is not None:
        name = f"{name}_of_{crew.threads}"
        barrier = scope.language.need(Roles).barrier.format(threads=crew.threads)
    function = scope.shared_helper(name, name, lambda: helper_text(scope, entry.last(barrier), name))
    hardware = hardware_axes(launch.grid_axes)
    own = hardware[counted]
    kept = [axis for axis in BLOCK_AXES if axis != own and axis in {hardware[used] for used in launch.grid_axes}]
    place: c.Code | None = None
    for axis in reversed(kept):
        index = c.Name(blocks[axis])
        inner = None if place is None else c.binary(c.TIMES, c.Name(entry.count[axis]), place)
        place = index if inner is None else c.binary(c.PLUS, index, inner)
    address = counters if place is None else f"{counters} + {place.text}"
    return f"{function}({address}, {entry.count[own]})"
