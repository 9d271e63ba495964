"""``pl.explain``: performance bounds of a kernel on a device, found without running it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Annotated, Any, Final, Protocol, TypeVar, overload

from polyloop.codegen.loops.grid import hardware_axes
from polyloop.codegen.program import DeviceLaunch, GeneratedProgram
from polyloop.cost.bank_conflicts import WARP, BankConflicts, bank_conflicts
from polyloop.cost.coalescing import merged_width, repeating_loops, sectors, vector_width
from polyloop.cost.instance_counts import Census
from polyloop.cost.occupancy import block_limits, occupancy
from polyloop.cost.traffic import Address, Traffic, address_of, different, traffic
from polyloop.edge.checks import EXPLAINED
from polyloop.edge.words import misfit
from polyloop.errors import ArgumentError, Diagnostic
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.devices import Device, Figure, find_device
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.processors import Processor
from polyloop.kernel.tags import Box, InameTag, ThreadDigit, axis_name
from polyloop.poly.axes import BLOCK_AXES, THREAD_AXES, loops_among
from polyloop.program.ir import Update
from polyloop.runtime.advice import advice
from polyloop.runtime.bounds.counted import Counted, access_text, by_type, checked_sizes, homes_of
from polyloop.runtime.bounds.on_processor import explain_processor
from polyloop.runtime.bounds.used import Used, used_by
from polyloop.runtime.cuda.graphs import chosen
from polyloop.runtime.evaluate import evaluate
from polyloop.runtime.explanation import AccessFacts, Bound, Explanation, LaunchFacts
from polyloop.runtime.steps import Steps
from polyloop.schedule.build import build_verified
from polyloop.schedule.counts import census_of, sync_counts
from polyloop.schedule.plan import Launch
from polyloop.target.base import Target
from polyloop.target.cuda import CudaTarget, own_architecture
from polyloop.target.hip import HipTarget
from polyloop.target.source import generate_code

__all__ = ["explain", "least_seconds"]

_Told_co = TypeVar("_Told_co", covariant=True)


class Divided(Protocol[_Told_co]):
    """Interface of a kernel divided over a mesh, which a higher package makes."""

    def explained(
        self, sizes: Mapping[str, int] | None, device: Device, mesh: Sequence[int] | None, link: Any  # noqa: ANN401
    ) -> _Told_co:
        """Return bounds on a mesh."""
        ...


@overload
def explain(
    kernel: LoopKernel, sizes: Mapping[str, int] | None = None, device: str | Device | Processor = "H200", *,
    compile: bool = False,
) -> Explanation: ...  # fmt: skip


@overload
def explain(
    kernel: Divided[_Told_co], sizes: Mapping[str, int] | None = None, device: str | Device = "H200", *,
    mesh: Sequence[int] | None = None, link: Any = None,  # noqa: ANN401
) -> _Told_co: ...  # fmt: skip


def explain(
    kernel: Annotated[Any, EXPLAINED],
    sizes: Mapping[str, int] | None = None,
    device: str | Device | Processor = "H200",
    *,
    compile: bool = False,  # noqa: A002 - what the function of that name does
    mesh: Sequence[int] | None = None,
    link: Annotated[Any, EXPLAINED] = None,
) -> Any:
    """Return the performance bounds of *kernel* on a GPU or a processor: least times by resource, and causes of waste.

    ::

        print(pl.explain(knl, {"n": 4096}, device="H100"))

    Nothing is run, and no GPU is needed: times are lower bounds, from exact counts and published rates.

    Of a kernel that :func:`polyloop.distribute` divided, it says the bytes of each link and step, the time of a model
    with and without overlap, the sizes up to which communication takes longer than computation, and the efficiency
    expected on 8, 64 and 1024 GPUs, with the same sizes and with sizes that grow::

        print(pl.explain(divided, {"n": 1024, "steps": 10}, "H200", mesh=(2, 2)))

    Parameters
    ----------
    kernel
        A kernel, or what :func:`polyloop.distribute` returned.
    sizes
        A value for each integer parameter.
    device
        ``"H200"``, ``"H100"``, ``"A100"``, of AMD ``"MI300X"``, ``"MI250X"`` (one die of two), ``"RX 7900 XTX"``, or a
        :class:`polyloop.kernel.devices.Device`.  The kernel is that for CUDA, or for HIP.  ``"cpu"`` is the processor
        of this machine, whose rates are measured once and kept in the disk cache; for another one, pass a
        :class:`polyloop.kernel.processors.Processor`.  The kernel is that for its target, if it has one for C, or for
        ``pl.CTarget(openmp=True)``.
    compile
        Compile with NVRTC, or for HIP with Clang, to know the registers of a thread. Without it, registers do not limit
        the blocks that a multiprocessor holds.
    mesh
        Of a divided kernel, the number of ranks along each axis of the mesh, by default as it was divided.
    link
        Of a divided kernel, the latency and bandwidth of what carries messages: a :class:`polyloop.Link`.

    Raises
    ------
    ArgumentError
        ``not-divided``: *mesh* or *link* for a kernel that is not divided; ``mesh-mismatch``, ``missing-size``;
        ``bad-sizes``, ``assumption-violated``, ``unknown-device``; for ``"cpu"`` ``unknown-processor``.
    VerificationError, CodegenError
        The errors of :func:`polyloop.generate_code`.
    CompilerError
        For ``"cpu"``: ``no-c-compiler``, ``no-openmp``.
        With *compile*: ``no-nvrtc``, ``nvrtc-failed``, ``no-hip-compiler``, ``hip-failed``.

    Notes
    -----
    The bound is the roofline (Williams, Waterman, Patterson, Comm. ACM 52(4), 2009) with one roof more, that of the
    memory on a multiprocessor.
    """
    if not isinstance(kernel, LoopKernel) and callable(getattr(kernel, "explained", None)):
        gpu = device.name if isinstance(device, Processor) else device
        return kernel.explained(sizes, find_device(gpu), mesh, link)
    if not isinstance(kernel, LoopKernel):
        raise ArgumentError("explain", None, [misfit("kernel", LoopKernel, kernel)])
    if mesh is not None or link is not None:
        raise ArgumentError("explain", kernel.name, [Diagnostic(
            "not-divided", "a kernel that is not divided runs on one device", (),
            ('divide it first: pl.explain(pl.distribute(knl, {"u": "block"}, "i:mesh.0"), mesh=(4,))',))])
    if isinstance(device, Processor) or (isinstance(device, str) and device.lower() == "cpu"):
        return explain_processor(kernel, sizes, device if isinstance(device, Processor) else None)
    model = find_device(device)
    target = _target_of(model)
    program = generate_code(kernel, target)
    census = census_of(kernel, redundant=True, limits=target.limits)
    known = checked_sizes(census, program, dict(sizes or {}))
    schedule = build_verified(kernel, target.limits).schedule
    homes = homes_of(schedule.launches, census.placement)
    found = _Facts(census, known, model, homes)
    accesses = tuple(found.accesses())
    used = {} if not compile else used_by(program, target)
    launches = tuple(found.launches(schedule.launches, program, used))
    kinds, flops = found.operations()
    moved = found.footprints()
    bounds = [*_bounds(model, launches, flops, sum(moved.values()), accesses)]
    if isinstance(kernel.target, Target) and kernel.target.name != target.name:
        found.notes.append(
            f"the kernel is for {kernel.target!r}: the bounds are those of its text for {target.name.upper()}"
        )
    result = Explanation(
        kernel.name, model.name, known, kinds, by_type(flops), moved,
        tuple(sorted(bounds, key=lambda bound: -bound.seconds)), accesses, launches, model.multiprocessors, (),
        tuple(dict.fromkeys(found.notes)), found.is_estimate,
    )  # fmt: skip
    return advice(census.placement, result, homes)


def least_seconds(kernel: LoopKernel, sizes: Mapping[str, int], device: str | Device) -> float:
    """Return a lower bound on the time of a kernel by its bytes in DRAM and its operations alone [s].

    It is what :func:`explain` finds without first-level caches and idle multiprocessors, in a part of the time.

    Raises
    ------
    ArgumentError, VerificationError, CodegenError
        As :func:`explain`.
    """
    model = find_device(device)
    target = _target_of(model)
    census = census_of(kernel, redundant=True, limits=target.limits)
    schedule = build_verified(kernel, target.limits).schedule
    known = checked_sizes(census, generate_code(kernel, target), dict(sizes))
    found = _Facts(census, known, model, homes_of(schedule.launches, census.placement))
    work: dict[tuple[str, str], int] = {}
    for (_, unit), count in found.operations()[1].items():
        work["", unit] = work.get(("", unit), 0) + count
    whole = LaunchFacts("", model.multiprocessors, 0, 0, None, 0, 0, 0.0, "", 0, 0, 1)
    return max(bound.seconds for bound in _bounds(model, (whole,), work, sum(found.footprints().values()), ()))


def _target_of(model: Device) -> Target:
    own = model.architecture
    return HipTarget(own) if isinstance(own, str) else CudaTarget(own_architecture(own))


_ROW_BYTES: Final = 128
"""Bytes that shared memory takes in one turn, and a copy engine delivers at once."""
_SECTOR_BYTES: Final = 32


def _bounds(
    model: Device,
    launches: Iterable[LaunchFacts],
    work: Mapping[tuple[str, str], int],
    moved: int,
    accesses: Iterable[AccessFacts],
) -> Iterator[Bound]:
    """Yield the time of each resource; the multiprocessors that have no block of a launch do nothing."""
    yield Bound("DRAM", moved, "bytes", model.dram.value, model.dram.source)
    parts = {x.name: min(max(x.blocks, 1), model.multiprocessors) / model.multiprocessors for x in launches}
    turns: dict[str, float] = {}
    for access in accesses:
        turns[access.launch] = turns.get(access.launch, 0.0) + access.turns * access.requests
    amounts: dict[str, dict[str, float]] = {"L1 and shared memory": turns}
    for (launch, kind), count in work.items():
        amounts.setdefault(kind, {})[launch] = count
    for kind, by_launch in amounts.items():
        rate = Figure(model.wavefronts, model.clock.source) if by_launch is turns else model.rate(kind)
        total = sum(by_launch.values())
        if rate is not None and total:
            seconds = sum(amount / (rate.value * parts[launch]) for launch, amount in by_launch.items())
            yield Bound(kind, total, "turns" if by_launch is turns else "operations", total / seconds, rate.source)


class _Facts(Counted):
    """The facts of one kernel for given sizes on one GPU."""

    def __init__(
        self, census: Census, sizes: Mapping[str, int], model: Device, homes: Mapping[str, str]
    ) -> None:
        super().__init__(census, sizes, homes)
        self.model = model

    # {{{ memory

    def accesses(self) -> Iterator[AccessFacts]:
        """Yield the accesses of each statement to global and shared memory, equal accesses of one statement once."""
        conflicts = {
            (entry.instruction, entry.access, entry.is_write): entry for entry in bank_conflicts(self.kernel)
        }
        for entry in different(traffic(self.placement)):
            lowered = entry.placed.lowered
            if lowered.instruction.matrix is not None and isinstance(lowered.part, Update):
                self.notes.append(f"what '{lowered.instruction.id}' loads for matrix instructions is not counted")
                continue
            if any(isinstance(self.kernel.tag(x), Box) for x in entry.placed.dims):
                yield self.of_box(entry)
            elif entry.space is AddressSpace.GLOBAL:
                yield self.in_global(entry)
            else:
                own = (entry.placed.lowered.instruction.id, access_text(entry), entry.direction != "load")
                yield self.in_shared(entry, conflicts.get(own))

    def of_box(self, entry: Traffic) -> AccessFacts:
        """Return the facts of a copy engine's access: requests of 128 bytes, which reach shared memory past the L1."""
        domain = self.census.of_access(entry.placed, entry.access)
        moved = self.number(self.census.count(entry.placed, domain)) * entry.dtype.itemsize
        start = replace(self.start(entry, 1), requests=-(-moved // _ROW_BYTES), turns=1.0, least_turns=1.0)
        if entry.space is not AddressSpace.GLOBAL:
            return start
        sectors = _ROW_BYTES / _SECTOR_BYTES
        return replace(
            start, turns=0.0, least_turns=0.0, sectors=sectors, least_sectors=sectors, used_bytes=float(_ROW_BYTES)
        )

    def in_global(self, entry: Traffic) -> AccessFacts:
        address = address_of(self.kernel, entry)
        if address is not None and not self.is_known(entry, address):
            address = None
        width = 1 if address is None else vector_width(self.placement, entry, address)
        start = self.start(entry, width)
        if address is None:
            self.notes.append(f"where '{start.instruction}' accesses '{start.array}' is not known: one sector a warp")
            return replace(start, sectors=1, least_sectors=1, is_known=False)
        domain = self.census.of_access(entry.placed, entry.access)
        found = sectors(self.placement, entry, address, domain, self.sizes, width, self.census.warp_size)
        if found is None:
            return start
        turns = found.turns / found.requests
        return replace(
            start, turns=turns, least_turns=turns, sectors=found.per_request,
            least_sectors=found.least / found.requests, used_bytes=found.nbytes / found.requests,
            inames=_inames(self.kernel, entry, address), is_exact=found.is_exact,
        )  # fmt: skip

    def is_known(self, entry: Traffic, address: Address) -> bool:
        """Return whether sizes say where an access goes; loops that data bounds are others for each thread."""
        if any(not step.names() <= self.sizes.keys() for _, step in address.parts):
            return False
        loops = set(loops_among(entry.placed.dims))
        return not entry.placed.lowered.bounds or all(loops.isdisjoint(form.names()) for form, _ in address.parts)

    @property
    def groups(self) -> int:
        """Groups of 32 threads in a warp, which have a turn in the banks each: two in a wave of 64 lanes."""
        threads = prod(extent or self.census.warp_size for extent in self.placement.axes.local.values())
        return -(-min(threads, self.census.warp_size) // WARP)

    def in_shared(self, entry: Traffic, conflicts: BankConflicts | None) -> AccessFacts:
        if conflicts is None or not conflicts.requests:
            return self.start(entry, 1)
        width = max(1, conflicts.nbytes // entry.dtype.itemsize)
        start = self.start(entry, width)
        turns, least = (self.groups * n / conflicts.requests for n in (conflicts.wavefronts, conflicts.least))
        address = address_of(self.kernel, entry)
        merged = 1 if address is None or width > 1 else merged_width(self.placement, entry, address)
        if address is None or merged == 1:
            return replace(start, turns=turns, least_turns=least)
        domain = self.census.of_access(entry.placed, entry.access)
        found = sectors(self.placement, entry, address, domain, self.sizes, 1, self.census.warp_size)
        words = 1.0 if found is None else found.least / found.requests / 4
        return replace(start, turns=max(words, turns / merged), least_turns=max(words, least / merged))

    def start(self, entry: Traffic, width: int) -> AccessFacts:
        """Return the facts of an access, with its requests [warps] for *width* elements per thread at once."""
        loops = repeating_loops(self.placement, entry)
        domain = self.census.of_access(entry.placed, entry.access)
        if any(extent is None for extent in self.placement.axes.local.values()):
            count = self.number(self.census.count(entry.placed, domain)) // self.census.warp_size
        else:
            count = self.number(self.census.requests(entry.placed, domain, loops))
        return AccessFacts(
            self.homes[entry.placed.name], entry.placed.lowered.instruction.id, access_text(entry),
            entry.access.array, str(entry.space), entry.direction, -(-count // width),
        )  # fmt: skip

    # }}}
    # {{{ launches

    def launches(
        self, planned: Sequence[Launch], program: GeneratedProgram, used: Mapping[str, Used]
    ) -> Iterator[LaunchFacts]:
        """Yield the resource needs of each launch on a multiprocessor."""
        plans, started = {plan.name: plan for plan in planned}, {launch.name for launch in program.launches}
        for launch in program.launches:
            waits = {"barrier_cluster": 0, "barrier_local": 0, "barrier_warp": 0, "kernel_launch": 0}
            plan = plans.get(launch.name)  # none of the launch that clears what blocks pass on to each other
            for kind, count in () if plan is None else sync_counts(self.placement, plan):
                waits[kind] += self.number(count)
            facts = self.launch(launch, used.get(launch.name), waits, plan)
            yield facts
            behind = next((one for first, one in pairwise(planned) if first is plan and one.turns.joins), None)
            if behind is not None and behind.name not in started:
                yield self.joined(facts, launch, behind)
        if any(launch.around for launch in program.launches):
            steps = Steps(program.launches, self.sizes)
            total = f"{'up to ' * steps.has_reads}{steps.count}"
            how, why = chosen(None, steps.count, reads=steps.has_reads)
            start = "a CUDA graph starts them" if how == "graph" else "the host starts them one after the other"
            self.notes.append(f"a call has {total} launches; unless pl.compile is told otherwise, {start}: {why}")

    def joined(self, front: LaunchFacts, launch: DeviceLaunch, behind: Launch) -> LaunchFacts:
        """Return the facts of a launch whose blocks are executed by the last ones of *launch* to arrive."""
        assert behind.turns.joins is not None, "a host starts no such launch"
        counted = BLOCK_AXES.index(hardware_axes(behind.grid_axes)[behind.turns.joins])
        extents = [evaluate(extent, self.sizes) for extent in launch.grid]
        waits = {"barrier_cluster": 0, "barrier_local": 0, "barrier_warp": 0, "kernel_launch": 0}
        for kind, count in sync_counts(self.placement, behind):
            waits[kind] += self.number(count)
        group = extents[counted]
        by = f"the last of {group} blocks of {launch.name} to arrive" if group > 1 else f"a block of {launch.name}"
        return replace(
            front, name=behind.name, blocks=prod(extents) // max(1, group), joins=by, barriers=waits["barrier_local"],
            warp_barriers=waits["barrier_warp"], cluster_barriers=0, roles=(),
        )  # fmt: skip

    def launch(
        self, launch: DeviceLaunch, used: Used | None, waits: Mapping[str, int], plan: Launch | None
    ) -> LaunchFacts:
        threads = prod(launch.block)
        registers = None if used is None else used.registers
        shared = launch.shared_bytes
        blocks = self.blocks(launch)
        held = occupancy(self.model.architecture, threads, registers, shared)
        assert held is not None, f"the limits of {self.model.name} are known"
        limits = block_limits(self.model.multiprocessor, threads, registers, shared)
        limited_by = " and ".join(name for name, limit in limits.items() if limit == held.blocks)
        turns = max(1, evaluate(launch.turns, self.sizes))
        return LaunchFacts(
            launch.name, blocks, threads, shared, registers, 0 if used is None else used.local_bytes,
            held.blocks, held.fraction, limited_by, turns*waits["barrier_local"], turns*waits["barrier_warp"], turns,
            1 if plan is None else plan.cluster, turns*waits["barrier_cluster"],
            () if plan is None or plan.turns.crew is None else tuple(plan.turns.crew.lines()),
        )  # fmt: skip

    def blocks(self, launch: DeviceLaunch) -> int:
        """Return the blocks of a launch; in loops of the host, the most of all iterations, with a note on them."""
        grids: list[int] = []
        count = Steps((launch,), self.sizes).check(lambda step: grids.append(prod(step.grid)))
        if launch.around:
            loops = ", ".join(f"'{loop.iname}'" for loop in launch.around)
            between = f"{min(grids, default=0)} to " if len({*grids}) > 1 else ""
            self.notes.append(
                f"the host launches '{launch.name}' {count} times, for each value of {loops}, "
                f"on {between}{max(grids, default=0)} blocks"
            )
        return max(grids, default=0)

    # }}}


def _inames(kernel: LoopKernel, entry: Traffic, address: Address) -> tuple[str, str, str]:
    """Return three inames: along the lanes of a warp, along adjacent elements, and an unused one.

    The last is on another thread axis.  Each is empty where there is none.
    """
    lowered = entry.placed.lowered
    axes = {x: axis for x in lowered.inames if (axis := _thread_axis(kernel.tag(x))) is not None}
    along = next((x for x, axis in axes.items() if axis == THREAD_AXES[0]), "")
    used = frozenset[str]().union(*(form.names() for form in entry.access.indices if form is not None))
    idle = next((x for x, axis in axes.items() if axis in THREAD_AXES[1:] and x not in used), "")
    for iname in lowered.inames:
        steps = [
            step.scale(form.coefficient(iname))
            for form, (_, step) in zip(entry.access.indices, address.parts, strict=True)
            if form is not None and form.coefficient(iname)
        ]
        if len(steps) == 1 and steps[0].value in (1, -1):
            return along, iname, idle
    return along, "", idle


def _thread_axis(tag: InameTag) -> str | None:
    """Return the axis of a tag; digits of the thread number count as ``l.0`` if they run along it, else as ``l.1``."""
    if isinstance(tag, ThreadDigit):
        return THREAD_AXES[0] if tag.stride == 1 else THREAD_AXES[1]
    return axis_name(tag)
