"""The program of one rank: its parts of arrays, and calls that all ranks make together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import islpy as isl
import numpy as np

from polyloop.display import Shown
from polyloop.distributed.analysis import Analysis
from polyloop.distributed.dtensors import as_dtensor, is_dtensor, part_of
from polyloop.distributed.engines.engine import Engine
from polyloop.distributed.engines.mpiengine import of_mpi
from polyloop.distributed.execute import Execution, empty_like, flat, slices
from polyloop.distributed.plan import Plan
from polyloop.distributed.planning import planned
from polyloop.distributed.regions import Box, Coordinates, Regions, box_size
from polyloop.errors import ArgumentError, Diagnostic, unknown_name
from polyloop.expr.rewrite import variables
from polyloop.kernel.arrays import ArrayArg, ValueArg

__all__ = ["RankProgram"]


@dataclass(eq=False)
class RankProgram(Shown):
    """The program of one rank: called with the rank's parts of arrays, on all ranks alike.

    Attributes
    ----------
    sent
        Number of bytes that this rank has sent in messages.
    once
        Whether inspectors run in the first call with some sizes alone.
    """

    analysis: Analysis
    mesh: Coordinates
    overlap: bool
    engine: Engine
    compiled: Mapping[int, Any]
    sent: int = 0
    plans: dict[tuple[tuple[str, int], ...], Plan] = field(default_factory=dict)
    agreed: set[tuple[tuple[str, int], ...]] = field(default_factory=set)
    memory: dict[tuple[tuple[str, int], ...], tuple[dict[Any, Any], dict[Any, Any], dict[str, Any]]] = field(
        default_factory=dict)
    once: bool = False

    def __repr__(self) -> str:
        return f"<RankProgram '{self.analysis.source.name}': rank {self.engine.rank} of {self.engine.size}>"

    @cached_property
    def lists(self) -> dict[tuple[tuple[str, int], ...], dict[int, Any]]:
        """Sizes that ranks have in common -> what inspectors have found for them, where they run once."""
        return {}

    @cached_property
    def position(self) -> Coordinates:
        """Position of the rank in the mesh."""
        return tuple(int(place) for place in np.unravel_index(self.engine.rank, self.mesh))

    def plan(self, **sizes: int) -> Plan:
        """Return the plan for sizes, agreed upon by all ranks: each has to ask for it.

        Raises
        ------
        ArgumentError
            ``ranks-disagree``: another kernel, mesh or size on some rank; ``missing-size``.
        CommunicationError
            ``rank-lost``.
        """
        own = {name: sizes[name] for name in self.analysis.homes.kernel.parameters if name in sizes}
        self._agree(self._common(own))
        key = tuple(own.items())
        if key not in self.plans:
            self.plans[key] = planned(self.analysis, self.mesh, own, overlap=self.overlap)
        return self.plans[key]

    def _common(self, sizes: Mapping[str, Any]) -> dict[str, int]:
        """Return the sizes that all ranks have in common."""
        return {name: int(value) for name, value in sizes.items()
                if name not in self.own_sizes and isinstance(value, int | np.integer)}

    @cached_property
    def own_sizes(self) -> frozenset[str]:
        """Sizes that are extents of local arrays alone: each rank has its own."""
        kernel, local = self.analysis.homes.kernel, self.analysis.division.local
        names: dict[bool, set[str]] = {True: set(), False: set()}
        for name, entry in kernel.arrays().items():
            names[name in local].update(*(variables(extent) for extent in entry.shape or ()))
        sets = [domain for entry in kernel.instructions
                for domain in (entry.domain, *(term.domain for term in entry.terms))]
        names[False].update(domain.get_dim_name(isl.dim_type.param, place) or "" for domain in sets
                            for place in range(domain.dim(isl.dim_type.param))
                            if domain.involves_dims(isl.dim_type.param, place, 1))
        return frozenset(names[True] - names[False])

    def _agree(self, sizes: Mapping[str, int], scalars: Mapping[str, Any] | None = None) -> None:
        """Compare this rank's program and sizes with those of all others, once; *scalars* in the first call with them.

        Raises
        ------
        ArgumentError
            ``ranks-disagree``.
        """
        key = (*sorted(sizes.items()), *([] if scalars is None else [("a call", 1)]))
        if key in self.agreed:
            return
        analysis = self.analysis
        facts = (analysis.homes.kernel, analysis.division, analysis.deep, analysis.steps, self.overlap, self.once)
        text = "\n".join(map(str, facts))
        mine = {"kernel": hashlib.sha256(text.encode()).hexdigest()[:16], "mesh": list(self.mesh),
                "sizes": dict(sizes), "scalars": self._shown(scalars or {})}
        texts = self.engine.all_gather(json.dumps(mine, sort_keys=True))
        for rank, other in enumerate(json.loads(text) for text in texts):
            for word, value in mine.items():
                if other[word] != value:
                    found = Diagnostic(
                        "ranks-disagree", f"rank {self.engine.rank} and rank {rank} have another {word.rstrip('s')}",
                        (f"rank {self.engine.rank}: {value}", f"rank {rank}: {other[word]}"),
                        ("call the same kernel with the same sizes and scalars on all ranks",))
                    raise ArgumentError("distribute", analysis.source.name, [found])
        self.agreed.add(key)

    def _shown(self, scalars: Mapping[str, Any]) -> dict[str, str]:
        """Return scalars that are no sizes as texts, of the type that the kernel gives them."""
        found = {}
        sizes = self.analysis.homes.kernel.parameters
        for entry in self.analysis.source.arguments:
            if isinstance(entry, ValueArg) and entry.name in scalars and entry.name not in sizes:
                value = scalars[entry.name]
                if entry.dtype is not None and isinstance(value, int | float | complex | np.generic):
                    with suppress(TypeError, ValueError, OverflowError):  # the kernel refuses what does not fit
                        value = entry.dtype.type(value)
                found[entry.name] = str(value)
        return found

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
        found = empty_like(like, tuple(high - low for low, high in box), self._dtype(array))
        found[...] = 0
        return found

    def scatter(self, array: str, whole: Any, /, **sizes: int) -> Any:  # noqa: ANN401 - an array
        """Return this rank's part of *whole*, which each rank has: owned elements, and zeros in the halo.

        Raises
        ------
        ArgumentError
            As :meth:`box`.
        """
        self._known(array)
        shape = self.plan(**sizes).regions.shape(array)
        if (found := _shape_of(whole)) != shape:
            raise ArgumentError("scatter", self.analysis.source.name, [Diagnostic(
                "wrong-part", f"'{array}' has the shape {shape}, and got {_got(whole, found)}", (),
                ("pass the whole array on each rank, of NumPy or PyTorch",))])
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
        self._shaped(self.plan(**sizes).regions, array, part)
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
        self._known(array)
        regions = self.plan(**sizes).regions
        if not any(axis is not None for axis in regions.axes(array)):
            return part
        whole = empty_like(part, regions.shape(array), self._dtype(array))
        everything = tuple((0, extent) for extent in regions.shape(array))
        owned = [regions.owned(position, array) for position in regions.ranks]
        self._move(self.owned(array, part, **sizes), owned, whole, [everything] * len(owned))
        return whole

    def redistribute(self, array: str, part: Any, source: RankProgram, /, **sizes: int) -> Any:  # noqa: ANN401 - an array
        """Return this program's part of an array, from the part of another program that divides it otherwise.

        ::

            x = columns.redistribute("x", x, rows, n=1000)      # blocks of rows become blocks of columns

        Parameters
        ----------
        array
            Of both programs, of one shape and type.
        part
            The part that *source* has; it stays as it is.
        source
            The other program, on the same ranks.
        **sizes
            Sizes of both.

        Raises
        ------
        ArgumentError
            As :meth:`box`; ``wrong-part``: the arrays of the two have other shapes or types.
        CommunicationError
            ``rank-lost``.
        """
        old, new = source.plan(**sizes).regions, self.plan(**sizes).regions
        source._known(array)
        self._known(array)
        if old.shape(array) != new.shape(array) or source._dtype(array) != self._dtype(array):
            found = Diagnostic(
                "wrong-part", f"'{array}' is no array of one shape and type in both programs",
                (f"{source._dtype(array)}{old.shape(array)} and {self._dtype(array)}{new.shape(array)}",),
                ("redistribute an array between programs that have it in common",))
            raise ArgumentError("redistribute", self.analysis.source.name, [found])
        result = self.empty(array, like=part, **sizes)
        self._move(
            source.owned(array, part, **sizes), [old.owned(position, array) for position in old.ranks],
            self.owned(array, result, **sizes), [new.owned(position, array) for position in new.ranks])
        return result

    def dtensor(self, array: str, part: Any, mesh: Any, /, **sizes: int) -> Any:  # noqa: ANN401 - tensors
        """Return a DTensor over what this rank owns in *part*: its local tensor is a view of it.

        ::

            mesh = init_device_mesh("cuda", (2, 2))
            u = run.dtensor("u", run.empty("u", like, n=1000), mesh, n=1000)
            run(u=u, n=1000)                        # nothing is copied: u has room for the halo

        Parameters
        ----------
        array
            Name in the kernel.
        part
            This rank's part, as :meth:`empty` and :meth:`scatter` make it, of PyTorch.
        mesh
            A ``DeviceMesh`` of the shape of the kernel's mesh, with all ranks in their order.

        Raises
        ------
        ArgumentError
            ``mesh-mismatch``; ``wrong-placement``: shards of a DTensor would be of another length than blocks;
            ``wrong-part``, and as :meth:`box`.
        """
        self._known(array)
        regions = self.plan(**sizes).regions
        self._shaped(regions, array, part)
        return as_dtensor(regions, array, part, mesh, self.position)

    def _move(self, mine: Any, sources: Sequence[Box], place: Any, targets: Sequence[Box]) -> None:  # noqa: ANN401
        """Bring the elements of boxes *targets* to their ranks, from those that have them in boxes *sources*.

        Of several ranks with one box the first sends it, but to those that have it themselves.
        """
        me = self.engine.rank

        def between(source: int, target: int) -> Box | None:
            first = sources.index(sources[source])
            if source != target and (source != first or sources[source] == sources[target]):
                return None
            box = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(sources[source], targets[target], strict=True))
            return box if all(low < high for low, high in box) else None

        sends = [(target, flat(mine[slices(box, sources[me])])) for target in range(len(targets))
                 if target != me and (box := between(me, target)) is not None]
        receives, boxes = [], []
        for source in range(len(sources)):
            box = between(source, me)
            if box is None:
                continue
            if source == me:
                place[slices(box, targets[me])] = mine[slices(box, sources[me])]
            else:
                receives.append((source, empty_like(mine, (box_size(box),), self._dtype_of(mine))))
                boxes.append(box)
        self.engine.start(sends, receives)()
        for box, (_, buffer) in zip(boxes, receives, strict=True):
            place[slices(box, targets[me])] = buffer.reshape([high - low for low, high in box])

    def _dtype(self, array: str) -> np.dtype[Any]:
        dtype = self.analysis.homes.kernel.arrays()[array].dtype
        assert dtype is not None, "a completed kernel has types"
        return dtype

    @staticmethod
    def _dtype_of(array: Any) -> np.dtype[Any]:  # noqa: ANN401 - an array
        return np.dtype(array.dtype if isinstance(array, np.ndarray) else str(array.dtype).rpartition(".")[2])

    def _known(self, array: str) -> None:
        known = self.analysis.homes.kernel.arrays()
        if array not in known:
            raise ArgumentError("distribute", self.analysis.source.name, [unknown_name("array", array, known)])

    # -- calls

    def __call__(self, **arguments: Any) -> Mapping[str, Any]:  # noqa: ANN401 - arrays and numbers
        """Run the program with this rank's parts, in place; all ranks call it.

        Parameters
        ----------
        **arguments
            For an array in blocks, the rank's part with its halo, as :meth:`scatter` and :meth:`empty` make it; other
            arrays whole; all sizes and scalars.  A ``torch.distributed.tensor.DTensor`` with placements as the array is
            divided stands for the part: its local tensor is used as it is, if it has no halo or :meth:`dtensor` made
            it, and copied into a part and back else.  So do memory that MPI has allocated and what mpi4py takes as a
            message, ``[array, MPI.DOUBLE]``, with as many elements as the part.

        Returns
        -------
        Mapping[str, Any]
            The arrays that the kernel writes, as they were passed.

        Raises
        ------
        ArgumentError
            ``wrong-part``: an array of another shape than the rank's part; ``wrong-placement``, ``mesh-mismatch``: a
            DTensor that is divided otherwise; ``missing-argument``, ``unknown-argument``, ``ranks-disagree``,
            ``missing-size``.
        CommunicationError
            ``rank-lost``.
        """
        kernel = self.analysis.source
        sizes = {name: value for name, value in arguments.items() if name in kernel.parameters}
        plan = self.plan(**sizes)
        key = tuple(plan.regions.sizes.items())
        windows, known, kept = self.memory.setdefault(key, ({}, {}, {}))
        back: dict[str, Callable[[], object]] = {}
        arrays, scalars = self._checked(plan, arguments, windows, back)
        common = self._common(sizes)
        self._agree(common, scalars)
        example = next((value for value in arrays.values()), None)
        for name in self.analysis.kept:
            if name not in kept:
                box = plan.regions.stored(self.position, name)
                kept[name] = empty_like(example, tuple(high - low for low, high in box), self._dtype(name))
        work = Execution(plan, self.analysis.names, self.engine, self.position, self.compiled,
                         {**arrays, **kept}, scalars, windows, known)
        if self.once:
            work.gathers = self.lists.setdefault(tuple(sorted(common.items())), {})
        work.run(plan.nodes, {})
        self.sent += work.sent
        written = {entry.name for entry in kernel.arguments if isinstance(entry, ArrayArg) and entry.is_output}
        for name in written & back.keys():
            back[name]()
        return {name: arguments[name] for name in arrays if name in written}

    def _checked(
        self, plan: Plan, arguments: Mapping[str, Any], buffers: dict[Any, Any], back: dict[str, Callable[[], object]]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and the scalars of a call; what brings results *back* to DTensors that were copied."""
        kernel = self.analysis.source
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
            if is_dtensor(value):
                arrays[name], bring = part_of(plan.regions, self.position, name, value, buffers)
                back |= {} if bring is None else {name: bring}
            else:
                arrays[name] = of_mpi(plan.regions.stored(self.position, name), self._dtype(name), value)
            self._shaped(plan.regions, name, arrays[name])
            entry = declared[name]
            is_written = isinstance(entry, ArrayArg) and entry.is_output
            has_halo = plan.regions.stored(self.position, name) != plan.regions.owned(self.position, name)
            if (is_written or has_halo) and isinstance(arrays[name], np.ndarray) and not arrays[name].flags.writeable:
                raise ArgumentError("distribute", kernel.name, [Diagnostic(
                    "read-only-output", f"'{name}' is read-only, and the kernel writes it, or its halo is filled", (),
                    (f"pass {name}.copy()",))])
        return arrays, {name: value for name, value in arguments.items() if name not in arrays}

    def _shaped(self, regions: Regions, name: str, value: Any) -> None:  # noqa: ANN401 - an array
        """Refuse an array that has not the shape of this rank's part.

        Raises
        ------
        ArgumentError
            ``wrong-part``.
        """
        box = regions.stored(self.position, name)
        shape = tuple(high - low for low, high in box)
        if (found_shape := _shape_of(value)) != shape:
            indices = ", ".join(f"{low}:{high}" for low, high in box)
            found = Diagnostic(
                "wrong-part", f"rank {self.engine.rank} has the part {name}[{indices}], of shape {shape}, and got "
                f"{_got(value, found_shape)}", (f"of these it owns "
                f"{', '.join(f'{low}:{high}' for low, high in regions.owned(self.position, name))}",),
                (f'run.scatter("{name}", whole, ..) and run.empty("{name}", ..) make such parts',))
            raise ArgumentError("distribute", self.analysis.source.name, [found])


def _shape_of(value: object) -> tuple[int, ...] | None:
    """Return the shape of an array, None for what is none."""
    found = getattr(value, "shape", None)
    return None if found is None else tuple(found)


def _got(value: object, shape: tuple[int, ...] | None) -> str:
    return f"a {type(value).__name__}" if shape is None else f"an array of shape {shape}"
