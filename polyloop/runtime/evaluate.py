"""Exact evaluation of the integer expressions in a generated program (sizes, grids, checks), and of conditions.

Conditions that the host decides are evaluated as threads evaluate them (:mod:`polyloop.schedule.asked`).
"""

from __future__ import annotations

import ctypes
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from pymbolic import primitives as p

from polyloop.codegen.program import AskedElement, DeviceLaunch, HostCondition
from polyloop.expr.nodes import Expression
from polyloop.memo import memoised
from polyloop.target.scalars import Compiler
from polyloop.verification.computed_subscripts import Inside

__all__ = ["Read", "affine_in", "describe", "element_at", "evaluate", "has_reads", "holds", "names_in", "scalar_names"]

_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(expression: Expression, values: Mapping[str, int]) -> int:
    """Return the value of *expression* in exact integers; truth values are 0 and 1.

    Division and remainder round towards minus infinity, as in Python and in ISL.

    Parameters
    ----------
    values
        A value for every variable of *expression*.
    """
    match expression:
        case bool() | int() | np.integer() | np.bool_():
            return int(expression)
        case p.Variable():
            assert expression.name in values, f"no value for '{expression.name}'"
            return values[expression.name]
        case p.Sum():
            return sum(evaluate(child, values) for child in expression.children)
        case p.Product():
            product = 1
            for child in expression.children:
                product *= evaluate(child, values)
            return product
        case p.FloorDiv():
            return evaluate(expression.numerator, values) // evaluate(expression.denominator, values)
        case p.Remainder():
            return evaluate(expression.numerator, values) % evaluate(expression.denominator, values)
        case p.Power():
            exponent = evaluate(expression.exponent, values)
            assert exponent >= 0, f"negative exponent in {expression}"
            return int(evaluate(expression.base, values) ** exponent)
        case _:
            return int(_choice(expression, values))


def _choice(expression: Expression, values: Mapping[str, int]) -> bool | int:
    match expression:
        case p.Min():
            return min(evaluate(child, values) for child in expression.children)
        case p.Max():
            return max(evaluate(child, values) for child in expression.children)
        case p.Comparison():
            compare = _COMPARE[str(getattr(expression.operator, "value", expression.operator))]
            return compare(evaluate(expression.left, values), evaluate(expression.right, values))
        case p.LogicalAnd():
            return all(evaluate(child, values) for child in expression.children)
        case p.LogicalOr():
            return any(evaluate(child, values) for child in expression.children)
        case p.LogicalNot():
            return not evaluate(expression.child, values)
        case p.If():
            taken = expression.then if evaluate(expression.condition, values) else expression.else_
            return evaluate(taken, values)
        case Inside():
            return expression.holds(values)
        case _:
            raise AssertionError(f"not an integer expression: {expression!r}")


def names_in(expression: Expression) -> frozenset[str]:
    """Return the names of all variables of *expression*."""
    match expression:
        case bool() | int() | np.integer() | np.bool_():
            return frozenset()
        case p.Variable():
            return frozenset((expression.name,))
        case p.Sum() | p.Product() | p.Min() | p.Max() | p.LogicalAnd() | p.LogicalOr():
            return frozenset[str]().union(*(names_in(child) for child in expression.children))
        case p.FloorDiv() | p.Remainder():
            return names_in(expression.numerator) | names_in(expression.denominator)
        case p.Power():
            return names_in(expression.base) | names_in(expression.exponent)
        case p.Comparison():
            return names_in(expression.left) | names_in(expression.right)
        case p.LogicalNot():
            return names_in(expression.child)
        case p.If():
            return names_in(expression.condition) | names_in(expression.then) | names_in(expression.else_)
        case Inside():
            return expression.names
        case _:
            raise AssertionError(f"not an integer expression: {expression!r}")


def affine_in(
    expression: Expression, known: Mapping[str, int]
) -> tuple[dict[str, int], int] | None:
    """Return *expression* as coefficients of its unknown names and a constant.

    None where the unknowns occur in no affine way, as in ``n // 2`` with ``n`` unknown.
    """
    if names_in(expression) <= known.keys():
        return {}, evaluate(expression, known)
    match expression:
        case p.Variable():
            return {expression.name: 1}, 0
        case p.Sum():
            total: dict[str, int] = {}
            constant = 0
            for child in expression.children:
                part = affine_in(child, known)
                if part is None:
                    return None
                for name, coefficient in part[0].items():
                    total[name] = total.get(name, 0) + coefficient
                constant += part[1]
            return {name: c for name, c in total.items() if c}, constant
        case p.Product():
            form: tuple[dict[str, int], int] = ({}, 1)
            for child in expression.children:
                part = affine_in(child, known)
                if part is None or (part[0] and form[0]):
                    return None
                linear, factor = (form, part[1]) if form[0] else (part, form[1])
                form = ({n: c * factor for n, c in linear[0].items() if c * factor}, linear[1] * factor)
            return form
        case _:
            return None


def describe(expression: Expression, values: Mapping[str, int]) -> str:
    """Return ``n = 5, m = 3`` for the names of *expression*, or an empty string."""
    return ", ".join(f"{name} = {values[name]}" for name in sorted(names_in(expression)) if name in values)


# {{{ conditions of the host

Read: TypeAlias = Callable[[AskedElement], "np.generic[Any] | Any"]
"""Gives the element that memory holds once everything that was started is done."""


def _conditions(launches: Iterable[DeviceLaunch]) -> Iterator[HostCondition]:
    for launch in launches:
        yield from (found for found in (launch.condition, *(loop.test for loop in launch.around)) if found is not None)


def has_reads(launches: Iterable[DeviceLaunch]) -> bool:
    """Return whether the host reads memory to decide how often a loop runs."""
    return any(condition.elements for condition in _conditions(launches))


def scalar_names(launches: Iterable[DeviceLaunch]) -> frozenset[str]:
    """Return the arguments, and inames of the host, that conditions depend on."""
    return frozenset(
        name for condition in _conditions(launches) for name, _ in condition.types
        if name not in {element.name for element in condition.elements}
    )  # fmt: skip


def element_at(address: int, element: AskedElement) -> np.generic:
    """Return an element of the array at *address* in host memory."""
    size = element.dtype.itemsize
    raw = memoryview((ctypes.c_char * size).from_address(address + element.place * size))
    found: np.generic = np.frombuffer(raw, element.dtype)[0]
    return found


@memoised
def _compiled(condition: HostCondition) -> tuple[Callable[[], Any], dict[str, Any], threading.Lock]:
    """Return the function that evaluates a condition, its variables, and the lock that keeps them."""
    values = dict[str, Any]()
    return Compiler("host", values, {}, {}, dict(condition.types)).value(condition.condition), values, threading.Lock()


def holds(condition: HostCondition | None, values: Mapping[str, Any], read: Read | None) -> bool:
    """Return whether *condition* holds; one that reads memory does without *read*, as threads ask for it, too."""
    if condition is None or (condition.elements and read is None):
        return True
    if condition.is_whole:
        try:
            return bool(evaluate(condition.condition, {name: int(values[name]) for name, _ in condition.types}))
        except ZeroDivisionError:
            return False  # no instance runs, or what it does is not defined
    known = {element.name: read(element) for element in condition.elements} if read is not None else {}
    known |= {name: values[name] for name, _ in condition.types if name not in known}
    closure, point, lock = _compiled(condition)
    with lock, np.errstate(all="ignore"):
        point.update(known)
        return bool(closure())

# }}}
