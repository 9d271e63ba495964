"""Launches of a program: checks against the limits of the device, grids and blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from math import prod

import pymbolic.primitives as p

from polyloop.codegen.asked import host_condition
from polyloop.codegen.device.decoupled_lookback import clear_launch, clear_text
from polyloop.codegen.device.entries import MOST_IN_CLUSTER, Together
from polyloop.codegen.function_text import device_text, host_text, passed_inames
from polyloop.codegen.functions import Function, hardware_of
from polyloop.codegen.loops.grid import bound_expression
from polyloop.codegen.program import DeviceLaunch, HostPart, LaunchLoop
from polyloop.codegen.together import together_text
from polyloop.codegen.unit import Unit
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.kernel.arrays import Argument
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.tree import Barrier, Loop, Tree
from polyloop.kernel.tree import Scope as BarrierScope
from polyloop.poly.axes import BLOCK_AXES, CLUSTER_AXIS
from polyloop.schedule.joined import launch_behind
from polyloop.schedule.plan import Launch, Schedule
from polyloop.schedule.storage import shared_bytes

__all__ = ["check_launches", "device_program", "host_lines", "host_program", "launch_text"]


def device_program(functions: Sequence[Function], unit: Unit) -> tuple[list[str], tuple[DeviceLaunch, ...]]:
    """Return the functions of a program for a device, and their launches.

    If there are scans over blocks, the first function clears their workspace.
    """
    texts, launches = list[str](), list[DeviceLaunch]()
    joined = {function.launch.name: function for function in functions if function.launch.turns.joins is not None}
    for function in functions:
        if function.launch.name in joined:
            continue
        following = launch_behind(unit.schedule.launches, function.launch)
        behind = None if following is None else joined[following.name]
        arguments = unit.arguments_of(function.launch)
        texts.append(device_text(function, arguments, unit, behind))
        launches.append(_device_launch(function, arguments, unit, behind))
    if unit.language.find(Together) is not None:
        texts.append(together_text(functions, launches, unit))
    if chains := tuple(unit.inputs.chains.values()):
        name = unit.names(launch.name for launch in launches).fresh(f"{unit.schedule.name}_clear")
        texts.insert(0, clear_text(name, chains, unit.language))
        launches.insert(0, clear_launch(name, chains))
    return texts, tuple(launches)


def host_program(functions: Sequence[Function], unit: Unit) -> tuple[list[str], tuple[DeviceLaunch, ...]]:
    """Return the one function of a program for a host."""
    names = tuple(argument.name for argument in unit.inputs.arguments)
    return [host_text(functions, unit)], (DeviceLaunch(unit.schedule.name, (1, 1, 1), (1, 1, 1), 0, names),)


def _device_launch(
    function: Function, arguments: Sequence[Argument], unit: Unit, behind: Function | None = None
) -> DeviceLaunch:  # fmt: skip
    """Return the launch of a device function with *arguments*, and of that *behind* it, which its blocks go on to."""
    launch, hardware, limits = function.launch, hardware_of(function.launch, unit), unit.language.limits
    extents: dict[str, Expression] = {hardware[axis.name]: axis.extent for axis in function.axes}
    x, y, z = (extents.get(axis, 1) for axis in BLOCK_AXES)
    sizes = (*launch.block, 1, 1, 1)
    block = (sizes[0], sizes[1], sizes[2])
    members = [function] if behind is None else [function, behind]
    dynamic = max(member.dynamic_shared for member in members)
    shared = dynamic + sum(shared_bytes(x.launch.temporaries) for x in members if not x.dynamic_shared)
    inames, maps = passed_inames(function, unit), (described.name for described in launch.maps)
    names = (*(argument.name for argument in arguments), *inames, *maps)
    most = None if limits is None else limits.max_grid_dims
    asked = host_condition(launch.asked.launch, function.asked, function.scope, function.known)
    host = HostPart(tuple(_launch_loops(function, unit)), asked)
    numbering = function.numbering
    grid, turns = ((x, y, z), 1) if numbering is None else (numbering.grid, numbering.turns)
    grid = grid if launch.cluster == 1 else (p.Product((launch.cluster, grid[0])), *grid[1:])
    return DeviceLaunch(launch.name, grid, block, shared, names, dynamic, most, launch.maps, host, turns)


def _launch_loops(function: Function, unit: Unit) -> Iterator[LaunchLoop]:
    """Yield the loops of the host around the launch of a function."""
    for place, loop in zip(function.launch.home[::2], function.around, strict=True):
        assert isinstance(place, int), "a path alternates positions and loops"
        divisibility, stride = unit.known.divisibility, loop.bounds.stride
        lower = bound_expression(loop.bounds.lower, divisibility, is_lower=True)
        upper = bound_expression(loop.bounds.upper, divisibility, is_lower=False)
        test = host_condition(loop.asked, (), function.scope, loop.context)
        yield LaunchLoop(place, loop.iname, lower, upper, 1 if stride is None else stride.step, test)


def host_lines(launches: Sequence[DeviceLaunch]) -> Iterator[str]:
    """Yield the lines of a comment with the program of the host, which has loops or conditions."""
    yield "Launches of the host, each of which ends before the next begins:"
    open_loops: tuple[LaunchLoop, ...] = ()
    for launch in launches:
        shared = len([*takewhile(lambda pair: pair[0] == pair[1], zip(open_loops, launch.around, strict=False))])
        for depth, loop in enumerate(launch.around[shared:], shared + 1):
            step = "" if loop.step == 1 else f", {loop.step}"
            test = "" if loop.test is None else f", while {loop.test.text}"
            yield f"{'    ' * depth}for {loop.iname} in range({show(loop.lower)}, {show(loop.upper)}{step}){test}:"
        open_loops = launch.around
        condition = "" if launch.condition is None else f", if {launch.condition.text}"
        yield f"{'    ' * (len(launch.around) + 1)}{launch_text(launch)}{condition}"


def launch_text(launch: DeviceLaunch) -> str:
    """Return ``axpy, grid ((n + 255) / 256), block (256)``; no operand of a quotient is negative."""
    grid = [show(extent).replace("//", "/") for extent in launch.grid]
    shapes = [", ".join(_trimmed(entries)) for entries in (grid, [str(extent) for extent in launch.block])]
    dynamic = launch.dynamic_shared_bytes
    more = f", {dynamic} bytes of dynamic shared memory" if dynamic else ""
    return f"{launch.name}, grid ({shapes[0]}), block ({shapes[1]}){more}"


def _trimmed(extents: list[str]) -> list[str]:
    """Return *extents* without those of 1 at the end."""
    last = max((axis for axis, extent in enumerate(extents) if extent != "1"), default=0)
    return extents[: last + 1]


def check_launches(schedule: Schedule, limits: DeviceLimits | None) -> None:
    """Raise an error if the device cannot start a launch of *schedule*.

    Raises
    ------
    CodegenError
        ``grid-barrier``, ``block-too-large``, ``shared-memory-exceeded``, ``bad-cluster``.
    """
    for launch in schedule.launches:
        found = [*_grid_barriers(launch), *_large_clusters(launch)]
        found += () if limits is None else _excesses(launch, limits)
        if found:
            raise CodegenError("generate_code", schedule.name, found)


def _grid_barriers(launch: Launch) -> Iterator[Diagnostic]:
    if _has_grid_barrier(launch.tree):
        yield Diagnostic(
            "grid-barrier",
            f"launch '{launch.name}' has a barrier of the whole grid",
            hints=("split the kernel in two launches at that place",),
        )


def _large_clusters(launch: Launch) -> Iterator[Diagnostic]:
    if launch.cluster > MOST_IN_CLUSTER:
        yield Diagnostic(
            "bad-cluster",
            f"a cluster of {launch.cluster} blocks is too large",
            (f"devices with clusters run {MOST_IN_CLUSTER} blocks of one together",),
            (f"divide the iname tagged '{CLUSTER_AXIS}' by {MOST_IN_CLUSTER} or less",),
        )


def _excesses(launch: Launch, limits: DeviceLimits) -> Iterator[Diagnostic]:
    threads, shared = prod(launch.block), shared_bytes(launch.temporaries)
    sizes = zip(launch.block, limits.max_block_dims, strict=False)
    if threads > limits.max_threads_per_block or any(size > most for size, most in sizes):
        yield Diagnostic(
            "block-too-large",
            f"a block of {' x '.join(map(str, launch.block))} threads is too large",
            notes=(f"the limit is {limits.max_threads_per_block}, {limits.max_block_dims} along x, y, z",),
            hints=("split the inames with local tags by smaller factors",),
        )
    if shared > limits.shared_bytes:
        yield Diagnostic(
            "shared-memory-exceeded",
            f"{shared} bytes of shared memory are too much: a block can have {limits.shared_bytes}",
            hints=("prefetch smaller tiles",),
        )


def _has_grid_barrier(tree: Tree) -> bool:
    return any(
        (isinstance(node, Barrier) and node.scope is BarrierScope.GRID)
        or (isinstance(node, Loop) and _has_grid_barrier(node.body))
        for node in tree
    )
