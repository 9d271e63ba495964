"""Transformed kernels broken by hand, as a faulty transform would: one change each, everything else as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import pymbolic.primitives as p

import polyloop as pl
from polyloop.expr.nodes import Lookup, Reduction, Targets, array_name
from polyloop.expr.operations import OPERATIONS
from polyloop.expr.rewrite import children, rebuild
from polyloop.frozen import replace
from polyloop.kernel.instruction import Copy, Instruction, Partial, SubstitutionRule, Term
from polyloop.kernel.tags import GroupAxis, LocalAxis, Sequential
from polyloop.poly.affine import Affine
from polyloop.poly.sets import SET, constant_bounds, map_from_forms

__all__ = ["Broken", "broken"]

Broken: TypeAlias = tuple[str, pl.LoopKernel]
"""How a kernel is broken, and the broken kernel."""

_Change: TypeAlias = Callable[[Any], Iterator[tuple[str, Any]]]
_FUNCTIONS = {"sin": "cos", "cos": "sin", "exp": "sqrt", "sqrt": "exp", "tanh": "sin"}
_OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}


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
    yield from _on_axes(knl)
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


def _changes(knl: pl.LoopKernel, old: Instruction) -> Iterator[tuple[str, Instruction]]:
    yield "right-hand side times 3", replace(old, expression=p.Product((3, old.expression)))
    yield "right-hand side plus 1", replace(old, expression=p.Sum((old.expression, 1)))
    changes: tuple[tuple[str, _Change], ...] = (
        ("subscript", _shifted),
        ("operand dropped", _dropped),
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
    yield from _instances(old)


def _instances(old: Instruction) -> Iterator[tuple[str, Instruction]]:
    if isinstance(old.origin, Copy | Partial):
        for iname, form in old.origin.forms.items():
            for label, other in (("plus 1", form.add(Affine((), 1))), ("times 2", form.scale(2))):
                forms = {**old.origin.forms, iname: other}
                yield f"map of {iname} {label}", replace(old, origin=replace(old.origin, forms=forms))
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


def _advanced(name: str, expr: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(expr, p.Variable) and expr.name == name:
        yield f"{name} + 1", p.Sum((p.Variable(name), 1))


def _shifted(expr: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(expr, p.Subscript):
        return
    indices: tuple[Any, ...] = expr.index_tuple
    for axis, index in enumerate(indices):
        new = (*indices[:axis], p.Sum((index, 1)), *indices[axis + 1 :])
        yield f"axis {axis} of {array_name(expr)} + 1", rebuild(expr, new)
    if len(indices) > 1 and indices[0] != indices[1]:
        yield f"axes of {array_name(expr)} swapped", rebuild(expr, (indices[1], indices[0], *indices[2:]))


def _dropped(expr: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(expr, p.Sum | p.Product | p.Min | p.Max | p.LogicalAnd | p.LogicalOr):
        for number in range(len(expr.children)):
            rest = (*expr.children[:number], *expr.children[number + 1 :])
            yield f"{number} of {type(expr).__name__}", rest[0] if len(rest) == 1 else rebuild(expr, rest)


def _replaced(knl: pl.LoopKernel, old: Instruction, expr: Any) -> Iterator[tuple[str, Any]]:
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


def _shape(knl: pl.LoopKernel, name: str) -> Any:
    array = knl.arrays().get(name)
    return None if array is None else array.shape


def _exchanged(expr: Any) -> Iterator[tuple[str, Any]]:
    match expr:
        case p.Comparison():
            yield "operator", p.Comparison(expr.left, _OTHER[expr.operator], expr.right)
            yield "sides", p.Comparison(expr.right, expr.operator, expr.left)
        case p.Quotient() | p.FloorDiv() | p.Remainder() | p.Power():
            yield type(expr).__name__, rebuild(expr, tuple(reversed(children(expr))))
        case p.If():
            yield "branches", p.If(expr.condition, expr.else_, expr.then)
            yield "condition", p.If(p.LogicalNot(expr.condition), expr.then, expr.else_)


def _reduced(expr: Any) -> Iterator[tuple[str, Any]]:
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


def _nodes(expr: Any, change: _Change) -> Iterator[tuple[str, Any]]:
    """Yield *expr* with one of its nodes changed, for each node and each change of it."""
    yield from change(expr)
    yield from _inside(expr, change)


def _inside(expr: Any, change: _Change) -> Iterator[tuple[str, Any]]:
    old = children(expr)
    for number, child in enumerate(old):
        found = _nodes(child, change) if not isinstance(expr, Targets | Lookup) else _inside(child, change)
        for label, new in found:
            yield label, rebuild(expr, (*old[:number], new, *old[number + 1 :]))
