"""``pl.distribute``: a kernel divided over a mesh of devices, and its program for a rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from polyloop.display import Shown
from polyloop.distributed.analysis import Analysis, analysed
from polyloop.distributed.engines.engine import Engine
from polyloop.distributed.plan import Plan
from polyloop.distributed.planning import other_mesh, planned
from polyloop.distributed.ranks import RankProgram
from polyloop.distributed.scaling import MeshExplanation, explained
from polyloop.distributed.shown import described
from polyloop.distributed.traffic import Link, Traffic, traffic_of
from polyloop.edge.checks import EXPLAINED
from polyloop.errors import ArgumentError, Diagnostic, KernelError, unknown_name
from polyloop.frozen import replace
from polyloop.kernel.devices import Device
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.compile import compile_kernel
from polyloop.target.base import Target

__all__ = ["DistributedKernel", "distribute"]


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
    mesh: tuple[int, ...] | None = None
    overlap: bool = True
    changed: Mapping[str, LoopKernel] = field(default_factory=dict)

    @property
    def kernels(self) -> Mapping[str, LoopKernel]:
        """The kernels of the phases, by name, in the order in which they run."""
        return {local.kernel.name: self.changed.get(local.kernel.name, local.kernel) for local in self.analysis.locals}

    def __repr__(self) -> str:
        mesh = "a mesh" if self.mesh is None else f"a mesh of {' x '.join(map(str, self.mesh))}"
        return f"<DistributedKernel '{self.analysis.source.name}' over {mesh}: {', '.join(self.kernels)}>"

    def __str__(self) -> str:
        return "\n".join([f"kernel {self.analysis.source.name}, divided", *described(self.analysis)])

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
            ``mesh-mismatch``, ``missing-size``, ``unknown-argument``, ``wrong-type``, ``assumption-violated``.
        VerificationError
            ``incomplete-exchange``: a rank would read an element that did not come, with the instance.
        """
        known = self.analysis.homes.kernel.parameters
        if unknown := [name for name in sizes if name not in known]:
            raise ArgumentError("plan", self.analysis.source.name, [unknown_name("argument", unknown[0], known)])
        chosen = self.mesh if mesh is None else tuple(mesh)
        return planned(self.analysis, chosen or (), sizes, overlap=self.overlap)

    def explain(
        self, mesh: Sequence[int] | None = None, link: Link | None = None, device: str | None = None, /, **sizes: int
    ) -> Traffic:
        """Return the traffic of one call: exact bytes for each link and exchange, and a time model.

        ::

            print(divided.explain((2, 2), n=1000, steps=10))

        Parameters
        ----------
        mesh, **sizes
            As for :meth:`plan`.
        link
            Latency and bandwidth of the model.
        device
            A GPU as :func:`polyloop.explain` has them: the bounds of the kernels on it are the time of computation.

        Raises
        ------
        ArgumentError, VerificationError
            As :meth:`plan`, and with a device as :func:`polyloop.explain`.
        """
        kernels = {} if device is None else self.kernels
        return traffic_of(self.plan(mesh, **sizes), link or Link(), device or "", self.analysis.names, kernels)

    def explained(
        self, sizes: Mapping[str, int] | None, device: Device, mesh: Sequence[int] | None, link: Link | None
    ) -> MeshExplanation:
        """Return the explanation that :func:`polyloop.explain` gives of a divided kernel.

        Raises
        ------
        ArgumentError, VerificationError
            As :meth:`explain`.
        """
        chosen = self.mesh if mesh is None else tuple(mesh)
        return explained(self.analysis, self.kernels, chosen or (), dict(sizes or {}), (device, link or Link()),
                         overlap=self.overlap)

    def compile(self, engine: Engine, target: Target | None = None, *, once: bool = False) -> RankProgram:
        """Compile the kernels for a rank.

        Parameters
        ----------
        engine
            Of this rank: :class:`polyloop.TorchEngine`, :class:`polyloop.MpiEngine`, or what
            :func:`polyloop.run_ranks` passes.
        target
            As for :func:`polyloop.compile`.
        once
            Whether inspectors run in the first call with some sizes alone: what arrays select stays as it is then, on
            all ranks.

        Raises
        ------
        ArgumentError
            ``mesh-mismatch``: the mesh has another number of ranks than the engine; ``wrong-argument-type``.
        """
        if not isinstance(engine, Engine):
            found = Diagnostic("wrong-argument-type", f"argument 'engine' cannot be {engine!r}", (),
                               ("pass that of this rank: pl.TorchEngine(), pl.MpiEngine(), or what run_ranks passes",))
            raise ArgumentError("compile", self.analysis.source.name, [found])
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
        return RankProgram(self.analysis, mesh, self.overlap, engine, compiled, once=once)


def distribute(
    kernel: LoopKernel, arrays: Annotated[Mapping[str, str], EXPLAINED], over: str,
    mesh: Sequence[int] | None = None, *, hosts: str | Sequence[str] = (), overlap: bool = True,
    deep: Mapping[str, int] | None = None, packed: str | Sequence[str] = (), unpacked: str | Sequence[str] = (),
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
    deep
        Loop of the host -> number of its iterations between two exchanges: ``{"t": 4}``.  Halos are as much wider, and
        ranks compute redundantly what they need of their neighbours in between.
    overlap
        Whether a phase computes its inner part while the elements for the strips around it are on their way.
    packed
        Arrays in blocks of which the kernels that write them fill the send buffers: a message to a neighbour is not
        packed afterwards where it is proven that such a kernel writes all of it in front of the exchange.
    unpacked
        Arrays in blocks of which the kernels that read their halos put what has come from a neighbour into its place:
        a loop of the kernel, in front of the reads, which is transformed and scheduled as the others.

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
    names = frozenset(_names(hosts))
    if unknown := sorted(names.difference(kernel.inames)):
        raise KernelError("distribute", kernel.name, [unknown_name("iname", unknown[0], kernel.inames)])
    found = analysed(kernel, arrays, over, names, deep or {}, _names(packed), _names(unpacked))
    if mesh is not None and (len(mesh) != found.division.rank or any(count < 1 for count in mesh)):
        raise KernelError("distribute", kernel.name, [other_mesh(mesh, found.division.rank)])
    return DistributedKernel(found, None if mesh is None else tuple(mesh), overlap)


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    names = given.split(",") if isinstance(given, str) else given
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
