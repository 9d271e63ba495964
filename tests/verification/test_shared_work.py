"""What a kernel takes over from those before it is what it would find by itself."""

import importlib
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.generate import generate
from polyloop.dataflow import address_spaces as places
from polyloop.dataflow import value_flow as dataflow
from polyloop.dataflow.address_spaces import place
from polyloop.errors import KernelError, PolyloopError
from polyloop.expr.printer import show
from polyloop.mapping import thread_mapping as placement
from polyloop.mapping.thread_mapping import Placement
from polyloop.memo import forgotten
from polyloop.program.lower import Program, lower
from polyloop.schedule.build import build_schedule
from polyloop.testing.drawing.random_chains import Step, random_step
from polyloop.testing.drawing.random_kernels import random_source
from polyloop.verification import bounds

PROGRAMS = ("matmul_tiled", "prefix_sum", "segmented_scan", "row_scan", "stencil_2d", "softmax", "matmul_registers")


def _spelt(program: Program) -> list[object]:
    found: list[object] = [str(program.tree), sorted(program.accumulators)]
    for statement in program.statements.values():
        accesses = [(a.array, a.indices, a.leaf, str(a.domain)) for a in statement.accesses]
        own = (type(statement.part), statement.inames, statement.own, statement.across, dict(statement.joined))
        text = (show(statement.lhs), show(statement.rhs), statement.number, statement.along, statement.fixed)
        found.append((statement.name, own, text, accesses))
    return found


def _same_places(found: Placement, wanted: Placement) -> Iterator[bool]:
    yield dict(found.spaces) == dict(wanted.spaces)
    yield found.axes == wanted.axes
    for name, statement in found.statements.items():
        other = wanted.statements[name]
        yield (statement.dims, statement.repeated, statement.own) == (other.dims, other.repeated, other.own)
        yield dict(statement.forms) == dict(other.forms)
        yield bool(statement.domain.is_equal(other.domain) and statement.exact.is_equal(other.exact))


def _links(found: Placement) -> Iterator[tuple[str, list[isl.Map], list[isl.Set]]]:
    """Yield the flow of each array and, as flows of a name of their own, who copies whom."""
    for array in sorted(found.spaces):
        if dataflow.is_exact(found, array):
            flow = dataflow.flow_of(found, array)
            yield array, [link for sources in flow.sources for _, link in sources], list(flow.initial)
    reference = found.program.kernel.reference
    if reference is not None:
        originals = list(place(reference.kernel).statements.values())
        for name, statement in found.statements.items():
            same = [original for original in originals if places._is_copy(statement, original)]
            yield name, [placement.reference_map(statement, original) for original in same], []


def _same_links(found: Placement, wanted: Placement) -> Iterator[bool]:
    for mine, others in zip(_links(found), _links(wanted), strict=True):
        yield mine[0] == others[0]
        yield from (bool(a.is_equal(b)) for a, b in zip(mine[1], others[1], strict=True))
        yield from (bool(a.is_equal(b)) for a, b in zip(mine[2], others[2], strict=True))


def _compare(kernel: pl.LoopKernel) -> None:
    shared = _spelt(lower(kernel)), place(kernel), bounds.bounds_conditions(kernel)
    with forgotten():
        alone = replace(kernel)
        fresh = _spelt(lower(alone)), place(alone), bounds.bounds_conditions(alone)
        assert all(_same_links(shared[1], fresh[1])), "found anew"
    assert all(_same_links(shared[1], fresh[1]))
    assert shared[0] == fresh[0]
    assert all(_same_places(shared[1], fresh[1]))
    assert [str(c.set) for c in shared[2]] == [str(c.set) for c in fresh[2]]


@pytest.mark.parametrize("name", PROGRAMS)
def test_statements_of_examples(name: str) -> None:
    _compare(importlib.import_module(f"examples.{name}").transformed())


@pytest.mark.parametrize("seed", range(12))
def test_statements_of_random_kernels(seed: int) -> None:
    rng = random.Random(seed)
    try:
        kernel = random_source(seed).make()
    except KernelError:
        pytest.skip("this program is refused")
    for _ in range(6):
        try:
            kernel = random_step(rng, kernel)(kernel)
            place(kernel)
        except PolyloopError:
            continue
        _compare(kernel)


def _outcome(step: Step, kernel: pl.LoopKernel) -> str:
    """Return the code of a transformed kernel, or why there is none."""
    target = pl.CudaTarget()
    try:
        return str(generate(build_schedule(step(kernel), target.limits), target.language))
    except PolyloopError as error:
        return str(error)


def _in_buffers() -> pl.LoopKernel:
    text = """
    for k
        for p
            a[p, 0] = a[p, 0]/2 {id=scale}
        end
        for q, r
            a[q, r] = a[q, r] + b[q, k]*b[k, r] {id=update}
        end
    end
    """
    domain = "{[k, p, q, r]: 0 <= k, p, q, r < n}"
    return pl.make_kernel(domain, text, [pl.GlobalArg("a, b", np.float64, shape="n, n"), ...], name="updates")


def test_what_steps_of_a_program_in_buffers_share() -> None:
    """Each step asks about pairs of accesses that the steps before asked about; some are refused."""
    kernel = _in_buffers()
    early = {"buffer_inames": "k, r_inner", "within": "id:update", "temporary_name": "early"}
    tile = {"buffer_inames": "r_inner", "within": "id:update", "temporary_name": "tile"}
    steps = (
        Step("split_iname", {"split_iname": "r", "inner_length": 8}),
        Step("buffer_array", {"var_name": "a", **early}),
        Step("buffer_array", {"var_name": "a", **tile}),
        Step("tag_inames", {"iname_to_tag": "r_outer:g.0, r_inner:l.0"}),
    )
    for step in steps:
        shared = _outcome(step, kernel)
        with forgotten():
            assert _outcome(step, replace(kernel)) == shared
        with suppress(PolyloopError):
            kernel = step(kernel)
    assert kernel.buffers
    _compare(kernel)


@pytest.mark.parametrize("seed", range(12))
def test_what_statements_share(seed: int) -> None:
    rng = random.Random(seed)
    try:
        kernel = random_source(seed).make()
    except KernelError:
        pytest.skip("this program is refused")
    for _ in range(6):
        step = random_step(rng, kernel)
        shared = _outcome(step, kernel)
        with forgotten():
            assert _outcome(step, replace(kernel)) == shared
        try:
            kernel = step(kernel)
        except PolyloopError:
            continue
