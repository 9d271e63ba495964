"""Transformed kernels broken as a faulty transform would break them: one change each, everything else as it was.

The prover has to refuse a broken kernel, unless it computes the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import pymbolic.primitives as p

import polyloop as pl
from polyloop.expr.nodes import Expression, Lookup, Reduction, Targets, array_name
from polyloop.expr.operations import OPERATIONS
from polyloop.expr.rewrite import children, rebuild, reductions
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace, TemporaryVariable
from polyloop.kernel.instruction import Instruction, Move, MoveRole, SubstitutionRule, Term
from polyloop.kernel.tags import GroupAxis, LocalAxis, Sequential
from polyloop.poly.affine import Affine
from polyloop.poly.sets import SET, constant_bounds, map_from_forms
from polyloop.testing.drawing.random_chains import Step

__all__ = ["Break", "Broken", "broken", "random_breaks"]

Broken: TypeAlias = tuple[str, pl.LoopKernel]
"""The label of a change, and the kernel with that change."""

_Value = TypeVar("_Value")
_Change: TypeAlias = Callable[[Expression], Iterator[tuple[str, Expression]]]
_FUNCTIONS = {"sin": "cos", "cos": "sin", "exp": "sqrt", "sqrt": "exp", "tanh": "sin"}
_OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}


@dataclass(frozen=True)
class Break(Step):
    """The change of a kernel with a label of :func:`broken`, as the last step of a chain."""

    def __call__(self, kernel: pl.LoopKernel) -> pl.LoopKernel:
        """Return the broken kernel; the kernel itself if there is no such change of it."""
        return next((knl for label, knl in broken(kernel) if label == self.arguments["label"]), kernel)

    def script(self, variable: str = "knl") -> str:
        """Return the change as a line of Python."""
        return f"{variable} = dict(reversed([*broken({variable})]))[{self.arguments['label']!r}]"


def random_breaks(rng: random.Random, kernel: pl.LoopKernel, count: int) -> list[Break]:
    """Return at most *count* changes of *kernel*, those of each kind as often as those of any other."""
    kinds: dict[str, list[str]] = {}
    for label, _ in broken(kernel):
        kinds.setdefault(_kind(label), []).append(label)
    chosen = rng.sample(sorted(kinds), min(count, len(kinds)))
    return [Break("broken", {"label": rng.choice(kinds[kind])}) for kind in chosen]


def _kind(label: str) -> str:
    """Return the kind of a change: the first words behind the name of what is changed."""
    _, _, change = label.partition(": ")
    return " ".join(change.split()[:2])


def broken(knl: pl.LoopKernel) -> Iterator[Broken]:
    """Yield *knl* with one thing changed, for each thing that can be."""
    for number, old in enumerate(knl.instructions):
        if not old.is_c:
            for label, new in _changes(knl, old):
                instructions = (*knl.instructions[:number], new, *knl.instructions[number + 1 :])
                yield f"{old.id}: {label}", replace(knl, instructions=instructions)
        if number:
            order = [*knl.instructions]
            order[number - 1], order[number] = order[number], order[number - 1]
            yield f"{old.id}: before its neighbour", replace(knl, instructions=tuple(order))
        if len(knl.instructions) > 1:
            others = (*knl.instructions[:number], *knl.instructions[number + 1 :])
            yield f"{old.id}: left out", _without_dependences(replace(knl, instructions=others), old.id)
        again = replace(old, id=f"{old.id}_again")
        yield f"{old.id}: carried out twice", replace(knl, instructions=(*knl.instructions, again))
    yield from _on_axes(knl)
    yield from _in_memory(knl)
    yield from _other_facts(knl)
    for name, rule in knl.substitutions.items():
        changed = SubstitutionRule.of(name, rule.arguments, p.Product((3, rule.expression)))
        yield f"rule {name}: times 3", replace(knl, substitutions={**knl.substitutions, name: changed})
        for parameter in rule.arguments:
            for label, body in _nodes(rule.expression, partial(_advanced, parameter)):
                changed = SubstitutionRule.of(name, rule.arguments, body)
                yield f"rule {name}: {label}", replace(knl, substitutions={**knl.substitutions, name: changed})


def _on_axes(knl: pl.LoopKernel) -> Iterator[Broken]:
    """Yield *knl* with a sequential loop on an axis that no other loop is on."""
    taken = {str(tag) for tag in knl.iname_tags.values()}
    for iname in sorted(knl.inames):
        if not isinstance(knl.tag(iname), Sequential):
            continue
        axes = [(GroupAxis(number), LocalAxis(number)) for number in range(8)]
        for tag in (next(axis for axis in kind if str(axis) not in taken) for kind in zip(*axes, strict=True)):
            yield f"loop {iname}: on {tag}", replace(knl, iname_tags={**knl.iname_tags, iname: tag})


def _without_dependences(knl: pl.LoopKernel, gone: str) -> pl.LoopKernel:
    kept = tuple(replace(i, depends_on=i.depends_on - {gone}) for i in knl.instructions)
    return replace(knl, instructions=kept)


def _in_memory(knl: pl.LoopKernel) -> Iterator[Broken]:
    """Yield *knl* with a temporary that is smaller, elsewhere, or where another one is."""

    def changed(new: TemporaryVariable) -> pl.LoopKernel:
        return replace(knl, temporaries={**knl.temporaries, new.name: new})

    for name, old in knl.temporaries.items():
        if old.initializer is not None:
            continue
        shape = old.shape or ()
        for axis, extent in enumerate(shape):
            if isinstance(extent, int) and extent > 1:
                shorter = (*shape[:axis], extent - 1, *shape[axis + 1 :])
                yield f"{name}: axis {axis} shorter", changed(replace(old, shape=shorter))
        for space in AddressSpace:
            if space is not old.address_space:
                yield f"{name}: in {space} memory", changed(replace(old, address_space=space))
        for other, beside in knl.temporaries.items():
            if other < name and beside.dtype == old.dtype and beside.address_space is old.address_space:
                together = {x: replace(knl.temporaries[x], base_storage="pool") for x in (name, other)}
                yield f"{name}: stored where {other} is", replace(knl, temporaries={**knl.temporaries, **together})


_OTHER_ROLE = {
    MoveRole.LOAD: MoveRole.START, MoveRole.START: MoveRole.LOAD, MoveRole.STORE: MoveRole.ADD,
    MoveRole.ADD: MoveRole.STORE,
}  # fmt: skip


def _other_facts(knl: pl.LoopKernel) -> Iterator[Broken]:
    """Yield *knl* with a temporary that is taken for one of the program's."""
    for name in knl.evaluations:
        yield f"{name}: not among evaluations", replace(knl, evaluations=_without(knl.evaluations, name))
    for name in knl.partials:
        yield f"{name}: not among partials", replace(knl, partials=_without(knl.partials, name))
    for name in knl.buffers:
        yield f"{name}: not among buffers", replace(knl, buffers=_without(knl.buffers, name))


def _without(known: Mapping[str, _Value], name: str) -> Mapping[str, _Value]:
    return {x: value for x, value in known.items() if x != name}


def _changes(knl: pl.LoopKernel, old: Instruction) -> Iterator[tuple[str, Instruction]]:
    yield "right-hand side times 3", replace(old, expression=p.Product((3, old.expression)))
    yield "right-hand side plus 1", replace(old, expression=p.Sum((old.expression, 1)))
    changes: tuple[tuple[str, _Change], ...] = (
        ("subscript", _shifted),
        ("operand dropped", _dropped),
        ("operand doubled", _doubled),
        ("operand replaced", partial(_replaced, knl, old)),
        ("operands exchanged", _exchanged),
        ("reduction", _reduced),
    )
    for label, node in changes:
        for change, new in _nodes(old.expression, node):
            yield f"{label}: {change}", replace(old, expression=new)
        for change, new in _inside(old.assignee, node):
            yield f"{label} on the left: {change}", replace(old, assignee=new)
        for number, predicate in enumerate(old.predicates):
            for change, new in _nodes(predicate, node):
                predicates = (*old.predicates[:number], new, *old.predicates[number + 1 :])
                yield f"{label} in a condition: {change}", replace(old, predicates=predicates)
    for change, new in _shifted(old.assignee):
        yield f"assignee: {change}", replace(old, assignee=new)
    if old.predicates:
        yield "condition dropped", replace(old, predicates=old.predicates[1:])
        yield "condition negated", replace(old, predicates=(p.LogicalNot(old.predicates[0]), *old.predicates[1:]))
    yield from _other_roles(old)
    yield from _instances(old)


def _other_roles(old: Instruction) -> Iterator[tuple[str, Instruction]]:
    for iname, form in old.origin.forms.items():
        for label, other in (("plus 1", form.add(Affine((), 1))), ("times 2", form.scale(2))):
            forms = {**old.origin.forms, iname: other}
            yield f"map of {iname} {label}", replace(old, origin=replace(old.origin, forms=forms))
    if isinstance(old.origin, Move):
        yield "other role", replace(old, origin=replace(old.origin, role=_OTHER_ROLE[old.origin.role]))
    if old.step is not None:
        yield "step none", replace(old, step=None)
    if old.atomic:
        yield "atomic no more", replace(old, atomic=False)


def _instances(old: Instruction) -> Iterator[tuple[str, Instruction]]:
    for number, term in enumerate(old.terms):
        for position, iname in enumerate(term.inames):
            low, _ = constant_bounds(term.domain, position)
            if low is not None:
                fewer = replace(term, domain=term.domain.lower_bound_val(SET, position, low + 1))
                terms = (*old.terms[:number], fewer, *old.terms[number + 1 :])
                yield f"terms without {iname} = {low}", replace(old, terms=terms)
    for position, iname in enumerate(old.inames):
        _, high = constant_bounds(old.domain, position)
        if high is not None and high > 0:
            kept = old.domain.upper_bound_val(SET, position, high - 1)
            yield f"without {iname} = {high}", replace(old, domain=kept)
    yield from _with_other_terms(old)


def _with_other_terms(old: Instruction) -> Iterator[tuple[str, Instruction]]:
    """Yield *old* with a term more, or the first one less, of one of its reductions."""
    for number, term in enumerate(old.terms):
        iname = term.inames[-1]
        forms = [Affine.variable(x) for x in term.inames]
        next_ones = map_from_forms(term.domain, term.inames, [*forms[:-1], forms[-1].add(Affine((), 1))]).range()
        for label, domain in (("one more", term.domain.union(next_ones)), ("without the first", next_ones)):
            kept = domain if label == "one more" else domain.intersect(term.domain)
            terms = (*old.terms[:number], Term(term.inames, kept), *old.terms[number + 1 :])
            yield f"terms over {iname}: {label}", replace(old, terms=terms)


def _advanced(name: str, expr: Expression) -> Iterator[tuple[str, Expression]]:
    if isinstance(expr, p.Variable) and expr.name == name:
        yield f"{name} + 1", p.Sum((p.Variable(name), 1))


def _shifted(expr: Expression) -> Iterator[tuple[str, Expression]]:
    if not isinstance(expr, p.Subscript):
        return
    indices: tuple[Any, ...] = expr.index_tuple
    for axis, index in enumerate(indices):
        new = (*indices[:axis], p.Sum((index, 1)), *indices[axis + 1 :])
        yield f"axis {axis} of {array_name(expr)} + 1", rebuild(expr, new)
    if len(indices) > 1 and indices[0] != indices[1]:
        yield f"axes of {array_name(expr)} swapped", rebuild(expr, (indices[1], indices[0], *indices[2:]))


def _dropped(expr: Expression) -> Iterator[tuple[str, Expression]]:
    if isinstance(expr, p.Sum | p.Product | p.Min | p.Max | p.LogicalAnd | p.LogicalOr):
        for number in range(len(expr.children)):
            rest = (*expr.children[:number], *expr.children[number + 1 :])
            yield f"{number} of {type(expr).__name__}", rest[0] if len(rest) == 1 else rebuild(expr, rest)


def _doubled(expr: Expression) -> Iterator[tuple[str, Expression]]:
    if not isinstance(expr, p.Sum | p.Product):
        return
    for number, child in enumerate(expr.children):
        if not reductions(child):  # each has a domain of its own
            more = (*expr.children[:number], child, *expr.children[number:])
            yield f"{number} of {type(expr).__name__}", rebuild(expr, more)


def _replaced(knl: pl.LoopKernel, old: Instruction, expr: Expression) -> Iterator[tuple[str, Expression]]:
    kind: type = type(expr)
    if kind is bool:
        yield "truth", not expr
    elif kind in (int, float):
        yield "number", expr + 1
    elif kind is p.Subscript:
        name, rank = array_name(expr), len(expr.index_tuple)
        others = [x for x, array in knl.arrays().items() if x != name and len(array.shape or ()) == rank]
        yield from ((f"{name} by {x}", p.Subscript(p.Variable(x), expr.index)) for x in others[:1])
    elif kind is p.Variable and expr.name in old.inames:
        yield f"{expr.name} + 1", p.Sum((expr, 1))
    elif kind is p.Variable:
        names = [x for x in (*knl.values(), *knl.arrays()) if x != expr.name and not _shape(knl, x)]
        yield from ((f"{expr.name} by {x}", p.Variable(x)) for x in names[:1])
    elif kind is p.Call and expr.function.name in _FUNCTIONS:
        yield "function", p.Call(p.Variable(_FUNCTIONS[expr.function.name]), expr.parameters)


def _shape(knl: pl.LoopKernel, name: str) -> object:
    array = knl.arrays().get(name)
    return None if array is None else array.shape


def _exchanged(expr: Expression) -> Iterator[tuple[str, Expression]]:
    match expr:
        case p.Comparison():
            yield "operator", p.Comparison(expr.left, _OTHER[expr.operator], expr.right)
            yield "sides", p.Comparison(expr.right, expr.operator, expr.left)
        case p.Quotient() | p.FloorDiv() | p.Remainder() | p.Power():
            yield type(expr).__name__, rebuild(expr, tuple(reversed(children(expr))))
        case p.If():
            yield "branches", p.If(expr.condition, expr.else_, expr.then)
            yield "condition", p.If(p.LogicalNot(expr.condition), expr.then, expr.else_)


def _reduced(expr: Expression) -> Iterator[tuple[str, Expression]]:
    if not isinstance(expr, Reduction):
        return
    name = expr.operation.name
    if name in OPERATIONS and not expr.operation.fields:
        other = OPERATIONS["max" if name != "max" else "min"]
        yield "operation", replace(expr, operation=replace(other, of_states=expr.operation.of_states))
        begins = replace(expr.operation, neutral=(True,) if name == "any" else (1,) if name != "product" else (2,))
        yield "initial value", replace(expr, operation=begins)
    if expr.start is not None:
        yield "start", replace(expr, start=None)
    if expr.along:
        yield "exclusive", replace(expr, after=not expr.after)


def _nodes(expr: Expression, change: _Change) -> Iterator[tuple[str, Expression]]:
    """Yield *expr* with one of its nodes changed, for each node and each change of it."""
    yield from change(expr)
    yield from _inside(expr, change)


def _inside(expr: Expression, change: _Change) -> Iterator[tuple[str, Expression]]:
    old = children(expr)
    for number, child in enumerate(old):
        found = _nodes(child, change) if not isinstance(expr, Targets | Lookup) else _inside(child, change)
        for label, new in found:
            yield label, rebuild(expr, (*old[:number], new, *old[number + 1 :]))
