"""Checks of what is read: types of fields by their annotations, operands of expressions, names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from polyloop.edge.checks import fits
from polyloop.edge.words import shown
from polyloop.serial.classes import hints_of

__all__ = ["problem_of"]

_NAME: Final = re.compile(r"[^\w\s\"'\\;]?[A-Za-z_]\w*(@\d+)?", re.ASCII)
"""A name of the user's, or of a parameter of a rule, which has a sign in front."""
_COMPARISONS: Final = ("==", "!=", "<", ">", "<=", ">=")
_NUMBERS: Final = (bool, int, float, complex, np.generic)


def problem_of(kind: Any, given: Mapping[str, object]) -> str:  # noqa: ANN401 - a class
    """Return the fault in *given* as the fields of an instance of *kind*, empty if there is none."""
    if _is_expression(kind):
        return next((text for name, value in given.items() if (text := _operand_problem(kind, name, value))), "")
    hints = hints_of(kind)
    for name, value in given.items():
        if not fits(hints[name], value):
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
    if name == "children" or isinstance(value, tuple):
        fine = isinstance(value, tuple) and all(map(_is_operand, value))
        return "" if fine else f"{name} are no operands: {shown(value)}"
    if kind.__name__ == "Slice" and value is None:
        return ""
    return "" if _is_operand(value) else f"{name} is no operand: {shown(value)}"


def _is_operand(value: object) -> bool:
    return isinstance(value, _NUMBERS) or hasattr(value, "mapper_method")
