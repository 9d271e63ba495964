"""``pl.distribute``: a kernel divided over a mesh of devices, and its program for a rank."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from polyloop.display import Shown
from polyloop.distributed.analysis import Analysis, analysed
from polyloop.distributed.completeness import prove
from polyloop.distributed.division import refuse
from polyloop.distributed.engine import Engine
from polyloop.distributed.execute import Execution, empty_like
from polyloop.distributed.fields import Storage
from polyloop.distributed.phases import Phase
from polyloop.distributed.plan import Plan, plan_of
from polyloop.distributed.regions import Box, Coordinates, Regions
from polyloop.distributed.traffic import Link, Traffic, traffic_of
from polyloop.edge.checks import EXPLAINED
from polyloop.errors import ArgumentError, Diagnostic, unknown_name
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg, ValueArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.compile import compile_kernel
from polyloop.target.base import Target

__all__ = ["DistributedKernel", "RankProgram", "distribute"]


@dataclass(frozen=True, eq=False)
class DistributedKernel(Shown):
    """A kernel divided over a mesh; made by :func:`polyloop.distribute`, and never changed.

    Attributes
    ----------
    analysis
        Phases, homes and kernels.
    mesh
        Number of ranks along each axis of the mesh; None where the engine's size says it.
    """

    analysis: Analysis
    mesh: Coordinates | None = None
    overlap: bool = True
    changed: Mapping[str, LoopKernel] = field(default_factory=dict)

    @property
    def kernels(self) -> Mapping[str, LoopKernel]:
        """The kernels of the phases, by name, in the order in which they run."""
        return {local.kernel.name: self.changed.get(local.kernel.name, local.kernel) for local in self.analysis.locals}

    def __str__(self) -> str:
        return "\n".join([f"kernel {self.analysis.source.name}, divided", *_lines(self)])

    def transformed(self, name: str, function: Callable[[LoopKernel], LoopKernel]) -> DistributedKernel:
        """Return this with the kernel of a phase transformed.

        ::

            divided = divided.transformed("heat_0", lambda knl: pl.tag_inames(knl, "i:g.0, j:l.0"))

        Parameters
        ----------
        name
            Of the kernel, one of ``kernels``.
        function
            Transforms of the kernel, as of any other.

        Raises
        ------
        ArgumentError
            ``unknown-kernel``; ``wrong-kernel``: what *function* returns computes another program.
        """
        kernels = self.kernels
        if name not in kernels:
            raise ArgumentError("transformed", self.analysis.source.name, [unknown_name("kernel", name, kernels)])
        new = function(kernels[name])
        if new.reference is not kernels[name].reference:
            found = Diagnostic("wrong-kernel", f"'{name}' became a kernel of another program", (),
                               ("return the kernel that was passed, with transforms that keep its meaning",))
            raise ArgumentError("transformed", self.analysis.source.name, [found])
        return replace(self, changed={**self.changed, name: new})

    def plan(self, mesh: Sequence[int] | None = None, /, **sizes: int) -> Plan:
        """Return the plan for sizes, proven complete.

        Parameters
        ----------
        mesh
            Number of ranks along each axis of the mesh; by default as :func:`polyloop.distribute` was told.
        **sizes
            Values of all integer parameters of the kernel.

        Raises
        ------
        ArgumentError
            ``mesh-mismatch``, ``missing-size``.
        VerificationError
            ``incomplete-exchange``: a rank would read an element that did not come, with the instance.
        """
        chosen = self.mesh if mesh is None else tuple(mesh)
        return planned(self, chosen or (), sizes)

    def explain(self, mesh: Sequence[int] | None = None, link: Link | None = None, /, **sizes: int) -> Traffic:
        """Return what ranks send in one call: exact bytes for each link and exchange, and a time model.

        ::

            print(divided.explain((2, 2), n=1000, steps=10))

        Parameters
        ----------
        mesh, **sizes
            As for :meth:`plan`.
        link
            Latency and bandwidth of the model.

        Raises
        ------
        ArgumentError, VerificationError
            As :meth:`plan`.
        """
        return traffic_of(self.plan(mesh, **sizes), link or Link())

    def compile(self, engine: Engine, target: Target | None = None) -> RankProgram:
        """Compile the kernels for a rank.

        Parameters
        ----------
        engine
            Of this rank: :class:`polyloop.TorchEngine`, :class:`polyloop.MpiEngine`, or what
            :func:`polyloop.run_ranks` passes.
        target
            As for :func:`polyloop.compile`.

        Raises
        ------
        ArgumentError
            ``mesh-mismatch``: the mesh has another number of ranks than the engine.
        """
        mesh = self.mesh
        if mesh is None and self.analysis.division.rank == 1:
            mesh = (engine.size,)
        if mesh is None or int(np.prod(mesh)) != engine.size:
            shown = "no shape" if mesh is None else "x".join(map(str, mesh))
            found = Diagnostic(
                "mesh-mismatch", f"the mesh has {shown}, and the engine {engine.size} ranks", (),
                (f"mesh=({', '.join(['..'] * self.analysis.division.rank)}) with that many ranks in all",))
            raise ArgumentError("compile", self.analysis.source.name, [found])
        compiled = {local.phase.number: compile_kernel(self.kernels[local.kernel.name], target)
                    for local in self.analysis.locals}
        return RankProgram(replace(self, mesh=mesh), engine, compiled)


def _other_mesh(mesh: Sequence[int], rank: int) -> Diagnostic:
    shown = f"a mesh {'x'.join(map(str, mesh))}" if mesh else "no mesh"
    return Diagnostic("mesh-mismatch", f"{shown} was given, and the kernel is divided over {rank} of its axes", (),
                      (f"give the number of ranks along each axis: mesh=({', '.join(['2'] * rank)},)",))


def planned(divided: DistributedKernel, mesh: Coordinates, sizes: Mapping[str, int]) -> Plan:
    """Return the plan for a mesh and sizes, proven complete."""
    analysis = divided.analysis
    kernel = analysis.source
    if len(mesh) != analysis.division.rank or any(count < 1 for count in mesh):
        raise ArgumentError("plan", kernel.name, [_other_mesh(mesh, analysis.division.rank)])
    missing = [name for name in analysis.homes.kernel.parameters if name not in sizes]
    if missing:
        found = Diagnostic("missing-size", f"no value for '{missing[0]}'", (f"sizes: {', '.join(missing)}",),
                           ("parts of arrays do not tell the sizes of the whole: give them by name",))
        raise ArgumentError("plan", kernel.name, [found])
    own = {name: int(sizes[name]) for name in analysis.homes.kernel.parameters}
    regions = Regions(analysis.homes, mesh, own, analysis.halos)
    plan = plan_of(regions, analysis.locals, analysis.steps, overlap=divided.overlap)
    prove(plan)
    return plan


@dataclass(eq=False)
class RankProgram:
    """The program of one rank: called with the rank's parts of arrays, on all ranks alike.

    Attributes
    ----------
    sent
        Number of bytes that this rank has sent in messages.
    """

    divided: DistributedKernel
    engine: Engine
    compiled: Mapping[int, Any]
    sent: int = 0
    plans: dict[tuple[tuple[str, int], ...], Plan] = field(default_factory=dict)
    memory: dict[tuple[tuple[str, int], ...], tuple[dict[Any, Any], dict[Any, Any], dict[str, Any]]] = field(
        default_factory=dict)

    @cached_property
    def position(self) -> Coordinates:
        """Position of the rank in the mesh."""
        return tuple(int(place) for place in np.unravel_index(self.engine.rank, self.divided.mesh or (1,)))

    def plan(self, **sizes: int) -> Plan:
        """Return the plan for sizes, agreed upon by all ranks: each has to ask for it.

        Raises
        ------
        ArgumentError
            ``ranks-disagree``: another kernel, mesh or size on some rank; ``missing-size``.
        CommunicationError
            ``rank-lost``.
        """
        own = {name: int(sizes[name]) for name in self.divided.analysis.homes.kernel.parameters if name in sizes}
        key = tuple(own.items())
        if key not in self.plans:
            self._agree(own)
            self.plans[key] = planned(self.divided, self.divided.mesh or (), own)
        return self.plans[key]

    def _agree(self, sizes: Mapping[str, int]) -> None:
        """Compare this rank's program and sizes with those of all others."""
        analysis = self.divided.analysis
        text = "\n".join([str(analysis.homes.kernel), str(analysis.division)])
        mine = {"kernel": hashlib.sha256(text.encode()).hexdigest()[:16], "mesh": list(self.divided.mesh or ()),
                "sizes": dict(sizes)}
        texts = self.engine.all_gather(json.dumps(mine, sort_keys=True))
        for rank, other in enumerate(json.loads(text) for text in texts):
            for word, value in mine.items():
                if other[word] != value:
                    found = Diagnostic(
                        "ranks-disagree", f"rank {self.engine.rank} and rank {rank} have another {word.rstrip('s')}",
                        (f"rank {self.engine.rank}: {value}", f"rank {rank}: {other[word]}"),
                        ("call the same kernel with the same sizes on all ranks",))
                    raise ArgumentError("distribute", analysis.source.name, [found])

    # -- parts of arrays

    def box(self, array: str, /, **sizes: int) -> Box:
        """Return the indices of the elements of an array that this rank owns, first and behind the last of each axis.

        Raises
        ------
        ArgumentError
            ``unknown-array``, and as :meth:`plan`.
        """
        self._known(array)
        return self.plan(**sizes).regions.owned(self.position, array)

    def stored(self, array: str, /, **sizes: int) -> Box:
        """Return the indices of the elements that this rank stores: with the halo, which may reach over the edge.

        Raises
        ------
        ArgumentError
            As :meth:`box`.
        """
        self._known(array)
        return self.plan(**sizes).regions.stored(self.position, array)

    def empty(self, array: str, /, like: Any = None, **sizes: int) -> Any:  # noqa: ANN401 - an array
        """Return an array for this rank's part of *array*, with its halo, of the library and device of *like*.

        Raises
        ------
        ArgumentError
            As :meth:`box`.
        """
        box = self.stored(array, **sizes)
        dtype = self.divided.analysis.homes.kernel.arrays()[array].dtype
        found = empty_like(like, tuple(high - low for low, high in box), dtype or np.dtype(float))
        found[...] = 0
        return found

    def scatter(self, array: str, whole: Any, /, **sizes: int) -> Any:  # noqa: ANN401 - an array
        """Return this rank's part of *whole*, which each rank has: owned elements, and zeros in the halo.

        Raises
        ------
        ArgumentError
            As :meth:`box`.
        """
        part = self.empty(array, like=whole, **sizes)
        box = self.box(array, **sizes)
        self.owned(array, part, **sizes)[...] = whole[tuple(slice(low, high) for low, high in box)]
        return part

    def owned(self, array: str, part: Any, /, **sizes: int) -> Any:  # noqa: ANN401 - an array
        """Return the view of what this rank owns in its part of an array, without the halo.

        Raises
        ------
        ArgumentError
            As :meth:`box`.
        """
        own, stored = self.box(array, **sizes), self.stored(array, **sizes)
        pairs = zip(own, stored, strict=True)
        return part[tuple(slice(low - first, high - first) for (low, high), (first, _) in pairs)]

    def gather(self, array: str, part: Any, /, **sizes: int) -> Any:  # noqa: ANN401 - an array
        """Return the whole array on all ranks, from the part of each.

        Raises
        ------
        ArgumentError
            As :meth:`box`.
        CommunicationError
            ``rank-lost``.
        """
        regions = self.plan(**sizes).regions
        if not any(axis is not None for axis in regions.axes(array)):
            return part
        whole = empty_like(part, regions.shape(array), regions.homes.kernel.arrays()[array].dtype or np.dtype(float))
        mine = self.owned(array, part, **sizes)
        sends, receives, places = [], [], []
        for position in regions.ranks:
            number, box = regions.number(position), regions.owned(position, array)
            place = tuple(slice(low, high) for low, high in box)
            shape = tuple(high - low for low, high in box)
            if number == self.engine.rank:
                whole[place] = mine
                continue
            if mine.size if isinstance(mine, np.ndarray) else mine.numel():
                sends.append((number, np.ascontiguousarray(mine).reshape(-1) if isinstance(mine, np.ndarray)
                              else mine.contiguous().reshape(-1)))
            if np.prod(shape):
                buffer = empty_like(part, (int(np.prod(shape)),), regions.homes.kernel.arrays()[array].dtype
                                    or np.dtype(float))
                receives.append((number, buffer))
                places.append((place, buffer, shape))
        self.engine.start(sends, receives)()
        for place, buffer, shape in places:
            whole[place] = buffer.reshape(shape)
        return whole

    def _known(self, array: str) -> None:
        known = self.divided.analysis.homes.kernel.arrays()
        if array not in known:
            raise ArgumentError("distribute", self.divided.analysis.source.name, [unknown_name("array", array, known)])

    # -- calls

    def __call__(self, **arguments: Any) -> Mapping[str, Any]:  # noqa: ANN401 - arrays and numbers
        """Run the program with this rank's parts, in place; all ranks call it.

        Parameters
        ----------
        **arguments
            For an array in blocks, the rank's part with its halo, as :meth:`scatter` and :meth:`empty` make it; other
            arrays whole; all sizes and scalars.

        Returns
        -------
        Mapping[str, Any]
            The arrays that the kernel writes.

        Raises
        ------
        ArgumentError
            ``wrong-part``: an array of another shape than the rank's part; ``missing-argument``,
            ``unknown-argument``, ``ranks-disagree``, ``missing-size``.
        CommunicationError
            ``rank-lost``.
        """
        kernel = self.divided.analysis.source
        sizes = {name: value for name, value in arguments.items() if name in kernel.parameters}
        plan = self.plan(**sizes)
        arrays, scalars = self._checked(plan, arguments)
        key = tuple(plan.regions.sizes.items())
        example = next((value for value in arrays.values()), None)
        windows, known, kept = self.memory.setdefault(key, ({}, {}, {}))
        for name in self.divided.analysis.kept:
            if name not in kept:
                box = plan.regions.stored(self.position, name)
                dtype = plan.regions.homes.kernel.arrays()[name].dtype
                kept[name] = empty_like(example, tuple(high - low for low, high in box), dtype or np.dtype(float))
        work = Execution(plan, self.divided.analysis.names, self.engine, self.position, self.compiled,
                         {**arrays, **kept}, scalars, windows, known)
        work.run(plan.nodes, {})
        self.sent += work.sent
        written = {entry.name for entry in kernel.arguments if isinstance(entry, ArrayArg) and entry.is_output}
        return {name: value for name, value in arrays.items() if name in written}

    def _checked(self, plan: Plan, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and the scalars of a call."""
        kernel = self.divided.analysis.source
        declared = {entry.name: entry for entry in kernel.arguments}
        unknown = [name for name in arguments if name not in declared]
        if unknown:
            raise ArgumentError("distribute", kernel.name, [unknown_name("argument", unknown[0], declared)])
        missing = [name for name, entry in declared.items() if name not in arguments
                   and not (isinstance(entry, ValueArg) and entry.layout_of is not None)]
        if missing:
            found = Diagnostic("missing-argument", f"no value for '{missing[0]}'", (),
                               ("every rank passes its part of each array, and all scalars",))
            raise ArgumentError("distribute", kernel.name, [found])
        arrays = {name: value for name, value in arguments.items() if isinstance(declared[name], ArrayArg)}
        for name, value in arrays.items():
            box = plan.regions.stored(self.position, name)
            shape = tuple(high - low for low, high in box)
            if tuple(value.shape) != shape:
                indices = ", ".join(f"{low}:{high}" for low, high in box)
                found = Diagnostic(
                    "wrong-part", f"rank {self.engine.rank} has the part {name}[{indices}], of shape {shape}, and got "
                    f"an array of shape {tuple(value.shape)}", (f"of these it owns "
                    f"{', '.join(f'{low}:{high}' for low, high in plan.regions.owned(self.position, name))}",),
                    (f'run.scatter("{name}", whole, ..) and run.empty("{name}", ..) make such parts',))
                raise ArgumentError("distribute", kernel.name, [found])
        return arrays, {name: value for name, value in arguments.items() if name not in arrays}


def _lines(divided: DistributedKernel) -> list[str]:
    analysis = divided.analysis
    lines = []

    def visit(steps: Sequence[Any], indent: str) -> None:
        for step in steps:
            if isinstance(step, Phase):
                local = next(entry for entry in analysis.locals if entry.phase is step)
                lines.append(f"{indent}{local.kernel.name}: {', '.join(step.instructions)}")
                lines.extend(f"{indent}    {entry.name}: what it reads of '{entry.array}' elsewhere"
                             for entry in local.fields if entry.storage is Storage.WINDOW)
                for name in step.instructions:
                    if (found := analysis.homes.combined.get(name)) is not None:
                        axes = ", ".join(f"mesh.{axis}" for axis in found.axes)
                        lines.append(f"{indent}{found.operation} of '{found.array}' over {axes}")
            else:
                lines.append(f"{indent}for {step.iname}")
                visit(step.body, indent + "    ")

    visit(analysis.steps, "    ")
    for array, halo in analysis.halos.items():
        if any(low or high for low, high in halo):
            lines.append(f"    halo of '{array}': {', '.join(f'{low} below, {high} above' for low, high in halo)}")
    return lines


def distribute(
    kernel: LoopKernel, arrays: Annotated[Mapping[str, str], EXPLAINED], over: str,
    mesh: Sequence[int] | None = None, *, hosts: str | Sequence[str] = (), overlap: bool = True,
) -> DistributedKernel:  # fmt: skip
    """Divide a kernel over a mesh of devices: who owns computes, and what is read of others is sent.

    ::

        for t:                                          on each rank, over its own i:
            for i:  v[i] = u[i-1] + u[i+1]      ->          exchange one element of u with each neighbour
            for i:  u[i] = v[i]                             v[i] = u[i-1] + u[i+1]
                                                            u[i] = v[i]

    Parameters
    ----------
    kernel
        As it was created: the kernels of ranks are transformed afterwards, by :meth:`DistributedKernel.transformed`.
    arrays
        Array -> how each of its axes is divided: ``"block"``, in blocks over the next axis of the mesh; ``"block.1"``,
        over ``mesh.1``; ``"*"``, whole.  Arrays that are not named are whole on each rank.
    over
        Inames and axes of the mesh: ``"i:mesh.0, j:mesh.1"``.
    mesh
        Number of ranks along each axis, the last one with the nearest numbers; by default all ranks of the engine along
        one axis.
    hosts
        Loops that run one iteration after the other with an exchange in each, although nothing asks for it: panels of a
        product, say.
    overlap
        Whether a phase computes its inner part while the elements for the strips around it are on their way.

    Returns
    -------
    DistributedKernel
        Its ``kernels`` are ordinary ones over the parts of a rank.

    Raises
    ------
    KernelError
        ``bad-distribution``, ``unknown-iname``, ``unknown-array``; ``not-the-owner``: an instance would write what
        another rank owns; ``message-inside``: iterations of a divided loop hand on values, with two of them and their
        ranks; ``not-combinable``: a divided reduction by an operation that engines do not have.

    Notes
    -----
    Owner computes: Callahan and Kennedy, J. Supercomputing 2, 1988, https://doi.org/10.1007/BF00128175.  Values and
    messages from exact dataflow: Amarasinghe and Lam, PLDI 1993, https://doi.org/10.1145/155090.155102.
    """
    names = frozenset(name.strip() for name in (hosts.split(",") if isinstance(hosts, str) else hosts) if name.strip())
    if unknown := sorted(names.difference(kernel.inames)):
        refuse(kernel, unknown_name("iname", unknown[0], kernel.inames))
    found = analysed(kernel, arrays, over, names)
    if mesh is not None and (len(mesh) != found.division.rank or any(count < 1 for count in mesh)):
        refuse(kernel, _other_mesh(mesh, found.division.rank))
    return DistributedKernel(found, None if mesh is None else tuple(mesh), overlap)
