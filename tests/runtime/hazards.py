"""Kernels of which a barrier is taken away, to see whether it was needed.

``python -m tests.runtime.hazards NAME [NUMBER]`` runs one of them on the GPU, without barrier NUMBER of its text; it is
what compute-sanitizer is given.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np

import polyloop as pl
from polyloop.cli import kernels
from polyloop.codegen.program import GeneratedProgram
from polyloop.dataflow.address_spaces import place
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.tree import Barrier, Loop, Tree
from polyloop.runtime.invoke import load
from polyloop.schedule.barrier import idle_barriers
from polyloop.schedule.build import build_schedule
from polyloop.sync.races import needs, shared_arrays
from tests.gallery import GALLERY

__all__ = ["HAZARDS", "Hazard", "needed", "sample", "without_barrier"]

F = np.float32
_BARRIER = re.compile(r"^[ \t]*__sync(?:threads|warp)\(\);(?: +//[^\n]*)?\n", re.MULTILINE)


@dataclass(frozen=True)
class Hazard:
    """A kernel, what it is called with, and what must come out."""

    kernel: LoopKernel
    arguments: dict[str, Any]
    expected: dict[str, Any]


def _matmul() -> Hazard:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (32, 32)).astype(F) for _ in range(2))
    return Hazard(pl.assume(kernels.matmul(), "n mod 16 = 0"), {"a": a, "b": b}, {"c": a @ b})


def _halo() -> Hazard:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = a[i] + a[i + 1] + a[i + 2]",
        [pl.GlobalArg("a", F, shape="n + 2"), pl.GlobalArg("b", F, shape="n")],
        name="halo",
        assumptions="n mod 64 = 0 and n >= 1",
    )
    knl = pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    knl = pl.add_prefetch(knl, "a", ["i_inner"], default_tag="l.auto")
    a = np.arange(130, dtype=F)
    return Hazard(knl, {"a": a}, {"b": a[:-2] + a[1:-1] + a[2:]})


def _with_an_idle_barrier() -> Hazard:
    """The barrier in the middle divides what has nothing to do with each other."""
    knl = pl.make_kernel(
        "{[g, i, j, k]: 0 <= g < n and 0 <= i, j, k < 64}",
        """
        for g
            <> t[i] = a[g, i] {id=put}
            b[g, j] = t[63 - j] {id=get}
            c[g, k] = a[g, k] {id=other}
        end
        """,
        [pl.GlobalArg("a, b, c", F, shape="n, 64"), ...],
        name="with_an_idle_barrier",
        silenced_warnings="idle-barrier",
    )
    knl = pl.add_barrier(knl, "get", "other", synchronization_kind="local")
    knl = pl.tag_inames(knl, "g:g.0, i:l.0, j:l.0, k:l.0")
    a = np.arange(192, dtype=F).reshape(3, 64)
    return Hazard(knl, {"a": a}, {"b": a[:, ::-1], "c": a})


def _of_the_gallery(name: str) -> Hazard:
    entry = GALLERY[name]
    arguments, expected = entry.case(3, np.random.default_rng(3))
    return Hazard(entry.build(), arguments, expected)


HAZARDS: Final[Mapping[str, Callable[[], Hazard]]] = {
    "matmul": _matmul,
    "halo": _halo,
    "with_an_idle_barrier": _with_an_idle_barrier,
    "double_buffer": lambda: _of_the_gallery("neighbours_through_two_buffers"),
    "loaded_ahead": lambda: _of_the_gallery("next_step_loaded_ahead"),
    "warp_exchange": lambda: _of_the_gallery("fields_to_rows_within_a_warp"),
    "both_kinds": lambda: _of_the_gallery("turned_tile_with_barriers_of_both_kinds"),
}
"""By name.  Each barrier stands in the text once."""


@cache
def sample(name: str) -> tuple[Hazard, GeneratedProgram]:
    """Return a kernel and its CUDA C."""
    hazard = HAZARDS[name]()
    return hazard, pl.generate_code(hazard.kernel, target=pl.CudaTarget())


def needed(kernel: LoopKernel) -> list[bool]:
    """Return of each barrier in the text of *kernel* whether the checker says that threads have to meet there."""
    placement = place(kernel)
    found = [need for array in shared_arrays(placement) for need in needs(placement, array)]
    idle = {name for name, _ in idle_barriers(placement, found)}
    trees = (launch.tree for launch in build_schedule(kernel, DeviceLimits()).launches)
    return [barrier.name not in idle for tree in trees for barrier in _barriers(tree)]


def _barriers(tree: Tree) -> Iterator[Barrier]:
    for node in tree:
        if isinstance(node, Barrier):
            yield node
        elif isinstance(node, Loop):
            yield from _barriers(node.body)


def without_barrier(program: GeneratedProgram, number: int) -> GeneratedProgram:
    """Return *program* without one barrier of its text."""
    places = [*_BARRIER.finditer(program.device_code)]
    text = program.device_code[: places[number].start()] + program.device_code[places[number].end() :]
    assert len(_BARRIER.findall(text)) == len(places) - 1
    return replace(program, device_code=text)


def main() -> None:
    """Run one kernel, whole or without one of its barriers; the result is nobody's business here."""
    name, *numbers = sys.argv[1:]
    hazard, program = sample(name)
    for number in numbers:
        program = without_barrier(program, int(number))
    load(program)(**hazard.arguments)


if __name__ == "__main__":
    main()
