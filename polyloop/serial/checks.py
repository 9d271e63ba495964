"""Checks of what is read: types of fields by their annotations, operands of expressions, names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from polyloop.edge.checks import fits, is_exact
from polyloop.edge.words import shown
from polyloop.serial.classes import hints_of, is_operand, rules_of

__all__ = ["problem_of"]

_NAME: Final = re.compile(r"[^\w\s\"'\\;]?[A-Za-z_]\w*(@\d+)?", re.ASCII)
"""A name of the user's, or of a parameter of a rule, which has a sign in front."""
_COMPARISONS: Final = ("==", "!=", "<", ">", "<=", ">=")


def problem_of(kind: Any, given: Mapping[str, object]) -> str:  # noqa: ANN401 - a class
    """Return the fault in *given* as the fields of an instance of *kind*, empty if there is none."""
    if _is_expression(kind):
        return next((text for name, value in given.items() if (text := _operand_problem(kind, name, value))), "")
    hints, rules = hints_of(kind), rules_of(kind)
    for name, value in given.items():
        if not is_exact(hints[name], value) or not fits(rules[name], value):
            return f"{name} cannot be {shown(value)}"
    return ""


def _is_expression(kind: type[Any]) -> bool:
    return kind.__module__ == "pymbolic.primitives"


def _operand_problem(kind: type[Any], name: str, value: object) -> str:
    """Return the fault in a field of an expression's node, empty if there is none."""
    if name == "name":
        return "" if isinstance(value, str) and _NAME.fullmatch(value) else f"{shown(value)} is no name"
    if name == "operator":
        return "" if value in _COMPARISONS else f"{shown(value)} is no comparison"
    if name == "function":
        return "" if hasattr(value, "name") and is_operand(value) else f"{shown(value)} is no function"
    if name == "children" or isinstance(value, tuple):
        fine = isinstance(value, tuple) and all(map(is_operand, value)) and (len(value) > 0 or name != "children")
        return "" if fine else f"{name} are no operands: {shown(value)}"
    if kind.__name__ == "Slice" and value is None:
        return ""
    return "" if is_operand(value) else f"{name} is no operand: {shown(value)}"

