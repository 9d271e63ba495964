"""Proof that a plan is complete: every element that a rank reads is its own, or was received since it was last written.

The planner decides by arrays and loops where exchanges stand.  The proof knows nothing of that: it has the times of
reads, writes and exchanges, and looks for a read of an element of another rank for which no exchange came after the
last write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import islpy as isl

from polyloop.distributed.fields import Field, Storage
from polyloop.distributed.plan import Combine, Exchange, Plan, Repeat, Run, Send, nodes_in
from polyloop.errors import Diagnostic, VerificationError
from polyloop.poly.affine import Affine
from polyloop.poly.sets import Row, add_rows, map_from_forms
from polyloop.program.lower import Lowered

__all__ = ["incompleteness", "prove"]

_IN = isl.dim_type.in_
_SET = isl.dim_type.set

_Path: TypeAlias = "tuple[int | str, ...]"


def prove(plan: Plan) -> int:
    """Return the number of reads of other ranks' elements that are proven, each for all instances.

    Raises
    ------
    VerificationError
        ``incomplete-exchange``: with the rank, the instance and the element.
    """
    work = _Proof(plan)
    found = [*work.missing()]
    if found:
        raise VerificationError("distribute", plan.regions.homes.kernel.name, found[:1])
    return work.count


def incompleteness(plan: Plan) -> tuple[Diagnostic, ...]:
    """Return a finding for each field of a phase through which an element is read that did not come."""
    return tuple(_Proof(plan).missing())


@dataclass(eq=False)
class _Proof:
    plan: Plan
    count: int = 0

    def __post_init__(self) -> None:
        self.nodes = [*nodes_in(self.plan.nodes)]
        self.depth = max((len(path) for path, _ in self.nodes), default=0)
        self.ranks = len(self.plan.regions.mesh)
        self.scattered = {node.combined.array: node.scattered for _, node in self.nodes
                          if isinstance(node, Combine) and not node.combined.is_update}

    def missing(self) -> Iterator[Diagnostic]:
        """Yield the findings."""
        regions = self.plan.regions
        for path, node in self.nodes:
            if not isinstance(node, Run):
                continue
            local = next(entry for entry in self.plan.locals if entry.phase is node.phase)
            for field in local.fields:
                if axes := self.scattered.get(field.array):
                    others = regions.reads(node.phase, field).subtract(
                        regions.own(field.array, len(node.phase.hosts), axes))
                    self.count += 1
                    if not others.is_empty():
                        yield self.finding(self.timed(others, path), node, field)
                if field.storage not in (Storage.BLOCK, Storage.WINDOW):
                    continue
                reads = regions.reads(node.phase, field)
                if field.storage is Storage.BLOCK:
                    reads = reads.subtract(regions.own(field.array, len(node.phase.hosts)))
                if reads.is_empty():
                    continue
                self.count += 1
                left = self.uncovered(self.timed(reads, path), field, node)
                if not left.is_empty():
                    yield self.finding(left, node, field)

    def timed(self, elements: isl.Map, path: _Path, *others: tuple[_Path, int]) -> isl.Set:
        """Return ``{ [rank, time, element] }`` of ``{ [rank, hosts] -> element }`` at a place of the plan.

        *others* are earlier places, whose times come first, and how many iterations of the innermost loop they lie
        before: at the beginning of that iteration, which for the first one is in front of the loop.
        """
        flat = elements.wrap().flatten()
        hosts = [entry for entry in path if isinstance(entry, str)]
        ranks = [f"rank{axis}'" for axis in range(self.ranks)]
        indices = [f"e{place}'" for place in range(flat.dim(_SET) - self.ranks - len(hosts))]
        times = [form for entry in (*others, (path, 0)) for form in self.time(*entry)]
        forms = [*map(Affine.variable, ranks), *times, *map(Affine.variable, indices)]
        return map_from_forms(flat, [*ranks, *hosts, *indices], forms).range()

    def time(self, path: _Path, ahead: int) -> list[Affine]:
        """Return the time of a place, or of the beginning of some iterations before."""
        found = [Affine.variable(entry) if isinstance(entry, str) else Affine((), entry) for entry in path]
        if ahead:
            found[-2:] = [found[-2].add(Affine((), -ahead)), Affine((), -1)]
        return found + [Affine((), 0)] * (self.depth - len(found))

    def uncovered(self, reads: isl.Set, field: Field, run: Run) -> isl.Set:
        """Return the reads for which no exchange came since the element was last written."""
        ranks, depth = self.ranks, self.depth
        count = reads.dim(_SET) - ranks - depth
        writes = [*self.written(field.array)]
        for sent, is_later in self.arriving(field, run):
            # [rank, time of the read, time of the exchange, element]; a receive that is later has a time behind that
            more = depth if is_later else 0
            pairs = reads.insert_dims(_SET, ranks + depth, depth + more).intersect(sent.insert_dims(_SET, ranks, depth))
            pairs = self.before(pairs, ranks + depth + more, ranks)
            if is_later:
                pairs = pairs.project_out(_SET, ranks + 2*depth, depth)
            if pairs.is_empty():
                continue
            for write in writes:
                # [rank, time of the read, time of the exchange, time of the write, element]
                between = pairs.insert_dims(_SET, ranks + 2*depth, depth)
                between = between.intersect(write.insert_dims(_SET, 0, ranks + 2*depth))
                between = self.before(between, ranks + depth, ranks + 2*depth)
                between = self.before(between, ranks + 2*depth, ranks)
                pairs = pairs.subtract(between.project_out(_SET, ranks + 2*depth, depth))
            reads = reads.subtract(pairs.project_out(_SET, ranks + depth, depth))
        assert reads.dim(_SET) == ranks + depth + count, "elements keep their axes"
        return reads

    def arriving(self, field: Field, run: Run) -> Iterator[tuple[isl.Set, bool]]:
        """Yield ``{ [rank, time, element] }`` of what comes to where a phase reads it, or was computed there.

        Where it is received later than it was sent, there are the two times: ``{ [rank, time, time, element] }``.
        """
        begun = {node.exchange.number: path for path, node in self.nodes if isinstance(node, Send)}
        for path, node in self.nodes:
            if not (isinstance(node, Exchange) and node.field.array == field.array and _fills(node, field, run)):
                continue
            if not (node.is_ahead or node.is_sent):
                yield self.timed(node.needed, path), False
                continue
            needed = node.needed
            if node.is_sent:
                first = self.first(node) if node.is_ahead else None
                own = needed if first is None else needed.fix_val(_IN, self.ranks, first)
                if node.number in begun:
                    yield self.timed(own, path, (begun[node.number], 0)), True
                needed = needed.subtract(own)
            if node.is_ahead:
                yield self.timed(needed, path, (path, 1)), True
        deep = self.plan.regions.deep
        for path, node in self.nodes:
            if isinstance(node, Run) and deep is not None and node.phase.number in deep.reach:
                made = self.plan.regions.writes(node.phase, field.array)
                if not made.is_empty() and field.storage is Storage.BLOCK:
                    yield self.timed(made, path), False

    def first(self, exchange: Exchange) -> int | None:
        """Return the first iteration of the loop in which an exchange runs ahead, None if it has none."""
        repeat = next(node for node in self.plan.nodes if isinstance(node, Repeat) and exchange in node.body)
        return next(iter(self.plan.iterations(repeat, {})), None)

    def written(self, array: str) -> Iterator[isl.Set]:
        """Yield ``{ [time, element] }`` of the writes of *array*."""
        for path, node in self.nodes:
            if isinstance(node, Run):
                elements = self.plan.regions.writes(node.phase, array)
                if not elements.is_empty():
                    yield self.timed(elements, path).project_out(_SET, 0, self.ranks)

    def before(self, pairs: isl.Set, first: int, second: int) -> isl.Set:
        """Return the points of *pairs* in which the time at *first* is before the time at *second*."""
        dims = [f"d{place}" for place in range(pairs.dim(_SET))]
        parts = []
        equal: list[Row] = []
        for place in range(self.depth):
            later = Affine.variable(dims[second + place]).add(Affine.variable(dims[first + place]), -1)
            part = add_rows(pairs, dims, [*equal, Row(later.add(Affine((), -1)))])
            if not part.is_empty():
                parts.append(part)
            equal.append(Row(later, True))
        return reduce(isl.Set.union, parts, isl.Set.empty(pairs.get_space()))

    def finding(self, left: isl.Set, run: Run, field: Field) -> Diagnostic:
        """Return the finding of a read that nothing covers."""
        regions = self.plan.regions
        point = left.lexmin().sample_point()
        values = [point.get_coordinate_val(_SET, place).to_python() for place in range(left.dim(_SET))]
        position = tuple(values[: self.ranks])
        element = values[self.ranks + self.depth :]
        path = next(path for path, node in self.nodes if node is run)
        hosts = {name: values[self.ranks + place] for place, name in enumerate(path) if isinstance(name, str)}
        statement, instance = self.instance(run, field, position, hosts, element)
        shown = ", ".join(f"{name}={value}" for name, value in instance.items())
        site = statement.instruction.site()
        index = ", ".join(map(str, element))
        return Diagnostic(
            "incomplete-exchange",
            f"rank {regions.number(position)} reads an element that it neither owns nor has received",
            (f"instance ({shown}) of '{statement.instruction.id}' reads {field.array}[{index}]",
             f"sizes: {', '.join(f'{name}={value}' for name, value in regions.sizes.items())}; "
             f"mesh {'x'.join(map(str, regions.mesh))}"),
            ("this is a fault of the planner: please report the kernel",), sites=(site,))

    def instance(
        self, run: Run, field: Field, position: Sequence[int], hosts: dict[str, int], element: Sequence[int]
    ) -> tuple[Lowered, dict[str, int]]:
        """Return a statement and an instance that reads an element on a rank."""
        regions = self.plan.regions
        for name in run.phase.instructions:
            for statement in regions.homes.statements(name):
                reach = regions.reach(run.phase.number, hosts)
                instances, dims = regions.placed(statement, regions.homes.of(statement), reach)
                fixed = {**dict(zip(regions.rank_dims, position, strict=True)), **hosts}
                for access in statement.reads:
                    if access.array != field.array:
                        continue
                    rows = [Row(Affine.variable(dim).add(Affine((), -fixed[dim])), True)
                            for dim in dims if dim in fixed]
                    forms = access.indices or (Affine((), 0),)
                    rows += [Row(regions.fixed(form).add(Affine((), -value)), True)
                             for form, value in zip(forms, element, strict=True) if form is not None]
                    found = add_rows(instances, dims, rows)
                    if not found.is_empty():
                        point = found.lexmin().sample_point()
                        return statement, {dim: point.get_coordinate_val(_SET, place).to_python()
                                           for place, dim in enumerate(dims) if dim not in regions.rank_dims}
        raise AssertionError("an element that is read has a reader")


def _fills(exchange: Exchange, field: Field, run: Run) -> bool:
    """Return whether an exchange brings elements to where a phase reads them."""
    if exchange.field.storage is not field.storage:
        return False
    return field.storage is Storage.BLOCK or (exchange.phase == run.phase.number and exchange.field.name == field.name)
