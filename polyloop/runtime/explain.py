"""``pl.explain``: performance bounds of a kernel on a device, found without running it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Annotated, Any, Final, Protocol, TypeAlias, TypeVar, overload

from polyloop.codegen.program import DeviceLaunch, GeneratedProgram
from polyloop.cost.bank_conflicts import WARP, BankConflicts, bank_conflicts
from polyloop.cost.coalescing import merged_width, repeating_loops, sectors, vector_width
from polyloop.cost.instance_counts import Census
from polyloop.cost.occupancy import block_limits, occupancy
from polyloop.cost.operations import Operation, operations
from polyloop.cost.traffic import Address, Traffic, address_of, footprints, polynomial_of, traffic
from polyloop.edge.checks import EXPLAINED
from polyloop.errors import ArgumentError, Diagnostic, VerificationError
from polyloop.expr.dtypes import dtype_name, is_complex, is_inexact
from polyloop.expr.printer import show
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.devices import Device, Figure, find_device
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Box, InameTag, ThreadDigit, axis_name
from polyloop.kernel.tree import runs
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import to_expression
from polyloop.poly.axes import THREAD_AXES, loops_among
from polyloop.poly.polynomial import PiecewisePolynomial
from polyloop.program.ir import Update
from polyloop.proof.obligation import within_budget
from polyloop.runtime.advice import advice
from polyloop.runtime.cuda.graphs import chosen
from polyloop.runtime.evaluate import evaluate
from polyloop.runtime.explanation import AccessFacts, Bound, Explanation, LaunchFacts
from polyloop.runtime.hip.code_object import HipResources, compile_hip
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.runtime.resources import Resources, resources
from polyloop.runtime.steps import Steps
from polyloop.schedule.build import build_verified
from polyloop.schedule.counts import census_of, combinations, footprint_size, sync_counts
from polyloop.schedule.plan import Launch
from polyloop.target.base import Target
from polyloop.target.cuda import CudaTarget, own_architecture
from polyloop.target.hip import HipTarget
from polyloop.target.source import generate_code

__all__ = ["explain", "least_seconds"]

_Used: TypeAlias = "Resources | HipResources"
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
    kernel: LoopKernel, sizes: Mapping[str, int] | None = None, device: str | Device = "H200", *,
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
    device: str | Device = "H200",
    *,
    compile: bool = False,  # noqa: A002 - what the function of that name does
    mesh: Sequence[int] | None = None,
    link: Annotated[Any, EXPLAINED] = None,
) -> Any:
    """Return the performance bounds of *kernel* on a GPU: the least time of each resource, and causes of waste.

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
        :class:`polyloop.kernel.devices.Device`.  The kernel is that for CUDA, or for HIP.
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
        ``bad-sizes``, ``assumption-violated``, ``unknown-device``.
    VerificationError, CodegenError
        The errors of :func:`polyloop.generate_code`.
    CompilerError
        With *compile*: ``no-nvrtc``, ``nvrtc-failed``, ``no-hip-compiler``, ``hip-failed``.

    Notes
    -----
    The bound is the roofline (Williams, Waterman, Patterson, Comm. ACM 52(4), 2009) with one roof more, that of the
    memory on a multiprocessor.
    """
    if not isinstance(kernel, LoopKernel) and callable(getattr(kernel, "explained", None)):
        return kernel.explained(sizes, find_device(device), mesh, link)
    if mesh is not None or link is not None:
        raise ArgumentError("explain", kernel.name, [Diagnostic(
            "not-divided", "a kernel that is not divided runs on one device", (),
            ('divide it first: pl.explain(pl.distribute(knl, {"u": "block"}, "i:mesh.0"), mesh=(4,))',))])
    model = find_device(device)
    target = _target_of(model)
    program = generate_code(kernel, target)
    census = census_of(kernel, redundant=True, limits=target.limits)
    known = _checked(census, program, dict(sizes or {}))
    schedule = build_verified(kernel, target.limits).schedule
    homes = _homes(schedule.launches, census.placement)
    found = _Facts(census, known, model, homes)
    accesses = tuple(found.accesses())
    used = {} if not compile else _used(program, target)
    launches = tuple(found.launches(schedule.launches, program, used))
    kinds, flops = found.operations()
    moved = found.footprints()
    bounds = [*_bounds(model, launches, flops, sum(moved.values()), accesses)]
    totals: dict[str, int] = {}
    for (_, unit), count in flops.items():
        dtype = unit.removeprefix("tensor ").replace("tf32", "float32")
        totals[dtype] = totals.get(dtype, 0) + count
    result = Explanation(
        kernel.name, model.name, known, kinds, {name: n for name, n in totals.items() if name in _FLOATS}, moved,
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
    known = _checked(census, generate_code(kernel, target), dict(sizes))
    found = _Facts(census, known, model, _homes(schedule.launches, census.placement))
    work: dict[tuple[str, str], int] = {}
    for (_, unit), count in found.operations()[1].items():
        work["", unit] = work.get(("", unit), 0) + count
    whole = LaunchFacts("", model.multiprocessors, 0, 0, None, 0, 0, 0.0, "", 0, 0, 1)
    return max(bound.seconds for bound in _bounds(model, (whole,), work, sum(found.footprints().values()), ()))


def _target_of(model: Device) -> Target:
    own = model.architecture
    return HipTarget(own) if isinstance(own, str) else CudaTarget(own_architecture(own))


def _used(program: GeneratedProgram, target: Target) -> Mapping[str, _Used]:
    """Return the resource usage of each kernel."""
    if target.name == "hip":
        return compile_hip(program, target).resources
    return resources(compile_cuda(program.device_code, target.arch).cubin)


def _homes(launches: Iterable[Launch], placement: Placement) -> dict[str, str]:
    """Return statement -> launch; a statement that the schedule merged runs in the launch of its instruction."""
    statements = placement.statements
    homes = {name: launch.name for launch in launches for name in runs(launch.tree)}
    known = {statements[name].lowered.instruction.id: home for name, home in homes.items() if name in statements}
    return {name: homes.get(name) or known[s.lowered.instruction.id] for name, s in statements.items()}


_ROW_BYTES: Final = 128
"""Bytes that shared memory takes in one turn, and a copy engine delivers at once."""
_SECTOR_BYTES: Final = 32
_FLOATS: Final = ("float64", "float32", "float16", "bfloat16")


def _checked(census: Census, program: GeneratedProgram, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes as integers, checked to be complete and to satisfy the launch conditions."""
    kernel = census.kernel
    bounds = dict.fromkeys(name for s in census.placement.statements.values() for name in s.lowered.bounds)
    wanted = (*kernel.parameters, *(name for name in bounds if name not in kernel.parameters))
    missing = [name for name in wanted if name not in sizes]
    if missing:
        example = ", ".join(f'"{name}": {sizes.get(name, 1024)}' for name in wanted)
        notes = [f"'{name}' is computed by the kernel: give a typical value" for name in missing if name in bounds]
        message = f"no size for {', '.join(repr(name) for name in missing)}"
        problem = Diagnostic("bad-sizes", message, tuple(notes), (f"pass sizes={{{example}}}",))
        raise ArgumentError("explain", kernel.name, [problem])
    for name in sizes:
        if name not in wanted:
            hints = (f"the kernel has {', '.join(wanted)}" if wanted else "the kernel has no sizes",)
            problem = Diagnostic("bad-sizes", f"the kernel has no size '{name}'", hints=hints)
            raise ArgumentError("explain", kernel.name, [problem])
    for check in program.checks:
        if not evaluate(check.condition, sizes):
            raise ArgumentError("explain", kernel.name, [Diagnostic(check.code, check.message, hints=(check.hint,))])
    return {name: int(value) for name, value in sizes.items()}


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


_MUCH: Final = 0.1
_DONE = {"read": "read", "write": "written"}


class _Facts:
    """The facts of one kernel for given sizes."""

    def __init__(
        self, census: Census, sizes: Mapping[str, int], model: Device, homes: Mapping[str, str]
    ) -> None:
        self.homes = homes
        self.census = census
        self.placement = census.placement
        self.kernel = census.kernel
        self.sizes = sizes
        self.model = model
        self.notes: list[str] = []
        self.is_estimate = False

    def number(self, count: PiecewisePolynomial) -> int:
        return count.eval_with_dict(self.sizes)

    # {{{ operations

    def operations(self) -> tuple[dict[str, dict[str, int]], dict[tuple[str, str], int]]:
        """Return operation counts by type and kind, and work by launch and functional unit."""
        kinds: dict[str, dict[str, int]] = {}
        work: dict[tuple[str, str], int] = {}
        for placed in self.placement.statements.values():
            if placed.lowered.instruction.is_c:
                self.notes.append(f"the operations of C text are not counted: '{placed.lowered.instruction.id}'")
            for entry in operations(self.kernel, placed.lowered, within_subscripts=False):
                count = self.number(self.census.count(placed, self.census.under(placed, entry.guards)))
                count *= entry.times * combinations(self.census, placed)
                name = dtype_name(entry.dtype)
                kinds.setdefault(name, {})
                kinds[name][entry.name] = kinds[name].get(entry.name, 0) + count
                for unit in self.units(placed, entry):
                    key = (self.homes[placed.name], unit)
                    work[key] = work.get(key, 0) + _weight(entry) * count
            if placed.lowered.predicates:
                self.notes.append(f"'{placed.lowered.instruction.id}' is counted as if its condition always held")
            self.unused(placed)
        return kinds, work

    def units(self, placed: Placed, entry: Operation) -> tuple[str, ...]:
        """Return the functional units of a statement's operations: tensor cores for matrix instructions."""
        matrix = placed.lowered.instruction.matrix
        if matrix is None or not isinstance(placed.lowered.part, Update):
            return _units(entry)
        name = dtype_name(matrix.intrinsic.operands)
        is_sum = is_inexact(entry.dtype) or entry.dtype == matrix.intrinsic.results
        name = "tf32" if name == "float32" and not matrix.intrinsic.devices else name
        return (f"tensor {name}",) if is_sum else ()

    def unused(self, placed: Placed) -> None:
        """Add a note if most of the values that a statement computes or fetches are unused."""
        parts = {use: self.number(count) for use, count in self.census.by_use(placed, self.census.executed(placed))}
        wasted, useful = parts.get(True, 0), parts.get(False, 0)
        if wasted > _MUCH * useful:
            what = f"what '{placed.lowered.instruction.id}' computes or fetches is"
            part = wasted / (wasted + useful)
            self.notes.append(f"{part:.0%} of {what} not used" if useful else f"nothing of {what} used")

    # }}}
    # {{{ memory

    def footprints(self) -> dict[str, int]:
        """Return the bytes of each array that are read and written."""
        found: dict[str, int] = {}
        with within_budget(self.kernel, "which elements of arrays are touched"):
            touched = footprints(self.placement)
        for (name, direction), entry in touched.items():
            dtype = self.kernel.arrays()[name].dtype
            assert dtype is not None, f"{name} has no type"
            if not entry.is_exact:
                estimate = self.estimate(name, direction)
                what = f"data decides which elements of '{name}' are {_DONE[direction]}"
                if estimate is None:
                    self.notes.append(f"{what}: they are not among what has to be moved")
                    continue
                self.notes.append(f"{what}: {estimate} are supposed, another one for each access")
                found[f"{name} {direction}"] = estimate * dtype.itemsize
                self.is_estimate = True
                continue
            try:
                count = self.number(footprint_size(self.kernel, name, entry.elements))
            except VerificationError as error:
                self.notes.append(error.found[0].message)
                continue
            found[f"{name} {direction}"] = count * dtype.itemsize
        return found

    def estimate(self, name: str, direction: str) -> int | None:
        """Return an upper bound on the elements accessed: the number of accesses, at most all; None if unknown."""
        shape = self.kernel.arrays()[name].shape
        forms = [None if extent is None else polynomial_of(extent) for extent in shape or ()]
        if shape is None or any(form is None or not form.names() <= self.sizes.keys() for form in forms):
            return None
        total = prod(int(form.evaluate(self.sizes)) for form in forms if form is not None)
        wanted = {"read": {"load", "atomic"}, "write": {"store", "atomic"}}[direction]
        accesses = 0
        for entry in traffic(self.placement):
            if entry.access.array == name and entry.direction in wanted:
                domain = self.census.of_access(entry.placed, entry.access)
                accesses += self.number(self.census.count(entry.placed, domain))
        return min(total, accesses)

    def accesses(self) -> Iterator[AccessFacts]:
        """Yield the accesses of each statement to global and shared memory, equal accesses of one statement once."""
        conflicts = {
            (entry.instruction, entry.access, entry.is_write): entry for entry in bank_conflicts(self.kernel)
        }
        seen = set()
        for entry in traffic(self.placement):
            key = (entry.placed.name, entry.access.array, entry.access.indices, entry.direction)
            if key in seen and entry.access.is_affine():
                continue
            seen.add(key)
            lowered = entry.placed.lowered
            if lowered.instruction.matrix is not None and isinstance(lowered.part, Update):
                self.notes.append(f"what '{lowered.instruction.id}' loads for matrix instructions is not counted")
                continue
            if any(isinstance(self.kernel.tag(x), Box) for x in entry.placed.dims):
                yield self.of_box(entry)
            elif entry.space is AddressSpace.GLOBAL:
                yield self.in_global(entry)
            else:
                own = (entry.placed.lowered.instruction.id, _text(entry), entry.direction != "load")
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
            self.homes[entry.placed.name], entry.placed.lowered.instruction.id, _text(entry),
            entry.access.array, str(entry.space), entry.direction, -(-count // width),
        )  # fmt: skip

    # }}}
    # {{{ launches

    def launches(
        self, planned: Sequence[Launch], program: GeneratedProgram, used: Mapping[str, _Used]
    ) -> Iterator[LaunchFacts]:
        """Yield the resource needs of each launch on a multiprocessor."""
        plans = {plan.name: plan for plan in planned}
        for launch in program.launches:
            waits = {"barrier_cluster": 0, "barrier_local": 0, "barrier_warp": 0, "kernel_launch": 0}
            plan = plans.get(launch.name)  # none of the launch that clears what blocks pass on to each other
            for kind, count in () if plan is None else sync_counts(self.placement, plan):
                waits[kind] += self.number(count)
            yield self.launch(launch, used.get(launch.name), waits, plan)
        if any(launch.around for launch in program.launches):
            steps = Steps(program.launches, self.sizes)
            total = f"{'up to ' * steps.has_reads}{steps.count}"
            how, why = chosen(None, steps.count, reads=steps.has_reads)
            start = "a CUDA graph starts them" if how == "graph" else "the host starts them one after the other"
            self.notes.append(f"a call has {total} launches; unless pl.compile is told otherwise, {start}: {why}")

    def launch(
        self, launch: DeviceLaunch, used: _Used | None, waits: Mapping[str, int], plan: Launch | None
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


def _units(entry: Operation) -> tuple[str, ...]:
    """Return the functional units that an operation uses: that of its type, and special functions."""
    name = dtype_name(entry.dtype)
    if is_inexact(entry.dtype):
        real = {"complex64": "float32", "complex128": "float64"}.get(name, name)
        is_special = entry.name in _SPECIAL and real != "float64"
        return (real, "special functions") if is_special else (real,)
    return ("int32",) if name in ("int32", "uint32") else ()


_SPECIAL: Final = frozenset({"func:exp", "func:exp2", "func:exp10", "func:sqrt", "func:rsqrt", "func:tanh"})
"""Functions of float32 that take one operation of the special function units at least."""


def _weight(entry: Operation) -> int:
    """Return the floating-point operations that one operation is, at least."""
    if entry.name == "pow":
        return max(1, (abs(entry.power) - 1).bit_length()) if entry.power is not None else 1
    if entry.name == "func:fma":
        return 2
    if is_complex(entry.dtype):
        return {"mul": 6, "div": 6}.get(entry.name, 2)
    return 1


def _text(entry: Traffic) -> str:
    access = entry.access
    subscripts = ", ".join("?" if form is None else show(to_expression(form)) for form in access.indices)
    return f"{access.array}[{subscripts}]" if access.indices else access.array


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
