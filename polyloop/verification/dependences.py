"""Dependences of a kernel's reference program, as data for its user.

A dependence is a relation between instances, parametric in the sizes.  Flow (read after write) is value-based: each
read depends on the write whose value it sees (Feautrier, IJPP 20(1), 1991).  Anti and output dependences are
memory-based: all ordered pairs of accesses to one element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import islpy as isl

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.conflicts import conflict_pairs, conflicts
from polyloop.dataflow.value_flow import is_exact, readers_of, writes_of
from polyloop.display import Shown, clipped
from polyloop.edge.words import Choice
from polyloop.kernel.kernel import LoopKernel
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.sets import set_text
from polyloop.program.lower import Access
from polyloop.verification.correspondence import reference_flow

__all__ = ["Dependence", "DependenceKind", "Dependences", "dependences"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


class DependenceKind(Choice):
    """Kind of a dependence."""

    RAW = "read after write"
    WAR = "write after read"
    WAW = "write after write"


@dataclass(frozen=True, eq=False)
class Dependence(Shown):
    """Instances of ``source`` that must run before instances of ``sink``.

    Attributes
    ----------
    kind
        RAW, WAR or WAW.
    array
        The variable that both access.
    source, sink
        Ids of the instructions.
    relation
        ``{ source[inames] -> sink[inames] }``, for the sizes that the kernel's assumptions allow; for an access inside
        a reduction the inames include the reduction's.
    is_exact
        False for a may-dependence, where a predicate or a non-affine subscript leaves open if the accesses conflict.
        The relation then has every pair that may.
    is_reorderable
        True if both are atomic updates with one commutative operation, whose order is free.
    """

    kind: DependenceKind
    array: str
    source: str
    sink: str
    relation: isl.Map
    is_exact: bool
    is_reorderable: bool = False

    def __repr__(self) -> str:
        return f"<{clipped(str(self), 200)}>"

    def __str__(self) -> str:
        may = "" if self.is_exact else " (may)"
        free = " (any order)" if self.is_reorderable else ""
        return f"{self.kind.name} on '{self.array}'{may}{free}: {set_text(self.relation)}"


class Dependences(Shown, tuple[Dependence, ...]):
    """All dependences of a kernel; ``print`` shows one a line."""

    __slots__ = ()

    def __new__(cls, entries: Iterable[Dependence] = ()) -> Self:
        """Return a tuple of *entries*."""
        return super().__new__(cls, entries)

    def __repr__(self) -> str:
        kinds = Counter(entry.kind.name for entry in self)
        return f"<Dependences: {', '.join(f'{count} {kind}' for kind, count in kinds.items()) or 'none'}>"

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def of(
        self, *, kind: DependenceKind | None = None, array: str | None = None, source: str | None = None,
        sink: str | None = None,
    ) -> Dependences:  # fmt: skip
        """Return the dependences with these properties."""
        return Dependences(
            entry
            for entry in self
            if (kind is None or entry.kind is kind)
            and (array is None or entry.array == array)
            and (source is None or entry.source == source)
            and (sink is None or entry.sink == sink)
        )

    def to_dot(self) -> str:
        """Return the graph of the instructions in Graphviz's language, an edge for each kind, array and pair."""
        edges = dict.fromkeys(
            f'    "{entry.source}" -> "{entry.sink}" [label="{entry.kind.name} {entry.array}"'
            f"{'' if entry.is_exact else ', style=dashed'}];"
            for entry in self
        )
        return "\n".join(["digraph dependences {", *edges, "}"])


def dependences(kernel: LoopKernel) -> Dependences:
    """Return the dependences of the reference program of *kernel*, which transforms do not change.

    ::

        knl = pl.make_kernel("{[i]: 1 <= i < n}", "a[i] = a[i - 1] + b[i]")
        print(pl.dependences(knl))
        # RAW on 'a': [n] -> { insn[i] -> insn[i' = 1 + i] : 0 < i <= -2 + n }

    Returns
    -------
    Dependences
        A tuple of :class:`Dependence`, in the order of the variables' first writes. Accumulations of one reduction
        are one step and have no dependences among themselves.
    """
    reference = kernel if kernel.reference is None else kernel.reference.kernel
    placement = place(reference)
    arrays = dict.fromkeys(name for instruction in reference.instructions for name in instruction.writes)
    return Dependences(entry for array in arrays for entry in _of_array(placement, array))


def _of_array(placement: Placement, array: str) -> Iterator[Dependence]:
    """Yield the dependences over *array*: RAW on the last write if the dataflow is exact, else on all before.

    WAR and WAW dependences have all pairs of accesses to one element.
    """
    exact = is_exact(placement, array)
    if exact:
        flow = reference_flow(placement, array)
        for (reader, access), sources in zip(flow.reads, flow.sources, strict=True):
            for writer, link in sources:
                yield _dependence(placement, DependenceKind.RAW, access, writer, reader, link.reverse(), True)
    else:
        for write in writes_of(placement, array):
            for read in readers_of(placement, array):
                yield from _ordered(placement, DependenceKind.RAW, write, read)
    for read in readers_of(placement, array):
        for write in writes_of(placement, array):
            yield from _ordered(placement, DependenceKind.WAR, read, write)
    for first in writes_of(placement, array):
        for second in writes_of(placement, array):
            yield from _ordered(placement, DependenceKind.WAW, first, second)


def _ordered(
    placement: Placement, kind: DependenceKind, first: tuple[Placed, Access], second: tuple[Placed, Access]
) -> Iterator[Dependence]:
    """Yield the dependence of *second* on *first*: the pairs that access one element, in which the first runs first."""
    (source, a), (sink, b) = first, second
    pairs = conflict_pairs(placement, source, a, sink, b)
    parts = [entry.relation for entry in conflicts(placement, source, sink, pairs) if not entry.simultaneous]
    if not parts:
        return
    relation = parts[0]
    for part in parts[1:]:
        relation = relation.union(part)
    is_sure = source.lowered.is_certain(a) and sink.lowered.is_certain(b)
    yield _dependence(placement, kind, a, source, sink, relation, is_sure)


def _dependence(
    placement: Placement, kind: DependenceKind, access: Access, source: Placed, sink: Placed, relation: isl.Map,
    exact: bool,
) -> Dependence:  # fmt: skip
    assumptions = placement.program.kernel.assumptions
    ids = [side.lowered.instruction.id for side in (source, sink)]
    relation = relation.coalesce().gist_params(assumptions)
    named = _named(relation, _IN, ids[0], source.dims)
    named = _named(named, _OUT, ids[1], sink.dims)
    free = kind is DependenceKind.WAW and source.lowered.commutes_with(sink.lowered)
    return Dependence(kind, access.array, ids[0], ids[1], named, exact, free)


def _named(relation: isl.Map, side: isl.dim_type, name: str, dims: Sequence[str]) -> isl.Map:
    for position, dim in enumerate(dims):
        relation = relation.set_dim_name(side, position, dim)
    return relation.set_tuple_name(side, name)
