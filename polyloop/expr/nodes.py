"""Expression nodes: pymbolic's, plus the ones that loop programs need.

polyloop expressions are pymbolic trees (``Variable``, ``Subscript``, ``Sum``, ``Product``,
``Quotient``, ``FloorDiv``, ``Remainder``, ``Power``, ``Comparison``, ``LogicalAnd`` / ``Or`` /
``Not``, ``If``, ``Min``, ``Max``, ``Call``, the bitwise nodes) with Python numbers and NumPy
scalars as constants, and the nodes defined here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from pymbolic.primitives import ExpressionNode, Product, expr_dataclass

__all__ = [
    "LINEAR",
    "CText",
    "Expression",
    "Extreme",
    "Lookup",
    "Neutral",
    "Node",
    "Operation",
    "Record",
    "Reduction",
    "Shared",
    "Targets",
    "Terms",
    "TypeCast",
    "added",
    "array_name",
    "element_of",
    "field_path",
    "function_name",
    "negate",
    "opposite",
    "sign_first",
    "subtrahend",
    "targets_of",
]

Expression: TypeAlias = Any
"""A pymbolic node, a Python number or a NumPy scalar."""


class Extreme(Enum):
    """A neutral element that depends on the type."""

    LEAST = "least"
    """The least value of the type: minus infinity of floating-point types, False of bool."""
    GREATEST = "greatest"
    """The greatest value of the type: infinity of floating-point types, True of bool."""


Neutral: TypeAlias = bool | int | float | Extreme
"""Value of a field in the state of no terms."""


@dataclass(frozen=True)
class Operation:
    """An associative operation of a reduction, as data that every target can carry out.

    Attributes
    ----------
    name
        A C identifier.
    combine
        The combination of the states ``a`` and ``b``, where the terms of ``a`` come first: one expression, or one for
        each field. Empty for ``sum``, ``product``, ``max``, ``min``, ``any`` and ``all``, which targets know by name.
    neutral
        The state of no terms; one value for each field.
    fields
        Names of the fields of the state, if it is a record.
    record
        Name of the record's type in generated code.
    ordered
        Whether the terms are combined in their order. If not, the operation is commutative too.
    text
        How kernels spell it, if not by its name: ``ordered(sum)``.
    of_states
        True if the operands are states: results of partial reductions, made by transforms from one reduction.
    reassociable
        Whether terms may be combined in groups, as associativity allows: not for ``ordered(sum)``.
    """

    name: str
    combine: tuple[Expression, ...]
    neutral: tuple[Neutral, ...]
    fields: tuple[str, ...] = ()
    record: str = ""
    ordered: bool = False
    text: str = ""
    of_states: bool = False
    reassociable: bool = True

    def __str__(self) -> str:
        return self.text or self.name


LINEAR: Final = "[]"
"""Function whose call is the subscript of ``a[[e]]``, the element at an offset, until the shape of ``a`` is known."""


class Node(ExpressionNode):
    """Base of this package's nodes, whose ``str`` is :func:`polyloop.expr.printer.show`."""

    show: ClassVar[Callable[[Expression], str]] = repr

    def make_stringifier(self, originating_stringifier: object = None) -> Callable[..., str]:
        """Return the stringifier that :mod:`pymbolic` calls for the node."""
        del originating_stringifier
        return lambda expr, *_: type(self).show(expr)


@expr_dataclass()
class Reduction(Node):
    """``operation`` over all values of ``inames`` of ``expr``: ``sum(k, a[k])``.

    ``expr`` is :class:`Terms` where the state of the operation has fields, and the state itself where the operation is
    ``of_states``: ``sum(k_outer, sum(k_inner, a[..]))``, of which the inner one is a partial reduction. The order of
    the terms is free, unless the operation is ``ordered``: then it is that of the values of ``inames``, the last of
    which runs fastest.

    Transforms make reductions that begin with the state ``start``, and scans: there the accumulator is kept along the
    loops over ``along``, inames of the instruction, and takes in the terms of each iteration before the instruction
    uses it, or, with ``after``, after.
    """

    operation: Operation
    inames: tuple[str, ...]
    expr: Expression
    start: Expression | None = None
    along: tuple[str, ...] = ()
    after: bool = False


@expr_dataclass()
class Terms(Node):
    """Operands of a reduction, one for each field of its state: ``abs(a[i]), i`` in ``argmax(i, abs(a[i]), i)``."""

    children: tuple[Expression, ...]


@expr_dataclass()
class TypeCast(Node):
    """``cast(float32, e)``: the value of ``child`` converted to the NumPy type named ``dtype``."""

    dtype: str
    child: Expression


@expr_dataclass()
class Lookup(Node):
    """``a[i].re``: the field ``field`` of the record ``aggregate``."""

    aggregate: Expression
    field: str

    @property
    def name(self) -> str:
        """The field, as :mod:`pymbolic`'s printer asks for it."""
        return self.field


@expr_dataclass()
class Record(Node):
    """``make_float4(a, b, c, d)``: a record of type ``dtype``, whose fields have ``values``, in order."""

    dtype: np.dtype[Any]
    values: tuple[Expression, ...]


@expr_dataclass()
class Shared(Node):
    """``cse(e, name)``: the value of ``child``, which a statement computes once; gone when a kernel is made."""

    child: Expression
    name: str | None


_JUMPS: Final = "if|else|for|while|do|switch|goto|return|break|continue"
_BRANCH: Final = re.compile(rf"[{{}}?:#]|&&|\|\||(?<!\w)(?:{_JUMPS})(?!\w)", re.ASCII)
"""Signs and words that may keep the rest of a C text from running."""


@expr_dataclass()
class CText(Node):
    """C text of the user's with its operands (:class:`polyloop.CInstruction`).

    ``names`` stand in ``code`` for ``values``; a value that is a whole array is read anywhere.  ``reads`` are elements
    that are read besides; ``touched`` are the names that the variables of the targets and ``reads`` have in ``code``.
    All threads of a block have to reach a ``convergent`` one together.
    """

    code: str
    names: tuple[str, ...]
    values: tuple[Expression, ...]
    reads: tuple[Expression, ...]
    touched: tuple[str, ...]
    convergent: bool = False

    def sets(self, name: str) -> bool:
        """Return whether the text surely assigns the variable *name* before it may use it.

        It does where ``name = ..`` is its first mention, a statement behind nothing but simple statements.
        """
        mention = re.search(rf"(?<![\w.>]){re.escape(name)}(?!\w)", self.code)
        if name in self.names or mention is None or re.match(r"\s*=(?!=)", self.code[mention.end() :]) is None:
            return False
        before = self.code[: mention.start()]
        simple = _BRANCH.search(before) is None and (not before.strip() or before.rstrip().endswith(";"))
        value = self.code[mention.end() :].partition(";")[0]
        return simple and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", value) is None


@expr_dataclass()
class Targets(Node):
    """The variables and elements that C text may assign: none, one, or several."""

    elements: tuple[Expression, ...]


def targets_of(assignee: Expression, name: str | None = None) -> tuple[Expression, ...]:
    """Return the targets of a left-hand side, or only those of the variable *name*."""
    found: tuple[Expression, ...] = assignee.elements if type(assignee) is Targets else (assignee,)
    return found if name is None else tuple(target for target in found if array_name(target) == name)


def negate(expr: Expression) -> Expression:
    """Return ``-expr``, as the parser builds it: a negative constant, or a product led by -1."""
    kind = type(expr)
    if _is_signed_number(expr):
        return complex(0.0, -expr.imag) if kind is complex and not expr.real else -expr
    if kind is Product:
        first, *rest = expr.children
        if type(first) is int and first == -1 and rest:
            return rest[0] if len(rest) == 1 else Product(tuple(rest))
        if _is_signed_number(first):
            return Product((negate(first), *rest))
        return Product((-1, *expr.children))
    return Product((-1, expr))


def subtrahend(term: Expression) -> Expression | None:
    """Return the operand that a term of a sum, not the first, subtracts: ``b`` for ``-1*b``, ``2*b`` for ``-2*b``.

    ``a - b`` is a sum whose second term is ``-1*b``; that ``b`` is converted to the type of the sum before it is
    subtracted matters where its own type has no negative numbers.
    """
    if type(term) is Product and type(term.children[0]) is int and term.children[0] < 0 and len(term.children) > 1:
        return negate(term)
    return None


def added(term: Expression) -> Expression:
    """Return *term* as a sum has it that adds it: ``b*-1`` for ``-1*b``, ``(2*b)*-1`` for ``-2*b``.

    ``w + -u`` is no difference: of an unsigned ``u``, the opposite is a large number, which is added.
    """
    if subtrahend(term) is None:
        return term
    number, first, *rest = term.children
    return Product((first if number == -1 else Product((-number, first)), -1, *rest))


def opposite(term: Expression) -> Expression | None:
    """Return ``b`` for the negated term ``b*-1`` that :func:`added` makes in the type of ``b``, None for others."""
    if type(term) is not Product or len(term.children) == 1 or _is_signed_number(term.children[0]):
        return None
    first, second, *rest = term.children
    if type(second) is not int or second != -1:
        return None
    return Product((first, *rest)) if rest else first


def sign_first(product: Expression) -> tuple[Expression, ...]:
    """Return the factors of a product, a -1 first: ``-1*b*c`` for ``b*-1*c``, which is the same in one type."""
    return product.children if opposite(product) is None else (-1, product.children[0], *product.children[2:])


def _is_signed_number(expr: Expression) -> bool:
    return type(expr) in (int, float, complex) or isinstance(expr, np.inexact | np.signedinteger)


def array_name(expr: Expression) -> str:
    """Return the name that a variable or a subscript accesses, or a field of one."""
    element: Expression = element_of(expr)
    variable: Expression = getattr(element, "aggregate", element)
    name = variable.name
    assert isinstance(name, str), f"{expr} accesses no variable"
    return name


def function_name(expr: Expression) -> str:
    """Return the name of the function that a call calls."""
    name = expr.function.name
    assert isinstance(name, str), f"{expr} calls no named function"
    return name


def element_of(expr: Expression) -> Expression:
    """Return the variable or subscript of a (nested) field access; *expr* itself if it accesses no field."""
    element: Expression = expr
    while type(element) is Lookup:
        element = element.aggregate
    return element


def field_path(expr: Expression) -> tuple[str, ...]:
    """Return the names of the fields that lead from :func:`element_of` to *expr*: ``("pos", "x")``."""
    path: list[str] = []
    while type(expr) is Lookup:
        path.insert(0, expr.field)
        expr = expr.aggregate
    return tuple(path)
