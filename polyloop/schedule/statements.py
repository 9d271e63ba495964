"""Statements of a schedule: placed statements as code generation needs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import islpy as isl
import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, Record, Terms
from polyloop.expr.operations import neutral_element
from polyloop.expr.rewrite import substitute
from polyloop.frozen import replace
from polyloop.kernel.instruction import CopyStep
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Box
from polyloop.mapping.array_contraction import without_axes
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.optimize.over_execution import Edges
from polyloop.poly.affine import Affine, to_expression
from polyloop.program import ir
from polyloop.program.infer_types import accumulator_dtypes
from polyloop.schedule.collective import Collective
from polyloop.schedule.plan import (
    Action,
    Assign,
    Atomic,
    AwaitCopy,
    AwaitProducts,
    Product,
    StartCopy,
    Statement,
    Update,
)
from polyloop.sync.async_copy import arrivals
from polyloop.sync.async_product import Completion
from polyloop.verification.matrix_instructions import factor, is_swapped

__all__ = ["statements_of"]


def statements_of(
    exact: Placement, edges: Edges, axes: Mapping[str, frozenset[int]], collectives: Mapping[str, Collective],
    completions: Mapping[str, Completion],
) -> dict[str, Statement]:  # fmt: skip
    """Return the statements of a schedule, with over-executed instances at its *edges*.

    *exact* has the instances of the program alone.  *axes* are the contracted axes of temporaries, which are left out.
    *completions* are waited for in statements of their own.
    """
    kernel = exact.program.kernel
    pending = {entry.arrival.name: entry.pending for entry in arrivals(edges.placement)}
    statements: dict[str, Statement] = {}
    for name, placed in edges.placement.statements.items():
        if isinstance(placed.lowered.part, ir.Combine) and name not in collectives:
            continue  # a group of one thread has nothing to combine
        action = collectives.get(name) or _action(kernel, placed, pending.get(name, 0))
        statement = _statement(kernel, placed, axes, action)
        if statement is not None:
            statements[name] = statement
    for name in edges.filled & statements.keys():
        statement = statements[name]
        given = _statement(kernel, exact.statements[name], axes, statement.action)
        assert given is not None, f"over-executed instances of '{name}', which never runs"
        match statement.action:
            case StartCopy():
                filling: Action = replace(statement.action, copied=given.domain, is_awaited=name not in edges.unawaited)
            case Assign() | AwaitCopy() as copy:
                filling = replace(copy, copied=given.domain)
            case _:
                raise AssertionError(f"'{name}' is no copy")
        statements[name] = replace(statement, action=filling)
    statements.update(_waits(statements, completions))
    return statements


def _waits(
    statements: Mapping[str, Statement], completions: Mapping[str, Completion]
) -> dict[str, Statement]:
    """Return the waits for products that run on, and their issues, by name."""
    found: dict[str, Statement] = {}
    for name, entry in completions.items():
        issue = statements.get(entry.issue.name)
        if issue is None or entry.statement.domain.is_empty():
            continue
        assert isinstance(issue.action, Update), f"'{issue.name}' issues products"
        assert issue.action.product is not None, f"'{issue.name}' issues products"
        product = replace(issue.action.product, runs_on=True)
        found[issue.name] = replace(issue, action=replace(issue.action, product=product))
        found[name] = replace(issue, name=name, action=AwaitProducts(issue.name, product, entry.pending))
    return found


def _statement(
    kernel: LoopKernel, placed: Placed, axes: Mapping[str, frozenset[int]], action: Action
) -> Statement | None:
    """Return the scheduled form of a placed statement, None if it has no instances."""
    lowered = placed.lowered
    if placed.domain.is_empty():
        return None
    names = {iname: to_expression(form) for iname, form in placed.forms.items()}
    domain = placed.exact
    dims = list(placed.dims)
    if placed.digits is not None:
        names = {iname: to_expression(form) for iname, form in placed.digits.forms.items()}
        domain, dims = placed.digits.exact, list(placed.digits.dims)
    if repeated := tuple(n for n, dim in enumerate(dims) if dim in placed.repeated):
        domain = _without(domain, repeated)
    dims = [dim for dim in dims if dim not in placed.repeated]
    for name in lowered.bounds:
        position = domain.find_dim_by_name(isl.dim_type.param, name)
        domain = domain.move_dims(isl.dim_type.set, len(dims), isl.dim_type.param, position, 1)
        domain = domain.set_dim_name(isl.dim_type.set, len(dims), name)
        dims.append(name)
    part = lowered.part
    if isinstance(part, ir.Init) and lowered.rhs is None:
        rhs = neutral_element(part.reduction.operation, accumulator_dtypes(kernel)[lowered.write.array])
    else:
        rhs = without_axes(substitute(lowered.rhs, names), axes)
        if isinstance(rhs, Terms):
            rhs = Record(accumulator_dtypes(kernel)[lowered.write.array], rhs.children)
    return Statement(
        name=lowered.name,
        instruction=lowered.instruction.id,
        dims=tuple(dims),
        domain=domain,
        lhs=without_axes(substitute(lowered.lhs, names), axes),
        rhs=rhs,
        action=_with_product(action, placed, rhs),
        predicates=tuple(without_axes(substitute(predicate, names), axes) for predicate in lowered.predicates),
        bounds=lowered.bounds,
        fast=kernel.fast if lowered.instruction.fast is None else lowered.instruction.fast,
    )


def _action(kernel: LoopKernel, placed: Placed, pending: int) -> Action:
    """Return the action of a statement that is no collective operation; *pending* is for :class:`AwaitCopy`."""
    lowered = placed.lowered
    match lowered.part:
        case ir.Update(reduction):
            return Update(reduction.operation)
        case ir.Assign(atomic=str() as operation):
            return Atomic(operation)
        case ir.Assign() | ir.Init():
            box = frozenset(x for x in placed.dims if isinstance(kernel.tag(x), Box))
            match lowered.instruction.step:
                case CopyStep.START:
                    return StartCopy(box=box)
                case CopyStep.ARRIVAL:
                    return AwaitCopy(pending, box=box)
                case None:
                    return Assign(box=box)
                case _:
                    assert_never(lowered.instruction.step)
        case ir.Combine():
            raise AssertionError(f"'{lowered.name}' is a collective operation")
        case _:
            assert_never(lowered.part)


def _with_product(action: Action, placed: Placed, term: Expression) -> Action:
    """Return *action* with the matrix instruction of the reduction, if it has one."""
    matrix, lowered = placed.lowered.instruction.matrix, placed.lowered
    if matrix is None or not isinstance(action, Update):
        return action
    assert isinstance(term, p.Product), "it was proven that the terms are products"
    assert placed.digits is not None, "it was proven that lanes are digits of the thread number"
    left, right = (factor(part, matrix.intrinsic) for part in term.children)
    a, b = (right, left) if is_swapped(lowered, matrix) else (left, right)
    forms = placed.digits.forms
    axes = {}
    for axis in "ijk":
        pairs = [(name, c) for iname, c in matrix.of(axis) for name in forms.get(iname, Affine.variable(iname)).names()]
        axes[axis] = tuple(sorted(pairs, key=lambda pair: pair[1]))
    product = Product(matrix.intrinsic, a, b, axes, matrix.ahead, from_registers=matrix.from_registers)
    return replace(action, product=product)


def _without(domain: isl.Set, positions: tuple[int, ...]) -> isl.Set:
    """Return *domain* without the dimensions at *positions*."""
    for position in reversed(positions):
        domain = domain.project_out(isl.dim_type.set, position, 1)
    return domain
