"""Renaming of a kernel before its transforms: inames, variables and instructions, for ``fuse_kernels``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import Place
from polyloop.expr.nodes import Expression, function_name
from polyloop.expr.rewrite import map_nodes, substitute
from polyloop.kernel.arrays import Argument, ArrayArg, TemporaryVariable
from polyloop.kernel.domains import align
from polyloop.kernel.instruction import Copy, ExplicitBarrier, Instruction, Term
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.kernel.layout import Auto
from polyloop.kernel.text.match import Glob
from polyloop.kernel.text.options import NoSync
from polyloop.poly.affine import Affine
from polyloop.poly.sets import rename_dims

__all__ = ["Names", "instruction_under", "renamed"]


@dataclass(frozen=True)
class Names:
    """Old name -> new one: of variables (inames, arrays, temporaries, rules), and of instructions."""

    variables: Mapping[str, str] = field(default_factory=dict)
    instructions: Mapping[str, str] = field(default_factory=dict)

    def variable(self, name: str) -> str:
        """Return the new name of a variable."""
        return self.variables.get(name, name)

    def instruction(self, name: str) -> str:
        """Return the new name of an instruction."""
        return self.instructions.get(name, name)

    def all(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the new names of variables."""
        return tuple(map(self.variable, names))

    def expression(self, expr: Expression) -> Expression:
        """Return *expr* under the new names."""
        names = {old: p.Variable(new) for old, new in self.variables.items()}
        if not names:
            return expr

        def call(node: Expression) -> Expression:
            new = names.get(function_name(node)) if type(node) is p.Call else None
            return node if new is None else p.Call(new, node.parameters)

        return map_nodes(substitute(expr, names), call)

    def set(self, domain: isl.Set) -> isl.Set:
        """Return *domain* with its dimensions and parameters under the new names."""
        return rename_dims(domain, self.variables)


def instruction_under(old: Instruction, names: Names, first_block: int, space: isl.Set) -> Instruction:
    """Return *old*, which must be as it was written, under new names and over the parameters of *space*.

    *first_block* is added to the numbers of its ``for`` blocks, so that no two kernels share one.
    """
    origin = old.origin
    assert isinstance(origin, Copy), "an instruction as written is a copy of itself"
    new_id = names.instruction(old.id)
    terms = tuple(Term(names.all(term.inames), align(names.set(term.domain), space)) for term in old.terms)
    new = replace(
        old,
        id=new_id,
        inames=names.all(old.inames),
        domain=align(names.set(old.domain), space),
        assignee=names.expression(old.assignee),
        expression=names.expression(old.expression),
        origin=Copy(new_id, {iname: Affine.variable(iname) for iname in names.all(tuple(origin.forms))}),
        terms=terms,
        predicates=tuple(names.expression(predicate) for predicate in old.predicates),
        depends_on=frozenset(map(names.instruction, old.depends_on)),
        nosync=frozenset(_nosync(entry, names) for entry in old.nosync),
        blocks=tuple((names.variable(iname), number + first_block) for iname, number in old.blocks),
        matrix=None if old.matrix is None else old.matrix.renamed(names.variables),
        reads=frozenset(map(names.variable, old.reads)),
    )
    return new if str(new) == str(old) else replace(new, place=Place())


def _nosync(entry: NoSync, names: Names) -> NoSync:
    assert isinstance(entry.which, Glob), "an instruction names others by their ids"
    return replace(entry, which=replace(entry.which, pattern=names.instruction(entry.which.pattern)))


def _barrier(old: ExplicitBarrier, names: Names, first_block: int) -> ExplicitBarrier:
    return replace(
        old,
        id=names.instruction(old.id),
        blocks=tuple((names.variable(iname), number + first_block) for iname, number in old.blocks),
        before=frozenset(map(names.instruction, old.before)),
    )


def _argument(old: Argument, names: Names) -> Argument:
    if not isinstance(old, ArrayArg):
        owner = None if old.layout_of is None else names.variable(old.layout_of)
        return replace(old, name=names.variable(old.name), layout_of=owner)
    return replace(
        old,
        name=names.variable(old.name),
        shape=_extents(old.shape, names),
        strides=_extents(old.strides, names),
        offset=old.offset if isinstance(old.offset, Auto) else names.expression(old.offset),
    )


def _extents(shape: tuple[Expression, ...] | None, names: Names) -> tuple[Expression, ...] | None:
    return None if shape is None else tuple(names.expression(extent) for extent in shape)


def _temporary(old: TemporaryVariable, names: Names) -> TemporaryVariable:
    return replace(old, name=names.variable(old.name), shape=_extents(old.shape, names))


def renamed(kernel: LoopKernel, names: Names, first_block: int, space: isl.Set) -> LoopKernel:
    """Return *kernel*, which must be as it was written, under new names and over the parameters of *space*."""
    rules = [
        replace(rule.mapped(names.expression), name=names.variable(rule.name)) for rule in kernel.substitutions.values()
    ]
    temporaries = [_temporary(old, names) for old in kernel.temporaries.values()]
    return replace(
        kernel,
        parameters=names.all(kernel.parameters),
        assumptions=align(names.set(kernel.assumptions), space),
        domains=tuple(Domain(names.all(piece.inames), names.set(piece.set)) for piece in kernel.domains),
        instructions=tuple(instruction_under(old, names, first_block, space) for old in kernel.instructions),
        barriers=tuple(_barrier(old, names, first_block) for old in kernel.barriers),
        arguments=tuple(_argument(old, names) for old in kernel.arguments),
        temporaries={new.name: new for new in temporaries},
        substitutions={new.name: new for new in rules},
        loop_priority=tuple(names.all(chain) for chain in kernel.loop_priority),
    )
