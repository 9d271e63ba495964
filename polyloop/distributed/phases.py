"""Phases: the parts of a program between which ranks exchange values, in the loops of the host around them.

A value that one rank computes and another one reads has to be sent in between, so that the two are in different phases.
A loop whose iterations hand such values on, or whose body has several phases, becomes one of the host: as a loop around
launches does where blocks would have to wait (ADR 19), one level up.  Where the body can be divided into loops of their
own, it is divided instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import TypeAlias

import islpy as isl

from polyloop.distributed.division import bad_distribution, refuse
from polyloop.distributed.homes import Homes, dims_of, pairs_apart
from polyloop.errors import Diagnostic, Witness, WitnessInstance, WitnessKind
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Tree, runs
from polyloop.poly.affine import Affine
from polyloop.poly.sets import sample_pair
from polyloop.program.lower import lower
from polyloop.verification.dependences import Dependence, DependenceKind, dependences

__all__ = ["HostLoop", "Phase", "Step", "hosts_of", "phases_in", "phases_of"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


@dataclass(frozen=True)
class Phase:
    """Instructions between two exchanges.

    Attributes
    ----------
    number
        Its place among the phases of the program.
    instructions
        Ids, in the order of the text.
    hosts
        Loops of the host around it, from the outside in.
    is_free
        Whether its instances at different coordinates have no order: they can run in parts.
    """

    number: int
    instructions: tuple[str, ...]
    hosts: tuple[str, ...]
    is_free: bool


@dataclass(frozen=True)
class HostLoop:
    """A sequential loop around phases, which the host runs."""

    iname: str
    body: tuple[Step, ...]


Step: TypeAlias = "Phase | HostLoop"


def phases_in(steps: Sequence[Step]) -> Iterator[Phase]:
    """Yield the phases in the order of the program."""
    for step in steps:
        if isinstance(step, Phase):
            yield step
        else:
            yield from phases_in(step.body)


def hosts_of(steps: Sequence[Step]) -> frozenset[str]:
    """Return the inames of the loops of the host."""
    found: set[str] = set()
    for step in steps:
        if isinstance(step, HostLoop):
            found |= {step.iname} | hosts_of(step.body)
    return frozenset(found)


def phases_of(kernel: LoopKernel, homes: Homes, hosts: Collection[str] = ()) -> tuple[Step, ...]:
    """Return the phases and loops of the host of a program.

    Parameters
    ----------
    kernel
        The completed kernel of which *homes* has the program.
    hosts
        Loops that are to be loops of the host whatever they carry.

    Raises
    ------
    KernelError
        ``message-inside``: a value would have to be sent between iterations of a loop that is divided.
    """
    reference = kernel.reference
    assert reference is not None, "a completed kernel has a reference program"
    return _Dividing(kernel, homes, frozenset(hosts)).steps(reference.tree, ())


@dataclass(eq=False)
class _Dividing:
    kernel: LoopKernel
    homes: Homes
    hosts: frozenset[str]
    count: int = 0

    def __post_init__(self) -> None:
        self.entries = dependences(self.kernel)

    def steps(self, tree: Tree, outer: tuple[str, ...]) -> tuple[Step, ...]:
        """Return the steps of nodes that are in the loops *outer* of the host."""
        found: list[Step] = []
        units: list[tuple[str, ...]] = []

        def close() -> None:
            for group in self.grouped(units, outer):
                found.append(Phase(self.count, group, outer, not self.any_apart(group, group, outer, among=True)))
                self.count += 1
            units.clear()

        for node in tree:
            if isinstance(node, Barrier):
                continue
            parts = self.units(node, outer)
            if parts is not None:
                units += parts
                continue
            close()
            assert isinstance(node, Loop), "a statement needs no loop of the host"
            found.append(HostLoop(node.iname, self.steps(node.body, (*outer, node.iname))))
        close()
        return tuple(found)

    def units(self, node: Node, outer: tuple[str, ...]) -> list[tuple[str, ...]] | None:
        """Return groups of instructions of *node*, each in loops of its own; None for a loop of the host."""
        names = self.names((node,))
        if isinstance(node, Run):
            return [names]
        assert isinstance(node, Loop), "a tree has loops and statements"
        inside = {loop for loop in _loops((node,)) if loop in self.hosts}
        if not inside and not self.sent(names, names, outer):
            return [names]
        if not inside:
            groups = self.grouped(self.atoms(node, outer), outer)
            if self.is_divisible(groups, outer):
                return groups
        if node.iname in self.homes.division.inames:
            if inside:
                refuse(self.kernel, bad_distribution(
                    f"'{node.iname}' is divided, and {'it' if node.iname in inside else repr(min(inside)) + ' in it'} "
                    "is to be a loop of the host",
                    hint="name loops in hosts= that are around divided ones"))
            self.refuse_inside(node, names, outer)
        return None

    def names(self, tree: Tree) -> tuple[str, ...]:
        """Return the ids of the instructions in *tree*."""
        known = {entry.id for entry in self.homes.kernel.instructions}
        statements = lower(self.homes.kernel).statements
        own = [name if name in known else statements[name].instruction.id for name in runs(tree)]
        return tuple(dict.fromkeys(own))

    def atoms(self, node: Node, outer: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the smallest groups of instructions that loops of their own can hold."""
        names = self.names((node,))
        if isinstance(node, Run) or not self.sent(names, names, outer):
            return [names] if names else []
        assert isinstance(node, Loop), "a tree has loops and statements"
        return [group for child in node.body for group in self.atoms(child, outer)]

    def grouped(self, units: Sequence[tuple[str, ...]], outer: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return *units* joined with those before, where no instances at different coordinates depend on each other."""
        groups: list[tuple[str, ...]] = []
        for unit in units:
            if groups and not self.any_apart(groups[-1], unit, outer, among=False):
                groups[-1] = tuple(dict.fromkeys((*groups[-1], *unit)))
            else:
                groups.append(unit)
        return groups

    def is_divisible(self, groups: Sequence[tuple[str, ...]], outer: tuple[str, ...]) -> bool:
        """Return whether *groups*, which share loops, can run one after the other."""
        if any(self.sent(group, group, outer) for group in groups):
            return False
        names = [name for group in groups for name in group]
        if len(set(names)) < len(names):
            return False
        for first, second in combinations(groups, 2):
            if any(not self.within(entry, outer).is_empty() for entry in self.between(second, first)):
                return False
        return True

    def between(self, first: Collection[str], second: Collection[str]) -> Iterator[Dependence]:
        """Yield the dependences of instructions *second* on *first*."""
        return (entry for entry in self.entries if entry.source in first and entry.sink in second)

    def within(self, entry: Dependence, outer: tuple[str, ...]) -> isl.Map:
        """Return the pairs of a dependence in one iteration of the loops *outer*."""
        relation = entry.relation
        for name in outer:
            places = [dims_of(relation.get_space(), kind).index(name) for kind in (_IN, _OUT)]
            relation = relation.equate(_IN, places[0], _OUT, places[1])
        return relation

    def apart(self, entry: Dependence, outer: tuple[str, ...]) -> isl.Map | None:
        """Return the pairs of a dependence that a message has to pass between, None without any."""
        found = self.homes.combined.get(entry.source)
        relation = self.within(entry, outer)
        is_own = found is not None and entry.array == found.array
        if is_own and entry.source == entry.sink:
            return None  # updates of one array in any order: each rank has a share of its own
        if not is_own:
            first, second = (self.homes.within(name, dims_of(relation.get_space(), kind))
                             for name, kind in ((entry.source, _IN), (entry.sink, _OUT)))
            relation = pairs_apart(relation, first, second)
        return None if relation.is_empty() else relation

    def sent(self, first: Collection[str], second: Collection[str], outer: tuple[str, ...]) -> list[Dependence]:
        """Return the dependences of *second* on values that *first* computes on other ranks."""
        return [entry for entry in self.between(first, second)
                if entry.kind is DependenceKind.RAW and self.apart(entry, outer) is not None]

    def any_apart(
        self, first: Collection[str], second: Collection[str], outer: tuple[str, ...], *, among: bool
    ) -> bool:
        """Return whether instances at different coordinates have an order; *among* those of one group, or of two."""
        combined = self.homes.combined
        for entry in self.between(first, second):
            own = combined.get(entry.source)
            if among and own is not None and own.array == entry.array:
                continue
            if self.apart(entry, outer) is not None:
                return True
        return False

    def refuse_inside(self, node: Loop, names: tuple[str, ...], outer: tuple[str, ...]) -> None:
        """Refuse a divided loop whose iterations hand values from rank to rank.

        Raises
        ------
        KernelError
            ``message-inside``.
        """
        entry = self.sent(names, names, outer)[0]
        relation = self.apart(entry, outer)
        assert relation is not None, "it is a dependence between ranks"
        sources, sinks = (dims_of(relation.get_space(), kind) for kind in (_IN, _OUT))
        pair = sample_pair(relation, sources, sinks)
        assert pair is not None, "it is not empty"
        sizes, first, second = pair
        refuse(self.kernel, _inside(self.homes, node.iname, entry, (sizes, first, second)))


def _inside(
    homes: Homes, iname: str, entry: Dependence, pair: tuple[dict[str, int], dict[str, int], dict[str, int]]
) -> Diagnostic:
    sizes, first, second = pair
    both = ((entry.source, first), (entry.sink, second))
    homes_of_pair = [homes.within(name, tuple(values)) for name, values in both]
    notes = []
    for axis, forms in enumerate(zip(*homes_of_pair, strict=True)):
        mine, other = (None if form is None else form.evaluate({**sizes, **values})
                       for form, values in zip(forms, (first, second), strict=True))
        if mine is not None and mine != other:
            block = max(mine, mine if other is None else other)
            where = "every rank" if other is None else f"rank {0 if other < block else 1}"
            notes.append(f"along mesh.{axis} with blocks of {block}: rank {0 if mine < block else 1} runs the first, "
                         f"{where} the second")
    element = _element(homes, entry, first)
    shown = [f"({', '.join(f'{name}={value}' for name, value in values.items())}) of '{name}'"
             for name, values in ((entry.source, first), (entry.sink, second))]
    by_id = {instruction.id: instruction for instruction in homes.kernel.instructions}
    sites = tuple(by_id[name].site() for name in dict.fromkeys((entry.source, entry.sink)))
    witness = Witness(
        WitnessKind.EARLY, entry.array, element, tuple(sizes.items()),
        *(WitnessInstance(name, tuple(values.items()), name, tuple(values.items()))
          for name, values in ((entry.source, first), (entry.sink, second))))
    index = f"[{', '.join('?' if value is None else str(value) for value in element)}]" if element else ""
    return Diagnostic(
        "message-inside", f"iname '{iname}' cannot be divided: a value would be sent inside of the kernel",
        (f"instance {shown[0]} writes {entry.array}{index}, which instance {shown[1]} reads", *notes),
        ("divide another iname, or write the recurrence as a loop around divided ones",), sites=sites, witness=witness)


def _element(homes: Homes, entry: Dependence, values: dict[str, int]) -> tuple[int | None, ...]:
    for statement, access in homes.accesses(entry.source):
        if statement.is_write(access) and access.array == entry.array:
            forms: tuple[Affine | None, ...] = access.indices
            return tuple(None if form is None or not form.names() <= values.keys() else form.evaluate(values)
                         for form in forms)
    return ()


def _loops(tree: Tree) -> frozenset[str]:
    return reduce(frozenset.union, ((_loops(node.body) | {node.iname}) for node in tree if isinstance(node, Loop)),
                  frozenset())
