"""Instances as counted, against a counter in each statement of the generated CUDA C, which runs on the CPU."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tags import Vectorize
from polyloop.program.ir import Init
from polyloop.runtime.arguments import Binder
from polyloop.runtime.fibres import fibre_library, run_on_fibres
from polyloop.runtime.views import HostMemory
from polyloop.schedule.build import build_schedule
from polyloop.schedule.counts import census_of
from tests.gallery import GALLERY

LINE = re.compile(r"^(\s*)(.*;)  // (\w+)$")
ASSIGNMENT = re.compile(r"^(.*?) ([-+*/|&^]?=) (.*);$")
SOME = ("clamped_stencil", "corners_kept_across_launches", "matmul_in_registers", "two_phases")


def _with_counters(code: str, ids: Sequence[str]) -> str:
    """Return *code* in which each statement of an instruction in *ids* counts itself."""
    lines = [
        f"static long long polyloop_counts[{len(ids)}];",
        'extern "C" long long *polyloop_where() { return polyloop_counts; }',
    ]
    for line in code.splitlines():
        match = LINE.match(line)
        if match is None or match[3] not in ids:
            lines.append(line)
            continue
        count = f"++polyloop_counts[{ids.index(match[3])}]"
        assignment = ASSIGNMENT.match(match[2])
        if assignment:
            lines.append(f"{match[1]}{assignment[1]} {assignment[2]} ({count}, {assignment[3]});")
        else:
            lines.append(f"{match[1]}({count}, {match[2][:-1]});")
    return "\n".join(lines)


def _check(name: str) -> None:
    entry = GALLERY[name]
    knl = entry.build()
    census = census_of(knl, redundant=True)
    statements = census.placement.statements.values()
    program = pl.generate_code(knl, pl.CudaTarget())
    phantoms = frozenset(build_schedule(knl, pl.CudaTarget().limits).phantoms)
    by_data = {
        s.lowered.instruction.id
        for s in statements
        if s.lowered.predicates or s.lowered.bounds or s.lowered.instruction.is_c
    }
    private = {
        s.lowered.instruction.id
        for s in statements
        if any(census.placement.spaces[write.array] is AddressSpace.PRIVATE for write in s.lowered.writes)
    }
    ids = [name for name in dict.fromkeys(s.lowered.instruction.id for s in statements) if name not in by_data]
    ids = [name for name in ids if f"// {name}\n" in program.device_code]
    if not ids or any(isinstance(tag, Vectorize) for tag in census.kernel.iname_tags.values()):
        pytest.skip("no statement of it can be counted in the text")
    program = replace(program, device_code=_with_counters(program.device_code, ids))
    library = fibre_library(program, quick=True)
    library.polyloop_where.restype = ctypes.POINTER(ctypes.c_longlong)
    counters = library.polyloop_where()
    for n in entry.sizes[:2]:
        given, _ = entry.case(n, np.random.default_rng(n))
        arguments = {key: value.copy("K") if isinstance(value, np.ndarray) else value for key, value in given.items()}
        scalars = Binder(program, HostMemory()).bind(arguments, poison=True).scalars
        sizes = {key: int(value) for key, value in scalars.items() if key in census.kernel.parameters}
        for number in range(len(ids)):
            counters[number] = 0
        run_on_fibres(program, arguments, orders=("forward",), library=library)
        for number, key in enumerate(ids):
            own = [s for s in statements if s.lowered.instruction.id == key]
            counted = sum(census.count(s, census.executed(s)).eval_with_dict(sizes) for s in own)
            ran = counters[number]
            # An accumulator may begin with its first term.  Threads without work may set a private variable before a
            # barrier, and blocks at an edge do what others do.
            starts = [s for s in own if isinstance(s.lowered.part, Init)]
            begun = sum(census.count(s, census.executed(s)).eval_with_dict(sizes) for s in starts)
            is_more = key in private or not phantoms.isdisjoint(s.name for s in own)
            assert counted - begun <= ran <= counted or (is_more and counted < ran), f"'{key}' of {name}, n = {n}"


@pytest.mark.parametrize("name", SOME)
def test_instances_are_those_that_run(name: str) -> None:
    _check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name, entry in GALLERY.items() if "cuda" not in entry.refused))
def test_instances_of_the_whole_gallery_are_those_that_run(name: str) -> None:
    _check(name)
