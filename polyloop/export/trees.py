"""Integer expressions as lists that JSON holds: their values, and their text in C."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

__all__ = ["MOST_DEPTH", "Tree", "affine", "c_text", "is_tree", "names", "value"]

Tree: TypeAlias = Any
"""An integer, a name, or a list: an operator and its operands."""

MOST_DEPTH: Final = 200
_MANY: Final[Mapping[str, Callable[[list[int]], int]]] = {
    "+": sum, "min": min, "max": max, "and": lambda found: int(all(found)), "or": lambda found: int(any(found)),
}  # fmt: skip
_TWO: Final[Mapping[str, Callable[[int, int], int]]] = {
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
}
_COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})
_FUNCTIONS: Final = {"+": "plus", "min": "min", "max": "max", "*": "times", "//": "floor_div", "%": "modulo"}


def is_tree(tree: object, known: frozenset[str], depth: int = 0) -> bool:
    """Return whether *tree* is an expression in names that are *known*."""
    if isinstance(tree, str):
        return tree in known
    if not isinstance(tree, list):
        return type(tree) is int
    if depth > MOST_DEPTH or not tree or not isinstance(tree[0], str):
        return False
    operator, *operands = tree
    counts = {1: {"not"}, 2: {*_TWO}, 3: {"if"}}
    fits = bool(operands) if operator in _MANY else operator in counts.get(len(operands), ())
    return fits and all(is_tree(operand, known, depth + 1) for operand in operands)


def value(tree: Tree, values: Mapping[str, int]) -> int:
    """Return the value of *tree* in exact integers; truth values are 0 and 1.

    Division and remainder round towards minus infinity.

    Parameters
    ----------
    values
        A value for every name of *tree*.
    """
    match tree:
        case int():
            return tree
        case str():
            return values[tree]
        case ["if", condition, then, otherwise]:
            return value(then if value(condition, values) else otherwise, values)
        case ["not", operand]:
            return int(not value(operand, values))
        case ["and", *operands]:
            return int(all(value(operand, values) for operand in operands))
        case ["or", *operands]:
            return int(any(value(operand, values) for operand in operands))
        case [operator, *operands]:
            found = [value(operand, values) for operand in operands]
            return _MANY[operator](found) if operator in _MANY else _TWO[operator](*found)
        case _:
            raise AssertionError(f"no expression: {tree!r}")


def names(tree: Tree) -> frozenset[str]:
    """Return the names in *tree*."""
    if isinstance(tree, str):
        return frozenset((tree,))
    return frozenset[str]().union(*map(names, tree[1:])) if isinstance(tree, list) else frozenset()


def affine(tree: Tree, known: Mapping[str, int]) -> tuple[str, int, int] | None:
    """Return the one unknown name of *tree*, its factor and the constant; None if *tree* is not of that form."""
    unknown = names(tree) - known.keys()
    if len(unknown) != 1:
        return None
    (name,) = unknown
    form = _affine(tree, name, known)
    return None if form is None or not form[0] else (name, *form)


def _affine(tree: Tree, name: str, known: Mapping[str, int]) -> tuple[int, int] | None:
    """Return factor and constant of *tree* as an affine form of *name*."""
    if name not in names(tree):
        return 0, value(tree, known)
    match tree:
        case str():
            return 1, 0
        case ["+", *terms]:
            parts = [_affine(term, name, known) for term in terms]
            found = [part for part in parts if part is not None]
            return (sum(a for a, _ in found), sum(b for _, b in found)) if len(found) == len(parts) else None
        case ["*", one, other]:
            first, second = _affine(one, name, known), _affine(other, name, known)
            if first is None or second is None or (first[0] and second[0]):
                return None
            (factor, constant), (_, by) = (first, second) if first[0] else (second, first)
            return factor * by, constant * by
        case _:
            return None


def c_text(tree: Tree, spelling: Mapping[str, str], mark: str) -> str:
    """Return the text of *tree* in C, of type ``int64_t``.

    Parameters
    ----------
    spelling
        The variables of the names, of type ``int64_t``.
    mark
        Prefix of the functions ``plus``, ``times``, ``floor_div``, ``modulo``, ``min`` and ``max``, and of the variable
        ``wide`` that they set where a result does not fit.
    """

    def text(part: Tree) -> str:
        return c_text(part, spelling, mark)

    def folded(name: str, operands: list[Tree]) -> str:
        first, *others = operands
        found = text(first)
        for operand in others:
            found = f"{mark}{name}({found}, {text(operand)}, &{mark}wide)"
        return found

    match tree:
        case int() | str():
            return spelling[tree] if isinstance(tree, str) else f"INT64_C({tree})" if abs(tree) >= 2**31 else str(tree)
        case ["not", operand]:
            return f"!({text(operand)})"
        case ["if", condition, then, otherwise]:
            return f"({text(condition)} ? {text(then)} : {text(otherwise)})"
        case ["and" | "or" as word, *operands]:
            return "(" + (" && " if word == "and" else " || ").join(map(text, operands)) + ")"
        case [operator, one, other] if operator in _COMPARISONS:
            return f"({text(one)} {operator} {text(other)})"
        case [operator, *operands]:
            return folded(_FUNCTIONS[operator], operands)
        case _:
            raise AssertionError(f"no expression: {tree!r}")
