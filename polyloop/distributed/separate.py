"""Reductions whose terms ranks share, taken apart from the statements that use their results.

::

    y[i] = sqrt(sum(k, a[i, k]**2))         k divided
    ->
    y_sum[i] = sum(k, a[i, k]**2)           each rank has its own terms
    y_sum = sums of all ranks               a reduction over the mesh
    y[i] = sqrt(y_sum[i])
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import islpy as isl
import pymbolic.primitives as p

from polyloop.creation.create import complete_kernel
from polyloop.distributed.division import Division, bad_distribution, refuse
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import CText, Expression, Reduction, Targets, Terms, array_name
from polyloop.expr.rewrite import children, rebuild_changed, reductions, variables
from polyloop.expr.rules import expand_rules
from polyloop.frozen import replace
from polyloop.kernel.arrays import TemporaryVariable
from polyloop.kernel.instruction import Copy, Instruction, Term
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.updates import update_of
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.sets import parametric_interval, project_onto
from polyloop.transform.base import Applied

__all__ = ["Combined", "Separated", "as_written", "separated"]

_COMBINED: Final = ("sum", "product", "max", "min")
_FEW: Final = 4
"""Elements at the beginning of an array that may stay unused, so that subscripts are inames."""


@dataclass(frozen=True)
class Combined:
    """An array of which each rank computes its share: the ranks along some axes of the mesh combine them.

    Attributes
    ----------
    instruction, array
        The instruction with the terms of a rank, and what it writes.
    operation
        ``sum``, ``product``, ``max`` or ``min``.
    axes
        Axes of the mesh, along which ranks have different terms.
    is_update
        Whether the result is combined with what the array has, as for ``h[bin[p]] = h[bin[p]] + 1``.
    """

    instruction: str
    array: str
    operation: str
    axes: tuple[int, ...]
    is_update: bool


@dataclass(frozen=True, eq=False)
class Separated:
    """A kernel, of which ``combined`` are the instructions whose results ranks combine."""

    kernel: LoopKernel
    combined: Mapping[str, Combined] = field(default_factory=dict)


def as_written(kernel: LoopKernel) -> LoopKernel:
    """Return the reference program of *kernel*, which has no schedule yet.

    Raises
    ------
    KernelError
        ``bad-distribution``: it has been transformed, has C text, or bounds that are read from memory.
    """
    for step in kernel.trace:
        assert isinstance(step, Applied), "a trace holds applied transforms"
        if not step.transform.changes_meaning:
            refuse(kernel, bad_distribution(
                "the kernel is transformed already", step.script().splitlines()[-1],
                hint="divide the kernel as it was created, and transform the kernels of the ranks"))
    reference = kernel.reference
    assert reference is not None, "a created kernel has a reference program"
    if reference.steps:
        refuse(kernel, bad_distribution("a reduction collects its terms in a loop that sets what it reads",
                                        *reference.steps.values(), hint="index the temporary by that iname"))
    for instruction in reference.kernel.instructions:
        if isinstance(instruction.assignee, Targets) or isinstance(instruction.expression, CText):
            refuse(kernel, bad_distribution(f"'{instruction.id}' has several results, or is C text",
                                            str(instruction), hint="write one assignment for each result"))
        sets = (instruction.domain, *(term.domain for term in instruction.terms))
        for name in {name for domain in sets for name in _parameters(domain)}.difference(reference.kernel.parameters):
            entry = reference.kernel.temporaries.get(name)
            if entry is None or entry.shape:
                refuse(kernel, bad_distribution(
                    f"the bounds of '{instruction.id}' are read from memory: '{name}'", str(instruction),
                    hint="bound the loop by parameters with a condition, or by scalars that the same loop sets"))
    return reference.kernel


def _parameters(domain: isl.Set) -> Iterator[str]:
    for position in range(domain.dim(isl.dim_type.param)):
        if domain.involves_dims(isl.dim_type.param, position, 1):
            yield domain.get_dim_name(isl.dim_type.param, position) or ""


def separated(source: LoopKernel, division: Division, hosts: Collection[str]) -> Separated:
    """Return the program with the results of divided reductions in temporaries of their own.

    Parameters
    ----------
    source
        A kernel without a schedule.
    hosts
        Loops that one iteration after the other runs: results are kept for one iteration.
    """
    kernel = as_written(source)
    work = _Separation(kernel, division, frozenset(hosts))
    instructions = tuple(made for instruction in kernel.instructions for made in work.parts(instruction))
    if not work.temporaries and not kernel.substitutions:
        return Separated(source, work.combined)  # nothing is taken apart: all that is known of it stays known
    temporaries = {**kernel.temporaries, **work.temporaries}
    whole = replace(kernel, instructions=instructions, temporaries=temporaries, substitutions={}, conditions=())
    return Separated(complete_kernel(whole, None), work.combined)


@dataclass(eq=False)
class _Separation:
    kernel: LoopKernel
    division: Division
    hosts: frozenset[str]
    temporaries: dict[str, TemporaryVariable] = field(default_factory=dict)
    combined: dict[str, Combined] = field(default_factory=dict)

    def parts(self, old: Instruction) -> list[Instruction]:
        """Return *old*, behind instructions for its divided reductions."""
        expression = expand_rules(old.expression, self.kernel.substitutions)
        assignee = expand_rules(old.assignee, self.kernel.substitutions)
        predicates = tuple(expand_rules(entry, self.kernel.substitutions) for entry in old.predicates)
        old = replace(old, expression=expression, assignee=assignee, predicates=predicates)
        terms = dict(zip(map(_Key, reductions(expression)), old.terms, strict=True))
        before: list[Instruction] = []
        left: list[Term] = []

        def visit(expr: Expression) -> Expression:
            if isinstance(expr, Reduction):
                if self.axes(expr.inames):
                    return self.apart(old, expr, terms, before)
                left.append(terms[_Key(expr)])
            inner = children(expr)
            return rebuild_changed(expr, inner, tuple(map(visit, inner)))

        new = visit(expression)
        if before:
            own = frozenset(made.id for made in before)
            reads = (variables(new) | variables(assignee)).union(*map(variables, predicates)) - {*old.inames}
            old = replace(old, expression=new, terms=tuple(left), depends_on=old.depends_on | own, reads=reads)
        self.note_update(old)
        return [*before, old]

    def axes(self, inames: Collection[str]) -> tuple[int, ...]:
        """Return the axes of the mesh that some of *inames* are divided over."""
        return tuple(sorted({self.division.inames[name] for name in inames if name in self.division.inames}))

    def apart(
        self, old: Instruction, node: Reduction, terms: Mapping[_Key, Term], before: list[Instruction]
    ) -> Expression:
        """Add the instruction of a reduction, and return the element that has its result."""
        axes = self.axes(node.inames)
        term = terms[_Key(node)]
        outer = term.inames[: len(term.inames) - len(node.inames)]
        inside = [entry for entry in reductions(node.expr) if self.axes(entry.inames)]
        name = node.operation.name
        if outer != old.inames or inside or node.along or node.start is not None or isinstance(node.expr, Terms):
            refuse(self.kernel, bad_distribution(
                f"'{old.id}' has divided reductions inside of each other, or one of several results", str(old),
                hint="assign the inner one to a temporary"))
        if name not in _COMBINED:
            refuse(self.kernel, Diagnostic(
                "not-combinable", f"ranks cannot combine their parts of '{node.operation}'", (str(old),),
                (f"use {', '.join(_COMBINED)}",)))
        target = self.element(old, f"{array_name(old.assignee)}_{name}")
        made = array_name(target)
        inner = tuple(terms[_Key(entry)] for entry in reductions(node))
        inames = dict.fromkeys((*old.inames, *(iname for part in inner for iname in part.inames)))
        before.append(replace(
            old, id=made, assignee=target, expression=node, terms=inner, predicates=(), atomic=False,
            origin=Copy(made, {iname: Affine.variable(iname) for iname in inames}),
            reads=(variables(node) | variables(target)) - {*inames} - {made}))
        self.combined[made] = Combined(made, made, name, axes, is_update=False)
        return target

    def element(self, old: Instruction, wish: str) -> Expression:
        """Return the element of a new temporary that an instance of *old* has in one iteration of the host."""
        name = self.kernel.fresh(wish, (*self.temporaries, *(entry.id for entry in self.kernel.instructions)))
        index, shape = [], []
        for iname in (iname for iname in old.inames if iname not in self.hosts):
            own = project_onto(old.domain.intersect_params(self.kernel.assumptions), old.inames, (iname,))
            interval = parametric_interval(own, 0, (iname,))
            if interval is None:
                refuse(self.kernel, bad_distribution(
                    f"no affine form bounds the loop over '{iname}', for whose iterations results are kept", str(old),
                    hint="bound it by parameters"))
            base, extent = interval
            if base.is_constant() and 0 <= base.const <= _FEW:
                base, extent = Affine((), 0), extent.add(base)
            index.append(to_expression(Affine.variable(iname).add(base, -1)))
            shape.append(to_expression(extent))
        self.temporaries[name] = TemporaryVariable(name, shape=tuple(shape))
        variable = p.Variable(name)
        return p.Subscript(variable, index[0] if len(index) == 1 else tuple(index)) if index else variable

    def note_update(self, old: Instruction) -> None:
        """Note an instruction that combines divided terms into an array that is whole on each rank."""
        target = array_name(old.assignee)
        if target not in {entry.name for entry in self.kernel.arguments}:
            return  # a temporary: its parts stay with their ranks
        found = update_of(old.assignee, old.expression)
        if found is None or found.operation not in _COMBINED or target not in variables(old.expression):
            return
        owned = {axis for axis in self.division.axes(target) if axis is not None}
        axes = self.axes(old.inames)
        if axes and owned <= {*axes} and self.is_shared(old):
            self.combined[old.id] = Combined(old.id, target, found.operation, axes, is_update=True)

    def is_shared(self, old: Instruction) -> bool:
        """Return whether no divided iname decides, as a subscript of its own, the element that is updated."""
        index = old.assignee.index_tuple if isinstance(old.assignee, p.Subscript) else ()
        forms = [affine_of(entry) for entry in index]
        return all(form is None or form.names().isdisjoint(self.division.inames) for form in forms)


class _Key:
    """A node by identity: two equal reductions have a domain each."""

    def __init__(self, node: Reduction) -> None:
        self.node = node

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.node is other.node

    def __hash__(self) -> int:
        return hash(self.node.inames)
