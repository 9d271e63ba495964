"""New statements and loops, and the kernel that they make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeAlias

import islpy as isl
import pymbolic.primitives as p

from polyloop.creation.create import complete_kernel
from polyloop.derivatives.tidy import tidied
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import reductions, substitute, variables
from polyloop.kernel.arrays import Argument, ArrayArg, TemporaryVariable, ValueArg
from polyloop.kernel.domains import align
from polyloop.kernel.instruction import Copy, Instruction, Term
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.poly.affine import Affine
from polyloop.poly.sets import project_onto, rename_dims

__all__ = ["Emitted", "Nest", "NestNode", "Reductions", "element", "kernel_of", "nested", "plain_array"]

Reductions: TypeAlias = "dict[tuple[str, ...], tuple[tuple[str, ...], isl.Set]]"
"""For the inames of each reduction: those of its terms, and their domain."""


@dataclass(frozen=True, eq=False)
class Emitted:
    """``target = value`` for every point of ``domain``; where ``atomic``, an atomic update."""

    name: str
    dims: tuple[str, ...]
    domain: isl.Set
    target: Expression
    value: Expression
    terms: Reductions = field(default_factory=dict)
    predicates: tuple[Expression, ...] = ()
    atomic: bool = False


@dataclass(frozen=True, eq=False)
class Nest:
    """A loop around statements."""

    iname: str
    body: tuple[NestNode, ...]


NestNode: TypeAlias = "Nest | Emitted"


def kernel_of(
    original: LoopKernel, name: str, nodes: Sequence[NestNode], arguments: Sequence[Argument],
    temporaries: Mapping[str, TemporaryVariable],
) -> LoopKernel:  # fmt: skip
    """Return the kernel of loops and statements, completed and checked.

    Parameters
    ----------
    original
        The reference program that is differentiated; sizes, assumptions and options are its.
    arguments, temporaries
        Those that may occur; the ones that do not are left out.
    """
    nodes = _reduced_apart(original, nodes)
    instructions = tuple(_instructions(original, nodes))
    used = frozenset[str]().union(*(_names(instruction) for instruction in instructions))
    kept = _used(arguments, used, original)
    kernel = LoopKernel(
        name=name,
        parameters=original.parameters,
        assumptions=original.assumptions,
        domains=tuple(_domains(original, instructions)),
        instructions=instructions,
        arguments=kept,
        temporaries={entry.name: entry for entry in temporaries.values() if entry.name in used},
        fixed=original.fixed,
        foreign=original.foreign,
        index_dtype=original.index_dtype,
        silenced_warnings=original.silenced_warnings,
        preambles=original.preambles,
        target=original.target,
        fast=original.fast,
        waivers=original.waivers,
    )
    return complete_kernel(kernel, None)


def _reduced_apart(original: LoopKernel, nodes: Sequence[NestNode]) -> tuple[NestNode, ...]:
    """Return *nodes* with other names for the inames of reductions that are loops elsewhere, which may get tags."""
    loops = {iname for made in _all(nodes) for iname in made.dims}
    taken = {*loops, *(name for made in _all(nodes) for key in made.terms for name in key)}

    def apart(made: Emitted) -> Emitted:
        names = {}
        for iname in dict.fromkeys(iname for key in made.terms for iname in key):
            if iname in loops:
                names[iname] = original.fresh(f"{iname}_sum", taken)
                taken.add(names[iname])
        if not names:
            return made
        new = {old: p.Variable(name) for old, name in names.items()}

        def all_of(inames: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(names.get(iname, iname) for iname in inames)

        terms = {all_of(key): (all_of(inames), rename_dims(domain, names))
                 for key, (inames, domain) in made.terms.items()}
        return replace(made, value=substitute(made.value, new), terms=terms)

    def visit(inside: Sequence[NestNode]) -> tuple[NestNode, ...]:
        return tuple(Nest(node.iname, visit(node.body)) if isinstance(node, Nest) else apart(node) for node in inside)

    return visit(nodes)


def _all(nodes: Sequence[NestNode]) -> Iterator[Emitted]:
    for node in nodes:
        if isinstance(node, Nest):
            yield from _all(node.body)
        else:
            yield node


def _used(arguments: Sequence[Argument], used: frozenset[str], original: LoopKernel) -> tuple[Argument, ...]:
    arrays = {entry.name for entry in arguments if isinstance(entry, ArrayArg) and entry.name in used}
    kept: list[Argument] = []
    for entry in arguments:
        if isinstance(entry, ValueArg):
            owner = entry.layout_of
            if entry.name in original.parameters or entry.name in used or owner in arrays:
                kept.append(entry)
        elif entry.name in used:
            kept.append(entry)
    return tuple(kept)


def _names(instruction: Instruction) -> frozenset[str]:
    found = variables(instruction.expression) | variables(instruction.assignee)
    return found.union(*map(variables, instruction.predicates))


def _instructions(original: LoopKernel, nodes: Sequence[NestNode]) -> Iterator[Instruction]:
    numbers = count()
    taken: set[str] = set()

    def visit(inside: Sequence[NestNode], blocks: tuple[tuple[str, int], ...]) -> Iterator[Instruction]:
        for node in inside:
            if isinstance(node, Nest):
                yield from visit(node.body, (*blocks, (node.iname, next(numbers))))
            else:
                name = node.name if node.name not in taken else next(
                    wish for i in count() if (wish := f"{node.name}_{i}") not in taken)
                taken.add(name)
                yield _instruction(original, replace(node, name=name), blocks)

    yield from visit(nodes, ())


def _instruction(original: LoopKernel, made: Emitted, blocks: tuple[tuple[str, int], ...]) -> Instruction:
    space = original.assumptions
    made = tidy(made, original.parameters)
    terms = []
    for node in reductions(made.value):
        inames, domain = made.terms[node.inames]
        terms.append(Term(inames, align(domain, space)))
    inames = tuple(dict.fromkeys((*made.dims, *(name for term in terms for name in term.inames))))
    found = variables(made.value).union(*map(variables, made.predicates), *map(variables, _indices(made.target)))
    return Instruction(
        id=made.name,
        inames=made.dims,
        domain=align(made.domain, space),
        assignee=made.target,
        expression=made.value,
        origin=Copy(made.name, {iname: Affine.variable(iname) for iname in inames}),
        terms=tuple(terms),
        predicates=made.predicates,
        blocks=blocks,
        atomic=made.atomic,
        reads=found - set(inames),
    )


def tidy(made: Emitted, parameters: Sequence[str]) -> Emitted:
    """Return a statement with its subscripts and conditions in their shortest form."""
    target = tidied(made.target, made.dims, made.domain, made.terms, parameters)
    return replace(made, target=target, value=tidied(made.value, made.dims, made.domain, made.terms, parameters))


def _indices(target: Expression) -> tuple[Expression, ...]:
    return tuple(target.index_tuple) if isinstance(target, p.Subscript) else ()


def _domains(original: LoopKernel, instructions: Sequence[Instruction]) -> Iterator[Domain]:
    """Yield the domain of each iname: the values that it has anywhere."""
    found: dict[str, isl.Set] = {}
    for instruction in instructions:
        nests = [(instruction.inames, instruction.domain), *((term.inames, term.domain) for term in instruction.terms)]
        for inames, domain in nests:
            for iname in inames:
                own = project_onto(domain, inames, (iname,))
                known = found.get(iname)
                found[iname] = own if known is None else known.union(own)
    for iname, domain in found.items():
        yield Domain((iname,), domain.gist_params(original.assumptions).coalesce())


def plain_array(entry: ArrayArg, name: str, *, is_input: bool, is_output: bool) -> ArrayArg:
    """Return an array argument of the shape and type of *entry*, stored without gaps."""
    return ArrayArg(name, entry.dtype, entry.shape, order=entry.order, is_input=is_input, is_output=is_output,
                    dim_names=entry.dim_names)


def element(name: str, dims: Sequence[str]) -> Expression:
    """Return the element of *name* whose subscripts are inames."""
    index = tuple(map(p.Variable, dims))
    return p.Variable(name) if not dims else p.Subscript(p.Variable(name), index[0] if len(index) == 1 else index)


def nested(dims: Sequence[str], made: Emitted) -> NestNode:
    """Return a statement in loops of its own."""
    node: NestNode = made
    for iname in reversed(dims):
        node = Nest(iname, (node,))
    return node
