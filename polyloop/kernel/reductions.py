"""User-defined reduction operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Annotated, Final

import pymbolic.primitives as p

from polyloop.display import Shown, brief
from polyloop.edge.checks import EXPLAINED
from polyloop.edge.words import shown, spelt
from polyloop.errors import Diagnostic, KernelError, unknown_name
from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import Expression, Extreme, Lookup, Neutral, Operation, Reduction, function_name
from polyloop.expr.operations import MODIFIERS, OPERATIONS, find_operation
from polyloop.expr.parser import parse_expression
from polyloop.expr.rewrite import accesses, calls, children, reductions

__all__ = ["ReductionOperation", "is_known", "operations_of"]

_CALL: Final = "ReductionOperation"


@dataclass(frozen=True)
class ReductionOperation(Shown):
    """An operation that reductions can use besides the built-in ones.

    ::

        norm = pl.ReductionOperation("norm", "sqrt(a*a + b*b)", neutral=0)
        lse = pl.ReductionOperation(
            "logsumexp",
            ("max(a.top, b.top)", "a.rest*exp(a.top - max(a.top, b.top)) + b.rest*exp(b.top - max(a.top, b.top))"),
            neutral=("least", 0), fields=("top", "rest"))
        knl = pl.make_kernel(
            "{[i, j]: 0 <= i < m and 0 <= j < n}",
            ["c[i] = norm(j, x[i, j])", "t, r = logsumexp(j, x[i, j], 1)", "y[i] = t + log(r)"],
            reductions=[norm, lse])

    The operation must be associative, and commutative unless ``ordered``; that is not checked.

    Parameters
    ----------
    name
        How kernels and generated code call it.
    combine
        Combination of two states ``a`` and ``b``, with the terms of ``a`` first: an expression of ``a`` and ``b``, with
        the functions that expressions have. With fields: one expression for each field, of ``a.value``, ``b.value`` and
        so on, or one that is ``a`` or ``b`` as a whole: ``"if(b.value > a.value, b, a)"``.
    neutral
        The result over no terms, which combines with any state to that state: a number, or ``"least"`` or
        ``"greatest"`` value of the type. With fields: one for each.
    fields
        Names of the parts of the state, if it has several. A reduction is then given one term for each of them, and
        its result is a record: ``reduce(name, i, x[i], i).index``, or ``v, k = name(i, x[i], i)``.
    ordered
        Whether the terms must be combined in their order, so that no transform may change it.

    Raises
    ------
    KernelError
        ``bad-identifier``, ``reserved-name``, ``name-taken``, ``bad-reduction``, ``syntax``, ``unknown-function``.
    """

    name: str
    combine: Annotated[str | tuple[str, ...], EXPLAINED]
    neutral: Annotated[bool | int | float | str | tuple[bool | int | float | str, ...], EXPLAINED]
    fields: Annotated[tuple[str, ...], EXPLAINED] = ()
    ordered: bool = False

    __repr__ = brief

    def __post_init__(self) -> None:
        for field in ("combine", "neutral", "fields"):
            value = getattr(self, field)
            if isinstance(value, list):
                object.__setattr__(self, field, tuple(value))
        self.operation()

    def operation(self) -> Operation:
        """Return the operation as data."""
        if not isinstance(self.fields, tuple):
            message = f"the fields of '{self.name}' are {spelt(self.fields)}"
            raise _bad(message, "list their names: fields=('value', 'index')")
        _check_names(self.name, self.fields)
        combine = self.combine if isinstance(self.combine, tuple) else (self.combine,)
        neutral = self.neutral if isinstance(self.neutral, tuple) else (self.neutral,)
        if len(neutral) != len(self.fields or (self.name,)):
            count = len(self.fields) or "one"
            message = f"'{self.name}' needs {count} neutral elements, and has {len(neutral)}"
            raise _bad(message, "give one for each field")
        if len(combine) not in {1, len(self.fields)}:
            hint = "write one expression for each field, or one that is a or b as a whole"
            raise _bad(f"'{self.name}' has {len(combine)} expressions that combine", hint)
        return Operation(
            self.name,
            tuple(_combination(self, text) for text in combine),
            tuple(_neutral(self.name, value) for value in neutral),
            self.fields,
            f"{self.name}_state" if self.fields else "",
            self.ordered,
        )


def _bad(message: str, hint: str) -> KernelError:
    return KernelError(_CALL, None, [Diagnostic("bad-reduction", message, hints=(hint,))])


def _check_names(name: str, fields: Sequence[object]) -> None:
    if name in OPERATIONS or name in MODIFIERS or name in ("reduce", "simul_reduce", "cast"):
        message = f"there is a reduction operation '{name}' already"
        raise KernelError(_CALL, None, [Diagnostic("name-taken", message, hints=("choose another name",))])
    if wrong := [field for field in fields if not isinstance(field, str)]:
        raise _bad(f"'{name}' has a field {shown(wrong[0])}", "list their names: fields=('value', 'index')")
    for part, what in ((name, "name of an operation"), *((str(field), "name of a field") for field in fields)):
        problem = check_identifier(part, what)
        if problem is not None:
            raise KernelError(_CALL, None, [problem])
    if len({*fields}) < len(fields):
        raise _bad(f"two fields of '{name}' have one name", "give each field a name of its own")


def _neutral(name: str, value: object) -> Neutral:
    if isinstance(value, str):
        found = next((extreme for extreme in Extreme if extreme.value == value), None)
        if found is None:
            raise _bad(f"'{name}' has the neutral element '{value}'", "give a number, 'least' or 'greatest'")
        return found
    if not isinstance(value, bool | int | float) or isnan(value):
        raise _bad(f"'{name}' has the neutral element {spelt(value)}", "give a number, 'least' or 'greatest'")
    return value


def _combination(spec: ReductionOperation, text: object) -> Expression:
    if not isinstance(text, str):
        raise _bad(f"'{spec.name}' combines by {spelt(text)}", 'write an expression of a and b: "a + b"')
    expr = parse_expression(text, inames=frozenset(), operation=_CALL)
    if reductions(expr):
        raise _bad(f"'{spec.name}' combines by a reduction: {text}", "write an expression of a and b")
    for access in accesses(expr):
        if not isinstance(access, p.Variable) or access.name not in ("a", "b"):
            hint = "the states are called a and b; constants are written as numbers"
            raise _bad(f"'{spec.name}' combines by an expression of more than a and b: {text}", hint)
    for call in calls(expr):
        if call.function.name not in FUNCTIONS:
            raise KernelError(_CALL, None, [unknown_name("function", call.function.name, FUNCTIONS)])
    _check_fields(spec, expr)
    return expr


def _check_fields(spec: ReductionOperation, expr: Expression) -> None:
    if isinstance(expr, Lookup) and isinstance(expr.aggregate, p.Variable):
        if not spec.fields:
            raise _bad(f"'{spec.name}' has no field '{expr.field}'", f"list it: fields=({expr.field!r}, ...)")
        if expr.field not in spec.fields:
            raise KernelError(_CALL, None, [unknown_name("field", expr.field, spec.fields)])
    for child in children(expr):
        _check_fields(spec, child)


def operations_of(given: object) -> tuple[Operation, ...]:
    """Return the operations that a kernel is given.

    Raises
    ------
    KernelError
        ``bad-reduction``, ``name-taken``.
    """
    found: dict[str, Operation] = {}
    for entry in given if isinstance(given, list | tuple) else (given,):
        if not isinstance(entry, ReductionOperation):
            hint = 'write reductions=[pl.ReductionOperation("name", "a + b", neutral=0)]'
            problem = Diagnostic("bad-reduction", f"{spelt(entry)} is no operation", hints=(hint,))
            raise KernelError("make_kernel", None, [problem])
        if entry.name in found:
            message = f"two reduction operations are called '{entry.name}'"
            raise KernelError("make_kernel", None, [Diagnostic("name-taken", message, hints=("rename one of them",))])
        found[entry.name] = entry.operation()
    return tuple(found.values())


def is_known(operation: Operation) -> bool:
    """Return whether an operation is built in, or one that a :class:`ReductionOperation` could be."""
    plain = replace(operation, of_states=False)
    if find_operation(str(operation)) == plain:
        return True
    count, names = len(operation.fields), {operation.name, *operation.fields}
    return (
        operation.name not in OPERATIONS
        and not any(check_identifier(name, "name") for name in names)
        and len({*operation.fields}) == count
        and len(operation.neutral) == max(1, count)
        and len(operation.combine) in {1, count}
        and bool(operation.record) == bool(count)
        and all(_is_combination(expr, operation.fields) for expr in operation.combine)
    )


def _is_combination(expr: Expression, fields: Sequence[str]) -> bool:
    """Return whether an expression combines the states ``a`` and ``b``, as :func:`_combination` reads it."""
    if isinstance(expr, Lookup):
        return expr.field in fields and isinstance(expr.aggregate, p.Variable) and expr.aggregate.name in ("a", "b")
    if isinstance(expr, p.Variable):
        return expr.name in ("a", "b")
    if isinstance(expr, p.Call) and function_name(expr) not in FUNCTIONS:
        return False
    return not isinstance(expr, Reduction | p.Subscript) and all(_is_combination(x, fields) for x in children(expr))
